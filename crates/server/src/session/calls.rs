//! From the client's frames to the bucket's commands.

use std::fmt::Display;

use lockhouse::core::{Acquire, Command, NewAgent, NewReclaim, NewRequest};
use lockhouse_wire::{
    ACK_EVERY, BadClientFrame, ClientCall, ClientFrame, Envelope, ErrorCode, FRAME_BYTES, FatalCode,
    FrameProblem, Reclaim, ServerEvent, ServerFrame, WebLockRequest,
};

use super::state::Session;
use super::verdict::{PendingCall, Steal, Verdict};
use crate::audit::{DisplayName, short};
use crate::bounds::{ACK_BYTES, GIVE_WAY_FRAMES, OUTBOX_HIGH_WATER_BYTES, READ_BATCH, WAITING_ANSWERS};
use crate::limits::QUOTA;
use crate::settings::Permission;
use crate::websocket::{Incoming, WebSocketConnection};

impl Session {
    /// Handles a message, and those that have come already behind it.
    pub(super) async fn read(&mut self, connection: &mut WebSocketConnection, first: Incoming) -> Verdict {
        // The message that is read now is urgent, and the messages behind it are not.
        let is_paced = self.pacing.is_paced();
        // Another frame may have so long an answer that too much waits to be written again.
        let mut verdict = if self.watches.overdue { self.look_again() } else { Verdict::GoOn };
        if matches!(verdict, Verdict::GoOn) {
            let (cost, heard) = (first.cost(), self.heard());
            verdict = self.incoming(first);
            // What answers a ping, or much that was sent, is no flood: there is no more of it than that.
            if is_paced && !self.has_heard_more(heard) {
                self.pacing.has_read_ahead(cost);
            }
        }
        let available = self.available_frames();
        let mut paused_at = 0;
        for _ in 1..READ_BATCH {
            if !matches!(verdict, Verdict::GoOn)
                || self.outbound.queue.bytes() > OUTBOX_HIGH_WATER_BYTES
                || self.pacing.has_spent(available)
                || is_paced
            {
                break;
            }
            if self.pacing.spent() - paused_at >= GIVE_WAY_FRAMES {
                paused_at = self.pacing.spent();
                connection.pass();
                tokio::task::yield_now().await;
            }
            let Some(next) = connection.next_ready().await else { break };
            verdict = self.incoming(next);
        }
        // A session that ends gives back its locks before others have their turn.
        if matches!(verdict, Verdict::GoOn) {
            connection.pass();
        }
        verdict
    }

    fn incoming(&mut self, incoming: Incoming) -> Verdict {
        self.pacing.has_read(incoming.cost());
        match incoming {
            Incoming::Frame(frame) => {
                self.unacked_bytes += frame.bytes;
                match self.frame(&frame.text) {
                    Verdict::Fatal(code @ (FatalCode::BadFrame | FatalCode::BadSeq), problem) => {
                        Verdict::Fatal(code, problem.of_frame(frame.index))
                    }
                    verdict => verdict,
                }
            }
            Incoming::Binary => Verdict::Unsupported,
            Incoming::Control => Verdict::GoOn,
            Incoming::TooLarge => {
                let problem =
                    FrameProblem::with_message(format!("a message has at most {FRAME_BYTES} bytes"));
                Verdict::Fatal(FatalCode::TooLarge, problem)
            }
            Incoming::Malformed(why) => Verdict::Fatal(FatalCode::BadFrame, FrameProblem::with_message(why)),
            Incoming::Closed(code) => Verdict::Closed(code),
            Incoming::Lost => Verdict::Lost,
        }
    }

