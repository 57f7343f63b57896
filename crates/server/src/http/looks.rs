//! Looks at many entries at once: what they cost depends on how many those are, and how much is told of them.

use std::future::poll_fn;
use std::pin::pin;

use lockhouse::{Bucket, BucketKey, Snapshot};
use serde::Serialize;

use super::desk::{bucket, of_store};
use super::entries::{Cut, Entry, Filter, Page, Position};
use super::locks::{HeldLock, HeldLocks};
use super::read::Read;
use super::views::Told;
use crate::limits::{apart, price_of_look, price_of_text};
use crate::server::Server;

/// A page of what is held, pending and assigned.
pub(super) async fn query(server: &Server, key: &BucketKey, filter: &Filter, cut: &Cut) -> Read<Told> {
    let bucket = bucket(server, key)?;
    let snapshot = if filter.admits_entries() { look(server, &bucket).await? } else { Snapshot::default() };
    let assigned = if filter.admits_assignments() {
        // The first may be the last of the page before, and the last says that there is a next page.
        let found = bucket.assignments_from(filter.prefix(), cut.start(), cut.limit + 2);
        let found = found.await.map_err(of_store)?;
        charge(server, &bucket, price_of_look(found.len()));
        found
    } else {
        Vec::new()
    };
    Ok(apart(size(&snapshot), || {
        let all = entries(snapshot).chain(assigned.into_iter().map(Entry::from));
        let chosen = all.filter(|entry| filter.admits(entry));
        tell(server, &bucket, &cut.page(chosen.map(|entry| (Position::of(&entry), entry))))
    }))
}

/// A page of the offline locks that are wanted.
pub(super) async fn locks(
    server: &Server,
    key: &BucketKey,
    cut: &Cut,
    is_wanted: impl Fn(&HeldLock) -> bool,
) -> Read<Told> {
    let bucket = bucket(server, key)?;
    let snapshot = look(server, &bucket).await?;
    Ok(apart(size(&snapshot), || {
        let locks = entries(snapshot).filter_map(|entry| {
            let at = Position::of(&entry);
            HeldLock::of(entry).filter(&is_wanted).map(|lock| (at, lock))
        });
        let Page { entries: locks, next } = cut.page(locks);
        tell(server, &bucket, &HeldLocks { locks, next })
    }))
}

/// Looks at all that is held and pending.
pub(super) async fn look(server: &Server, bucket: &Bucket) -> Read<Snapshot> {
    let count = bucket.len();
    charge(server, bucket, price_of_look(count));
    let mut snapshot = pin!(bucket.snapshot());
    poll_fn(|context| apart(count, || snapshot.as_mut().poll(context))).await.map_err(of_store)
}

pub(super) fn size(snapshot: &Snapshot) -> usize {
    snapshot.held.len() + snapshot.pending.len()
}

pub(super) fn entries(snapshot: Snapshot) -> impl Iterator<Item = Entry> {
    snapshot.held.into_iter().chain(snapshot.pending).map(Entry::from)
}

/// Tells it, at the price of its bytes.
pub(super) fn tell(server: &Server, bucket: &Bucket, what: &impl Serialize) -> Told {
    let told = Told::new(what);
    charge(server, bucket, price_of_text(told.len()));
    told
}

/// Charges the tenant for what a call has cost beyond its admission.
fn charge(server: &Server, bucket: &Bucket, price: u32) {
    server.bounds.charge_call(bucket.key().tenant(), price);
}
