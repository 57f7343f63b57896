//! The lock manager: commands in, outcomes and effects out.

mod absent;
mod agents;
mod algorithms;
mod claims;
mod offline;
mod owners;
mod recovery;
mod replay;
mod sizes;
mod sweep;
mod tables;
mod views;

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;

use absent::Absent;
use claims::AssignmentIndex;
use recovery::{RecoveryState, Unsettled};
pub use replay::ReplayError;
use tables::arena::KEPT;
use tables::deadlines::Deadlines;
use tables::table::LockTable;
pub use views::RequestStatus;
pub use views::queues::{QueueEntry, QueueView};
pub use views::survey::{ContendedName, Survey, Surveyed};

use crate::{
    AgentId, Change, Command, Effect, FencingToken, Instant, Limits, Now, Outcome, OwnerId, Refusal,
};

/// The lock manager of one storage bucket. <https://w3c.github.io/web-locks/#lock-manager>
///
/// `S` hashes resource names; where names come from untrusted clients, seed it randomly. Outcomes and effects
/// do not depend on it.
///
/// The manager is the only entry: only its methods can read or change its table. A clone is another table:
/// what one of them grants, the other does not know.
///
/// ```compile_fail
/// let manager = lockhouse_core::LockManager::new(foldhash::fast::FixedState::default());
/// let table = &manager.table;
/// ```
///
/// # Invariants
///
/// 1. The held set of a name is empty, or one exclusive lock, or shared locks only
///    (`algorithms::is_grantable` is the only way in).
/// 2. After every command the head of each queue is not grantable, unless the manager is closed or recovers,
///    or the name was left by a crowd whose end is processed in parts, or waited for the end of a recovery
///    that is processed in parts. A void lock keeps its name like any other.
/// 3. A name is in the index exactly if it has a held or queued entry.
/// 4. Every entry is in the list of its party, if it has one, and in exactly one of the queue and the held
///    set of its name.
/// 5. Tokens strictly grow in the order of the grants, and are never above the mark that was reserved last.
/// 6. Every change of owners, offline locks, claims and assignments is reported as a [`Change`], before the
///    effects that depend on it.
#[derive(Clone, Debug)]
pub struct LockManager<S> {
    table: LockTable<S>,
    deadlines: Deadlines,
    effects: VecDeque<Effect>,
    limits: Limits,
    /// The last number given to a grant or to an owner.
    last_token: u64,
    /// The mark up to which numbers may be given.
    reserved: u64,
    closed: bool,
    /// Neither closed nor recovering: free names are granted.
    grants: bool,
    recovery: Option<Box<RecoveryState>>,
    /// The locks from before a restart whose holders may come back, if a list of them was left.
    absent: Option<Box<Absent>>,
    assignments: AssignmentIndex,
    /// Names whose queues wait to be processed; empty between commands.
    touched: Vec<u32>,
    /// The names that a crowd of expired parties has left: empty unless the expiry is processed in parts.
    deferred: VecDeque<u32>,
    /// The owners with void locks, in their turns.
    sweeps: BTreeMap<u64, OwnerId>,
    /// What is still to be done after the end of a recovery.
    unsettled: Option<Unsettled>,
}

impl<S: BuildHasher> LockManager<S> {
    /// An empty manager with the default bounds.
    pub fn new(hasher: S) -> Self {
        Self::with_limits(hasher, Limits::DEFAULT)
    }

    /// An empty manager with the given bounds.
    pub fn with_limits(hasher: S, limits: Limits) -> Self {
        Self {
            table: LockTable::new(hasher),
            deadlines: Deadlines::default(),
            effects: VecDeque::new(),
            limits,
            last_token: 0,
            reserved: 0,
            closed: false,
            grants: true,
            recovery: None,
            absent: None,
            assignments: AssignmentIndex::default(),
            touched: Vec::new(),
            deferred: VecDeque::new(),
            sweeps: BTreeMap::new(),
            unsettled: None,
        }
    }

    /// From now on gives only tokens above `mark`, up to which they count as reserved: for a bucket that
    /// existed before.
    ///
    /// # Panics
    ///
    /// If `mark` is not below 2^53 - 1: no token would be left.
    pub fn continue_tokens_above(&mut self, mark: u64) {
        assert!(mark < FencingToken::LIMIT - 1, "no token is left above {mark}");
        self.last_token = self.last_token.max(mark);
        self.reserved = self.reserved.max(mark);
    }

