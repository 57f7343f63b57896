//! Bodies of requests about claims, and of the answers.

use std::fmt;

use lockhouse::NameBuf;
use lockhouse_wire::decode::Violation;
use serde::Serialize;
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::http::dto::{At, JsonName};
use crate::http::request::constraints::{CLAIM_KEY, CLAIM_TTL_MS, LABEL, METADATA, RESOURCE, SECRET};
use crate::http::request::decode::{FromMembers, Members};
use crate::http::request::schema::{ObjectSchema, RuleSchema};

/// A claim to be.
#[derive(Clone)]
pub(crate) struct NewClaim {
    pub(crate) resource: NameBuf,
    pub(crate) claimant: String,
    pub(crate) ttl_ms: u64,
    pub(crate) metadata: Option<String>,
    /// By which the claim is found again.
    pub(crate) key: Option<String>,
}

impl fmt::Debug for NewClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewClaim").field("resource", &self.resource).finish_non_exhaustive()
    }
}

/// A claim that its claimant speaks of.
#[derive(Clone)]
pub(crate) struct ClaimKey {
    pub(crate) resource: NameBuf,
    pub(crate) token: String,
}

impl FromMembers for NewClaim {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self {
            resource: members.field("resource").name(&RESOURCE)?,
            claimant: members.field("claimant").string(&LABEL)?,
            ttl_ms: members.field("ttlMs").number_if_any(&CLAIM_TTL_MS)?.unwrap_or(CLAIM_TTL_MS.example),
            metadata: members.field("metadata").string_if_any(&METADATA)?,
            key: members.field("claimKey").secret().string_if_any(&CLAIM_KEY)?,
        })
    }
}

impl FromMembers for ClaimKey {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        members.must_not_have(&["ttlMs"], "left out: the TTL of a claim stays as it began")?;
        Ok(Self {
            resource: members.field("resource").name(&RESOURCE)?,
            token: members.field("token").secret().string(&SECRET)?,
        })
    }
}

impl PartialSchema for NewClaim {
    fn schema() -> RefOr<Schema> {
        let ttl =
            format!("How long the claim lasts unless it is renewed; {} without it.", CLAIM_TTL_MS.example);
        ObjectSchema::new("A claim to be.")
            .needs(
                "resource",
                RESOURCE.schema(),
                "What is claimed. A lone surrogate is written as its escape.",
            )
            .needs(
                "claimant",
                LABEL.schema(),
                "Who claims: shown to those who are refused, and what an assignment tells.",
            )
            .may("ttlMs", CLAIM_TTL_MS.schema(), &ttl)
            .may("metadata", METADATA.schema(), "What is said of the claim, shown to others.")
            .may(
                "claimKey",
                CLAIM_KEY.schema(),
                "Whoever claims the same for the same claimant with the same key gets the same claim while it lives, and a new one \
                    after that. As good as the token. It goes before the `Idempotency-Key`, whose answer is repeated as it was.",
            )
            .example(json!({"resource": "seat/12a", "claimant": "Anna", "ttlMs": 60_000}))
            .build()
    }
}

impl ToSchema for NewClaim {}

impl PartialSchema for ClaimKey {
    fn schema() -> RefOr<Schema> {
        ObjectSchema::new("A claim, and the token that proves it.")
            .needs("resource", RESOURCE.schema(), "What was claimed.")
            .needs("token", SECRET.schema(), "The token that was told with the claim.")
            .build()
    }
}

impl ToSchema for ClaimKey {}

/// A claim, as told to its claimant.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Claimed {
    /// What is claimed.
    pub(crate) resource: JsonName,
    /// Who claims.
    pub(crate) claimant: String,
    /// What renewing, releasing and finalizing need. It is told only here.
    pub(crate) token: String,
    /// When the claim ends unless it is renewed.
    pub(crate) expires_at: At,
    /// Higher than that of every earlier grant in the bucket.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: u64,
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed").field("resource", &self.resource).finish_non_exhaustive()
    }
}

/// A claim that lasts longer.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Renewed {
    /// What is claimed.
    pub(crate) resource: JsonName,
    /// When the claim ends unless it is renewed again.
    pub(crate) expires_at: At,
}

/// A claim that is over.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleasedClaim {
    /// What is free.
    pub(crate) resource: JsonName,
    /// Always true.
    pub(crate) released: bool,
}

/// A current claim, as everybody may see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimState {
    /// What is claimed.
    pub(crate) resource: JsonName,
    /// Who claims it.
    pub(crate) claimant: String,
    /// When it began.
    pub(crate) since: At,
    /// When it ends unless it is renewed.
    pub(crate) expires_at: At,
    /// The fencing token.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: u64,
    /// What the claimant said of it.
    pub(crate) metadata: Option<String>,
}
