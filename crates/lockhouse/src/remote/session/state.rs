//! The state that the handles of a connection and its task share, and the events of a session.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use lockhouse_core::Limits;
use lockhouse_wire::{
    ACK_EVERY, ClientFrame, Credential, Envelope, FatalCode, Hello, MessageBuilder, MessageCursor, Resume,
    ServerFrame, Welcome, close,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::agents::AgentEntry;
use super::breach::ProtocolViolation;
use super::lease::{Deadline, SessionLease};
use super::looks::Looks;
use super::outbox::Outbox;
use super::requests::{RequestEntry, SessionEnd, limits};
use super::status::ConnectionState;
use crate::error::RequestError;
use crate::loss::Loss;
use crate::moment::Moment;
use crate::remote::transport::socket::CLOSE_TIMEOUT;

/// A connection that has been silent for so many heartbeats is given up, and the session resumed over another
/// one.
const SILENT_HEARTBEATS: u32 = 3;
/// A close code that leaves the session to its lease, to be resumed.
const CLOSE_SILENT: u16 = 4000;
/// The pongs that may wait while the socket takes nothing; older ones are superseded by newer ones.
const PONGS: usize = 64;

/// The state behind its mutex, and the bells of the session's task.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    status: watch::Sender<ConnectionState>,
    /// There is something to send.
    pub(crate) outgoing: Notify,
    /// The connection is to be hung up, or everything is over.
    pub(crate) control: Notify,
    /// The task has ended.
    pub(crate) finished: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) agents: BTreeMap<u64, AgentEntry>,
    /// Requests and locks by keys that grow over all sessions, so that their order is that of the asking. The
    /// first number of an entry on the wire is its key.
    pub(crate) entries: BTreeMap<u64, RequestEntry>,
    /// The keys of entries that go on in another session than their first, by the numbers that they have in
    /// it.
    pub(crate) renumbered: HashMap<u64, u64>,
    /// No lock whose reclaim the server has not answered has an earlier deadline.
    pub(crate) first_due: Option<Deadline>,
    pub(crate) looks: Looks,
    pub(crate) last_agent: u64,
    /// The latest refusal of a join in the present session.
    pub(crate) refused_join: Option<RequestError>,
    pub(crate) last_id: u64,
    pub(crate) limits: Limits,
    /// `None` while the server knows nothing of us: before the first welcome, and after the end of a session.
    pub(crate) session: Option<Session>,
    /// When the bucket is to have recovered, if it did not say at the latest welcome that it has.
    recovers_until: Option<Instant>,
    /// The pause before the next connection that the server has named.
    pub(crate) named_pause: Option<Duration>,
    /// The number of `hello`s, by which the server tells a late one from a newer one.
    attempts: u64,
    link: Link,
    /// When everything was ended for good.
    closed: Option<Instant>,
    /// The session that everything has ended with, until the server is known to have ended it, too.
    farewell: Option<Session>,
    connection_dropped: bool,
    status: ConnectionState,
    /// To be woken once the mutex is free.
    pub(crate) wakers: Vec<Waker>,
    pub(crate) heard: Vec<Arc<Notify>>,
    /// To be dropped once the mutex is free: a waker may own a task, whose guards lock it.
    pub(crate) displaced: Vec<Waker>,
}

/// One session with the server; it outlives its connections.
#[derive(Debug)]
pub(crate) struct Session {
    /// The life of the server that it belongs to.
    epoch: String,
    id: String,
    secret: String,
    lease: SessionLease,
    pub(super) heartbeat: Duration,
    agents: u64,
    pub(crate) outbox: Outbox,
    /// The last numbered frame of the server that was processed, and how many of them no frame of ours has
    /// acknowledged.
    received: u64,
    unreported: u64,
    pongs: VecDeque<u64>,
}

/// The present connection.
#[derive(Debug)]
enum Link {
    Down,
    Up {
        heard: Instant,
        /// When the session is to be resumed with a newer credential.
        renewal: Option<Instant>,
    },
    HangUp(HangUp),
}

/// How a connection is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HangUp {
    /// With a goodbye: everything is over.
    Bye,
    /// So that the server ends the session, too.
    Abandon,
    /// The session goes on, or the server has ended it already.
    Silent,
    /// The session goes on with a newer credential.
    Renewal,
}

