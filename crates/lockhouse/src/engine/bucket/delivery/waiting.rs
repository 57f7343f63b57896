//! The bound of all that waits for the store in one bucket.

use lockhouse_core::{Acquire, AgentId, Command, Name, NameBuf, NewReclaim, NewRequest, Outcome, Refusal};

use crate::engine::bucket::deferred::{Deferred, bytes_of_refusal};
use crate::engine::bucket::state::State;

/// The most bytes that may wait for the store in one bucket: changes, the names whose notices have to wait,
/// the notices themselves, and those that the requests in the queue of such a name may still get.
///
/// Beyond it nothing is begun that would add to that: commands that are written are refused, and so are
/// requests, steals, longer leases and questions whose answers would wait. A command that is begun is carried
/// out whole, so that its changes, and what they set off for others, may exceed the bound: by one command's
/// worth.
///
/// Ends are never refused, whether by a command (a release, an abort, an undo, the end of an agent or of an
/// owner that no caller learnt of) or by time. By them each request, lock, owner and claim that the bucket
/// has by then adds at most its own end, one grant and one loss, and can do so only once: as nothing new
/// begins, that is less than what the tables of the bucket take, for which it was charged.
const WAITING_BYTES: usize = 16 << 20;

/// The most commands of a bucket that wait for the store, however small.
const WAITING_GROUPS: usize = 100_000;

/// The notices that a request in a queue may still get: a grant and a loss.
const NOTICES_OF_REQUEST: usize = 2 * size_of::<Deferred>() + size_of::<NameBuf>();

impl State {
    /// Whether a command that is written has to be refused.
    pub(in crate::engine::bucket) fn has_backlog(&self) -> bool {
        self.outbox.len() >= WAITING_GROUPS || self.outbox.bytes() >= WAITING_BYTES
    }

    /// Whether so many bytes more may wait.
    pub(in crate::engine::bucket) fn check_waiting(&self, bytes: usize) -> Result<(), Refusal> {
        if self.outbox.bytes() + bytes > WAITING_BYTES {
            return Err(Refusal::BudgetExceeded { limit: WAITING_BYTES });
        }
        Ok(())
    }

    /// Reserves memory for an answer that is to wait for the store.
    pub(in crate::engine::bucket) fn reserve_waiting(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.check_waiting(bytes)?;
        // Answers that bring nothing along go on where the tenant has no memory left: a holder can still
        // look.
        if bytes <= size_of::<Deferred>() { Ok(()) } else { self.reserve_memory(|_| bytes) }
    }

    /// As [`check_request`](Self::check_request), of commands that make one.
    pub(in crate::engine::bucket) fn check_command(&self, command: &Command<'_>) -> Result<(), Refusal> {
        match *command {
            Command::Request(NewRequest { agent, name, acquire, .. }) => {
                self.check_request(agent, name, acquire == Acquire::Steal)
            }
            Command::Reclaim(NewReclaim { agent, name, .. }) => self.check_request(agent, name, false),
            _ => Ok(()),
        }
    }

    /// Whether a request may be made, as there is memory for its answer or its answer need not wait.
    #[inline]
    pub(in crate::engine::bucket) fn check_request(
        &self,
        agent: AgentId,
        name: Name<'_>,
        steals: bool,
    ) -> Result<(), Refusal> {
        if self.outbox.is_idle() {
            return Ok(());
        }
        let refused = self.check_waiting(NOTICES_OF_REQUEST + name.as_wtf8().len());
        if refused.is_err() && self.may_wait(agent, name, steals) { refused } else { Ok(()) }
    }

    /// Whether the answer to a request would wait for the store.
    fn may_wait(&self, agent: AgentId, name: Name<'_>, steals: bool) -> bool {
        let (token, reserved) = (self.manager.last_token() + 1, self.manager.reserved_up_to());
        token > reserved
            || self.outbox.group_of(&[name], token).is_some()
            || self.manager.has_void_locks()
            || (steals && self.manager.is_held_durably(name))
            || (self.inbox_of(agent).is_some() && !self.durability.is_announced())
    }

    /// A request was made. If it waits for a name whose notices have to wait, so will those that it gets.
    #[inline]
    pub(in crate::engine::bucket) fn note_request(&mut self, name: Name<'_>, outcome: &Outcome) {
        if !self.outbox.is_idle()
            && matches!(outcome, Outcome::Queued(_))
            && let Some(group) = self.outbox.group_of(&[name], 0)
        {
            self.outbox.charge(group, NOTICES_OF_REQUEST + name.as_wtf8().len());
        }
    }

    /// The refusal of a request that had to wait for the end of a recovery. It names no holder where there is
    /// no memory for that.
    pub(in crate::engine::bucket) fn fitting(&self, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::Unavailable { queued, .. }
                if !self.outbox.is_idle() && self.check_waiting(bytes_of_refusal(&refusal)).is_err() =>
            {
                Refusal::Unavailable { holders: Vec::new(), queued }
            }
            refusal => refusal,
        }
    }
}
