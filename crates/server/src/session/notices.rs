//! From the bucket's outcomes and effects to the client's events.

use std::collections::VecDeque;
use std::sync::Arc;

use lockhouse::core::{
    Acquire, Effect, EndReason, Grant, Holder, LossReason, Mode, Outcome, Party, Refusal, RequestId,
};
use lockhouse::{Notice, Robbed, Room};
use lockhouse_wire::{
    EndedReason, ErrorCode, Event, FatalCode, HolderView, Look, LostReason, Problem, Ticket,
};

use super::calls::Verdict;
use super::{Over, Session, Steal};
use crate::audit::short;
use crate::bounds::{ANSWER_BYTES, SPARED_BYTES, UNCOUNTED_BYTES};
use crate::limits::QUOTA;

/// No refusal has more, its holders apart.
const REFUSAL_BYTES: usize = 128;
/// No holder has more in it, label and metadata apart.
const HOLDER_BYTES: usize = 208;

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
    Reclaim {
        id: u64,
        agent: u64,
    },
    Abort {
        id: u64,
    },
    Release {
        id: u64,
        reply: bool,
    },
    /// With the room for the snapshot.
    Query(Look, Arc<Room>),
    /// A snapshot for all watches, and the room for it.
    Watches(Arc<Room>),
    /// Something whose answer is of no interest.
    Nothing,
}

impl Session {
    /// Takes all that the bucket has told, in its order.
    pub(super) fn take_notices(&mut self) -> Verdict {
        let mut notices: VecDeque<Notice> = std::mem::take(&mut self.notices);
        if self.port.drain(&mut notices).is_err() {
            self.over = Some(Over::SlowReader);
        }
        for notice in notices.drain(..) {
            match notice {
                Notice::Answer { tag, outcome } => {
                    let at = self.asked.iter().position(|(known, _)| *known == tag);
                    if let Some((_, asked)) = at.and_then(|at| self.asked.remove(at)) {
                        self.answer(asked, outcome);
                    }
                }
                Notice::Effect(effect) => self.effect(effect),
                Notice::Over(_) => self.is_over = true,
            }
        }
        // Its memory is used again.
        self.notices = notices;
        if self.outbound.overflowed() {
            self.over = Some(Over::SlowReader);
        }
        match self.over {
            // Whoever has the store now, or will have it, takes reclaims: to the client it is as if the server had died.
            _ if self.is_over => Verdict::Stop,
            Some(over) => over.verdict(),
            None => Verdict::GoOn,
        }
    }

    /// What the client has not taken counts for its tenant. Whoever leaves much unacknowledged goes, if the tenant has all that it may have; an answer
    /// that is still being written had room when it was made.
    pub(super) fn judge_unread(&mut self) -> Verdict {
        self.unread.settle(self.counted());
        if self.outbound.unacknowledged_bytes() > SPARED_BYTES && self.unread.is_full() {
            return Over::SlowTenant.verdict();
        }
        Verdict::GoOn
    }

    /// A session that has next to nothing counts for nothing.
    pub(super) fn counted(&self) -> usize {
        (self.outbound.bytes() + self.watches.bytes()).saturating_sub(UNCOUNTED_BYTES)
    }

    /// Whether the client may be told so many bytes more that it has asked for.
    pub(super) fn has_room(&mut self, bytes: usize) -> bool {
        self.unread.make(self.counted() + bytes).is_ok()
    }

