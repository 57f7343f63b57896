//! Views of a manager, which do not change it.

mod names;
pub(crate) mod queues;
pub(crate) mod survey;

use std::hash::BuildHasher;
use std::ops::Bound;

use super::LockManager;
use super::claims::StoredAssignment;
use super::tables::list::{ByName, ByParty};
use super::tables::table::{LockEntry, Tenure};
use crate::{
    AgentId, AssignmentView, ClaimView, FencingToken, Holder, Instant, Limits, LockRecord, LockState, Name,
    NameBuf, OwnerId, OwnerView, Party, Refusal, RequestId, SecretSeed, Snapshot, WebLockView,
};

/// So many locks of a name are looked at for its holders, void ones among them.
pub(super) const HOLDERS_LOOKED_AT: usize = 64;

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStatus {
    /// In its queue.
    Pending,
    /// Granted, and held still.
    Held(FencingToken),
    /// Refused, aborted, released, lost, or of an agent that has ended.
    Ended,
}

impl<S: BuildHasher> LockManager<S> {
    /// The state of the request.
    #[inline]
    pub fn status(&self, request: RequestId) -> RequestStatus {
        match self.table.entry(request).map(|entry| entry.token) {
            None => RequestStatus::Ended,
            Some(None) => RequestStatus::Pending,
            Some(Some(held)) => RequestStatus::Held(held.token()),
        }
    }

