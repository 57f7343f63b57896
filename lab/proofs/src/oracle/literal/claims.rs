//! Claims as a store of them has it: one current claim per resource, compared by token when it is made final.

use lockhouse_core::{
    AssignmentRecord, Change, ClaimEnd, ClaimGrant, ClaimRecord, Command, Effect, FencingToken, Holder,
    Instant, Mode, Name, NameBuf, NewClaim, Outcome, Party, Refusal, SecretSeed,
};

use super::{Literal, touch};

#[derive(Clone)]
pub(super) struct Claim {
    claimant: String,
    pub(super) token: FencingToken,
    pub(super) ttl_ms: u64,
    since: Instant,
    pub(super) expires: Instant,
    seed: SecretSeed,
    metadata: Option<String>,
    pub(super) born: u64,
}

impl Literal {
    pub(super) fn handle_claim(&mut self, now: Instant, command: Command<'_>) -> Result<Outcome, Refusal> {
        match command {
            Command::Claim(new) => self.claim(now, &new),
            Command::RenewClaim { name, token } => {
                let (most, came) = (self.limits.ttl_ms.1, self.came);
                let claim = self.checked(now, name, token)?;
                let longest = claim.since.plus_millis(most);
                claim.expires = claim.expires.max(came.plus_millis(claim.ttl_ms).min(longest));
                Ok(Outcome::ClaimRenewed { expires: claim.expires })
            }
            Command::ReleaseClaim { name, token } => {
                self.checked(now, name, token)?;
                self.delete_claim(now, &name.to_buf(), ClaimEnd::Released);
                self.process_the_lock_request_queue(now, &name.to_buf());
                Ok(Outcome::ClaimReleased)
            }
            Command::Finalize { name, token } => self.finalize(now, name, token),
            Command::Unassign { name, token } => {
                Ok(Outcome::Unassigned { was: self.unassign(now, &name.to_buf(), token) })
            }
            other => panic!("{other:?} is not a claimant's"),
        }
    }

    fn claim(&mut self, now: Instant, new: &NewClaim<'_>) -> Result<Outcome, Refusal> {
        self.check_name(new.name)?;
        self.check_text(new.claimant, new.metadata)?;
        self.check_ttl(new.ttl_ms)?;
        self.check_open()?;
        let name = new.name.to_buf();
        if let Some(assignment) = self.assignments.get(&name) {
            return Err(Refusal::AlreadyAssigned(Box::new(assignment.clone())));
        }
        self.sweep_claim(now, &name);
        let mut may_end = self.most_in_the_way();
        self.catch_up(now, new.name, Mode::Exclusive, None, &mut may_end);
        if let Some(claim) = self.claims.get(&name) {
            return Err(Refusal::Claimed { holder: Box::new(claim.holder()) });
        }
        if !self.is_grantable(None, &name, Mode::Exclusive) {
            return Err(Refusal::Busy { holders: self.holders(&name, None), queued: self.queued(&name) });
        }
        let limit = self.limits.assignments;
        if self.claims.len() + self.assignments.len() >= limit as usize {
            return Err(Refusal::TooManyAssignments { limit });
        }
        let limit = self.limits.entries;
        if self.entries() >= limit as usize {
            return Err(Refusal::TooManyEntries { limit });
        }
        let limit = self.limits.names;
        if !self.is_known(new.name) && self.names() >= limit as usize {
            return Err(Refusal::TooManyNames { limit });
        }
        let claim = Claim {
            claimant: new.claimant.to_owned(),
            token: FencingToken::new(self.next_number()),
            ttl_ms: new.ttl_ms,
            since: now,
            expires: self.came.plus_millis(new.ttl_ms),
            seed: new.seed,
            metadata: new.metadata.map(str::to_owned),
            born: self.birth(),
        };
        let grant = ClaimGrant { token: claim.token, expires: claim.expires };
        self.change(Change::Claimed(claim.record(&name)));
        self.claims.insert(name, claim);
        Ok(Outcome::Claimed(grant))
    }

