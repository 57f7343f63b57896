//! `claims` and `assignments`: reserve now, prepare, make it final only if it is still mine.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use lockhouse::NameBuf;
use serde::Serialize;
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Schema;
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::BASE;
use super::access::Caller;
use super::body::JsonBody;
use super::desk;
use super::entries::parameter;
use super::idempotency::GivenKey;
use super::parameters::{Asker, InBucket, Parameters};
use super::problem::{Code, Problem};
use super::read::{FromMembers, Members, Read};
use super::rules::{self, CLAIM_KEY, CLAIM_TTL_MS, LABEL, METADATA, REASON, RESOURCE, SECRET, TOKEN};
use super::views::{At, JsonName};
use crate::audit::{self, Deed, Named};
use crate::auth::Identity;
use crate::state::AppState;

/// A claim to be.
#[derive(Clone)]
pub(super) struct NewClaim {
    pub(super) resource: NameBuf,
    pub(super) claimant: String,
    pub(super) ttl_ms: u64,
    pub(super) metadata: Option<String>,
    /// By which the claim is found again.
    pub(super) key: Option<String>,
}

impl fmt::Debug for NewClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewClaim").field("resource", &self.resource).finish_non_exhaustive()
    }
}

/// A claim that its claimant speaks of.
#[derive(Clone)]
pub(super) struct ClaimKey {
    pub(super) resource: NameBuf,
    pub(super) token: String,
}

impl FromMembers for NewClaim {
    fn read(members: &Members<'_>) -> Read<Self> {
        Ok(Self {
            resource: members.resource("resource")?,
            claimant: members.text("claimant", &LABEL)?,
            ttl_ms: members.number_if_any("ttlMs", &CLAIM_TTL_MS)?.unwrap_or(CLAIM_TTL_MS.example),
            metadata: members.text_if_any("metadata", &METADATA)?,
            key: members.secret_if_any("claimKey", &CLAIM_KEY)?,
        })
    }
}

impl FromMembers for ClaimKey {
    fn read(members: &Members<'_>) -> Read<Self> {
        Ok(Self { resource: members.resource("resource")?, token: members.secret("token", &SECRET)? })
    }
}

impl PartialSchema for NewClaim {
    fn schema() -> RefOr<Schema> {
        let ttl = CLAIM_TTL_MS.schema().default(Some(CLAIM_TTL_MS.example.into()));
        rules::Members::new("A claim to be.")
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
            .may("ttlMs", ttl, "How long the claim lasts unless it is renewed.")
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
        rules::Members::new("A claim, and the token that proves it.")
            .needs("resource", RESOURCE.schema(), "What was claimed.")
            .needs("token", SECRET.schema(), "The token that was told with the claim.")
            .build()
    }
}

impl ToSchema for ClaimKey {}

/// A claim, as told to its claimant.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claimed {
    /// What is claimed.
    pub(super) resource: JsonName,
    /// Who claims.
    pub(super) claimant: String,
    /// What renewing, releasing and finalizing need. It is told only here.
    pub(super) token: String,
    /// When the claim ends unless it is renewed.
    pub(super) expires_at: At,
    /// Higher than that of every earlier grant in the bucket.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(super) fencing_token: u64,
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed").field("resource", &self.resource).finish_non_exhaustive()
    }
}

/// A claim that lasts longer.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Renewed {
    /// What is claimed.
    pub(super) resource: JsonName,
    /// When the claim ends unless it is renewed again.
    pub(super) expires_at: At,
}

/// A claim that is over.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReleasedClaim {
    /// What is free.
    pub(super) resource: JsonName,
    /// Always true.
    pub(super) released: bool,
}

/// A current claim, as everybody may see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimState {
    /// What is claimed.
    pub(super) resource: JsonName,
    /// Who claims it.
    pub(super) claimant: String,
    /// When it began.
    pub(super) since: At,
    /// When it ends unless it is renewed.
    pub(super) expires_at: At,
    /// The fencing token.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(super) fencing_token: u64,
    /// What the claimant said of it.
    pub(super) metadata: Option<String>,
}

/// Whether an assignment was taken back.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unassigned {
    /// False if there was none.
    pub(super) unassigned: bool,
}

/// A claim that became final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Assignment {
    /// What is assigned.
    pub(super) resource: JsonName,
    /// To whom.
    pub(super) claimant: String,
    /// Since when.
    pub(super) assigned_at: At,
    /// The fencing token of the claim.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(super) fencing_token: u64,
}

fn of_resource() -> Parameter {
    let parameter = ParameterBuilder::from(parameter("resource", RESOURCE.schema(), "The resource."));
    parameter.required(Required::True).build()
}

struct GetParameters;

impl IntoParams for GetParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![of_resource()]
    }
}

struct DeleteParameters;

impl IntoParams for DeleteParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![
            of_resource(),
            parameter("fencingToken", TOKEN.schema(), "Only the assignment with this token."),
            parameter("reason", REASON.schema(), "Why, for the audit log."),
        ]
    }
}

/// Claim a resource
///
/// A reservation that ends by itself, unless it is renewed or made final. With an `Idempotency-Key`, claiming again is answered to the
/// same caller with the same claim while it lives, even over a restart of the server.
#[utoipa::path(
    post, context_path = BASE, path = "/claims", tag = "claims", operation_id = "claim", request_body = NewClaim,
    responses(
        (status = 201, description = "The resource is claimed.", body = Claimed),
        (status = 409, description = "`claimed` by somebody else, `busy` in another way, `already_assigned`, or \
            `conflict_in_flight`. `holders` tells who, never by which token."),
        (status = 503, description = "`recovering`, `unavailable`, `closing`."),
    ),
)]
pub(super) async fn claim(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    InBucket(bucket): InBucket,
    GivenKey(key): GivenKey,
    JsonBody(mut new): JsonBody<NewClaim>,
) -> Read<(StatusCode, Json<Claimed>)> {
    let found_by = new.key.take().or_else(|| key.map(|key| of_caller(&state, &caller.identity, key)));
    let claimed = desk::claim(&state, &bucket, new, found_by).await?;
    Ok((StatusCode::CREATED, Json(claimed)))
}