    /// The name that the request waits for or holds, unless it has ended.
    pub fn name_of(&self, request: RequestId) -> Option<Name<'_>> {
        self.table.entry(request).map(|entry| self.table.names[entry.name].name.as_name())
    }

    /// The lock that the request has become, if it is held.
    pub fn web_lock(&self, request: RequestId) -> Option<WebLockView<'_>> {
        let entry = self.table.entry(request)?;
        let token = entry.token?.token();
        let Tenure::Agent(party) = entry.tenure() else { return None };
        let client_id = &self.table.parties[party].label;
        let name = self.table.names[entry.name].name.as_name();
        Some(WebLockView { name, client_id, mode: entry.mode, token })
    }

    /// The label of the agent, if it lives.
    pub fn client_id_of(&self, agent: AgentId) -> Option<&str> {
        self.table
            .parties
            .get(agent.slot)
            .filter(|party| party.serial == agent.serial)
            .map(|party| &*party.label)
    }

    /// The end of the time in which agents may reclaim, if they may now.
    pub fn recovers_until(&self) -> Option<Instant> {
        self.recovery.as_ref().map(|recovery| recovery.until)
    }

    /// The requests and locks of the agent, oldest request first; none if it has ended.
    pub fn requests_of(&self, agent: AgentId) -> impl Iterator<Item = RequestId> + '_ {
        self.table.requests_of(agent)
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether a [`Command::Close`](crate::Command::Close) has come.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The number of the last token given, or of the last owner, 0 if there was none.
    pub fn last_token(&self) -> u64 {
        self.last_token
    }

    /// The mark up to which numbers are reserved: no token above it is given before a
    /// [`Change::TokensReserved`](crate::Change::TokensReserved) has reported a higher one.
    pub fn reserved_up_to(&self) -> u64 {
        self.reserved
    }

    /// Whether the agent lives.
    pub fn is_alive(&self, agent: AgentId) -> bool {
        self.table.parties.get(agent.slot).is_some_and(|party| party.serial == agent.serial)
    }

    /// How many requests and locks there are.
    pub fn len(&self) -> usize {
        self.table.entries.len()
    }

    /// Whether nothing is held and nothing pending.
    pub fn is_empty(&self) -> bool {
        self.table.entries.is_empty()
    }

    /// The approximate bytes of memory of the manager's content: all names, labels and metadata, and the
    /// slots that hold them. Tables that have grown may reserve up to as much again.
    #[inline]
    pub fn bytes(&self) -> usize {
        let recovery = self.recovery.as_ref().map_or(0, |recovery| recovery.bytes());
        self.table.bytes() + self.assignments.bytes() + recovery
    }

    /// The approximate upper bound of the memory of a snapshot, while labels are within their limit: a slot,
    /// a label and the metadata of each request and lock, and each name once. A snapshot shares the names
    /// with the manager and may outlive them there.
    pub fn bytes_of_snapshot(&self) -> usize {
        let each = size_of::<crate::SnapshotEntry>() + self.limits.label_bytes;
        self.len() * each + self.table.metadata_bytes() + self.table.names.heap_bytes()
    }

    /// How many web locks are held. O(1).
    pub fn held_web_locks(&self) -> usize {
        self.table.held().all
    }

    /// How many of them agents hold that are [marked](Self::mark_remote) as remote. O(1).
    pub fn held_remotely(&self) -> usize {
        self.table.held().remote
    }

    /// The web locks of these agents, in no particular order.
    pub fn remote_web_locks(&self) -> impl Iterator<Item = (AgentId, WebLockView<'_>)> {
        self.table.entries.slots().filter_map(|(_, entry)| {
            let (Tenure::Agent(party), Some(held)) = (entry.tenure(), entry.token) else { return None };
            let client_id = &self.table.parties[party].label;
            let name = self.table.names[entry.name].name.as_name();
            let lock = WebLockView { name, client_id, mode: entry.mode, token: held.token() };
            self.table.is_remote(party).then(|| (self.table.party_id(party), lock))
        })
    }

    /// How many names have something held or queued.
    pub fn names(&self) -> usize {
        self.table.names.len()
    }

    /// The current claim of the name. The claim may be over already, if the timeout has not come yet.
    pub fn claim_of(&self, name: Name<'_>) -> Option<ClaimView<'_>> {
        let (slot, claim) = self.claim_on(self.table.find_name(name)?)?;
        let (entry, claim) = (&self.table.entries[slot], &self.table.claims[claim]);
        Some(ClaimView {
            token: entry.held_token(),
            claimant: &claim.claimant,
            ttl_ms: claim.lease.length_ms,
            since: entry.since,
            expires: claim.lease.ends,
            seed: claim.seed,
            metadata: self.metadata(entry),
        })
    }

    /// The number of holders of the name.
    pub fn holders_of(&self, name: Name<'_>) -> usize {
        let Some(slot) = self.table.find_name(name) else { return 0 };
        self.holders_in_order(slot).count()
    }

    /// The first holders of the name.
    pub fn first_holders_of(&self, name: Name<'_>) -> Vec<Holder> {
        self.table.find_name(name).map_or_else(Vec::new, |slot| self.holders(slot).0)
    }

    /// Whether an offline lock or a claim holds the name. A steal without the permission to operate must
    /// spare such a name.
    pub fn is_held_durably(&self, name: Name<'_>) -> bool {
        let Some(slot) = self.table.find_name(name) else { return false };
        self.holders_in_order(slot).any(|slot| !matches!(self.table.entries[slot].tenure(), Tenure::Agent(_)))
    }

    /// The standing assignment of the name.
    pub fn assignment_of(&self, name: Name<'_>) -> Option<AssignmentView<'_>> {
        self.assignments.get_key_value(&name.to_buf()).map(assignment_view)
    }

    /// All standing assignments, in the order of their names.
    pub fn assignments(&self) -> impl ExactSizeIterator<Item = AssignmentView<'_>> {
        self.assignments.iter().map(assignment_view)
    }

    /// The assignments whose names, as WTF-8, are not before these bytes.
    pub fn assignments_from(&self, start: &[u8]) -> impl Iterator<Item = AssignmentView<'_>> {
        let range = (Bound::Included(start), Bound::Unbounded);
        self.assignments.range::<[u8], _>(range).map(assignment_view)
    }

    /// The owner, if it lives.
    pub fn owner(&self, owner: OwnerId) -> Option<OwnerView<'_>> {
        self.table.owners.get(&owner).map(|party| self.owner_view(*party))
    }

    /// All owners that live, oldest first.
    pub fn owners(&self) -> impl ExactSizeIterator<Item = OwnerView<'_>> {
        self.table.owners.values().map(|party| self.owner_view(*party))
    }

    /// The owners of that seed that live, oldest first. O(log n) for each.
    pub fn owners_of_seed(&self, seed: SecretSeed) -> impl Iterator<Item = OwnerView<'_>> {
        self.table.seeds.owners(seed).filter_map(|owner| {
            let found = self.owner(owner);
            debug_assert!(found.is_some(), "an owner that has ended has left the seeds");
            found
        })
    }

    /// The locks of the owner, oldest first; none if it has ended.
    pub fn locks_of(&self, owner: OwnerId) -> impl Iterator<Item = LockRecord> + '_ {
        let party = self.table.owners.get(&owner);
        let all = party.map(|party| self.table.parties[*party].all.iter::<ByParty>(&self.table.entries));
        all.into_iter().flatten().map(|slot| self.lock_record(slot))
    }

    /// The owner's lock of the name, if it has one. O(1).
    pub fn lock_of(&self, owner: OwnerId, name: Name<'_>) -> Option<LockRecord> {
        let slot = self.own_lock(*self.table.owners.get(&owner)?, name, None)?;
        Some(self.lock_record(slot))
    }

    /// The token of the owner's lock of the name, if it has one. O(1).
    pub fn token_of_lock(&self, owner: OwnerId, name: Name<'_>) -> Option<FencingToken> {
        let slot = self.own_lock(*self.table.owners.get(&owner)?, name, None)?;
        Some(self.table.entries[slot].held_token())
    }

    /// <https://w3c.github.io/web-locks/#snapshot-the-lock-state>
    pub(super) fn snapshot_the_lock_state(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.table.names.slots().for_each(|(name, _)| self.add_to_snapshot(name, &mut snapshot));
        snapshot
    }

    /// All that is held and pending, as [`Command::Snapshot`](crate::Command::Snapshot) answers it.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_the_lock_state()
    }

    /// The first holders of the name, and how many requests wait for it.
    pub(super) fn holders(&self, name: u32) -> (Vec<Holder>, u32) {
        let first = self.table.names[name].held.iter::<ByName>(&self.table.entries).take(HOLDERS_LOOKED_AT);
        let holders = first.filter(|slot| !self.table.is_void(*slot)).take(Refusal::HOLDERS_SHOWN);
        let holders = holders.map(|slot| self.holder(&self.table.entries[slot])).collect();
        (holders, self.table.names[name].queued)
    }

    /// The locks and claims that hold the name, oldest first. A void lock has no holder.
    pub(super) fn holders_in_order(&self, name: u32) -> impl Iterator<Item = u32> + '_ {
        let held = self.table.names[name].held.iter::<ByName>(&self.table.entries);
        held.filter(|slot| !self.table.is_void(*slot))
    }

    pub(super) fn holder(&self, entry: &LockEntry) -> Holder {
        let table = &self.table;
        let (party, label, expires) = match entry.tenure() {
            Tenure::Agent(slot) => {
                let expires = table.extras_of(entry).and_then(|extras| extras.expires);
                (Party::Agent(table.party_id(slot)), &table.parties[slot].label, expires)
            }
            Tenure::Owner(slot) => {
                let (owner, party) = (table.owner(slot).id, &table.parties[slot]);
                (Party::Owner(owner), &party.label, party.lease.map(|lease| lease.ends))
            }
            Tenure::Ttl(slot) => {
                let claim = &table.claims[slot];
                (Party::Claimant, &claim.claimant, Some(claim.lease.ends))
            }
        };
        Holder {
            party,
            label: label.to_string(),
            mode: entry.mode,
            since: entry.since,
            expires,
            metadata: self.metadata(entry).map(str::to_owned),
        }
    }

    fn describe(&self, slot: u32, state: LockState) -> crate::SnapshotEntry {
        let entry = &self.table.entries[slot];
        let Holder { party, label, mode, since, expires, metadata } = self.holder(entry);
        let name = self.table.names[entry.name].name.clone();
        let request = matches!(party, Party::Agent(_)).then_some(RequestId { slot, serial: entry.serial });
        crate::SnapshotEntry { name, mode, request, party, label, state, since, expires, metadata }
    }

    fn metadata(&self, entry: &LockEntry) -> Option<&str> {
        self.table.extras_of(entry).and_then(|extras| extras.metadata.as_deref())
    }

    fn owner_view(&self, slot: u32) -> OwnerView<'_> {
        let (owner, party) = (self.table.owner(slot), &self.table.parties[slot]);
        let lease = party.lease.expect("every owner has a lease");
        OwnerView {
            owner: owner.id,
            label: &party.label,
            metadata: owner.metadata.as_deref(),
            ttl_ms: lease.length_ms,
            since: owner.since,
            expires: lease.ends,
            ends: owner.ends,
            seed: owner.seed,
            locks: self.table.locks_of_owner(slot),
        }
    }
}