    fn answer(&mut self, asked: Asked, outcome: Outcome) {
        if let Asked::Request { id, acquire: Acquire::Steal, .. } = asked {
            self.note_steal(id, &outcome);
        }
        match (asked, outcome) {
            (Asked::Lease, Outcome::Joined(agent)) => self.lease_agent = Some(agent),
            (Asked::Join { agent }, Outcome::Joined(id)) => self.table.add_agent(agent, id),
            (Asked::Join { agent }, Outcome::Refused(refusal)) => self.refused_join(agent, &refusal),
            (Asked::Leave { agent }, _) => self.table.remove_agent(agent),
            (Asked::Request { id, agent, .. } | Asked::Reclaim { id, agent }, Outcome::Granted(grant)) => {
                self.table.add_request(id, agent, grant.request);
                self.granted(id, grant);
            }
            (Asked::Request { id, agent, .. } | Asked::Reclaim { id, agent }, Outcome::Queued(request)) => {
                self.table.add_request(id, agent, request);
            }
            (Asked::Request { id, agent, acquire }, Outcome::Refused(refusal)) => {
                self.refused(id, agent, acquire, &refusal);
            }
            (Asked::Reclaim { id, agent }, Outcome::Refused(refusal)) => {
                self.refused_reclaim(id, agent, &refusal);
            }
            (Asked::Abort { id }, Outcome::Aborted { pending: true }) => self.table.remove_request(id),
            (Asked::Release { id, reply }, Outcome::Released { held }) => self.released(id, reply, held),
            (Asked::Query(look, _room), Outcome::Snapshot(snapshot)) => _ = self.show(&look, &snapshot),
            (Asked::Watches(_room), Outcome::Snapshot(snapshot)) => self.show_watches(&snapshot),
            _ => {}
        }
    }

