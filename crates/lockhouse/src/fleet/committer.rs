//! The one commit that a node has under way, with what is ready of all its slots.
//!
//! ```text
//!   house of a slot ─ pipeline ─ SlotStore ─┐
//!   house of a slot ─ pipeline ─ SlotStore ─┼─▶ requests ─▶ one statement ─▶ the store
//!   none, and nothing for a while ──────────┘                    │
//!                                                                └─▶ SlotLease, slots that are owned
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockhouse_store::{
    BackupError, CommitBatch, CommitOutcome, Fatal, FleetStore, HistoryError, HistoryPage, HistoryQuery,
    NodeRenewal, Opened, RecoveredRow, Slot, Store, StoreFuture, TakeError, WriterId,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::commit_costs::CommitCosts;
use super::turns::{Asked, Turns};
use crate::engine::commit::batch::LEAST_SHARE;
use crate::engine::commit::slot_lease::SlotLease;

/// The store of a node as the house of one slot has it.
#[derive(Debug)]
pub(super) struct SlotStore {
    store: Arc<dyn FleetStore>,
    asked: mpsc::UnboundedSender<Asked>,
    batch_cost: Arc<AtomicUsize>,
}

/// The task that commits for all houses of a node during one life.
pub(super) struct Committer {
    store: Arc<dyn FleetStore>,
    lease: Arc<SlotLease>,
    /// How long the node may have nothing to commit before it renews.
    idle: Duration,
    asked: mpsc::UnboundedReceiver<Asked>,
    turns: Turns,
    costs: CommitCosts,
    /// The cost that the next batch of a house should have at most.
    batch_cost: Arc<AtomicUsize>,
    heard: Arc<Heard>,
}

/// What the commits of a life have said of it.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// How many commits were sent.
    sent: AtomicU64,
    /// The slots that the node owns, and the number of the commit that said so.
    owned: watch::Sender<(u64, Vec<Slot>)>,
    /// Why the last commit was not confirmed, if it was not.
    unconfirmed: watch::Sender<Option<Box<str>>>,
}

/// Why no commit is sent in this life any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LifeEnd {
    /// The node was declared dead.
    Dead,
    /// The store can no longer be trusted.
    Failed(Fatal),
}

impl Heard {
    /// How many commits were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// The slots that the node owns, by the last commit that was confirmed, and the number of that.
    pub(super) fn owned(&self) -> (u64, Vec<Slot>) {
        self.owned.borrow().clone()
    }

    /// Why the last commit was not confirmed; none if it was.
    pub(super) fn unconfirmed(&self) -> Option<Box<str>> {
        self.unconfirmed.borrow().clone()
    }
}

impl Committer {
    /// The committer of a life, and the store for its houses.
    pub(super) fn new(
        store: Arc<dyn FleetStore>,
        lease: Arc<SlotLease>,
        idle: Duration,
    ) -> (Self, Arc<SlotStore>) {
        let (sender, asked) = mpsc::unbounded_channel();
        let costs = CommitCosts::new(idle / 4);
        let batch_cost = Arc::new(AtomicUsize::new(costs.cost()));
        let of_slots =
            Arc::new(SlotStore { store: store.clone(), asked: sender, batch_cost: batch_cost.clone() });
        let (turns, heard) = (Turns::default(), Arc::default());
        (Self { store, lease, idle, asked, turns, costs, batch_cost, heard }, of_slots)
    }

    pub(super) fn heard(&self) -> Arc<Heard> {
        self.heard.clone()
    }

    /// Commits and renews until the node is declared dead. A commit that the store refuses renews nothing:
    /// once the time for it is over the node renews without one, whatever houses ask for. One that renews
    /// late is followed by theirs all the same.
    pub(super) async fn run(mut self) -> LifeEnd {
        let (mut due, mut may_wait) = (Instant::now() + self.idle, true);
        loop {
            let mut asked = Vec::new();
            if may_wait || Instant::now() < due {
                if self.turns.is_empty()
                    && let Ok(Some(first)) = timeout_at(due, self.asked.recv()).await
                {
                    self.turns.add(first);
                }
                asked = self.gather();
            }
            let (begun, is_renewal) = (Instant::now(), asked.is_empty());
            match self.commit(asked).await {
                Ok(has_renewed) => may_wait = has_renewed || is_renewal,
                Err(end) => return end,
            }
            if may_wait {
                due = begun + self.idle;
            }
        }
    }

    /// The batches of the next commit, of all that are ready.
    fn gather(&mut self) -> Vec<Asked> {
        while let Ok(next) = self.asked.try_recv() {
            self.turns.add(next);
        }
        let most = self.costs.cost();
        self.batch_cost.store(most / self.turns.heavy().max(1), Ordering::Release);
        self.turns.take(most)
    }

    /// Returns whether it has renewed.
    async fn commit(&mut self, asked: Vec<Asked>) -> Result<bool, LifeEnd> {
        let (begun, cost) = (Instant::now(), asked.iter().map(|asked| asked.cost).sum());
        let batches = asked.iter().flat_map(|asked| asked.batches.iter().cloned()).collect();
        let number = self.heard.sent.fetch_add(1, Ordering::AcqRel) + 1;
        let sent = self.lease.now();
        let (outcomes, renewal) = match self.store.commit_and_renew(batches).await {
            Ok(said) => said,
            Err(fatal) => {
                asked.into_iter().for_each(|asked| _ = asked.reply.send(Err(fatal.clone())));
                return Err(LifeEnd::Failed(fatal));
            }
        };
        let (is_dead, has_renewed) = (renewal == NodeRenewal::Dead, matches!(renewal, NodeRenewal::Owns(_)));
        let has_waited =
            |outcome: &CommitOutcome| matches!(outcome, CommitOutcome::Refused(_) | CommitOutcome::Unknown);
        // The time of one that waited for a lock, a standby or an answer is no price of its rows.
        if has_renewed && !outcomes.iter().any(has_waited) {
            self.costs.took(cost, begun.elapsed());
        }
        let unconfirmed = if let NodeRenewal::Unknown(why) = &renewal { Some(why.clone()) } else { None };
        self.heard.unconfirmed.send_replace(unconfirmed);
        if let NodeRenewal::Owns(slots) = renewal {
            // Before the answers, with which houses begin to speak of what is confirmed.
            self.lease.confirm(sent);
            self.heard.owned.send_replace((number, slots));
        }
        let mut outcomes = outcomes.into_iter();
        for Asked { batches, reply, .. } in asked {
            let own = outcomes.by_ref().take(batches.len()).collect();
            // A house that is gone does not wait for it.
            _ = reply.send(Ok(own));
        }
        if is_dead { Err(LifeEnd::Dead) } else { Ok(has_renewed) }
    }
}

impl Store for SlotStore {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        self.store.take_slot(slot, writer, visit)
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move {
            // The life is over once no committer takes it: then nothing of it is kept any more.
            let fenced = vec![CommitOutcome::Fenced; batches.len()];
            let (reply, answer) = oneshot::channel();
            if self.asked.send(Asked::new(batches, reply)).is_err() {
                return Ok(fenced);
            }
            answer.await.unwrap_or(Ok(fenced))
        })
    }

    /// At least the largest command fits.
    fn batch_cost(&self) -> usize {
        self.batch_cost.load(Ordering::Acquire).max(LEAST_SHARE)
    }

    fn history(&self, query: HistoryQuery) -> StoreFuture<'_, Result<HistoryPage, HistoryError>> {
        self.store.history(query)
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        self.store.backup(to)
    }

    /// The other houses go on with it.
    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        Box::pin(async { Ok(()) })
    }
}
