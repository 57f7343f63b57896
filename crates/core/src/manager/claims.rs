//! Claims: reservations that end by themselves, and that only the current claimant can turn into assignments.
//!
//! The existence of a current claim is checked before its token: no claim is `ClaimExpired`, another one is
//! `ClaimLost`, be it current or final.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Deref;

use super::LockManager;
use super::tables::table::{ArmedLease, ClaimDetails, Extras, Tenure};
use crate::{
    AssignmentRecord, Change, ClaimEnd, ClaimGrant, ClaimRecord, Discipline, EndCause, EventKind,
    FencingToken, Instant, LossCause, Mode, Name, NameBuf, NewClaim, Now, Outcome, Refusal, SecretSeed,
};

/// An assignment of a name to a claimant, made by a final claim. An assignment is no hold: it excludes only
/// claims.
#[derive(Clone, Debug)]
pub(super) struct StoredAssignment {
    pub(super) claimant: Box<str>,
    pub(super) token: FencingToken,
    pub(super) since: Instant,
    pub(super) seed: SecretSeed,
}

/// All assignments, by their names, and their memory.
#[derive(Clone, Debug, Default)]
pub(super) struct AssignmentIndex {
    of: BTreeMap<NameBuf, StoredAssignment>,
    bytes: usize,
}

impl AssignmentIndex {
    pub(super) fn insert(&mut self, name: NameBuf, assignment: StoredAssignment) {
        // Only an assignment from a store can be there already.
        self.remove(&name);
        self.bytes += Self::bytes_of(&name, &assignment);
        self.of.insert(name, assignment);
    }

    pub(super) fn remove(&mut self, name: &NameBuf) -> Option<StoredAssignment> {
        let (name, assignment) = self.of.remove_entry(name)?;
        self.bytes -= Self::bytes_of(&name, &assignment);
        Some(assignment)
    }

