//! Outcomes and effects on their way to futures, guards and ports: the receiver of each, and the time.

pub(super) mod announcements;
pub(super) mod events;
mod waiting;
pub(super) mod withheld;

use std::sync::Arc;
use std::task::Waker;

use lockhouse_core::{
    AgentId, Command, Effect, Grant, Name, NewReclaim, NewRequest, Now, Outcome, Refusal, RequestId,
    RequestStatus,
};
use tokio::sync::oneshot;

use crate::engine::bucket::deferred::{Deferred, DependsOn};
use crate::engine::bucket::delivery::withheld::Withheld;
use crate::engine::bucket::results::{NotAsked, Reply, RequestResult};
use crate::engine::bucket::state::State;
use crate::engine::commit::outbox::MemorySize;
use crate::engine::inbox::{Inbox, Notice};
use crate::engine::memory::MemoryReservation;
use crate::loss::Loss;

/// What becomes of an answer.
#[derive(Debug)]
pub(super) enum HeldAnswer {
    /// It may leave now.
    Passes(Deferred),
    /// It waits for the store.
    Waits,
    /// It would have to wait, and there is no memory left for it. Nothing has changed.
    TooMuchWaits(Refusal),
}

impl State {
    /// Keeps an answer that rests on something uncommitted, or gives it back. The answer to a command that
    /// has changed something is always kept: the backlog of such commands has a bound of its own.
    pub(super) fn hold_answer(
        &mut self,
        command: &Command<'_>,
        outcome: Outcome,
        deferred: impl FnOnce(Outcome) -> Deferred,
    ) -> HeldAnswer {
        let has_changed = self.outbox.is_open();
        let about = DependsOn::answer(command, &outcome, has_changed);
        let (names, group) = match about {
            DependsOn::Nothing => (Vec::new(), self.end_behind(command, &outcome)),
            DependsOn::Names(names, token) => {
                // What is granted rests on the end of each void lock; what is not, on that they are void.
                let is_granted = matches!(outcome, Outcome::Granted(_));
                let voided = self.voided_in.filter(|group| !is_granted && !self.outbox.is_durable(*group));
                let group = self.outbox.group_of(&names, token).max(voided);
                (names, group)
            }
            DependsOn::Everything => (Vec::new(), self.outbox.latest()),
        };
        let deferred = deferred(outcome);
        let Some(group) = group else { return HeldAnswer::Passes(deferred) };
        let bytes = deferred.bytes();
        if !has_changed && let Err(refusal) = self.reserve_waiting(bytes) {
            return HeldAnswer::TooMuchWaits(refusal);
        }
        self.outbox.keep(group, &names, deferred, bytes);
        HeldAnswer::Waits
    }

    /// The group behind which the answer has to stay that a lock is held no more: that it was lost is
    /// announced before. Where no more may wait, the answer leaves, as it is never refused.
    fn end_behind(&self, command: &Command<'_>, outcome: &Outcome) -> Option<u64> {
        match (command, outcome) {
            (Command::Release { request }, Outcome::Released { held: false }) => {
                let group = self.withheld.end_of(*request)?;
                self.check_waiting(size_of::<Deferred>()).ok().map(|()| group)
            }
            _ => None,
        }
    }

    /// The answer to a caller: at once, or once it depends on nothing uncommitted. It holds that memory
    /// meanwhile.
    pub(super) fn reply(
        &mut self,
        command: &Command<'_>,
        outcome: Outcome,
        memory: Option<Arc<MemoryReservation>>,
    ) -> Result<Reply, NotAsked> {
        if self.outbox.is_idle() {
            return Ok(Reply::Answered(outcome));
        }
        let (to, answer) = oneshot::channel();
        match self.hold_answer(command, outcome, |outcome| Deferred::Reply { to, outcome, memory }) {
            HeldAnswer::Passes(Deferred::Reply { outcome, .. }) => Ok(Reply::Answered(outcome)),
            HeldAnswer::Passes(_) | HeldAnswer::Waits => Ok(Reply::Waits(answer)),
            HeldAnswer::TooMuchWaits(_) => Err(NotAsked::TooMuchWaits),
        }
    }

    /// The result of a request in the rarer cases. If its answer depends on something uncommitted, a grant
    /// becomes one of a request that had to wait, and a refusal comes later.
    #[cold]
    pub(super) fn made_rarer(
        &mut self,
        now: Now,
        request: &NewRequest<'_>,
        outcome: Result<Outcome, Refusal>,
        waker: &Waker,
    ) -> RequestResult {
        match outcome {
            Ok(Outcome::Granted(grant)) => {
                let Grant { request: id, token } = grant;
                let deferred = Deferred::Grant { request: id, token };
                if self.outbox.hold(&[request.name], token.get(), deferred).is_some() {
                    return RequestResult::Granted(grant);
                }
                let displaced = self.waiters.wait(id, waker);
                debug_assert!(displaced.is_none(), "the cell of a new request was not idle");
                RequestResult::Waits(id)
            }
            Ok(Outcome::Queued(id)) => {
                // The house is closed or has lost its store: no request would ever be granted.
                self.handle(now, Command::Abort { request: id });
                RequestResult::Refused(Box::new(Refusal::Closed))
            }
            Ok(outcome) => unreachable!("a request cannot end in {outcome:?}"),
            Err(refusal) => {
                let (to, later) = oneshot::channel();
                let reply = |outcome| Deferred::Reply { to, outcome, memory: None };
                match self.hold_answer(&Command::Request(*request), Outcome::Refused(refusal), reply) {
                    HeldAnswer::Passes(Deferred::Reply { outcome: Outcome::Refused(refusal), .. })
                    | HeldAnswer::TooMuchWaits(refusal) => RequestResult::Refused(Box::new(refusal)),
                    HeldAnswer::Passes(_) | HeldAnswer::Waits => RequestResult::RefusedLater(later),
                }
            }
        }
    }

