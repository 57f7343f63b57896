//! The result of batches, in plain maps: the memory store's state, and the measure of every other store.

pub(crate) mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, BrokenBy, Change, ClaimEnd, ClaimRecord, FencingToken, Instant, LockEnd, LockRecord,
    Mode, NameBuf, OwnerEnd, OwnerId, OwnerRecord, VoidLocks,
};

#[cfg(feature = "conformance")]
use crate::HighestNumbers;
use writer::WriterState;

use crate::{
    CommitBatch, CommitOutcome, HeldList, HistoryEnd, HistoryEntry, HistoryKind, MarkOf, Opened,
    RecoveredRow, RefusalRecord, Scope, SecretKey, TokenMark, Write, WriterId,
};

/// One slot.
#[derive(Clone, Debug)]
pub(crate) struct SlotState {
    writer_state: WriterState,
    clean: bool,
    /// The longest lease of this epoch, and of the earlier ones that no recovery has made good yet.
    longest_lease_ms: u64,
    longest_lease_before_ms: u64,
    tickets_since: u64,
    /// Whether no recovery was completed since a restore.
    restored: bool,
    token_floor: u64,
    /// The list that the last stop left.
    held: Option<HeldList>,
    groups: BTreeMap<Box<str>, u64>,
    tenants: BTreeMap<Box<str>, u64>,
    buckets: BTreeMap<Arc<Scope>, BucketState>,
}

#[derive(Clone, Debug, Default)]
struct BucketState {
    mark: u64,
    /// The last epoch in which a volatile grant was announced.
    announced_in: u64,
    owners: BTreeMap<OwnerId, OwnerRecord>,
    locks: BTreeMap<(NameBuf, OwnerId), LockRecord>,
    claims: BTreeMap<NameBuf, ClaimRecord>,
    assignments: BTreeMap<NameBuf, AssignmentRecord>,
    /// By owner, the changes that made locks void which are not all swept yet.
    voided: BTreeMap<OwnerId, Vec<Change>>,
}

impl Default for SlotState {
    fn default() -> Self {
        Self {
            writer_state: WriterState::begin(0, WriterId(0)),
            clean: true,
            longest_lease_ms: 0,
            longest_lease_before_ms: 0,
            tickets_since: 1,
            restored: false,
            token_floor: 0,
            held: None,
            groups: BTreeMap::new(),
            tenants: BTreeMap::new(),
            buckets: BTreeMap::new(),
        }
    }
}

impl SlotState {
    pub(crate) fn take(&mut self, writer: WriterId, key: SecretKey) -> Opened {
        self.writer_state = WriterState::begin(self.writer_state.epoch() + 1, writer);
        self.longest_lease_before_ms = self.longest_lease_before_ms.max(self.longest_lease_ms);
        self.longest_lease_ms = 0;
        Opened {
            epoch: self.writer_state.epoch(),
            key,
            clean: self.clean,
            restored: self.restored,
            longest_lease_ms: self.longest_lease_before_ms,
            tickets_since: self.tickets_since,
            token_floor: self.token_floor,
            held: self.held.take(),
        }
    }

    /// `ended` gets what goes into the history, without its numbers.
    pub(crate) fn commit(
        &mut self,
        batch: &CommitBatch,
        ended: &mut dyn FnMut(&Arc<Scope>, HistoryEntry),
    ) -> CommitOutcome {
        if let Some(outcome) = self.writer_state.settled_outcome(batch) {
            return outcome;
        }
        batch.writes.iter().for_each(|write| self.write(write, ended));
        self.writer_state.advance(batch);
        CommitOutcome::Committed
    }

