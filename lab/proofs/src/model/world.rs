//! A small world: the core, the output that it has given, and the checks of the promises on both.

use foldhash::fast::FixedState;
use lockhouse_core::{
    Command, Effect, Instant, Limits, LockManager, LockState, Name, NewAgent, NewRequest, Outcome, Party,
    RequestStatus, Snapshot, SnapshotEntry,
};

use super::action::{AGENTS, Action, HOLD, KINDS, LEASE, NAMES, SHARED_IF_AVAILABLE, TICK_MS};
use super::announced::{Announced, Asked, Breach, Status, promise};
use super::{Key, KeyBuilder, SmallWorld};

#[derive(Clone)]
pub(super) struct World {
    core: LockManager<FixedState>,
    announced: Announced,
    limits: Limits,
}

impl SmallWorld for World {
    type Action = Action;

    /// All agents are there, and nothing else.
    fn new(requests_per_agent: u32) -> Result<Self, Breach> {
        let limits = Limits { requests_per_agent, ..Limits::DEFAULT };
        let core = LockManager::with_limits(FixedState::default(), limits);
        let mut world = Self { core, announced: Announced::default(), limits };
        (0..AGENTS).try_for_each(|agent| world.act(Action::Join { agent }))?;
        Ok(world)
    }

    /// All actions that can happen next, those beyond the bound included.
    fn actions(&self) -> Vec<Action> {
        let mut actions = vec![Action::Tick];
        for agent in 0..AGENTS {
            let Some(alive) = self.announced.agents[agent] else {
                actions.push(Action::Join { agent });
                continue;
            };
            actions.push(Action::End { agent });
            if alive.lease_ends.is_some() {
                actions.push(Action::Renew { agent });
            }
            let all = (0..NAMES.len()).flat_map(|name| (0..KINDS.len()).map(move |kind| (name, kind)));
            actions.extend(all.map(|(name, kind)| Action::Request { agent, name, kind }));
        }
        let live = self.announced.asked.iter().enumerate().filter(|(_, asked)| asked.status != Status::Ended);
        actions.extend(live.map(|(request, _)| Action::Finish { request }));
        actions
    }

    /// Executes the action, and checks all output.
    fn act(&mut self, action: Action) -> Result<(), Breach> {
        let now = Instant::from_millis(self.announced.now * TICK_MS);
        let agent = |agent: usize| self.announced.agents[agent].map(|alive| alive.id).ok_or("nobody there");
        let name = |name: usize| Name::new(NAMES[name]).map_err(|invalid| invalid.to_string());
        let command = match action {
            Action::Request { agent: by, name: of, kind } => {
                let (acquire, hold) = KINDS[kind];
                let mut request = NewRequest::new(agent(by)?, name(of)?, acquire);
                request.max_hold_ms = hold.then_some(HOLD * TICK_MS);
                Command::Request(request)
            }
            Action::Finish { request } => {
                let Asked { id: request, status, .. } = self.announced.asked[request];
                if status == Status::Pending {
                    Command::Abort { request }
                } else {
                    Command::Release { request }
                }
            }
            Action::Join { agent } => Command::Join(NewAgent {
                client_id: NAME_OF[agent],
                lease_ms: (agent == 0).then_some(LEASE * TICK_MS),
            }),
            Action::End { agent: by } => Command::End { agent: agent(by)? },
            Action::Renew { agent: by } => Command::Renew { agent: agent(by)? },
            Action::Tick => return self.tick(),
        };
        let outcome = self.core.handle(now, command);
        let effects = self.effects();
        self.announced.observe(action, Some(&outcome), &effects, self.limits.requests_per_agent)
    }

    /// Checks that the core's state is the one that its output announced, and keeps the promises.
    fn check(&mut self) -> Result<(), Breach> {
        for name in 0..NAMES.len() {
            self.check_name(name)?;
        }
        self.check_snapshot()?;
        self.check_statuses()?;
        self.check_deadlines()
    }