    pub(super) fn frame(&mut self, text: &str) -> Verdict {
        match Envelope::<ClientFrame<'_>>::parse(text) {
            Ok(envelope) => {
                self.acknowledged(envelope.ack).unwrap_or_else(|| self.client_frame(envelope.frame))
            }
            Err(BadClientFrame::Fatal(problem)) => Verdict::Fatal(FatalCode::BadFrame, problem),
            Err(BadClientFrame::Answered { ack, seq, id, code, problem }) => {
                // It may have been a reclaim.
                self.port.refuse_reclaim();
                let fatal = self.acknowledged(ack).or_else(|| seq.and_then(|seq| self.numbered(seq)));
                fatal.unwrap_or_else(|| {
                    let id = id.filter(|id| self.use_up(*id));
                    self.error(id, code, *problem)
                })
            }
        }
    }

    fn acknowledged(&mut self, ack: u64) -> Option<Verdict> {
        let bad = self.outbound.acknowledge(ack).err()?;
        let problem = FrameProblem::with_value("ack", &ack.to_string(), format!("at most {}", bad.high));
        Some(Verdict::Fatal(FatalCode::BadSeq, problem))
    }

    /// Uses the number up, if it is the next one.
    fn numbered(&mut self, seq: u64) -> Option<Verdict> {
        let next = self.received + 1;
        if seq != next {
            let rule = format!("the next number, which is {next}");
            return Some(Verdict::Fatal(
                FatalCode::BadSeq,
                FrameProblem::with_value("seq", &seq.to_string(), rule),
            ));
        }
        self.received = seq;
        if self.received - self.acked >= ACK_EVERY || self.unacked_bytes >= ACK_BYTES {
            self.note_ack();
            let ack = Envelope { ack: self.received, frame: ServerFrame::Ack };
            self.outbound.push_unnumbered(ack.to_text());
        }
        None
    }

    /// The client is sent an acknowledgement of all that was received.
    pub(super) fn note_ack(&mut self) {
        self.acked = self.received;
        self.unacked_bytes = 0;
    }

    /// The last ping that was answered, and the number of frames that were acknowledged.
    fn heard(&self) -> (u64, u64) {
        (self.answered, self.outbound.acknowledged())
    }

    fn has_heard_more(&self, (answered, acknowledged): (u64, u64)) -> bool {
        self.answered > answered || self.outbound.acknowledged() >= acknowledged + ACK_EVERY
    }

    fn client_frame(&mut self, frame: ClientFrame<'_>) -> Verdict {
        match frame {
            ClientFrame::Numbered { seq, call } => self.numbered(seq).unwrap_or_else(|| self.call(call)),
            ClientFrame::Query(look) => self.query(look),
            ClientFrame::Watch(look) => self.watch(look),
            ClientFrame::Pong { n } => self.pong(n),
            ClientFrame::Ack => Verdict::GoOn,
            ClientFrame::Bye => Verdict::Bye,
            ClientFrame::Hello(_) => {
                let problem = FrameProblem::with_value("type", "\"hello\"", "sent once, as the first frame");
                self.error(None, ErrorCode::BadFrame, problem)
            }
        }
    }

    fn call(&mut self, call: ClientCall<'_>) -> Verdict {
        match call {
            ClientCall::Join { agent, client_id } => self.join(agent, &client_id),
            ClientCall::Leave { agent } => self.leave(agent),
            ClientCall::Request(ask) => self.request(&ask),
            ClientCall::Reclaim(reclaim) => self.reclaim(&reclaim),
            ClientCall::Reclaimed => self.reclaimed(),
            ClientCall::Abort { id } => self.abort(id),
            ClientCall::Release { id, reply } => self.release(id, reply),
        }
    }

    fn join(&mut self, agent: u64, client_id: &str) -> Verdict {
        if agent <= self.highest_agent {
            let rule = format!("above every earlier one, the highest of which is {}", self.highest_agent);
            let problem = FrameProblem::with_value("agent", &agent.to_string(), rule);
            return self.error(None, ErrorCode::BadFrame, problem);
        }
        self.highest_agent = agent;
        let most = self.limits.agents_per_session;
        if self.table.agent_count() >= most as usize {
            let rule = format!("one of at most {most} of a session at once");
            return self.error(None, ErrorCode::QuotaExceeded, FrameProblem::with_field("agent", rule));
        }
        // The agent lives as long as the session does, so that one renewal is enough for all.
        self.ask(PendingCall::Join { agent }, Command::Join(NewAgent { client_id, lease_ms: None }))
    }

    fn leave(&mut self, number: u64) -> Verdict {
        match self.table.agent(number) {
            Some(agent) => self.ask(PendingCall::Leave { agent: number }, Command::End { agent }),
            None => self.unknown_agent(None, number),
        }
    }

    fn request(&mut self, ask: &WebLockRequest<'_>) -> Verdict {
        if let Some(verdict) = self.new_id(ask.id) {
            return verdict;
        }
        let needs = if ask.acquire == Acquire::Steal { Permission::Steal } else { Permission::Request };
        if let Some(verdict) = self.denied(ask.id, needs, Some(&DisplayName(ask.name.as_name()))) {
            return verdict;
        }
        let Some(agent) = self.table.agent(ask.agent) else {
            return self.unknown_agent(Some(ask.id), ask.agent);
        };
        if let Some(verdict) = self.too_many_requests(ask.id) {
            return verdict;
        }
        let waiting = self.asked.awaited() + self.table.undecided_count();
        if matches!(ask.acquire, Acquire::IfAvailable(_)) && waiting >= WAITING_ANSWERS {
            return self.too_many_waiting(ask.id);
        }
        let request = NewRequest {
            agent,
            name: ask.name.as_name(),
            acquire: ask.acquire,
            metadata: ask.metadata.as_deref(),
            max_hold_ms: ask.max_hold_ms,
        };
        let asked = PendingCall::Request { id: ask.id, agent: ask.agent, acquire: ask.acquire };
        if ask.acquire == Acquire::Steal {
            self.steal(ask.id, asked, request)
        } else {
            self.ask(asked, Command::Request(request))
        }
    }

    /// Only operators may take away what is held for good.
    fn steal(&mut self, id: u64, asked: PendingCall, request: NewRequest<'_>) -> Verdict {
        let name = DisplayName(request.name);
        let tag = self.asked.add(asked);
        let spares = !self.admission.allows(Permission::Operate);
        let Some(stolen) = self.port.steal(tag, request, spares) else {
            self.asked.remove(tag);
            return self.deny(id, "steal", Permission::Operate, Some(&name));
        };
        // A steal of a free name takes nothing.
        if stolen.holders > 0 || stolen.is_recovering {
            self.steals.insert(id, Steal::new(short(name.to_string()), &stolen));
        }
        self.take_notices()
    }

    /// The answer to a call that the credential has no permission for.
    pub(super) fn denied(
        &mut self,
        id: u64,
        needs: Permission,
        name: Option<&dyn Display>,
    ) -> Option<Verdict> {
        if self.admission.allows(needs) { None } else { Some(self.deny(id, needs.word(), needs, name)) }
    }

    fn deny(&mut self, id: u64, what: &str, needs: Permission, name: Option<&dyn Display>) -> Verdict {
        let rule = format!("a credential with the permission \"{}\"", needs.word());
        let problem = FrameProblem::with_field("permission", rule);
        self.admission.note_denied(what, name, &problem);
        self.error(Some(id), ErrorCode::Forbidden, problem)
    }

    fn reclaim(&mut self, reclaim: &Reclaim<'_>) -> Verdict {
        self.submit_reclaim(reclaim).unwrap_or_else(|refused| {
            self.port.refuse_reclaim();
            refused
        })
    }

    /// The error has the answer to a reclaim that did not reach the bucket.
    fn submit_reclaim(&mut self, reclaim: &Reclaim<'_>) -> Result<Verdict, Verdict> {
        if let Some(verdict) = self.new_id(reclaim.id) {
            return Err(verdict);
        }
        let Reclaim { id, agent: number, token, .. } = *reclaim;
        if let Some(verdict) =
            self.denied(id, Permission::Request, Some(&DisplayName(reclaim.name.as_name())))
        {
            return Err(verdict);
        }
        let Some(agent) = self.table.agent(number) else {
            return Err(self.unknown_agent(Some(id), number));
        };
        if let Some(verdict) = self.too_many_requests(id) {
            return Err(verdict);
        }
        let new = NewReclaim {
            agent,
            name: reclaim.name.as_name(),
            mode: reclaim.mode,
            token,
            metadata: reclaim.metadata.as_deref(),
            max_hold_ms: reclaim.max_hold_ms,
        };
        let tag = self.asked.add(PendingCall::Reclaim { id, agent: number });
        if !self.port.reclaim(tag, new, reclaim.ticket.as_str()) {
            let name = DisplayName(reclaim.name.as_name());
            self.admission.note_denied("reclaim", Some(&name), &"no ticket of that lock");
        }
        Ok(self.take_notices())
    }

    /// What the session that the client wanted to resume held besides need not be waited for.
    fn reclaimed(&mut self) -> Verdict {
        if let Some(secret) = self.former_secret.take() {
            self.port.has_reclaimed(&secret);
        }
        self.take_notices()
    }

    fn too_many_requests(&mut self, id: u64) -> Option<Verdict> {
        let most = self.limits.requests_per_session;
        // Answers that wait for the store come all at once, with all that becomes of the other requests.
        if self.table.request_count() + self.asked.len() >= most as usize {
            let rule = format!("one of at most {most} of a session at once");
            return Some(self.error(
                Some(id),
                ErrorCode::QuotaExceeded,
                FrameProblem::with_field("id", rule),
            ));
        }
        (self.asked.awaited() >= WAITING_ANSWERS).then(|| self.too_many_waiting(id))
    }

    pub(super) fn too_many_waiting(&mut self, id: u64) -> Verdict {
        let message = format!("the session waits for {WAITING_ANSWERS} answers already");
        self.not_now(Some(id), ErrorCode::QuotaExceeded, FrameProblem::with_message(message), QUOTA)
    }

    fn abort(&mut self, id: u64) -> Verdict {
        if self.watches.remove(id) {
            return Verdict::GoOn;
        }
        match self.table.request(id) {
            Some(request) => self.ask(PendingCall::Abort { id }, Command::Abort { request }),
            None => Verdict::GoOn,
        }
    }

    fn release(&mut self, id: u64, reply: bool) -> Verdict {
        match self.table.request(id) {
            Some(request) => {
                return self.ask(PendingCall::Release { id, reply }, Command::Release { request });
            }
            None if reply => self.outbound.push(ServerEvent::Released { id, held: false }),
            None => {}
        }
        Verdict::GoOn
    }

    fn pong(&mut self, n: u64) -> Verdict {
        if n > self.pings {
            let problem =
                FrameProblem::with_value("n", &n.to_string(), "the number of a ping of this session");
            return self.error(None, ErrorCode::BadFrame, problem);
        }
        self.answered = self.answered.max(n);
        self.renew()
    }

    /// Uses the id up; false if it does not grow.
    fn use_up(&mut self, id: u64) -> bool {
        let grows = id > self.highest_id;
        self.highest_id = self.highest_id.max(id);
        grows
    }

    /// An id that does not grow may be that of a living request, so the error about it names none.
    pub(super) fn new_id(&mut self, id: u64) -> Option<Verdict> {
        let highest = self.highest_id;
        if self.use_up(id) {
            return None;
        }
        let rule = format!("above every earlier one, the highest of which is {highest}");
        Some(self.error(None, ErrorCode::BadFrame, FrameProblem::with_value("id", &id.to_string(), rule)))
    }

    fn unknown_agent(&mut self, id: Option<u64>, agent: u64) -> Verdict {
        let problem =
            FrameProblem::with_value("agent", &agent.to_string(), "an agent that has joined and not ended");
        self.error(id, ErrorCode::UnknownAgent, problem)
    }
}
