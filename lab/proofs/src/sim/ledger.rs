//! The record of all that the disk has stored, written at the same time, so that an answer that came too
//! early is found at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lockhouse_core::{Change, Mode, NameBuf, VoidLocks};
use lockhouse_store::{CommitBatch, HighestNumbers, MarkOf, Scope, Write};

/// The sorts of things that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sort {
    Owner,
    OwnerEnded,
    Lock,
    Claim,
    Unclaimed,
    Assignment,
    Unassigned,
}

/// All things that were ever stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    epoch: u64,
    /// The first epoch that was not above all before it.
    repeated: Option<u64>,
    /// Up to which sequence number of the present epoch everything is noted.
    last_seq: u64,
    ever: HashSet<(Arc<Scope>, Sort, u64)>,
    held: HashMap<(Arc<Scope>, NameBuf, u64), u64>,
    /// The locks that are void, and were not ended by a change of their own.
    void: HashSet<(Arc<Scope>, NameBuf, u64)>,
    /// How often more locks became void at once than are swept at a tick, where each is a part of its own.
    long_sweeps: u64,
    /// A name that became another's while a void lock kept it.
    passed_on: Option<NameBuf>,
    marks: Marks,
    /// The marks when the present epoch began.
    floors: Marks,
    /// The tokens that were announced to clients, whatever was restored since.
    announced: HashMap<Arc<Scope>, Tokens>,
    /// How many buckets were dropped.
    drops: u64,
    /// The first mark that a dropped bucket has left far above all that it can have given.
    wasted: Option<u64>,
    announced_in: HashMap<Arc<Scope>, u64>,
    longest_lease_ms: u64,
    /// The last epoch that has recovered, or stopped clean.
    recovered: u64,
    stopped_clean: u64,
}

/// The highest tokens of a bucket that were announced to clients.
#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    /// In all epochs.
    highest: u64,
    /// In those before the present one.
    earlier: u64,
}

/// The parts of a sweep that follow from one tick.
const PARTS_PER_TICK: usize = 5;

/// More tokens than a bucket gives in a schedule.
const GIVEN_AT_MOST: u64 = 100_000;

/// The marks of buckets, and those that dropped buckets have left.
#[derive(Clone, Debug, Default)]
struct Marks {
    of: HashMap<Arc<Scope>, u64>,
    dropped: HashMap<MarkOf, u64>,
}

impl Marks {
    fn of(&self, scope: &Scope) -> u64 {
        let dropped = |of| self.dropped.get(&of).copied().unwrap_or(0);
        let own = self.of.get(scope).copied().unwrap_or(0);
        own.max(dropped(MarkOf::Tenant(scope.tenant.clone()))).max(dropped(MarkOf::All))
    }
}

impl Ledger {
    /// A new writer writes from now on in this epoch.
    pub(crate) fn taken(&mut self, epoch: u64) {
        if epoch <= self.epoch {
            self.repeated.get_or_insert(epoch);
        }
        (self.epoch, self.last_seq, self.longest_lease_ms) = (epoch, 0, 0);
        self.floors = self.marks.clone();
        self.announced.values_mut().for_each(|tokens| tokens.earlier = tokens.highest);
    }

    /// The disk is again as it was in `backup`, and goes on above these numbers.
    pub(crate) fn restored(&mut self, backup: &Self, above: HighestNumbers) {
        let (ever, announced) = (std::mem::take(&mut self.ever), std::mem::take(&mut self.announced));
        let (repeated, epoch, drops, wasted) = (self.repeated, self.epoch, self.drops, self.wasted);
        let (long_sweeps, passed_on) = (self.long_sweeps, self.passed_on.take());
        let past =
            Self { ever, announced, repeated, drops, wasted, long_sweeps, passed_on, ..backup.clone() };
        *self = Self { epoch: epoch.max(above.epoch), last_seq: 0, ..past };
        self.marks.of.values_mut().for_each(|mark| *mark = above.mark);
        self.marks.dropped = [(MarkOf::All, above.mark)].into();
        if above.epoch < epoch {
            self.repeated.get_or_insert(above.epoch);
        }
    }

