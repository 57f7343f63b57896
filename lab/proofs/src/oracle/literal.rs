//! The algorithms of the Web Locks specification, transcribed step by step, without a thought for speed.
//!
//! Sections and step numbers are those of the Working Draft of 2025-09-24. The transcription shares with the
//! core only the types of commands, outcomes and effects. Parts that the specification leaves open (fencing
//! tokens, leases, longest holds, bounds, closing) are added in the plainest form that the documentation of
//! those types allows. The other disciplines are added in the same way: `offline` is the lock table of the
//! pattern, `claims` the store of claims, `recovery` the restart.
//!
//! Identities are opaque here: the caller of the transcription chooses the one that the next agent or request
//! gets.

mod breaks;
mod claims;
mod entries;
mod leases;
mod offline;
mod recovery;
mod void;

use std::collections::BTreeMap;

use claims::Claim;
use entries::{entry, held_entry};
use lockhouse_core::{
    Acquire, AgentId, AssignmentRecord, Change, Command, Effect, FencingToken, Grant, Holder, Instant,
    Limits, LockLoss, LockState, LossReason, Mode, Name, NameBuf, NewRequest, Now, Outcome, OwnerEnd,
    OwnerId, Party, Refusal, RequestId, Snapshot,
};
use offline::{Owner, Row};
pub(super) use recovery::DurableState;
use recovery::Recovery;

/// A lock manager: a map of queues and one set of held locks. Section 2.2
#[derive(Clone)]
pub struct Literal {
    limits: Limits,
    agents: Vec<Agent>,
    queue_map: BTreeMap<NameBuf, Vec<Request>>,
    held: Vec<Lock>,
    effects: Vec<Effect>,
    last_token: u64,
    reserved: u64,
    /// The instant of the present command, from which deadlines count. Its tick may be earlier.
    came: Instant,
    /// Counts all that begins, so that ages compare.
    births: u64,
    closed: bool,
    owners: Vec<Owner>,
    /// The lock table: which owner has which lock.
    rows: Vec<Row>,
    /// The owners that have ended, of which marked rows are left.
    ended: Vec<(OwnerId, OwnerEnd)>,
    /// The owners of marked rows, in the order of their turns, and since when they have been.
    turns: Vec<(u64, OwnerId)>,
    claims: BTreeMap<NameBuf, Claim>,
    assignments: BTreeMap<NameBuf, AssignmentRecord>,
    recovery: Option<Recovery>,
    /// Whether requests wait that have waited for the end of a recovery.
    unsettled: bool,
}

#[derive(Clone)]
struct Agent {
    id: AgentId,
    born: u64,
    client_id: String,
    lease_ms: Option<u64>,
    lease_ends: Option<Instant>,
}

/// Section 2.5
#[derive(Clone)]
struct Request {
    id: RequestId,
    born: u64,
    made: Instant,
    agent: AgentId,
    client_id: String,
    name: NameBuf,
    mode: Mode,
    metadata: Option<String>,
    max_hold_ms: Option<u64>,
    steal: bool,
    if_available: bool,
}

/// Section 2.4
#[derive(Clone)]
struct Lock {
    request: Request,
    token: FencingToken,
    since: Instant,
    expires: Option<Instant>,
    /// When it came to be held, among all that is held in any way.
    born: u64,
}

/// The identities that the next agent and the next request get.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    pub agent: Option<AgentId>,
    pub request: Option<RequestId>,
}

/// A new thing came to be for which no identity was provided.
#[derive(Debug)]
pub struct Unnamed;

impl Literal {
    /// Empty; its tokens begin above the mark.
    pub fn new(limits: Limits, token_mark: u64) -> Self {
        Self {
            limits,
            agents: Vec::new(),
            queue_map: BTreeMap::new(),
            held: Vec::new(),
            effects: Vec::new(),
            last_token: token_mark,
            reserved: token_mark,
            came: Instant::default(),
            births: 0,
            closed: false,
            owners: Vec::new(),
            rows: Vec::new(),
            ended: Vec::new(),
            turns: Vec::new(),
            claims: BTreeMap::new(),
            assignments: BTreeMap::new(),
            recovery: None,
            unsettled: false,
        }
    }

