//! Runs a scenario: carries out the command on each line and compares what came of it with what the line says.

#![allow(clippy::unwrap_used, reason = "a scenario that cannot be read fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write;

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, Effect, EndReason, Entry, Instant, LockManager, LossReason, Mode, Name,
    NewAgent, NewRequest, Outcome, Refusal, RequestId, Snapshot,
};

/// Runs the commands of `script` on a new manager; the transcript must be the script, however names are hashed.
pub(crate) fn scenario(script: &str) {
    let script: Vec<&str> = script.lines().map(str::trim).collect();
    for seed in [0, 1, 0x5eed] {
        let mut world = World::new(seed);
        let commands = script.iter().filter(|line| !line.starts_with('!'));
        let transcript: Vec<String> = commands.flat_map(|line| world.run(line)).collect();
        assert_eq!(transcript.join("\n"), script.join("\n"), "hash seed {seed}");
    }
}

struct World {
    manager: LockManager<FixedState>,
    now: Instant,
    agents: BTreeMap<String, AgentId>,
    requests: BTreeMap<String, RequestId>,
}

impl World {
    fn new(seed: u64) -> Self {
        let manager = LockManager::new(FixedState::with_seed(seed));
        World { manager, now: Instant::default(), agents: BTreeMap::new(), requests: BTreeMap::new() }
    }

    /// The transcript of one command: its own line, then the effects.
    fn run(&mut self, line: &str) -> Vec<String> {
        let command = line.split(" -> ").next().unwrap().trim();
        let words: Vec<&str> = command.split(' ').collect();
        let told = match words[..] {
            ["join", agent] => self.join(agent, None),
            ["join", agent, "lease", ms] => self.join(agent, Some(ms.parse().unwrap())),
            ["release", request] => self.handle(Command::Release { request: self.requests[request] }),
            ["abort", request] => self.handle(Command::Abort { request: self.requests[request] }),
            ["renew", agent] => self.handle(Command::Renew { agent: self.agents[agent] }),
            ["end", agent] => self.handle(Command::End { agent: self.agents[agent] }),
            ["close"] => self.handle(Command::Close),
            ["snapshot"] => self.handle(Command::Snapshot),
            ["names"] => self.manager.names().to_string(),
            ["timeout"] => self.manager.next_timeout().map_or("none".into(), |at| at.as_millis().to_string()),
            ["at", ms] => self.at(ms.parse().unwrap()),
            [agent, request, how, name] => self.request(agent, request, how, name, None),
            [agent, request, how, name, "hold", ms] => {
                self.request(agent, request, how, name, Some(ms.parse().unwrap()))
            }
            _ => panic!("no such command: {command}"),
        };
        let mut transcript =
            vec![if told.is_empty() { command.to_owned() } else { format!("{command} -> {told}") }];
        while let Some(effect) = self.manager.poll_effect() {
            transcript.push(format!("! {}", self.describe(effect)));
        }
        transcript
    }

    fn join(&mut self, label: &str, lease_ms: Option<u64>) -> String {
        let outcome = self.manager.handle(self.now, Command::Join(NewAgent { client_id: label, lease_ms }));
        let Outcome::Joined(agent) = outcome else { panic!("{label} cannot join: {outcome:?}") };
        self.agents.insert(label.to_owned(), agent);
        String::new()
    }

    fn at(&mut self, ms: u64) -> String {
        self.now = Instant::from_millis(ms);
        self.manager.handle_timeout(self.now);
        String::new()
    }