/// Why a welcome cannot be used.
#[derive(Debug)]
pub(crate) enum Unwelcome {
    /// The session ended here while its resume was under way.
    Outdated,
    Breach(ProtocolViolation),
}

impl HangUp {
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Bye | Self::Abandon => close::NORMAL,
            Self::Silent | Self::Renewal => CLOSE_SILENT,
        }
    }

    pub(crate) fn last_words(self) -> Option<String> {
        (self == Self::Bye).then(|| Envelope::new(ClientFrame::Bye).to_text())
    }
}

impl Shared {
    pub(crate) fn new() -> Self {
        let state = State {
            agents: BTreeMap::new(),
            entries: BTreeMap::new(),
            renumbered: HashMap::new(),
            first_due: None,
            looks: Looks::default(),
            last_agent: 0,
            refused_join: None,
            last_id: 0,
            limits: Limits::DEFAULT,
            session: None,
            recovers_until: None,
            named_pause: None,
            attempts: 0,
            link: Link::Down,
            closed: None,
            farewell: None,
            connection_dropped: false,
            status: ConnectionState::Lost,
            wakers: Vec::new(),
            heard: Vec::new(),
            displaced: Vec::new(),
        };
        Self {
            status: watch::Sender::new(state.status),
            state: Mutex::new(state),
            outgoing: Notify::new(),
            control: Notify::new(),
            finished: CancellationToken::new(),
        }
    }

    /// Runs under the mutex, then wakes the wakers that were collected: wakers are code of the user, which
    /// may come back here.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let was = state.status;
        let result = run(&mut state);
        let (wakers, heard) = (std::mem::take(&mut state.wakers), std::mem::take(&mut state.heard));
        let (displaced, status) = (std::mem::take(&mut state.displaced), state.status);
        let hang_up = state.closed.is_some() || matches!(state.link, Link::HangUp(_));
        let outgoing = state.has_outgoing();
        drop(state);
        if status != was {
            self.publish(status);
        }
        if hang_up {
            self.control.notify_one();
        }
        if outgoing {
            self.outgoing.notify_one();
        }
        heard.iter().for_each(|heard| heard.notify_waiters());
        wakers.into_iter().for_each(Waker::wake);
        drop(displaced);
        result
    }

    /// The state of the connection, and its changes.
    pub(crate) fn status(&self) -> watch::Receiver<ConnectionState> {
        self.status.subscribe()
    }

    /// Publishes the state of the connection, unless it is closed already; all other states come from the
    /// task alone.
    fn publish(&self, status: ConnectionState) {
        self.status.send_if_modified(|published| {
            let is_open = *published != ConnectionState::Closed;
            if is_open {
                *published = status;
            }
            is_open
        });
    }
}

/// The operations of the session's task.
impl State {
    /// The first frame of a connection.
    pub(crate) fn hello(
        &mut self,
        label: &str,
        credential: Option<Credential<'_>>,
        while_draining: bool,
    ) -> String {
        self.attempts += 1;
        let resume = self.session.as_ref().or(self.farewell.as_ref()).map(|session| Resume {
            session: session.id.as_str().into(),
            secret: session.secret.as_str().into(),
            received: session.received,
            attempt: Some(self.attempts),
        });
        let hello = Hello { client: Some(label.into()), credential, resume, while_draining };
        Envelope::new(ClientFrame::Hello(hello)).to_text()
    }

    /// The answer to the hello that was sent at that moment.
    pub(crate) fn welcome(&mut self, welcome: &Welcome<'_>, hello: Moment) -> Result<(), Unwelcome> {
        if self.is_closed() {
            return Err(Unwelcome::Outdated);
        }
        self.expire_if_overdue();
        if welcome.resumed {
            self.resume(welcome, hello)?;
        } else {
            let may_reclaim = self.end_former_session(welcome);
            self.begin_session(welcome, hello, may_reclaim);
        }
        let now = Instant::now();
        // A fifth is left for the reconnection.
        let renewal = welcome.credential_ms.and_then(|ms| now.checked_add(Duration::from_millis(ms / 5 * 4)));
        self.recovers_until = now.checked_add(Duration::from_millis(welcome.recovering_ms));
        self.link = Link::Up { heard: now, renewal };
        self.status = ConnectionState::Open;
        Ok(())
    }