    /// First: is there a current claim? Then: is it this one? Then assign, then delete.
    fn finalize(
        &mut self,
        now: Instant,
        name: Name<'_>,
        token: Option<FencingToken>,
    ) -> Result<Outcome, Refusal> {
        let existing = self.assignments.get(&name.to_buf());
        if let Some(existing) = existing.filter(|existing| Some(existing.token) == token) {
            return Ok(Outcome::Finalized(Box::new(existing.clone())));
        }
        let Claim { ref claimant, token, seed, .. } = *self.checked(now, name, token)?;
        let claimant = claimant.as_str().into();
        let name = name.to_buf();
        let assignment = AssignmentRecord { name: name.clone(), claimant, token, since: now, seed };
        self.assignments.insert(name.clone(), assignment.clone());
        self.claims.remove(&name);
        self.change(Change::Assigned(assignment.clone()));
        self.process_the_lock_request_queue(now, &name);
        Ok(Outcome::Finalized(Box::new(assignment)))
    }

    fn unassign(&mut self, now: Instant, name: &NameBuf, token: Option<FencingToken>) -> bool {
        let Some(existing) = self.assignments.get(name).map(|assignment| assignment.token) else {
            return false;
        };
        let is_meant = token.is_none() || token == Some(existing);
        if is_meant {
            self.assignments.remove(name);
            self.change(Change::Unassigned { name: name.clone(), token: existing, at: now });
        }
        is_meant
    }

    fn checked(
        &mut self,
        now: Instant,
        name: Name<'_>,
        token: Option<FencingToken>,
    ) -> Result<&mut Claim, Refusal> {
        self.sweep_claim(now, &name.to_buf());
        match self.claims.get_mut(&name.to_buf()) {
            Some(claim) if Some(claim.token) == token => Ok(claim),
            Some(_) => Err(Refusal::ClaimLost { assigned: None }),
            None => match self.assignments.get(&name.to_buf()) {
                Some(assigned) if Some(assigned.token) != token => {
                    Err(Refusal::ClaimLost { assigned: Some(Box::new(assigned.clone())) })
                }
                _ => Err(Refusal::ClaimExpired),
            },
        }
    }

    /// A claim is over when now is its end.
    pub(super) fn sweep_claim(&mut self, now: Instant, name: &NameBuf) {
        if self.claims.get(name).is_some_and(|claim| claim.expires <= now) {
            self.delete_claim(now, name, ClaimEnd::Expired);
            self.process_the_lock_request_queue(now, name);
        }
    }

    pub(super) fn expire_claim(&mut self, now: Instant, token: FencingToken, touched: &mut Vec<NameBuf>) {
        let name = self.claims.iter().find(|(_, claim)| claim.token == token).map(|(name, _)| name.clone());
        if let Some(name) = name {
            self.delete_claim(now, &name, ClaimEnd::Expired);
            touch(touched, &name);
        }
    }

    pub(super) fn remove_stolen_claim(&mut self, now: Instant, name: &NameBuf) -> Option<(u64, Effect)> {
        let Claim { token, born, .. } = self.claims.remove(name)?;
        let change = Change::Unclaimed { name: name.clone(), token, reason: ClaimEnd::Stolen, at: now };
        Some((born, Effect::Change(Box::new(change))))
    }

    pub(super) fn delete_claim(&mut self, now: Instant, name: &NameBuf, reason: ClaimEnd) {
        if let Some(Claim { token, .. }) = self.claims.remove(name) {
            self.change(Change::Unclaimed { name: name.clone(), token, reason, at: now });
        }
    }
}

impl Claim {
    pub(super) fn holder(&self) -> Holder {
        Holder {
            party: Party::Claimant,
            label: self.claimant.clone(),
            mode: Mode::Exclusive,
            since: self.since,
            expires: Some(self.expires),
            metadata: self.metadata.clone(),
        }
    }

    pub(super) fn record(&self, name: &NameBuf) -> ClaimRecord {
        ClaimRecord {
            name: name.clone(),
            claimant: self.claimant.as_str().into(),
            token: self.token,
            ttl_ms: self.ttl_ms,
            since: self.since,
            seed: self.seed,
            metadata: self.metadata.as_deref().map(Into::into),
        }
    }
}