    /// A steal is never queued but for the store to keep it: others have lost the name by then, whether the thief stays to hear of it or not.
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
        self.admission.note_steal(&steal, why);
    }

    fn granted(&mut self, id: u64, grant: Grant) {
        let ticket = self.port.ticket(grant.request).map(Ticket::new);
        self.outbound.push(Event::Granted { id, token: grant.token, ticket });
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

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Granted { grant, .. } => {
                if let Some(id) = self.table.request_number(grant.request) {
                    self.granted(id, grant);
                }
            }
            Effect::Lost { request, reason, .. } => self.lost(request, reason),
            Effect::AgentEnded { agent, reason: EndReason::Expired } => {
                if self.lease_agent == Some(agent) {
                    self.over = Some(Over::LeaseExpired);
                } else if let Some(number) = self.table.agent_number(agent) {
                    self.table.remove_agent(number);
                    self.outbound.push(Event::Ended { agent: number, reason: EndedReason::Expired });
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
        let reason = match reason {
            LossReason::Stolen => LostReason::Stolen,
            LossReason::Expired => LostReason::Expired,
            LossReason::Superseded => LostReason::Superseded,
        };
        self.outbound.push(Event::Lost { id, reason });
    }

    /// A request that would not have waited had to, as the bucket recovered.
    fn unavailable(&mut self, request: RequestId, refusal: &Refusal) {
        let Some(id) = self.table.request_number(request) else { return };
        let agent = self.table.agent_of(id);
        self.table.remove_request(id);
        self.refused(id, agent, Acquire::IfAvailable(Mode::Exclusive), refusal);
    }

    fn refused_reclaim(&mut self, id: u64, agent: u64, refusal: &Refusal) {
        match refusal {
            Refusal::Superseded | Refusal::NotRecovering | Refusal::UnknownToken => {
                self.outbound.push(Event::Lost { id, reason: LostReason::Superseded });
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
                self.outbound.push(Event::Refused { id, holders, queued: u64::from(*queued) });
            }
            // Nothing is available any more, and nobody in particular is to blame.
            Refusal::Closed if matches!(acquire, Acquire::IfAvailable(_)) => {
                self.outbound.push(Event::Refused { id, holders: Vec::new(), queued: 0 });
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

/// Leaves of the holders, and then of their metadata, what one answer has room for; the first go first.
fn fit(holders: &mut Vec<HolderView<'_>>) {
    let mut room = ANSWER_BYTES - REFUSAL_BYTES;
    let mut fits = |bytes: usize| {
        let left = room.checked_sub(bytes);
        room = left.unwrap_or(room);
        left.is_some()
    };
    let count =
        holders.iter().take_while(|holder| fits(HOLDER_BYTES + json_bytes(&holder.client_id))).count();
    holders.truncate(count);
    for holder in holders {
        holder.metadata.take_if(|metadata| !fits(json_bytes(metadata)));
    }
}

/// At least as many bytes as the text has as a JSON string without its quotes.
fn json_bytes(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        0..=0x1F => r"\u0000".len(),
        b'"' | b'\\' => 2,
        _ => 1,
    });
    bytes.sum()
}

impl Steal {
    /// Of a name, as it is told.
    pub(super) fn new(name: String, robbed: &Robbed) -> Self {
        let victim = |holder: &Holder| {
            let what = match holder.party {
                Party::Agent(_) => "web lock",
                Party::Owner(_) => "offline lock",
                Party::Claimant => "claim",
            };
            format!("{what} of {}", holder.label)
        };
        let victims: Vec<String> = robbed.first.iter().map(victim).collect();
        let (lost, victims) = (robbed.holders as u64, short(victims.join(", ")));
        Self { name, lost, victims, is_recovering: robbed.is_recovering }
    }
}

impl Over {
    fn verdict(self) -> Verdict {
        let (code, message) = match self {
            Self::LeaseExpired => {
                (FatalCode::LeaseExpired, "no ping was answered for the length of the lease")
            }
            Self::SlowReader => {
                (FatalCode::SlowReader, "more frames wait for their acknowledgement than a session may have")
            }
            Self::SlowTenant => (
                FatalCode::SlowReader,
                "more waits to be taken than the sessions of a tenant may have together, and much of it in this one",
            ),
        };
        Verdict::Fatal(code, Problem::with_message(message))
    }
}

/// Whether somebody else may make room, so that asking again later is worth it.
fn depends_on_others(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::TooManyEntries { .. }
            | Refusal::TooManyNames { .. }
            | Refusal::TooManyAgents { .. }
            | Refusal::NoRoom { .. }
    )
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
        Refusal::TooManyEntries { limit } => {
            quota(Problem::with_field("id", format!("one of at most {limit} of a bucket at once")))
        }
        Refusal::TooManyNames { limit } => {
            quota(Problem::with_field("name", format!("one of at most {limit} of a bucket at once")))
        }
        Refusal::NoRoom { limit } => quota(Problem::with_message(format!(
            "the tables of the tenant have all of the {limit} bytes of memory that they may have: give something back first"
        ))),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::time::SystemTime;

    use lockhouse::HolderKind;
    use lockhouse::core::{Mode, OwnerId};
    use lockhouse_wire::{Envelope, ServerFrame};

    use super::*;

    fn holder(client_id: &str, metadata: &str) -> HolderView<'static> {
        HolderView {
            client_id: client_id.to_owned().into(),
            kind: HolderKind::Offline(OwnerId::new((1 << 53) - 1)),
            mode: Mode::Exclusive,
            since: SystemTime::UNIX_EPOCH,
            expires_at: Some(SystemTime::UNIX_EPOCH),
            metadata: Some(metadata.to_owned().into()),
        }
    }

    /// How many holders, and how much metadata, are left of eight like this one.
    fn left_of_eight(client_id: &str, metadata: &str) -> (usize, Vec<usize>) {
        const HIGHEST: u64 = (1 << 53) - 1;
        let mut holders = vec![holder(client_id, metadata); 8];
        fit(&mut holders);
        let left: Vec<_> =
            holders.iter().flat_map(|holder| &holder.metadata).map(|text| text.len()).collect();
        let count = holders.len();
        let event = Event::Refused { id: HIGHEST, holders, queued: u64::from(u32::MAX) };
        let text = Envelope::new(ServerFrame::Numbered { seq: HIGHEST, event }).to_text();
        assert!(text.len() <= ANSWER_BYTES, "{} bytes: {text}", text.len());
        (count, left)
    }

    #[test]
    fn a_refusal_names_as_many_holders_with_metadata_as_it_has_room_for() {
        assert_eq!(left_of_eight("worker", "nightly"), (8, vec![7; 8]));
        assert_eq!(left_of_eight("worker", &"m".repeat(1024)), (8, vec![1024; 2]));
        assert_eq!(left_of_eight(&"c".repeat(256), &"m".repeat(256)), (8, vec![256]));
        // Every byte is an escape of six.
        let (count, left) = left_of_eight(&"\u{1}".repeat(256), &"\u{1}".repeat(1024));
        assert_eq!((count, left), (2, vec![]));
    }
}