    /// The server does not know the session. If it is another server, it can be shown the held locks; returns
    /// whether it is.
    fn end_former_session(&mut self, welcome: &Welcome<'_>) -> bool {
        let former = self.session.as_ref().filter(|former| welcome.reclaims && former.epoch != welcome.epoch);
        let deadline = former.map(|former| former.lease.deadline());
        // Another server waits for what was held at the end of the former one, so that it has not granted it.
        let is_seen_in_time = self.session.as_ref().is_some_and(|former| former.epoch != welcome.epoch);
        self.end_session_so(&SessionEnd { loss: Loss::SessionEnded, deadline, is_seen_in_time }, None);
        deadline.is_some()
    }

    fn resume(&mut self, welcome: &Welcome<'_>, hello: Moment) -> Result<(), Unwelcome> {
        let Some(session) = self.session.as_mut().filter(|session| session.id == welcome.session) else {
            return Err(Unwelcome::Outdated);
        };
        session.outbox.resume(welcome.received, welcome.limits.window_bytes).map_err(Unwelcome::Breach)?;
        session.lease = SessionLease::new(welcome.lease_ms, welcome.credential_ms, hello);
        session.pongs.clear();
        self.ask_looks_anew();
        Ok(())
    }

    fn begin_session(&mut self, welcome: &Welcome<'_>, hello: Moment, may_reclaim: bool) {
        self.session = Some(Session {
            epoch: welcome.epoch.clone().into_owned(),
            id: welcome.session.clone().into_owned(),
            secret: welcome.secret.clone().into_owned(),
            lease: SessionLease::new(welcome.lease_ms, welcome.credential_ms, hello),
            heartbeat: Duration::from_millis(welcome.heartbeat_ms.max(1)),
            agents: welcome.limits.agents,
            outbox: Outbox::new(welcome.limits.window_bytes),
            received: 0,
            unreported: 0,
            pongs: VecDeque::new(),
        });
        self.limits = limits(&welcome.limits);
        self.refused_join = None;
        self.renumber();
        self.join_anew();
        self.reclaim(may_reclaim);
        self.ask_requests_anew();
        self.ask_looks_anew();
    }

    /// Handles a message of the server.
    pub(crate) fn receive(&mut self, message: &str) {
        let mut cursor = MessageCursor::default();
        while !cursor.is_over() {
            if self.expire_if_overdue() {
                return;
            }
            if let Link::Up { heard, .. } = &mut self.link {
                *heard = Instant::now();
            }
            let handled = match cursor.next(message) {
                Ok(frame) => self.handle(&message[frame]),
                Err(problem) => Err(ProtocolViolation(problem.message.into_owned())),
            };
            if let Err(ProtocolViolation(breach)) = handled {
                return self.accuse(&breach);
            }
        }
    }

    fn handle(&mut self, text: &str) -> Result<(), ProtocolViolation> {
        let envelope = Envelope::<ServerFrame<'_>>::parse(text)
            .map_err(|error| ProtocolViolation(error.0.to_string()))?;
        let Some(session) = &mut self.session else { return Ok(()) };
        session.outbox.acknowledge(envelope.ack)?;
        match envelope.frame {
            ServerFrame::Ping { n, answered } => session.pinged(n, answered),
            ServerFrame::Numbered { seq, event } => {
                session.count(seq)?;
                self.happened(event)?;
            }
            ServerFrame::Snapshot(page) => self.page(page)?,
            ServerFrame::Fatal { code, problem } => self.fatal(code, &problem.message),
            ServerFrame::Closing { pause_ms } => self.named_pause = pause_ms.map(Duration::from_millis),
            ServerFrame::Ack => {}
            ServerFrame::Welcome(_) => return Err(ProtocolViolation("a second welcome".to_owned())),
        }
        Ok(())
    }

    /// The next messages to be sent, in order: at most two, and none if there is nothing to send.
    pub(crate) fn next_messages(&mut self) -> Vec<String> {
        if self.expire_if_overdue() || !matches!(self.link, Link::Up { .. }) {
            return Vec::new();
        }
        self.session.as_mut().map_or_else(Vec::new, Session::next_messages)
    }

