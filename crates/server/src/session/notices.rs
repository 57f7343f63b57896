//! From the bucket's outcomes and effects to the client's events.

use std::collections::VecDeque;

use lockhouse::Notice;
use lockhouse::core::{
    Acquire, Effect, EndReason, Grant, Holder, LossReason, Mode, Outcome, Refusal, RequestId,
};
use lockhouse_wire::{EndedReason, HolderView, LostReason, ServerEvent, Ticket};

use super::refusals::{depends_on_others, fault_of, fit, setting_of};
use super::state::Session;
use super::verdict::{PendingCall, SessionEnd, Verdict};
use crate::bounds::{RESEND_BYTES, SPARED_BYTES, UNCOUNTED_BYTES};
use crate::limits::QUOTA;

impl Session {
    /// Takes all notices of the bucket, in their order.
    pub(super) fn take_notices(&mut self) -> Verdict {
        let mut notices: VecDeque<Notice> = std::mem::take(&mut self.notices);
        if self.port.drain(&mut notices).is_err() {
            self.end(SessionEnd::SlowReader);
        }
        for notice in notices.drain(..) {
            match notice {
                Notice::Answer { tag, outcome } => {
                    if let Some(asked) = self.asked.remove(tag) {
                        self.answer(asked, outcome);
                    }
                }
                Notice::Effect(effect) => self.effect(effect),
                Notice::Over(_) => self.end(SessionEnd::StoreLost),
            }
        }
        // The queue's memory is used again.
        self.notices = notices;
        if self.outbound.overflowed() {
            self.end(SessionEnd::SlowReader);
        }
        self.over.map_or(Verdict::GoOn, SessionEnd::verdict)
    }

    /// The session has to end.
    fn end(&mut self, why: SessionEnd) {
        if self.over != Some(SessionEnd::StoreLost) {
            self.over = Some(why);
        }
    }

    /// Bytes that the client has not taken, and those that were read of it before their turn, count for its
    /// tenant. A session with much unacknowledged ends, if
    /// the tenant has all that it may have. An answer that is still being written had its memory reserved
    /// when it was made.
    pub(super) fn check_unread(&mut self) -> Verdict {
        self.registration.view.set_queued_bytes(self.outbound.bytes());
        self.unread.settle(self.counted());
        if self.outbound.unacknowledged_bytes() > SPARED_BYTES && self.unread.is_full() {
            return SessionEnd::SlowTenant.verdict();
        }
        Verdict::GoOn
    }

    /// The bytes that count for the tenant; a session with next to nothing counts for nothing.
    pub(super) fn counted(&self) -> usize {
        let bytes = self.outbound.bytes() + self.watches.bytes() + self.held_back_bytes;
        bytes.saturating_sub(UNCOUNTED_BYTES)
    }

    /// Whether the client may be sent so many bytes more of answers.
    pub(super) fn reserve_unread(&mut self, bytes: usize) -> bool {
        self.unread.reserve(self.counted() + bytes).is_ok()
    }

    fn forget_agent(&mut self, number: u64) {
        if let Some(agent) = self.table.agent(number) {
            self.registration.view.remove_agent(agent);
        }
        self.table.remove_agent(number);
    }

    fn answer(&mut self, asked: PendingCall, outcome: Outcome) {
        if let PendingCall::Request { id, acquire: Acquire::Steal, .. } = asked {
            self.note_steal(id, &outcome);
        }
        match (asked, outcome) {
            (PendingCall::Lease, Outcome::Joined(agent)) => self.lease_agent = Some(agent),
            (PendingCall::Lease, Outcome::Refused(refusal)) => self.no_lease = setting_of(&refusal),
            (PendingCall::Renewal, Outcome::Renewed { alive: false }) => self.end(SessionEnd::LeaseExpired),
            (PendingCall::Join { agent }, Outcome::Joined(id)) => {
                self.table.add_agent(agent, id);
                self.registration.view.add_agent(id);
            }
            (PendingCall::Join { agent }, Outcome::Refused(refusal)) => self.refused_join(agent, &refusal),
            (PendingCall::Leave { agent }, _) => self.forget_agent(agent),
            (
                PendingCall::Request { id, agent, .. } | PendingCall::Reclaim { id, agent },
                Outcome::Granted(grant),
            ) => {
                self.table.add_request(id, agent, grant.request);
                self.granted(id, grant);
            }
            (
                PendingCall::Request { id, agent, acquire: Acquire::IfAvailable(_) },
                Outcome::Queued(request),
            ) => {
                self.table.add_undecided(id, agent, request);
            }
            (
                PendingCall::Request { id, agent, .. } | PendingCall::Reclaim { id, agent },
                Outcome::Queued(request),
            ) => {
                self.table.add_request(id, agent, request);
            }
            (PendingCall::Request { id, agent, acquire }, Outcome::Refused(refusal)) => {
                self.refused(id, agent, acquire, &refusal);
            }
            (PendingCall::Reclaim { id, agent }, Outcome::Refused(refusal)) => {
                self.refused_reclaim(id, agent, &refusal);
            }
            (PendingCall::Abort { id }, Outcome::Aborted { pending: true }) => self.table.remove_request(id),
            (PendingCall::Release { id, reply }, Outcome::Released { held }) => {
                self.released(id, reply, held);
            }
            (PendingCall::Query(look, _memory), Outcome::Snapshot(snapshot)) => {
                _ = self.show(&look, &snapshot);
            }
            (PendingCall::Watches(last, _memory), Outcome::Snapshot(snapshot)) => {
                self.show_watches(last, &snapshot);
            }
            (PendingCall::Query(look, _memory), Outcome::Refused(_)) => _ = self.too_many_queries(look.id),
            (PendingCall::Watches(..), Outcome::Refused(_)) => self.look_later(),
            _ => {}
        }
    }

