//! The core's output so far, and nothing else: the state of the world as its clients must believe it to be.
//!
//! The promises are checked on every fact the moment it is announced.

use lockhouse_core::{
    Acquire, AgentId, Effect, EndReason, FencingToken, Grant, LossReason, Mode, Outcome, Refusal, RequestId,
};

use super::action::{AGENTS, Action, HOLD, KINDS, LEASE};

/// A promise that was broken, in words.
pub(super) type Breach = String;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Pending,
    Held { token: FencingToken, expires: Option<u64> },
    Ended,
}

/// A request and how it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) agent: usize,
    pub(super) name: usize,
    pub(super) mode: Mode,
    pub(super) hold: bool,
    pub(super) status: Status,
}

/// An agent that lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alive {
    pub(super) id: AgentId,
    pub(super) lease_ends: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Announced {
    pub(super) now: u64,
    /// In order of arrival.
    pub(super) asked: Vec<Asked>,
    pub(super) agents: [Option<Alive>; AGENTS],
    pub(super) dead: Vec<AgentId>,
    pub(super) last_token: u64,
}

/// Fails with the text unless the promise holds.
macro_rules! promise {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use promise;

impl Announced {
    /// Takes in everything that the core said to one action.
    pub(super) fn observe(
        &mut self,
        action: Action,
        outcome: Option<&Outcome>,
        effects: &[Effect],
        limit: u32,
    ) -> Result<(), Breach> {
        let before = self.asked.clone();
        // The locks that the caller ended are over before any other agent gains from that.
        if let Some(outcome) = outcome {
            self.observe_ends(action, outcome)?;
        }
        for effect in effects {
            self.observe_effect(action, effect)?;
        }
        match (action, outcome) {
            (Action::Request { agent, name, kind }, Some(outcome)) => {
                self.observe_answer(agent, name, kind, outcome, limit)?;
                self.check_losses(name, KINDS[kind].0, &before)
            }
            (Action::Join { agent }, Some(Outcome::Joined(id))) => {
                promise!(!self.knows(*id), "the agent id {id:?} is given twice");
                let lease_ends = (agent == 0).then_some(self.now + LEASE);
                self.agents[agent] = Some(Alive { id: *id, lease_ends });
                Ok(())
            }
            (Action::Renew { agent }, Some(Outcome::Renewed { alive })) => {
                promise!(*alive == self.agents[agent].is_some(), "the answer to a renewal is {alive}");
                let now = self.now;
                if let Some(lease) = self.agents[agent].as_mut().and_then(|agent| agent.lease_ends.as_mut()) {
                    *lease = now + LEASE;
                }
                Ok(())
            }
            (Action::Finish { .. } | Action::End { .. }, Some(_)) | (Action::Tick, None) => Ok(()),
            (action, outcome) => Err(format!("{action:?} is answered by {outcome:?}")),
        }
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Asked> + Clone {
        self.asked.iter().filter(|asked| asked.status != Status::Ended)
    }

    pub(super) fn pending(&self, name: usize) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(move |asked| asked.name == name && asked.status == Status::Pending)
    }

    pub(super) fn held(&self, name: usize) -> impl Iterator<Item = &Asked> {
        self.asked
            .iter()
            .filter(move |asked| asked.name == name && matches!(asked.status, Status::Held { .. }))
    }

    /// Whether the held locks of that name allow one more of that mode.
    pub(super) fn fits(&self, name: usize, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.held(name).count() == 0,
            Mode::Shared => self.held(name).all(|held| held.mode == Mode::Shared),
        }
    }

    fn observe_ends(&mut self, action: Action, outcome: &Outcome) -> Result<(), Breach> {
        match (action, outcome) {
            (Action::Finish { request }, Outcome::Aborted { pending }) => {
                promise!(*pending, "an abort found nothing, though the request is pending");
                self.asked[request].status = Status::Ended;
            }
            (Action::Finish { request }, Outcome::Released { held }) => {
                promise!(*held, "a release found nothing, though the lock is held");
                self.asked[request].status = Status::Ended;
            }
            (Action::End { agent }, Outcome::Ended { alive }) => {
                promise!(*alive, "the end of an agent found nobody, though it lives");
                self.end(agent);
            }
            _ => {}
        }
        Ok(())
    }

    fn observe_effect(&mut self, action: Action, effect: &Effect) -> Result<(), Breach> {
        match *effect {
            Effect::Granted { agent, grant } => {
                promise!(!matches!(action, Action::Request { .. }), "a request lets another one be granted");
                let asked = self.find(grant.request, agent)?;
                let Asked { name, mode, status, .. } = self.asked[asked];
                promise!(status == Status::Pending, "a request that is {status:?} is granted");
                let first = self.pending(name).next().map(|first| first.id);
                promise!(first == Some(grant.request), "{grant:?} overtakes {first:?}");
                promise!(self.fits(name, mode), "{grant:?} is granted beside a lock that excludes it");
                self.grant(asked, grant)
            }
            Effect::Lost { agent, request, ref loss } => {
                let asked = self.find(request, agent)?;
                let Asked { name, status, .. } = self.asked[asked];
                let Status::Held { expires, .. } = status else {
                    return Err(format!("a request that is {status:?} is lost"));
                };
                let reason = &loss.reason;
                let justified = match (reason, action) {
                    (LossReason::Expired, Action::Tick) => expires.is_some_and(|expires| expires <= self.now),
                    (LossReason::Stolen, Action::Request { name: stolen, kind, .. }) => {
                        stolen == name && KINDS[kind].0 == Acquire::Steal
                    }
                    _ => false,
                };
                promise!(justified, "{request:?} is lost as {reason:?} upon {action:?}");
                self.asked[asked].status = Status::Ended;
                Ok(())
            }
            Effect::AgentEnded { agent, reason: EndReason::Expired } => {
                let index = self.agents.iter().position(|alive| alive.is_some_and(|alive| alive.id == agent));
                let index = index.ok_or_else(|| format!("{agent:?} ends, but does not live"))?;
                let ends = self.agents[index].and_then(|alive| alive.lease_ends);
                let justified = action == Action::Tick && ends.is_some_and(|ends| ends <= self.now);
                promise!(justified, "{agent:?} ends before its lease");
                self.end(index);
                Ok(())
            }
            ref other => Err(format!("{other:?} upon {action:?}")),
        }
    }

    fn observe_answer(
        &mut self,
        agent: usize,
        name: usize,
        kind: usize,
        outcome: &Outcome,
        limit: u32,
    ) -> Result<(), Breach> {
        let (acquire, hold) = KINDS[kind];
        let mode = acquire.mode();
        let own = self.live().filter(|asked| asked.agent == agent).count();
        let free = self.pending(name).next().is_none() && self.fits(name, mode);
        let within = own < limit as usize;
        match (outcome, acquire) {
            (Outcome::Granted(grant), _) => {
                promise!(within, "a request beyond the bound is granted");
                promise!(self.fits(name, mode), "{grant:?} is granted beside a lock that excludes it");
                promise!(free || acquire == Acquire::Steal, "{grant:?} overtakes those who wait");
                let asked = self.arrive(agent, name, mode, hold, grant.request)?;
                self.grant(asked, *grant)
            }
            (Outcome::Queued(id), Acquire::Wait(_)) => {
                promise!(within, "a request beyond the bound is queued");
                promise!(!free, "{id:?} waits for nobody");
                self.arrive(agent, name, mode, hold, *id).map(drop)
            }
            (Outcome::Refused(Refusal::Unavailable { holders, queued }), Acquire::IfAvailable(_)) => {
                promise!(within && !free, "an available lock is refused");
                let answered = (holders.len(), *queued as usize);
                promise!(
                    answered == (self.held(name).count(), self.pending(name).count()),
                    "a refusal tells of {answered:?}"
                );
                Ok(())
            }
            (Outcome::Refused(Refusal::TooManyRequests { .. }), _) => {
                promise!(!within, "a request within the bound is refused");
                Ok(())
            }
            _ => Err(format!("{acquire:?} is answered by {outcome:?}")),
        }
    }

    /// A steal takes the name from all its holders; no other request takes a lock from a holder.
    fn check_losses(&self, name: usize, acquire: Acquire, before: &[Asked]) -> Result<(), Breach> {
        for (was, is) in before.iter().zip(&self.asked) {
            let stolen = acquire == Acquire::Steal
                && was.name == name
                && matches!(was.status, Status::Held { .. })
                && self.asked.len() > before.len();
            let expected = if stolen { Status::Ended } else { was.status };
            promise!(is.status == expected, "{is:?} should be {expected:?} after {acquire:?}");
        }
        Ok(())
    }

    fn arrive(
        &mut self,
        agent: usize,
        name: usize,
        mode: Mode,
        hold: bool,
        id: RequestId,
    ) -> Result<usize, Breach> {
        promise!(self.asked.iter().all(|asked| asked.id != id), "the request id {id:?} is given twice");
        self.asked.push(Asked { id, agent, name, mode, hold, status: Status::Pending });
        Ok(self.asked.len() - 1)
    }

    fn grant(&mut self, asked: usize, grant: Grant) -> Result<(), Breach> {
        let token = grant.token;
        promise!(token.get() > self.last_token, "the token {token} is not above {}", self.last_token);
        self.last_token = token.get();
        let expires = self.asked[asked].hold.then_some(self.now + HOLD);
        self.asked[asked].status = Status::Held { token, expires };
        Ok(())
    }

    fn end(&mut self, agent: usize) {
        self.dead.extend(self.agents[agent].take().map(|alive| alive.id));
        self.asked
            .iter_mut()
            .filter(|asked| asked.agent == agent)
            .for_each(|asked| asked.status = Status::Ended);
    }

    fn find(&self, request: RequestId, agent: AgentId) -> Result<usize, Breach> {
        let found = self.asked.iter().position(|asked| asked.id == request);
        let found = found.ok_or_else(|| format!("nobody asked for {request:?}"))?;
        let owner = self.agents[self.asked[found].agent].map(|alive| alive.id);
        promise!(owner == Some(agent), "{request:?} is of {owner:?}, not of {agent:?}");
        Ok(found)
    }

    fn knows(&self, id: AgentId) -> bool {
        self.dead.contains(&id) || self.agents.iter().flatten().any(|alive| alive.id == id)
    }
}
