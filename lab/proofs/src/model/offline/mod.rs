//! A small world of two owners, one claimant and one agent, on two names.

pub mod action;
mod announced;
mod ends;

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, Effect, GrantToUndo, HoldToBreak, Instant, Limits, LockManager, LockState,
    Mode, Name, NewAgent, NewClaim, NewLocks, NewOwner, NewRequest, Outcome, OwnedLock, OwnerId, Party,
    SecretSeed, Unlock,
};

use super::announced::{Breach, promise};
use super::{Key, KeyBuilder, SmallWorld};
use action::{AGENTS_REQUESTS, Action, Ask, CLAIM, NAMES, OWNERS, TICK_MS, TTL, Which};
use announced::{Announced, Status};

#[derive(Clone)]
pub(super) struct World {
    core: LockManager<FixedState>,
    agent: AgentId,
    announced: Announced,
}

impl SmallWorld for World {
    type Action = Action;

    /// The agent has joined, and there is no owner or claim.
    fn new(_requests: u32) -> Result<Self, Breach> {
        let limits = Limits { requests_per_agent: AGENTS_REQUESTS, ..Limits::DEFAULT };
        let mut core = LockManager::with_limits(FixedState::default(), limits);
        match core.handle(Instant::default(), Command::Join(NewAgent::new("agent"))) {
            Outcome::Joined(agent) => Ok(Self { core, agent, announced: Announced::default() }),
            other => Err(format!("the agent is answered by {other:?}")),
        }
    }

    fn actions(&self) -> Vec<Action> {
        let finish =
            self.announced.asked.iter().enumerate().filter(|(_, asked)| asked.status != Status::Ended);
        let finish = finish.map(|(request, _)| Action::Finish { request });
        action::all().into_iter().filter(|action| self.is_possible(*action)).chain(finish).collect()
    }

    fn act(&mut self, action: Action) -> Result<(), Breach> {
        if action == Action::Tick {
            self.announced.now += 1;
            self.core.handle_timeout(self.now());
            let effects = self.effects();
            return self.announced.observe(action, None, &effects);
        }
        let outcome = self.carry_out(action)?;
        let effects = self.effects();
        self.announced.observe(action, Some(&outcome), &effects)
    }

    fn check(&mut self) -> Result<(), Breach> {
        for (name, text) in NAMES.iter().enumerate() {
            let held = self.announced.held_modes(name);
            let alone = held.len() < 2 || held.iter().all(|mode| *mode == Mode::Shared);
            promise!(alone, "{text} is held by {held:?} at once");
            if let Some(first) = self.announced.pending(name).next() {
                promise!(
                    !self.announced.fits(name, first.mode),
                    "{first:?} is first and grantable, and still waits"
                );
            }
            self.check_claims(name)?;
        }
        self.check_owners()?;
        self.check_snapshot()?;
        self.check_deadlines()
    }

    /// Commands that come too late change nothing; when all have ended nothing is left.
    fn try_out(mut self) -> Result<(), Breach> {
        let never = OwnerId::new(1 << 50);
        let outcome = self.core.handle(self.now(), Command::Touch { owner: never });
        promise!(outcome == Outcome::Renewed { alive: false }, "a stranger is answered by {outcome:?}");
        for name in 0..NAMES.len() {
            self.act(Action::Finalize { name, which: Which::Former })?;
            self.act(Action::GiveBack { name, which: Which::Last })?;
            self.act(Action::Finalize { name, which: Which::Last })?;
            self.act(Action::Unassign { name })?;
        }
        for owner in 0..OWNERS {
            if self.announced.owners[owner].is_some() {
                self.act(Action::EndOwner { owner })?;
            }
        }
        self.core.handle(self.now(), Command::End { agent: self.agent });
        let left = (self.core.len(), self.core.names(), self.core.next_timeout(), self.core.owners().len());
        promise!(left == (0, 0, None, 0), "when all have ended {left:?} is left");
        promise!(self.core.assignments().len() == 0, "an assignment is left");
        Ok(())
    }

