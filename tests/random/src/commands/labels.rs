//! From labels to identities: the commands that steps stand for, and the identities in their outcomes.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, FencingToken, GrantToUndo, HoldToBreak, Instant, LockManager, Mode, Name,
    NameBuf, NewAgent, NewClaim, NewLocks, NewOwner, NewReclaim, NewRequest, Outcome, OwnedLock, OwnerId,
    RequestId, SecretSeed, Unlock,
};

use super::durable::{Durable, DurableView, Presented};
use super::step::{Action, Ask, FOREIGN, Label};
use super::world::View;

/// The buffers that a command with lists borrows from.
#[derive(Debug, Default)]
pub struct Lists<'a> {
    locks: Vec<(Name<'a>, Mode)>,
    these: Vec<(Name<'a>, Option<FencingToken>)>,
    spared: Vec<Name<'a>>,
    undone: Vec<GrantToUndo<'a>>,
    broken: Option<NameBuf>,
}

/// A number that no world reaches.
const FOREIGN_NUMBER: u64 = 1 << 52;
/// The number of the last locks and claims that commands refer to.
const RECENT: usize = 5;

/// The identities that a manager has given, by label; `None` if nothing came to be under it.
#[derive(Debug)]
pub struct Labels {
    agents: Vec<Option<AgentId>>,
    requests: Vec<Option<RequestId>>,
    agent_labels: BTreeMap<AgentId, Label>,
    request_labels: BTreeMap<RequestId, Label>,
    modes: BTreeMap<RequestId, Mode>,
    last_serial: u64,
    owners: Vec<Option<OwnerId>>,
    owner_labels: BTreeMap<OwnerId, Label>,
    locked: Vec<Option<Vec<OwnedLock>>>,
    claims: Vec<Option<FencingToken>>,
    // The state that the generator looks at.
    alive: Vec<Label>,
    held: Vec<Label>,
    pending: Vec<Label>,
    holds: Vec<(NameBuf, FencingToken)>,
    durable: DurableView,
}

/// The actors that are present, and the state of their things.
#[derive(Debug)]
pub struct Present {
    /// Living agents.
    pub agents: Vec<AgentId>,
    /// Requests that hold their lock.
    pub held: Vec<RequestId>,
    /// Requests that wait.
    pub pending: Vec<RequestId>,
    /// Owners.
    pub owners: Vec<OwnerId>,
    /// All that is held.
    pub holds: Vec<(NameBuf, FencingToken)>,
    /// Whether the manager recovers.
    pub recovering: bool,
}

impl Labels {
    /// The labels of a fresh manager, and the agent and the request of another one.
    pub fn new(foreign: (AgentId, RequestId)) -> Self {
        Self {
            agents: vec![Some(foreign.0)],
            requests: vec![Some(foreign.1)],
            agent_labels: BTreeMap::from([(foreign.0, FOREIGN)]),
            request_labels: BTreeMap::from([(foreign.1, FOREIGN)]),
            modes: BTreeMap::new(),
            last_serial: 0,
            owners: vec![Some(OwnerId::new(FOREIGN_NUMBER))],
            owner_labels: BTreeMap::from([(OwnerId::new(FOREIGN_NUMBER), FOREIGN)]),
            locked: vec![Some(Vec::new())],
            claims: vec![Some(FencingToken::new(FOREIGN_NUMBER))],
            alive: Vec::new(),
            held: Vec::new(),
            pending: Vec::new(),
            holds: Vec::new(),
            durable: DurableView { next_owner: 1, next_lock: 1, next_claim: 1, ..DurableView::default() },
        }
    }

    /// The things that the next command may refer to.
    pub fn view(&self, now: Instant, next_due: Option<Instant>) -> View<'_> {
        View {
            now_ms: now.as_millis(),
            alive: &self.alive,
            held: &self.held,
            pending: &self.pending,
            next_due_ms: next_due.map(Instant::as_millis),
            next_agent: self.agents.len(),
            next_request: self.requests.len(),
            durable: &self.durable,
        }
    }

    /// Takes note of what there is after a step.
    pub fn look(&mut self, present: &Present) {
        self.alive = present.agents.iter().map(|id| self.agent_labels[id]).collect();
        self.held = present.held.iter().map(|id| self.request_labels[id]).collect();
        self.pending = present.pending.iter().map(|id| self.request_labels[id]).collect();
        self.holds.clone_from(&present.holds);
        self.durable.owners = present.owners.iter().map(|id| self.owner_labels[id]).collect();
        self.durable.next_owner = self.owners.len();
        self.durable.next_lock = self.locked.len();
        self.durable.next_claim = self.claims.len();
        self.durable.recovering = present.recovering;
    }

    /// Every agent since the last restart, and the one of another manager.
    pub fn agents(&self) -> impl Iterator<Item = AgentId> {
        self.agents.iter().copied().flatten()
    }

    /// Every request since the last restart, and the one of another manager.
    pub fn requests(&self) -> impl Iterator<Item = RequestId> {
        self.requests.iter().copied().flatten()
    }

    /// The mode of a request.
    pub fn mode_of(&self, request: RequestId) -> Option<Mode> {
        self.modes.get(&request).copied()
    }

    /// The manager was replaced by one that has what was durable, and gives tokens above that one.
    pub fn restart(&mut self, last_token: u64) {
        self.agents.iter_mut().skip(1).for_each(|agent| *agent = None);
        self.requests.iter_mut().skip(1).for_each(|request| *request = None);
        self.agent_labels.retain(|_, label| *label == FOREIGN);
        self.request_labels.retain(|_, label| *label == FOREIGN);
        self.modes.clear();
        self.last_serial = 0;
        self.durable.before = last_token;
    }

    /// The command with identities in place of labels; `None` if a label stands for nothing.
    pub fn command<'a>(&self, action: &'a Action, lists: &'a mut Lists<'a>) -> Option<Command<'a>> {
        let agent = |label: &Label| self.agents.get(*label).copied().flatten();
        let request = |label: &Label| self.requests.get(*label).copied().flatten();
        Some(match action {
            Action::Join { client_id, lease_ms, .. } => {
                Command::Join(NewAgent { client_id, lease_ms: *lease_ms })
            }
            Action::Request(ask) => Command::Request(NewRequest {
                agent: agent(&ask.agent)?,
                name: ask.name.as_name(),
                acquire: ask.acquire,
                metadata: ask.metadata.as_deref(),
                max_hold_ms: ask.max_hold_ms,
            }),
            Action::Abort { request: label } => Command::Abort { request: request(label)? },
            Action::Release { request: label } => Command::Release { request: request(label)? },
            Action::Renew { agent: label } => Command::Renew { agent: agent(label)? },
            Action::End { agent: label } => Command::End { agent: agent(label)? },
            Action::Snapshot => Command::Snapshot,
            Action::Close => Command::Close,
            Action::Durable(action) => return self.durable_command(action, lists),
            Action::Timeout => return None,
        })
    }

    fn durable_command<'a>(&self, action: &'a Durable, lists: &'a mut Lists<'a>) -> Option<Command<'a>> {
        let owner = |label: &Label| self.owners.get(*label).copied().flatten();
        let token = |label: &Option<Label>| match label {
            None => Some(None),
            Some(label) => self.claims.get(*label).copied().flatten().map(Some),
        };
        let locked = |label: &Label| self.locked.get(*label).cloned().flatten();
        Some(match action {
            Durable::Open { owner, label, metadata, ttl_ms, max_ms } => Command::OpenOwner(NewOwner {
                label,
                metadata: metadata.as_deref(),
                ttl_ms: *ttl_ms,
                max_ms: *max_ms,
                // Some owners share one, as drawn seeds may.
                seed: SecretSeed(*owner as u64 % 8),
            }),
            Durable::Touch { owner: label } => Command::Touch { owner: owner(label)? },
            Durable::EndOwner { owner: label } => Command::EndOwner { owner: owner(label)? },
            Durable::Lock { owner: label, locks, metadata, .. } => {
                lists.locks = locks.iter().map(|(name, mode)| (name.as_name(), *mode)).collect();
                let metadata = metadata.as_deref();
                Command::Lock(NewLocks { owner: owner(label)?, locks: &lists.locks, metadata })
            }
            Durable::Unlock { owner: label, lock, names, by_token } => {
                let tokens: Vec<_> = if *by_token {
                    locked(lock)?.into_iter().map(|lock| Some(lock.token)).collect()
                } else {
                    vec![None; names.len()]
                };
                lists.these = names.iter().map(NameBuf::as_name).zip(tokens).collect();
                Command::Unlock { owner: owner(label)?, locks: Unlock::These(&lists.these) }
            }
            Durable::UnlockAllBut { owner: label, spared } => {
                lists.spared = spared.iter().map(NameBuf::as_name).collect();
                Command::Unlock { owner: owner(label)?, locks: Unlock::AllBut(&lists.spared) }
            }
            Durable::Undo { owner: label, lock, names, again } => {
                let acquired = names.iter().zip(locked(lock)?);
                lists.undone = acquired
                    .map(|(name, OwnedLock { token, how, .. })| GrantToUndo {
                        name: name.as_name(),
                        token,
                        how,
                        repeats: *again,
                    })
                    .collect();
                Command::Undo { owner: owner(label)?, locks: &lists.undone }
            }
            Durable::Claim { claim, name, claimant, ttl_ms, metadata } => Command::Claim(NewClaim {
                name: name.as_name(),
                claimant,
                ttl_ms: *ttl_ms,
                seed: SecretSeed(*claim as u64),
                metadata: metadata.as_deref(),
            }),
            Durable::Present { what, name, token: label } => {
                let (name, token) = (name.as_name(), token(label)?);
                match what {
                    Presented::Renew => Command::RenewClaim { name, token },
                    Presented::GiveBack => Command::ReleaseClaim { name, token },
                    Presented::Finalize => Command::Finalize { name, token },
                    Presented::Unassign => Command::Unassign { name, token },
                }
            }
            Durable::Reclaim { ask, token } => Command::Reclaim(NewReclaim {
                agent: self.agents.get(ask.agent).copied().flatten()?,
                name: ask.name.as_name(),
                mode: ask.acquire.mode(),
                token: FencingToken::new(*token),
                metadata: ask.metadata.as_deref(),
                max_hold_ms: ask.max_hold_ms,
            }),
            Durable::EndRecovery => Command::EndRecovery,
            Durable::Break { place, reason } => {
                let gone = |(name, _): &(NameBuf, _)| (name.clone(), FencingToken::new(FOREIGN_NUMBER));
                let hold = self.holds.get(*place).cloned().or_else(|| self.holds.first().map(gone));
                let (name, token) = hold?;
                let name = lists.broken.insert(name).as_name();
                Command::Break(HoldToBreak { name, token, operator: "ops", reason: reason.as_deref() })
            }
            Durable::Restart { .. } => return None,
        })
    }

    /// Remembers new identities, which must be new indeed.
    ///
    /// # Errors
    ///
    /// One was given before; in words.
    pub fn learn(&mut self, action: &Action, outcome: &Outcome) -> Result<(), String> {
        match action {
            Action::Join { agent: label, .. } => {
                let agent = if let Outcome::Joined(agent) = outcome { Some(*agent) } else { None };
                put(&mut self.agents, *label, agent);
                if let Some(id) = agent
                    && self.agent_labels.insert(id, *label).is_some()
                {
                    return Err(format!("the agent id {id:?} was given before"));
                }
            }
            Action::Request(ask) | Action::Durable(Durable::Reclaim { ask, .. }) => {
                self.learn_request(ask, requested(outcome))?;
            }
            Action::Durable(action) => self.learn_durable(action, outcome)?,
            _ => {}
        }
        Ok(())
    }

    fn learn_request(&mut self, ask: &Ask, request: Option<RequestId>) -> Result<(), String> {
        put(&mut self.requests, ask.request, request);
        let Some(id) = request else { return Ok(()) };
        self.modes.insert(id, ask.acquire.mode());
        if self.request_labels.insert(id, ask.request).is_some() || id.serial() <= self.last_serial {
            return Err(format!("the request id {id:?} is not younger than those given before"));
        }
        self.last_serial = id.serial();
        Ok(())
    }

    fn learn_durable(&mut self, action: &Durable, outcome: &Outcome) -> Result<(), String> {
        match (action, outcome) {
            (Durable::Open { owner: label, .. }, outcome) => {
                let owner = if let Outcome::OwnerOpened(owner) = outcome { Some(*owner) } else { None };
                put(&mut self.owners, *label, owner);
                if let Some(owner) = owner
                    && self.owner_labels.insert(owner, *label).is_some()
                {
                    return Err(format!("the owner number {owner} was given before"));
                }
            }
            (Durable::Lock { lock, owner, locks, .. }, outcome) => {
                let granted =
                    if let Outcome::Locked(granted) = outcome { Some(granted.clone()) } else { None };
                if granted.is_some() {
                    let names = locks.iter().map(|(name, _)| name.clone()).collect();
                    remember(&mut self.durable.locked, (*lock, *owner, names));
                }
                put(&mut self.locked, *lock, granted);
            }
            (Durable::Claim { claim, name, .. }, outcome) => {
                let token = if let Outcome::Claimed(grant) = outcome { Some(grant.token) } else { None };
                if token.is_some() {
                    remember(&mut self.durable.claimed, (*claim, name.clone()));
                }
                put(&mut self.claims, *claim, token);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The new request in an outcome, if there is one.
fn requested(outcome: &Outcome) -> Option<RequestId> {
    match outcome {
        Outcome::Granted(grant) => Some(grant.request),
        Outcome::Queued(request) => Some(*request),
        _ => None,
    }
}

fn remember<T>(recent: &mut Vec<T>, value: T) {
    recent.push(value);
    if recent.len() > RECENT {
        recent.remove(0);
    }
}

fn put<T: Clone>(table: &mut Vec<Option<T>>, label: Label, value: Option<T>) {
    if table.len() <= label {
        table.resize(label + 1, None);
    }
    table[label] = value;
}

/// An agent and a request of another manager, younger than any that a world here comes to.
///
/// # Panics
///
/// If a fresh manager refuses its first agent or its request.
pub fn foreign() -> (AgentId, RequestId) {
    let mut other = LockManager::new(FixedState::default());
    let now = Instant::default();
    for _ in 0..100_000 {
        if let Outcome::Joined(agent) = other.handle(now, Command::Join(NewAgent::new("passer-by"))) {
            other.handle(now, Command::End { agent });
        }
    }
    let Outcome::Joined(agent) = other.handle(now, Command::Join(NewAgent::new("stranger"))) else {
        panic!("a fresh manager takes no agent");
    };
    let ask =
        NewRequest::new(agent, Name::new("elsewhere").expect("no hyphen"), Acquire::Wait(Mode::Exclusive));
    let Outcome::Granted(grant) = other.handle(now, Command::Request(ask)) else {
        panic!("a fresh manager grants nothing");
    };
    (agent, grant.request)
}