fn assignment_view<'a>((name, assignment): (&'a NameBuf, &'a StoredAssignment)) -> AssignmentView<'a> {
    let StoredAssignment { ref claimant, token, since, seed } = *assignment;
    AssignmentView { name, claimant, token, since, seed }
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::{Acquire, Command, Mode, NewAgent, NewRequest, Outcome};

    #[test]
    fn held_web_locks_are_counted_however_they_come_and_go() {
        let mut manager = LockManager::new(FixedState::default());
        let at = Instant::from_millis;
        let join = |manager: &mut LockManager<_>| {
            let Outcome::Joined(agent) = manager.handle(at(0), Command::Join(NewAgent::new(""))) else {
                panic!()
            };
            agent
        };
        let (local, remote) = (join(&mut manager), join(&mut manager));
        manager.mark_remote(remote);
        let mut counts = Vec::new();
        let mut counted = |manager: &mut LockManager<_>, command| {
            let outcome = manager.handle(at(0), command);
            counts.push((manager.held_web_locks(), manager.held_remotely()));
            outcome
        };
        let request = |agent, name, acquire| {
            Command::Request(NewRequest::new(agent, Name::new(name).unwrap(), acquire))
        };
        let wait = Acquire::Wait(Mode::Exclusive);
        let Outcome::Granted(held) = counted(&mut manager, request(remote, "a", wait)) else { panic!() };
        counted(&mut manager, request(local, "b", wait));
        counted(&mut manager, request(local, "a", wait));
        counted(&mut manager, Command::Release { request: held.request });
        counted(&mut manager, request(remote, "b", Acquire::Steal));
        let timed =
            NewRequest { max_hold_ms: Some(5), ..NewRequest::new(remote, Name::new("c").unwrap(), wait) };
        counted(&mut manager, Command::Request(timed));
        manager.handle_timeout(at(5));
        counted(&mut manager, Command::Snapshot);
        counted(&mut manager, Command::End { agent: remote });
        counted(&mut manager, Command::End { agent: local });
        let expected = [(1, 1), (2, 1), (2, 1), (2, 0), (2, 1), (3, 2), (2, 1), (1, 0), (0, 0)];
        assert_eq!(counts, expected);
    }
}
