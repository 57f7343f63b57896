//! The watches of one connection, and the last snapshot of each.

use std::collections::BTreeMap;

use lockhouse::core::{Snapshot, SnapshotEntry as CoreEntry};
use lockhouse_wire::SnapshotQuery;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::bounds::WATCH_GATHERING;

/// The watches of one connection.
#[derive(Debug, Default)]
pub(super) struct Watches {
    watched: BTreeMap<u64, Watched>,
    changed: Option<watch::Receiver<()>>,
    /// The time at which the changes so far are sent.
    pub(super) due: Option<Instant>,
    /// Set once that time has come while too much waited to be written.
    pub(super) overdue: bool,
    /// Whether the snapshot that waits for the store is out of date.
    pub(super) outdated: bool,
}

#[derive(Debug)]
struct Watched {
    look: SnapshotQuery,
    /// The entries that were sent last: held and pending.
    sent: Option<[Vec<CoreEntry>; 2]>,
    /// The bytes that those take.
    bytes: usize,
}

impl Watches {
    pub(super) fn add(&mut self, look: SnapshotQuery, changed: impl FnOnce() -> watch::Receiver<()>) {
        self.changed.get_or_insert_with(changed);
        self.watched.insert(look.id, Watched { look, sent: None, bytes: 0 });
    }

    /// False if there was none with that id.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let removed = self.watched.remove(&id).is_some();
        if self.watched.is_empty() {
            *self = Self::default();
        }
        removed
    }

    /// The bytes of the entries that were sent last.
    pub(super) fn bytes(&self) -> usize {
        self.watched.values().map(|watched| watched.bytes).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.watched.len()
    }

    /// Waits until there are changes to send, the gathering time since the first of them is over, and it is
    /// the tenant's turn.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn due(&mut self, turn: Instant) {
        let Some(changed) = &mut self.changed else { return std::future::pending().await };
        let due = match self.due {
            Some(due) => due,
            None => {
                if changed.changed().await.is_err() {
                    // The bucket outlives its sessions.
                    return std::future::pending().await;
                }
                *self.due.insert(turn.max(Instant::now() + WATCH_GATHERING))
            }
        };
        sleep_until(due).await;
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.watched.keys().copied().collect()
    }

    /// The query of the watch, if its entries differ from those sent last. The bytes of the new entries count
    /// from now on, before there is a copy of them.
    pub(super) fn query_if_changed(&mut self, id: u64, snapshot: &Snapshot) -> Option<SnapshotQuery> {
        let Watched { look, sent, bytes } = self.watched.get_mut(&id)?;
        let now = [&snapshot.held, &snapshot.pending];
        let is_sent = sent
            .as_ref()
            .is_some_and(|sent| sent.iter().zip(now).all(|(sent, now)| sent.iter().eq(matching(look, now))));
        if is_sent {
            return None;
        }
        *bytes = now.iter().flat_map(|list| matching(look, list)).map(bytes_of).sum();
        Some(look.clone())
    }

    /// The snapshot was sent to the watch.
    pub(super) fn remember(&mut self, id: u64, snapshot: &Snapshot) {
        if let Some(Watched { look, sent, .. }) = self.watched.get_mut(&id) {
            let now = [&snapshot.held, &snapshot.pending];
            *sent = Some(now.map(|list| matching(look, list).cloned().collect()));
        }
    }
}

/// The bytes of a remembered entry.
fn bytes_of(entry: &CoreEntry) -> usize {
    let metadata = entry.metadata.as_ref().map_or(0, String::len);
    size_of::<CoreEntry>() + entry.name.as_name().as_wtf8().len() + entry.label.len() + metadata
}

pub(super) fn matching<'e>(
    look: &'e SnapshotQuery,
    list: &'e [CoreEntry],
) -> impl Iterator<Item = &'e CoreEntry> {
    list.iter().filter(|entry| look.name.as_ref().is_none_or(|name| *name == entry.name))
}
