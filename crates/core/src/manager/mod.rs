//! The lock manager: commands in, outcomes and effects out.

mod agents;
mod algorithms;
mod arena;
mod deadlines;
mod list;
mod table;

use std::collections::VecDeque;
use std::hash::BuildHasher;

use arena::KEPT;
use deadlines::Deadlines;
use list::ByName;
use table::{Entry, Table};

use crate::{
    AgentId, Command, Effect, FencingToken, Holder, Instant, Limits, Outcome, RequestId, Snapshot, State,
};

/// The lock manager of one storage bucket. <https://w3c.github.io/web-locks/#lock-manager>
///
/// `S` hashes resource names; where names come from strangers, seed it randomly. Outcomes and effects do not depend on it.
///
/// # Invariants
///
/// 1. The held set of a name is empty, or one exclusive lock, or shared locks only (`algorithms::is_grantable` is the only way in).
/// 2. After every command the head of each queue is not grantable, unless the manager is closed.
/// 3. A name is in the index exactly if something of it is held or queued.
/// 4. Every entry is in the list of its party, and in exactly one of the queue and the held set of its name.
/// 5. Tokens strictly grow in the order of the grants.
#[derive(Debug)]
pub struct LockManager<S> {
    table: Table<S>,
    deadlines: Deadlines,
    effects: VecDeque<Effect>,
    limits: Limits,
    last_token: u64,
    closed: bool,
    /// Names whose queues wait to be processed; empty between commands.
    touched: Vec<u32>,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In its queue.
    Pending,
    /// Granted, and held still.
    Held(FencingToken),
    /// Refused, aborted, released, lost, or of an agent that has ended.
    Ended,
}

impl<S: BuildHasher> LockManager<S> {
    /// An empty manager with the default bounds.
    pub fn new(hasher: S) -> Self {
        Self::with_limits(hasher, Limits::DEFAULT)
    }

    /// An empty manager with bounds of one's own.
    pub fn with_limits(hasher: S, limits: Limits) -> Self {
        Self {
            table: Table::new(hasher),
            deadlines: Deadlines::default(),
            effects: VecDeque::new(),
            limits,
            last_token: 0,
            closed: false,
            touched: Vec::new(),
        }
    }

    /// From now on gives only tokens above `mark`: for a bucket that existed before.
    ///
    /// # Panics
    ///
    /// If `mark` is not below 2^53 - 1: no token would be left.
    pub fn continue_tokens_above(&mut self, mark: u64) {
        assert!(mark < FencingToken::LIMIT - 1, "no token is left above {mark}");
        self.last_token = self.last_token.max(mark);
    }

    /// Carries out a command, wholly, and tells its outcome. What it meant for others waits in
    /// [`poll_effect`](Self::poll_effect). `now` must not be earlier than at any call before.
    #[inline]
    pub fn handle(&mut self, now: Instant, command: Command<'_>) -> Outcome {
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
            Command::Close => {
                self.closed = true;
                Outcome::Closed
            }
        }
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
    pub fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Ends the agents and locks whose time has come: whatever ends at or before `now`.
    ///
    /// First all of them end, in the order of their deadlines, then the queues of the names they leave are processed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(due) = self.deadlines.pop_due(now) {
            self.expire(due);
        }
        self.process_touched(now);
    }

    /// Where the request stands.
    #[inline]
    pub fn standing(&self, request: RequestId) -> Standing {
        match self.table.entry(request).map(|entry| entry.token) {
            None => Standing::Ended,
            Some(None) => Standing::Pending,
            Some(Some(held)) => Standing::Held(held.token()),
        }
    }

    /// The requests and locks of the agent, oldest request first; none if it has ended.
    pub fn requests_of(&self, agent: AgentId) -> impl Iterator<Item = RequestId> + '_ {
        self.table.requests_of(agent)
    }

    /// The number of the last token given, 0 if none was.
    pub fn last_token(&self) -> u64 {
        self.last_token
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

    /// How many names have something held or queued.
    pub fn names(&self) -> usize {
        self.table.names.len()
    }

    /// <https://w3c.github.io/web-locks/#snapshot-the-lock-state>
    fn snapshot_the_lock_state(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for name in self.table.names.values() {
            for (place, slot) in (1..).zip(name.queue.iter::<ByName>(&self.table.entries)) {
                snapshot.pending.push(self.describe(slot, State::Pending { place }));
            }
            for slot in name.held.iter::<ByName>(&self.table.entries) {
                let held = self.table.entries[slot].token.expect("what is in the held set was granted");
                snapshot.held.push(self.describe(slot, State::Held(held.token())));
            }
        }
        snapshot
    }

    fn describe(&self, slot: u32, state: State) -> crate::Entry {
        let entry = &self.table.entries[slot];
        let holder = self.holder(entry);
        crate::Entry {
            name: self.table.names[entry.name].name.clone(),
            mode: entry.mode,
            agent: self.table.agent_of(entry),
            client_id: holder.client_id,
            state,
            since: entry.since,
            expires: holder.expires,
            metadata: holder.metadata,
        }
    }

    fn holder(&self, entry: &Entry) -> Holder {
        let extras = self.table.extras_of(entry);
        Holder {
            client_id: self.table.parties[entry.tenure.party()].client_id.to_string(),
            mode: entry.mode,
            since: entry.since,
            expires: extras.and_then(|extras| extras.expires),
            metadata: extras.and_then(|extras| extras.metadata.as_deref().map(str::to_owned)),
        }
    }
}
