//! The API's calls about owners.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use lockhouse::core::OwnerId;
use lockhouse::{BucketKey, OwnerEntry};

use super::bodies::{Beat, ListedOwner, ListedOwners, NewOwner, OpenedOwner, OwnerState, OwnersQuestion};
use crate::http::calls::{OwnerKey, bucket, resume};
use crate::http::dto::{At, JsonAnswer};
use crate::http::locks::bodies::HeldLock;
use crate::http::problem::Problem;
use crate::http::query::snapshot::{charge, json_answer, look, reserve};
use crate::http::request::decode::ApiResult;
use crate::limits::{BUCKET_LIMITS, block_in_place_if_large, price_of_query};
use crate::state::AppState;

/// `found_by`: the caller, and the key by which it finds the owner again.
pub(crate) async fn open_owner(
    state: &AppState,
    key: &BucketKey,
    new: &NewOwner,
    found_by: Option<(&str, &str)>,
) -> ApiResult<OpenedOwner> {
    let (ttl, max_life) = (Duration::from_millis(new.ttl_ms), new.max_ms.map(Duration::from_millis));
    let bucket = bucket(state, key)?;
    let mut opening = bucket.owners().open(&*new.label, ttl);
    if let Some(max_life) = max_life {
        opening = opening.max_life(max_life);
    }
    if let Some(metadata) = &new.metadata {
        opening = opening.metadata(&**metadata);
    }
    if let Some((caller, key)) = found_by {
        opening = opening.idempotency_key_of(caller, key);
    }
    let begun = SystemTime::now();
    let owner = opening.await?;
    let (expires_at, ends_at) = match bucket.look_at_owner(owner.id()).await {
        Ok(info) => info.map(|info| (info.expires_at, info.ends_at)).ok_or_else(Problem::unknown_owner)?,
        // The house has ended meanwhile. The owner is kept, and its secret is told only here.
        Err(_) => (begun + max_life.map_or(ttl, |most| most.min(ttl)), max_life.map(|most| begun + most)),
    };
    Ok(OpenedOwner {
        owner: owner.id().to_string(),
        owner_secret: owner.secret().reveal(),
        label: new.label.clone(),
        ttl_ms: new.ttl_ms,
        expires_at: At(expires_at),
        ends_at: ends_at.map(At),
    })
}

pub(crate) async fn heartbeat(state: &AppState, key: &BucketKey, owner: &OwnerKey) -> ApiResult<Beat> {
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    let info = owner.info().await?.ok_or_else(Problem::unknown_owner)?;
    Ok(Beat { owner: owner.id().to_string(), expires_at: At(info.expires_at) })
}

pub(crate) async fn owner(state: &AppState, key: &BucketKey, owner: &OwnerKey) -> ApiResult<JsonAnswer> {
    let bucket = bucket(state, key)?;
    let owner = resume(state, &bucket, owner).await?;
    let id = owner.id().to_string();
    let mut seen = look(state, &bucket).await?;
    // The locks are in the owner's order: oldest first.
    let locks = owner.locks().await?.into_iter();
    let info = owner.info().await?.ok_or_else(Problem::unknown_owner)?;
    block_in_place_if_large(seen.size(), || {
        let mut of_owner: HashMap<_, _> = seen
            .take()
            .filter(|entry| entry.owner.as_ref() == Some(&id))
            .map(|entry| (entry.name.0.clone(), entry))
            .collect();
        let shown = OwnerState {
            locks: locks.filter_map(|lock| of_owner.remove(&lock.name).and_then(HeldLock::of)).collect(),
            owner: id,
            label: info.label,
            metadata: info.metadata,
            since: At(info.since),
            ttl_ms: info.ttl.as_millis() as u64,
            expires_at: At(info.expires_at),
            ends_at: info.ends_at.map(At),
        };
        json_answer(state, bucket.key().tenant(), &shown)
    })
}

/// A page of the owners. The page takes memory as if each owner were as long as it may be.
pub(crate) async fn owners(
    state: &AppState,
    key: &BucketKey,
    asked: &OwnersQuestion,
) -> ApiResult<JsonAnswer> {
    let bucket = bucket(state, key)?;
    let each = size_of::<OwnerEntry>() + BUCKET_LIMITS.label_bytes + BUCKET_LIMITS.metadata_bytes;
    let _memory = reserve(state, &bucket, asked.limit * each)?;
    let part =
        bucket.owners_after(asked.after.map(OwnerId::new), asked.label.as_deref(), asked.limit).await?;
    charge(state, &bucket, price_of_query(part.looked_at));
    let next = part.next.map(|owner| owner.to_string());
    let owners = part.found.into_iter().map(ListedOwner::from).collect();
    json_answer(state, key.tenant(), &ListedOwners { owners, next })
}

pub(crate) async fn end_owner(state: &AppState, key: &BucketKey, owner: &OwnerKey) -> ApiResult<()> {
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    if owner.end().await? { Ok(()) } else { Err(Problem::unknown_owner()) }
}