    /// Tokens and instants are left out or counted from now.
    fn key(&self) -> Key {
        let mut key = KeyBuilder::new();
        for name in 0..NAMES.len() {
            self.push_name(&mut key, name);
        }
        for (owner, announced) in self.announced.owners.iter().enumerate() {
            key.push(
                announced
                    .as_ref()
                    .map_or(0, |announced| 1 + u128::from(announced.expires - self.announced.now)),
                2,
            );
            let undoable = self.announced.undoable(owner);
            key.push(
                (0..NAMES.len())
                    .map(|name| u128::from(undoable.iter().any(|(of, _)| *of == name)) << name)
                    .sum(),
                2,
            );
            key.push(
                undoable
                    .iter()
                    .map(|(name, how)| u128::from(*how == lockhouse_core::Acquired::Fresh) << name)
                    .sum(),
                2,
            );
            // The older lock goes first when the owner ends.
            let tokens: Vec<_> = self.announced.owners[owner].iter().flat_map(|owner| owner.locks).collect();
            key.push(u128::from(tokens.first() > tokens.last()), 1);
        }
        let wakes =
            self.core.next_timeout().map_or(0, |at| 1 + at.as_millis() / TICK_MS - self.announced.now);
        key.push(u128::from(wakes), 3);
        key.finish()
    }
}

impl World {
    fn is_possible(&self, action: Action) -> bool {
        let lives = |owner: usize| self.announced.owners[owner].is_some();
        match action {
            Action::Open { owner } => !lives(owner),
            Action::Touch { owner }
            | Action::EndOwner { owner }
            | Action::Lock { owner, .. }
            | Action::LockBoth { owner }
            | Action::Unlock { owner, .. }
            | Action::UnlockAllBut { owner } => lives(owner),
            Action::Undo { owner } => !self.announced.undoable(owner).is_empty(),
            Action::Renew { name, which }
            | Action::GiveBack { name, which }
            | Action::Finalize { name, which } => self.announced.token(name, which).is_some(),
            Action::Break { name } => self.announced.hold_to_break(name).is_some(),
            _ => true,
        }
    }

