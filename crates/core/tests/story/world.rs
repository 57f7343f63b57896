//! One manager and the labels of its agents, requests and owners.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use lockhouse_core::{
    AgentId, Change, Command, Effect, FencingToken, GrantToUndo, HoldToBreak, Instant, Limits, LockManager,
    Mode, Name, NameBuf, NewAgent, NewClaim, NewLocks, NewOwner, NewReclaim, NewRequest, Outcome, OwnerId,
    RequestId, RequestStatus, SecretSeed, Unlock,
};

use super::parse::{self, Ask, Units};
use super::text;

pub(super) struct World {
    manager: LockManager<FixedState>,
    limits: Limits,
    now: Instant,
    pub(super) agents: BTreeMap<String, AgentId>,
    pub(super) requests: BTreeMap<String, RequestId>,
    owners: BTreeMap<String, OwnerId>,
    /// All changes that the manager reported.
    stored: Vec<Change>,
    show_reservations: bool,
}

type Lines = Result<Vec<String>, String>;

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            manager: LockManager::with_limits(FixedState::default(), limits),
            limits,
            now: Instant::default(),
            agents: BTreeMap::new(),
            requests: BTreeMap::new(),
            owners: BTreeMap::new(),
            stored: Vec::new(),
            show_reservations: false,
        }
    }

    /// Carries out one command and returns its results: its outcome, then its effects.
    pub(super) fn play(&mut self, command: &parse::Command) -> Lines {
        let mut lines = self.outcome(command)?;
        while let Some(effect) = self.manager.poll_effect() {
            if !is_reservation(&effect) || self.show_reservations {
                lines.push(self.effect(&effect));
            }
            if let Effect::Change(change) = effect {
                self.stored.push(*change);
            }
        }
        Ok(lines)
    }

    fn outcome(&mut self, command: &parse::Command) -> Lines {
        match command {
            parse::Command::Join { agent, client_id, lease_ms } => {
                let outcome = self.handle(Command::Join(NewAgent { client_id, lease_ms: *lease_ms }));
                let Outcome::Joined(id) = outcome else { return Ok(self.describe(outcome)) };
                self.agents.insert(agent.clone(), id);
                Ok(vec![])
            }
            parse::Command::Request(ask) => self.request(ask),
            parse::Command::Abort(label) => {
                let outcome = self.handle(Command::Abort { request: self.request_id(label)? });
                Ok(self.describe(outcome))
            }
            parse::Command::Release(label) => {
                let outcome = self.handle(Command::Release { request: self.request_id(label)? });
                Ok(self.describe(outcome))
            }
            parse::Command::Renew(agent) => {
                let outcome = self.handle(Command::Renew { agent: self.agent(agent)? });
                Ok(self.describe(outcome))
            }
            parse::Command::End(whom) => {
                let outcome = match self.owners.get(whom) {
                    Some(owner) => self.handle(Command::EndOwner { owner: *owner }),
                    None => self.handle(Command::End { agent: self.agent(whom)? }),
                };
                Ok(self.describe(outcome))
            }
            parse::Command::Snapshot => {
                let outcome = self.handle(Command::Snapshot);
                Ok(self.describe(outcome))
            }
            parse::Command::Close => {
                let outcome = self.handle(Command::Close);
                Ok(self.describe(outcome))
            }
            parse::Command::TokensAbove(mark) => {
                self.manager.continue_tokens_above(*mark);
                Ok(vec![])
            }
            parse::Command::Timeout => {
                self.manager.handle_timeout(self.now);
                Ok(vec![])
            }
            parse::Command::Sweep(most) => {
                let is_done = self.manager.sweep(self.now, *most);
                Ok(vec![if is_done { "all swept" } else { "more to sweep" }.to_owned()])
            }
            parse::Command::After(ms) => {
                self.now = self.now.plus_millis(*ms);
                Ok(vec![])
            }
            parse::Command::At(ms) => {
                let at = Instant::from_millis(*ms);
                if at < self.now {
                    return Err("time runs backwards".to_owned());
                }
                self.now = at;
                Ok(vec![])
            }
            parse::Command::Status(label) => Ok(vec![match self.manager.status(self.request_id(label)?) {
                RequestStatus::Pending => "pending".to_owned(),
                RequestStatus::Held(token) => format!("held, token {token}"),
                RequestStatus::Ended => "ended".to_owned(),
            }]),
            parse::Command::Alive(agent) => Ok(vec![
                if self.manager.is_alive(self.agent(agent)?) { "alive" } else { "not alive" }.to_owned(),
            ]),
            parse::Command::Wakes => Ok(vec![
                self.manager.next_timeout().map_or("never".to_owned(), |at| format!("at {}", text::time(at))),
            ]),
            parse::Command::Counts => {
                Ok(vec![format!("{} requests and locks, {} names", self.manager.len(), self.manager.names())])
            }
            command => self.durable(command),
        }
    }

    /// The commands of offline locks, claims and recovery.
    fn durable(&mut self, command: &parse::Command) -> Lines {
        let outcome = match command {
            parse::Command::Open { owner, label, ttl_ms, max_ms, metadata } => {
                let metadata = metadata.as_deref();
                let new = NewOwner { label, metadata, ttl_ms: *ttl_ms, max_ms: *max_ms, seed: SecretSeed(7) };
                let outcome = self.handle(Command::OpenOwner(new));
                if let Outcome::OwnerOpened(id) = outcome {
                    self.owners.insert(owner.clone(), id);
                }
                outcome
            }
            parse::Command::Touch(owner) => {
                let owner = self.owner(owner)?;
                self.handle(Command::Touch { owner })
            }
            parse::Command::Lock { owner, locks, metadata } => {
                let owner = self.owner(owner)?;
                let names = names(locks.iter().map(|(name, _)| name))?;
                let locks: Vec<(Name<'_>, Mode)> =
                    names.iter().zip(locks).map(|(name, (_, mode))| (name.as_name(), *mode)).collect();
                self.handle(Command::Lock(NewLocks { owner, locks: &locks, metadata: metadata.as_deref() }))
            }
            parse::Command::Unlock { owner, locks } => {
                let owner = self.owner(owner)?;
                let names = names(locks.iter().map(|(name, _)| name))?;
                let locks: Vec<(Name<'_>, Option<FencingToken>)> = names
                    .iter()
                    .zip(locks)
                    .map(|(name, (_, token))| (name.as_name(), fence(*token)))
                    .collect();
                self.handle(Command::Unlock { owner, locks: Unlock::These(&locks) })
            }
            parse::Command::UnlockAllBut { owner, spared } => {
                let owner = self.owner(owner)?;
                let names = names(spared)?;
                let spared: Vec<Name<'_>> = names.iter().map(NameBuf::as_name).collect();
                self.handle(Command::Unlock { owner, locks: Unlock::AllBut(&spared) })
            }
            parse::Command::Undo { owner, locks } => {
                let owner = self.owner(owner)?;
                let names = names(locks.iter().map(|lock| &lock.name))?;
                let acquisition = |(name, lock): (_, &parse::UndoneLock)| {
                    let (name, token) = (NameBuf::as_name(name), FencingToken::new(lock.token));
                    GrantToUndo { name, token, how: lock.how, repeats: lock.again }
                };
                let locks: Vec<_> = names.iter().zip(locks).map(acquisition).collect();
                self.handle(Command::Undo { owner, locks: &locks })
            }
            parse::Command::Claim { name, claimant, ttl_ms, metadata } => {
                let name = named(name)?;
                let (name, metadata) = (name.as_name(), metadata.as_deref());
                let new = NewClaim { name, claimant, ttl_ms: *ttl_ms, seed: SecretSeed(7), metadata };
                self.handle(Command::Claim(new))
            }
            parse::Command::RenewClaim(name, token) => {
                self.handle(Command::RenewClaim { name: named(name)?.as_name(), token: fence(*token) })
            }
            parse::Command::ReleaseClaim(name, token) => {
                self.handle(Command::ReleaseClaim { name: named(name)?.as_name(), token: fence(*token) })
            }
            parse::Command::Finalize(name, token) => {
                self.handle(Command::Finalize { name: named(name)?.as_name(), token: fence(*token) })
            }
            parse::Command::Unassign(name, token) => {
                self.handle(Command::Unassign { name: named(name)?.as_name(), token: fence(*token) })
            }
            parse::Command::Break { name, token, operator, reason } => {
                let (name, token) = (named(name)?, FencingToken::new(*token));
                let (name, reason) = (name.as_name(), reason.as_deref());
                self.handle(Command::Break(HoldToBreak { name, token, operator, reason }))
            }
            parse::Command::Reclaim { ask, token } => {
                let name = named(&ask.name)?;
                let outcome = self.handle(Command::Reclaim(NewReclaim {
                    agent: self.agent(&ask.agent)?,
                    name: name.as_name(),
                    mode: ask.acquire.mode(),
                    token: FencingToken::new(*token),
                    metadata: ask.metadata.as_deref(),
                    max_hold_ms: ask.max_hold_ms,
                }));
                self.remember(&ask.label, &outcome);
                outcome
            }
            parse::Command::EndRecovery => self.handle(Command::EndRecovery),
            command => return self.look(command),
        };
        Ok(self.describe(outcome))
    }

    /// The commands of a script that are no command of the manager.
    fn look(&mut self, command: &parse::Command) -> Lines {
        let manager = &self.manager;
        let lines: Vec<String> = match command {
            parse::Command::Owner(owner) => {
                manager.owner(self.owner(owner)?).iter().map(text::owner_view).collect()
            }
            parse::Command::Owners => manager.owners().map(|owner| text::owner_view(&owner)).collect(),
            parse::Command::LocksOf(owner) => {
                manager.locks_of(self.owner(owner)?).map(|lock| text::lock_record(&lock)).collect()
            }
            parse::Command::ClaimOf(name) => {
                manager.claim_of(named(name)?.as_name()).iter().map(text::claim_view).collect()
            }
            parse::Command::AssignmentOf(name) => {
                manager.assignment_of(named(name)?.as_name()).iter().map(text::assignment_view).collect()
            }
            parse::Command::Assignments => {
                manager.assignments().map(|view| text::assignment_view(&view)).collect()
            }
            parse::Command::Recovering => {
                vec![if manager.is_recovering() { "recovering" } else { "not recovering" }.to_owned()]
            }
            parse::Command::Recover(until) => {
                self.manager.begin_recovery(Instant::from_millis(*until));
                return Ok(vec![]);
            }
            parse::Command::ShowReservations => {
                self.show_reservations = true;
                vec![format!("reserved up to {}", manager.reserved_up_to())]
            }
            parse::Command::Restart => return self.restart(),
            _ => return Err("no such command".to_owned()),
        };
        Ok(if lines.is_empty() { vec!["none".to_owned()] } else { lines })
    }

    fn restart(&mut self) -> Lines {
        self.manager = LockManager::with_limits(FixedState::default(), self.limits);
        self.agents.clear();
        self.requests.clear();
        for change in &self.stored {
            self.manager.replay(self.now, change).map_err(|error| format!("{change:?}: {error}"))?;
        }
        Ok(vec![])
    }

    fn request(&mut self, ask: &Ask) -> Lines {
        let name = match NameBuf::from_units(&ask.name) {
            Ok(name) => name,
            Err(invalid) => return Ok(vec![format!("no name: {invalid}")]),
        };
        let outcome = self.handle(Command::Request(NewRequest {
            agent: self.agent(&ask.agent)?,
            name: name.as_name(),
            acquire: ask.acquire,
            metadata: ask.metadata.as_deref(),
            max_hold_ms: ask.max_hold_ms,
        }));
        self.remember(&ask.label, &outcome);
        Ok(self.describe(outcome))
    }

    fn remember(&mut self, label: &str, outcome: &Outcome) {
        if let Outcome::Granted(lockhouse_core::Grant { request, .. }) | Outcome::Queued(request) = outcome {
            self.requests.insert(label.to_owned(), *request);
        }
    }

    fn handle(&mut self, command: Command<'_>) -> Outcome {
        self.manager.handle(self.now, command)
    }

    fn agent(&self, label: &str) -> Result<AgentId, String> {
        self.agents.get(label).copied().ok_or_else(|| format!("no agent {label} has joined"))
    }

    fn owner(&self, label: &str) -> Result<OwnerId, String> {
        self.owners.get(label).copied().ok_or_else(|| format!("no owner {label} was opened"))
    }

    fn request_id(&self, label: &str) -> Result<RequestId, String> {
        self.requests.get(label).copied().ok_or_else(|| format!("no request {label} was made"))
    }
}

fn is_reservation(effect: &Effect) -> bool {
    matches!(effect, Effect::Change(change) if matches!(**change, Change::TokensReserved { .. }))
}

fn named(units: &Units) -> Result<NameBuf, String> {
    NameBuf::from_units(units).map_err(|invalid| invalid.to_string())
}

fn names<'a>(all: impl IntoIterator<Item = &'a Units>) -> Result<Vec<NameBuf>, String> {
    all.into_iter().map(named).collect()
}

fn fence(token: Option<u64>) -> Option<FencingToken> {
    token.map(FencingToken::new)
}
