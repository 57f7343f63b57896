//! The core and the transcription, driven by the same steps and compared after each.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use lockhouse_core::{
    AgentId, AssignmentRecord, AssignmentView, Change, ClaimRecord, Command, Effect, Grant, Instant,
    LockManager, Mode, NameBuf, Now, Outcome, OwnerRecord, OwnerView, RequestId, RequestStatus, Snapshot,
};
use random::commands::{Action, Durable, Labels, Lists, Present, Start, Step, View};

use super::histogram::Histogram;
use super::literal::{DurableState, Fresh, Literal};
use crate::panics::guarded;

/// A difference in words.
pub(super) type Difference = String;

/// The number of requests and locks up to which snapshots are compared after every step, else after every
/// 16th.
const SMALL: usize = 64;

pub(super) struct Pair {
    core: LockManager<FixedState>,
    literal: Literal,
    now: Instant,
    /// The instant of the last command, no earlier than its tick.
    came: Instant,
    steps: usize,
    labels: Labels,
    start: Start,
    /// All changes that the core announced.
    changes: Vec<Change>,
    /// The effects of the present step that were taken from the core.
    effects: Vec<Effect>,
}

impl Pair {
    pub(super) fn new(start: &Start, foreign: (AgentId, RequestId)) -> Self {
        let mut core = LockManager::with_limits(FixedState::with_seed(start.hash_seed), start.limits);
        core.continue_tokens_above(start.token_mark);
        Self {
            core,
            literal: Literal::new(start.limits, start.token_mark),
            now: Instant::default(),
            came: Instant::default(),
            steps: 0,
            labels: Labels::new(foreign),
            start: start.clone(),
            changes: Vec::new(),
            effects: Vec::new(),
        }
    }

