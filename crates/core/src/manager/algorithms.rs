//! The algorithms of the Web Locks specification, sections 2.5 and 4.

use std::hash::BuildHasher;

use super::LockManager;
use super::arena::KEPT;
use super::list::{ByName, NONE};
use super::table::{Extras, Held, Tenure};
use crate::{
    Acquire, Effect, FencingToken, Grant, Instant, LossReason, Mode, NewRequest, Outcome, Refusal, RequestId,
};

impl<S: BuildHasher> LockManager<S> {
    /// <https://w3c.github.io/web-locks/#request-a-lock>: the same as [`Command::Request`](crate::Command::Request), for those who have no other
    /// command to carry out.
    ///
    /// # Errors
    ///
    /// What would be [`Outcome::Refused`].
    #[inline]
    pub fn request_a_lock(&mut self, now: Instant, request: &NewRequest<'_>) -> Result<Outcome, Refusal> {
        self.check_bounds(request)?;
        let name = self
            .table
            .name_slot(request.name, &self.limits)
            .ok_or(Refusal::TooManyNames { limit: self.limits.names })?;
        match request.acquire {
            Acquire::Wait(_) => {}
            Acquire::IfAvailable(mode) => {
                if self.table.names[name].queued > 0 || !self.is_grantable(name, mode) {
                    return Err(self.unavailable(name));
                }
            }
            Acquire::Steal => self.steal(name),
        }
        let tenure = Tenure::Agent(request.agent.slot);
        let id = self.table.add_entry(now, name, tenure, request.acquire.mode(), extras(request));
        let must_wait = matches!(request.acquire, Acquire::Wait(mode)
            if self.table.names[name].queued > 0 || !self.is_grantable(name, mode));
        if must_wait {
            self.enqueue(name, id.slot);
            return Ok(Outcome::Queued(id));
        }
        Ok(Outcome::Granted(self.grant(now, name, id.slot)))
    }

    /// <https://w3c.github.io/web-locks/#release-the-lock>: the same as [`Command::Release`](crate::Command::Release), for those who have no other
    /// command to carry out. Tells whether the lock was held.
    #[inline]
    pub fn release_the_lock(&mut self, now: Instant, request: RequestId) -> bool {
        let held = self.table.entry(request).is_some_and(|entry| entry.token.is_some());
        if held {
            self.remove_and_process(now, request.slot);
        }
        held
    }

    /// <https://w3c.github.io/web-locks/#abort-the-request>
    pub(super) fn abort_the_request(&mut self, now: Instant, request: RequestId) -> bool {
        let pending = self.table.entry(request).is_some_and(|entry| entry.token.is_none());
        if pending {
            self.remove_and_process(now, request.slot);
        }
        pending
    }

    /// <https://w3c.github.io/web-locks/#process-the-lock-request-queue>, for each name that has lost a request or a lock
    /// since; the names in the order in which they first did.
    pub(super) fn process_touched(&mut self, now: Instant) {
        let mut at = 0;
        while let Some(&name) = self.touched.get(at) {
            at += 1;
            // A name touched twice may have been forgotten the first time.
            if self.table.names.contains(name) {
                self.process(now, name);
            }
        }
        self.touched.clear();
        if self.touched.capacity() > KEPT {
            self.touched = Vec::new();
        }
    }

    #[inline]
    fn remove_and_process(&mut self, now: Instant, slot: u32) {
        let removed = self.table.remove_entry(slot);
        self.deadlines.disarm_hold(removed);
        self.process(now, removed.name);
    }

    #[inline]
    fn process(&mut self, now: Instant, name: u32) {
        self.process_the_lock_request_queue(now, name);
        self.table.forget_if_idle(name);
    }

    #[inline]
    fn process_the_lock_request_queue(&mut self, now: Instant, name: u32) {
        loop {
            let head = self.table.names[name].queue.head;
            if head == NONE || !self.is_grantable(name, self.table.entries[head].mode) {
                return;
            }
            let queue = &mut self.table.names[name];
            queue.queue.remove::<ByName>(&mut self.table.entries, head);
            queue.queued -= 1;
            let grant = self.grant(now, name, head);
            let agent = self.table.agent_of(&self.table.entries[head]);
            self.effects.push_back(Effect::Granted { agent, grant });
        }
    }

