//! Locks that outlive the server that granted them (PROTOCOL.md section 10).
//!
//! ```text
//!   what happens                                       what becomes of the lock
//!   ─────────────────────────────────────────────────  ─────────────────────────────────────────────────────
//!   the server is started anew                         asked for again with its ticket; held meanwhile,
//!                                                      under the deadline of the session in which it was
//!                                                      granted
//!   … granted                                          held, under the present session's lease, with a new
//!                                                      ticket
//!   … lost, or an error                                lost: superseded
//!   … not answered before that deadline                lost with it; a grant that comes later is released
//!   … started anew once more, unanswered               asked for again, with the same ticket and the same
//!                                                      deadline
//!   the deadline passes before there is a new session  lost with it; nothing is asked for
//!   it came without a ticket, the new server takes no  lost: session ended
//!   reclaims, or is the old one
//!   a release was asked for before                     not asked for again; the release has succeeded, as
//!                                                      the lock was held until then
//!   a release is asked for while the answer is due     sent behind the reclaim, and answered as ever
//!   the guard is dropped while the answer is due       likewise, without an answer
//!   the grant had not reached its future yet           asked for again; reported as granted, then perhaps
//!                                                      as lost
//!   a steal was under way                              outcome unknown, as with any session that ends
//! ```

use std::time::Duration;

use lockhouse_core::FencingToken;
use lockhouse_wire::{ClientCall, Reclaim, Ticket};

use super::breach::ProtocolViolation;
use super::lease::Deadline;
use super::requests::{RequestEntry, SessionEnd, Stage};
use super::state::State;
use crate::moment::Moment;

/// The proof of a lock for a later life of the server.
#[derive(Debug)]
pub(crate) struct Proof {
    token: FencingToken,
    ticket: Ticket<'static>,
    /// When the grant came; the longest hold counts from then.
    granted: Moment,
}

impl Proof {
    pub(crate) fn new(token: FencingToken, ticket: Ticket<'_>) -> Self {
        Self { token, ticket: ticket.into_owned(), granted: Moment::now() }
    }
}

impl State {
    /// Asks for the locks of the former server again. Where its session has just been replaced, any other
    /// lock of that session is given up.
    pub(crate) fn reclaim(&mut self, has_replaced: bool) {
        let Some(session) = &mut self.session else { return };
        for entry in self.entries.values().filter(|entry| entry.due.is_some()) {
            if let Some(reclaim) = entry.reclaim() {
                session.outbox.push(ClientCall::Reclaim(reclaim));
            }
        }
        if has_replaced {
            session.outbox.push(ClientCall::Reclaimed);
        }
    }

    /// Marks the reclaim of the lock as answered. Returns whether one was under way.
    pub(crate) fn answered(&mut self, key: u64) -> bool {
        self.entries.get_mut(&key).is_some_and(|entry| entry.due.take().is_some())
    }

    /// Locks that the new server has not confirmed in time may be granted to others.
    pub(crate) fn expire_unconfirmed(&mut self) {
        if !self.first_due.is_some_and(|due| due.remaining().is_zero()) {
            return;
        }
        let overdue = |(key, entry): (&u64, &RequestEntry)| {
            let due = entry.due.filter(|due| entry.is_held() && due.remaining().is_zero())?;
            Some((*key, due.loss()))
        };
        let overdue: Vec<_> = self.entries.iter().filter_map(overdue).collect();
        overdue.into_iter().for_each(|(key, loss)| self.ended(key, &SessionEnd::overdue(loss)));
        self.note_first_due();
    }

    /// How often the server expects a frame of the session, if there is one.
    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        self.session.as_ref().map(|session| session.heartbeat)
    }

    /// The heartbeat, while there are locks: with the connection lost, no pause is longer then, and the first
    /// attempts give up after it, so that the next endpoint is tried long before the lease is over.
    pub(crate) fn urgency(&self) -> Option<Duration> {
        self.heartbeat().filter(|_| self.entries.values().any(RequestEntry::is_held))
    }

    /// Until the first deadline of a lock whose reclaim is not answered.
    pub(crate) fn until_first_due(&self) -> Duration {
        self.first_due.map_or(Duration::MAX, Deadline::remaining)
    }

    /// Looks for it anew: locks with deadlines have come, or one of them has passed.
    pub(crate) fn note_first_due(&mut self) {
        let due = self.entries.values().filter(|entry| entry.is_held()).filter_map(|entry| entry.due);
        self.first_due = due.min_by_key(|due| due.remaining());
    }
}

impl RequestEntry {
    /// Whether a guard relies on it, or is about to.
    fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Granted(_) | Stage::Held | Stage::Releasing)
    }

    /// Whether it is held, could be shown to be, and is not being released.
    pub(crate) fn is_reclaimable(&self) -> bool {
        self.proof.is_some() && matches!(self.stage, Stage::Granted(_) | Stage::Held)
    }

    /// The lock's session has gone with the former server: it stays held until that session's deadline. Of
    /// two restarts in a row only the first ended the session of the grant.
    pub(crate) fn hold_until(&mut self, deadline: Deadline) {
        self.due.get_or_insert(deadline);
    }

    /// The server has granted it again; gives the release to be sent if it was given up while the answer was
    /// on its way.
    pub(crate) fn reclaimed(
        &mut self,
        token: FencingToken,
        ticket: Option<Ticket<'_>>,
    ) -> Result<Option<ClientCall<'static>>, ProtocolViolation> {
        self.due = None;
        let Some(proof) = self.proof.as_mut().filter(|proof| proof.token == token) else {
            return Err(ProtocolViolation(format!(
                "it granted a reclaim with token {token}, which is another one"
            )));
        };
        match ticket {
            Some(ticket) => proof.ticket = ticket.into_owned(),
            None => self.proof = None,
        }
        Ok((!self.is_held()).then_some(ClientCall::Release { id: self.ask.id, reply: false }))
    }

    fn reclaim(&self) -> Option<Reclaim<'static>> {
        let proof = self.proof.as_ref()?;
        let held_ms = u64::try_from(proof.granted.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(Reclaim {
            id: self.ask.id,
            agent: self.ask.agent,
            name: self.ask.name.clone(),
            mode: self.ask.acquire.mode(),
            token: proof.token,
            ticket: proof.ticket.clone(),
            metadata: self.ask.metadata.clone(),
            max_hold_ms: self.ask.max_hold_ms.map(|ms| ms.saturating_sub(held_ms).max(1)),
        })
    }
}
