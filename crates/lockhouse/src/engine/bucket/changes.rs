//! The changes of a bucket on their way to the store, and how they end.

use std::collections::HashSet;
use std::sync::Arc;

use lockhouse_core::{Change, Command, Now, Outcome};
use tokio::sync::oneshot;

use crate::engine::bucket::deferred::{Deferred, DurableChange};
use crate::engine::bucket::delivery::HeldAnswer;
use crate::engine::bucket::durability::{Announcement, Durability};
use crate::engine::bucket::results::NotAsked;
use crate::engine::bucket::state::State;
use crate::engine::commit::batch::TakenChanges;
use crate::engine::inbox::Notice;
use crate::loss::Loss;

impl State {
    #[cold]
    pub(super) fn changed(&mut self, change: Change) {
        match &change {
            Change::OwnerOpened(_) | Change::Claimed(_) => self.retention.add_fact(),
            Change::OwnerEnded { .. } | Change::Unclaimed { .. } | Change::Unassigned { .. } => {
                self.retention.remove_fact();
            }
            Change::TokensReserved { .. }
            | Change::Locked(_)
            | Change::Unlocked { .. }
            | Change::LocksVoided { .. }
            | Change::LocksSwept { .. }
            | Change::Assigned(_) => {}
        }
        let Durability::Durable(durable) = &mut self.durability else { return };
        durable.note_change();
        match change {
            Change::TokensReserved { up_to } => self.outbox.reservation(up_to, DurableChange::Change(change)),
            _ => {
                let names = change.names().to_vec();
                let is_void = matches!(change, Change::LocksVoided { .. });
                self.outbox.change(&names, DurableChange::Change(change));
                if is_void {
                    self.voided_in = Some(self.outbox.last());
                }
            }
        }
    }

    /// Whether grants may be announced to ports: the store knows that the bucket needs recovery. If it does
    /// not, it soon will.
    pub(super) fn may_announce_grants(&mut self) -> bool {
        let Durability::Durable(durable) = &mut self.durability else { return true };
        match durable.announcement() {
            Announcement::Announced => true,
            Announcement::Announcing { group } => {
                let is_durable = self.outbox.is_durable(group);
                if is_durable {
                    durable.announce(Announcement::Announced);
                }
                is_durable
            }
            Announcement::NotAnnounced => {
                self.outbox.change(&[], DurableChange::NeedsRecovery);
                durable.announce(Announcement::Announcing { group: self.outbox.last() });
                false
            }
        }
    }

    /// Stores a change that concerns no name.
    pub(super) fn keep(&mut self, change: DurableChange) {
        let Durability::Durable(durable) = &mut self.durability else { return };
        durable.note_change();
        self.outbox.change(&[], change);
    }

    /// The command is over. Returns whether the pipeline has to be notified that there is something to send,
    /// and how many commands have come.
    pub(super) fn close_group(&mut self) -> (bool, usize) {
        self.outbox.close_group();
        let Durability::Durable(durable) = &mut self.durability else { return (false, 0) };
        durable.report(self.outbox.unsent())
    }

    /// Sends a share of the changes.
    pub(super) fn take(&mut self, share: usize, changes: &mut Vec<DurableChange>) -> TakenChanges {
        let cost = self.outbox.take(share, changes);
        let Durability::Durable(durable) = &mut self.durability else { return TakenChanges::default() };
        let unsent = self.outbox.unsent();
        TakenChanges { commands: durable.taken(unsent), cost, has_more: unsent > 0 }
    }

    /// The changes that were sent are durable, and the next part of a sweep may follow. Replies are given
    /// back, to be sent once the mutex is free.
    pub(super) fn committed(&mut self, now: Now) -> Vec<Deferred> {
        let mut replies = Vec::new();
        for deferred in self.outbox.committed() {
            if !self.is_moot(&deferred) {
                replies.extend(self.hand_over(deferred));
            }
        }
        let Self { withheld, outbox, .. } = self;
        withheld.forget(|group| outbox.is_durable(group));
        self.sweep(now, usize::MAX);
        replies
    }

    /// Comes once everything so far is durable; at once, if it is.
    pub(crate) fn settled(&mut self) -> Result<Option<oneshot::Receiver<Outcome>>, NotAsked> {
        let (to, settled) = oneshot::channel();
        let reply = |outcome| Deferred::Reply { to, outcome, memory: None };
        match self.hold_answer(&Command::Snapshot, Outcome::Closed, reply) {
            HeldAnswer::Passes(_) => Ok(None),
            HeldAnswer::Waits => Ok(Some(settled)),
            HeldAnswer::TooMuchWaits(_) => Err(NotAsked::TooMuchWaits),
        }
    }

    /// The house has lost its store, and with it every lock. The deferred messages are given back, to be
    /// dropped once the mutex is free.
    pub(super) fn lose_everything(&mut self, now: Now, why: &Loss) -> Vec<Deferred> {
        if self.loss().is_some() {
            return Vec::new();
        }
        self.handle(now, Command::Close);
        self.durability = Durability::Lost(why.clone());
        self.end_events();
        self.wakeups.add_all(self.waiters.wake_all());
        self.wakeups.listeners.extend(self.waiters.lose_all());
        let mut notified = HashSet::new();
        for inbox in self.inboxes.clone().iter().flatten() {
            if notified.insert(Arc::as_ptr(inbox)) {
                self.announce(inbox, Notice::Over(why.clone()));
            }
        }
        self.outbox.fenced()
    }

    /// The house was closed, and with it its store. The deferred messages are given back, to be dropped once
    /// the mutex is free.
    pub(super) fn keep_no_more(&mut self, now: Now) -> Vec<Deferred> {
        if let Durability::Durable(_) = self.durability {
            self.handle(now, Command::Close);
            self.durability = Durability::Closed;
            self.end_events();
            self.wakeups.add_all(self.waiters.wake_all());
        }
        self.outbox.fenced()
    }

    /// The number above which the successor of this bucket has to begin: the last that was given, not those
    /// that are only reserved, so that no life of a bucket uses up more than it gives.
    ///
    /// Nothing is ever announced above what is durable. The drop comes before all changes of the successor in
    /// the store, and the successor announces only what it has reserved itself, above this number. If the
    /// process dies before the drop is durable, the bucket is there with its own mark, which is higher and
    /// above which the next life goes on; the successor has announced nothing by then.
    pub(super) fn last_token(&self) -> u64 {
        self.manager.last_token()
    }

    /// Whether the store has to learn that the bucket is forgotten: it may know of the bucket, and has no
    /// records of it any more.
    pub(super) fn is_to_be_dropped(&self) -> bool {
        self.durability.is_known_to_store() && !self.is_needed()
    }
}
