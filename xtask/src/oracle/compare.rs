//! The core and the transcription, driven by the same steps and compared after each.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use lockhouse_core::{
    AgentId, Command, Effect, Instant, LockManager, Mode, NameBuf, NewAgent, NewRequest, Outcome, RequestId,
    Snapshot, Standing,
};

use super::generator::View;
use super::histogram::Histogram;
use super::literal::{Fresh, Literal};
use super::step::{Action, FOREIGN, Label, Start, Step};
use crate::panics::guarded;

/// What differs, in words.
pub(super) type Difference = String;

/// Snapshots are compared after every step while there are at most so many requests and locks, else after every 16th.
const SMALL: usize = 64;

pub(super) struct Pair {
    core: LockManager<FixedState>,
    literal: Literal,
    now: Instant,
    steps: usize,
    /// By label; `None` if nothing came to be under it.
    agents: Vec<Option<AgentId>>,
    requests: Vec<Option<RequestId>>,
    agent_labels: BTreeMap<AgentId, Label>,
    request_labels: BTreeMap<RequestId, Label>,
    modes: BTreeMap<RequestId, Mode>,
    last_serial: u64,
    // What the generator looks at.
    alive: Vec<Label>,
    held: Vec<Label>,
    pending: Vec<Label>,
}

impl Pair {
    pub(super) fn new(start: &Start, foreign: (AgentId, RequestId)) -> Self {
        let mut core = LockManager::with_limits(FixedState::with_seed(start.hash_seed), start.limits);
        core.continue_tokens_above(start.token_mark);
        Self {
            core,
            literal: Literal::new(start.limits, start.token_mark),
            now: Instant::default(),
            steps: 0,
            agents: vec![Some(foreign.0)],
            requests: vec![Some(foreign.1)],
            agent_labels: BTreeMap::from([(foreign.0, FOREIGN)]),
            request_labels: BTreeMap::from([(foreign.1, FOREIGN)]),
            modes: BTreeMap::new(),
            last_serial: 0,
            alive: Vec::new(),
            held: Vec::new(),
            pending: Vec::new(),
        }
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            now_ms: self.now.as_millis(),
            alive: &self.alive,
            held: &self.held,
            pending: &self.pending,
            next_due_ms: self.literal.next_due().map(Instant::as_millis),
            next_agent: self.agents.len(),
            next_request: self.requests.len(),
        }
    }

    /// Plays one step on both. A panic of either counts as a difference.
    pub(super) fn play(&mut self, step: &Step, histogram: &mut Histogram) -> Result<(), Difference> {
        guarded(|| self.play_unguarded(step, histogram))
    }

    fn play_unguarded(&mut self, step: &Step, histogram: &mut Histogram) -> Result<(), Difference> {
        self.now = self.now.max(Instant::from_millis(step.at_ms));
        self.steps += 1;
        let outcome = if matches!(step.action, Action::Timeout) {
            self.core.handle_timeout(self.now);
            self.literal.handle_timeout(self.now);
            None
        } else {
            // Without a command, what the step refers to was left out of the sequence.
            let Some(command) = self.command(&step.action) else { return Ok(()) };
            Some(self.compare_outcomes(&step.action, command)?)
        };
        let effects = self.compare_effects()?;
        self.compare_states()?;
        histogram.count_outcome(&step.action, outcome.as_ref(), effects.len());
        effects.iter().for_each(|effect| histogram.count_effect(effect, self.mode_of(effect)));
        self.refresh_view();
        Ok(())
    }

    /// The command with identities in place of labels; `None` if a label stands for nothing.
    fn command<'a>(&self, action: &'a Action) -> Option<Command<'a>> {
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
            Action::Timeout => return None,
        })
    }

    fn mode_of(&self, effect: &Effect) -> Option<Mode> {
        match effect {
            Effect::Granted { grant, .. } => self.modes.get(&grant.request).copied(),
            _ => None,
        }
    }

    fn compare_outcomes(&mut self, action: &Action, command: Command<'_>) -> Result<Outcome, Difference> {
        let ours = self.core.handle(self.now, command);
        let theirs = self.literal.handle(self.now, command, fresh(&ours));
        let theirs = theirs.map_err(|_| format!("the core answers {ours:?}, though it should not refuse"))?;
        match (&ours, &theirs) {
            (Outcome::Snapshot(ours), Outcome::Snapshot(theirs)) => compare_snapshots(ours, theirs)?,
            _ if ours != theirs => {
                return Err(format!("the core answers {ours:?}, the transcription {theirs:?}"));
            }
            _ => {}
        }
        self.learn(action, &ours)?;
        Ok(ours)
    }

    /// Remembers new identities, which must be new indeed.
    fn learn(&mut self, action: &Action, outcome: &Outcome) -> Result<(), Difference> {
        let Fresh { agent, request } = fresh(outcome);
        match action {
            Action::Join { agent: label, .. } => {
                put(&mut self.agents, *label, agent);
                if let Some(id) = agent
                    && self.agent_labels.insert(id, *label).is_some()
                {
                    return Err(format!("the agent id {id:?} was given before"));
                }
            }
            Action::Request(ask) => {
                put(&mut self.requests, ask.request, request);
                let Some(id) = request else { return Ok(()) };
                self.modes.insert(id, ask.acquire.mode());
                if self.request_labels.insert(id, ask.request).is_some() || id.serial() <= self.last_serial {
                    return Err(format!("the request id {id:?} is not younger than those given before"));
                }
                self.last_serial = id.serial();
            }
            _ => {}
        }
        Ok(())
    }

    fn compare_effects(&mut self) -> Result<Vec<Effect>, Difference> {
        let ours = std::iter::from_fn(|| self.core.poll_effect());
        let ours: Vec<Effect> = ours.filter(|effect| !matches!(effect, Effect::Change(_))).collect();
        let theirs = self.literal.take_effects();
        if ours != theirs {
            return Err(format!("the core's effects {ours:?}, the transcription's {theirs:?}"));
        }
        Ok(ours)
    }

    fn compare_states(&mut self) -> Result<(), Difference> {
        self.compare_deadlines()?;
        let counts = [
            ("requests and locks", self.core.len(), self.literal.held().len() + self.literal.pending().len()),
            ("names", self.core.names(), self.literal.names()),
            ("as the last token", self.core.last_token() as usize, self.literal.last_token() as usize),
        ];
        for (what, ours, theirs) in counts {
            if ours != theirs {
                return Err(format!("the core counts {ours} {what}, the transcription {theirs}"));
            }
        }
        if self.core.len() > SMALL && !self.steps.is_multiple_of(16) {
            return Ok(());
        }
        let nobody = Fresh { agent: None, request: None };
        let ours = self.core.handle(self.now, Command::Snapshot);
        let theirs = self.literal.handle(self.now, Command::Snapshot, nobody);
        if let (Outcome::Snapshot(ours), Ok(Outcome::Snapshot(theirs))) = (ours, theirs) {
            compare_snapshots(&ours, &theirs)?;
        }
        self.compare_possessions()?;
        self.compare_standings()
    }

    fn compare_deadlines(&self) -> Result<(), Difference> {
        let (ours, theirs) = (self.core.next_timeout(), self.literal.next_due());
        // A renewed lease may wake the core too early, but never too late, and never without a reason.
        let fits = match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours <= theirs,
            (None, None) => true,
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("the core wants to wake at {ours:?}, something is due at {theirs:?}"))
        }
    }

    /// The requests of each agent in the order of their age, of those that have ended none.
    fn compare_possessions(&self) -> Result<(), Difference> {
        for &agent in self.agents.iter().flatten() {
            let ours: Vec<RequestId> = self.core.requests_of(agent).collect();
            let theirs = self.literal.requests_of(agent);
            if ours != theirs {
                return Err(format!("{agent:?} has {ours:?} in the core, {theirs:?} in the transcription"));
            }
        }
        Ok(())
    }

    fn compare_standings(&self) -> Result<(), Difference> {
        let held: BTreeMap<_, _> = self.literal.held().into_iter().collect();
        let pending: BTreeSet<_> = self.literal.pending().into_iter().collect();
        for &id in self.requests.iter().flatten() {
            let theirs = match held.get(&id) {
                Some(token) => Standing::Held(*token),
                None if pending.contains(&id) => Standing::Pending,
                None => Standing::Ended,
            };
            let ours = self.core.standing(id);
            if ours != theirs {
                return Err(format!("{id:?} stands {ours:?} in the core, {theirs:?} in the transcription"));
            }
        }
        let alive: BTreeSet<_> = self.literal.agents().into_iter().collect();
        match self.agents.iter().flatten().find(|id| self.core.is_alive(**id) != alive.contains(id)) {
            Some(id) => Err(format!("{id:?} lives in one and not in the other")),
            None => Ok(()),
        }
    }

    fn refresh_view(&mut self) {
        self.alive = self.literal.agents().iter().map(|id| self.agent_labels[id]).collect();
        self.held = self.literal.held().iter().map(|(id, _)| self.request_labels[id]).collect();
        self.pending = self.literal.pending().iter().map(|id| self.request_labels[id]).collect();
    }
}

