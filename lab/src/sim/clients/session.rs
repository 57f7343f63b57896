//! A session of a remote client: the server's side of it, the frames on the wire, and the client's own view
//! of its lease.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lockhouse::core::{
    AgentId, Command, Effect, EndReason, Grant, LossReason, NewAgent, Outcome, Refusal, RequestId,
};
use lockhouse::{FencingToken, Notice, Port};
use parking_lot::Mutex;

use crate::sim::ledger::Ledger;
use crate::sim::server::{Place, ServerHandle, ServerLife, Started};

/// The frames that the client receives.
#[derive(Debug)]
pub(super) enum Frame {
    Joined,
    Granted { tag: u64, request: RequestId, token: FencingToken, ticket: Option<String> },
    Refused { tag: u64, refusal: Box<Refusal> },
    Lost { tag: u64, reason: LossReason },
    Ended,
}

/// A session. Tags of reclaims are odd, those of requests even; 1 is the beginning, and no client waits for
/// an answer with 0.
#[derive(Debug)]
pub(super) struct Session {
    port: Arc<Port>,
    shared: Arc<Shared>,
    lease_ms: u64,
    /// When the client sent its last sign of life, and when the last that the server has confirmed.
    sent_ms: u64,
    confirmed_ms: u64,
    task: Started<()>,
}

/// The state that is shared with the task of the server.
#[derive(Debug, Default)]
struct Shared {
    frames: Mutex<VecDeque<Frame>>,
    requests: Mutex<Requests>,
    agent: Mutex<Option<AgentId>>,
    /// Until when the client counts on its lease.
    deadline_ms: AtomicU64,
    has_ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Requests {
    tags: HashMap<RequestId, u64>,
    ids: HashMap<u64, RequestId>,
    /// Reclaims that must be refused.
    void: HashSet<u64>,
}

/// The tag of the beginning.
const JOIN: u64 = 1;

/// The interval of the server's pings, as a part of the lease.
const BEATS_PER_LEASE: u64 = 10;

impl Session {
    /// The client sends its hello.
    pub(super) fn begin(life: &ServerLife, place: &Place, label: &str, lease_ms: u64) -> Self {
        let _guard = life.enter();
        let server = &life.server;
        let port = Arc::new(server.bucket(place).port(10_000));
        let now = server.journal.now_ms();
        port.submit(JOIN, Command::Join(NewAgent { client_id: label, lease_ms: Some(lease_ms) }));
        let shared = Arc::new(Shared::default());
        let (to, on) = (port.clone(), shared.clone());
        let task = Task { server: server.clone(), place: place.clone(), port: to, shared: on, lease_ms };
        let task = life.start(task.run());
        let session = Self { port, shared, lease_ms, sent_ms: now, confirmed_ms: now, task };
        session.set_deadline();
        session
    }

    pub(super) fn port(&self) -> &Port {
        &self.port
    }

    /// Known once the server has said welcome.
    pub(super) fn agent(&self) -> Option<AgentId> {
        *self.shared.agent.lock()
    }

    /// Everything that has come.
    pub(super) fn read(&self) -> VecDeque<Frame> {
        std::mem::take(&mut *self.shared.frames.lock())
    }

    /// Whether something has come that was not read yet.
    pub(super) fn has_unread(&self) -> bool {
        !self.shared.frames.lock().is_empty()
    }

    /// The server's identity of that request, if it is known.
    pub(super) fn request_of(&self, tag: u64) -> Option<RequestId> {
        self.shared.requests.lock().ids.get(&tag).copied()
    }

    /// Notes that this reclaim must be refused.
    pub(super) fn is_void(&self, tag: u64) {
        self.shared.requests.lock().void.insert(tag);
    }

    /// A ping came if one is due: it confirms the last answer, and is answered.
    pub(super) fn beat(&mut self, now_ms: u64) {
        let Some(agent) = self.agent() else { return };
        if now_ms >= self.sent_ms + self.lease_ms / BEATS_PER_LEASE {
            self.confirmed_ms = self.sent_ms;
            self.sent_ms = now_ms;
            self.set_deadline();
            self.port.submit(0, Command::Renew { agent });
        }
    }

    /// Past this the client ends the session itself.
    pub(super) fn deadline_ms(&self) -> u64 {
        self.confirmed_ms + self.lease_ms * 9 / 10
    }

    fn set_deadline(&self) {
        self.shared.deadline_ms.store(self.deadline_ms(), Ordering::Relaxed);
    }

