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
#[derive(Default)]
pub(crate) struct QuerySnapshot {
    snapshot: Snapshot,
    #[expect(dead_code, reason = "kept for its end")]
    memory: Option<Arc<MemoryReservation>>,
}

/// Looks at all that is held and pending.
pub(crate) async fn look(state: &AppState, bucket: &Bucket) -> ApiResult<QuerySnapshot> {
    let (bytes, count) = (bucket.bytes_of_snapshot(), bucket.len());
    let memory = reserve(state, bucket, bytes)?;
    charge(state, bucket, price_of_query(count));
    let mut snapshot = pin!(bucket.look(memory.clone()));
    let snapshot =
        poll_fn(|context| block_in_place_if_large(count, || snapshot.as_mut().poll(context))).await?;
    Ok(QuerySnapshot { snapshot, memory: Some(memory) })
}

/// Looks at what is held and pending under one name: nothing else is copied.
pub(crate) async fn look_at_name(
    state: &AppState,
    bucket: &Bucket,
    name: &NameBuf,
) -> ApiResult<QuerySnapshot> {
    let (bytes, count) = bucket.size_of_snapshot_of(name.as_name());
    let memory = reserve(state, bucket, bytes)?;
    charge(state, bucket, price_of_query(count));
    let mut snapshot = pin!(bucket.snapshot_of(name.as_name()));
    let snapshot =
        poll_fn(|context| block_in_place_if_large(count, || snapshot.as_mut().poll(context))).await?;
    Ok(QuerySnapshot { snapshot, memory: Some(memory) })
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
    let mut memory = state.limiter.unread.of(tenant);
    let text = JsonAnswer::text(what);
    state.limiter.charge_call(tenant, price_of_text(text.len()));
    if memory.reserve(text.len()).is_err() {
        let why = "the answer has no room in memory beside what the clients of the tenant have not taken yet: ask again later, or for less";
        return Err(Problem::new(Code::QuotaExceeded, why).retry_after(QUOTA));
    }
    Ok(JsonAnswer::new(text, memory))
}

/// Charges the tenant for what a call has cost beyond its admission.
pub(crate) fn charge(state: &AppState, bucket: &Bucket, price: u32) {
    state.limiter.charge_call(bucket.key().tenant(), price);
}
