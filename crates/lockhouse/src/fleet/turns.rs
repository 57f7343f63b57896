//! Whose batches go with the next commit of a node.
//!
//! ```text
//!   batches ─▶ light ──────────────────▶ first, alone, after a commit with heavy ones
//!         └──▶ heavy: tenant ─┬─ slot ─▶ each tenant has its turn, and there each slot
//!                    tenant ─┘
//! ```

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use lockhouse_store::{CommitBatch, CommitOutcome, Fatal, Write};
use tokio::sync::oneshot;

use crate::engine::commit::cost;

/// A batch of at most this cost adds little to a commit: a few names, and not more than a few KiB.
pub(super) const LIGHT: usize = 8;

/// A commit that a house asks for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) batches: Vec<Arc<CommitBatch>>,
    pub(super) reply: oneshot::Sender<Result<Vec<CommitOutcome>, Fatal>>,
    pub(super) cost: usize,
}

impl Asked {
    pub(super) fn new(
        batches: Vec<Arc<CommitBatch>>,
        reply: oneshot::Sender<Result<Vec<CommitOutcome>, Fatal>>,
    ) -> Self {
        let cost = batches.iter().map(|batch| cost::of_batch(batch)).sum();
        Self { batches, reply, cost }
    }

    /// The tenant of the first write about a bucket: a house takes a share of each tenant in turn, so that it
    /// is another one each time.
    fn tenant(&self) -> &str {
        let mut writes = self.batches.iter().flat_map(|batch| &batch.writes);
        let tenant = writes.find_map(|write| match write {
            Write::Change { scope, .. }
            | Write::BucketDropped { scope, .. }
            | Write::NeedsRecovery { scope }
            | Write::Refused { scope, .. } => Some(&*scope.tenant),
            _ => None,
        });
        tenant.unwrap_or_default()
    }
}

/// What is ready to be committed.
#[derive(Debug, Default)]
pub(super) struct Turns {
    light: VecDeque<Asked>,
    /// By tenant, in the order of their turns; none is empty.
    heavy: VecDeque<(Box<str>, VecDeque<Asked>)>,
    /// The last commit had heavy batches.
    was_heavy: bool,
}

impl Turns {
    pub(super) fn add(&mut self, asked: Asked) {
        if asked.cost <= LIGHT {
            self.light.push_back(asked);
            return;
        }
        let tenant = asked.tenant();
        match self.heavy.iter_mut().find(|(known, _)| **known == *tenant) {
            Some((_, queue)) => queue.push_back(asked),
            None => self.heavy.push_back((tenant.into(), [asked].into())),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.light.is_empty() && self.heavy.is_empty()
    }

    /// The number of heavy batches.
    pub(super) fn heavy(&self) -> usize {
        self.heavy.iter().map(|(_, queue)| queue.len()).sum()
    }

    /// The batches of the next commit, up to that cost; one at least, whatever it costs, if there is any.
    /// After a commit with heavy batches the light ones that came meanwhile go without company.
    pub(super) fn take(&mut self, most: usize) -> Vec<Asked> {
        let is_for_heavy = !mem::take(&mut self.was_heavy) || self.light.is_empty();
        let mut taken = Vec::new();
        if is_for_heavy {
            self.take_heavy(&mut taken);
        }
        let mut cost = taken.iter().map(|asked| asked.cost).sum::<usize>();
        while let Some(next) = self.light.front()
            && (taken.is_empty() || cost + next.cost <= most)
        {
            cost += next.cost;
            taken.extend(self.light.pop_front());
        }
        while is_for_heavy
            && let Some(next) = self.heavy.front().and_then(|(_, queue)| queue.front())
            && cost + next.cost <= most
        {
            cost += next.cost;
            self.take_heavy(&mut taken);
        }
        taken
    }

    /// Takes the first batch of the tenant whose turn it is, and gives the turn to the next one.
    fn take_heavy(&mut self, taken: &mut Vec<Asked>) {
        let Some((tenant, mut queue)) = self.heavy.pop_front() else { return };
        self.was_heavy = true;
        taken.extend(queue.pop_front());
        if !queue.is_empty() {
            self.heavy.push_back((tenant, queue));
        }
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::{Change, OwnerId};
    use lockhouse_store::{Scope, Slot, WriterId};

    use super::*;

    /// A batch of a tenant with so many writes.
    fn asked(tenant: &str, slot: u16, writes: usize) -> Asked {
        let scope = Arc::new(Scope::new(tenant, "b"));
        let change = Change::LocksSwept { owner: OwnerId::new(1) };
        let writes = vec![Write::Change { scope, change }; writes];
        let batch =
            CommitBatch { slot: Slot::new(slot), epoch: 1, writer: WriterId(1), first_seq: 1, writes };
        Asked::new(vec![Arc::new(batch)], oneshot::channel().0)
    }

    fn taken(turns: &mut Turns, most: usize) -> Vec<u16> {
        turns.take(most).iter().map(|asked| asked.batches[0].slot.get()).collect()
    }

    #[test]
    fn light_batches_wait_for_one_commit_of_heavy_ones_at_most_and_hold_up_none() {
        let mut turns = Turns::default();
        for slot in 0..3 {
            turns.add(asked("noisy", slot, 60));
        }
        turns.add(asked("quiet", 10, 1));
        assert_eq!(taken(&mut turns, 64), [0, 10]);
        turns.add(asked("quiet", 11, LIGHT));
        assert_eq!(taken(&mut turns, 64), [11]);
        for slot in 20..40 {
            turns.add(asked("quiet", slot, LIGHT));
        }
        assert_eq!(taken(&mut turns, 64)[0], 1);
        assert_eq!(taken(&mut turns, 64), (20..28).collect::<Vec<_>>());
        assert_eq!(taken(&mut turns, 64)[0], 2);
    }

    #[test]
    fn each_tenant_has_its_turn_however_many_slots_another_one_writes_to() {
        let mut turns = Turns::default();
        for slot in 0..100 {
            turns.add(asked("many", slot, 60));
        }
        turns.add(asked("one", 200, 60));
        assert_eq!(taken(&mut turns, 130), [0, 200]);
        assert_eq!(taken(&mut turns, 130), [1, 2]);
        assert_eq!(turns.heavy(), 97);
    }

    #[test]
    fn a_batch_above_the_cost_of_a_commit_goes_alone() {
        let mut turns = Turns::default();
        turns.add(asked("a", 0, 1000));
        turns.add(asked("b", 1, 60));
        assert_eq!(taken(&mut turns, 64), [0]);
        assert_eq!(taken(&mut turns, 64), [1]);
        assert!(turns.is_empty() && taken(&mut turns, 64).is_empty());
    }
}
