//! Looks at many entries at once: what they cost depends on how many those are, and how much is told of them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use lockhouse::{Bucket, BucketKey, Room, Snapshot};
use serde::Serialize;

use super::desk::{bucket, of_store};
use super::entries::{Cut, Entry, Filter, Page, Position};
use super::locks::{HeldLock, HeldLocks};
use super::problem::{Code, Problem};
use super::read::Read;
use super::views::Told;
use crate::limits::{QUOTA, apart, price_of_look, price_of_text};
use crate::state::AppState;

/// All that is held and pending.
#[derive(Default)]
pub(super) struct Seen {
    snapshot: Snapshot,
    #[expect(dead_code, reason = "kept for its end")]
    room: Option<Arc<Room>>,
}

/// A page of what is held, pending and assigned.
pub(super) async fn query(state: &AppState, key: &BucketKey, filter: &Filter, cut: &Cut) -> Read<Told> {
    let bucket = bucket(state, key)?;
    let mut seen = if filter.admits_entries() { look(state, &bucket).await? } else { Seen::default() };
    let assigned = if filter.admits_assignments() {
        // The first may be the last of the page before, and the last says that there is a next page.
        let found = bucket.assignments_from(filter.prefix(), cut.start(), cut.limit + 2);
        let found = found.await.map_err(of_store)?;
        charge(state, &bucket, price_of_look(found.len()));
        found
    } else {
        Vec::new()
    };
    apart(seen.size(), || {
        let all = seen.take().chain(assigned.into_iter().map(Entry::from));
        let chosen = all.filter(|entry| filter.admits(entry));
        tell(state, &bucket, &cut.page(chosen.map(|entry| (Position::of(&entry), entry))))
    })
}

/// A page of the offline locks that are wanted.
pub(super) async fn locks(
    state: &AppState,
    key: &BucketKey,
    cut: &Cut,
    is_wanted: impl Fn(&HeldLock) -> bool,
) -> Read<Told> {
    let bucket = bucket(state, key)?;
    let mut seen = look(state, &bucket).await?;
    apart(seen.size(), || {
        let locks = seen.take().filter_map(|entry| {
            let at = Position::of(&entry);
            HeldLock::of(entry).filter(&is_wanted).map(|lock| (at, lock))
        });
        let Page { entries: locks, next } = cut.page(locks);
        tell(state, &bucket, &HeldLocks { locks, next })
    })
}

/// Looks at all that is held and pending.
pub(super) async fn look(state: &AppState, bucket: &Bucket) -> Read<Seen> {
    let count = bucket.len();
    let room = state.bounds.room_to_look(bucket).ok_or_else(|| {
        let why =
            "the looks of the tenant at its buckets that are under way take all the memory that they may";
        Problem::new(Code::QuotaExceeded, why).retry_after(QUOTA)
    })?;
    charge(state, bucket, price_of_look(count));
    let mut snapshot = pin!(bucket.look(room.clone()));
    let snapshot =
        poll_fn(|context| apart(count, || snapshot.as_mut().poll(context))).await.map_err(of_store)?;
    Ok(Seen { snapshot, room: Some(room) })
}

impl Seen {
    pub(super) fn size(&self) -> usize {
        self.snapshot.held.len() + self.snapshot.pending.len()
    }

    /// The entries, which take their room until all of this is dropped.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Entry> + use<> {
        let Snapshot { held, pending } = std::mem::take(&mut self.snapshot);
        held.into_iter().chain(pending).map(Entry::from)
    }
}

/// Tells it, at the price of its bytes, which count until the caller has taken them.
pub(super) fn tell(state: &AppState, bucket: &Bucket, what: &impl Serialize) -> Read<Told> {
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
fn charge(state: &AppState, bucket: &Bucket, price: u32) {
    state.bounds.charge_call(bucket.key().tenant(), price);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use axum::response::IntoResponse;

    use super::*;
    use crate::Config;
    use crate::http::parameters::Parameters;

    async fn page(state: &AppState, key: &BucketKey) -> Read<Told> {
        let uri = "/query".parse().unwrap();
        let parameters = Parameters::parse(&uri)?;
        query(state, key, &Filter::read(&parameters)?, &Cut::read(&parameters)?).await
    }

    #[tokio::test]
    async fn a_call_looks_if_there_is_room_for_the_copy_and_for_the_answer_until_it_is_taken() {
        let state = AppState::empty(Config::default());
        let key = BucketKey::from("b");
        let bucket = state.house.bucket(key.clone());
        let agent = bucket.agent("holder").unwrap();
        let _held = agent.locks().request("held").await.unwrap();
        let bounds = &state.bounds;
        for (rooms, most) in [
            (&bounds.looks, bounds.settings().table_bytes()),
            (&bounds.unread, bounds.settings().unread_bytes()),
        ] {
            let mut others = rooms.of(key.tenant());
            others.make(most).unwrap();
            assert_eq!(page(&state, &key).await.unwrap_err().code, Code::QuotaExceeded);
            drop(others);
            assert_eq!(rooms.taken(key.tenant()), 0);
        }
        let answer = page(&state, &key).await.unwrap().into_response();
        assert_eq!(bounds.looks.taken(key.tenant()), 0, "the copy is gone");
        assert_eq!(bounds.unread.taken(key.tenant()), 4096, "the answer is there");
        drop(answer);
        assert_eq!(bounds.unread.taken(key.tenant()), 0);
    }

    #[tokio::test]
    async fn whoever_looks_at_nothing_else_may_look_at_any_bucket() {
        let state = AppState::empty(Config::default());
        let key = BucketKey::from("b");
        let bucket = state.house.bucket(key.clone());
        let agent = bucket.agent("holder").unwrap();
        let names: Vec<_> = (0..10_000).map(|number| number.to_string()).collect();
        let _held: Vec<_> = futures_util::future::join_all(
            names.iter().map(|name| agent.locks().request(&**name).into_future()),
        )
        .await;
        let limits = crate::settings::LimitSettings { table_mib_per_tenant: 1, ..Default::default() };
        state.bounds.reload(limits);
        assert!(bucket.bytes_of_snapshot() > 1 << 20);
        let room = state.bounds.room_to_look(&bucket).unwrap();
        assert!(state.bounds.room_to_look(&bucket).is_none(), "two at once");
        drop(room);
        assert!(state.bounds.room_to_look(&bucket).is_some());
    }
}