    /// Asks everything that shows whether the state is sound inside as well: commands that come too late or
    /// are of the wrong kind must change nothing, a request that does not wait must find the announced state,
    /// and when all have ended nothing may be left. Hidden state is no part of the key, so this is done upon
    /// every action; the world is over then.
    fn try_out(mut self) -> Result<(), Breach> {
        self.check_stale_commands()?;
        let [first, ..] = self.announced.agents;
        if first.is_none() {
            self.act(Action::Join { agent: 0 })?;
        }
        for name in 0..NAMES.len() {
            self.act(Action::Request { agent: 0, name, kind: SHARED_IF_AVAILABLE })?;
        }
        for agent in 0..AGENTS {
            if self.announced.agents[agent].is_some() {
                self.act(Action::End { agent })?;
            }
        }
        let left = (self.core.len(), self.core.names(), self.core.next_timeout());
        promise!(left == (0, 0, None), "when all have ended {left:?} is left");
        Ok(())
    }

    /// The key leaves out tokens, identities and instants or counts them from now: it has holders and waiters
    /// in their order, how old each request is among its agent's, and the next deadlines.
    fn key(&self) -> Key {
        let mut key = KeyBuilder::new();
        for name in 0..NAMES.len() {
            let mut held: Vec<_> = self.announced.held(name).collect();
            held.sort_by_key(|held| match held.status {
                Status::Held { token, .. } => token.get(),
                _ => 0,
            });
            let pending: Vec<_> = self.announced.pending(name).collect();
            key.push(held.len() as u128, 4);
            key.push(pending.len() as u128, 4);
            held.iter().chain(&pending).for_each(|asked| self.push_request(&mut key, asked));
        }
        for agent in self.announced.agents {
            key.push(u128::from(agent.is_some()), 1);
        }
        let lease = self.announced.agents[0].and_then(|alive| alive.lease_ends);
        key.push(u128::from(lease.map_or(0, |ends| ends - self.announced.now)), 2);
        let wakes = self.core.next_timeout().map_or(0, |at| at.as_millis() / TICK_MS - self.announced.now);
        key.push(u128::from(wakes), 2);
        key.finish()
    }
}

impl World {
    fn tick(&mut self) -> Result<(), Breach> {
        self.announced.now += 1;
        self.core.handle_timeout(Instant::from_millis(self.announced.now * TICK_MS));
        let effects = self.effects();
        self.announced.observe(Action::Tick, None, &effects, self.limits.requests_per_agent)
    }

    fn check_stale_commands(&mut self) -> Result<(), Breach> {
        let now = Instant::from_millis(self.announced.now * TICK_MS);
        for Asked { id: request, status, .. } in &self.announced.asked {
            let request = *request;
            if !matches!(status, Status::Held { .. }) {
                let outcome = self.core.handle(now, Command::Release { request });
                promise!(outcome == Outcome::Released { held: false }, "release of {status:?}: {outcome:?}");
            }
            if *status != Status::Pending {
                let outcome = self.core.handle(now, Command::Abort { request });
                promise!(outcome == Outcome::Aborted { pending: false }, "abort of {status:?}: {outcome:?}");
            }
        }
        for &agent in &self.announced.dead {
            let outcome = self.core.handle(now, Command::End { agent });
            promise!(outcome == Outcome::Ended { alive: false }, "end of a dead agent: {outcome:?}");
            let outcome = self.core.handle(now, Command::Renew { agent });
            promise!(outcome == Outcome::Renewed { alive: false }, "renewal of a dead agent: {outcome:?}");
        }
        promise!(self.core.poll_effect().is_none(), "a stale command has an effect");
        Ok(())
    }

    /// Exclusion, and no request waits without a reason.
    fn check_name(&self, name: usize) -> Result<(), Breach> {
        let held: Vec<_> = self.announced.held(name).collect();
        let exclusive = held.iter().filter(|held| held.mode == lockhouse_core::Mode::Exclusive).count();
        promise!(exclusive == 0 || held.len() == 1, "{held:?} are held at once");
        if let Some(first) = self.announced.pending(name).next() {
            promise!(
                !self.announced.fits(name, first.mode),
                "{first:?} is first and grantable, and still waits"
            );
        }
        Ok(())
    }