    /// The batch is stored; perhaps it is sent again.
    pub(crate) fn note(&mut self, batch: &CommitBatch) {
        if batch.last_seq() <= self.last_seq {
            return;
        }
        self.last_seq = batch.last_seq();
        batch.writes.iter().for_each(|write| self.write(write));
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// An epoch that was not above all before it, if there was one.
    pub(crate) fn repeated_epoch(&self) -> Option<u64> {
        self.repeated
    }

    /// Whether a sweep is under way.
    pub(crate) fn has_void_locks(&self) -> bool {
        !self.void.is_empty()
    }

    /// A name that became another's before the end of a void lock was stored, if there was one.
    pub(crate) fn passed_on_while_void(&self) -> Option<&NameBuf> {
        self.passed_on.as_ref()
    }

    /// How many sweeps were too long for one tick.
    pub(crate) fn long_sweeps(&self) -> u64 {
        self.long_sweeps
    }

    /// How many buckets were dropped.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// A mark that a dropped bucket has left far above the tokens that it can have given, if there was one.
    pub(crate) fn wasted_tokens(&self) -> Option<u64> {
        self.wasted
    }

    /// A token of the present epoch is announced to a client. False if as high a one was announced in an
    /// earlier epoch.
    pub(crate) fn announce(&mut self, scope: &Arc<Scope>, token: u64) -> bool {
        let tokens = self.announced.entry(scope.clone()).or_default();
        tokens.highest = tokens.highest.max(token);
        token > tokens.earlier
    }

    /// Whether that was ever stored.
    pub(crate) fn has(&self, scope: &Arc<Scope>, sort: Sort, number: u64) -> bool {
        self.ever.contains(&(scope.clone(), sort, number))
    }

    /// The token under which that owner holds the name now.
    pub(crate) fn holds(&self, scope: &Arc<Scope>, name: &NameBuf, owner: u64) -> Option<u64> {
        self.held.get(&(scope.clone(), name.clone(), owner)).copied()
    }

    /// Tokens of the bucket may be announced up to this one.
    pub(crate) fn mark(&self, scope: &Arc<Scope>) -> u64 {
        self.marks.of(scope)
    }

    /// No new token of the present epoch is at or below this one.
    pub(crate) fn floor(&self, scope: &Arc<Scope>) -> u64 {
        self.floors.of(scope)
    }

    /// Whether the store knows that web locks of this bucket are announced in this epoch.
    pub(crate) fn needs_recovery(&self, scope: &Arc<Scope>) -> bool {
        self.announced_in.get(scope).is_some_and(|epoch| *epoch == self.epoch)
    }

    pub(crate) fn longest_lease_ms(&self) -> u64 {
        self.longest_lease_ms
    }

    /// Tickets of epochs before this one are void.
    pub(crate) fn tickets_since(&self) -> u64 {
        self.recovered.max(self.stopped_clean + 1)
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::Change { scope, change } => self.change(scope, change),
            Write::NeedsRecovery { scope } => _ = self.announced_in.insert(scope.clone(), self.epoch),
            Write::LongestLease { ms } => self.longest_lease_ms = self.longest_lease_ms.max(*ms),
            Write::RecoveryCompleted => self.recovered = self.epoch,
            Write::StoppedClean => self.stopped_clean = self.epoch,
            Write::BucketDropped { scope, mark } => {
                self.drops += 1;
                self.marks.of.remove(scope);
                if let Some(mark) = mark {
                    let announced = self.announced.get(scope).copied().unwrap_or_default();
                    let began_above = self.floors.of(scope).max(self.marks.of(scope)).max(announced.highest);
                    if mark.up_to > began_above + GIVEN_AT_MOST {
                        self.wasted.get_or_insert(mark.up_to);
                    }
                    let known = self.marks.dropped.entry(mark.of.clone()).or_default();
                    *known = mark.up_to.max(*known);
                }
            }
            // None of them falls by that.
            Write::MarksReplaced { marks } => {
                for mark in marks {
                    let known = self.marks.dropped.entry(mark.of.clone()).or_default();
                    *known = mark.up_to.max(*known);
                }
            }
            Write::StoppedHolding { .. } | Write::MarkErased | Write::Refused { .. } => {}
        }
    }

    fn change(&mut self, scope: &Arc<Scope>, change: &Change) {
        let mut ever = |sort, number| _ = self.ever.insert((scope.clone(), sort, number));
        match change {
            Change::TokensReserved { up_to } => {
                let mark = self.marks.of.entry(scope.clone()).or_default();
                *mark = (*mark).max(*up_to);
            }
            Change::OwnerOpened(record) => ever(Sort::Owner, record.owner.get()),
            Change::OwnerEnded { owner, .. } => {
                ever(Sort::OwnerEnded, owner.get());
                self.held.retain(|(of, _, by), _| of != scope || *by != owner.get());
            }
            Change::Locked(record) => {
                ever(Sort::Lock, record.token.get());
                let key = (scope.clone(), record.name.clone(), record.owner.get());
                let is_kept =
                    |(of, name, _): &&(Arc<Scope>, NameBuf, u64)| of == scope && *name == record.name;
                if record.mode == Mode::Exclusive && self.void.iter().any(|lock| is_kept(&lock)) {
                    self.passed_on.get_or_insert(record.name.clone());
                }
                self.held.insert(key, record.token.get());
            }
            Change::Unlocked { name, owner, .. } => {
                let key = (scope.clone(), name.clone(), owner.get());
                self.held.remove(&key);
                self.void.remove(&key);
            }
            Change::LocksVoided { owner, which, .. } => {
                if let VoidLocks::OfEnded(_) = which {
                    ever(Sort::OwnerEnded, owner.get());
                }
                let is_meant = |(of, name, by): &(Arc<Scope>, NameBuf, u64), token: u64| {
                    of == scope
                        && *by == owner.get()
                        && match which {
                            VoidLocks::OfEnded(_) => true,
                            VoidLocks::AllBut { up_to, spared } => {
                                token <= up_to.get() && !spared.contains(name)
                            }
                            VoidLocks::These(locks) => {
                                locks.iter().any(|(other, of)| other == name && of.get() == token)
                            }
                        }
                };
                let before = self.void.len();
                let voided = self.held.extract_if(|lock, token| is_meant(lock, *token));
                self.void.extend(voided.map(|(lock, _)| lock));
                self.long_sweeps += u64::from(self.void.len() - before > PARTS_PER_TICK);
            }
            Change::LocksSwept { .. } => {}
            Change::Claimed(record) => ever(Sort::Claim, record.token.get()),
            Change::Unclaimed { token, .. } => ever(Sort::Unclaimed, token.get()),
            Change::Assigned(record) => ever(Sort::Assignment, record.token.get()),
            Change::Unassigned { token, .. } => ever(Sort::Unassigned, token.get()),
        }
    }
}
