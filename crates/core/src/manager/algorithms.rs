//! The algorithms of the Web Locks specification, sections 2.5 and 4.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use super::LockManager;
use super::tables::arena::KEPT;
use super::tables::list::{ByName, NONE};
use super::tables::table::{Extras, HeldToken, Removed, Tenure};
use crate::{
    Acquire, AgentId, BrokenBy, ClaimEnd, Discipline, Effect, EndCause, FencingToken, Grant, HoldToBreak,
    Holder, LockEnd, LockLoss, LossReason, Mode, NewRequest, Now, Outcome, Refusal, RequestId,
};

impl<S: BuildHasher> LockManager<S> {
    /// <https://w3c.github.io/web-locks/#request-a-lock>: the same as
    /// [`Command::Request`](crate::Command::Request), for callers that have no other command to carry out.
    ///
    /// # Errors
    ///
    /// The refusal that would be [`Outcome::Refused`].
    #[inline]
    pub fn request_a_lock(
        &mut self,
        now: impl Into<Now>,
        request: &NewRequest<'_>,
    ) -> Result<Outcome, Refusal> {
        let now = now.into();
        self.check_bounds(request)?;
        if self.is_done_in_parts() && request.acquire != Acquire::Steal {
            self.catch_up(now, &[(request.name, request.acquire.mode())], None);
        }
        let limit = self.limits.names;
        let Some(name) = self.table.name_slot(request.name, limit) else {
            return Err(Refusal::TooManyNames { limit });
        };
        let (must_wait, if_available) = match request.acquire {
            Acquire::Wait(mode) => (!self.is_free(name, mode), false),
            Acquire::IfAvailable(mode) => {
                let is_free = self.is_free(name, mode);
                if !is_free && self.recovery.is_none() {
                    return Err(self.unavailable(name));
                }
                (!is_free, true)
            }
            Acquire::Steal => {
                self.steal(now, name);
                (false, false)
            }
        };
        let tenure = Tenure::Agent(request.agent.slot);
        let id = self.table.add_entry(now.tick(), name, tenure, request.acquire.mode(), extras(request));
        if must_wait {
            if if_available {
                self.table.entries[id.slot].wait_until_recovered();
            }
            self.enqueue(name, id.slot);
            return Ok(Outcome::Queued(id));
        }
        Ok(Outcome::Granted(self.grant(now, name, id.slot)))
    }

    /// <https://w3c.github.io/web-locks/#release-the-lock>: the same as
    /// [`Command::Release`](crate::Command::Release), for callers that have no other command to carry out.
    /// Returns whether the lock was held.
    #[inline]
    pub fn release_the_lock(&mut self, now: impl Into<Now>, request: RequestId) -> bool {
        let now = now.into();
        let held = self.table.entry(request).is_some_and(|entry| entry.token.is_some());
        if held {
            self.remove_and_process(now, request.slot);
        }
        held
    }

    /// <https://w3c.github.io/web-locks/#abort-the-request>
    pub(super) fn abort_the_request(&mut self, now: Now, request: RequestId) -> bool {
        let pending = self.table.entry(request).is_some_and(|entry| entry.token.is_none());
        if pending {
            self.remove_and_process(now, request.slot);
        }
        pending
    }