    pub(crate) fn visit(&self, visit: &mut dyn FnMut(RecoveredRow)) {
        let mut mark = |of, up_to: &u64| visit(RecoveredRow::Mark(TokenMark { of, up_to: *up_to }));
        self.groups.iter().for_each(|(group, up_to)| mark(MarkOf::Group(group.clone()), up_to));
        self.tenants.iter().for_each(|(tenant, up_to)| mark(MarkOf::Tenant(tenant.clone()), up_to));
        for (scope, bucket) in &self.buckets {
            let needs_recovery = bucket.announced_in >= self.tickets_since;
            visit(RecoveredRow::Bucket { scope: Arc::clone(scope), needs_recovery });
            bucket.visit(&mut |change| visit(RecoveredRow::Change { scope: Arc::clone(scope), change }));
        }
    }

    #[cfg(feature = "conformance")]
    pub(crate) fn highest_numbers(&self) -> HighestNumbers {
        let buckets = self.buckets.values().map(|bucket| bucket.mark);
        let marks = self.tenants.values().chain(self.groups.values()).copied().chain(buckets);
        HighestNumbers {
            mark: marks.fold(self.token_floor, u64::max),
            epoch: self.writer_state.epoch(),
            longest_lease_ms: self.longest_lease_ms.max(self.longest_lease_before_ms),
        }
    }

    /// Makes the state of a backup the present one.
    #[cfg(feature = "conformance")]
    pub(crate) fn go_on_above(&mut self, numbers: HighestNumbers) {
        self.writer_state = WriterState::begin(numbers.epoch, WriterId(0));
        (self.token_floor, self.clean, self.restored) = (numbers.mark, false, true);
        self.longest_lease_before_ms = numbers.longest_lease_ms;
        self.held = None;
        // The floor is as high for everybody.
        self.groups.clear();
        self.tenants.clear();
        for bucket in self.buckets.values_mut() {
            (bucket.mark, bucket.announced_in) = (numbers.mark, numbers.epoch);
        }
    }

    fn write(&mut self, write: &Write, ended: &mut dyn FnMut(&Arc<Scope>, HistoryEntry)) {
        match write {
            Write::Change { scope, change } => {
                let bucket = self.bucket(scope);
                bucket.note_ends(change, &mut |entry| ended(scope, entry));
                bucket.change(change);
            }
            Write::BucketDropped { scope, mark } => {
                self.buckets.remove(scope);
                mark.iter().for_each(|mark| self.raise(mark));
            }
            Write::MarksReplaced { marks } => {
                self.groups.clear();
                self.tenants.clear();
                marks.iter().for_each(|mark| self.raise(mark));
            }
            Write::NeedsRecovery { scope } => {
                self.clean = false;
                self.bucket(scope).announced_in = self.writer_state.epoch();
            }
            Write::LongestLease { ms } => self.longest_lease_ms = self.longest_lease_ms.max(*ms),
            Write::RecoveryCompleted => {
                self.tickets_since = self.writer_state.epoch();
                self.longest_lease_before_ms = 0;
                self.restored = false;
            }
            Write::StoppedClean => {
                self.writer_state.end();
                self.clean = true;
                self.tickets_since = self.writer_state.epoch() + 1;
                self.longest_lease_before_ms = 0;
                self.longest_lease_ms = 0;
                self.restored = false;
            }
            Write::StoppedHolding { held } => {
                self.writer_state.end();
                self.held = held.clone();
            }
            Write::MarkErased => self.clean = false,
            Write::Refused { scope, refusal } => ended(scope, of_refusal(refusal)),
        }
    }

    fn raise(&mut self, mark: &TokenMark) {
        let known = match &mark.of {
            MarkOf::Tenant(tenant) => self.tenants.entry(tenant.clone()).or_default(),
            MarkOf::Group(group) => self.groups.entry(group.clone()).or_default(),
            MarkOf::All => &mut self.token_floor,
        };
        *known = mark.up_to.max(*known);
    }

    fn bucket(&mut self, scope: &Arc<Scope>) -> &mut BucketState {
        self.buckets.entry(Arc::clone(scope)).or_default()
    }
}