    fn carry_out(&mut self, action: Action) -> Result<Outcome, Breach> {
        let now = self.now();
        let owner = |owner: usize| self.announced.id(owner).ok_or("nobody there");
        let locks: Vec<(Name<'_>, Mode)>;
        let unlocks: Vec<_>;
        let undone: Vec<GrantToUndo<'_>>;
        let spared = [name(NAMES.len() - 1)?];
        let command = match action {
            Action::Request { name: of, ask } => {
                let acquire = match ask {
                    Ask::Exclusive => Acquire::Wait(Mode::Exclusive),
                    Ask::Shared => Acquire::Wait(Mode::Shared),
                    Ask::Steal => Acquire::Steal,
                };
                Command::Request(NewRequest::new(self.agent, name(of)?, acquire))
            }
            Action::Finish { request } => match self.announced.asked[request] {
                announced::Asked { id: request, status: Status::Pending, .. } => Command::Abort { request },
                announced::Asked { id: request, .. } => Command::Release { request },
            },
            Action::Open { owner } => {
                let (label, ttl_ms) = (LABELS[owner], TTL * TICK_MS);
                Command::OpenOwner(NewOwner {
                    label,
                    metadata: None,
                    ttl_ms,
                    max_ms: None,
                    seed: SecretSeed(1),
                })
            }
            Action::Touch { owner: by } => Command::Touch { owner: owner(by)? },
            Action::EndOwner { owner: by } => Command::EndOwner { owner: owner(by)? },
            Action::Lock { owner: by, name: of, mode } => {
                locks = vec![(name(of)?, mode)];
                Command::Lock(NewLocks { owner: owner(by)?, locks: &locks, metadata: None })
            }
            Action::LockBoth { owner: by } => {
                locks = (0..NAMES.len())
                    .map(|of| Ok((name(of)?, Mode::Exclusive)))
                    .collect::<Result<_, Breach>>()?;
                Command::Lock(NewLocks { owner: owner(by)?, locks: &locks, metadata: None })
            }
            Action::Unlock { owner: by, name: of } => {
                unlocks = vec![(name(of)?, self.announced.lock(by, of).map(|(_, token)| token))];
                Command::Unlock { owner: owner(by)?, locks: Unlock::These(&unlocks) }
            }
            Action::UnlockAllBut { owner: by } => {
                Command::Unlock { owner: owner(by)?, locks: Unlock::AllBut(&spared) }
            }
            Action::Undo { owner: by } => {
                let last = self.announced.owners[by].iter().flat_map(|owner| &owner.last);
                let acquired = |(of, lock): &(usize, OwnedLock)| {
                    let OwnedLock { token, how, .. } = *lock;
                    Ok(GrantToUndo { name: name(*of)?, token, how, repeats: 0 })
                };
                undone = last.map(acquired).collect::<Result<_, Breach>>()?;
                Command::Undo { owner: owner(by)?, locks: &undone }
            }
            Action::Claim { .. }
            | Action::Renew { .. }
            | Action::GiveBack { .. }
            | Action::Finalize { .. }
            | Action::Unassign { .. }
            | Action::Break { .. } => self.command_on_name(action)?,
            Action::Tick => return Err("a tick is no command".to_owned()),
        };
        Ok(self.core.handle(now, command))
    }

    fn command_on_name(&self, action: Action) -> Result<Command<'static>, Breach> {
        let claim = |of: usize, which: Which| Ok::<_, Breach>((name(of)?, self.announced.token(of, which)));
        let command = match action {
            Action::Claim { name: of } => {
                let (name, ttl_ms) = (name(of)?, CLAIM * TICK_MS);
                Command::Claim(NewClaim {
                    name,
                    claimant: "claimant",
                    ttl_ms,
                    seed: SecretSeed(1),
                    metadata: None,
                })
            }
            Action::Renew { name: of, which } => {
                let (name, token) = claim(of, which)?;
                Command::RenewClaim { name, token }
            }
            Action::GiveBack { name: of, which } => {
                let (name, token) = claim(of, which)?;
                Command::ReleaseClaim { name, token }
            }
            Action::Finalize { name: of, which } => {
                let (name, token) = claim(of, which)?;
                Command::Finalize { name, token }
            }
            Action::Unassign { name: of } => Command::Unassign { name: name(of)?, token: None },
            Action::Break { name: of } => {
                let token = self.announced.hold_to_break(of).ok_or("nothing is held")?;
                Command::Break(HoldToBreak { name: name(of)?, token, operator: "ops", reason: None })
            }
            other => return Err(format!("{other:?} is of no name alone")),
        };
        Ok(command)
    }

    /// The core has the state that its changes announced, and no more.
    fn check_claims(&self, of: usize) -> Result<(), Breach> {
        let (claims, name) = (&self.announced.claims[of], name(of)?);
        let current =
            self.core.claim_of(name).map(|claim| (claim.token, claim.expires.as_millis() / TICK_MS));
        promise!(current == claims.current, "{current:?} is current, {claims:?} was told");
        let assigned = self.core.assignment_of(name).map(|assignment| assignment.token);
        promise!(assigned == claims.assigned, "{assigned:?} is assigned, {claims:?} was told");
        Ok(())
    }

    fn check_owners(&self) -> Result<(), Breach> {
        promise!(
            self.core.owners().len() == self.announced.owners.iter().flatten().count(),
            "other owners live"
        );
        for owner in self.announced.owners.iter().flatten() {
            let view = self.core.owner(owner.id).ok_or_else(|| format!("{owner:?} does not live"))?;
            promise!(
                view.expires.as_millis() == owner.expires * TICK_MS,
                "{owner:?} ends at {:?}",
                view.expires
            );
            let mut locks: [Option<_>; NAMES.len()] = Default::default();
            for lock in self.core.locks_of(owner.id) {
                let at = NAMES.iter().position(|name| lock.name.as_name().as_str() == Some(name));
                locks[at.ok_or("a lock of another name")?] = Some((lock.mode, lock.token));
            }
            promise!(locks == owner.locks, "{owner:?} has {locks:?}");
        }
        Ok(())
    }

