//! The effects of a restart, and the reclaims of agents.

use lockhouse_core::{
    Acquire, AssignmentRecord, ClaimRecord, Effect, FencingToken, Instant, LockLoss, LockRecord, LossReason,
    Mode, Name, NameBuf, NewReclaim, NewRequest, Outcome, OwnerId, OwnerRecord, Refusal, RequestId,
};

use super::offline::Again;
use super::{Claim, Literal, Owner, Request, Row, Unnamed};

/// The durable holds at the restart, and the locks that were reclaimed or stolen since.
#[derive(Clone)]
struct Past {
    name: NameBuf,
    mode: Mode,
    token: FencingToken,
    reclaimed: bool,
}

#[derive(Clone)]
pub(super) struct Recovery {
    pub(super) until: Instant,
    mark: u64,
    past: Vec<Past>,
}

/// All that must survive a restart.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::oracle) struct DurableState {
    pub(in crate::oracle) owners: Vec<OwnerRecord>,
    pub(in crate::oracle) locks: Vec<LockRecord>,
    pub(in crate::oracle) claims: Vec<ClaimRecord>,
    pub(in crate::oracle) assignments: Vec<AssignmentRecord>,
}

impl Literal {
    /// Agents, their locks and their requests are gone. The rest lives on, for as long as `anew` says: for a
    /// number and a length it returns when the thing with that number ends now.
    pub(in crate::oracle) fn restart(&mut self, anew: impl Fn(u64, u64) -> Instant) {
        self.agents.clear();
        self.queue_map.clear();
        self.held.clear();
        self.closed = false;
        self.recovery = None;
        self.unsettled = false;
        // Whose turn it was is not durable.
        self.turns.sort_unstable();
        self.last_token = self.reserved;
        for owner in &mut self.owners {
            let expires = anew(owner.id.get(), owner.ttl_ms);
            owner.expires = owner.ends.map_or(expires, |ends| expires.min(ends));
        }
        // The announcements of a lock are not durable.
        self.rows.iter_mut().for_each(|row| row.again = Again::UNKNOWN);
        for claim in self.claims.values_mut() {
            claim.expires = anew(claim.token.get(), claim.ttl_ms);
        }
    }

    pub(in crate::oracle) fn begin_recovery(&mut self, until: Instant) {
        let past = |name: &NameBuf, mode, token| Past { name: name.clone(), mode, token, reclaimed: false };
        let locks = self.rows.iter().map(|row| past(&row.name, row.mode, row.token));
        let claims = self.claims.iter().map(|(name, claim)| past(name, Mode::Exclusive, claim.token));
        let assignments = self.assignments.values();
        // An assignment was a claim.
        let assignments = assignments.map(|it| past(&it.name, Mode::Exclusive, it.token));
        let past = locks.chain(claims).chain(assignments).collect();
        self.recovery = Some(Recovery { until, mark: self.last_token, past });
    }

    /// Everything in the order of its number or name; the locks by owner, oldest first.
    pub(in crate::oracle) fn durable(&self) -> DurableState {
        let live = self.rows.iter().filter(|row| row.voided.is_none());
        let mut locks: Vec<LockRecord> = live.map(Row::record).collect();
        locks.sort_by_key(|lock| lock.owner);
        DurableState {
            owners: self.owners.iter().map(Owner::record).collect(),
            locks,
            claims: self.claims.iter().map(|(name, claim): (_, &Claim)| claim.record(name)).collect(),
            assignments: self.assignments.values().cloned().collect(),
        }
    }

    pub(in crate::oracle) fn owners(&self) -> Vec<OwnerId> {
        self.owners.iter().map(|owner| owner.id).collect()
    }

    /// Until when each owner lives, and how many locks it has.
    pub(in crate::oracle) fn owner_leases(&self) -> Vec<(OwnerId, Instant, u32)> {
        let is_live = |row: &&Row, id| row.owner == id && row.voided.is_none();
        let locks = |id| self.rows.iter().filter(|row| is_live(row, id)).count() as u32;
        self.owners.iter().map(|owner| (owner.id, owner.expires, locks(owner.id))).collect()
    }

    /// The request that is a steal gets the next token.
    pub(super) fn note_steal(&mut self, name: &NameBuf) {
        if let Some(recovery) = &mut self.recovery {
            let token = FencingToken::new(self.last_token + 1);
            recovery.past.push(Past { name: name.clone(), mode: Mode::Exclusive, token, reclaimed: false });
        }
    }

