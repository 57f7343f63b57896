//! The history of web locks, in memory: one entry for each hold, wait or refusal that is over.

use std::collections::{BTreeMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use lockhouse_core::{Discipline, EndCause, EventKind, Instant, OwnerEnd, TableEvent};
use lockhouse_store::{HistoryEnd, HistoryEntry, HistoryFilter, HistoryKind, REFUSALS_GATHERED};

use super::log::EventPosition;
use super::{EventBounds, is_kept_as_history};

/// A page of the history of web locks, the latest entries first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebHistoryPage {
    /// The entries.
    pub entries: Vec<WebHistoryEntry>,
    /// Whether there are older ones that the page has no room for.
    pub has_more: bool,
}

/// An entry of the history of web locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebHistoryEntry {
    /// Its place, behind which the next page begins.
    pub position: EventPosition,
    /// What it says. Its number is that of its place.
    pub entry: HistoryEntry,
}

#[derive(Debug)]
pub(super) struct WebHistory {
    most: usize,
    most_bytes: usize,
    entries: VecDeque<HistoryEntry>,
    bytes: usize,
    last: u64,
    /// Of what is held and had to wait, by its token: since when.
    waited: BTreeMap<u64, Instant>,
}

/// Of so many locks that are held it is remembered since when they waited: of those with the highest tokens,
/// as the end of a lock may have been lost on its way here.
const WAITS: usize = 10_000;

/// Equal refusals are looked for among so many of the latest entries.
const LOOKED_BACK: usize = 16;

impl WebHistory {
    pub(super) fn new(bounds: EventBounds) -> Self {
        let EventBounds { web_entries: most, web_bytes: most_bytes, .. } = bounds;
        let (entries, waited) = (VecDeque::new(), BTreeMap::new());
        Self { most, most_bytes, entries, bytes: 0, last: 0, waited }
    }

    /// Takes note of an event, if it is one of a web lock.
    pub(super) fn note(&mut self, event: &TableEvent, wall: &dyn Fn(Instant) -> SystemTime) {
        if event.discipline != Discipline::Web || self.most == 0 {
            return;
        }
        match (&event.kind, event.token) {
            (EventKind::Granted, Some(token)) if event.since < event.at => {
                self.waited.insert(token.get(), millis(wall(event.since)));
                if self.waited.len() > WAITS {
                    self.waited.pop_first();
                }
            }
            (EventKind::Ended(cause), token) => {
                let waited = token.and_then(|token| self.waited.remove(&token.get()));
                let by = if let EndCause::Broken(by) = cause { Some(by) } else { None };
                let entry = entry(event, history_end(cause), wall);
                self.push(HistoryEntry {
                    waiting_since: waited,
                    operator: by.map(|by| by.operator.clone()),
                    reason: by.and_then(|by| by.reason.clone()),
                    ..entry
                });
            }
            (EventKind::Refused(cause), _) if is_kept_as_history(*cause) => {
                self.note_refusal(entry(event, HistoryEnd::Refused, wall));
            }
            _ => {}
        }
    }

    /// Refusals of one name to one client within a minute are one entry.
    fn note_refusal(&mut self, refused: HistoryEntry) {
        let is_same = |known: &&mut HistoryEntry| {
            known.end == HistoryEnd::Refused
                && known.name == refused.name
                && known.who == refused.who
                && refused.at.as_millis() < known.since.as_millis() + REFUSALS_GATHERED.as_millis() as u64
        };
        match self.entries.iter_mut().rev().take(LOOKED_BACK).find(is_same) {
            Some(known) => {
                known.count += 1;
                known.at = refused.at;
            }
            None => self.push(refused),
        }
    }

    fn push(&mut self, entry: HistoryEntry) {
        self.last += 1;
        self.bytes += entry.bytes();
        self.entries.push_back(HistoryEntry { seq: self.last, ..entry });
        while self.entries.len() > self.most || self.bytes > self.most_bytes {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.entries.pop_front() {
            self.bytes -= first.bytes();
        }
    }

    /// The memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.waited.len() * size_of::<(u64, Instant)>()
    }