    /// The snapshot shows exactly the announced state: pending in the order of arrival, held as a set.
    fn check_snapshot(&mut self) -> Result<(), Breach> {
        let snapshot = self.snapshot()?;
        let mut names = 0;
        for (name, text) in NAMES.iter().enumerate() {
            let of_name = |entry: &&SnapshotEntry| entry.name.as_name().as_str() == Some(text);
            let pending: Vec<_> = snapshot.pending.iter().filter(of_name).collect();
            let announced: Vec<_> = self.announced.pending(name).collect();
            promise!(pending.len() == announced.len(), "told {announced:?}, shown {pending:?}");
            for (place, (shown, announced)) in (1..).zip(pending.iter().zip(&announced)) {
                self.check_entry(shown, announced)?;
                promise!(shown.state == LockState::Pending { place }, "{shown:?} stands at place {place}");
            }
            let held: Vec<_> = snapshot.held.iter().filter(of_name).collect();
            promise!(held.len() == self.announced.held(name).count(), "told other locks than {held:?}");
            for shown in &held {
                let mut all = self.announced.held(name);
                let announced = all.find(|announced| matches!(announced.status, Status::Held { token, .. } if shown.state == LockState::Held(token)));
                self.check_entry(shown, announced.ok_or_else(|| format!("nobody was told of {shown:?}"))?)?;
            }
            names += usize::from(!pending.is_empty() || !held.is_empty());
        }
        let counted = (self.core.len(), self.core.names());
        promise!(counted == (snapshot.pending.len() + snapshot.held.len(), names), "{counted:?} are counted");
        promise!(self.announced.live().count() == counted.0, "a snapshot of {counted:?} shows other names");
        Ok(())
    }

    fn check_entry(&self, shown: &SnapshotEntry, announced: &Asked) -> Result<(), Breach> {
        let alive = self.announced.agents[announced.agent]
            .ok_or_else(|| format!("{announced:?} is of an agent that has ended"))?;
        let same = shown.party == Party::Agent(alive.id)
            && shown.label == NAME_OF[announced.agent]
            && shown.mode == announced.mode;
        let expires = match announced.status {
            Status::Held { expires, .. } => expires.map(|at| Instant::from_millis(at * TICK_MS)),
            _ => None,
        };
        promise!(same && shown.expires == expires, "{shown:?} was told as {announced:?}");
        Ok(())
    }

    fn check_statuses(&self) -> Result<(), Breach> {
        for announced in &self.announced.asked {
            let expected = match announced.status {
                Status::Pending => RequestStatus::Pending,
                Status::Held { token, .. } => RequestStatus::Held(token),
                Status::Ended => RequestStatus::Ended,
            };
            let status = self.core.status(announced.id);
            promise!(status == expected, "{announced:?} stands {status:?}");
        }
        let dead_lives = self.announced.dead.iter().any(|id| self.core.is_alive(*id));
        let alive_dead = self.announced.agents.iter().flatten().any(|alive| !self.core.is_alive(alive.id));
        promise!(!dead_lives && !alive_dead, "the wrong agents live");
        Ok(())
    }

    /// Nothing that is due goes on, and the core wakes in time for what comes.
    fn check_deadlines(&self) -> Result<(), Breach> {
        let next = self.next_due();
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

    fn next_due(&self) -> Option<u64> {
        let leases = self.announced.agents.iter().flatten().filter_map(|alive| alive.lease_ends);
        let holds = self.announced.asked.iter().filter_map(|asked| match asked.status {
            Status::Held { expires, .. } => expires,
            _ => None,
        });
        leases.chain(holds).min()
    }

    fn effects(&mut self) -> Vec<Effect> {
        let all = std::iter::from_fn(|| self.core.poll_effect());
        all.filter(|effect| !matches!(effect, Effect::Change(_))).collect()
    }

    fn snapshot(&mut self) -> Result<Snapshot, Breach> {
        match self.core.handle(Instant::from_millis(self.announced.now * TICK_MS), Command::Snapshot) {
            Outcome::Snapshot(snapshot) => Ok(snapshot),
            other => Err(format!("a snapshot is answered by {other:?}")),
        }
    }

    fn push_request(&self, key: &mut KeyBuilder, asked: &Asked) {
        key.push(asked.agent as u128, 2);
        key.push(u128::from(asked.mode == lockhouse_core::Mode::Shared), 1);
        // The age among its agent's requests decides in which order they go with it.
        let older = self.announced.live().take_while(|older| older.id != asked.id);
        key.push(older.clone().filter(|older| older.agent == asked.agent).count() as u128, 2);
        // The age among those with a longest hold decides which one ends first if two do at one instant.
        key.push(u128::from(asked.hold), 1);
        if asked.hold {
            key.push(older.filter(|older| older.hold).count() as u128, 4);
        }
        if let Status::Held { expires: Some(at), .. } = asked.status {
            key.push(u128::from(at - self.announced.now), 1);
        }
    }
}

const NAME_OF: [&str; AGENTS] = ["leased", "second", "third"];
