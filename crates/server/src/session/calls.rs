//! From the client's frames to the bucket's commands.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::core::{Acquire, Command, NewAgent, NewReclaim, NewRequest};
use lockhouse::{Room, StoreState};
use lockhouse_wire::{
    ACK_EVERY, Ask, BadClientFrame, Call, ClientFrame, Envelope, ErrorCode, Event, FRAME_BYTES, FatalCode,
    Look, Problem, Reclaim, ServerFrame,
};

use super::connection::{Connection, Incoming};
use super::notices::Asked;
use super::{Session, Steal};
use crate::audit::{Named, short};
use crate::bounds::{GIVE_WAY_FRAMES, OUTBOX_HIGH_WATER_BYTES, READ_BATCH, WATCHES_PER_SESSION};
use crate::limits::{QUOTA, Refused, apart, price_of_look, told_ms};
use crate::settings::Permission;

/// What an input means for the connection.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing.
    GoOn,
    /// It broke off.
    Lost,
    /// The client closes it.
    Closed(Option<u16>),
    /// The client is done.
    Bye,
    /// The server stops.
    Stop,
    /// A binary message came.
    Unsupported,
    /// It ends with this.
    Fatal(FatalCode, Problem<'static>),
}

impl Session {
    /// Handles a message, and those that have come already behind it.
    pub(super) async fn read(&mut self, connection: &mut Connection, first: Incoming) -> Verdict {
        // What is read now is urgent, and what is behind it is not.
        let is_paced = self.is_paced();
        // Another frame may have so long an answer that too much waits to be written again.
        let mut verdict = if self.watches.overdue { self.look_again() } else { Verdict::GoOn };
        if matches!(verdict, Verdict::GoOn) {
            verdict = self.incoming(first);
        }
        let room = self.room_for_frames();
        let mut paused_at = 0;
        for _ in 1..READ_BATCH {
            if !matches!(verdict, Verdict::GoOn)
                || self.outbound.outbox.bytes() > OUTBOX_HIGH_WATER_BYTES
                || self.has_spent(room)
                || is_paced
            {
                break;
            }
            if self.pacing.spent() - paused_at >= GIVE_WAY_FRAMES {
                paused_at = self.pacing.spent();
                tokio::task::yield_now().await;
            }
            let Some(next) = connection.next_ready().await else { break };
            verdict = self.incoming(next);
        }
        verdict
    }

    fn incoming(&mut self, incoming: Incoming) -> Verdict {
        self.pacing.has_read(incoming.cost());
        match incoming {
            Incoming::Text(text) => self.frame(&text),
            Incoming::Binary => Verdict::Unsupported,
            Incoming::Control => Verdict::GoOn,
            Incoming::TooLarge => {
                let problem = Problem::with_message(format!("a frame has at most {FRAME_BYTES} bytes"));
                Verdict::Fatal(FatalCode::TooLarge, problem)
            }
            Incoming::Malformed(why) => Verdict::Fatal(FatalCode::BadFrame, Problem::with_message(why)),
            Incoming::Closed(code) => Verdict::Closed(code),
            Incoming::Lost => Verdict::Lost,
        }
    }