    /// <https://w3c.github.io/web-locks/#process-the-lock-request-queue>, for each name that has lost a
    /// request or a lock since; the names in the order in which they first did.
    pub(super) fn process_touched(&mut self, now: Now) {
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

    /// The same for the names that a crowd has left, for at most `most` of them. Returns whether that was
    /// all.
    pub(super) fn process_deferred(&mut self, now: Now, most: usize) -> bool {
        let mut processed = 0;
        while let Some(&name) = self.deferred.front() {
            // The name may have been forgotten meanwhile. If its slot has another name by now, processing
            // that name changes nothing and does no harm.
            if self.table.names.contains(name) {
                if processed == most {
                    return false;
                }
                processed += 1;
                self.process(now, name);
            }
            self.deferred.pop_front();
        }
        if self.deferred.capacity() > KEPT {
            self.deferred = VecDeque::new();
        }
        true
    }

    /// Whether a lock of that mode could be granted at once, without passing a waiting request.
    #[inline]
    pub(super) fn is_free(&self, name: u32, mode: Mode) -> bool {
        self.table.names[name].queued == 0 && self.is_grantable(name, mode)
    }

    #[inline]
    pub(super) fn remove_and_process(&mut self, now: Now, slot: u32) {
        let removed = self.remove(slot);
        self.process(now, removed.name);
    }

    #[inline]
    pub(super) fn process(&mut self, now: Now, name: u32) {
        self.process_the_lock_request_queue(now, name);
        self.table.forget_if_idle(name);
    }

    #[inline]
    fn process_the_lock_request_queue(&mut self, now: Now, name: u32) {
        loop {
            let head = self.table.names[name].queue.head;
            if head == NONE || !self.is_grantable(name, self.table.entries[head].mode) {
                return;
            }
            if self.is_unsettled(name) {
                return self.settle_queue(now, name);
            }
            self.grant_pending(now, name, head);
        }
    }

    /// A request leaves the queue of its name and becomes a lock, and its agent gets an effect.
    #[inline]
    pub(super) fn grant_pending(&mut self, now: Now, name: u32, slot: u32) {
        let queue = &mut self.table.names[name];
        queue.queue.remove::<ByName>(&mut self.table.entries, slot);
        queue.queued -= 1;
        self.table.tally_end_of_wait(slot);
        let grant = self.grant(now, name, slot);
        if let Tenure::Agent(party) = self.table.entries[slot].tenure() {
            self.effects.push_back(Effect::Granted { agent: self.table.party_id(party), grant });
        }
    }

    /// Whether the held locks let a request of that mode be granted; the caller checks its place in the
    /// queue. <https://w3c.github.io/web-locks/#grantable>
    #[inline]
    pub(super) fn is_grantable(&self, name: u32, mode: Mode) -> bool {
        self.fits(name, mode) && self.grants
    }

    #[inline]
    pub(super) fn fits(&self, name: u32, mode: Mode) -> bool {
        let held = self.table.names[name].held;
        held.is_empty() || (mode == Mode::Shared && self.table.entries[held.head].mode == Mode::Shared)
    }

    /// The first half of a steal: every holder of the name loses it, whatever its kind.
    fn steal(&mut self, now: Now, name: u32) {
        self.fence_stolen(name);
        loop {
            let victim = self.table.names[name].held.head;
            if victim == NONE {
                return;
            }
            match self.table.entries[victim].tenure() {
                Tenure::Agent(_) => self.break_lock(victim, LossReason::Stolen, None),
                Tenure::Owner(_) if self.table.is_void(victim) => self.end_void_lock(now, victim),
                Tenure::Owner(_) => self.end_lock(now, victim, LockEnd::Stolen),
                Tenure::Ttl(_) => self.end_claim(now, victim, ClaimEnd::Stolen),
            }
        }
    }

    /// Ends exactly that hold, of any discipline, and returns its holder. Void locks have no holder.
    pub(super) fn break_hold(&mut self, now: Now, hold: &HoldToBreak<'_>) -> Result<Option<Holder>, Refusal> {
        self.limits.check_label(hold.operator)?;
        self.limits.check_metadata(hold.reason)?;
        self.expire_claim_if_due(now, hold.name);
        let Some(name) = self.table.find_name(hold.name) else { return Ok(None) };
        let is_meant = |slot: &u32| self.table.entries[*slot].held_token() == hold.token;
        let Some(slot) = self.holders_in_order(name).find(is_meant) else { return Ok(None) };
        let holder = self.holder(&self.table.entries[slot]);
        let by = || BrokenBy { operator: hold.operator.into(), reason: hold.reason.map(Into::into) };
        match self.table.entries[slot].tenure() {
            Tenure::Agent(_) => {
                let reason = LossReason::Broken { reason: hold.reason.map(Into::into) };
                self.break_lock(slot, reason, Some(hold.operator));
            }
            Tenure::Owner(_) => self.end_lock(now, slot, LockEnd::Broken(by())),
            Tenure::Ttl(_) => self.end_claim(now, slot, ClaimEnd::Broken(by())),
        }
        self.process(now, name);
        Ok(Some(holder))
    }

    /// Takes a held web lock from its agent, with an effect that states the reason; `operator` broke it, if
    /// one did. Its name is not processed here.
    pub(super) fn break_lock(&mut self, slot: u32, reason: LossReason, operator: Option<&str>) {
        let Tenure::Agent(party) = self.table.entries[slot].tenure() else { return };
        let agent = self.table.party_id(party);
        self.table.ends_for(|| EndCause::of_loss(&reason, operator));
        let removed = self.remove(slot);
        self.table.tally_loss(Discipline::Web, (&reason).into(), 1);
        if self.is_absent(party) {
            return;
        }
        let name = self.table.names[removed.name].name.clone();
        let loss = Box::new(LockLoss { name, reason });
        self.effects.push_back(Effect::Lost { agent, request: removed.request, loss });
    }

    /// The entry is removed, with its deadline. Its name is not processed here.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Removed {
        let removed = self.table.remove_entry(slot);
        self.deadlines.disarm_hold(removed);
        removed
    }