    /// Whether the held locks let a request of that mode be granted; its place in the queue is the caller's to judge.
    /// <https://w3c.github.io/web-locks/#grantable>
    #[inline]
    fn is_grantable(&self, name: u32, mode: Mode) -> bool {
        let held = self.table.names[name].held;
        let fits =
            held.is_empty() || (mode == Mode::Shared && self.table.entries[held.head].mode == Mode::Shared);
        fits && !self.closed
    }

    /// The first half of a steal: every holder of the name loses it.
    fn steal(&mut self, name: u32) {
        loop {
            let victim = self.table.names[name].held.head;
            if victim == NONE {
                return;
            }
            self.lose(victim, LossReason::Stolen);
        }
    }

    /// Takes a held lock from its holder, who is told why. Its name is not processed here.
    pub(super) fn lose(&mut self, slot: u32, reason: LossReason) {
        let agent = self.table.agent_of(&self.table.entries[slot]);
        let removed = self.table.remove_entry(slot);
        self.deadlines.disarm_hold(removed);
        self.effects.push_back(Effect::Lost { agent, request: removed.request, reason });
    }

    fn enqueue(&mut self, name: u32, slot: u32) {
        let name = &mut self.table.names[name];
        name.queue.push_back::<ByName>(&mut self.table.entries, slot);
        name.queued += 1;
    }

    #[inline]
    fn grant(&mut self, now: Instant, name: u32, slot: u32) -> Grant {
        self.last_token += 1;
        let token = FencingToken::new(self.last_token);
        let entry = &mut self.table.entries[slot];
        entry.token = Some(Held::new(token));
        entry.since = now;
        let request = RequestId { slot, serial: entry.serial };
        let extras = entry.extras;
        self.table.names[name].held.push_back::<ByName>(&mut self.table.entries, slot);
        if extras != NONE {
            let extras = &mut self.table.extras[extras];
            extras.expires = extras.max_hold_ms.map(|length| now.plus_millis(length));
            self.deadlines.arm_hold(request, extras.expires);
        }
        Grant { request, token }
    }

    #[inline]
    fn check_bounds(&mut self, request: &NewRequest<'_>) -> Result<(), Refusal> {
        let limits = self.limits;
        let party = self.table.party_mut(request.agent).ok_or(Refusal::UnknownAgent)?;
        if party.count >= limits.requests_per_agent {
            return Err(Refusal::TooManyRequests { limit: limits.requests_per_agent });
        }
        // A unit takes at least one byte, so that short names need not be counted.
        if request.name.as_wtf8().len() > limits.name_units {
            let units = request.name.unit_count();
            if units > limits.name_units {
                return Err(Refusal::NameTooLong { units, limit: limits.name_units });
            }
        }
        let bytes = request.metadata.map_or(0, str::len);
        if bytes > limits.metadata_bytes {
            return Err(Refusal::MetadataTooLong { bytes, limit: limits.metadata_bytes });
        }
        if self.closed && !matches!(request.acquire, Acquire::Wait(_)) {
            return Err(Refusal::Closed);
        }
        Ok(())
    }

    #[cold]
    fn unavailable(&self, name: u32) -> Refusal {
        let slot = &self.table.names[name];
        let holders = slot.held.iter::<ByName>(&self.table.entries).take(Refusal::HOLDERS_SHOWN);
        let holders = holders.map(|slot| self.holder(&self.table.entries[slot])).collect();
        Refusal::Unavailable { holders, queued: slot.queued }
    }
}

fn extras(request: &NewRequest<'_>) -> Option<Extras> {
    let NewRequest { metadata, max_hold_ms, .. } = *request;
    (metadata.is_some() || max_hold_ms.is_some()).then(|| Extras {
        metadata: metadata.map(Into::into),
        max_hold_ms,
        expires: None,
    })
}