    fn check_snapshot(&mut self) -> Result<(), Breach> {
        let now = self.now();
        let Outcome::Snapshot(snapshot) = self.core.handle(now, Command::Snapshot) else {
            return Err("a snapshot is answered by something else".to_owned());
        };
        let live = |status: fn(Status) -> bool| {
            self.announced.asked.iter().filter(move |asked| status(asked.status))
        };
        let held = live(|status| matches!(status, Status::Held(_))).count();
        let owned = self.announced.owners.iter().flatten().flat_map(|owner| owner.locks).flatten().count();
        let claimed = self.announced.claims.iter().filter(|claims| claims.current.is_some()).count();
        let shown =
            |party: fn(&Party) -> bool| snapshot.held.iter().filter(|entry| party(&entry.party)).count();
        let counts = (
            shown(|party| matches!(party, Party::Agent(_))),
            shown(|party| matches!(party, Party::Owner(_))),
            shown(|party| matches!(party, Party::Claimant)),
            snapshot.pending.len(),
        );
        let announced = (held, owned, claimed, live(|status| status == Status::Pending).count());
        promise!(counts == announced, "{counts:?} are shown, {announced:?} were told");
        promise!(snapshot.held.iter().all(|entry| matches!(entry.state, LockState::Held(_))), "{snapshot:?}");
        promise!(self.core.len() == held + owned + claimed + announced.3, "{} are counted", self.core.len());
        Ok(())
    }

    /// Nothing that is due goes on, and the core wakes in time for what comes.
    fn check_deadlines(&self) -> Result<(), Breach> {
        let owners = self.announced.owners.iter().flatten().map(|owner| owner.expires);
        let claims =
            self.announced.claims.iter().filter_map(|claims| claims.current).map(|(_, expires)| expires);
        let next = owners.chain(claims).min();
        promise!(
            next.is_none_or(|next| next > self.announced.now),
            "something is due since {next:?} and goes on"
        );
        let wakes = self.core.next_timeout().map(Instant::as_millis);
        let in_time = match (wakes, next) {
            (Some(wakes), Some(next)) => wakes <= next * TICK_MS,
            (None, None) => true,
            _ => false,
        };
        promise!(in_time, "the core wakes at {wakes:?} ms, something ends at tick {next:?}");
        Ok(())
    }

    fn push_name(&self, key: &mut KeyBuilder, name: usize) {
        // Holders in the order of their grants: the agent, the owners, the claimant.
        let mut held: Vec<(u64, u128)> = Vec::new();
        for asked in self.announced.asked.iter().filter(|asked| asked.name == name) {
            if let Status::Held(token) = asked.status {
                held.push((token.get(), u128::from(asked.mode == Mode::Shared)));
            }
        }
        for owner in 0..OWNERS {
            let lock = self.announced.lock(owner, name);
            held.extend(lock.map(|(mode, token)| {
                (token.get(), 2 + 2 * owner as u128 + u128::from(mode == Mode::Shared))
            }));
        }
        held.extend(self.announced.claims[name].current.map(|(token, _)| (token.get(), 6)));
        held.sort_unstable();
        key.push(held.len() as u128, 3);
        held.iter().for_each(|(_, holder)| key.push(*holder, 3));
        let pending: Vec<Mode> = self.announced.pending(name).map(|asked| asked.mode).collect();
        key.push(pending.len() as u128, 2);
        pending.iter().for_each(|mode| key.push(u128::from(*mode == Mode::Shared), 1));
        let claims = &self.announced.claims[name];
        key.push(claims.current.map_or(0, |(_, expires)| u128::from(expires - self.announced.now)), 2);
        key.push(u128::from(claims.assigned.is_some()), 1);
        key.push(u128::from(claims.last.is_some()), 1);
        key.push(u128::from(claims.former.is_some()), 1);
    }

    fn now(&self) -> Instant {
        Instant::from_millis(self.announced.now * TICK_MS)
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.core.poll_effect()).collect()
    }
}

const LABELS: [&str; OWNERS] = ["first", "second"];

fn name(of: usize) -> Result<Name<'static>, Breach> {
    Name::new(NAMES[of]).map_err(|invalid| invalid.to_string())
}