    pub(super) fn reclaim(
        &mut self,
        now: Instant,
        new: &NewReclaim<'_>,
        fresh: Option<RequestId>,
    ) -> Result<Outcome, Unnamed> {
        let NewReclaim { agent, name, mode, token, metadata, max_hold_ms } = *new;
        let request = NewRequest { agent, name, acquire: Acquire::Wait(mode), metadata, max_hold_ms };
        // An excess of names is refused last of all.
        let is_of_names = |refusal: &Refusal| matches!(refusal, Refusal::TooManyNames { .. });
        let bound = self.out_of_bounds(&request).filter(|refusal| !is_of_names(refusal));
        if let Some(refusal) = bound.or_else(|| self.not_to_be_brought_back(new)) {
            return Ok(Outcome::Refused(refusal));
        }
        let mut may_end = self.most_in_the_way();
        self.catch_up(now, name, mode, None, &mut may_end);
        if self.is_held_durably(name, mode) {
            return Ok(Outcome::Refused(Refusal::Superseded));
        }
        if let Some(refusal) = self.out_of_bounds(&request) {
            return Ok(Outcome::Refused(refusal));
        }
        let name = name.to_buf();
        let excluded = |other: Mode| mode == Mode::Exclusive || other == Mode::Exclusive;
        for lock in self.held.extract_if(.., |lock| lock.request.name == name && excluded(lock.request.mode))
        {
            let Request { agent, id: request, name, .. } = lock.request;
            let loss = Box::new(LockLoss { name, reason: LossReason::Superseded });
            self.effects.push(Effect::Lost { agent, request, loss });
        }
        let request = self.new_request(now, &request, fresh.ok_or(Unnamed)?);
        let id = request.id;
        self.grant(now, request, token);
        if let Some(recovery) = &mut self.recovery {
            recovery.past.push(Past { name, mode, token, reclaimed: true });
        }
        Ok(self.take_own_grant(id).map_or(Outcome::Queued(id), Outcome::Granted))
    }

    /// A lock was given back, or lost, before any lock that excludes it was granted, and each later one has a
    /// higher token.
    fn not_to_be_brought_back(&self, new: &NewReclaim<'_>) -> Option<Refusal> {
        let Some(recovery) = &self.recovery else { return Some(Refusal::NotRecovering) };
        if new.token.get() > recovery.mark {
            return Some(Refusal::UnknownToken);
        }
        let excludes = |mode: Mode| mode == Mode::Exclusive || new.mode == Mode::Exclusive;
        let is_younger =
            |past: &Past| past.name.as_name() == new.name && excludes(past.mode) && past.token >= new.token;
        let younger = recovery.past.iter().any(is_younger);
        let twice = recovery.past.iter().any(|past| past.reclaimed && past.token == new.token);
        (younger || twice).then_some(Refusal::Superseded)
    }

    /// Whether something durable excludes a lock of that mode.
    fn is_held_durably(&self, name: Name<'_>, mode: Mode) -> bool {
        let excludes = |other: Mode| mode == Mode::Exclusive || other == Mode::Exclusive;
        self.rows.iter().any(|row| row.name.as_name() == name && excludes(row.mode))
            || self.claims.contains_key(&name.to_buf())
    }

    /// The requests that wait are still to be processed.
    pub(super) fn end_recovery(&mut self) -> bool {
        if self.recovery.take().is_none() {
            return false;
        }
        self.effects.push(Effect::Recovered);
        self.unsettled = true;
        true
    }

    /// All waiting requests are processed once more, in the order of their arrival, name by name: the names
    /// in this order, then all others.
    pub(super) fn settle(&mut self, now: Instant, order: &[NameBuf]) {
        if !std::mem::take(&mut self.unsettled) {
            return;
        }
        let mut names: Vec<NameBuf> = self.queue_map.keys().cloned().collect();
        names.sort_by_key(|name| order.iter().position(|other| other == name).unwrap_or(usize::MAX));
        names.iter().for_each(|name| self.settle_queue(now, name));
    }

    /// The same for one name, before a command that asks for it, if its first request need not wait.
    pub(super) fn settle_name(&mut self, now: Instant, name: Name<'_>) {
        let name = &name.to_buf();
        let head = self.queue_map.get(name).and_then(|queue| queue.first());
        let is_ready = head.is_some_and(|head| self.is_grantable(Some(head.id), name, head.mode));
        if self.unsettled && is_ready {
            self.settle_queue(now, name);
        }
    }

    fn settle_queue(&mut self, now: Instant, name: &NameBuf) {
        for request in std::mem::take(self.get_the_queue(name)) {
            let Request { id, agent, mode, if_available, .. } = request;
            if if_available && !self.is_grantable(None, name, mode) {
                let refusal = Box::new(self.unavailable(name));
                self.effects.push(Effect::Unavailable { agent, request: id, refusal });
            } else {
                self.get_the_queue(name).push(request);
                self.grant_all_grantable(now, name);
            }
        }
    }
}