impl BucketState {
    /// What ends with the change, which is still to be made.
    fn note_ends(&self, change: &Change, ended: &mut dyn FnMut(HistoryEntry)) {
        match change {
            Change::OwnerEnded { owner, names, reason, at } => {
                let end = LockEnd::WithOwner(*reason);
                // A lock ends once, however often it is listed.
                let listed = names.iter().enumerate().filter(|(at, name)| !names[..*at].contains(name));
                listed.for_each(|(_, name)| self.note_lock(name, *owner, &end, *at, ended));
                self.note_owner(*owner, *reason, *at, ended);
            }
            Change::LocksVoided { owner, which: VoidLocks::OfEnded(reason), at } => {
                self.note_owner(*owner, *reason, *at, ended);
            }
            Change::Locked(record) => {
                let end = match record.mode {
                    Mode::Exclusive => HistoryEnd::Upgraded,
                    Mode::Shared => HistoryEnd::Downgraded,
                };
                if let Some(lock) = self.locks.get(&(record.name.clone(), record.owner)) {
                    ended(self.of_lock(lock, end, record.since));
                }
            }
            Change::Unlocked { name, owner, reason, at, .. } => {
                self.note_lock(name, *owner, reason, *at, ended);
            }
            Change::Unclaimed { name, reason, at, .. } => {
                let (end, by) = match reason {
                    ClaimEnd::Released => (HistoryEnd::Released, None),
                    ClaimEnd::Expired => (HistoryEnd::Expired, None),
                    ClaimEnd::Stolen => (HistoryEnd::Stolen, None),
                    ClaimEnd::Broken(by) => (HistoryEnd::Broken, Some(by)),
                };
                if let Some(claim) = self.claims.get(name) {
                    ended(broken(of_claim(claim, end, *at), by));
                }
            }
            Change::Assigned(record) => {
                if let Some(claim) = self.claims.get(&record.name) {
                    ended(of_claim(claim, HistoryEnd::Finalized, record.since));
                }
            }
            Change::Unassigned { name, at, .. } => {
                if let Some(it) = self.assignments.get(name) {
                    let (since, end) = (it.since, HistoryEnd::Unassigned);
                    let entry = HistoryEntry::new(HistoryKind::Assignment, since, *at, end, &it.claimant);
                    ended(HistoryEntry { name: Some(name.clone()), token: Some(it.token), ..entry });
                }
            }
            Change::TokensReserved { .. }
            | Change::OwnerOpened(_)
            | Change::LocksVoided { .. }
            | Change::LocksSwept { .. }
            | Change::Claimed(_) => {}
        }
    }

    /// An owner whose locks became void at its end has ended then.
    fn note_owner(&self, owner: OwnerId, reason: OwnerEnd, at: Instant, ended: &mut dyn FnMut(HistoryEntry)) {
        let is_end =
            |change: &Change| matches!(change, Change::LocksVoided { which: VoidLocks::OfEnded(_), .. });
        if self.voided.get(&owner).is_some_and(|changes| changes.iter().any(is_end)) {
            return;
        }
        let end = match reason {
            OwnerEnd::Ended => HistoryEnd::Ended,
            OwnerEnd::Expired => HistoryEnd::Expired,
            OwnerEnd::Overdue => HistoryEnd::Overdue,
        };
        if let Some(record) = self.owners.get(&owner) {
            let entry = HistoryEntry::new(HistoryKind::Owner, record.since, at, end, &record.label);
            ended(HistoryEntry { owner: Some(owner), ..entry });
        }
    }

    fn note_lock(
        &self,
        name: &NameBuf,
        owner: OwnerId,
        reason: &LockEnd,
        at: Instant,
        ended: &mut dyn FnMut(HistoryEntry),
    ) {
        let (end, by) = match reason {
            LockEnd::Released => (HistoryEnd::Released, None),
            LockEnd::Undone => (HistoryEnd::Undone, None),
            LockEnd::Stolen => (HistoryEnd::Stolen, None),
            LockEnd::Broken(by) => (HistoryEnd::Broken, Some(by)),
            LockEnd::WithOwner(OwnerEnd::Ended) => (HistoryEnd::OwnerEnded, None),
            LockEnd::WithOwner(OwnerEnd::Expired) => (HistoryEnd::OwnerExpired, None),
            LockEnd::WithOwner(OwnerEnd::Overdue) => (HistoryEnd::OwnerOverdue, None),
        };
        if let Some(lock) = self.locks.get(&(name.clone(), owner)) {
            ended(broken(self.of_lock(lock, end, at), by));
        }
    }