    /// A steal is queued only until it is durable: others have lost the name by then, whether the thief waits
    /// for the answer or not.
    fn note_steal(&mut self, id: u64, outcome: &Outcome) {
        let Some(steal) = self.steals.remove(&id) else { return };
        if !matches!(outcome, Outcome::Granted(_) | Outcome::Queued(_)) {
            return;
        }
        let why = if steal.is_recovering {
            "asked for by the client, while those of before the restart could come back"
        } else {
            "asked for by the client"
        };
        self.admission.note_steal(&steal.name, (steal.lost, &steal.victims), why);
    }

    fn granted(&mut self, id: u64, grant: Grant) {
        let ticket = self.port.ticket(grant.request).map(Ticket::new);
        self.outbound.push(ServerEvent::Granted { id, token: grant.token, ticket });
    }

    /// The client gives a pending request up by `abort`, so that a release of one changes nothing.
    fn released(&mut self, id: u64, reply: bool, held: bool) {
        if held {
            self.table.remove_request(id);
        }
        if reply {
            self.outbound.push(ServerEvent::Released { id, held });
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Granted { grant, .. } => {
                if let Some(id) = self.table.request_number(grant.request) {
                    self.table.note_grant(id);
                    self.granted(id, grant);
                }
            }
            Effect::Lost { request, loss, .. } => self.lost(request, loss.reason),
            Effect::AgentEnded { agent, reason: EndReason::Expired } => {
                // While the store is away the end of the lease overtakes the answer to its beginning. There
                // are no other agents before that.
                if self.lease_agent.is_none_or(|lease_agent| lease_agent == agent) {
                    self.end(SessionEnd::LeaseExpired);
                } else if let Some(number) = self.table.agent_number(agent) {
                    self.forget_agent(number);
                    self.outbound.push(ServerEvent::Ended { agent: number, reason: EndedReason::Expired });
                }
            }
            Effect::Unavailable { request, refusal, .. } => self.unavailable(request, &refusal),
            // These are between the bucket and its house.
            Effect::Change(_) | Effect::Recovered => {}
        }
    }

    fn lost(&mut self, request: RequestId, reason: LossReason) {
        let Some(id) = self.table.request_number(request) else { return };
        self.table.remove_request(id);
        let (reason, why) = match reason {
            LossReason::Stolen => (LostReason::Stolen, None),
            LossReason::Expired => (LostReason::Expired, None),
            LossReason::Superseded => (LostReason::Superseded, None),
            LossReason::Broken { reason } => {
                // The words are left out for a client that has much to acknowledge already.
                let takes_words = self.outbound.unacknowledged_bytes() < RESEND_BYTES / 2;
                (LostReason::Broken, reason.filter(|_| takes_words).map(String::from))
            }
        };
        self.outbound.push(ServerEvent::Lost { id, reason, why: why.map(Into::into) });
    }

    /// Refuses a request that was not to wait, but had to, as the bucket recovered.
    fn unavailable(&mut self, request: RequestId, refusal: &Refusal) {
        let Some(id) = self.table.request_number(request) else { return };
        let agent = self.table.agent_of(id);
        self.table.remove_request(id);
        self.refused(id, agent, Acquire::IfAvailable(Mode::Exclusive), refusal);
    }

    fn refused_reclaim(&mut self, id: u64, agent: u64, refusal: &Refusal) {
        match refusal {
            Refusal::Superseded | Refusal::NotRecovering | Refusal::UnknownToken => {
                self.outbound.push(ServerEvent::Lost { id, reason: LostReason::Superseded, why: None });
            }
            refusal => self.refuse(Some(id), agent, refusal),
        }
    }

    fn refused_join(&mut self, agent: u64, refusal: &Refusal) {
        self.refuse(None, agent, refusal);
    }

    fn refuse(&mut self, id: Option<u64>, agent: u64, refusal: &Refusal) {
        let (code, problem) = fault_of(refusal, agent);
        if depends_on_others(refusal) {
            self.not_now(id, code, problem, QUOTA);
        } else {
            self.error(id, code, problem);
        }
    }

    fn refused(&mut self, id: u64, agent: u64, acquire: Acquire, refusal: &Refusal) {
        match refusal {
            Refusal::Unavailable { holders, queued } => {
                let mut holders = holders.iter().map(|holder| self.holder_view(holder)).collect();
                fit(&mut holders);
                self.outbound.push(ServerEvent::Refused { id, holders, queued: u64::from(*queued) });
            }
            // Nothing is available any more, and no particular holder is the cause.
            Refusal::Closed if matches!(acquire, Acquire::IfAvailable(_)) => {
                self.outbound.push(ServerEvent::Refused { id, holders: Vec::new(), queued: 0 });
            }
            refusal => self.refuse(Some(id), agent, refusal),
        }
    }

    fn holder_view<'h>(&self, holder: &'h Holder) -> HolderView<'h> {
        let bucket = self.port.bucket();
        HolderView {
            client_id: holder.label.as_str().into(),
            kind: holder.party.into(),
            mode: holder.mode,
            since: bucket.wall(holder.since),
            expires_at: holder.expires.map(|at| bucket.wall(at)),
            metadata: holder.metadata.as_deref().map(Into::into),
        }
    }
}