    /// The connection has gone, with that close code of the server if it closed.
    pub(crate) fn disconnected(&mut self, code: Option<u16>) {
        match code {
            Some(close::LEASE_EXPIRED) => self.end_session(Loss::Expired, None),
            Some(close::REPLACED | close::SLOW_READER) => self.end_session(Loss::SessionEnded, None),
            Some(close::UNAUTHENTICATED | close::FORBIDDEN) => self.end_session(Loss::Denied, None),
            Some(code @ (close::BAD_FRAME | close::TOO_LARGE | close::UNSUPPORTED)) => {
                // To send the same frames again would only repeat it.
                let failure = RequestError::Refused(format!("close code {code}"));
                self.end_session(Loss::SessionEnded, Some(failure));
            }
            _ => {}
        }
        self.link_down();
    }

    /// The connection has been hung up.
    pub(crate) fn link_down(&mut self) {
        self.link = Link::Down;
        if !self.is_closed() {
            self.status = ConnectionState::Lost;
        }
    }

    /// How the present connection is to be ended, if it is.
    pub(crate) fn hang_up(&self) -> Option<HangUp> {
        match self.link {
            Link::HangUp(how) => Some(how),
            Link::Down | Link::Up { .. } => None,
        }
    }

    /// Looks at the clock; says how long it need not look again.
    pub(crate) fn check(&mut self) -> Duration {
        const WITHOUT_SESSION: Duration = Duration::from_secs(3600);
        self.expire_if_overdue();
        let Some(session) = &self.session else { return WITHOUT_SESSION };
        // Not longer than a heartbeat, as the timer may stand still while the machine sleeps.
        let mut wait = session.lease.remaining().min(session.heartbeat).min(self.until_first_due());
        if let Link::Up { heard, renewal } = self.link {
            let patience = (session.heartbeat * SILENT_HEARTBEATS).saturating_sub(heard.elapsed());
            wait = wait.min(patience);
            if let Some(renewal) = renewal {
                wait = wait.min(renewal.saturating_duration_since(Instant::now()));
            }
            if patience.is_zero() {
                self.link = Link::HangUp(HangUp::Silent);
            } else if renewal.is_some_and(|at| at <= Instant::now()) {
                self.link = Link::HangUp(HangUp::Renewal);
            }
        }
        wait.max(Duration::from_millis(1))
    }

    /// The server broke the protocol: nothing that it said can be relied on.
    pub(crate) fn accuse(&mut self, breach: &str) {
        self.end_session(Loss::SessionEnded, Some(RequestError::Protocol(breach.to_owned())));
    }

    /// Ends everything for good.
    pub(crate) fn close(&mut self) {
        if self.is_closed() {
            return;
        }
        self.closed = Some(Instant::now());
        let agents: Vec<u64> = self.agents.keys().copied().collect();
        agents.into_iter().for_each(|agent| self.end_agent(agent, &Loss::Terminated));
        self.fail_looks();
        self.farewell = self.session.take();
        if let Link::Up { .. } = self.link {
            self.link = Link::HangUp(HangUp::Bye);
        }
        self.status = ConnectionState::Closed;
    }
}

/// The operations of handles.
impl State {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// How long the goodbye may still be tried, if the server does not know that everything is over.
    pub(crate) fn time_for_farewell(&self) -> Option<Duration> {
        let since = self.farewell.as_ref().and(self.closed)?;
        Some(CLOSE_TIMEOUT.saturating_sub(since.elapsed()))
    }

    /// The server has processed the goodbye.
    pub(crate) fn farewell_answered(&mut self) {
        self.farewell = None;
    }

