//! The handling of the frames that a web client receives, and its return after a restart.

use lockhouse::core::{Acquire, Command, LossReason, NewReclaim, NewRequest, Refusal, RequestId};
use lockhouse::{FencingToken, Name};

use super::{Held, RemoteWebClient, RequestState};
use crate::history::record::{Gain, Reason};
use crate::sim::clients::session::Frame;
use crate::sim::server::{NAMES, ServerLife};

impl RemoteWebClient {
    pub(super) fn take(&mut self, life: &ServerLife, frame: Frame) {
        match frame {
            Frame::Joined => self.come_back(life),
            Frame::Granted { tag, request, token, ticket } => {
                self.granted(life, tag, request, token, ticket);
            }
            Frame::Refused { tag, refusal } => self.refused(life, tag, &refusal),
            Frame::Lost { tag, reason } => self.lost(life, tag, reason),
            Frame::Ended => {
                // The client receives this frame only if it was late itself.
                let session = self.session.take();
                self.hold_until(session.map_or(0, |session| session.deadline_ms()));
            }
        }
    }

    /// In a new session, held locks are reclaimed, then pending requests are sent again.
    fn come_back(&mut self, life: &ServerLife) {
        let journal = &life.server.journal;
        for at in (0..self.requests.len()).rev() {
            let request = &self.requests[at];
            let is_lost = match &request.state {
                RequestState::Held(held) => {
                    held.ticket.as_ref().is_none_or(|(_, epoch)| *epoch == life.server.epoch)
                }
                RequestState::Pending if request.acquire == Acquire::Steal => {
                    journal.unknown(Some(request.op));
                    self.requests.remove(at);
                    continue;
                }
                _ => false,
            };
            if is_lost {
                journal.lost(&self.name, request.op, None);
                self.forget(at);
            }
        }
        for reclaims in [true, false] {
            for at in 0..self.requests.len() {
                if matches!(self.requests[at].state, RequestState::Held(_)) == reclaims {
                    self.send(life, at);
                }
            }
        }
    }

    pub(super) fn send(&mut self, life: &ServerLife, at: usize) {
        let tag = self.next_tag();
        let Some((session, agent)) = self.session.as_ref().and_then(|it| Some((it, it.agent()?))) else {
            return;
        };
        let _guard = life.enter();
        let request = &mut self.requests[at];
        let Ok(name) = Name::new(NAMES[request.name]) else { return };
        let (acquire, max_hold_ms) = (request.acquire, request.max_hold_ms);
        match &request.state {
            RequestState::Held(Held { token, ticket: Some((ticket, _)), .. }) => {
                request.tag = tag + 1;
                let (mode, token) = (acquire.mode(), *token);
                let reclaim = NewReclaim { agent, name, mode, token, metadata: None, max_hold_ms };
                life.server.journal.count("web: reclaims");
                session.port().reclaim(request.tag, reclaim, ticket);
            }
            RequestState::Pending => {
                request.tag = tag;
                let new = NewRequest { agent, name, acquire, metadata: None, max_hold_ms };
                session.port().submit(tag, Command::Request(new));
            }
            _ => {}
        }
    }

    fn granted(
        &mut self,
        life: &ServerLife,
        tag: u64,
        request: RequestId,
        token: FencingToken,
        ticket: Option<String>,
    ) {
        let journal = &life.server.journal;
        let Some(at) = self.at(tag) else {
            // Given up meanwhile.
            self.give_back(request);
            return;
        };
        let known = &mut self.requests[at];
        let ticket = ticket.map(|ticket| (ticket, life.server.epoch));
        match &mut known.state {
            RequestState::Pending => {
                journal.ok(Some(known.op), false, Gain { token: Some(token.get()), ..Gain::default() });
                journal.count("web: granted far away");
                known.state = RequestState::Held(Held { token, ticket, request: Some(request), until: None });
            }
            RequestState::Held(held) => {
                if held.token != token {
                    life.server.strange(format!("{} brought back with token {token}", held.token));
                }
                journal.count("web: reclaimed");
                *held = Held { token, ticket, request: Some(request), until: None };
            }
            RequestState::GivenUp => {
                self.requests.remove(at);
                self.give_back(request);
            }
        }
    }

    fn refused(&mut self, life: &ServerLife, tag: u64, refusal: &Refusal) {
        let journal = &life.server.journal;
        let Some(at) = self.at(tag) else { return };
        let request = &self.requests[at];
        match (&request.state, refusal) {
            (RequestState::Held(_), Refusal::Superseded | Refusal::NotRecovering) => {
                journal.count("web: superseded");
                journal.lost(&self.name, request.op, None);
            }
            (RequestState::Pending, Refusal::Unavailable { .. } | Refusal::Closed) => {
                journal.count("web: unavailable");
                journal.refused(Some(request.op), Reason::Busy);
            }
            (RequestState::GivenUp, _) => {}
            (state, refusal) => life.server.strange(format!("{state:?} was refused: {refusal:?}")),
        }
        self.forget(at);
    }

    fn lost(&mut self, life: &ServerLife, tag: u64, reason: LossReason) {
        let journal = &life.server.journal;
        let Some(at) = self.at(tag) else { return };
        journal.count(match reason {
            LossReason::Stolen => "web: stolen",
            LossReason::Expired => "web: held too long",
            LossReason::Superseded => "web: superseded",
        });
        match self.requests[at].state {
            RequestState::Held(_) => journal.lost(&self.name, self.requests[at].op, None),
            // As in real clients, a loss ends a granted lock, and nothing else.
            RequestState::Pending => {
                return life.server.strange("a lock was lost before it was told as granted");
            }
            RequestState::GivenUp => {}
        }
        self.forget(at);
    }
}
