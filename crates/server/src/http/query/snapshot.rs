//! Looks at many entries at once: their price depends on the number of entries, and on the bytes sent of
//! them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use lockhouse::{Bucket, MemoryReservation, NameBuf, Snapshot};
use serde::Serialize;

use super::entry::Entry;
use crate::http::dto::JsonAnswer;
use crate::http::problem::{Code, Problem};
use crate::http::request::decode::ApiResult;
use crate::limits::{QUOTA, block_in_place_if_large, price_of_query, price_of_text};
use crate::state::AppState;

/// All that is held and pending.
pub(crate) struct QuerySnapshot {
    snapshot: Snapshot,
    #[expect(dead_code, reason = "kept for its end")]
    memory: Arc<MemoryReservation>,
}

/// Looks at all that is held and pending.
pub(crate) async fn look(state: &AppState, bucket: &Bucket) -> ApiResult<QuerySnapshot> {
    look_beside(state, bucket, 0).await
}

/// Looks at all that is held and pending, with memory for so many bytes of something else.
pub(super) async fn look_beside(
    state: &AppState,
    bucket: &Bucket,
    others: usize,
) -> ApiResult<QuerySnapshot> {
    let (bytes, count) = (bucket.bytes_of_snapshot() + others, bucket.len());
    let memory = reserve(state, bucket, bytes)?;
    charge(state, bucket, price_of_query(count));
    let mut snapshot = pin!(bucket.look(memory.clone()));
    let snapshot =
        poll_fn(|context| block_in_place_if_large(count, || snapshot.as_mut().poll(context))).await?;
    Ok(QuerySnapshot { snapshot, memory })
}

/// As [`look_beside`], of one name: nothing else is copied.
pub(super) async fn look_at_name(
    state: &AppState,
    bucket: &Bucket,
    name: &NameBuf,
    others: usize,
) -> ApiResult<QuerySnapshot> {
    let (bytes, count) = bucket.size_of_snapshot_of(name.as_name());
    let memory = reserve(state, bucket, bytes + others)?;
    charge(state, bucket, price_of_query(count));
    let mut snapshot = pin!(bucket.snapshot_of(name.as_name()));
    let snapshot =
        poll_fn(|context| block_in_place_if_large(count, || snapshot.as_mut().poll(context))).await?;
    Ok(QuerySnapshot { snapshot, memory })
}

/// Looks at nothing, with memory for so many bytes of something else.
pub(super) fn look_at_nothing(state: &AppState, bucket: &Bucket, others: usize) -> ApiResult<QuerySnapshot> {
    Ok(QuerySnapshot { snapshot: Snapshot::default(), memory: reserve(state, bucket, others)? })
}

/// Memory for a copy of so many bytes of a bucket.
pub(crate) fn reserve(state: &AppState, bucket: &Bucket, bytes: usize) -> ApiResult<Arc<MemoryReservation>> {
    state.limiter.reserve_for_query(bucket.key().tenant(), bytes).ok_or_else(|| {
        let why =
            "the looks of the tenant at its buckets that are under way take all the memory that they may";
        Problem::new(Code::QuotaExceeded, why).retry_after(QUOTA)
    })
}

impl QuerySnapshot {
    pub(crate) fn size(&self) -> usize {
        self.snapshot.held.len() + self.snapshot.pending.len()
    }

    /// The entries, which take their memory until all of this is dropped.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Entry> + use<> {
        let Snapshot { held, pending } = std::mem::take(&mut self.snapshot);
        held.into_iter().chain(pending).map(Entry::from)
    }
}

/// The answer as JSON, at the price of its bytes, which count until the caller has taken them.
pub(crate) fn json_answer(state: &AppState, tenant: &str, what: &impl Serialize) -> ApiResult<JsonAnswer> {
    let text = JsonAnswer::text(what);
    let memory = reserve_answer(state, tenant, text.len())?;
    Ok(JsonAnswer::new(text, memory))
}

/// Memory for an answer of so many bytes until the caller has taken them, and their price.
pub(crate) fn reserve_answer(state: &AppState, tenant: &str, bytes: usize) -> ApiResult<MemoryReservation> {
    let mut memory = state.limiter.unread.of(tenant);
    state.limiter.charge_call(tenant, price_of_text(bytes));
    if memory.reserve(bytes).is_err() {
        let why = "the answer has no room in memory beside what the clients of the tenant have not taken yet: ask again later, or for less";
        return Err(Problem::new(Code::QuotaExceeded, why).retry_after(QUOTA));
    }
    Ok(memory)
}

/// Charges the tenant for what a call has cost beyond its admission.
pub(crate) fn charge(state: &AppState, bucket: &Bucket, price: u32) {
    state.limiter.charge_call(bucket.key().tenant(), price);
}
