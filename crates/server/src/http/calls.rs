//! The needs of every call of the API: its bucket, its owner, and its price.

use lockhouse::core::OwnerId;
use lockhouse::fleet::BucketPlace;
use lockhouse::{Bucket, BucketKey, Owner, OwnerError, Secret};

use super::access::charge_more;
use super::dto::At;
use super::problem::{Code, Problem};
use super::request::asker::PresentedSecret;
use super::request::decode::ApiResult;
use crate::bounds::WARM_FOR;
use crate::limits::Refused;
use crate::state::{AppState, Phase};

/// The owner that a call speaks for, and its secret.
pub(crate) struct OwnerKey {
    pub(crate) owner: u64,
    pub(crate) secret: PresentedSecret,
}

/// Every call comes here once.
pub(crate) fn bucket(state: &AppState, key: &BucketKey) -> ApiResult<Bucket> {
    let BucketPlace::Here(house) = state.houses.find(key) else { return Err(Problem::moving()) };
    let make = || state.bucket_within_limit(&house, key);
    let bucket = state.warm_buckets.bucket(&house, key, make).ok_or_else(|| {
        let most = state.limiter.settings().buckets_per_tenant;
        state.limiter.refuse(Refused::BucketsPerTenant);
        let rule =
            format!("one of at most {most} of a tenant that are in use at once (limits.buckets_per_tenant)");
        Problem::field(Code::QuotaExceeded, "bucket", rule).retry_after(WARM_FOR)
    })?;
    if state.phase() != Phase::Running {
        // The bucket may have come after all others were closed.
        bucket.close();
    }
    Ok(bucket)
}

/// Charges for a call that names so many locks: it costs as much as so many calls with one.
pub(crate) fn charge_locks(state: &AppState, key: &BucketKey, count: usize) -> ApiResult<()> {
    charge_more(state, key.tenant(), count.saturating_sub(1))
}

/// The owner, if that is its secret. Only the call that follows counts as activity, if it succeeds.
pub(crate) async fn resume(state: &AppState, bucket: &Bucket, key: &OwnerKey) -> ApiResult<Owner> {
    let resumed = match key.secret.text.parse::<Secret>() {
        Ok(secret) => bucket.identify_owner(OwnerId::new(key.owner), &secret).await,
        // A text that is no secret at all is the secret of no owner.
        Err(_) => Err(OwnerError::WrongSecret),
    };
    resumed.map_err(|error| {
        if error == OwnerError::WrongSecret {
            key.secret.asker.deny(state, &key.owner, &"not the secret of the owner");
        }
        error.into()
    })
}

/// When the owner ends unless it is active before.
pub(crate) async fn expiry(bucket: &Bucket, owner: &Owner) -> ApiResult<At> {
    let info = bucket.look_at_owner(owner.id()).await?.ok_or_else(Problem::unknown_owner)?;
    Ok(At(info.expires_at))
}

/// As [`expiry`], after a change that is kept; `before` if the house has ended meanwhile, and says no more.
/// The answer must not be that nothing has happened.
pub(crate) async fn expiry_or(bucket: &Bucket, owner: &Owner, before: At) -> ApiResult<At> {
    match bucket.look_at_owner(owner.id()).await {
        Ok(info) => info.map(|info| At(info.expires_at)).ok_or_else(Problem::unknown_owner),
        Err(_) => Ok(before),
    }
}
