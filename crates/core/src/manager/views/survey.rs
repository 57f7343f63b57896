//! A pass over a whole manager, in parts between which others may use it.

use std::hash::BuildHasher;

use super::super::LockManager;
use super::super::tables::list::{ByName, NONE};
use crate::{Instant, LockState, NameBuf, SnapshotEntry};

/// What a pass over a manager has found so far.
///
/// ```
/// use lockhouse_core::{LockManager, Survey};
///
/// let manager = LockManager::new(foldhash::fast::FixedState::default());
/// let mut survey = Survey::default();
/// while manager.survey(&mut survey, 1_000) { /* others may use the manager here */ }
/// assert!(manager.end_survey(survey).contended.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Survey {
    /// All slots of names and of entries below were looked at.
    names: u32,
    entries: u32,
    /// The names with the longest queues, the longest first: how many wait, and the slot of the name.
    contended: Vec<(u32, u32, NameBuf)>,
    longest_wait: Oldest,
    oldest: Oldest,
}

/// The oldest entry so far.
#[derive(Debug, Default)]
struct Oldest {
    /// Its instant, its serial number, and its slot.
    first: Option<(Instant, u64, u32)>,
    /// The same entry as it was when it was found.
    described: Option<SnapshotEntry>,
}

/// What a pass over a manager has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// The names with the longest queues, the longest first.
    pub contended: Vec<ContendedName>,
    /// The request that waits for longest.
    pub longest_wait: Option<SnapshotEntry>,
    /// The lock or claim that is held for longest.
    pub oldest: Option<SnapshotEntry>,
}

/// A name for which requests wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContendedName {
    /// The name.
    pub name: NameBuf,
    /// How many requests wait.
    pub waiting: u32,
    /// How many locks and claims hold it.
    pub held: usize,
    /// Since when the first of the queue waits.
    pub since: Instant,
}

impl Survey {
    /// So many names with the longest queues are found.
    pub const CONTENDED: usize = 10;

    fn note_queue(&mut self, queued: u32, slot: u32, name: &NameBuf) {
        // Of two equal queues the one that was found first stays in front.
        let place = self.contended.partition_point(|(other, ..)| *other >= queued);
        if place < Self::CONTENDED {
            self.contended.insert(place, (queued, slot, name.clone()));
            self.contended.truncate(Self::CONTENDED);
        }
    }
}

impl Oldest {
    fn note(&mut self, since: Instant, serial: u64, slot: u32) {
        let found = (since, serial, slot);
        if self.first.is_none_or(|first| found < first) {
            (self.first, self.described) = (Some(found), None);
        }
    }
}

impl<S: BuildHasher> LockManager<S> {
    /// Looks at the next slots of names and entries, at most so many of each. False, and nothing is done, if
    /// no more than that are left: [`end_survey`](Self::end_survey) looks at those.
    ///
    /// Each thing that is found was there at some moment of the pass. If nothing has changed meanwhile, or
    /// the pass had one part, it is true of one moment.
    pub fn survey(&self, survey: &mut Survey, most: u32) -> bool {
        let (names, entries) = (self.table.names.end(), self.table.entries.end());
        if names.saturating_sub(survey.names) <= most && entries.saturating_sub(survey.entries) <= most {
            return false;
        }
        self.survey_part(survey, most);
        true
    }

    /// Looks at the rest.
    pub fn end_survey(&self, mut survey: Survey) -> Surveyed {
        self.survey_part(&mut survey, u32::MAX);
        let contended = survey.contended.into_iter().filter_map(|(_, slot, name)| self.contended(slot, name));
        let mut contended: Vec<_> = contended.collect();
        contended.sort_by_key(|name| std::cmp::Reverse(name.waiting));
        let Oldest { described: longest_wait, .. } = survey.longest_wait;
        Surveyed { contended, longest_wait, oldest: survey.oldest.described }
    }

    fn survey_part(&self, survey: &mut Survey, most: u32) {
        let part = |from: u32, end: u32| from..end.min(from.saturating_add(most)).max(from);
        let table = &self.table;
        for slot in part(survey.names, table.names.end()) {
            if let Some(name) = table.names.get(slot).filter(|name| name.queued > 0) {
                survey.note_queue(name.queued, slot, &name.name);
            }
        }
        for slot in part(survey.entries, table.entries.end()) {
            let Some(entry) = table.entries.get(slot) else { continue };
            match entry.token {
                None => survey.longest_wait.note(entry.since, entry.serial, slot),
                Some(_) if !table.is_void(slot) => survey.oldest.note(entry.since, entry.serial, slot),
                Some(_) => {}
            }
        }
        survey.names = part(survey.names, table.names.end()).end;
        survey.entries = part(survey.entries, table.entries.end()).end;
        self.describe_oldest(&mut survey.longest_wait);
        self.describe_oldest(&mut survey.oldest);
    }

    /// Before the entry may go.
    fn describe_oldest(&self, oldest: &mut Oldest) {
        let Some((_, _, slot)) = oldest.first.filter(|_| oldest.described.is_none()) else { return };
        oldest.described = Some(self.describe(slot, self.state_of(slot)));
    }

    /// Where the entry stands. O(the requests before it).
    pub(super) fn state_of(&self, slot: u32) -> LockState {
        let entry = &self.table.entries[slot];
        match entry.token {
            Some(held) => LockState::Held(held.token()),
            None => {
                let before = std::iter::successors(Some(entry.by_name.prev), |slot| {
                    self.table.entries.get(*slot).map(|entry| entry.by_name.prev)
                });
                let place = before.take_while(|slot| *slot != NONE).count() as u32 + 1;
                LockState::Pending { place }
            }
        }
    }

    /// The name, if requests still wait for it.
    fn contended(&self, slot: u32, name: NameBuf) -> Option<ContendedName> {
        let found = self.table.names.get(slot).filter(|found| found.name == name)?;
        let first = found.queue.iter::<ByName>(&self.table.entries).next()?;
        Some(ContendedName {
            name,
            waiting: found.queued,
            held: self.holders_in_order(slot).count(),
            since: self.table.entries[first].since,
        })
    }
}