    pub(super) fn view(&self) -> View<'_> {
        self.labels.view(self.now, self.literal.next_due())
    }

    /// Plays one step on both. A panic of either counts as a difference.
    pub(super) fn play(&mut self, step: &Step, histogram: &mut Histogram) -> Result<(), Difference> {
        guarded(|| self.play_unguarded(step, histogram))
    }

    fn play_unguarded(&mut self, step: &Step, histogram: &mut Histogram) -> Result<(), Difference> {
        if self.now < Instant::from_millis(step.at_ms) {
            self.now = self.came.max(Instant::from_millis(step.at_ms));
            self.came = self.now;
        }
        self.steps += 1;
        let outcome = if matches!(step.action, Action::Timeout) {
            self.time_passes();
            None
        } else if let Action::Durable(Durable::Restart { recovery_ms }) = step.action {
            self.restart(recovery_ms)?;
            None
        } else {
            // Without a command, what the step refers to was left out of the sequence.
            let mut lists = Lists::default();
            let Some(command) = self.labels.command(&step.action, &mut lists) else { return Ok(()) };
            Some(self.compare_outcomes(&step.action, command)?)
        };
        let effects = self.compare_effects()?;
        self.compare_states()?;
        histogram.count_outcome(&step.action, outcome.as_ref(), effects.len());
        effects.iter().for_each(|effect| histogram.count_effect(effect, self.mode_of(effect)));
        self.changes.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Change(change) => Some(*change),
            _ => None,
        }));
        self.refresh_view();
        Ok(())
    }

    /// All that is due ends; now and then only a few void locks do.
    fn time_passes(&mut self) {
        if self.steps.is_multiple_of(2) {
            let most = self.steps / 2 % 3;
            self.core.sweep(self.now, most);
            return self.literal.sweep(self.now, most);
        }
        self.core.handle_timeout(self.now);
        self.effects.extend(std::iter::from_fn(|| self.core.poll_effect()));
        // In which order names are processed after a recovery is the core's to choose.
        let mut order = Vec::new();
        for effect in &self.effects {
            if let Effect::Granted { grant: Grant { request, .. }, .. }
            | Effect::Unavailable { request, .. } = effect
            {
                order.extend(self.literal.waits_for(*request));
            }
        }
        self.literal.handle_timeout(self.now, &order);
    }

    /// Replays the old core's changes into a new core; the transcription forgets all that is not durable.
    fn restart(&mut self, recovery_ms: Option<u64>) -> Result<(), Difference> {
        let hasher = FixedState::with_seed(!self.start.hash_seed);
        self.core = LockManager::with_limits(hasher, self.start.limits);
        self.core.continue_tokens_above(self.start.token_mark);
        for change in &self.changes {
            self.core.replay(self.now, change).map_err(|error| format!("{change:?} is refused: {error}"))?;
        }
        let mut leases = BTreeMap::new();
        for owner in self.core.owners() {
            leases.insert(owner.owner.get(), owner.expires);
        }
        for name in self.literal.durable().claims.iter().map(|claim| claim.name.as_name()) {
            leases.extend(self.core.claim_of(name).map(|claim| (claim.token.get(), claim.expires)));
        }
        let now = self.now;
        // Up to a tenth more than the whole length, but how much is the core's to choose.
        self.literal.restart(|number, length_ms| {
            let (least, most) = (now.plus_millis(length_ms), now.plus_millis(length_ms + length_ms / 10));
            leases.get(&number).map_or(least, |lease| *lease.clamp(&least, &most))
        });
        self.labels.restart(self.core.last_token());
        if let Some(ms) = recovery_ms {
            self.core.begin_recovery(self.now.plus_millis(ms));
            self.literal.begin_recovery(self.now.plus_millis(ms));
        }
        Ok(())
    }

    fn mode_of(&self, effect: &Effect) -> Option<Mode> {
        match effect {
            Effect::Granted { grant, .. } => self.labels.mode_of(grant.request),
            _ => None,
        }
    }

    fn compare_outcomes(&mut self, action: &Action, command: Command<'_>) -> Result<Outcome, Difference> {
        // Commands come with the tick or a little later, and no tick comes before them.
        self.came = self.came.max(self.now.plus_millis(self.steps as u64 % 4));
        let now = Now::late(self.now, self.came.as_millis() - self.now.as_millis());
        let ours = self.core.handle(now, command);
        let theirs = self.literal.handle(now, command, fresh(&ours));
        let theirs = theirs.map_err(|_| format!("the core answers {ours:?}, though it should not refuse"))?;
        match (&ours, &theirs) {
            (Outcome::Snapshot(ours), Outcome::Snapshot(theirs)) => compare_snapshots(ours, theirs)?,
            _ if ours != theirs => {
                return Err(format!("the core answers {ours:?}, the transcription {theirs:?}"));
            }
            _ => {}
        }
        self.labels.learn(action, &ours)?;
        Ok(ours)
    }

    fn compare_effects(&mut self) -> Result<Vec<Effect>, Difference> {
        let mut ours = std::mem::take(&mut self.effects);
        ours.extend(std::iter::from_fn(|| self.core.poll_effect()));
        let theirs = self.literal.take_effects();
        if ours != theirs {
            return Err(format!("the core's effects {ours:?}, the transcription's {theirs:?}"));
        }
        Ok(ours)
    }

    fn compare_states(&mut self) -> Result<(), Difference> {
        self.compare_deadlines()?;
        let counts = [
            ("requests and locks", self.core.len(), self.literal.len()),
            ("owners", self.core.owners().len(), self.literal.owners().len()),
            ("as the reserved mark", self.core.reserved_up_to() as usize, self.literal.reserved() as usize),
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
        let no_ids = Fresh { agent: None, request: None };
        let ours = self.core.handle(self.now, Command::Snapshot);
        let theirs = self.literal.handle(self.now.into(), Command::Snapshot, no_ids);
        if let (Outcome::Snapshot(ours), Ok(Outcome::Snapshot(theirs))) = (ours, theirs) {
            compare_snapshots(&ours, &theirs)?;
        }
        self.compare_durable()?;
        self.compare_possessions()?;
        self.compare_statuses()
    }

    /// Compares the state that would survive a restart, and until when each owner lives.
    fn compare_durable(&self) -> Result<(), Difference> {
        let theirs = self.literal.durable();
        let ours = self.durable_of_core(&theirs);
        if ours != theirs {
            return Err(format!("the core would keep {ours:#?}, the transcription {theirs:#?}"));
        }
        let ours: Vec<_> =
            self.core.owners().map(|owner| (owner.owner, owner.expires, owner.locks)).collect();
        let theirs = self.literal.owner_leases();
        if ours != theirs {
            return Err(format!("the core's owners end at {ours:?}, the transcription's at {theirs:?}"));
        }
        Ok(())
    }

    /// Claims are looked up by their names: by those that the transcription knows.
    fn durable_of_core(&self, theirs: &DurableState) -> DurableState {
        let owner = |view: OwnerView<'_>| OwnerRecord {
            owner: view.owner,
            label: view.label.into(),
            metadata: view.metadata.map(Into::into),
            ttl_ms: view.ttl_ms,
            since: view.since,
            ends: view.ends,
            seed: view.seed,
        };
        let claim = |name: &NameBuf| {
            let view = self.core.claim_of(name.as_name())?;
            Some(ClaimRecord {
                name: name.clone(),
                claimant: view.claimant.into(),
                token: view.token,
                ttl_ms: view.ttl_ms,
                since: view.since,
                seed: view.seed,
                metadata: view.metadata.map(Into::into),
            })
        };
        let assignment = |view: AssignmentView<'_>| AssignmentRecord {
            name: view.name.clone(),
            claimant: view.claimant.into(),
            token: view.token,
            since: view.since,
            seed: view.seed,
        };
        DurableState {
            owners: self.core.owners().map(owner).collect(),
            locks: self.core.owners().flat_map(|owner| self.core.locks_of(owner.owner)).collect(),
            claims: theirs.claims.iter().filter_map(|known| claim(&known.name)).collect(),
            assignments: self.core.assignments().map(assignment).collect(),
        }
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
        for agent in self.labels.agents() {
            let ours: Vec<RequestId> = self.core.requests_of(agent).collect();
            let theirs = self.literal.requests_of(agent);
            if ours != theirs {
                return Err(format!("{agent:?} has {ours:?} in the core, {theirs:?} in the transcription"));
            }
        }
        Ok(())
    }

    fn compare_statuses(&self) -> Result<(), Difference> {
        let held: BTreeMap<_, _> = self.literal.held().into_iter().collect();
        let pending: BTreeSet<_> = self.literal.pending().into_iter().collect();
        for id in self.labels.requests() {
            let theirs = match held.get(&id) {
                Some(token) => RequestStatus::Held(*token),
                None if pending.contains(&id) => RequestStatus::Pending,
                None => RequestStatus::Ended,
            };
            let ours = self.core.status(id);
            if ours != theirs {
                return Err(format!("{id:?} stands {ours:?} in the core, {theirs:?} in the transcription"));
            }
        }
        let alive: BTreeSet<_> = self.literal.agents().into_iter().collect();
        match self.labels.agents().find(|id| self.core.is_alive(*id) != alive.contains(id)) {
            Some(id) => Err(format!("{id:?} lives in one and not in the other")),
            None => Ok(()),
        }
    }

    fn refresh_view(&mut self) {
        self.labels.look(&Present {
            agents: self.literal.agents(),
            held: self.literal.held().into_iter().map(|(request, _)| request).collect(),
            pending: self.literal.pending(),
            owners: self.literal.owners(),
            holds: self.literal.holds(),
            recovering: self.core.is_recovering(),
        });
    }
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
        let mut queues: BTreeMap<NameBuf, Vec<lockhouse_core::SnapshotEntry>> = BTreeMap::new();
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