    fn bytes_of(name: &NameBuf, assignment: &StoredAssignment) -> usize {
        size_of::<(NameBuf, StoredAssignment)>() + name.heap_bytes() + assignment.claimant.len()
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Deref for AssignmentIndex {
    type Target = BTreeMap<NameBuf, StoredAssignment>;

    fn deref(&self) -> &Self::Target {
        &self.of
    }
}

impl<S: BuildHasher> LockManager<S> {
    pub(super) fn claim(&mut self, now: Now, new: &NewClaim<'_>) -> Result<ClaimGrant, Refusal> {
        let limits = self.limits;
        limits.check_name(new.name)?;
        limits.check_label(new.claimant)?;
        limits.check_metadata(new.metadata)?;
        limits.check_ttl(new.ttl_ms)?;
        self.check_open()?;
        if let Some(assignment) = self.assignments.get(&new.name.to_buf()) {
            return Err(Refusal::AlreadyAssigned(Box::new(record(new.name, assignment))));
        }
        self.expire_claim_if_due(now, new.name);
        if self.is_done_in_parts() {
            self.catch_up(now, &[(new.name, Mode::Exclusive)], None);
        }
        self.check_claimable(new.name)?;
        if self.table.claims.len() + self.assignments.len() >= limits.assignments as usize {
            return Err(Refusal::TooManyAssignments { limit: limits.assignments });
        }
        self.check_entries(1)?;
        let name = self.table.name_slot(new.name, limits.names);
        let name = name.ok_or(Refusal::TooManyNames { limit: limits.names })?;
        let expires = now.deadline(new.ttl_ms);
        let token = FencingToken::new(self.next_number());
        let claim = ClaimRecord {
            name: new.name.to_buf(),
            claimant: new.claimant.into(),
            token,
            ttl_ms: new.ttl_ms,
            since: now.tick(),
            seed: new.seed,
            metadata: new.metadata.map(Into::into),
        };
        let slot = self.add_claim(name, &claim, expires);
        self.table.tally_grant(slot, token);
        self.change(Change::Claimed(claim));
        Ok(ClaimGrant { token, expires })
    }

    /// A current claim of a name without a holder, until `expires` unless it is renewed. Returns its slot.
    pub(super) fn add_claim(&mut self, name: u32, record: &ClaimRecord, expires: Instant) -> u32 {
        let lease = ArmedLease { length_ms: record.ttl_ms, ends: expires, armed: expires };
        let claim = ClaimDetails { claimant: record.claimant.clone(), seed: record.seed, lease };
        let claim = self.table.claims.insert(claim);
        let extras = record.metadata.clone().map(|text| Extras { metadata: Some(text), ..Extras::default() });
        let entry = self.table.add_entry(record.since, name, Tenure::Ttl(claim), Mode::Exclusive, extras);
        self.hold(record.since.into(), name, entry.slot, record.token);
        self.deadlines.arm_hold(entry, Some(expires));
        entry.slot
    }

    /// O(1): the armed deadline notices the renewal when it fires.
    pub(super) fn renew_claim(
        &mut self,
        now: Now,
        name: Name<'_>,
        token: Option<FencingToken>,
    ) -> Result<Instant, Refusal> {
        let (slot, claim) = self.current_claim(now, name, token)?;
        let at_most = self.table.entries[slot].since.plus_millis(self.limits.ttl_ms.1);
        let lease = &mut self.table.claims[claim].lease;
        lease.ends = lease.ends.max(now.deadline(lease.length_ms).min(at_most));
        Ok(lease.ends)
    }

    pub(super) fn release_claim(
        &mut self,
        now: Now,
        name: Name<'_>,
        token: Option<FencingToken>,
    ) -> Result<Outcome, Refusal> {
        let (slot, _) = self.current_claim(now, name, token)?;
        let name = self.table.entries[slot].name;
        self.end_claim(now, slot, ClaimEnd::Released);
        self.process(now, name);
        Ok(Outcome::ClaimReleased)
    }

    /// Check, assign, delete: one step, one change.
    pub(super) fn finalize(
        &mut self,
        now: Now,
        name: Name<'_>,
        token: Option<FencingToken>,
    ) -> Result<Box<AssignmentRecord>, Refusal> {
        if let Some(standing) = self.assignments.get(&name.to_buf())
            && Some(standing.token) == token
        {
            return Ok(Box::new(record(name, standing)));
        }
        let (slot, claim) = self.current_claim(now, name, token)?;
        let token = self.table.entries[slot].held_token();
        let ClaimDetails { ref claimant, seed, .. } = self.table.claims[claim];
        let assignment = StoredAssignment { claimant: claimant.clone(), token, since: now.tick(), seed };
        let assigned = record(name, &assignment);
        self.assignments.insert(name.to_buf(), assignment);
        self.change(Change::Assigned(assigned.clone()));
        let said = (&*assigned.claimant, token, assigned.since);
        self.table.assignment_event(EventKind::Assigned, &assigned.name, said);
        self.table.ends_for(|| EndCause::Finalized);
        self.remove_and_process(now, slot);
        Ok(Box::new(assigned))
    }

    pub(super) fn unassign(&mut self, now: Now, name: Name<'_>, token: Option<FencingToken>) -> bool {
        let name = name.to_buf();
        let Some(standing) = self.assignments.get(&name) else { return false };
        let stands = standing.token;
        if token.is_some_and(|token| token != stands) {
            return false;
        }
        if let Some(past) = self.assignments.remove(&name) {
            let said = (&*past.claimant, past.token, past.since);
            self.table.assignment_event(EventKind::Unassigned, &name, said);
        }
        self.change(Change::Unassigned { name, token: stands, at: now.tick() });
        true
    }

    /// A claim ends without having been made final. Its name is still to be processed.
    pub(super) fn end_claim(&mut self, now: Now, slot: u32, reason: ClaimEnd) {
        let entry = &self.table.entries[slot];
        let name = self.table.names[entry.name].name.clone();
        let token = entry.held_token();
        if let Some(cause) = LossCause::of_claim(&reason) {
            self.table.tally_loss(Discipline::Claim, cause, 1);
        }
        self.table.ends_for(|| EndCause::from(&reason));
        self.remove(slot);
        self.change(Change::Unclaimed { name, token, reason, at: now.tick() });
    }

    /// A claim whose time is over counts as absent, whether or not the timeout has come.
    pub(super) fn expire_claim_if_due(&mut self, now: Now, name: Name<'_>) {
        let Some(name) = self.table.find_name(name) else { return };
        let Some((slot, claim)) = self.claim_on(name) else { return };
        if self.table.claims[claim].lease.ends <= now.tick() {
            self.end_claim(now, slot, ClaimEnd::Expired);
            self.process(now, name);
        }
    }

    /// The entry and the claim that hold the name, if a claim does.
    pub(super) fn claim_on(&self, name: u32) -> Option<(u32, u32)> {
        let slot = self.table.names[name].held.head;
        match self.table.entries.get(slot).map(super::tables::table::LockEntry::tenure) {
            Some(Tenure::Ttl(claim)) => Some((slot, claim)),
            _ => None,
        }
    }

    fn current_claim(
        &mut self,
        now: Now,
        name: Name<'_>,
        token: Option<FencingToken>,
    ) -> Result<(u32, u32), Refusal> {
        self.expire_claim_if_due(now, name);
        let current = self.table.find_name(name).and_then(|name| self.claim_on(name));
        let (slot, claim) = current.ok_or_else(|| self.without_claim(name, token))?;
        if token != Some(self.table.entries[slot].held_token()) {
            return Err(Refusal::ClaimLost { assigned: None });
        }
        Ok((slot, claim))
    }

    fn without_claim(&self, name: Name<'_>, token: Option<FencingToken>) -> Refusal {
        match self.assignments.get(&name.to_buf()) {
            Some(standing) if Some(standing.token) != token => {
                Refusal::ClaimLost { assigned: Some(Box::new(record(name, standing))) }
            }
            _ => Refusal::ClaimExpired,
        }
    }

    /// A claim requests like `ifAvailable`: it passes no waiting request.
    fn check_claimable(&self, name: Name<'_>) -> Result<(), Refusal> {
        let Some(name) = self.table.find_name(name) else { return Ok(()) };
        if let Some((slot, _)) = self.claim_on(name) {
            return Err(Refusal::Claimed { holder: Box::new(self.holder(&self.table.entries[slot])) });
        }
        if self.is_free(name, Mode::Exclusive) {
            return Ok(());
        }
        let (holders, queued) = self.holders(name);
        Err(Refusal::Busy { holders, queued })
    }
}

impl StoredAssignment {
    pub(super) fn new(record: &AssignmentRecord) -> Self {
        let AssignmentRecord { ref claimant, token, since, seed, .. } = *record;
        Self { claimant: claimant.clone(), token, since, seed }
    }
}

fn record(name: Name<'_>, assignment: &StoredAssignment) -> AssignmentRecord {
    let StoredAssignment { ref claimant, token, since, seed } = *assignment;
    AssignmentRecord { name: name.to_buf(), claimant: claimant.clone(), token, since, seed }
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::Command;

    #[test]
    fn a_late_begin_moves_the_expiry_and_not_the_time_of_the_check() {
        let mut manager = LockManager::new(FixedState::default());
        let name = Name::new("n").unwrap();
        let at = Instant::from_millis;
        let new = NewClaim { name, claimant: "", ttl_ms: 100, seed: SecretSeed(1), metadata: None };
        let Outcome::Claimed(claim) = manager.handle(Now::late(at(0), 80), Command::Claim(new)) else {
            panic!()
        };
        assert_eq!(claim.expires, at(180));
        let mut renew = |now| {
            manager.handle(Now::late(at(now), 500), Command::RenewClaim { name, token: Some(claim.token) })
        };
        assert_eq!(renew(179), Outcome::ClaimRenewed { expires: at(779) });
        assert_eq!(renew(778), Outcome::ClaimRenewed { expires: at(1378) });
        assert_eq!(renew(1378), Outcome::Refused(Refusal::ClaimExpired));
    }
}
