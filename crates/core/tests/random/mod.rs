//! Random commands for the property tests, and a manager that carries them out.

use std::hash::BuildHasher;

use lockhouse_core::{
    Acquire, Acquisition, AgentId, Change, Command, Effect, FencingToken, Instant, Limits, LockManager, Mode,
    Name, NewAgent, NewClaim, NewLocks, NewOwner, NewReclaim, NewRequest, Outcome, OwnedLock, OwnerId,
    RequestId, Seal, Snapshot, Unlock,
};
use proptest::prelude::*;

/// Commands that name whom they concern by number, modulo how many there have been.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Join {
        lease_ms: Option<u64>,
    },
    Request {
        agent: usize,
        name: usize,
        acquire: Acquire,
        max_hold_ms: Option<u64>,
    },
    Abort(usize),
    Release(usize),
    Renew(usize),
    End(usize),
    Wait(u64),
    Close,
    Open {
        ttl_ms: u64,
        max_ms: Option<u64>,
    },
    Touch(usize),
    EndOwner(usize),
    Lock {
        owner: usize,
        locks: Vec<(usize, Mode)>,
    },
    Unlock {
        owner: usize,
        lock: usize,
        by_token: bool,
    },
    UnlockAllBut {
        owner: usize,
        spared: Vec<usize>,
    },
    /// What one earlier command had granted.
    Undo {
        lock: usize,
        again: u32,
    },
    Claim {
        name: usize,
        ttl_ms: u64,
    },
    RenewClaim(usize),
    ReleaseClaim(usize),
    Finalize(usize),
    Unassign {
        name: usize,
    },
    /// As the first step only.
    Recover {
        ms: u64,
    },
    Reclaim {
        agent: usize,
        name: usize,
        mode: Mode,
        token: u64,
    },
    EndRecovery,
}

pub(crate) const NAMES: [&str; 4] = ["", "a", "b", "a name of more than twenty-two bytes"];
/// The highest token of the time before a recovery.
pub(crate) const BEFORE: u64 = 40;

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let close = prop::option::weighted(0.1, Just(Step::Close));
    let recover = prop::option::weighted(0.2, (0u64..60).prop_map(|ms| Step::Recover { ms }));
    let all = prop::collection::vec(prop_oneof![web(), offline(), claims()], 1..200);
    (all, close, any::<prop::sample::Index>(), recover).prop_map(|(mut steps, close, at, recover)| {
        if let Some(close) = close {
            steps.insert(at.index(steps.len()), close);
        }
        steps.splice(0..0, recover);
        steps
    })
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared)]
}

fn web() -> impl Strategy<Value = Step> {
    let acquire = prop_oneof![
        6 => mode().prop_map(Acquire::Wait),
        2 => mode().prop_map(Acquire::IfAvailable),
        1 => Just(Acquire::Steal),
    ];
    let request = (any::<usize>(), 0..NAMES.len(), acquire, prop::option::weighted(0.2, 0u64..20));
    let reclaim = (any::<usize>(), 0..NAMES.len(), mode(), 1..=BEFORE + 1);
    prop_oneof![
        10 => prop::option::weighted(0.4, 0u64..40).prop_map(|lease_ms| Step::Join { lease_ms }),
        50 => request.prop_map(|(agent, name, acquire, max_hold_ms)| Step::Request { agent, name, acquire, max_hold_ms }),
        10 => any::<usize>().prop_map(Step::Abort),
        30 => any::<usize>().prop_map(Step::Release),
        5 => any::<usize>().prop_map(Step::Renew),
        4 => any::<usize>().prop_map(Step::End),
        10 => (0u64..15).prop_map(Step::Wait),
        8 => reclaim.prop_map(|(agent, name, mode, token)| Step::Reclaim { agent, name, mode, token }),
        1 => Just(Step::EndRecovery),
    ]
}

fn offline() -> impl Strategy<Value = Step> {
    let locks = prop::collection::vec((0..NAMES.len(), mode()), 0..4);
    let spared = prop::collection::vec(0..NAMES.len(), 0..3);
    let open = (1u64..40, prop::option::weighted(0.3, 0u64..60));
    prop_oneof![
        10 => open.prop_map(|(ttl_ms, max_ms)| Step::Open { ttl_ms, max_ms }),
        40 => (any::<usize>(), locks).prop_map(|(owner, locks)| Step::Lock { owner, locks }),
        25 => any::<(usize, usize, bool)>().prop_map(|(owner, lock, by_token)| Step::Unlock { owner, lock, by_token }),
        5 => (any::<usize>(), spared).prop_map(|(owner, spared)| Step::UnlockAllBut { owner, spared }),
        10 => (any::<usize>(), 0u32..3).prop_map(|(lock, again)| Step::Undo { lock, again }),
        5 => any::<usize>().prop_map(Step::Touch),
        4 => any::<usize>().prop_map(Step::EndOwner),
        5 => (0u64..15).prop_map(Step::Wait),
    ]
}

