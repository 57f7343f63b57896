//! From the bucket's outcomes and effects to the client's events.

use std::collections::VecDeque;

use lockhouse::Notice;
use lockhouse::core::{Acquire, Effect, EndReason, Grant, Holder, LossReason, Outcome, Refusal, RequestId};
use lockhouse::wire::{EndedReason, ErrorCode, Event, FatalCode, HolderView, Look, LostReason, Problem};

use super::Session;
use super::calls::Verdict;

/// What was asked of the bucket. Answers come in the order of the questions, except that one which rests on something that is not kept
/// yet comes later.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// The agent that bears the session's lease.
    Lease,
    Join {
        agent: u64,
    },
    Leave {
        agent: u64,
    },
    Request {
        id: u64,
        agent: u64,
        acquire: Acquire,
    },
    Abort {
        id: u64,
    },
    Release {
        id: u64,
        reply: bool,
    },
    Query(Look),
    /// A snapshot for all watches.
    Watches,
    /// Something whose answer is of no interest.
    Nothing,
}

impl Session {
    /// Takes all that the bucket has told, in its order.
    pub(super) fn take_notices(&mut self) -> Verdict {
        let mut notices: VecDeque<Notice> = std::mem::take(&mut self.notices);
        if self.port.drain(&mut notices).is_err() {
            self.over = Some(FatalCode::SlowReader);
        }
        for notice in notices.drain(..) {
            match notice {
                Notice::Answer { tag, outcome } => {
                    let at = self.asked.iter().position(|(known, _)| *known == tag);
                    if let Some((_, asked)) = at.and_then(|at| self.asked.remove(at)) {
                        self.answer(asked, outcome);
                    }
                }
                Notice::Effect(effect) => self.effect(&effect),
                Notice::Over(why) => tracing::error!(%why, "every lock of the session is lost"),
            }
        }
        // Its memory is used again.
        self.notices = notices;
        if self.outbound.overflowed() {
            self.over = Some(FatalCode::SlowReader);
        }
        self.over.map_or(Verdict::GoOn, |code| Verdict::Fatal(code, why_over(code)))
    }

    fn answer(&mut self, asked: Asked, outcome: Outcome) {
        match (asked, outcome) {
            (Asked::Lease, Outcome::Joined(agent)) => self.lease_agent = Some(agent),
            (Asked::Join { agent }, Outcome::Joined(id)) => self.table.add_agent(agent, id),
            (Asked::Join { agent }, Outcome::Refused(refusal)) => self.refused_join(agent, &refusal),
            (Asked::Leave { agent }, _) => self.table.remove_agent(agent),
            (Asked::Request { id, agent, .. }, Outcome::Granted(grant)) => {
                self.table.add_request(id, agent, grant.request);
                self.outbound.push(Event::Granted { id, token: grant.token });
            }
            (Asked::Request { id, agent, .. }, Outcome::Queued(request)) => {
                self.table.add_request(id, agent, request);
            }
            (Asked::Request { id, agent, acquire }, Outcome::Refused(refusal)) => {
                self.refused(id, agent, acquire, &refusal);
            }
            (Asked::Abort { id }, Outcome::Aborted { pending: true }) => self.table.remove_request(id),
            (Asked::Release { id, reply }, Outcome::Released { held }) => self.released(id, reply, held),
            (Asked::Query(look), Outcome::Snapshot(snapshot)) => self.show(&look, &snapshot),
            (Asked::Watches, Outcome::Snapshot(snapshot)) => self.show_watches(&snapshot),
            _ => {}
        }
    }

    /// The client gives a pending request up by `abort`, so that a release of one changes nothing.
    fn released(&mut self, id: u64, reply: bool, held: bool) {
        if held {
            self.table.remove_request(id);
        }
        if reply {
            self.outbound.push(Event::Released { id, held });
        }
    }