    /// Answers a command of a port.
    pub(super) fn answer(&mut self, inbox: &Arc<Inbox>, tag: u64, command: &Command<'_>, outcome: Outcome) {
        if self.outbox.is_idle()
            && (self.durability.is_announced() || !matches!(outcome, Outcome::Granted(_)))
        {
            return self.announce(inbox, Notice::Answer { tag, outcome });
        }
        if let Outcome::Granted(grant) = outcome {
            return self.answer_grant(inbox, tag, command, grant);
        }
        let deferred = |outcome| Deferred::Port {
            inbox: inbox.clone(),
            notice: Notice::Answer { tag, outcome },
            memory: None,
        };
        let joined = if let Outcome::Joined(agent) = outcome { Some(agent) } else { None };
        match self.hold_answer(command, outcome, deferred) {
            HeldAnswer::Passes(deferred) => _ = self.hand_over(deferred),
            HeldAnswer::Waits => {
                if let (Some(agent), Some(group)) = (joined, self.outbox.latest()) {
                    self.withheld.join(agent, group);
                    self.outbox.charge(group, Withheld::BYTES);
                }
            }
            HeldAnswer::TooMuchWaits(refusal) => {
                let notice = Notice::Answer { tag, outcome: Outcome::Refused(refusal) };
                self.announce(inbox, notice);
            }
        }
    }

    /// A grant that has to wait is announced as that of a request that had to wait.
    fn answer_grant(&mut self, inbox: &Arc<Inbox>, tag: u64, command: &Command<'_>, grant: Grant) {
        let (Command::Request(NewRequest { agent, name, .. })
        | Command::Reclaim(NewReclaim { agent, name, .. })) = *command
        else {
            unreachable!("only requests and reclaims are granted")
        };
        let notice = Notice::Effect(Effect::Granted { agent, grant });
        let deferred = Deferred::Port { inbox: inbox.clone(), notice, memory: None };
        let outcome = match self.hold_grant(&[name], grant, deferred) {
            None => Outcome::Queued(grant.request),
            Some(_) => Outcome::Granted(grant),
        };
        self.announce(inbox, Notice::Answer { tag, outcome });
    }