/// By which a claim is found again that came with this `Idempotency-Key`: by that and its caller, where callers are told apart. A `claimKey` is a secret, which
/// may be shared on purpose; an `Idempotency-Key` is none, and others may use the same.
fn of_caller(state: &AppState, identity: &Identity, idempotency_key: String) -> String {
    if state.authority().is_open() {
        return idempotency_key;
    }
    // Filled up so that the whole is longer than any `claimKey`: nobody else can name it as one.
    let width = CLAIM_KEY.most;
    format!("{idempotency_key:<width$}{}", identity.name)
}

/// Show a claim
///
/// Who claims a resource, and until when; never the token.
#[utoipa::path(
    get, context_path = BASE, path = "/claims", tag = "claims", operation_id = "getClaim", params(GetParameters),
    responses(
        (status = 200, description = "The current claim.", body = ClaimState),
        (status = 404, description = "`not_found`: the resource is not claimed."),
    ),
)]
pub(super) async fn show(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> Read<Json<ClaimState>> {
    let resource = Parameters::parse(&uri)?.resource("resource")?;
    let claim = desk::current_claim(&state, &bucket, resource.as_name()).await?;
    claim.map(Json).ok_or_else(|| Problem::new(Code::NotFound, "the resource is not claimed"))
}

/// Renew a claim
///
/// Its TTL runs anew from now.
#[utoipa::path(
    post, context_path = BASE, path = "/claims/renew", tag = "claims", operation_id = "renewClaim", request_body = ClaimKey,
    responses(
        (status = 200, description = "The claim lasts longer.", body = Renewed),
        (status = 409, description = "`claim_lost`: another claim stands. Or `conflict_in_flight`."),
        (status = 410, description = "`claim_expired`: no claim stands."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(super) async fn renew(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    JsonBody(key): JsonBody<ClaimKey>,
) -> Read<Json<Renewed>> {
    desk::renew(&state, &bucket, &key, &asker).await.map(Json)
}

/// Release a claim
///
/// The resource is free at once. Releasing again is `claim_expired`.
#[utoipa::path(
    post, context_path = BASE, path = "/claims/release", tag = "claims", operation_id = "releaseClaim", request_body = ClaimKey,
    responses(
        (status = 200, description = "The claim is over.", body = ReleasedClaim),
        (status = 409, description = "`claim_lost`: another claim stands. Or `conflict_in_flight`."),
        (status = 410, description = "`claim_expired`: no claim stands."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(super) async fn release(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    JsonBody(key): JsonBody<ClaimKey>,
) -> Read<Json<ReleasedClaim>> {
    desk::release(&state, &bucket, &key, &asker).await?;
    Ok(Json(ReleasedClaim { resource: JsonName(key.resource), released: true }))
}

/// Make a claim final
///
/// Succeeds only if, at that moment, the claim stands. Finalizing again is answered the same, until the assignment is deleted.
#[utoipa::path(
    post, context_path = BASE, path = "/claims/finalize", tag = "claims", operation_id = "finalizeClaim", request_body = ClaimKey,
    responses(
        (status = 200, description = "The resource is assigned for good.", body = Assignment),
        (status = 409, description = "`claim_lost`: another claim stands, which is not touched. Or `conflict_in_flight`."),
        (status = 410, description = "`claim_expired`: no claim stands."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(super) async fn finalize(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    JsonBody(key): JsonBody<ClaimKey>,
) -> Read<Json<Assignment>> {
    desk::finalize(&state, &bucket, &key, &asker).await.map(Json)
}

/// Show an assignment
#[utoipa::path(
    get, context_path = BASE, path = "/assignments", tag = "assignments", operation_id = "getAssignment", params(GetParameters),
    responses(
        (status = 200, description = "The assignment.", body = Assignment),
        (status = 404, description = "`not_found`: the resource is not assigned."),
    ),
)]
pub(super) async fn assignment(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> Read<Json<Assignment>> {
    let resource = Parameters::parse(&uri)?.resource("resource")?;
    let assignment = desk::assignment(&state, &bucket, resource.as_name()).await?;
    assignment.map(Json).ok_or_else(|| Problem::new(Code::NotFound, "the resource is not assigned"))
}

/// Take an assignment back
///
/// The resource can be claimed again. Where there is no such assignment, nothing happens.
#[utoipa::path(
    delete, context_path = BASE, path = "/assignments", tag = "assignments", operation_id = "deleteAssignment", params(DeleteParameters),
    responses(
        (status = 200, description = "There is no such assignment any more.", body = Unassigned),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(super) async fn unassign(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> Read<Json<Unassigned>> {
    let parameters = Parameters::parse(&uri)?;
    let (resource, token) = (parameters.resource("resource")?, parameters.number("fencingToken", &TOKEN)?);
    let reason = parameters.text("reason", &REASON)?;
    let unassigned = desk::unassign(&state, &bucket, resource.as_name(), token).await?;
    if unassigned {
        let deed = Deed {
            who: Some(&asker.caller.identity),
            what: "unassign",
            bucket: &bucket.bucket,
            name: Some(&Named(resource.as_name())),
        };
        audit::note(asker.from, &deed, None, reason);
    }
    Ok(Json(Unassigned { unassigned }))
}