fn claims() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..NAMES.len(), 1u64..30).prop_map(|(name, ttl_ms)| Step::Claim { name, ttl_ms }),
        10 => any::<usize>().prop_map(Step::RenewClaim),
        10 => any::<usize>().prop_map(Step::ReleaseClaim),
        10 => any::<usize>().prop_map(Step::Finalize),
        10 => (0..NAMES.len()).prop_map(|name| Step::Unassign { name }),
        5 => (0u64..15).prop_map(Step::Wait),
    ]
}

/// A manager, and everybody that was ever there.
pub(crate) struct World<S> {
    pub(crate) manager: LockManager<S>,
    pub(crate) now: Instant,
    pub(crate) agents: Vec<AgentId>,
    pub(crate) requests: Vec<RequestId>,
    pub(crate) owners: Vec<OwnerId>,
    /// What each command of an owner had granted.
    locked: Vec<(OwnerId, Vec<(Name<'static>, OwnedLock)>)>,
    pub(crate) claims: Vec<(Name<'static>, FencingToken)>,
    /// Every change that was told.
    pub(crate) kept: Vec<Change>,
    pub(crate) closed: bool,
}

pub(crate) fn limits() -> Limits {
    Limits {
        requests_per_agent: 12,
        agents: 8,
        owners: 6,
        locks_per_owner: 3,
        assignments: 3,
        ..Limits::DEFAULT
    }
}

impl<S: BuildHasher> World<S> {
    pub(crate) fn new(hasher: S) -> Self {
        Self {
            manager: LockManager::with_limits(hasher, limits()),
            now: Instant::default(),
            agents: vec![],
            requests: vec![],
            owners: vec![],
            locked: vec![],
            claims: vec![],
            kept: vec![],
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
            Step::Recover { ms } => {
                self.manager.continue_tokens_above(BEFORE);
                self.manager.begin_recovery(self.now.plus_millis(*ms));
                None
            }
            step => self.command(step),
        };
        self.learn(step, outcome.as_ref());
        let effects: Vec<Effect> = std::iter::from_fn(|| self.manager.poll_effect()).collect();
        self.kept.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Change(change) => Some((**change).clone()),
            _ => None,
        }));
        (outcome, effects)
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        match self.manager.handle(self.now, Command::Snapshot) {
            Outcome::Snapshot(snapshot) => snapshot,
            other => panic!("{other:?}"),
        }
    }

    fn learn(&mut self, step: &Step, outcome: Option<&Outcome>) {
        match (step, outcome) {
            (_, Some(Outcome::Joined(agent))) => self.agents.push(*agent),
            (_, Some(Outcome::Granted(grant))) => self.requests.push(grant.request),
            (_, Some(Outcome::Queued(request))) => self.requests.push(*request),
            (_, Some(Outcome::Closed)) => self.closed = true,
            (_, Some(Outcome::OwnerOpened(owner))) => self.owners.push(*owner),
            (Step::Lock { owner, locks }, Some(Outcome::Locked(granted))) => {
                let owner = self.owners[owner % self.owners.len()];
                let names = locks.iter().map(|(at, _)| name(*at));
                self.locked.push((owner, names.zip(granted.iter().copied()).collect()));
            }
            (Step::Claim { name: at, .. }, Some(Outcome::Claimed(grant))) => {
                self.claims.push((name(*at), grant.token));
            }
            _ => {}
        }
    }