    fn request(
        &mut self,
        agent: &str,
        label: &str,
        how: &str,
        name: &str,
        max_hold_ms: Option<u64>,
    ) -> String {
        let agent = self.agents[agent.strip_suffix(':').unwrap()];
        let acquire = match how {
            "exclusive" => Acquire::Wait(Mode::Exclusive),
            "shared" => Acquire::Wait(Mode::Shared),
            "ifAvailable-exclusive" => Acquire::IfAvailable(Mode::Exclusive),
            "ifAvailable-shared" => Acquire::IfAvailable(Mode::Shared),
            "steal" => Acquire::Steal,
            _ => panic!("no such way to ask: {how}"),
        };
        let request = NewRequest { max_hold_ms, ..NewRequest::new(agent, Name::new(name).unwrap(), acquire) };
        let outcome = self.manager.handle(self.now, Command::Request(request));
        if let Outcome::Granted(lockhouse_core::Grant { request, .. }) | Outcome::Queued(request) = outcome {
            self.requests.insert(label.to_owned(), request);
        }
        tell(&outcome)
    }

    fn handle(&mut self, command: Command<'_>) -> String {
        tell(&self.manager.handle(self.now, command))
    }

    fn describe(&self, effect: Effect) -> String {
        match effect {
            Effect::Granted { grant, agent } => {
                self.assert_owner(grant.request, agent);
                format!("{} granted {}", self.label(grant.request), grant.token)
            }
            Effect::Lost { request, reason: LossReason::Stolen, .. } => {
                format!("{} lost, stolen", self.label(request))
            }
            Effect::Lost { request, reason: LossReason::Expired, .. } => {
                format!("{} lost, expired", self.label(request))
            }
            Effect::AgentEnded { agent, reason: EndReason::Expired } => {
                let (label, _) = self.agents.iter().find(|(_, id)| **id == agent).unwrap();
                format!("{label} expired")
            }
        }
    }

    /// An effect must name the agent whose request it is about.
    fn assert_owner(&self, request: RequestId, agent: AgentId) {
        assert!(self.manager.requests_of(agent).any(|own| own == request), "{request:?} is not of {agent:?}");
    }

    fn label(&self, request: RequestId) -> &str {
        self.requests.iter().find(|(_, id)| **id == request).unwrap().0
    }
}

fn tell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Joined(_) => "joined".into(),
        Outcome::Granted(grant) => format!("granted {}", grant.token),
        Outcome::Queued(_) => "queued".into(),
        Outcome::Refused(refusal) => tell_refusal(refusal),
        Outcome::Aborted { pending } => if *pending { "aborted" } else { "not pending" }.into(),
        Outcome::Released { held } => if *held { "released" } else { "not held" }.into(),
        Outcome::Renewed { alive } => if *alive { "renewed" } else { "had ended" }.into(),
        Outcome::Ended { alive } => if *alive { "ended" } else { "had ended" }.into(),
        Outcome::Snapshot(snapshot) => tell_snapshot(snapshot),
        Outcome::Closed => "closed".into(),
    }
}

fn tell_refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unavailable { holders, queued } => {
            let holders: Vec<&str> = holders.iter().map(|holder| holder.client_id.as_str()).collect();
            format!("unavailable, held by {}, {queued} queued", holders.join(" and "))
        }
        Refusal::UnknownAgent => "unknown agent".into(),
        Refusal::Closed => "closed".into(),
        other => panic!("no scenario is about bounds: {other:?}"),
    }
}

/// Held locks in alphabetical order, as none is promised; what waits in the order of the snapshot.
fn tell_snapshot(snapshot: &Snapshot) -> String {
    let describe = |entry: &Entry| {
        let mode = if entry.mode == Mode::Shared { "shared" } else { "exclusive" };
        format!("{} {mode} {}", entry.client_id, entry.name.as_name().display())
    };
    let mut held: Vec<String> = snapshot.held.iter().map(describe).collect();
    held.sort();
    let mut pending: Vec<&Entry> = snapshot.pending.iter().collect();
    // Stable, so that those of one name keep their order.
    pending.sort_by_key(|entry| entry.name.clone());
    let pending: Vec<String> = pending.into_iter().map(describe).collect();
    let mut told = String::new();
    let _ = write!(told, "held: {}; pending: {}", held.join(", "), pending.join(", "));
    told.trim_end().to_owned()
}