    /// Keeps a grant that goes to a port, or gives it back.
    fn hold_grant(&mut self, names: &[Name<'_>], grant: Grant, deferred: Deferred) -> Option<Deferred> {
        if self.may_announce_grants() {
            self.outbox.hold(names, grant.token.get(), deferred)
        } else {
            // The reservation of its token came before the change that the grant waits for now.
            self.outbox.hold_longest(names, deferred)
        }
    }

    pub(super) fn deliver_rarer(&mut self, effect: Effect) {
        let agent = match effect {
            Effect::Change(change) => return self.changed(*change),
            Effect::Recovered => {
                self.absence = None;
                self.retention.recovery_ended();
                self.wakeups.listeners.push(self.recovered.clone());
                return;
            }
            Effect::Granted { agent, .. }
            | Effect::Lost { agent, .. }
            | Effect::AgentEnded { agent, .. }
            | Effect::Unavailable { agent, .. } => agent,
        };
        let Some(inbox) = self.inbox_of(agent) else { return self.deliver_here(effect) };
        let is_end = matches!(effect, Effect::AgentEnded { .. });
        let inbox = inbox.clone();
        if self.outbox.is_idle() && self.durability.is_announced() {
            self.announce(&inbox, Notice::Effect(effect));
        } else {
            self.deliver_to_port(inbox, effect);
        }
        if is_end {
            self.route(agent, None);
        }
    }

    fn deliver_to_port(&mut self, inbox: Arc<Inbox>, effect: Effect) {
        let deferred = |effect| Deferred::Port { inbox, notice: Notice::Effect(effect), memory: None };
        let passes = match effect {
            Effect::Granted { grant, .. } => {
                let name = self.manager.name_of(grant.request).map(Name::to_buf);
                match &name {
                    Some(name) => self.hold_grant(&[name.as_name()], grant, deferred(effect)),
                    None => self.hold_end(grant.request, self.outbox.latest(), &[], deferred(effect)),
                }
            }
            Effect::Lost { request, ref loss, .. } => {
                let name = loss.name.clone();
                let group = self.outbox.group_of(&[name.as_name()], 0).max(self.withheld.end_of(request));
                self.hold_end(request, group, &[name.as_name()], deferred(effect))
            }
            // Nothing of an agent is durable: its session ends with it, whatever the store does meanwhile.
            // Only that it has joined comes before.
            Effect::AgentEnded { agent, .. } => {
                let deferred = deferred(effect);
                match self.withheld.join_of(agent) {
                    Some(group) => {
                        let bytes = deferred.bytes();
                        self.outbox.keep(group, &[], deferred, bytes);
                        None
                    }
                    None => Some(deferred),
                }
            }
            Effect::Unavailable { agent, request, refusal } => {
                let refusal = Box::new(self.fitting(*refusal));
                self.outbox.hold_behind_all(deferred(Effect::Unavailable { agent, request, refusal }))
            }
            Effect::Change(_) | Effect::Recovered => unreachable!("these are of no agent"),
        };
        if let Some(deferred) = passes {
            self.hand_over(deferred);
        }
    }

    /// Keeps a notice of a request that has ended until that group is durable, if it has to wait. Later
    /// notices of the request wait as long.
    fn hold_end(
        &mut self,
        request: RequestId,
        group: Option<u64>,
        names: &[Name<'_>],
        deferred: Deferred,
    ) -> Option<Deferred> {
        let Some(group) = group else { return Some(deferred) };
        let bytes = deferred.bytes() + Withheld::BYTES;
        self.outbox.keep(group, names, deferred, bytes);
        self.withheld.end(request, group);
        None
    }

    /// Whether a message that has waited is of no more use to a port: its agent has ended, or has given back
    /// what it is granted.
    pub(super) fn is_moot(&self, deferred: &Deferred) -> bool {
        let Deferred::Port { notice: Notice::Effect(effect), .. } = deferred else { return false };
        match effect {
            Effect::Granted { agent, grant: Grant { request, .. } } => {
                !self.manager.is_alive(*agent)
                    || (self.manager.status(*request) == RequestStatus::Ended
                        && self.withheld.end_of(*request).is_none())
            }
            Effect::Lost { agent, .. } | Effect::Unavailable { agent, .. } => !self.manager.is_alive(*agent),
            Effect::AgentEnded { .. } | Effect::Change(_) | Effect::Recovered => false,
        }
    }

    /// Losses are announced to agents of this process at once: these agents do not outlive the process,
    /// whatever the store does with the change.
    fn deliver_here(&mut self, effect: Effect) {
        match effect {
            Effect::Granted { grant: Grant { request, token }, .. } => {
                let grant = Deferred::Grant { request, token };
                let passes = if self.outbox.is_idle() {
                    Some(grant)
                } else {
                    match self.manager.name_of(request) {
                        Some(name) => self.outbox.hold(&[name], token.get(), grant),
                        None => self.outbox.hold_behind_all(grant),
                    }
                };
                if let Some(grant) = passes {
                    self.hand_over(grant);
                }
            }
            Effect::Lost { request, loss, .. } => {
                self.wakeups.listeners.extend(self.waiters.lost(request, Loss::from(loss.reason)));
            }
            Effect::Unavailable { request, refusal, .. } => {
                self.waiters.will_be_refused(request);
                let refusal = self.fitting(*refusal);
                if let Some(deferred) = self.outbox.hold_behind_all(Deferred::Refusal { request, refusal }) {
                    self.hand_over(deferred);
                }
            }
            // Agents of this process have no lease; the others are none of an agent's.
            Effect::AgentEnded { .. } | Effect::Change(_) | Effect::Recovered => {}
        }
    }

    /// Delivers a message that may leave. A reply is given back, to be sent once the mutex is free.
    pub(super) fn hand_over(&mut self, deferred: Deferred) -> Option<Deferred> {
        match deferred {
            Deferred::Port { inbox, notice, .. } => self.announce(&inbox, notice),
            Deferred::Grant { request, token } => {
                let is_held = self.manager.status(request) != RequestStatus::Ended;
                self.wakeups.add(self.waiters.granted(request, token, is_held));
            }
            Deferred::Refusal { request, refusal } => {
                self.wakeups.add(self.waiters.refused(request, refusal));
            }
            Deferred::Reply { .. } => return Some(deferred),
        }
        None
    }

    /// The inbox of an agent of another process.
    pub(super) fn inbox_of(&self, agent: AgentId) -> Option<&Arc<Inbox>> {
        self.inboxes.get(agent.slot())?.as_ref()
    }

    /// Routes the notices of the agent to that inbox. An agent with an inbox is one of another process.
    pub(super) fn route(&mut self, agent: AgentId, inbox: Option<Arc<Inbox>>) {
        if inbox.is_some() {
            self.manager.mark_remote(agent);
        }
        let slot = agent.slot();
        if self.inboxes.len() <= slot {
            if inbox.is_none() {
                return;
            }
            self.inboxes.resize(slot + 1, None);
        }
        self.inboxes[slot] = inbox;
    }
}