    /// The client counts on nothing of it any more.
    pub(super) fn give_up(&self) {
        self.shared.deadline_ms.store(0, Ordering::Relaxed);
    }

    /// Whether the server has ended it.
    pub(super) fn has_ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::Relaxed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.drop_future();
    }
}

/// The task of a session on the server.
struct Task {
    server: ServerHandle,
    place: Place,
    port: Arc<Port>,
    shared: Arc<Shared>,
    lease_ms: u64,
}

impl Task {
    async fn run(self) {
        let mut notices = VecDeque::new();
        loop {
            self.port.ready().await;
            if self.port.drain(&mut notices).is_err() {
                return self.server.strange("the inbox of a session has overflowed");
            }
            for notice in notices.drain(..) {
                let frame = match notice {
                    Notice::Answer { tag, outcome } => self.answer(tag, outcome),
                    Notice::Effect(effect) => self.effect(effect),
                    Notice::Over(_) => return,
                };
                self.shared.frames.lock().extend(frame);
            }
        }
    }

    fn answer(&self, tag: u64, outcome: Outcome) -> Option<Frame> {
        match outcome {
            Outcome::Joined(agent) => {
                let known = self.server.disk.ledger(Ledger::longest_lease_ms);
                if known < self.lease_ms && !self.server.is_displaced() {
                    self.server.journal.breach(format!(
                        "a lease of {} ms was given, but the store knows of {known} ms",
                        self.lease_ms
                    ));
                }
                *self.shared.agent.lock() = Some(agent);
                Some(Frame::Joined)
            }
            Outcome::Granted(grant) => {
                self.learn(tag, grant.request);
                self.granted(tag, grant)
            }
            Outcome::Queued(request) => {
                self.learn(tag, request);
                None
            }
            Outcome::Refused(refusal) if self.shared.requests.lock().void.contains(&tag) => {
                match refusal {
                    Refusal::Superseded | Refusal::NotRecovering => {
                        self.server.journal.count("web: void tickets refused");
                    }
                    refusal => self.server.strange(format!("a void ticket was refused: {refusal:?}")),
                }
                None
            }
            Outcome::Refused(_) if tag == 0 => None,
            Outcome::Refused(refusal) => Some(Frame::Refused { tag, refusal: Box::new(refusal) }),
            _ => None,
        }
    }

    fn effect(&self, effect: Effect) -> Option<Frame> {
        match effect {
            Effect::Granted { grant, .. } => self.granted(self.tag(grant.request)?, grant),
            Effect::Lost { request, reason, .. } => Some(Frame::Lost { tag: self.tag(request)?, reason }),
            Effect::Unavailable { request, refusal, .. } => {
                Some(Frame::Refused { tag: self.tag(request)?, refusal })
            }
            Effect::AgentEnded { reason: EndReason::Expired, .. } => {
                self.ended();
                Some(Frame::Ended)
            }
            Effect::Change(_) | Effect::Recovered => None,
        }
    }

    fn granted(&self, tag: u64, grant: Grant) -> Option<Frame> {
        let Grant { request, token } = grant;
        if self.shared.requests.lock().void.contains(&tag) {
            self.server.journal.breach(format!("token {token} was brought back with a void ticket"));
        }
        if tag.is_multiple_of(2) {
            self.server.check_token(&self.place, token);
        }
        let needs_recovery = self.server.disk.ledger(|ledger| ledger.needs_recovery(&self.place.scope));
        if !needs_recovery && !self.server.is_displaced() {
            self.server
                .journal
                .breach(format!("token {token} was told before the store knows that it has to recover"));
        }
        Some(Frame::Granted { tag, request, token, ticket: self.port.ticket(request) })
    }

    /// A client that still counts on its lease must not lose it.
    fn ended(&self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        let (now, deadline) = (self.server.journal.now_ms(), self.shared.deadline_ms.load(Ordering::Relaxed));
        if now < deadline && !self.server.is_displaced() {
            self.server.journal.breach(format!(
                "a session ended at {now} ms, but its client counts on it until {deadline} ms"
            ));
        }
    }

    fn learn(&self, tag: u64, request: RequestId) {
        let mut requests = self.shared.requests.lock();
        requests.tags.insert(request, tag);
        requests.ids.insert(tag, request);
    }

    fn tag(&self, request: RequestId) -> Option<u64> {
        let tag = self.shared.requests.lock().tags.get(&request).copied();
        if tag.is_none() {
            self.server.strange(format!("something happened to {request:?}, of which nothing is known"));
        }
        tag
    }
}
