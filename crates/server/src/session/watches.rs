//! Queries and watches: what is held and pending, told once or after each change.

use std::collections::BTreeMap;

use lockhouse::Bucket;
use lockhouse::core::{Entry as CoreEntry, Snapshot, State};
use lockhouse_wire::{Detail, Entry, ErrorCode, Look, Place, Problem, pages};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Session;
use super::calls::Verdict;
use super::notices::Asked;
use crate::bounds::{OUTBOX_HIGH_WATER_BYTES, WATCH_GATHERING};
use crate::limits::{QUOTA, price_of_text};

/// The watches of one connection.
#[derive(Debug, Default)]
pub(super) struct Watches {
    watched: BTreeMap<u64, Watched>,
    changed: Option<watch::Receiver<()>>,
    /// When the changes so far are told.
    due: Option<Instant>,
    /// Set once that time has come while too much waited to be written.
    pub(super) overdue: bool,
}

#[derive(Debug)]
struct Watched {
    look: Look,
    /// What was told last: held and pending.
    told: Option<[Vec<CoreEntry>; 2]>,
    /// What that takes.
    bytes: usize,
}

impl Watches {
    pub(super) fn add(&mut self, look: Look, changed: impl FnOnce() -> watch::Receiver<()>) {
        self.changed.get_or_insert_with(changed);
        self.watched.insert(look.id, Watched { look, told: None, bytes: 0 });
    }

    /// False if there was none with that id.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let removed = self.watched.remove(&id).is_some();
        if self.watched.is_empty() {
            *self = Self::default();
        }
        removed
    }

    /// What was told last takes so much.
    pub(super) fn bytes(&self) -> usize {
        self.watched.values().map(|watched| watched.bytes).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.watched.len()
    }

    /// Waits until there are changes to tell, none came for the first time within the gathering time, and it is the tenant's turn.
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

    fn ids(&self) -> Vec<u64> {
        self.watched.keys().copied().collect()
    }

    /// What the watch looks for, if something of it differs from what it was told last: that counts from now on, before there is a copy of it.
    fn take_news(&mut self, id: u64, snapshot: &Snapshot) -> Option<Look> {
        let Watched { look, told, bytes } = self.watched.get_mut(&id)?;
        let now = [&snapshot.held, &snapshot.pending];
        let is_told = told
            .as_ref()
            .is_some_and(|told| told.iter().zip(now).all(|(told, now)| told.iter().eq(matching(look, now))));
        if is_told {
            return None;
        }
        *bytes = now.iter().flat_map(|list| matching(look, list)).map(bytes_of).sum();
        Some(look.clone())
    }

    /// The watch has been told of this.
    fn remember(&mut self, id: u64, snapshot: &Snapshot) {
        if let Some(Watched { look, told, .. }) = self.watched.get_mut(&id) {
            let now = [&snapshot.held, &snapshot.pending];
            *told = Some(now.map(|list| matching(look, list).cloned().collect()));
        }
    }
}

impl Session {
    /// Something has changed since the watches were told.
    pub(super) fn look_again(&mut self) -> Verdict {
        self.watches.overdue = self.outbound.outbox.bytes() > OUTBOX_HIGH_WATER_BYTES;
        if self.watches.overdue {
            // A client that takes nothing is told of the latest state once it does: before its next frame is carried out, if
            // there is one, and in any case soon.
            self.watches.due = Some(Instant::now() + WATCH_GATHERING);
            return Verdict::GoOn;
        }
        self.watches.due = None;
        self.look_for_watches()
    }

    /// Looks for all watches, in a while if there is no room to look now.
    pub(super) fn look_for_watches(&mut self) -> Verdict {
        match self.room_to_look() {
            Some(room) => self.take_snapshot(room.clone(), Asked::Watches(room)),
            None => {
                self.watches.due = Some(Instant::now() + WATCH_GATHERING);
                Verdict::GoOn
            }
        }
    }

    pub(super) fn show_watches(&mut self, snapshot: &Snapshot) {
        for id in self.watches.ids() {
            let Some(look) = self.watches.take_news(id, snapshot) else { continue };
            if self.show(&look, snapshot) {
                self.watches.remember(id, snapshot);
            } else {
                self.watches.remove(id);
            }
        }
    }

    /// Tells what there is to see, if there is room for it; else an error.
    pub(super) fn show(&mut self, look: &Look, snapshot: &Snapshot) -> bool {
        let bucket = self.port.bucket().clone();
        let (held, pending) = (views(&bucket, look, &snapshot.held), views(&bucket, look, &snapshot.pending));
        let (mut told, mut bytes, mut fits) = (Vec::new(), 0, true);
        for page in pages(look.id, held, pending) {
            bytes += page.len();
            fits = self.has_room(bytes);
            if !fits {
                break;
            }
            told.push(page);
        }
        self.pacing.has_done(price_of_text(bytes));
        if !fits {
            // The room for what has been written is free again.
            self.unread.settle(self.counted());
            let problem = Problem::with_message(
                "the answer has no room in memory beside what the sessions of the tenant have not taken yet: ask again later, or for one name",
            );
            self.not_now(Some(look.id), ErrorCode::QuotaExceeded, problem, QUOTA);
            return false;
        }
        told.into_iter().for_each(|text| self.outbound.push_unnumbered(text));
        true
    }
}

/// What an entry takes that is remembered as told.
fn bytes_of(entry: &CoreEntry) -> usize {
    let metadata = entry.metadata.as_ref().map_or(0, String::len);
    size_of::<CoreEntry>() + entry.name.as_name().as_wtf8().len() + entry.label.len() + metadata
}

fn views<'e>(bucket: &'e Bucket, look: &'e Look, list: &'e [CoreEntry]) -> impl Iterator<Item = Entry<'e>> {
    matching(look, list).map(|entry| view(bucket, look.detail, entry))
}

fn matching<'e>(look: &'e Look, list: &'e [CoreEntry]) -> impl Iterator<Item = &'e CoreEntry> {
    list.iter().filter(|entry| look.name.as_ref().is_none_or(|name| *name == entry.name))
}

fn view<'e>(bucket: &Bucket, detail: bool, entry: &'e CoreEntry) -> Entry<'e> {
    let place = match entry.state {
        State::Held(token) => Place::Held(token),
        State::Pending { place } => Place::Queued(u64::from(place)),
    };
    let detail = detail.then(|| Detail {
        place,
        kind: entry.party.into(),
        since: bucket.wall(entry.since),
        expires_at: entry.expires.map(|at| bucket.wall(at)),
        metadata: entry.metadata.as_deref().map(Into::into),
    });
    Entry { client_id: entry.label.as_str().into(), mode: entry.mode, name: entry.name.clone(), detail }
}