fn put<T: Copy>(table: &mut Vec<Option<T>>, label: Label, value: Option<T>) {
    if table.len() <= label {
        table.resize(label + 1, None);
    }
    table[label] = value;
}

fn fresh(outcome: &Outcome) -> Fresh {
    match outcome {
        Outcome::Joined(agent) => Fresh { agent: Some(*agent), request: None },
        Outcome::Granted(grant) => Fresh { agent: None, request: Some(grant.request) },
        Outcome::Queued(request) => Fresh { agent: None, request: Some(*request) },
        _ => Fresh { agent: None, request: None },
    }
}

/// Pending requests are ordered within a name only; held locks are not ordered at all.
fn compare_snapshots(ours: &Snapshot, theirs: &Snapshot) -> Result<(), Difference> {
    let by_name = |snapshot: &Snapshot| {
        let mut queues: BTreeMap<NameBuf, Vec<lockhouse_core::Entry>> = BTreeMap::new();
        for entry in &snapshot.pending {
            queues.entry(entry.name.clone()).or_default().push(entry.clone());
        }
        queues
    };
    let held = |snapshot: &Snapshot| {
        let mut held = snapshot.held.clone();
        held.sort_by_cached_key(|lock| (lock.name.clone(), format!("{:?}", lock.state)));
        held
    };
    if by_name(ours) == by_name(theirs) && held(ours) == held(theirs) {
        return Ok(());
    }
    Err(format!("the core's snapshot is {ours:#?}, the transcription's {theirs:#?}"))
}