    /// The agent, which has just joined, is one of another process: its locks are counted apart, as they may
    /// outlive this one.
    pub fn mark_remote(&mut self, agent: AgentId) {
        self.table.mark_remote(agent);
    }

    /// Carries out a whole command and returns its outcome. Its effects on others wait in
    /// [`poll_effect`](Self::poll_effect). The tick of `now` must not be earlier than at any call before.
    #[inline]
    pub fn handle(&mut self, now: impl Into<Now>, command: Command<'_>) -> Outcome {
        let now = now.into();
        match command {
            Command::Request(request) => match self.request_a_lock(now, &request) {
                Ok(outcome) => outcome,
                Err(refusal) => Outcome::Refused(refusal),
            },
            Command::Release { request } => Outcome::Released { held: self.release_the_lock(now, request) },
            Command::Abort { request } => Outcome::Aborted { pending: self.abort_the_request(now, request) },
            Command::Renew { agent } => Outcome::Renewed { alive: self.renew(now, agent) },
            Command::Join(agent) => match self.join(now, agent) {
                Ok(agent) => Outcome::Joined(agent),
                Err(refusal) => Outcome::Refused(refusal),
            },
            Command::End { agent } => {
                Outcome::Ended { alive: self.terminate_remaining_locks_and_requests(now, agent) }
            }
            Command::Snapshot => Outcome::Snapshot(self.snapshot_the_lock_state()),
            command => self.handle_uncommon(now, command).unwrap_or_else(Outcome::Refused),
        }
    }

    /// Separate, so that the commands of web locks stay small where they are inlined.
    #[inline(never)]
    fn handle_uncommon(&mut self, now: Now, command: Command<'_>) -> Result<Outcome, Refusal> {
        Ok(match command {
            Command::OpenOwner(owner) => Outcome::OwnerOpened(self.open_owner(now, &owner)?),
            Command::Touch { owner } => Outcome::Renewed { alive: self.touch_owner(now, owner) },
            Command::EndOwner { owner } => Outcome::Ended { alive: self.end_owner(now, owner) },
            Command::Lock(locks) => Outcome::Locked(self.lock(now, &locks)?),
            Command::Unlock { owner, locks } => Outcome::Unlocked { count: self.unlock(now, owner, locks) },
            Command::Undo { owner, locks } => Outcome::Undone { count: self.undo(now, owner, locks) },
            Command::Claim(claim) => Outcome::Claimed(self.claim(now, &claim)?),
            Command::RenewClaim { name, token } => {
                Outcome::ClaimRenewed { expires: self.renew_claim(now, name, token)? }
            }
            Command::ReleaseClaim { name, token } => self.release_claim(now, name, token)?,
            Command::Finalize { name, token } => Outcome::Finalized(self.finalize(now, name, token)?),
            Command::Unassign { name, token } => Outcome::Unassigned { was: self.unassign(now, name, token) },
            Command::Break(hold) => Outcome::Broken(self.break_hold(now, &hold)?.map(Box::new)),
            Command::Reclaim(reclaim) => Outcome::Granted(self.reclaim(now, &reclaim)?),
            Command::EndRecovery => Outcome::RecoveryEnded { was: self.end_recovery() },
            Command::Close => {
                self.closed = true;
                self.grants = false;
                Outcome::Closed
            }
            Command::Request(_)
            | Command::Release { .. }
            | Command::Abort { .. }
            | Command::Renew { .. }
            | Command::Join(_)
            | Command::End { .. }
            | Command::Snapshot => unreachable!("these are carried out by `handle`"),
        })
    }

    /// Whether a command may set a deadline of a request that waits, apart from its own.
    #[inline]
    pub fn may_set_deadline(&self) -> bool {
        self.table.has_extras()
    }