    fn effect(&mut self, effect: &Effect) {
        match *effect {
            Effect::Granted { grant: Grant { request, token }, .. } => {
                if let Some(id) = self.table.request_number(request) {
                    self.outbound.push(Event::Granted { id, token });
                }
            }
            Effect::Lost { request, reason, .. } => self.lost(request, reason),
            Effect::AgentEnded { agent, reason: EndReason::Expired } => {
                if self.lease_agent == Some(agent) {
                    self.over = Some(FatalCode::LeaseExpired);
                } else if let Some(number) = self.table.agent_number(agent) {
                    self.table.remove_agent(number);
                    self.outbound.push(Event::Ended { agent: number, reason: EndedReason::Expired });
                }
            }
            // A server that keeps nothing neither tells changes nor recovers.
            Effect::Change(_) | Effect::Recovered | Effect::Unavailable { .. } => {}
        }
    }

    fn lost(&mut self, request: RequestId, reason: LossReason) {
        let Some(id) = self.table.request_number(request) else { return };
        self.table.remove_request(id);
        let reason = match reason {
            // A younger lock stands in its place, whether it was asked for now or is brought back.
            LossReason::Stolen | LossReason::Superseded => LostReason::Stolen,
            LossReason::Expired => LostReason::Expired,
        };
        self.outbound.push(Event::Lost { id, reason });
    }

    fn refused_join(&mut self, agent: u64, refusal: &Refusal) {
        let (code, problem) = fault_of(refusal, agent);
        self.error(None, code, problem);
    }

    fn refused(&mut self, id: u64, agent: u64, acquire: Acquire, refusal: &Refusal) {
        match refusal {
            Refusal::Unavailable { holders, queued } => {
                let holders = holders.iter().map(|holder| self.holder_view(holder)).collect();
                self.outbound.push(Event::Refused { id, holders, queued: u64::from(*queued) });
            }
            // Nothing is available any more, and nobody in particular is to blame.
            Refusal::Closed if matches!(acquire, Acquire::IfAvailable(_)) => {
                self.outbound.push(Event::Refused { id, holders: Vec::new(), queued: 0 });
            }
            refusal => {
                let (code, problem) = fault_of(refusal, agent);
                self.error(Some(id), code, problem);
            }
        }
    }

    fn holder_view<'h>(&self, holder: &'h Holder) -> HolderView<'h> {
        let bucket = self.port.bucket();
        HolderView {
            client_id: holder.label.as_str().into(),
            mode: holder.mode,
            since: bucket.wall(holder.since),
            expires_at: holder.expires.map(|at| bucket.wall(at)),
            metadata: holder.metadata.as_deref().map(Into::into),
        }
    }
}

fn why_over(code: FatalCode) -> Problem<'static> {
    Problem::with_message(match code {
        FatalCode::LeaseExpired => "no ping was answered for the length of the lease",
        _ => "more frames wait for their acknowledgement than a session may have",
    })
}

fn fault_of(refusal: &Refusal, agent: u64) -> (ErrorCode, Problem<'static>) {
    let quota = |problem| (ErrorCode::QuotaExceeded, problem);
    match refusal {
        Refusal::NameTooLong { units, limit } => {
            quota(Problem::with_value("name", &format!("{units} units"), format!("at most {limit} units")))
        }
        Refusal::MetadataTooLong { bytes, limit } => quota(Problem::with_value(
            "metadata",
            &format!("{bytes} bytes"),
            format!("at most {limit} bytes"),
        )),
        Refusal::TooManyRequests { limit } => {
            quota(Problem::with_field("id", format!("one of at most {limit} of an agent at once")))
        }
        Refusal::TooManyNames { limit } => {
            quota(Problem::with_field("name", format!("one of at most {limit} of a bucket at once")))
        }
        Refusal::TooManyAgents { limit } => {
            quota(Problem::with_field("agent", format!("one of at most {limit} of a bucket at once")))
        }
        Refusal::UnknownAgent => {
            let rule = "an agent that has joined and not ended";
            (ErrorCode::UnknownAgent, Problem::with_value("agent", &agent.to_string(), rule))
        }
        Refusal::Closed => {
            (ErrorCode::Closing, Problem::with_message("the server stops: nothing is granted any more"))
        }
        // None of these answers a request for a web lock but the first, which is told as a refusal.
        _ => (ErrorCode::Internal, Problem::with_message("the lock is not available")),
    }
}