    fn of_lock(&self, lock: &LockRecord, end: HistoryEnd, at: Instant) -> HistoryEntry {
        let who = self.owners.get(&lock.owner).map_or("", |owner| &owner.label);
        HistoryEntry {
            owner: Some(lock.owner),
            name: Some(lock.name.clone()),
            mode: Some(lock.mode),
            token: Some(lock.token),
            ..HistoryEntry::new(HistoryKind::Offline, lock.since, at, end, who)
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::TokensReserved { up_to } => self.mark = self.mark.max(*up_to),
            Change::OwnerOpened(record) => {
                self.owners.insert(record.owner, record.clone());
            }
            Change::OwnerEnded { owner, names, .. } => {
                self.owners.remove(owner);
                self.voided.remove(owner);
                for name in names {
                    self.locks.remove(&(name.clone(), *owner));
                }
            }
            Change::Locked(record) => {
                self.locks.insert((record.name.clone(), record.owner), record.clone());
            }
            Change::Unlocked { name, owner, .. } => {
                self.locks.remove(&(name.clone(), *owner));
            }
            Change::LocksVoided { owner, .. } => {
                self.voided.entry(*owner).or_default().push(change.clone());
            }
            Change::LocksSwept { owner } => {
                self.voided.remove(owner);
            }
            Change::Claimed(record) => {
                self.claims.insert(record.name.clone(), record.clone());
            }
            Change::Unclaimed { name, .. } => {
                self.claims.remove(name);
            }
            Change::Assigned(record) => {
                self.claims.remove(&record.name);
                self.assignments.insert(record.name.clone(), record.clone());
            }
            Change::Unassigned { name, .. } => {
                self.assignments.remove(name);
            }
        }
    }

    fn visit(&self, visit: &mut dyn FnMut(Change)) {
        if self.mark > 0 {
            visit(Change::TokensReserved { up_to: self.mark });
        }
        self.owners.values().for_each(|record| visit(Change::OwnerOpened(record.clone())));
        in_order(&self.locks, |lock| lock.token).for_each(|record| visit(Change::Locked(record.clone())));
        self.voided.values().flatten().for_each(|change| visit(change.clone()));
        in_order(&self.claims, |claim| claim.token).for_each(|record| visit(Change::Claimed(record.clone())));
        in_order(&self.assignments, |it| it.token).for_each(|record| visit(Change::Assigned(record.clone())));
    }
}

fn of_refusal(it: &RefusalRecord) -> HistoryEntry {
    HistoryEntry {
        owner: it.owner,
        name: Some(it.name.clone()),
        mode: it.mode,
        count: it.count,
        ..HistoryEntry::new(it.kind, it.since, it.at, HistoryEnd::Refused, &it.who)
    }
}

fn of_claim(claim: &ClaimRecord, end: HistoryEnd, at: Instant) -> HistoryEntry {
    let entry = HistoryEntry::new(HistoryKind::Claim, claim.since, at, end, &claim.claimant);
    HistoryEntry { name: Some(claim.name.clone()), token: Some(claim.token), ..entry }
}

fn broken(entry: HistoryEntry, by: Option<&BrokenBy>) -> HistoryEntry {
    let operator = by.map(|by| by.operator.clone());
    HistoryEntry { operator, reason: by.and_then(|by| by.reason.clone()), ..entry }
}

fn in_order<K, V>(map: &BTreeMap<K, V>, token: impl Fn(&V) -> FencingToken) -> impl Iterator<Item = &V> {
    let mut values: Vec<&V> = map.values().collect();
    values.sort_by_key(|value| token(value));
    values.into_iter()
}