    /// How many numbered frames have come in the present session.
    pub(crate) fn received(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.received)
    }

    /// How long the bucket still recovers; zero once it has, as far as the server has said.
    pub(crate) fn recovers_for(&self) -> Duration {
        self.recovers_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// How many agents the server takes on from one session.
    pub(crate) fn agent_limit(&self) -> u64 {
        self.session.as_ref().map_or(u64::MAX, |session| session.agents)
    }

    /// The handle of the connection has gone; its agents may go on.
    pub(crate) fn drop_connection(&mut self) {
        self.connection_dropped = true;
        self.close_if_unused();
    }

    pub(crate) fn close_if_unused(&mut self) {
        if self.connection_dropped && self.agents.is_empty() {
            self.close();
        }
    }

    /// Past the deadline the session ends, with all its locks: the server may grant them to others. Returns
    /// whether it ended.
    pub(crate) fn expire_if_overdue(&mut self) -> bool {
        let deadline = self.session.as_ref().map(|session| session.lease.deadline());
        let Some(over) = deadline.filter(|deadline| deadline.remaining().is_zero()) else {
            self.expire_unconfirmed();
            return false;
        };
        self.end_session_so(&SessionEnd::overdue(over.loss()), None);
        true
    }

    /// The session is over and every lock with it. With a failure all pending requests end, too; without,
    /// they are made again in the next session.
    pub(crate) fn end_session(&mut self, loss: Loss, failure: Option<RequestError>) {
        self.end_session_so(&SessionEnd::announced(loss), failure);
    }

    fn end_session_so(&mut self, end: &SessionEnd, failure: Option<RequestError>) {
        let Some(session) = self.session.take() else { return };
        self.lose_requests(&session.outbox.unsent_steals(), end, failure.as_ref());
        self.note_first_due();
        if let Some(failure) = failure {
            self.fail_looks_with(&failure);
        }
        if let Link::Up { .. } = self.link {
            self.link = Link::HangUp(HangUp::Abandon);
        }
    }

    /// The server takes the key no more: everything is over for good.
    pub(crate) fn deny(&mut self, message: &str) {
        let failure = RequestError::Refused(message.to_owned());
        self.end_session(Loss::Denied, Some(failure.clone()));
        // Between two sessions there are requests, too.
        self.lose_requests(&HashSet::new(), &SessionEnd::announced(Loss::Denied), Some(&failure));
        self.fail_looks_with(&failure);
        self.close();
    }

    fn fatal(&mut self, code: FatalCode, message: &str) {
        match code {
            // The next connection may have another key.
            FatalCode::Unauthenticated | FatalCode::Forbidden => self.end_session(Loss::Denied, None),
            FatalCode::LeaseExpired => self.end_session(Loss::Expired, None),
            FatalCode::Replaced | FatalCode::SlowReader => self.end_session(Loss::SessionEnded, None),
            FatalCode::BadFrame | FatalCode::BadSeq | FatalCode::TooLarge => {
                self.end_session(Loss::SessionEnded, Some(RequestError::Refused(message.to_owned())));
            }
        }
    }

    fn has_outgoing(&self) -> bool {
        matches!(self.link, Link::Up { .. }) && self.session.as_ref().is_some_and(Session::has_outgoing)
    }
}

impl Session {
    /// A pong alone, which the server then finds wherever it waits; of other frames as many together as fit
    /// in a message, and the first that does not fit.
    fn next_messages(&mut self) -> Vec<String> {
        if let Some(n) = self.pongs.pop_front() {
            return vec![self.frame(ClientFrame::Pong { n })];
        }
        let (mut messages, mut message) = (Vec::new(), MessageBuilder::default());
        while let Some(frame) = self.outbox.next() {
            let frame = self.frame(frame);
            if !message.try_push(&frame) {
                messages.extend(message.take());
                messages.push(frame);
                return messages;
            }
        }
        messages.extend(message.take());
        if messages.is_empty() && self.unreported >= ACK_EVERY {
            messages.push(self.frame(ClientFrame::Ack));
        }
        messages
    }

    /// The text of a frame, which acknowledges all that was received.
    fn frame(&mut self, frame: ClientFrame<'_>) -> String {
        self.unreported = 0;
        Envelope { ack: self.received, frame }.to_text()
    }

    fn has_outgoing(&self) -> bool {
        let has_due_ack = self.unreported >= ACK_EVERY;
        !self.pongs.is_empty() || has_due_ack || self.outbox.can_send()
    }

    fn count(&mut self, seq: u64) -> Result<(), ProtocolViolation> {
        let due = self.received + 1;
        if seq != due {
            return Err(ProtocolViolation(format!("seq is {seq}, but {due} was due")));
        }
        self.received = seq;
        self.unreported += 1;
        Ok(())
    }

    fn pinged(&mut self, n: u64, answered: u64) {
        self.lease.answered(answered);
        self.lease.answering(n);
        if self.pongs.len() == PONGS {
            self.pongs.pop_front();
        }
        self.pongs.push_back(n);
    }
}
