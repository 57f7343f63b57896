//! Looks at many entries at once: what they cost depends on how many those are, and how much is told of them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use lockhouse::{Bucket, Room, Snapshot};
use serde::Serialize;

use super::entry::Entry;
use crate::http::dto::Told;
use crate::http::problem::{Code, Problem};
use crate::http::request::decode::Read;
use crate::limits::{QUOTA, apart, price_of_look, price_of_text};
use crate::state::AppState;

/// All that is held and pending.
#[derive(Default)]
pub(crate) struct Seen {
    snapshot: Snapshot,
    #[expect(dead_code, reason = "kept for its end")]
    room: Option<Arc<Room>>,
}

/// Looks at all that is held and pending.
pub(crate) async fn look(state: &AppState, bucket: &Bucket) -> Read<Seen> {
    let count = bucket.len();
    let room = state.bounds.room_to_look(bucket).ok_or_else(|| {
        let why =
            "the looks of the tenant at its buckets that are under way take all the memory that they may";
        Problem::new(Code::QuotaExceeded, why).retry_after(QUOTA)
    })?;
    charge(state, bucket, price_of_look(count));
    let mut snapshot = pin!(bucket.look(room.clone()));
    let snapshot = poll_fn(|context| apart(count, || snapshot.as_mut().poll(context))).await?;
    Ok(Seen { snapshot, room: Some(room) })
}

impl Seen {
    pub(crate) fn size(&self) -> usize {
        self.snapshot.held.len() + self.snapshot.pending.len()
    }

    /// The entries, which take their room until all of this is dropped.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Entry> + use<> {
        let Snapshot { held, pending } = std::mem::take(&mut self.snapshot);
        held.into_iter().chain(pending).map(Entry::from)
    }
}

/// Tells it, at the price of its bytes, which count until the caller has taken them.
pub(crate) fn tell(state: &AppState, bucket: &Bucket, what: &impl Serialize) -> Read<Told> {
    let mut room = state.bounds.unread.of(bucket.key().tenant());
    let text = Told::text(what);
    charge(state, bucket, price_of_text(text.len()));
    if room.make(text.len()).is_err() {
        let why = "the answer has no room in memory beside what the clients of the tenant have not taken yet: ask again later, or for less";
        return Err(Problem::new(Code::QuotaExceeded, why).retry_after(QUOTA));
    }
    Ok(Told::new(text, room))
}

/// Charges the tenant for what a call has cost beyond its admission.
pub(crate) fn charge(state: &AppState, bucket: &Bucket, price: u32) {
    state.bounds.charge_call(bucket.key().tenant(), price);
}
