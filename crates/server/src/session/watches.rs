//! Queries and watches: what is held and pending, told once or after each change.

use std::collections::BTreeMap;

use lockhouse::Bucket;
use lockhouse::core::{Entry as CoreEntry, Snapshot, State};
use lockhouse::wire::{Detail, Entry, ErrorCode, Look, Place, Problem, pages};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Session;
use super::calls::Verdict;
use super::notices::Asked;
use crate::config::{OUTBOX_HIGH_WATER_BYTES, WATCH_GATHERING};
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

    /// The watches for which something differs from what they were told last; they count as told.
    fn take_news(&mut self, snapshot: &Snapshot) -> Vec<Look> {
        let mut looks = Vec::new();
        for Watched { look, told, bytes } in self.watched.values_mut() {
            let now = [&snapshot.held, &snapshot.pending]
                .map(|list| list.iter().filter(|entry| matches(look, entry)).cloned().collect::<Vec<_>>());
            if told.as_ref() != Some(&now) {
                *bytes = now.iter().flatten().map(bytes_of).sum();
                *told = Some(now);
                looks.push(look.clone());
            }
        }
        looks
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
        self.take_snapshot(Asked::Watches)
    }

    pub(super) fn show_watches(&mut self, snapshot: &Snapshot) {
        for look in self.watches.take_news(snapshot) {
            if !self.show(&look, snapshot) {
                self.watches.remove(look.id);
            }
        }
    }

    /// Tells what there is to see, if there is room for it; else an error.
    pub(super) fn show(&mut self, look: &Look, snapshot: &Snapshot) -> bool {
        let bucket = self.port.bucket();
        let (held, pending) = (views(bucket, look, &snapshot.held), views(bucket, look, &snapshot.pending));
        let pages = pages(look.id, held, pending);
        let bytes = pages.iter().map(String::len).sum();
        self.pacing.has_done(price_of_text(bytes));
        if !self.has_room(bytes) {
            let problem = Problem::with_message(
                "the answer has no room in memory beside what the sessions of the tenant have not taken yet: ask again later, or for one name",
            );
            self.not_now(Some(look.id), ErrorCode::QuotaExceeded, problem, QUOTA);
            return false;
        }
        pages.into_iter().for_each(|text| self.outbound.push_unnumbered(text));
        true
    }
}

/// What an entry takes that is remembered as told.
fn bytes_of(entry: &CoreEntry) -> usize {
    let metadata = entry.metadata.as_ref().map_or(0, String::len);
    size_of::<CoreEntry>() + entry.name.as_name().as_wtf8().len() + entry.label.len() + metadata
}

fn views<'e>(bucket: &'e Bucket, look: &'e Look, list: &'e [CoreEntry]) -> impl Iterator<Item = Entry<'e>> {
    list.iter().filter(|entry| matches(look, entry)).map(|entry| view(bucket, look.detail, entry))
}

fn matches(look: &Look, entry: &CoreEntry) -> bool {
    look.name.as_ref().is_none_or(|name| *name == entry.name)
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
