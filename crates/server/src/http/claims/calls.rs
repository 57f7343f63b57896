//! The API's calls about claims.

use std::time::Duration;

use lockhouse::{BucketKey, ClaimError, Name, Secret};

use super::bodies::{ClaimKey, ClaimState, Claimed, NewClaim, Renewed};
use crate::audit::DisplayName;
use crate::http::calls::bucket;
use crate::http::dto::{Assignment, At, JsonName};
use crate::http::problem::Problem;
use crate::http::request::asker::Asker;
use crate::http::request::decode::ApiResult;
use crate::state::AppState;

/// The key by which a claim is found again.
pub(crate) enum FoundBy {
    /// A `claimKey`, which is a secret and may be shared on purpose.
    Secret(String),
    /// An `Idempotency-Key`, which is none: others may use the same.
    CallersKey { caller: String, key: String },
}

pub(crate) async fn claim(
    state: &AppState,
    key: &BucketKey,
    new: NewClaim,
    found_by: Option<FoundBy>,
) -> ApiResult<Claimed> {
    let claims = bucket(state, key)?.claims();
    let mut claiming = claims.claim(new.resource.as_name(), new.claimant, Duration::from_millis(new.ttl_ms));
    if let Some(metadata) = new.metadata {
        claiming = claiming.metadata(metadata);
    }
    claiming = match found_by {
        Some(FoundBy::Secret(key)) => claiming.idempotency_key(key),
        Some(FoundBy::CallersKey { caller, key }) => claiming.idempotency_key_of(&caller, &key),
        None => claiming,
    };
    let claim = claiming.await?;
    Ok(Claimed {
        resource: JsonName(new.resource),
        claimant: claim.claimant().to_owned(),
        token: claim.token().reveal(),
        expires_at: At(claim.expires_at()),
        fencing_token: claim.fencing_token().get(),
    })
}

/// Text that is no token at all is the token of no claim; which of the two errors that is depends on whether
/// there is one.
async fn token(claims: &lockhouse::Claims, key: &ClaimKey) -> Result<Secret, ClaimError> {
    if let Ok(token) = key.token.parse() {
        return Ok(token);
    }
    let resource = key.resource.as_name();
    if claims.get(resource).await?.is_some() {
        return Err(ClaimError::ClaimLost { assigned: None });
    }
    Err(match claims.assignment(resource).await? {
        Some(assignment) => ClaimError::ClaimLost { assigned: Some(Box::new(assignment)) },
        None => ClaimError::ClaimExpired,
    })
}

/// Where no claim stands there is nothing to be had by a token, and a former claimant that comes late with
/// its own does no wrong. Where a claim of another stands, a former token cannot be distinguished from one
/// that was made up.
fn refuse_token(state: &AppState, asker: &Asker, key: &ClaimKey, error: ClaimError) -> Box<Problem> {
    if error == (ClaimError::ClaimLost { assigned: None }) {
        asker.deny(state, &DisplayName(key.resource.as_name()), &"not the token of the claim that stands");
    }
    error.into()
}

pub(crate) async fn renew(
    state: &AppState,
    bucket_key: &BucketKey,
    key: &ClaimKey,
    asker: &Asker,
) -> ApiResult<Renewed> {
    let refused = |error| refuse_token(state, asker, key, error);
    let claims = bucket(state, bucket_key)?.claims();
    let token = token(&claims, key).await.map_err(refused)?;
    let expires_at = claims.renew(key.resource.as_name(), &token).await.map_err(refused)?;
    Ok(Renewed { resource: JsonName(key.resource.clone()), expires_at: At(expires_at) })
}

pub(crate) async fn release(
    state: &AppState,
    bucket_key: &BucketKey,
    key: &ClaimKey,
    asker: &Asker,
) -> ApiResult<()> {
    let refused = |error| refuse_token(state, asker, key, error);
    let claims = bucket(state, bucket_key)?.claims();
    let token = token(&claims, key).await.map_err(refused)?;
    claims.release(key.resource.as_name(), &token).await.map_err(refused)
}

pub(crate) async fn finalize(
    state: &AppState,
    bucket_key: &BucketKey,
    key: &ClaimKey,
    asker: &Asker,
) -> ApiResult<Assignment> {
    let refused = |error| refuse_token(state, asker, key, error);
    let claims = bucket(state, bucket_key)?.claims();
    let token = token(&claims, key).await.map_err(refused)?;
    claims.finalize(key.resource.as_name(), &token).await.map(Assignment::from).map_err(refused)
}

pub(crate) async fn current_claim(
    state: &AppState,
    key: &BucketKey,
    resource: Name<'_>,
) -> ApiResult<Option<ClaimState>> {
    let claim = bucket(state, key)?.claims().get(resource).await?;
    Ok(claim.map(|claim| ClaimState {
        resource: JsonName(claim.resource),
        claimant: claim.claimant,
        since: At(claim.since),
        expires_at: At(claim.expires_at),
        fencing_token: claim.fencing_token.get(),
        metadata: claim.metadata,
    }))
}
