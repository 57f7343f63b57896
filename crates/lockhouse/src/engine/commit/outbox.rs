//! Which notices may leave, and which have to wait: no notice announces a change that is not durable.
//!
//! ```text
//!   change ─▶ group ─▶ take ─▶ (the store) ─▶ committed ─▶ the notices that waited for those groups
//!   notice ─▶ hold ──────────────────────────────────────▶ at once, if nothing it speaks of is uncommitted
//! ```
//!
//! Each bucket has one outbox, which is used under the bucket's mutex. The changes of one command form a
//! group. Groups become durable in their order.
//!
//! A notice that speaks of names waits for the latest group that changed one of them, and for the group that
//! reserves its token. While a notice waits for a group, later notices about its names wait for that group,
//! too: so the notices about one name leave in their order. A notice about the whole bucket waits for the
//! latest group. The outbox remembers only the names whose notices have to wait.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};
use lockhouse_core::{Name, NameBuf};

/// The memory that a change or a notice takes while it waits.
pub(crate) trait MemorySize {
    /// About so many bytes.
    fn bytes(&self) -> usize;

    /// The share of a commit that a change takes.
    fn cost(&self) -> usize {
        1
    }
}

/// Changes of type `C` on their way to the store, and notices of type `N` that wait for them.
///
/// # Invariants
///
/// 1. Group `n` is at `groups[n - first]`; all below `first` are durable.
/// 2. `names` has a name exactly if its number is at least `first`, and then that group lists it.
/// 3. Without groups there are no names and no reservations, and everything passes.
#[derive(Debug)]
pub(crate) struct Outbox<C, N> {
    groups: VecDeque<Group<C, N>>,
    first: u64,
    /// How many groups, from the front, are on their way.
    sent: usize,
    /// Whether the last group is still being made.
    open: bool,
    /// By name: the group for which notices about it wait.
    names: HashMap<NameBuf, u64, RandomState>,
    /// Tokens up to here may be announced.
    durable_mark: u64,
    /// Marks that are not durable yet, with their groups; both grow.
    marks: VecDeque<(u64, u64)>,
    /// The memory of all groups, and the part that their notices take.
    bytes: usize,
    notice_bytes: usize,
}

#[derive(Debug)]
struct Group<C, N> {
    changes: Vec<C>,
    /// The names whose notices wait for this group, and some whose notices wait for a later group by now.
    names: Vec<NameBuf>,
    notices: Vec<N>,
    /// The memory of all that, until the group is durable: changes that were sent are with the pipeline.
    bytes: usize,
    notice_bytes: usize,
}

impl<C: MemorySize, N: MemorySize> Outbox<C, N> {
    /// An outbox of a bucket in whose store the mark `durable_mark` is durable: tokens up to it may be given.
    pub(crate) fn new(durable_mark: u64) -> Self {
        Self {
            groups: VecDeque::new(),
            first: 0,
            sent: 0,
            open: false,
            names: HashMap::default(),
            durable_mark,
            marks: VecDeque::new(),
            bytes: 0,
            notice_bytes: 0,
        }
    }

    /// A change that speaks of these names. The change joins those made since the last
    /// [`close_group`](Self::close_group).
    pub(crate) fn change(&mut self, names: &[NameBuf], change: C) {
        let group = self.open_group();
        self.charge(group, change.bytes());
        self.groups.back_mut().expect("a group was opened just now").changes.push(change);
        names.iter().for_each(|name| self.wait(name.clone(), group));
    }

    /// A change that allows the announcement of tokens up to `mark` once it is durable.
    pub(crate) fn reservation(&mut self, mark: u64, change: C) {
        debug_assert!(
            mark > self.marks.back().map_or(self.durable_mark, |(last, _)| *last),
            "marks grow: {mark} after {:?}",
            self.marks
        );
        self.change(&[], change);
        self.marks.push_back((mark, self.last()));
    }

    /// The command is over: later changes belong to another group.
    #[inline]
    pub(crate) fn close_group(&mut self) {
        self.open = false;
    }

