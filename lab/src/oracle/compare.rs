//! The core and the transcription, driven by the same steps and compared after each.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquisition, AgentId, AssignmentRecord, AssignmentView, Change, ClaimRecord, Command, Effect,
    FencingToken, Instant, LockManager, Mode, Name, NameBuf, NewAgent, NewClaim, NewLocks, NewOwner,
    NewReclaim, NewRequest, Outcome, OwnedLock, OwnerId, OwnerRecord, OwnerView, RequestId, Seal, Snapshot,
    Standing, Unlock,
};

use super::durable::{Durable, DurableView, Presented};
use super::generator::View;
use super::histogram::Histogram;
use super::literal::{Fresh, Kept, Literal};
use super::step::{Action, Ask, FOREIGN, Label, Start, Step};
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
    start: Start,
    owners: Vec<Option<OwnerId>>,
    owner_labels: BTreeMap<OwnerId, Label>,
    locked: Vec<Option<Vec<OwnedLock>>>,
    claims: Vec<Option<FencingToken>>,
    /// All changes that the core told.
    kept: Vec<Change>,
    // What the generator looks at.
    alive: Vec<Label>,
    held: Vec<Label>,
    pending: Vec<Label>,
    durable: DurableView,
}

/// What a command with lists borrows from.
#[derive(Default)]
struct Lists<'a> {
    locks: Vec<(Name<'a>, Mode)>,
    these: Vec<(Name<'a>, Option<FencingToken>)>,
    spared: Vec<Name<'a>>,
    undone: Vec<Acquisition<'a>>,
}

/// A number that no world comes to.
const FAR: u64 = 1 << 52;
/// Commands refer to so many of the last locks and claims.
const RECENT: usize = 5;

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
            start: start.clone(),
            owners: vec![Some(OwnerId::new(FAR))],
            owner_labels: BTreeMap::from([(OwnerId::new(FAR), FOREIGN)]),
            locked: vec![Some(Vec::new())],
            claims: vec![Some(FencingToken::new(FAR))],
            kept: Vec::new(),
            alive: Vec::new(),
            held: Vec::new(),
            pending: Vec::new(),
            durable: DurableView { next_owner: 1, next_lock: 1, next_claim: 1, ..DurableView::default() },
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
            durable: &self.durable,
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
        } else if let Action::Durable(Durable::Restart { recovery_ms }) = step.action {
            self.restart(recovery_ms)?;
            None
        } else {
            // Without a command, what the step refers to was left out of the sequence.
            let mut lists = Lists::default();
            let Some(command) = self.command(&step.action, &mut lists) else { return Ok(()) };
            Some(self.compare_outcomes(&step.action, command)?)
        };
        let effects = self.compare_effects()?;
        self.compare_states()?;
        histogram.count_outcome(&step.action, outcome.as_ref(), effects.len());
        effects.iter().for_each(|effect| histogram.count_effect(effect, self.mode_of(effect)));
        self.kept.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Change(change) => Some(*change),
            _ => None,
        }));
        self.refresh_view();
        Ok(())
    }

    /// The command with identities in place of labels; `None` if a label stands for nothing.
    fn command<'a>(&self, action: &'a Action, lists: &'a mut Lists<'a>) -> Option<Command<'a>> {
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
                seal: Seal(*owner as u64),
            }),
            Durable::Touch { owner: label } => Command::Touch { owner: owner(label)? },
            Durable::EndOwner { owner: label } => Command::EndOwner { owner: owner(label)? },
            Durable::Lock { owner: label, locks, metadata, .. } => {
                lists.locks = locks.iter().map(|(name, mode)| (name.as_name(), *mode)).collect();
                let metadata = metadata.as_deref();
                Command::Lock(NewLocks { owner: owner(label)?, locks: &lists.locks, metadata })
            }
            Durable::Unlock { owner: label, lock, names, by_token } => {
                let tokens = locked(lock)?.into_iter().map(|lock| by_token.then_some(lock.token));
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
                    .map(|(name, OwnedLock { token, how, .. })| Acquisition {
                        name: name.as_name(),
                        token,
                        how,
                        again: *again,
                    })
                    .collect();
                Command::Undo { owner: owner(label)?, locks: &lists.undone }
            }
            Durable::Claim { claim, name, claimant, ttl_ms, metadata } => Command::Claim(NewClaim {
                name: name.as_name(),
                claimant,
                ttl_ms: *ttl_ms,
                late_ms: 0,
                seal: Seal(*claim as u64),
                metadata: metadata.as_deref(),
            }),
            Durable::Present { what, name, token: label } => {
                let (name, token) = (name.as_name(), token(label)?);
                match what {
                    Presented::Renew => Command::RenewClaim { name, token, late_ms: 0 },
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
            Durable::Restart { .. } => return None,
        })
    }

    /// A new core from what the old one told; the transcription forgets what is not durable.
    fn restart(&mut self, recovery_ms: Option<u64>) -> Result<(), Difference> {
        let hasher = FixedState::with_seed(!self.start.hash_seed);
        self.core = LockManager::with_limits(hasher, self.start.limits);
        self.core.continue_tokens_above(self.start.token_mark);
        for change in &self.kept {
            self.core.restore(self.now, change).map_err(|error| format!("{change:?} is refused: {error}"))?;
        }
        let mut leases = BTreeMap::new();
        for owner in self.core.owners() {
            leases.insert(owner.owner.get(), owner.expires);
        }
        for name in self.literal.kept().claims.iter().map(|claim| claim.name.as_name()) {
            leases.extend(self.core.claim_of(name).map(|claim| (claim.token.get(), claim.expires)));
        }
        let now = self.now;
        // Up to a tenth more than the whole length, but how much is the core's to choose.
        self.literal.restart(|number, length_ms| {
            let (least, most) = (now.plus_millis(length_ms), now.plus_millis(length_ms + length_ms / 10));
            leases.get(&number).map_or(least, |lease| *lease.clamp(&least, &most))
        });
        let (agent, request) = (self.agents[FOREIGN], self.requests[FOREIGN]);
        self.agents.iter_mut().for_each(|agent| *agent = None);
        self.requests.iter_mut().for_each(|request| *request = None);
        (self.agents[FOREIGN], self.requests[FOREIGN]) = (agent, request);
        self.agent_labels.retain(|_, label| *label == FOREIGN);
        self.request_labels.retain(|_, label| *label == FOREIGN);
        self.modes.clear();
        self.last_serial = 0;
        self.durable.before = self.core.last_token();
        if let Some(ms) = recovery_ms {
            self.core.begin_recovery(self.now.plus_millis(ms));
            self.literal.begin_recovery(self.now.plus_millis(ms));
        }
        Ok(())
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
            Action::Request(ask) | Action::Durable(Durable::Reclaim { ask, .. }) => {
                self.learn_request(ask, request)?;
            }
            Action::Durable(action) => self.learn_durable(action, outcome)?,
            _ => {}
        }
        Ok(())
    }

    fn learn_request(&mut self, ask: &Ask, request: Option<RequestId>) -> Result<(), Difference> {
        put(&mut self.requests, ask.request, request);
        let Some(id) = request else { return Ok(()) };
        self.modes.insert(id, ask.acquire.mode());
        if self.request_labels.insert(id, ask.request).is_some() || id.serial() <= self.last_serial {
            return Err(format!("the request id {id:?} is not younger than those given before"));
        }
        self.last_serial = id.serial();
        Ok(())
    }

    fn learn_durable(&mut self, action: &Durable, outcome: &Outcome) -> Result<(), Difference> {
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

    fn compare_effects(&mut self) -> Result<Vec<Effect>, Difference> {
        let ours: Vec<Effect> = std::iter::from_fn(|| self.core.poll_effect()).collect();
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
        let nobody = Fresh { agent: None, request: None };
        let ours = self.core.handle(self.now, Command::Snapshot);
        let theirs = self.literal.handle(self.now, Command::Snapshot, nobody);
        if let (Outcome::Snapshot(ours), Ok(Outcome::Snapshot(theirs))) = (ours, theirs) {
            compare_snapshots(&ours, &theirs)?;
        }
        self.compare_kept()?;
        self.compare_possessions()?;
        self.compare_standings()
    }

    /// What would survive a restart, and until when each owner lives.
    fn compare_kept(&self) -> Result<(), Difference> {
        let theirs = self.literal.kept();
        let ours = self.kept_by_core(&theirs);
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
    fn kept_by_core(&self, theirs: &Kept) -> Kept {
        let owner = |view: OwnerView<'_>| OwnerRecord {
            owner: view.owner,
            label: view.label.into(),
            metadata: view.metadata.map(Into::into),
            ttl_ms: view.ttl_ms,
            since: view.since,
            ends: view.ends,
            seal: view.seal,
        };
        let claim = |name: &NameBuf| {
            let view = self.core.claim_of(name.as_name())?;
            Some(ClaimRecord {
                name: name.clone(),
                claimant: view.claimant.into(),
                token: view.token,
                ttl_ms: view.ttl_ms,
                since: view.since,
                seal: view.seal,
                metadata: view.metadata.map(Into::into),
            })
        };
        let assignment = |view: AssignmentView<'_>| AssignmentRecord {
            name: view.name.clone(),
            claimant: view.claimant.into(),
            token: view.token,
            since: view.since,
            seal: view.seal,
        };
        Kept {
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
        self.durable.owners = self.literal.owners().iter().map(|id| self.owner_labels[id]).collect();
        self.durable.next_owner = self.owners.len();
        self.durable.next_lock = self.locked.len();
        self.durable.next_claim = self.claims.len();
        self.durable.recovering = self.core.is_recovering();
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
