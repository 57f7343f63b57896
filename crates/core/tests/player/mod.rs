//! A manager that carries out random commands, and all agents and owners that it ever had.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::FixedState;
use lockhouse_core::{
    AgentId, Change, Command, Effect, FencingToken, Instant, LockManager, NameBuf, Outcome, OwnerId,
    RequestId, RequestStatus, Snapshot,
};
use proptest::prelude::*;
use random::Random;
use random::commands::{Action, Durable, Labels, Lists, Present, Start, Step, Story, World, foreign};

static FOREIGN: LazyLock<(AgentId, RequestId)> = LazyLock::new(foreign);

/// Sequences of commands, each over a world of its own. Stories are drawn from bytes, so that a failing story
/// becomes shorter by leaving out some bytes.
pub(crate) fn stories() -> impl Strategy<Value = Story> {
    prop::collection::vec(any::<u8>(), 1..4000).prop_map(|bytes| story(&bytes))
}

/// A configuration with that number of stories, and a few seconds to shorten one that fails: each attempt
/// plays a whole story.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { max_shrink_time: 5_000, ..ProptestConfig::with_cases(cases) }
}

fn story(bytes: &[u8]) -> Story {
    let mut choices = Random::of_bytes(bytes);
    let world = World::new(&mut choices);
    let mut player = Player::new(&world.start, FixedState::default());
    let mut story = Story { start: world.start.clone(), steps: Vec::new() };
    while !choices.is_spent() && story.steps.len() < world.length {
        let view = player.labels.view(player.now, player.manager.next_timeout());
        let step = world.step(story.steps.len(), &mut choices, &view);
        player.play(&step);
        story.steps.push(step);
    }
    story
}

pub(crate) struct Player<S> {
    pub(crate) manager: LockManager<S>,
    pub(crate) now: Instant,
    pub(crate) labels: Labels,
    pub(crate) owners: Vec<OwnerId>,
    pub(crate) claims: Vec<(NameBuf, FencingToken)>,
    /// Every name that was claimed.
    pub(crate) names: BTreeSet<NameBuf>,
    /// Every change that the manager reported.
    pub(crate) stored: Vec<Change>,
    pub(crate) closed: bool,
    start: Start,
    hasher: S,
}

impl<S: BuildHasher + Clone> Player<S> {
    pub(crate) fn new(start: &Start, hasher: S) -> Self {
        let mut manager = LockManager::with_limits(hasher.clone(), start.limits);
        manager.continue_tokens_above(start.token_mark);
        Self {
            manager,
            now: Instant::default(),
            labels: Labels::new(*FOREIGN),
            owners: vec![],
            claims: vec![],
            names: BTreeSet::new(),
            stored: vec![],
            closed: false,
            start: start.clone(),
            hasher,
        }
    }

    /// The results of the step. A step that refers to an agent or owner before there is one does nothing.
    pub(crate) fn play(&mut self, step: &Step) -> (Option<Outcome>, Vec<Effect>) {
        self.now = self.now.max(Instant::from_millis(step.at_ms));
        let mut lists = Lists::default();
        let outcome = match &step.action {
            Action::Timeout => {
                self.manager.handle_timeout(self.now);
                None
            }
            Action::Durable(Durable::Restart { recovery_ms }) => {
                self.restart(*recovery_ms);
                None
            }
            action => self
                .labels
                .command(action, &mut lists)
                .map(|command| carry_out(&mut self.manager, self.now, command)),
        };
        if let Some(outcome) = &outcome {
            self.learn(&step.action, outcome);
        }
        let effects = self.take_effects();
        self.labels.look(&self.present());
        (outcome, effects)
    }

    /// The effects of a call, whose changes are stored.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        let effects: Vec<Effect> = std::iter::from_fn(|| self.manager.poll_effect()).collect();
        self.stored.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Change(change) => Some((**change).clone()),
            _ => None,
        }));
        effects
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        match self.manager.handle(self.now, Command::Snapshot) {
            Outcome::Snapshot(snapshot) => snapshot,
            other => panic!("{other:?}"),
        }
    }

    /// A manager with the state that must survive a restart.
    pub(crate) fn restored(&self, changes: &[Change]) -> LockManager<S> {
        let mut manager = LockManager::with_limits(self.hasher.clone(), self.start.limits);
        manager.continue_tokens_above(self.start.token_mark);
        for change in changes {
            manager.replay(self.now, change).unwrap_or_else(|error| panic!("{change:?}: {error}"));
        }
        assert!(manager.poll_effect().is_none(), "a restored fact is told again");
        manager
    }

    fn restart(&mut self, recovery_ms: Option<u64>) {
        self.manager = self.restored(&self.stored);
        self.closed = false;
        self.labels.restart(self.manager.last_token());
        if let Some(ms) = recovery_ms {
            self.manager.begin_recovery(self.now.plus_millis(ms));
        }
    }

    fn learn(&mut self, action: &Action, outcome: &Outcome) {
        self.labels.learn(action, outcome).unwrap_or_else(|error| panic!("{error}"));
        match (action, outcome) {
            (_, Outcome::Closed) => self.closed = true,
            (_, Outcome::OwnerOpened(owner)) => self.owners.push(*owner),
            (Action::Durable(Durable::Claim { name, .. }), Outcome::Claimed(grant)) => {
                self.claims.push((name.clone(), grant.token));
                self.names.insert(name.clone());
            }
            _ => {}
        }
    }

    fn holds(&self) -> Vec<(NameBuf, FencingToken)> {
        let web = self.labels.requests().filter_map(|id| self.manager.web_lock(id));
        let web = web.map(|lock| (lock.name.to_buf(), lock.token));
        let owners = self.manager.owners().flat_map(|owner| self.manager.locks_of(owner.owner));
        let claim = |(name, token): &(NameBuf, FencingToken)| {
            let stands = self.manager.claim_of(name.as_name()).is_some_and(|claim| claim.token == *token);
            stands.then(|| (name.clone(), *token))
        };
        let offline = owners.map(|lock| (lock.name, lock.token));
        self.claims.iter().filter_map(claim).chain(offline).chain(web).collect()
    }

    pub(crate) fn present(&self) -> Present {
        let stands = |held: bool| {
            let is = move |id: &RequestId| match self.manager.status(*id) {
                RequestStatus::Held(_) => held,
                RequestStatus::Pending => !held,
                RequestStatus::Ended => false,
            };
            self.labels.requests().filter(is).collect()
        };
        Present {
            agents: self.labels.agents().filter(|agent| self.manager.is_alive(*agent)).collect(),
            held: stands(true),
            pending: stands(false),
            owners: self.manager.owners().map(|owner| owner.owner).collect(),
            holds: self.holds(),
            recovering: self.manager.is_recovering(),
        }
    }
}

/// No command adds more to the manager's memory than the bound given before.
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