    fn frame(&mut self, text: &str) -> Verdict {
        match Envelope::<ClientFrame<'_>>::parse(text) {
            Ok(envelope) => {
                self.acknowledged(envelope.ack).unwrap_or_else(|| self.client_frame(envelope.frame))
            }
            Err(BadClientFrame::Fatal(problem)) => Verdict::Fatal(FatalCode::BadFrame, problem),
            Err(BadClientFrame::Answered { ack, seq, id, code, problem }) => {
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
        let problem = Problem::with_value("ack", &ack.to_string(), format!("at most {}", bad.high));
        Some(Verdict::Fatal(FatalCode::BadSeq, problem))
    }

    /// Uses the number up, if it is the next one.
    fn numbered(&mut self, seq: u64) -> Option<Verdict> {
        let next = self.received + 1;
        if seq != next {
            let rule = format!("the next number, which is {next}");
            return Some(Verdict::Fatal(
                FatalCode::BadSeq,
                Problem::with_value("seq", &seq.to_string(), rule),
            ));
        }
        self.received = seq;
        if self.received - self.told_received >= ACK_EVERY {
            self.told_received = self.received;
            let ack = Envelope { ack: self.received, frame: ServerFrame::Ack };
            self.outbound.push_unnumbered(ack.to_text());
        }
        None
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
                let problem = Problem::with_value("type", "\"hello\"", "sent once, as the first frame");
                self.error(None, ErrorCode::BadFrame, problem)
            }
        }
    }

    fn call(&mut self, call: Call<'_>) -> Verdict {
        match call {
            Call::Join { agent, client_id } => self.join(agent, &client_id),
            Call::Leave { agent } => self.leave(agent),
            Call::Request(ask) => self.request(&ask),
            Call::Reclaim(reclaim) => self.reclaim(&reclaim),
            Call::Abort { id } => self.abort(id),
            Call::Release { id, reply } => self.release(id, reply),
        }
    }

    fn join(&mut self, agent: u64, client_id: &str) -> Verdict {
        if agent <= self.highest_agent {
            let rule = format!("above every earlier one, the highest of which is {}", self.highest_agent);
            let problem = Problem::with_value("agent", &agent.to_string(), rule);
            return self.error(None, ErrorCode::BadFrame, problem);
        }
        self.highest_agent = agent;
        let most = self.limits.agents_per_session;
        if self.table.agent_count() >= most as usize {
            let rule = format!("one of at most {most} of a session at once");
            return self.error(None, ErrorCode::QuotaExceeded, Problem::with_field("agent", rule));
        }
        // It lives as long as the session does, so that one renewal is enough for all.
        self.ask(Asked::Join { agent }, Command::Join(NewAgent { client_id, lease_ms: None }))
    }

    fn leave(&mut self, number: u64) -> Verdict {
        match self.table.agent(number) {
            Some(agent) => self.ask(Asked::Leave { agent: number }, Command::End { agent }),
            None => self.unknown_agent(None, number),
        }
    }

    fn request(&mut self, ask: &Ask<'_>) -> Verdict {
        if let Some(verdict) = self.new_id(ask.id) {
            return verdict;
        }
        let needs = if ask.acquire == Acquire::Steal { Permission::Steal } else { Permission::Request };
        if let Some(verdict) = self.denied(ask.id, needs, Some(&Named(ask.name.as_name()))) {
            return verdict;
        }
        let Some(agent) = self.table.agent(ask.agent) else {
            return self.unknown_agent(Some(ask.id), ask.agent);
        };
        if let Some(verdict) = self.no_room(ask.id) {
            return verdict;
        }
        let request = NewRequest {
            agent,
            name: ask.name.as_name(),
            acquire: ask.acquire,
            metadata: ask.metadata.as_deref(),
            max_hold_ms: ask.max_hold_ms,
        };
        let asked = Asked::Request { id: ask.id, agent: ask.agent, acquire: ask.acquire };
        if ask.acquire == Acquire::Steal {
            self.steal(ask.id, asked, request)
        } else {
            self.ask(asked, Command::Request(request))
        }
    }

    /// What is held for good only those take away who operate.
    fn steal(&mut self, id: u64, asked: Asked, request: NewRequest<'_>) -> Verdict {
        let name = Named(request.name);
        let tag = self.next_tag(asked);
        let spares = !self.admission.allows(Permission::Operate);
        let Some(robbed) = self.port.steal(tag, request, spares) else {
            self.asked.pop_back();
            return self.deny(id, "steal", Permission::Operate, Some(&name));
        };
        // Of a name that nobody has nothing is taken.
        if robbed.holders > 0 || robbed.is_recovering {
            self.steals.insert(id, Steal::new(short(name.to_string()), &robbed));
        }
        self.take_notices()
    }

    /// The answer to what the credential has no permission for.
    fn denied(&mut self, id: u64, needs: Permission, name: Option<&dyn Display>) -> Option<Verdict> {
        if self.admission.allows(needs) { None } else { Some(self.deny(id, needs.word(), needs, name)) }
    }

    fn deny(&mut self, id: u64, what: &str, needs: Permission, name: Option<&dyn Display>) -> Verdict {
        let rule = format!("a credential with the permission \"{}\"", needs.word());
        let problem = Problem::with_field("permission", rule);
        self.admission.note_denied(what, name, &problem);
        self.error(Some(id), ErrorCode::Forbidden, problem)
    }

    fn reclaim(&mut self, reclaim: &Reclaim<'_>) -> Verdict {
        if let Some(verdict) = self.new_id(reclaim.id) {
            return verdict;
        }
        let Reclaim { id, agent: number, token, .. } = *reclaim;
        if let Some(verdict) = self.denied(id, Permission::Request, Some(&Named(reclaim.name.as_name()))) {
            return verdict;
        }
        let Some(agent) = self.table.agent(number) else { return self.unknown_agent(Some(id), number) };
        if let Some(verdict) = self.no_room(id) {
            return verdict;
        }
        let new = NewReclaim {
            agent,
            name: reclaim.name.as_name(),
            mode: reclaim.mode,
            token,
            metadata: reclaim.metadata.as_deref(),
            max_hold_ms: reclaim.max_hold_ms,
        };
        let tag = self.next_tag(Asked::Reclaim { id, agent: number });
        if !self.port.reclaim(tag, new, reclaim.ticket.as_str()) {
            let name = Named(reclaim.name.as_name());
            self.admission.note_denied("reclaim", Some(&name), &"no ticket of that lock");
        }
        self.take_notices()
    }

    fn no_room(&mut self, id: u64) -> Option<Verdict> {
        let most = self.limits.requests_per_session;
        if self.table.request_count() < most as usize {
            return None;
        }
        let rule = format!("one of at most {most} of a session at once");
        Some(self.error(Some(id), ErrorCode::QuotaExceeded, Problem::with_field("id", rule)))
    }

    fn abort(&mut self, id: u64) -> Verdict {
        if self.watches.remove(id) {
            return Verdict::GoOn;
        }
        match self.table.request(id) {
            Some(request) => self.ask(Asked::Abort { id }, Command::Abort { request }),
            None => Verdict::GoOn,
        }
    }

    fn release(&mut self, id: u64, reply: bool) -> Verdict {
        match self.table.request(id) {
            Some(request) => return self.ask(Asked::Release { id, reply }, Command::Release { request }),
            None if reply => self.outbound.push(Event::Released { id, held: false }),
            None => {}
        }
        Verdict::GoOn
    }

    fn query(&mut self, look: Look) -> Verdict {
        let refused = self.new_id(look.id).or_else(|| self.denied(look.id, Permission::Query, None));
        refused.unwrap_or_else(|| match self.room_to_look() {
            Some(room) => self.take_snapshot(room.clone(), Asked::Query(look, room)),
            None => self.too_many_looks(look.id),
        })
    }

    fn too_many_looks(&mut self, id: u64) -> Verdict {
        let problem = Problem::with_message(
            "the looks of the tenant at its buckets that are under way take all the memory that they may: ask again later",
        );
        self.not_now(Some(id), ErrorCode::QuotaExceeded, problem, QUOTA)
    }

    pub(super) fn has_questions(&self) -> bool {
        self.asked.iter().any(|(_, asked)| matches!(asked, Asked::Query(..)))
    }

    /// What is asked rests on something that the store cannot keep at the moment: nobody is left waiting for that.
    pub(super) fn answer_questions(&mut self, state: &StoreState) -> Verdict {
        let StoreState::Unavailable { why, retry_after } = state else { return Verdict::Stop };
        let message = format!("nothing can be told as kept at the moment: {why}");
        for (tag, asked) in std::mem::take(&mut self.asked) {
            match asked {
                Asked::Query(look, _) => {
                    let problem = Problem::with_message(message.clone());
                    self.not_now(Some(look.id), ErrorCode::Unavailable, problem, *retry_after);
                }
                asked => self.asked.push_back((tag, asked)),
            }
        }
        Verdict::GoOn
    }

    fn watch(&mut self, look: Look) -> Verdict {
        let refused = self.new_id(look.id).or_else(|| self.denied(look.id, Permission::Query, None));
        if let Some(verdict) = refused {
            return verdict;
        }
        if self.watches.len() >= WATCHES_PER_SESSION {
            let rule = format!("one of at most {WATCHES_PER_SESSION} watches of a connection at once");
            return self.error(Some(look.id), ErrorCode::QuotaExceeded, Problem::with_field("id", rule));
        }
        let bucket = self.port.bucket().clone();
        self.watches.add(look, || bucket.changed());
        self.look_for_watches()
    }

    pub(super) fn room_to_look(&self) -> Option<Arc<Room>> {
        self.server.bounds.room_to_look(self.port.bucket())
    }

    /// Looks at the whole bucket, in that room.
    pub(super) fn take_snapshot(&mut self, room: Arc<Room>, asked: Asked) -> Verdict {
        let entries = self.port.bucket().len();
        self.pacing.has_done(price_of_look(entries));
        let tag = self.next_tag(asked);
        apart(entries, || {
            self.port.look(tag, room);
            self.take_notices()
        })
    }

    fn pong(&mut self, n: u64) -> Verdict {
        if n > self.pings {
            let problem = Problem::with_value("n", &n.to_string(), "the number of a ping of this session");
            return self.error(None, ErrorCode::BadFrame, problem);
        }
        self.answered = self.answered.max(n);
        self.renew()
    }

    /// False if the id does not grow.
    fn use_up(&mut self, id: u64) -> bool {
        let grows = id > self.highest_id;
        self.highest_id = self.highest_id.max(id);
        grows
    }

    /// An id that does not grow may be that of a living request, so the error about it names none.
    fn new_id(&mut self, id: u64) -> Option<Verdict> {
        let highest = self.highest_id;
        if self.use_up(id) {
            return None;
        }
        let rule = format!("above every earlier one, the highest of which is {highest}");
        Some(self.error(None, ErrorCode::BadFrame, Problem::with_value("id", &id.to_string(), rule)))
    }

    fn unknown_agent(&mut self, id: Option<u64>, agent: u64) -> Verdict {
        let problem =
            Problem::with_value("agent", &agent.to_string(), "an agent that has joined and not ended");
        self.error(id, ErrorCode::UnknownAgent, problem)
    }

    /// Waiting does not help.
    pub(super) fn error(&mut self, id: Option<u64>, code: ErrorCode, problem: Problem<'_>) -> Verdict {
        self.tell_error(id, code, problem, None)
    }

    /// The same may find another answer after a while.
    pub(super) fn not_now(
        &mut self,
        id: Option<u64>,
        code: ErrorCode,
        problem: Problem<'_>,
        pause: Duration,
    ) -> Verdict {
        self.tell_error(id, code, problem, Some(told_ms(pause)))
    }

    fn tell_error(
        &mut self,
        id: Option<u64>,
        code: ErrorCode,
        problem: Problem<'_>,
        retry_after_ms: Option<u64>,
    ) -> Verdict {
        if code == ErrorCode::QuotaExceeded {
            self.server.bounds.refuse(Refused::Frame);
        }
        self.outbound.push(Event::Error { id, code, retry_after_ms, problem });
        Verdict::GoOn
    }

    /// Asks the bucket, and takes note of the answer and of what came before it.
    pub(super) fn ask(&mut self, asked: Asked, command: Command<'_>) -> Verdict {
        let tag = self.next_tag(asked);
        self.port.submit(tag, command);
        self.take_notices()
    }

    fn next_tag(&mut self, asked: Asked) -> u64 {
        self.last_tag += 1;
        self.asked.push_back((self.last_tag, asked));
        self.last_tag
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use tokio::time::Instant;

    use super::super::tests::session;
    use super::*;
    use crate::Config;
    use crate::server::Server;

    /// What the session tells in answer to the frame.
    fn told(session: &mut Session, frame: &str) -> Vec<String> {
        assert!(matches!(session.frame(frame), Verdict::GoOn));
        written(session)
    }

    fn written(session: &mut Session) -> Vec<String> {
        std::iter::from_fn(|| session.outbound.outbox.pop()).map(|text| text.as_str().to_owned()).collect()
    }

    #[tokio::test]
    async fn who_finds_no_room_to_look_is_told_so_and_whoever_watches_looks_later() {
        let server = Server::new(Config::default());
        let mut session = session(&server, server.phases()).await;
        session.outbound.resume(0).unwrap();
        let key = session.port.bucket().key().clone();
        let agent = session.port.bucket().agent("holder").unwrap();
        let held = agent.locks().request("held").await.unwrap();
        // The copies of others take all that the tenant may have for them.
        let mut others = server.bounds.looks.of(key.tenant());
        others.make(server.bounds.settings().table_bytes()).unwrap();

        let refused = told(&mut session, r#"{"type":"query","id":1}"#).concat();
        assert!(refused.contains(r#""code":"quota_exceeded""#), "{refused}");
        assert!(refused.contains(r#""retryAfterMs":1000"#), "{refused}");
        assert_eq!(told(&mut session, r#"{"type":"watch","id":2}"#), [""; 0], "it waits for room");
        assert!(session.asked.is_empty(), "nothing was copied");
        session.watches.due(Instant::now()).await;
        session.look_again();
        assert_eq!(written(&mut session), [""; 0]);

        drop(others);
        session.watches.due(Instant::now()).await;
        session.look_again();
        let shown = written(&mut session).concat();
        assert!(shown.contains(r#""type":"snapshot","id":2"#) && shown.contains("held"), "{shown}");
        assert!(told(&mut session, r#"{"type":"query","id":3}"#).concat().contains(r#""id":3"#));
        assert_eq!(server.bounds.looks.taken(key.tenant()), 0, "the room goes with the copy");
        drop(held);
    }
}