    pub fn handle(&mut self, now: Now, command: Command<'_>, fresh: Fresh) -> Result<Outcome, Unnamed> {
        self.came = now.deadline(0);
        let now = now.tick();
        Ok(match command {
            Command::Join(agent) => self.join(agent, fresh.agent)?,
            Command::Request(request) => self.request_a_lock(now, &request, fresh.request)?,
            Command::Abort { request } => Outcome::Aborted { pending: self.abort_by_id(now, request) },
            Command::Release { request } => Outcome::Released { held: self.release_by_id(now, request) },
            Command::Renew { agent } => Outcome::Renewed { alive: self.renew(agent) },
            Command::End { agent } => Outcome::Ended { alive: self.end(now, agent) },
            Command::Snapshot => Outcome::Snapshot(self.snapshot_the_lock_state()),
            Command::Close => {
                self.closed = true;
                Outcome::Closed
            }
            Command::Reclaim(reclaim) => self.reclaim(now, &reclaim, fresh.request)?,
            Command::Break(hold) => self.break_hold(now, &hold).unwrap_or_else(Outcome::Refused),
            Command::EndRecovery => Outcome::RecoveryEnded { was: self.end_recovery() },
            Command::Claim(_)
            | Command::RenewClaim { .. }
            | Command::ReleaseClaim { .. }
            | Command::Finalize { .. }
            | Command::Unassign { .. } => self.handle_claim(now, command).unwrap_or_else(Outcome::Refused),
            Command::OpenOwner(_)
            | Command::Touch { .. }
            | Command::EndOwner { .. }
            | Command::Lock(_)
            | Command::Unlock { .. }
            | Command::Undo { .. } => self.handle_owner(now, command).unwrap_or_else(Outcome::Refused),
        })
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn agents(&self) -> Vec<AgentId> {
        self.agents.iter().map(|agent| agent.id).collect()
    }

    pub fn held(&self) -> Vec<(RequestId, FencingToken)> {
        self.held.iter().map(|lock| (lock.request.id, lock.token)).collect()
    }

    pub fn pending(&self) -> Vec<RequestId> {
        self.queue_map.values().flatten().map(|request| request.id).collect()
    }

    pub fn last_token(&self) -> u64 {
        self.last_token
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The name that the request waits for.
    pub fn waits_for(&self, request: RequestId) -> Option<NameBuf> {
        let mut pending = self.queue_map.values().flatten();
        pending.find(|other| other.id == request).map(|request| request.name.clone())
    }

    /// Removes the agent and nothing else.
    pub fn forget(&mut self, agent: AgentId) {
        self.agents.retain(|other| other.id != agent);
    }

    /// The number of requests, locks and claims.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.pending().len() + self.rows.len() + self.claims.len()
    }

    /// The requests and locks of the agent, oldest request first.
    pub fn requests_of(&self, agent: AgentId) -> Vec<RequestId> {
        let held = self.held.iter().map(|lock| &lock.request);
        let all = held.chain(self.queue_map.values().flatten());
        let mut own: Vec<&Request> = all.filter(|request| request.agent == agent).collect();
        own.sort_by_key(|request| request.born);
        own.into_iter().map(|request| request.id).collect()
    }

    /// The number of names under which something is held or queued.
    pub(super) fn names(&self) -> usize {
        let mut names: Vec<&NameBuf> = self.held.iter().map(|lock| &lock.request.name).collect();
        names.extend(self.queue_map.iter().filter(|(_, queue)| !queue.is_empty()).map(|(name, _)| name));
        names.extend(self.rows.iter().map(|row| &row.name).chain(self.claims.keys()));
        names.sort();
        names.dedup();
        names.len()
    }

    /// The number of requests, locks and claims.
    pub(super) fn entries(&self) -> usize {
        let queued = self.queue_map.values().flatten().count();
        self.held.len() + queued + self.rows.len() + self.claims.len()
    }

    /// Section 4.1, "request a lock"
    fn request_a_lock(
        &mut self,
        now: Instant,
        new: &NewRequest<'_>,
        fresh: Option<RequestId>,
    ) -> Result<Outcome, Unnamed> {
        // Only whether there are too many names depends on what makes way.
        let is_of_names = |refusal: &Refusal| matches!(refusal, Refusal::TooManyNames { .. });
        let mut refusal = self.out_of_bounds(new);
        if refusal.as_ref().is_none_or(is_of_names) && new.acquire != Acquire::Steal {
            let mut may_end = self.most_in_the_way();
            self.catch_up(now, new.name, new.acquire.mode(), None, &mut may_end);
            refusal = self.out_of_bounds(new);
        }
        if let Some(refusal) = refusal {
            return Ok(Outcome::Refused(refusal));
        }
        let (steal, if_available) =
            (new.acquire == Acquire::Steal, matches!(new.acquire, Acquire::IfAvailable(_)));
        let name = new.name.to_buf();
        // 3.2: queue is the result of getting the lock request queue for name.
        self.get_the_queue(&name);
        // 3.5.1 is tested before step 1, since a request that is refused needs no identity.
        let may_wait = !if_available || self.recovery.is_some();
        if !may_wait && !self.is_grantable(None, &name, new.acquire.mode()) {
            return Ok(Outcome::Refused(self.unavailable(&name)));
        }
        // 1: request is a new lock request. (2: signals belong to the client.)
        let request = self.new_request(now, new, fresh.ok_or(Unnamed)?);
        let id = request.id;
        if steal {
            // 3.4.1: for each lock of held, if its name is name: remove it, reject its released promise with
            // AbortError.
            self.remove_stolen(now, &name);
            // 3.4.2: prepend request in queue.
            self.get_the_queue(&name).insert(0, request);
        } else {
            // 3.5.2: enqueue request in queue.
            self.get_the_queue(&name).push(request);
        }
        // 3.6: process the lock request queue.
        self.grant_all_grantable(now, &name);
        // 4: return request. Its own grant is the answer, so it is no effect.
        Ok(match self.take_own_grant(id) {
            Some(grant) => Outcome::Granted(grant),
            None => Outcome::Queued(id),
        })
    }

    /// Offline locks and claims are held, too; all that is held goes in the order in which it came to be so.
    fn remove_stolen(&mut self, now: Instant, name: &NameBuf) {
        let mut stolen: Vec<(u64, Effect)> = Vec::new();
        for lock in self.held.extract_if(.., |lock| lock.request.name == *name) {
            let Request { agent, id: request, name, .. } = lock.request;
            let loss = Box::new(LockLoss { name, reason: LossReason::Stolen });
            stolen.push((lock.born, Effect::Lost { agent, request, loss }));
        }
        stolen.extend(self.remove_stolen_rows(now, name));
        stolen.extend(self.remove_stolen_claim(now, name));
        stolen.sort_by_key(|(born, _)| *born);
        self.effects.extend(stolen.into_iter().map(|(_, effect)| effect));
        self.note_steal(name);
    }

    /// Section 2.5, "get the lock request queue"
    fn get_the_queue(&mut self, name: &NameBuf) -> &mut Vec<Request> {
        // 1: if queueMap[name] does not exist, set it to a new empty queue. 2: return it.
        self.queue_map.entry(name.clone()).or_default()
    }

    /// Section 2.5, "grantable"; a `request` of `None` stands outside the queue.
    fn is_grantable(&self, request: Option<RequestId>, name: &NameBuf, mode: Mode) -> bool {
        // An extension: a closed manager grants nothing.
        if self.closed {
            return false;
        }
        // 1 to 6: manager, queueMap, name, queue, held, mode.
        let first = self.queue_map.get(name).and_then(|queue| queue.first());
        // An extension: while it recovers, it grants nothing but a steal.
        if self.recovery.is_some() && !first.is_some_and(|first| first.steal && Some(first.id) == request) {
            return false;
        }
        // 7: if queue is not empty and request is not the first item in queue, return false.
        if first.is_some() && first.map(|first| first.id) != request {
            return false;
        }
        let of_that_name = self.held_modes(name);
        match mode {
            // 8: true if no lock in held has that name.
            Mode::Exclusive => of_that_name.is_empty(),
            // 9: true if no lock in held is exclusive and has that name.
            Mode::Shared => !of_that_name.contains(&Mode::Exclusive),
        }
    }

    /// The modes in which the name is held: by web locks, offline locks and a claim, which is always
    /// exclusive.
    fn held_modes(&self, name: &NameBuf) -> Vec<Mode> {
        let locks = self.held.iter().filter(|lock| lock.request.name == *name).map(|lock| lock.request.mode);
        let rows = self.rows.iter().filter(|row| row.name == *name).map(|row| row.mode);
        locks.chain(rows).chain(self.claims.get(name).map(|_| Mode::Exclusive)).collect()
    }

    /// Section 4.2, "release the lock"
    fn release_the_lock(&mut self, now: Instant, at: usize) {
        // 2 to 5: manager, queueMap, name, queue. 6: remove lock from the held set.
        let lock = self.held.remove(at);
        // 7: process the lock request queue.
        self.process_the_lock_request_queue(now, &lock.request.name);
    }

    pub fn release_by_id(&mut self, now: Instant, request: RequestId) -> bool {
        let at = self.held.iter().position(|lock| lock.request.id == request);
        at.map(|at| self.release_the_lock(now, at)).is_some()
    }

    /// Section 4.3, "abort the request"
    fn abort_the_request(&mut self, now: Instant, name: &NameBuf, request: RequestId) {
        // 2 to 5: manager, name, queueMap, queue. 6: remove request from queue.
        self.get_the_queue(name).retain(|other| other.id != request);
        // 7: process the lock request queue.
        self.process_the_lock_request_queue(now, name);
    }

    pub fn abort_by_id(&mut self, now: Instant, request: RequestId) -> bool {
        let found = self.queue_map.values().flatten().find(|other| other.id == request);
        let name = found.map(|request| request.name.clone());
        name.map(|name| self.abort_the_request(now, &name, request)).is_some()
    }

    /// Section 4.4, "process the lock request queue"; after a recovery, as if its requests came only now
    fn process_the_lock_request_queue(&mut self, now: Instant, name: &NameBuf) {
        if self.unsettled {
            self.settle_name(now, name.as_name());
        } else {
            self.grant_all_grantable(now, name);
        }
    }

    fn grant_all_grantable(&mut self, now: Instant, name: &NameBuf) {
        // 2: for each request of queue. Each grant takes the first one away, so the next one is first then.
        while let Some(request) = self.get_the_queue(name).first().cloned() {
            // 2.1: if request is not grantable, return.
            if !self.is_grantable(Some(request.id), name, request.mode) {
                return;
            }
            // 2.2: remove request from queue.
            self.get_the_queue(name).remove(0);
            // 2.3 to 2.12: lock is a new lock with the request's agent, clientId, manager, mode, name and
            // promise.
            let token = FencingToken::new(self.next_number());
            self.grant(now, request, token);
        }
    }

    fn grant(&mut self, now: Instant, request: Request, token: FencingToken) {
        let (agent, grant) = (request.agent, Grant { request: request.id, token });
        let expires = request.max_hold_ms.map(|ms| self.came.plus_millis(ms));
        let born = self.birth();
        // 2.13: append lock to the held set.
        self.held.push(Lock { request, token, since: now, expires, born });
        // 2.14: notify the agent of the request.
        self.effects.push(Effect::Granted { agent, grant });
    }

    /// Tokens and owners are numbered by one count. Numbers are reserved 2^20 at a time, while 2^19 are left.
    fn next_number(&mut self) -> u64 {
        self.last_token += 1;
        let left = self.reserved.saturating_sub(self.last_token);
        let up_to = (self.last_token + (1 << 20)).min((1 << 53) - 1);
        if left < 1 << 19 && up_to > self.reserved {
            self.reserved = up_to;
            self.change(Change::TokensReserved { up_to });
        }
        self.last_token
    }

    fn change(&mut self, change: Change) {
        self.effects.push(Effect::Change(Box::new(change)));
    }

    fn birth(&mut self) -> u64 {
        self.births += 1;
        self.births
    }

    /// Section 2.6, "terminate remaining locks and requests"
    ///
    /// Steps 1 and 2 of the algorithm, without processing a queue in between, so that the agent's own
    /// requests are not granted for an instant when several are for one name. The queues are processed
    /// afterwards; the end result is the same.
    pub fn end(&mut self, now: Instant, agent: AgentId) -> bool {
        let alive = self.agents.iter().any(|other| other.id == agent);
        let mut touched = Vec::new();
        self.remove_all_of(agent, &mut touched);
        self.process_all(now, &touched);
        alive
    }

    /// The agent goes with all that is its own, oldest request first.
    fn remove_all_of(&mut self, agent: AgentId, touched: &mut Vec<NameBuf>) {
        let mut gone: Vec<Request> = Vec::new();
        for queue in self.queue_map.values_mut() {
            gone.extend(queue.extract_if(.., |request| request.agent == agent));
        }
        gone.extend(self.held.extract_if(.., |lock| lock.request.agent == agent).map(|lock| lock.request));
        gone.sort_by_key(|request| request.born);
        gone.iter().for_each(|request| touch(touched, &request.name));
        self.agents.retain(|other| other.id != agent);
    }

    fn process_all(&mut self, now: Instant, names: &[NameBuf]) {
        for name in names {
            self.process_the_lock_request_queue(now, name);
        }
    }

    /// Section 4.5, "snapshot the lock state"
    fn snapshot_the_lock_state(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        // 2: pending is a new list. 3: for each queue of the map's values, 3.1: for each request of queue,
        // append it.
        for queue in self.queue_map.values() {
            for (place, request) in (1..).zip(queue) {
                snapshot.pending.push(entry(request, LockState::Pending { place }, request.made, None));
            }
        }
        // 4: held is a new list. 5: for each lock of the held set, append it. 6: that is all.
        for lock in &self.held {
            snapshot.held.push(entry(&lock.request, LockState::Held(lock.token), lock.since, lock.expires));
        }
        for row in self.rows.iter().filter(|row| row.voided.is_none()) {
            snapshot.held.push(held_entry(&row.name, row.token, self.row_holder(row)));
        }
        for (name, claim) in &self.claims {
            snapshot.held.push(held_entry(name, claim.token, claim.holder()));
        }
        snapshot
    }

    /// The first bound that the request exceeds.
    fn out_of_bounds(&self, new: &NewRequest<'_>) -> Option<Refusal> {
        let limits = self.limits;
        if !self.agents.iter().any(|agent| agent.id == new.agent) {
            return Some(Refusal::UnknownAgent);
        }
        let own = self.held.iter().filter(|lock| lock.request.agent == new.agent).count()
            + self.queue_map.values().flatten().filter(|request| request.agent == new.agent).count();
        if own >= limits.requests_per_agent as usize {
            return Some(Refusal::TooManyRequests { limit: limits.requests_per_agent });
        }
        if self.entries() >= limits.entries as usize {
            return Some(Refusal::TooManyEntries { limit: limits.entries });
        }
        let units = new.name.units().count();
        if units > limits.name_units {
            return Some(Refusal::NameTooLong { units, limit: limits.name_units });
        }
        let bytes = new.metadata.map_or(0, str::len);
        if bytes > limits.metadata_bytes {
            return Some(Refusal::MetadataTooLong { bytes, limit: limits.metadata_bytes });
        }
        // A closed manager lets requests wait, for ever, and refuses those that do not.
        if self.closed && !matches!(new.acquire, Acquire::Wait(_)) {
            return Some(Refusal::Closed);
        }
        if !self.is_known(new.name) && self.names() >= limits.names as usize {
            return Some(Refusal::TooManyNames { limit: limits.names });
        }
        None
    }

    fn is_known(&self, name: Name<'_>) -> bool {
        self.held.iter().any(|lock| lock.request.name.as_name() == name)
            || self.queue_map.values().flatten().any(|request| request.name.as_name() == name)
            || self.rows.iter().any(|row| row.name.as_name() == name)
            || self.claims.keys().any(|claimed| claimed.as_name() == name)
    }

    fn new_request(&mut self, now: Instant, new: &NewRequest<'_>, id: RequestId) -> Request {
        let agent = self.agents.iter().find(|agent| agent.id == new.agent);
        let client_id = agent.map(|agent| agent.client_id.clone()).unwrap_or_default();
        Request {
            id,
            born: self.birth(),
            made: now,
            agent: new.agent,
            client_id,
            name: new.name.to_buf(),
            mode: new.acquire.mode(),
            metadata: new.metadata.map(str::to_owned),
            max_hold_ms: new.max_hold_ms,
            steal: new.acquire == Acquire::Steal,
            if_available: matches!(new.acquire, Acquire::IfAvailable(_)),
        }
    }

    fn take_own_grant(&mut self, id: RequestId) -> Option<Grant> {
        let is_own = |effect: &Effect| matches!(effect, Effect::Granted { grant, .. } if grant.request == id);
        match self.effects.remove(self.effects.iter().position(is_own)?) {
            Effect::Granted { grant, .. } => Some(grant),
            _ => None,
        }
    }

    fn unavailable(&self, name: &NameBuf) -> Refusal {
        Refusal::Unavailable { holders: self.holders(name, None), queued: self.queued(name) }
    }

    /// The first holders of the name in any way, in the order of their grants, other than that owner.
    fn holders(&self, name: &NameBuf, except: Option<OwnerId>) -> Vec<Holder> {
        let mut all: Vec<(u64, Option<Holder>)> = Vec::new();
        let locks = self.held.iter().filter(|lock| lock.request.name == *name);
        all.extend(locks.map(|lock| (lock.born, Some(lock_holder(lock)))));
        let shown = |row: &Row| row.voided.is_none() && Some(row.owner) != except;
        let others = self.rows.iter().filter(|row| row.name == *name);
        all.extend(others.map(|row| (row.born, shown(row).then(|| self.row_holder(row)))));
        all.extend(self.claims.get(name).map(|claim| (claim.born, Some(claim.holder()))));
        all.sort_by_key(|(born, _)| *born);
        // The first 64 are looked at.
        all.into_iter().take(64).filter_map(|(_, holder)| holder).take(Refusal::HOLDERS_SHOWN).collect()
    }

    fn queued(&self, name: &NameBuf) -> u32 {
        u32::try_from(self.queue_map.get(name).map_or(0, Vec::len)).unwrap_or(u32::MAX)
    }
}

fn touch(touched: &mut Vec<NameBuf>, name: &NameBuf) {
    if !touched.contains(name) {
        touched.push(name.clone());
    }
}

fn lock_holder(lock: &Lock) -> Holder {
    Holder {
        party: Party::Agent(lock.request.agent),
        label: lock.request.client_id.clone(),
        mode: lock.request.mode,
        since: lock.since,
        expires: lock.expires,
        metadata: lock.request.metadata.clone(),
    }
}