    /// Gives up the oldest eighth.
    pub(super) fn shrink(&mut self) {
        (0..=self.entries.len() / 8).for_each(|_| self.drop_first());
        if self.entries.is_empty() {
            self.waited.clear();
        }
    }

    pub(super) fn page(
        &self,
        epoch: u64,
        before: Option<u64>,
        limit: usize,
        filter: &HistoryFilter,
    ) -> WebHistoryPage {
        let older = self.entries.partition_point(|entry| before.is_none_or(|before| entry.seq < before));
        let mut found = self.entries.range(..older).rev().filter(|entry| filter.is_met_by(entry));
        let whole = |entry: &HistoryEntry| WebHistoryEntry {
            position: EventPosition { epoch, number: entry.seq },
            entry: entry.clone(),
        };
        let entries = found.by_ref().take(limit).map(whole).collect();
        WebHistoryPage { entries, has_more: found.next().is_some() }
    }
}

fn entry(event: &TableEvent, end: HistoryEnd, wall: &dyn Fn(Instant) -> SystemTime) -> HistoryEntry {
    HistoryEntry {
        name: event.name.clone(),
        mode: event.mode,
        token: event.token,
        ..HistoryEntry::new(
            HistoryKind::Web,
            millis(wall(event.since)),
            millis(wall(event.at)),
            end,
            &event.who,
        )
    }
}

/// The same as the history has it, which knows no clock but the calendar.
fn millis(at: SystemTime) -> Instant {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::from_millis(since.as_millis().try_into().unwrap_or(u64::MAX))
}

/// The word of the history for the end of a hold or a wait.
pub fn history_end(cause: &EndCause) -> HistoryEnd {
    match cause {
        EndCause::Released => HistoryEnd::Released,
        EndCause::Undone => HistoryEnd::Undone,
        EndCause::Upgraded => HistoryEnd::Upgraded,
        EndCause::Downgraded => HistoryEnd::Downgraded,
        EndCause::Stolen => HistoryEnd::Stolen,
        EndCause::Broken(_) => HistoryEnd::Broken,
        EndCause::Expired => HistoryEnd::Expired,
        EndCause::Finalized => HistoryEnd::Finalized,
        EndCause::WithOwner(OwnerEnd::Ended) => HistoryEnd::OwnerEnded,
        EndCause::WithOwner(OwnerEnd::Expired) => HistoryEnd::OwnerExpired,
        EndCause::WithOwner(OwnerEnd::Overdue) => HistoryEnd::OwnerOverdue,
        EndCause::MaxHold => HistoryEnd::MaxHold,
        EndCause::Superseded => HistoryEnd::Superseded,
        EndCause::Lease => HistoryEnd::LeaseExpired,
        EndCause::NotReclaimed => HistoryEnd::NotReclaimed,
        EndCause::AgentEnded => HistoryEnd::ClientEnded,
        EndCause::Aborted => HistoryEnd::Aborted,
        EndCause::Unavailable => HistoryEnd::Refused,
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::FencingToken;

    use super::*;

    #[test]
    fn of_the_latest_locks_it_is_known_since_when_they_waited_whatever_ends_were_lost() {
        let mut history = WebHistory::new(EventBounds::DEFAULT);
        let wall = |at: Instant| UNIX_EPOCH + std::time::Duration::from_millis(at.as_millis());
        let event = |token: usize, kind: EventKind| TableEvent {
            at: Instant::from_millis(7),
            kind,
            discipline: Discipline::Web,
            name: None,
            mode: None,
            who: "a".into(),
            owner: None,
            token: Some(FencingToken::new(token as u64)),
            since: Instant::from_millis(5),
        };
        (1..=WAITS + 1).for_each(|token| history.note(&event(token, EventKind::Granted), &wall));
        for (token, waited) in [(1, None), (WAITS + 1, Some(Instant::from_millis(5)))] {
            history.note(&event(token, EventKind::Ended(EndCause::Released)), &wall);
            assert_eq!(history.entries.back().unwrap().waiting_since, waited);
        }
    }
}
