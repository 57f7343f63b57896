//! Bodies of requests about owners, and of the answers.

use std::fmt;

use lockhouse::OwnerEntry;
use lockhouse_wire::decode::Violation;
use serde::Serialize;
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::http::dto::At;
use crate::http::locks::bodies::HeldLock;
use crate::http::request::constraints::{LABEL, METADATA, OWNER_MAX_MS, OWNER_TTL_MS, PAGE};
use crate::http::request::decode::{ApiResult, FromMembers, Members};
use crate::http::request::parameters::Parameters;
use crate::http::request::path;
use crate::http::request::schema::{ObjectSchema, RuleSchema};

/// An owner to be.
#[derive(Clone, Debug)]
pub(crate) struct NewOwner {
    pub(crate) label: String,
    pub(crate) metadata: Option<String>,
    pub(crate) ttl_ms: u64,
    pub(crate) max_ms: Option<u64>,
}

impl FromMembers for NewOwner {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self {
            label: members.field("label").string(&LABEL)?,
            metadata: members.field("metadata").string_if_any(&METADATA)?,
            ttl_ms: members.field("ttlMs").number_if_any(&OWNER_TTL_MS)?.unwrap_or(OWNER_TTL_MS.example),
            max_ms: members.field("maxMs").number_if_any(&OWNER_MAX_MS)?,
        })
    }
}

impl PartialSchema for NewOwner {
    fn schema() -> RefOr<Schema> {
        let about_ttl = format!(
            "How long it lives without any activity; {} without it. Each call of its own that succeeds is one, also to ask for itself.",
            OWNER_TTL_MS.example
        );
        ObjectSchema::new("An owner to be.")
            .needs(
                "label",
                LABEL.schema(),
                "What it is called, such as the name of the user: shown to those who are refused.",
            )
            .may("metadata", METADATA.schema(), "What else it says of itself, shown to others.")
            .may("ttlMs", OWNER_TTL_MS.schema(), &about_ttl)
            .may("maxMs", OWNER_MAX_MS.schema(), "How long it lives at most, whatever it does.")
            .example(json!({"label": "Anna, customer care", "ttlMs": 1_200_000}))
            .build()
    }
}

impl ToSchema for NewOwner {}

/// An owner, as the caller that began it gets it.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenedOwner {
    /// Its id, which is no secret.
    #[schema(example = "17")]
    pub(crate) owner: String,
    /// What every call of the owner needs, as `Authorization: Bearer …`. It is told only here.
    pub(crate) owner_secret: String,
    /// What it is called.
    pub(crate) label: String,
    /// How long it lives without any activity.
    pub(crate) ttl_ms: u64,
    /// When it ends unless more is heard of it.
    pub(crate) expires_at: At,
    /// When it ends at the latest.
    #[schema(value_type = Option<At>)]
    pub(crate) ends_at: Option<At>,
}

impl fmt::Debug for OpenedOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedOwner").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// A sign of life was taken note of.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Beat {
    /// The owner.
    #[schema(example = "17")]
    pub(crate) owner: String,
    /// When it ends unless more is heard of it.
    pub(crate) expires_at: At,
}

/// An owner and its locks.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerState {
    /// Its id.
    #[schema(example = "17")]
    pub(crate) owner: String,
    /// What it is called.
    pub(crate) label: String,
    /// What else it said of itself.
    pub(crate) metadata: Option<String>,
    /// When it began.
    pub(crate) since: At,
    /// How long it lives without any activity.
    pub(crate) ttl_ms: u64,
    /// When it ends unless more is heard of it.
    pub(crate) expires_at: At,
    /// When it ends at the latest.
    #[schema(value_type = Option<At>)]
    pub(crate) ends_at: Option<At>,
    /// What it holds.
    pub(crate) locks: Vec<HeldLock>,
}

/// An owner among others, without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedOwner {
    /// Its id.
    #[schema(example = "17")]
    owner: String,
    /// What it is called.
    label: String,
    /// When it began.
    since: At,
    /// When it ends unless more is heard of it.
    expires_at: At,
    /// When it ends at the latest.
    #[schema(value_type = Option<At>)]
    ends_at: Option<At>,
    /// What else it said of itself.
    metadata: Option<String>,
    /// How many locks it has.
    locks: u32,
}

/// A page of owners, the oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedOwners {
    /// At most as many as asked for. There may be fewer, or none, before the last page.
    #[schema(max_items = 1000)]
    pub(crate) owners: Vec<ListedOwner>,
    /// The `cursor` of the next page; `null` on the last.
    #[schema(example = "17")]
    pub(crate) next: Option<String>,
}

impl From<OwnerEntry> for ListedOwner {
    fn from(it: OwnerEntry) -> Self {
        Self {
            owner: it.owner.to_string(),
            label: it.label,
            since: At(it.since),
            expires_at: At(it.expires_at),
            ends_at: it.ends_at.map(At),
            metadata: it.metadata,
            locks: it.locks,
        }
    }
}

/// A question for owners.
#[derive(Clone, Debug)]
pub(crate) struct OwnersQuestion {
    pub(crate) label: Option<String>,
    pub(crate) limit: usize,
    /// The last owner of the page before.
    pub(crate) after: Option<u64>,
}

impl OwnersQuestion {
    pub(crate) fn read(parameters: &Parameters<'_>) -> ApiResult<Self> {
        let limit = parameters.field("limit")?.number_if_any(&PAGE)?.unwrap_or(PAGE.example);
        Ok(Self {
            label: parameters.field("label")?.string_if_any(&LABEL)?,
            limit: limit as usize,
            after: parameters.field("cursor")?.if_any(path::owner)?,
        })
    }
}
