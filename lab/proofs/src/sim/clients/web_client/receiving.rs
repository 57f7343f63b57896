//! The handling of the frames that a web client receives, and its return after a restart.

use lockhouse::core::Acquire;
use lockhouse::{FencingToken, NameBuf};
use lockhouse_wire::{ClientCall, ErrorCode, LostReason, Reclaim, Ticket, WebLockRequest};

use super::{Held, RemoteWebClient, RequestState};
use crate::history::record::{Gain, Reason};
use crate::sim::clients::session::{AGENT, Frame};
use crate::sim::server::{NAMES, ServerLife};

impl RemoteWebClient {
    pub(super) fn take(&mut self, life: &ServerLife, frame: Frame) {
        match frame {
            Frame::Began { until } => {
                self.hold_until(until.unwrap_or_default());
                self.come_back(life);
            }
            Frame::Granted { tag, token, ticket } => self.granted(life, tag, token, ticket),
            Frame::Refused { tag, code } => self.refused(life, tag, code),
            Frame::Lost { tag, reason } => self.lost(life, tag, reason),
            Frame::Snapshot { tag, tokens } => self.shown(life, tag, &tokens),
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
            if let Some(session) = self.session.as_mut().filter(|session| reclaims && session.is_known()) {
                session.call(ClientCall::Reclaimed);
            }
        }
    }

    pub(super) fn send(&mut self, life: &ServerLife, at: usize) {
        let tag = self.next_tag();
        let Some(session) = self.session.as_mut().filter(|session| session.is_known()) else { return };
        let request = &mut self.requests[at];
        let Ok(name) = NameBuf::new(NAMES[request.name]) else { return };
        let (acquire, max_hold_ms) = (request.acquire, request.max_hold_ms);
        match &request.state {
            RequestState::Held(Held { token, ticket: Some((ticket, _)), .. }) => {
                request.tag = tag + 1;
                life.server.journal.count("web: reclaims");
                session.call(ClientCall::Reclaim(Reclaim {
                    id: request.tag,
                    agent: AGENT,
                    name,
                    mode: acquire.mode(),
                    token: *token,
                    ticket: ticket.clone(),
                    metadata: None,
                    max_hold_ms,
                }));
            }
            RequestState::Pending => {
                request.tag = tag;
                session.call(ClientCall::Request(WebLockRequest {
                    id: tag,
                    agent: AGENT,
                    name,
                    acquire,
                    metadata: None,
                    max_hold_ms,
                }));
            }
            RequestState::Held(_) => {}
        }
    }

    fn granted(&mut self, life: &ServerLife, tag: u64, token: FencingToken, ticket: Option<Ticket<'static>>) {
        let journal = &life.server.journal;
        let Some(at) = self.at(tag) else {
            // Given up meanwhile.
            self.give_back(tag);
            return;
        };
        let known = &mut self.requests[at];
        let ticket = ticket.map(|ticket| (ticket, life.server.epoch));
        match &mut known.state {
            RequestState::Pending => {
                journal.ok(Some(known.op), false, Gain { token: Some(token.get()), ..Gain::default() });
                journal.count("web: granted far away");
                known.state = RequestState::Held(Held { token, ticket, until: None });
            }
            RequestState::Held(held) => {
                if held.token != token {
                    life.server.strange(format!("{} brought back with token {token}", held.token));
                }
                journal.count("web: reclaimed");
                *held = Held { token, ticket, until: None };
            }
        }
    }

    fn refused(&mut self, life: &ServerLife, tag: u64, code: Option<ErrorCode>) {
        let journal = &life.server.journal;
        if let Some(at) = self.queries.iter().position(|query| query.tag == tag) {
            self.queries.remove(at);
            journal.count("web: queries refused");
            if code != Some(ErrorCode::Unavailable) {
                life.server.strange(format!("a query was refused: {code:?}"));
            }
            return;
        }
        let Some(at) = self.at(tag) else { return };
        let request = &self.requests[at];
        match (&request.state, code) {
            (RequestState::Pending, None | Some(ErrorCode::Closing)) => {
                journal.count("web: unavailable");
                journal.refused(Some(request.op), Reason::Busy);
            }
            (RequestState::Pending, Some(ErrorCode::Unavailable)) => {
                journal.count("web: no store for the answer");
                journal.refused(Some(request.op), Reason::Unavailable);
            }
            (state, code) => life.server.strange(format!("{state:?} was refused: {code:?}")),
        }
        self.forget(at);
    }

    fn lost(&mut self, life: &ServerLife, tag: u64, reason: LostReason) {
        let journal = &life.server.journal;
        let Some(at) = self.at(tag) else { return };
        journal.count(match reason {
            LostReason::Stolen => "web: stolen",
            LostReason::Expired => "web: held too long",
            LostReason::Superseded => "web: superseded",
            LostReason::Broken => "web: broken",
        });
        match self.requests[at].state {
            RequestState::Held(_) => journal.lost(&self.name, self.requests[at].op, None),
            // As in real clients, a loss ends a granted lock, and nothing else.
            RequestState::Pending => {
                return life.server.strange("a lock was lost before it was told as granted");
            }
        }
        self.forget(at);
    }

    /// A lock that was held before the question and is held still has been held meanwhile.
    fn shown(&mut self, life: &ServerLife, tag: u64, tokens: &[u64]) {
        let Some(at) = self.queries.iter().position(|query| query.tag == tag) else { return };
        let query = self.queries.remove(at);
        for request in self.requests.iter().filter(|request| query.held.contains(&request.tag)) {
            if let RequestState::Held(held) = &request.state
                && !tokens.contains(&held.token.get())
            {
                life.server.journal.breach(format!(
                    "{} holds token {}, which the snapshot does not show",
                    self.name, held.token
                ));
            }
        }
    }
}