    /// Whether there is an effect to [poll](Self::poll_effect).
    #[inline]
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// The next effect, oldest first. Take all of them after each [`handle`](Self::handle) and
    /// [`handle_timeout`](Self::handle_timeout).
    #[inline]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        if effect.is_none() && self.effects.capacity() > KEPT {
            self.effects = VecDeque::new();
        }
        effect
    }

    /// The earliest instant at which [`handle_timeout`](Self::handle_timeout) may have something to do.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        if !self.deferred.is_empty() || self.has_void_locks() || self.unsettled.is_some() {
            return Some(Instant::default());
        }
        let next = self.deadlines.next();
        match &self.recovery {
            None => next,
            Some(recovery) => Some(next.map_or(recovery.until, |next| next.min(recovery.until))),
        }
    }

    /// Ends the agents, locks, owners and claims whose deadline is at or before `now`, and the recovery
    /// likewise.
    ///
    /// First all of them end, in the order of their deadlines, each in one [`Effect`] or [`Change`]; then the
    /// recovery; then the queues of the names they leave are processed. At last all void locks are
    /// [swept](Self::sweep).
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_done = self.handle_timeout_in_part(now, now, usize::MAX) && self.sweep(now, usize::MAX);
        debug_assert!(is_done);
    }

    /// Works as [`handle_timeout`](Self::handle_timeout) and in the same order, but does not sweep, ends
    /// agents, locks, owners and claims only until `most` requests and locks have gone, and processes the
    /// queues of at most `most` names. Returns whether that was all. If not, call again with the same `due`.
    /// A crowd whose deadlines have come thus need not be processed in one call. A command that comes in
    /// between finds the names that the crowd has left as they are: their queues are processed once all have
    /// ended, unless the command concerns the name itself and would have processed its queue anyway. The same
    /// holds for the names that have waited for the end of a recovery.
    ///
    /// An agent ends as a whole, however many locks it has.
    ///
    /// Each party, lock or claim whose deadline is at or before `due` ends at `now`, which may be later: time
    /// goes on while a crowd ends.
    pub fn handle_timeout_in_part(&mut self, due: Instant, now: impl Into<Now>, most: usize) -> bool {
        let now = now.into();
        let mut may_do = most;
        while may_do > 0 {
            // A large end comes first in its part: this part is over.
            if may_do < most && self.size_of_next_end(due) > may_do {
                may_do = 0;
                break;
            }
            let Some(ended) = self.deadlines.pop_due(due) else { break };
            let before = self.table.entries.len();
            self.expire(now, ended);
            may_do = may_do.saturating_sub((before - self.table.entries.len()).max(1));
        }
        self.deferred.extend(std::mem::take(&mut self.touched));
        if self.deadlines.next().is_some_and(|next| next <= due) {
            return false;
        }
        if self.recovery.as_ref().is_some_and(|recovery| recovery.until <= due) {
            self.end_recovery();
        }
        self.settle_waiting(now, &mut may_do) && self.process_deferred(now, may_do)
    }

    /// The number for the next grant or owner.
    ///
    /// Numbers are reserved a block at a time, while half a block is left, so that no grant has to wait for a
    /// reservation.
    #[inline]
    fn next_number(&mut self) -> u64 {
        self.last_token += 1;
        if self.reserved.saturating_sub(self.last_token) < BLOCK / 2 {
            self.reserve_numbers();
        }
        debug_assert!(
            self.last_token <= self.reserved || self.last_token >= FencingToken::LIMIT,
            "no number is above the mark that was reserved last"
        );
        self.last_token
    }

    #[cold]
    fn reserve_numbers(&mut self) {
        let up_to = (self.last_token + BLOCK).min(FencingToken::LIMIT - 1);
        if up_to > self.reserved {
            self.reserved = up_to;
            self.change(Change::TokensReserved { up_to });
        }
    }

    fn change(&mut self, change: Change) {
        self.effects.push_back(Effect::Change(Box::new(change)));
    }

    /// A request that does not wait, and for longer than a moment, is refused while the manager does not
    /// grant.
    fn check_open(&self) -> Result<(), Refusal> {
        match &self.recovery {
            _ if self.closed => Err(Refusal::Closed),
            Some(recovery) => Err(Refusal::Recovering { until: recovery.until }),
            None => Ok(()),
        }
    }
}

/// How many numbers are reserved at a time.
const BLOCK: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::{NewOwner, SecretSeed};

    #[test]
    fn tokens_are_reserved_while_half_a_block_is_left() {
        let mut manager = LockManager::new(FixedState::default());
        let mut is_reserved_by = |last_token| {
            manager.last_token = last_token;
            let new = NewOwner { label: "", metadata: None, ttl_ms: 1, max_ms: None, seed: SecretSeed(1) };
            manager.handle(Instant::default(), Command::OpenOwner(new));
            let effects = std::iter::from_fn(|| manager.poll_effect());
            let is_reservation = |effect: &Effect| matches!(effect, Effect::Change(change) if matches!(**change, Change::TokensReserved { .. }));
            effects.filter(is_reservation).count()
        };
        assert_eq!(is_reserved_by(0), 1);
        let mark = BLOCK + 1;
        assert_eq!(is_reserved_by(mark - BLOCK / 2 - 1), 0);
        assert_eq!(is_reserved_by(mark - BLOCK / 2), 1);
    }
}