    /// Keeps a notice that speaks of these names and of tokens up to `token` (0 for none), or gives it back
    /// if it may leave now.
    pub(crate) fn hold(&mut self, names: &[Name<'_>], token: u64, notice: N) -> Option<N> {
        if self.is_idle() {
            debug_assert!(token <= self.durable_mark, "token {token} was never reserved");
            return Some(notice);
        }
        let Some(group) = self.group_of(names, token) else { return Some(notice) };
        let bytes = notice.bytes();
        self.keep(group, names, notice, bytes);
        None
    }

    /// Keeps a notice of so many bytes until that group is durable. Later notices about these names wait for
    /// the group, too.
    pub(crate) fn keep(&mut self, group: u64, names: &[Name<'_>], notice: N, bytes: usize) {
        names.iter().for_each(|name| self.wait(name.to_buf(), group));
        self.charge(group, bytes);
        self.notice_bytes += bytes;
        let group = &mut self.groups[(group - self.first) as usize];
        group.notice_bytes += bytes;
        group.notices.push(notice);
    }

    /// So many bytes more count until that group is durable.
    pub(crate) fn charge(&mut self, group: u64, bytes: usize) {
        debug_assert!(group >= self.first && group <= self.last(), "group {group} is not under way");
        self.groups[(group - self.first) as usize].bytes += bytes;
        self.bytes += bytes;
    }

    /// The group for which a notice that speaks of these names and of tokens up to `token` has to wait.
    pub(crate) fn group_of(&self, names: &[Name<'_>], token: u64) -> Option<u64> {
        let longest = names.iter().filter_map(|name| self.names.get(&ByName(*name)).copied()).max();
        longest.max(self.reserved_by(token))
    }

    /// As [`hold`](Self::hold), but the notice waits for the latest group, even if that group changes none of
    /// its names. Later notices about these names wait for the latest group, too.
    pub(crate) fn hold_longest(&mut self, names: &[Name<'_>], notice: N) -> Option<N> {
        let Some(group) = self.latest() else { return Some(notice) };
        let bytes = notice.bytes();
        self.keep(group, names, notice, bytes);
        None
    }

    /// Keeps a notice that speaks of the whole bucket, or gives it back if it may leave now.
    pub(crate) fn hold_behind_all(&mut self, notice: N) -> Option<N> {
        self.hold_longest(&[], notice)
    }

    /// Sends whole groups, oldest first, as long as they cost at most `budget` together; one at least,
    /// whatever it costs. Returns their cost. May be called again until all that was taken is
    /// [`committed`](Self::committed).
    pub(crate) fn take(&mut self, budget: usize, into: &mut Vec<C>) -> usize {
        debug_assert!(!self.open, "a command is under way");
        let (mut taken, mut is_first) = (0, true);
        while let Some(group) = self.groups.get_mut(self.sent) {
            let cost: usize = group.changes.iter().map(MemorySize::cost).sum();
            if taken + cost > budget && !is_first {
                break;
            }
            into.append(&mut group.changes);
            taken += cost;
            self.sent += 1;
            is_first = false;
        }
        taken
    }

    /// The groups that were taken are durable. Gives the notices that waited for nothing else, in their
    /// order.
    pub(crate) fn committed(&mut self) -> Vec<N> {
        debug_assert!(self.sent <= self.groups.len(), "no more groups are sent than there are");
        let mut free = Vec::new();
        for group in self.groups.drain(..self.sent) {
            let number = self.first;
            self.first += 1;
            for name in &group.names {
                if self.names.get(name) == Some(&number) {
                    self.names.remove(name);
                }
            }
            while let Some((mark, _)) = self.marks.pop_front_if(|(_, by)| *by == number) {
                debug_assert!(mark >= self.durable_mark, "a mark never falls");
                self.durable_mark = self.durable_mark.max(mark);
            }
            debug_assert!(group.changes.is_empty(), "group {number} was not taken whole");
            self.bytes -= group.bytes;
            self.notice_bytes -= group.notice_bytes;
            free.extend(group.notices);
        }
        self.sent = 0;
        if self.groups.is_empty() {
            debug_assert!(self.names.is_empty() && self.marks.is_empty());
            debug_assert!(self.bytes == 0 && self.notice_bytes == 0);
            self.give_memory_back();
        }
        free
    }

    /// The store is lost: no group that waits will ever be durable. Gives the notices back, which must not be
    /// delivered.
    pub(crate) fn fenced(&mut self) -> Vec<N> {
        self.names.clear();
        self.marks.clear();
        (self.sent, self.open) = (0, false);
        (self.bytes, self.notice_bytes) = (0, 0);
        self.first += self.groups.len() as u64;
        let dropped = self.groups.drain(..).flat_map(|group| group.notices).collect();
        self.give_memory_back();
        dropped
    }

    /// Whether everything is durable, so that every notice passes.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.groups.is_empty()
    }

    /// The memory of all that waits, about.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory of all notices that wait, about.
    #[inline]
    pub(crate) fn notice_bytes(&self) -> usize {
        self.notice_bytes
    }

    /// How many groups are not durable.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// How many groups there are to [`take`](Self::take).
    pub(crate) fn unsent(&self) -> usize {
        self.groups.len() - self.sent
    }

    /// Whether the present command has changed something.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The number of the latest group that is not durable.
    pub(crate) fn latest(&self) -> Option<u64> {
        if self.is_idle() { None } else { Some(self.last()) }
    }

    /// The number of the latest group.
    ///
    /// # Panics
    ///
    /// In debug builds, if there is none that is not durable.
    pub(crate) fn last(&self) -> u64 {
        debug_assert!(!self.is_idle());
        self.first + self.groups.len() as u64 - 1
    }

    /// Whether that group is durable.
    pub(crate) fn is_durable(&self, group: u64) -> bool {
        group < self.first
    }

    fn open_group(&mut self) -> u64 {
        if !std::mem::replace(&mut self.open, true) {
            let (changes, names, notices) = (Vec::new(), Vec::new(), Vec::new());
            self.groups.push_back(Group { changes, names, notices, bytes: 0, notice_bytes: 0 });
            self.charge(self.last(), size_of::<Group<C, N>>());
        }
        self.last()
    }

    /// The notices of that name wait for that group, unless they wait for a later one already.
    fn wait(&mut self, name: NameBuf, group: u64) {
        debug_assert!(group >= self.first && group <= self.last(), "group {group} is not under way");
        match self.names.get_mut(&name) {
            Some(known) if *known >= group => return,
            Some(known) => *known = group,
            None => _ = self.names.insert(name.clone(), group),
        }
        // Once here and once in the map; both share what is on the heap.
        self.charge(group, 2 * size_of::<NameBuf>() + size_of::<u64>() + name.as_name().as_wtf8().len());
        self.groups[(group - self.first) as usize].names.push(name);
    }

    /// The group that reserves that token, unless that is durable.
    fn reserved_by(&self, token: u64) -> Option<u64> {
        if token <= self.durable_mark {
            return None;
        }
        let at = self.marks.partition_point(|(mark, _)| *mark < token);
        debug_assert!(at < self.marks.len(), "token {token} was never reserved");
        Some(self.marks.get(at).map_or_else(|| self.last(), |(_, group)| *group))
    }

    /// Frees the memory that a crowd of notices left behind.
    fn give_memory_back(&mut self) {
        const KEPT: usize = 1024;
        if self.groups.capacity() > KEPT {
            self.groups = VecDeque::new();
        }
        if self.names.capacity() > KEPT {
            self.names = HashMap::default();
        }
    }
}

/// Finds an owned name by a borrowed one.
#[derive(Hash)]
struct ByName<'a>(Name<'a>);

impl Equivalent<NameBuf> for ByName<'_> {
    fn equivalent(&self, name: &NameBuf) -> bool {
        self.0 == name.as_name()
    }
}

#[cfg(test)]
mod tests;
