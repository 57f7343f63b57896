//! Random commands for the property tests, and a manager that carries them out.

use std::hash::BuildHasher;

use lockhouse_core::{
    Acquire, AgentId, Command, Effect, Instant, Limits, LockManager, Mode, Name, NewAgent, NewRequest,
    Outcome, RequestId, Snapshot,
};
use proptest::prelude::*;

/// Commands that name agents and requests by number, modulo how many there have been.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Join { lease_ms: Option<u64> },
    Request { agent: usize, name: usize, acquire: Acquire, max_hold_ms: Option<u64> },
    Abort(usize),
    Release(usize),
    Renew(usize),
    End(usize),
    Wait(u64),
    Close,
}

pub(crate) const NAMES: [&str; 4] = ["", "a", "b", "a name of more than twenty-two bytes"];

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let mode = || prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared)];
    let acquire = prop_oneof![
        6 => mode().prop_map(Acquire::Wait),
        2 => mode().prop_map(Acquire::IfAvailable),
        1 => Just(Acquire::Steal),
    ];
    let request = (any::<usize>(), 0..NAMES.len(), acquire, prop::option::weighted(0.2, 0u64..20));
    let step = prop_oneof![
        10 => prop::option::weighted(0.4, 0u64..40).prop_map(|lease_ms| Step::Join { lease_ms }),
        50 => request.prop_map(|(agent, name, acquire, max_hold_ms)| Step::Request { agent, name, acquire, max_hold_ms }),
        10 => any::<usize>().prop_map(Step::Abort),
        30 => any::<usize>().prop_map(Step::Release),
        5 => any::<usize>().prop_map(Step::Renew),
        4 => any::<usize>().prop_map(Step::End),
        10 => (0u64..15).prop_map(Step::Wait),
    ];
    let close = prop::option::weighted(0.1, Just(Step::Close));
    (prop::collection::vec(step, 1..150), close, any::<prop::sample::Index>()).prop_map(
        |(mut steps, close, at)| {
            if let Some(close) = close {
                steps.insert(at.index(steps.len()), close);
            }
            steps
        },
    )
}

/// A manager, and everybody that was ever there.
pub(crate) struct World<S> {
    pub(crate) manager: LockManager<S>,
    pub(crate) now: Instant,
    pub(crate) agents: Vec<AgentId>,
    pub(crate) requests: Vec<RequestId>,
    pub(crate) closed: bool,
}

impl<S: BuildHasher> World<S> {
    pub(crate) fn new(hasher: S) -> Self {
        let limits = Limits { requests_per_agent: 12, agents: 8, ..Limits::DEFAULT };
        Self {
            manager: LockManager::with_limits(hasher, limits),
            now: Instant::default(),
            agents: vec![],
            requests: vec![],
            closed: false,
        }
    }

    /// What came of the step; a step that refers to anybody before there is anybody does nothing.
    pub(crate) fn play(&mut self, step: &Step) -> (Option<Outcome>, Vec<Effect>) {
        let outcome = match step {
            Step::Wait(ms) => {
                self.now = self.now.plus_millis(*ms);
                self.manager.handle_timeout(self.now);
                None
            }
            step => self.command(step).map(|command| self.manager.handle(self.now, command)),
        };
        match &outcome {
            Some(Outcome::Joined(agent)) => self.agents.push(*agent),
            Some(Outcome::Granted(grant)) => self.requests.push(grant.request),
            Some(Outcome::Queued(request)) => self.requests.push(*request),
            Some(Outcome::Closed) => self.closed = true,
            _ => {}
        }
        (outcome, std::iter::from_fn(|| self.manager.poll_effect()).collect())
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        match self.manager.handle(self.now, Command::Snapshot) {
            Outcome::Snapshot(snapshot) => snapshot,
            other => panic!("{other:?}"),
        }
    }

    fn command(&self, step: &Step) -> Option<Command<'static>> {
        let agent =
            |number: usize| (!self.agents.is_empty()).then(|| self.agents[number % self.agents.len()]);
        let request =
            |number: usize| (!self.requests.is_empty()).then(|| self.requests[number % self.requests.len()]);
        Some(match *step {
            Step::Join { lease_ms } => Command::Join(NewAgent { client_id: "client", lease_ms }),
            Step::Request { agent: by, name, acquire, max_hold_ms } => {
                let name = Name::new(NAMES[name]).expect("none begins with a hyphen");
                Command::Request(NewRequest { max_hold_ms, ..NewRequest::new(agent(by)?, name, acquire) })
            }
            Step::Abort(number) => Command::Abort { request: request(number)? },
            Step::Release(number) => Command::Release { request: request(number)? },
            Step::Renew(number) => Command::Renew { agent: agent(number)? },
            Step::End(number) => Command::End { agent: agent(number)? },
            Step::Close => Command::Close,
            Step::Wait(_) => return None,
        })
    }
}
