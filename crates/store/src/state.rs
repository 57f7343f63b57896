//! The result of batches, in plain maps: the memory store's state, and the measure of every other store.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, Change, ClaimRecord, FencingToken, LockRecord, NameBuf, OwnerId, OwnerRecord,
};

use crate::writer_state::WriterState;
use crate::{CommitBatch, CommitOutcome, Opened, RecoveredRow, Scope, SecretKey, Write, WriterId};

/// One slot.
#[derive(Debug)]
pub(crate) struct SlotState {
    writer_state: WriterState,
    clean: bool,
    /// The longest lease of this epoch, and of the earlier ones that no recovery has made good yet.
    longest_lease_ms: u64,
    longest_lease_before_ms: u64,
    tickets_since: u64,
    tenants: BTreeMap<Box<str>, u64>,
    buckets: BTreeMap<Arc<Scope>, BucketState>,
}

#[derive(Debug, Default)]
struct BucketState {
    mark: u64,
    /// The last epoch in which a volatile grant was announced.
    announced_in: u64,
    owners: BTreeMap<OwnerId, OwnerRecord>,
    locks: BTreeMap<(NameBuf, OwnerId), LockRecord>,
    claims: BTreeMap<NameBuf, ClaimRecord>,
    assignments: BTreeMap<NameBuf, AssignmentRecord>,
}

impl Default for SlotState {
    fn default() -> Self {
        Self {
            writer_state: WriterState::begin(0, WriterId(0)),
            clean: true,
            longest_lease_ms: 0,
            longest_lease_before_ms: 0,
            tickets_since: 1,
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
            restored: false,
            longest_lease_ms: self.longest_lease_before_ms,
            tickets_since: self.tickets_since,
            token_floor: 0,
        }
    }

    pub(crate) fn commit(&mut self, batch: &CommitBatch) -> CommitOutcome {
        if let Some(outcome) = self.writer_state.settled_outcome(batch) {
            return outcome;
        }
        batch.writes.iter().for_each(|write| self.write(write));
        self.writer_state.advance(batch);
        CommitOutcome::Committed
    }

    pub(crate) fn visit(&self, visit: &mut dyn FnMut(RecoveredRow)) {
        for (tenant, mark) in &self.tenants {
            visit(RecoveredRow::Tenant { tenant: tenant.clone(), mark: *mark });
        }
        for (scope, bucket) in &self.buckets {
            let needs_recovery = bucket.announced_in >= self.tickets_since;
            visit(RecoveredRow::Bucket { scope: Arc::clone(scope), needs_recovery });
            bucket.visit(&mut |change| visit(RecoveredRow::Change { scope: Arc::clone(scope), change }));
        }
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::Change { scope, change } => self.bucket(scope).change(change),
            Write::BucketDropped { scope } => {
                let mark = self.buckets.remove(scope).map_or(0, |bucket| bucket.mark);
                if mark > 0 {
                    let of_tenant = self.tenants.entry(scope.tenant.clone()).or_default();
                    *of_tenant = mark.max(*of_tenant);
                }
            }
            Write::NeedsRecovery { scope } => {
                self.clean = false;
                self.bucket(scope).announced_in = self.writer_state.epoch();
            }
            Write::LongestLease { ms } => self.longest_lease_ms = self.longest_lease_ms.max(*ms),
            Write::RecoveryCompleted => {
                self.tickets_since = self.writer_state.epoch();
                self.longest_lease_before_ms = 0;
            }
            Write::StoppedClean => {
                self.writer_state.end();
                self.clean = true;
                self.tickets_since = self.writer_state.epoch() + 1;
                self.longest_lease_before_ms = 0;
                self.longest_lease_ms = 0;
            }
            Write::MarkErased => self.clean = false,
        }
    }

    fn bucket(&mut self, scope: &Arc<Scope>) -> &mut BucketState {
        self.buckets.entry(Arc::clone(scope)).or_default()
    }
}

impl BucketState {
    fn change(&mut self, change: &Change) {
        match change {
            Change::TokensReserved { up_to } => self.mark = self.mark.max(*up_to),
            Change::OwnerOpened(record) => {
                self.owners.insert(record.owner, record.clone());
            }
            Change::OwnerEnded { owner, names, .. } => {
                self.owners.remove(owner);
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
        in_order(&self.claims, |claim| claim.token).for_each(|record| visit(Change::Claimed(record.clone())));
        in_order(&self.assignments, |it| it.token).for_each(|record| visit(Change::Assigned(record.clone())));
    }
}

fn in_order<K, V>(map: &BTreeMap<K, V>, token: impl Fn(&V) -> FencingToken) -> impl Iterator<Item = &V> {
    let mut values: Vec<&V> = map.values().collect();
    values.sort_by_key(|value| token(value));
    values.into_iter()
}
