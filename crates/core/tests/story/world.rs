//! One manager and the labels of what lives in it.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use lockhouse_core::{
    AgentId, Command, Effect, EndReason, Entry, Holder, Instant, Limits, LockManager, LossReason, Mode,
    NameBuf, NewAgent, NewRequest, Outcome, Refusal, RequestId, Snapshot, Standing, State,
};

use super::parse::{self, Ask};

pub(super) struct World {
    manager: LockManager<FixedState>,
    now: Instant,
    agents: BTreeMap<String, AgentId>,
    requests: BTreeMap<String, RequestId>,
}

type Told = Result<Vec<String>, String>;

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            manager: LockManager::with_limits(FixedState::default(), limits),
            now: Instant::default(),
            agents: BTreeMap::new(),
            requests: BTreeMap::new(),
        }
    }

    /// Carries out one command and tells what came of it: its outcome, then its effects.
    pub(super) fn play(&mut self, command: &parse::Command) -> Told {
        let mut told = self.outcome(command)?;
        while let Some(effect) = self.manager.poll_effect() {
            told.push(self.effect(effect));
        }
        Ok(told)
    }

    fn outcome(&mut self, command: &parse::Command) -> Told {
        match command {
            parse::Command::Join { agent, client_id, lease_ms } => {
                let outcome = self.handle(Command::Join(NewAgent { client_id, lease_ms: *lease_ms }));
                let Outcome::Joined(id) = outcome else { return Ok(self.tell(outcome)) };
                self.agents.insert(agent.clone(), id);
                Ok(vec![])
            }
            parse::Command::Request(ask) => self.request(ask),
            parse::Command::Abort(label) => {
                let outcome = self.handle(Command::Abort { request: self.request_id(label)? });
                Ok(self.tell(outcome))
            }
            parse::Command::Release(label) => {
                let outcome = self.handle(Command::Release { request: self.request_id(label)? });
                Ok(self.tell(outcome))
            }
            parse::Command::Renew(agent) => {
                let outcome = self.handle(Command::Renew { agent: self.agent(agent)? });
                Ok(self.tell(outcome))
            }
            parse::Command::End(agent) => {
                let outcome = self.handle(Command::End { agent: self.agent(agent)? });
                Ok(self.tell(outcome))
            }
            parse::Command::Snapshot => {
                let outcome = self.handle(Command::Snapshot);
                Ok(self.tell(outcome))
            }
            parse::Command::Close => {
                let outcome = self.handle(Command::Close);
                Ok(self.tell(outcome))
            }
            parse::Command::TokensAbove(mark) => {
                self.manager.continue_tokens_above(*mark);
                Ok(vec![])
            }
            parse::Command::Timeout => {
                self.manager.handle_timeout(self.now);
                Ok(vec![])
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
            parse::Command::Standing(label) => {
                Ok(vec![match self.manager.standing(self.request_id(label)?) {
                    Standing::Pending => "pending".to_owned(),
                    Standing::Held(token) => format!("held, token {token}"),
                    Standing::Ended => "ended".to_owned(),
                }])
            }
            parse::Command::Alive(agent) => Ok(vec![
                if self.manager.is_alive(self.agent(agent)?) { "alive" } else { "not alive" }.to_owned(),
            ]),
            parse::Command::Wakes => Ok(vec![
                self.manager.next_timeout().map_or("never".to_owned(), |at| format!("at {}", time(at))),
            ]),
            parse::Command::Counts => {
                Ok(vec![format!("{} requests and locks, {} names", self.manager.len(), self.manager.names())])
            }
        }
    }

    fn request(&mut self, ask: &Ask) -> Told {
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
        let id = match &outcome {
            Outcome::Granted(grant) => Some(grant.request),
            Outcome::Queued(id) => Some(*id),
            _ => None,
        };
        if let Some(id) = id {
            self.requests.insert(ask.label.clone(), id);
        }
        Ok(self.tell(outcome))
    }

    fn handle(&mut self, command: Command<'_>) -> Outcome {
        self.manager.handle(self.now, command)
    }

    fn tell(&self, outcome: Outcome) -> Vec<String> {
        let line = match outcome {
            Outcome::Joined(_) => "joined".to_owned(),
            Outcome::Granted(grant) => format!("granted, token {}", grant.token),
            Outcome::Queued(_) => "queued".to_owned(),
            Outcome::Refused(refusal) => format!("refused: {}", reason(&refusal)),
            Outcome::Aborted { pending } => if pending { "aborted" } else { "not pending" }.to_owned(),
            Outcome::Released { held } => if held { "released" } else { "not held" }.to_owned(),
            Outcome::Renewed { alive } => if alive { "renewed" } else { "not alive" }.to_owned(),
            Outcome::Ended { alive } => if alive { "ended" } else { "not alive" }.to_owned(),
            Outcome::Snapshot(snapshot) => return self.entries(snapshot),
            Outcome::Closed => "closed".to_owned(),
        };
        vec![line]
    }

    fn effect(&self, effect: Effect) -> String {
        match effect {
            Effect::Granted { agent, grant } => {
                format!(
                    "-> {}: {} granted, token {}",
                    self.who(agent),
                    self.which(grant.request),
                    grant.token
                )
            }
            Effect::Lost { agent, request, reason } => {
                let reason = match reason {
                    LossReason::Stolen => "stolen",
                    LossReason::Expired => "held for too long",
                };
                format!("-> {}: {} lost, {reason}", self.who(agent), self.which(request))
            }
            Effect::AgentEnded { agent, reason: EndReason::Expired } => {
                format!("-> {}: ended, lease expired", self.who(agent))
            }
        }
    }

    fn entries(&self, snapshot: Snapshot) -> Vec<String> {
        let mut held = snapshot.held;
        held.sort_by_key(|entry| match entry.state {
            State::Held(token) => token.get(),
            State::Pending { .. } => panic!("{entry:?} among the held"),
        });
        let mut entries: Vec<Entry> = held.into_iter().chain(snapshot.pending).collect();
        // Stable: held before pending within a name, pending as they come.
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        if entries.is_empty() {
            return vec!["nothing".to_owned()];
        }
        entries.iter().map(|entry| self.entry(entry)).collect()
    }

    fn entry(&self, entry: &Entry) -> String {
        let mut line = match entry.state {
            State::Held(token) => format!("{:?} held, token {token}: ", entry.name),
            State::Pending { place } => format!("{:?} waiting at place {place}: ", entry.name),
        };
        let who = self.who(entry.agent);
        line += &who;
        if entry.client_id != who {
            line += &format!(" ({:?})", entry.client_id);
        }
        line + &details(entry.mode, entry.since, entry.expires, entry.metadata.as_deref())
    }

    fn agent(&self, label: &str) -> Result<AgentId, String> {
        self.agents.get(label).copied().ok_or_else(|| format!("no agent {label} has joined"))
    }

    fn request_id(&self, label: &str) -> Result<RequestId, String> {
        self.requests.get(label).copied().ok_or_else(|| format!("no request {label} was made"))
    }

    fn who(&self, id: AgentId) -> String {
        self.agents
            .iter()
            .find(|(_, agent)| **agent == id)
            .map_or("a stranger".to_owned(), |(label, _)| label.clone())
    }

    fn which(&self, id: RequestId) -> String {
        let found = self.requests.iter().find(|(_, request)| **request == id);
        found.map_or("a strange request".to_owned(), |(label, _)| label.clone())
    }
}

fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unavailable { holders, queued } => {
            let holders: Vec<String> = holders.iter().map(holder).collect();
            let holders = if holders.is_empty() { "held by nobody".to_owned() } else { holders.join("; ") };
            format!("unavailable, {queued} waiting; {holders}")
        }
        Refusal::NameTooLong { units, limit } => format!("name of {units} units, at most {limit}"),
        Refusal::MetadataTooLong { bytes, limit } => format!("metadata of {bytes} bytes, at most {limit}"),
        Refusal::TooManyRequests { limit } => {
            format!("too many requests and locks of this agent, at most {limit}")
        }
        Refusal::TooManyNames { limit } => format!("too many names, at most {limit}"),
        Refusal::TooManyAgents { limit } => format!("too many agents, at most {limit}"),
        Refusal::UnknownAgent => "unknown agent".to_owned(),
        Refusal::Closed => "closed".to_owned(),
    }
}

fn holder(holder: &Holder) -> String {
    let Holder { client_id, mode, since, expires, metadata } = holder;
    format!("held by {client_id:?}{}", details(*mode, *since, *expires, metadata.as_deref()))
}

fn details(mode: Mode, since: Instant, expires: Option<Instant>, metadata: Option<&str>) -> String {
    let mode = match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    };
    let mut line = format!(", {mode}, since {}", time(since));
    if let Some(expires) = expires {
        line += &format!(", expires at {}", time(expires));
    }
    if let Some(metadata) = metadata {
        line += &format!(", metadata {metadata:?}");
    }
    line
}

fn time(at: Instant) -> String {
    match at.as_millis() {
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}
