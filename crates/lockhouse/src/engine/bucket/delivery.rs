//! Outcomes and effects on their way to futures, guards and ports: the receiver of each, and the time.

use std::sync::Arc;
use std::task::Waker;

use lockhouse_core::{
    AgentId, Command, Effect, Grant, Name, NewReclaim, NewRequest, Now, Outcome, Refusal, RequestStatus,
};
use tokio::sync::oneshot;

use crate::engine::bucket::deferred::{Deferred, DependsOn};
use crate::engine::bucket::results::{NotAsked, Reply, RequestResult};
use crate::engine::bucket::state::State;
use crate::engine::commit::outbox::MemorySize;
use crate::engine::inbox::{Inbox, Notice};
use crate::engine::memory::MemoryReservation;
use crate::loss::Loss;

/// The most bytes that answers may take which wait for the store in one bucket.
const WAITING_BYTES: usize = 16 << 20;

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
        let waits = match &about {
            DependsOn::Nothing => false,
            DependsOn::Names(names, token) => self.outbox.holds(names, *token),
            DependsOn::Everything => !self.outbox.is_idle(),
        };
        let deferred = deferred(outcome);
        if !waits {
            return HeldAnswer::Passes(deferred);
        }
        if !has_changed && let Err(refusal) = self.reserve_waiting(deferred.bytes()) {
            return HeldAnswer::TooMuchWaits(refusal);
        }
        let passes = match about {
            DependsOn::Names(names, token) => self.outbox.hold(&names, token, deferred),
            DependsOn::Nothing | DependsOn::Everything => self.outbox.hold_behind_all(deferred),
        };
        debug_assert!(passes.is_none(), "what has to wait is held");
        HeldAnswer::Waits
    }

    /// Reserves memory for an answer that is to wait for the store.
    fn reserve_waiting(&mut self, bytes: usize) -> Result<(), Refusal> {
        if self.outbox.bytes() + bytes > WAITING_BYTES {
            return Err(Refusal::BudgetExceeded { limit: WAITING_BYTES });
        }
        // Answers that bring nothing along go on where the tenant has no memory left: a holder can still
        // look.
        if bytes <= size_of::<Deferred>() { Ok(()) } else { self.reserve_memory(|_| bytes) }
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
            self.wakeups.wakers.extend(inbox.push(Notice::Answer { tag, outcome }));
            return;
        }
        if let Outcome::Granted(grant) = outcome {
            return self.answer_grant(inbox, tag, command, grant);
        }
        let deferred = |outcome| Deferred::Port {
            inbox: inbox.clone(),
            notice: Notice::Answer { tag, outcome },
            memory: None,
        };
        match self.hold_answer(command, outcome, deferred) {
            HeldAnswer::Passes(deferred) => _ = self.hand_over(deferred),
            HeldAnswer::Waits => {}
            HeldAnswer::TooMuchWaits(refusal) => {
                let notice = Notice::Answer { tag, outcome: Outcome::Refused(refusal) };
                self.wakeups.wakers.extend(inbox.push(notice));
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
        self.wakeups.wakers.extend(inbox.push(Notice::Answer { tag, outcome }));
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
                self.retention.recovery_ended();
                return;
            }
            Effect::Granted { agent, .. }
            | Effect::Lost { agent, .. }
            | Effect::AgentEnded { agent, .. }
            | Effect::Unavailable { agent, .. } => agent,
        };
        let Some(Some(inbox)) = self.inboxes.get(agent.slot()) else { return self.deliver_here(effect) };
        let is_end = matches!(effect, Effect::AgentEnded { .. });
        if self.outbox.is_idle() && self.durability.is_announced() {
            self.wakeups.wakers.extend(inbox.push(Notice::Effect(effect)));
        } else {
            let inbox = inbox.clone();
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
                    None => self.outbox.hold_behind_all(deferred(effect)),
                }
            }
            Effect::Lost { ref name, .. } => {
                let name = name.clone();
                self.outbox.hold(&[name.as_name()], 0, deferred(effect))
            }
            // Nothing of an agent is durable: its session ends with it, whatever the store does meanwhile.
            Effect::AgentEnded { .. } => Some(deferred(effect)),
            _ => self.outbox.hold_behind_all(deferred(effect)),
        };
        if let Some(deferred) = passes {
            self.hand_over(deferred);
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
            Effect::Lost { request, reason, .. } => {
                self.wakeups.listeners.extend(self.waiters.lost(request, Loss::from(reason)));
            }
            Effect::Unavailable { request, refusal, .. } => {
                self.waiters.will_be_refused(request);
                if let Some(deferred) =
                    self.outbox.hold_behind_all(Deferred::Refusal { request, refusal: *refusal })
                {
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
            Deferred::Port { inbox, notice, .. } => self.wakeups.wakers.extend(inbox.push(notice)),
            Deferred::Grant { request, token } => {
                let is_held = self.manager.status(request) != RequestStatus::Ended;
                self.wakeups.wakers.extend(self.waiters.granted(request, token, is_held));
            }
            Deferred::Refusal { request, refusal } => {
                self.wakeups.wakers.extend(self.waiters.refused(request, refusal));
            }
            Deferred::Reply { .. } => return Some(deferred),
        }
        None
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