    fn command(&mut self, step: &Step) -> Option<Outcome> {
        let agent = |number: usize| pick(&self.agents, number);
        let request = |number: usize| pick(&self.requests, number);
        let command = match *step {
            Step::Join { lease_ms } => Command::Join(NewAgent { client_id: "client", lease_ms }),
            Step::Request { agent: by, name: at, acquire, max_hold_ms } => {
                Command::Request(NewRequest { max_hold_ms, ..NewRequest::new(agent(by)?, name(at), acquire) })
            }
            Step::Abort(number) => Command::Abort { request: request(number)? },
            Step::Release(number) => Command::Release { request: request(number)? },
            Step::Renew(number) => Command::Renew { agent: agent(number)? },
            Step::End(number) => Command::End { agent: agent(number)? },
            Step::Close => Command::Close,
            Step::Reclaim { agent: by, name: at, mode, token } => Command::Reclaim(NewReclaim {
                agent: agent(by)?,
                name: name(at),
                mode,
                token: FencingToken::new(token),
                metadata: None,
                max_hold_ms: None,
            }),
            Step::EndRecovery => Command::EndRecovery,
            _ => return self.durable_command(step),
        };
        Some(carry_out(&mut self.manager, self.now, command))
    }

    fn durable_command(&mut self, step: &Step) -> Option<Outcome> {
        let owner = |number: usize| pick(&self.owners, number);
        let claim = |number: usize| pick(&self.claims, number);
        let (locks, these, spared, undone);
        let command = match step {
            Step::Open { ttl_ms, max_ms } => Command::OpenOwner(NewOwner {
                label: "owner",
                metadata: Some("m"),
                ttl_ms: *ttl_ms,
                max_ms: *max_ms,
                seal: Seal(self.owners.len() as u64),
            }),
            Step::Touch(number) => Command::Touch { owner: owner(*number)? },
            Step::EndOwner(number) => Command::EndOwner { owner: owner(*number)? },
            Step::Lock { owner: by, locks: asked } => {
                locks = asked.iter().map(|(at, mode)| (name(*at), *mode)).collect::<Vec<_>>();
                let metadata = ["m", "metadata"].get(locks.len()).copied();
                Command::Lock(NewLocks { owner: owner(*by)?, locks: &locks, metadata })
            }
            Step::Unlock { owner: by, lock, by_token } => {
                let (_, granted) = pick(&self.locked, *lock)?;
                these = granted
                    .iter()
                    .map(|(name, lock)| (*name, by_token.then_some(lock.token)))
                    .collect::<Vec<_>>();
                Command::Unlock { owner: owner(*by)?, locks: Unlock::These(&these) }
            }
            Step::UnlockAllBut { owner: by, spared: kept } => {
                spared = kept.iter().map(|at| name(*at)).collect::<Vec<_>>();
                Command::Unlock { owner: owner(*by)?, locks: Unlock::AllBut(&spared) }
            }
            Step::Undo { lock, again } => {
                let owner;
                let granted;
                (owner, granted) = pick(&self.locked, *lock)?;
                undone = granted
                    .iter()
                    .map(|(name, OwnedLock { token, how, .. })| Acquisition {
                        name: *name,
                        token: *token,
                        how: *how,
                        again: *again,
                    })
                    .collect::<Vec<_>>();
                Command::Undo { owner, locks: &undone }
            }
            Step::Claim { name: at, ttl_ms } => Command::Claim(NewClaim {
                name: name(*at),
                claimant: "claimant",
                ttl_ms: *ttl_ms,
                late_ms: 0,
                seal: Seal(self.claims.len() as u64),
                metadata: Some("m"),
            }),
            Step::RenewClaim(number) => {
                let (name, token) = claim(*number)?;
                Command::RenewClaim { name, token: Some(token), late_ms: 0 }
            }
            Step::ReleaseClaim(number) => {
                let (name, token) = claim(*number)?;
                Command::ReleaseClaim { name, token: Some(token) }
            }
            Step::Finalize(number) => {
                let (name, token) = claim(*number)?;
                Command::Finalize { name, token: Some(token) }
            }
            Step::Unassign { name: at } => Command::Unassign { name: name(*at), token: None },
            other => panic!("{other:?} is no command"),
        };
        Some(carry_out(&mut self.manager, self.now, command))
    }
}

/// No command adds more to what the manager takes than it says before.
fn carry_out<S: BuildHasher>(manager: &mut LockManager<S>, now: Instant, command: Command<'_>) -> Outcome {
    let name = match command {
        Command::Finalize { name, .. } => name.as_wtf8().len(),
        _ => 0,
    };
    let most = manager.bytes() + manager.most_bytes_of(&command) + name;
    let outcome = manager.handle(now, command);
    assert!(manager.bytes() <= most, "{command:?} made it {} bytes, at most {most}", manager.bytes());
    outcome
}

fn name(at: usize) -> Name<'static> {
    Name::new(NAMES[at]).expect("none begins with a hyphen")
}

fn pick<T: Clone>(from: &[T], number: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[number % from.len()].clone())
}