    fn enqueue(&mut self, name: u32, slot: u32) {
        debug_assert!(self.table.entries[slot].token.is_none(), "a lock waits for nothing");
        let name = &mut self.table.names[name];
        name.queue.push_back::<ByName>(&mut self.table.entries, slot);
        name.queued += 1;
        self.table.tally_wait(slot);
    }

    #[inline]
    pub(super) fn grant(&mut self, now: Now, name: u32, slot: u32) -> Grant {
        let token = FencingToken::new(self.next_number());
        self.table.tally_grant(slot, token);
        self.hold(now, name, slot, token)
    }

    /// An entry that is in no list of its name becomes a lock with that token.
    #[inline]
    pub(super) fn hold(&mut self, now: Now, name: u32, slot: u32, token: FencingToken) -> Grant {
        debug_assert!(self.fits(name, self.table.entries[slot].mode), "a holder keeps the lock out");
        let entry = &mut self.table.entries[slot];
        debug_assert!(entry.token.is_none(), "a lock is granted once");
        entry.token = Some(HeldToken::new(token));
        entry.since = now.tick();
        let request = RequestId { slot, serial: entry.serial };
        let extras = entry.extras;
        self.table.names[name].held.push_back::<ByName>(&mut self.table.entries, slot);
        self.table.count_held(slot);
        if extras != NONE {
            let extras = &mut self.table.extras[extras];
            extras.expires = extras.max_hold_ms.map(|length| now.deadline(length));
            self.deadlines.arm_hold(request, extras.expires);
        }
        Grant { request, token }
    }

    #[inline]
    pub(super) fn check_bounds(&mut self, request: &NewRequest<'_>) -> Result<(), Refusal> {
        self.check_agent(request.agent)?;
        self.check_entries(1)?;
        let limits = &self.limits;
        limits.check_name(request.name)?;
        limits.check_metadata(request.metadata)?;
        if self.closed && !matches!(request.acquire, Acquire::Wait(_)) {
            return Err(Refusal::Closed);
        }
        Ok(())
    }

    /// Whether the agent lives, and its bound admits one more request.
    #[inline]
    pub(super) fn check_agent(&mut self, agent: AgentId) -> Result<(), Refusal> {
        let limits = &self.limits;
        let Some(party) = self.table.party_mut(agent) else { return Err(Refusal::UnknownAgent) };
        if party.count >= limits.requests_per_agent {
            return Err(Refusal::TooManyRequests { limit: limits.requests_per_agent });
        }
        Ok(())
    }

    /// Whether the bounds admit so many more requests, locks or claims.
    #[inline]
    pub(super) fn check_entries(&self, more: usize) -> Result<(), Refusal> {
        let limit = self.limits.entries;
        if self.table.entries.len() + more > limit as usize {
            return Err(Refusal::TooManyEntries { limit });
        }
        Ok(())
    }

    #[cold]
    pub(super) fn unavailable(&self, name: u32) -> Refusal {
        let (holders, queued) = self.holders(name);
        Refusal::Unavailable { holders, queued }
    }
}

pub(super) fn extras(request: &NewRequest<'_>) -> Option<Extras> {
    let NewRequest { metadata, max_hold_ms, .. } = *request;
    (metadata.is_some() || max_hold_ms.is_some()).then(|| Extras {
        metadata: metadata.map(Into::into),
        max_hold_ms,
        expires: None,
    })
}
