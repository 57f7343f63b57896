//! The parameters in the path of a request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lockhouse::BucketKey;
use lockhouse_wire::decode::{Field, FieldValue, Violation};

use super::constraints::OWNER;
use super::decode::ApiResult;
use super::headers::idempotency_key;
use crate::http::access::Caller;
use crate::http::problem::{Code, Problem};
use crate::state::AppState;

/// The bucket of the path.
#[derive(Clone, Debug)]
pub(crate) struct InBucket(pub(crate) Arc<BucketKey>);

/// The owner of the path, in its bucket.
#[derive(Clone, Debug)]
pub(crate) struct OfOwner {
    pub(crate) bucket: Arc<BucketKey>,
    pub(crate) owner: u64,
}

impl FromRequestParts<Arc<AppState>> for InBucket {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> ApiResult<Self> {
        let caller = Caller::of(parts)?;
        idempotency_key(&parts.headers)?;
        let none = || Problem::new(Code::Internal, "the path names no bucket");
        caller.bucket.clone().map(Self).ok_or_else(none)
    }
}

impl FromRequestParts<Arc<AppState>> for OfOwner {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> ApiResult<Self> {
        let InBucket(bucket) = InBucket::from_request_parts(parts, state).await?;
        let text = Caller::of(parts)?.owner.as_deref().ok_or_else(|| Problem::bad_path("owner"))?;
        let wrong = || Violation::new("owner", &format!("{text:?}"), OWNER.words());
        Ok(Self { bucket, owner: owner_number(text).ok_or_else(wrong)? })
    }
}

/// Reads the id of an owner.
pub(crate) fn owner<'a>(field: Field<'_, impl FieldValue<'a>>) -> Result<u64, Violation> {
    field.parse(|| OWNER.words(), |text| owner_number(&text))
}

fn owner_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| OWNER.admits(text))
}
