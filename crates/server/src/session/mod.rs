//! A session: what a client has at the server, beyond the life of any one connection.
//!
//! ```text
//!   Connection ──frame──▶ calls ──Command──▶ Port (the bucket)
//!       ▲                                      │
//!       └──── Outbound ◀──event── notices ◀────┘ Notice
//! ```
//!
//! One task owns all of it. Connections come to the task, through the registry, and go; between two of them the task
//! waits for the next one or for the end of the lease. The lease is that of an agent of its own in the bucket, which never asks
//! for anything: its end is the end of the session.

mod admission;
mod calls;
mod connection;
mod notices;
mod outbound;
mod pacing;
mod registry;
mod table;
mod watches;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lockhouse::core::{AgentId, Command, NewAgent};
use lockhouse::{Notice, Port, Room};
use lockhouse_wire::{Envelope, FatalCode, Hello, Problem, ServerFrame, Welcome, close};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};

pub(crate) use self::admission::{Admission, Denial, Presented};
use self::calls::Verdict;
pub(crate) use self::connection::{Connection, Farewell, Incoming, Reading};
use self::notices::Asked;
use self::outbound::Outbound;
pub(crate) use self::outbound::Outbox;
use self::pacing::Pacing;
pub(crate) use self::registry::Registry;
use self::registry::{Attach, Registration};
use self::table::Table;
use self::watches::Watches;
use crate::bounds::INBOX_NOTICES;
use crate::limits::Refused;
use crate::limits::wire_limits;
use crate::server::{Phase, Server};
use crate::settings::LimitSettings;

/// The WebSocket close code of a server that is too busy.
const TRY_AGAIN_LATER: u16 = 1013;

/// A session, owned by its task.
pub(crate) struct Session {
    server: Arc<Server>,
    /// Stands before the registration, and so is dropped first: once a resume finds that the session is gone, and is told so,
    /// its agents have ended.
    port: Port,
    registration: Registration,
    admission: Admission,
    phase: watch::Receiver<Phase>,
    /// The agent whose lease is the session's.
    lease_agent: Option<AgentId>,
    table: Table,
    outbound: Outbound,
    watches: Watches,
    pacing: Pacing,
    /// How much of each it may have; what is set later counts for later sessions.
    limits: LimitSettings,
    /// What was asked of the bucket and is not answered, with its tag, in order.
    asked: VecDeque<(u64, Asked)>,
    last_tag: u64,
    /// The steals that are not answered yet, by the id of their request.
    steals: HashMap<u64, Steal>,
    notices: VecDeque<Notice>,
    /// What its client has not taken, as it counts for the tenant.
    unread: Room,
    /// Set once the session has to end, and why.
    over: Option<Over>,
    /// The house has lost its store, and with it every lock.
    is_over: bool,
    /// The number of the last client frame that was processed.
    received: u64,
    /// The last such number that the client was told.
    told_received: u64,
    highest_id: u64,
    highest_agent: u64,
    pings: u64,
    answered: u64,
}

/// Why a session has to end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    LeaseExpired,
    /// It has more to take than a session may have.
    SlowReader,
    /// The sessions of its tenant have more than they may have together, and it has much of it.
    SlowTenant,
}

/// A steal that takes something from others, to be noted unless it is refused.
struct Steal {
    name: String,
    /// How many lose the name.
    lost: u64,
    /// The first of them, and what each of them has there.
    victims: String,
    /// Holders of before a restart might have come back for it.
    is_recovering: bool,
}

/// How a connection ends, seen from its session.
enum Parting {
    /// The session goes on over another connection.
    Replaced(Box<Connection>),
    /// The session goes on without one.
    Detached(LastWords),
    /// The session ends as well.
    Ended(LastWords),
}

/// What the connection is told at its end.
enum LastWords {
    /// It is gone already.
    None,
    /// The client has closed it.
    AnswerClose,
    Farewell(Farewell),
}

/// What is told to whoever cannot be served now.
pub(crate) fn busy(why: &'static str) -> Farewell {
    Farewell::new(Outbox::default(), TRY_AGAIN_LATER, why)
}

/// Goes on with the session that the client resumes, or begins one, and runs it to its end.
pub(crate) async fn run(
    server: Arc<Server>,
    mut admission: Admission,
    hello: Hello<'_>,
    mut connection: Connection,
) {
    if let Some(resume) = &hello.resume {
        match server.sessions.resume(admission, resume, connection).await {
            Some(given_back) => (admission, connection) = given_back,
            None => return,
        }
    }
    let refuse = |code, reason| Farewell::new(Outbox::default(), code, reason);
    let phase = server.phases();
    if *phase.borrow() != Phase::Running {
        return connection.part(refuse(close::RESTART, "shutdown")).await;
    }
    match Session::begin(server, admission, phase).await {
        Ok(session) => session.run(connection).await,
        Err(why) => connection.part(busy(why)).await,
    }
}

impl Session {
    /// Why not, if the server or the bucket is full, or the store cannot note the length of the lease now. What the phase becomes after `phase` was
    /// taken, the session will hear.
    async fn begin(
        server: Arc<Server>,
        admission: Admission,
        phase: watch::Receiver<Phase>,
    ) -> Result<Self, &'static str> {
        let limits = server.bounds.settings();
        let registration = server
            .sessions
            .register(admission.scope.clone(), &limits)
            .map_err(|kind| server.bounds.refuse(kind).word())?;
        let bucket = server
            .house
            .bucket_if_room(admission.scope.clone(), limits.buckets_per_tenant as usize)
            .ok_or_else(|| server.bounds.refuse(Refused::BucketsPerTenant).word())?;
        let port = bucket.port(INBOX_NOTICES);
        let unread = server.bounds.unread.of(admission.scope.tenant());
        // A server that begins to stop closes the buckets that it finds, and this one may have come after that.
        if *phase.borrow() != Phase::Running {
            port.bucket().close();
        }
        let mut session = Self {
            server,
            port,
            registration,
            admission,
            phase,
            lease_agent: None,
            table: Table::default(),
            outbound: Outbound::default(),
            watches: Watches::default(),
            pacing: Pacing::default(),
            limits,
            asked: VecDeque::new(),
            last_tag: 0,
            steals: HashMap::new(),
            notices: VecDeque::new(),
            unread,
            over: None,
            is_over: false,
            received: 0,
            told_received: 0,
            highest_id: 0,
            highest_agent: 0,
            pings: 0,
            answered: 0,
        };
        let lease_ms = Some(session.server.config.lease.as_millis());
        session.ask(Asked::Lease, Command::Join(NewAgent { client_id: "", lease_ms }));
        // The answer waits until the store knows how long leases last, after the first session of all at once.
        let answered = async {
            while !session.asked.is_empty() {
                session.port.ready().await;
                session.take_notices();
            }
        };
        _ = timeout(limits.hello_timeout, answered).await;
        if session.lease_agent.is_some() { Ok(session) } else { Err("no room for another session") }
    }

    async fn run(mut self, mut connection: Connection) {
        tracing::debug!(session = self.registration.id, "session begins");
        if self.outbound.resume(0).is_err() {
            return;
        }
        self.welcome(false);
        loop {
            match self.attached(&mut connection).await {
                Parting::Replaced(next) => {
                    let problem = Problem::with_message("another connection resumed this session");
                    let farewell = Farewell::fatal(Outbox::default(), FatalCode::Replaced, problem);
                    self.part(connection, LastWords::Farewell(farewell));
                    connection = *next;
                }
                Parting::Detached(words) => {
                    self.part(connection, words);
                    match self.detached().await {
                        Some(next) => connection = next,
                        None => return,
                    }
                }
                Parting::Ended(words) => return self.part(connection, words),
            }
        }
    }

    /// Runs while there is a connection.
    async fn attached(&mut self, connection: &mut Connection) -> Parting {
        let mut heartbeat = self.heartbeat();
        loop {
            let verdict = match self.take_notices() {
                Verdict::GoOn => self.judge_unread(),
                over => over,
            };
            if let Some(parting) = self.judge(verdict) {
                return parting;
            }
            self.settle();
            let (reading, turn) = (self.pacing.reading(), self.pacing.tenants_turn());
            // In this order, so that no crowd of frames keeps the heart from beating or a watch from being told.
            let verdict = tokio::select! {
                biased;
                _ = heartbeat.tick() => self.beat(),
                attach = self.registration.next() => match self.accept(attach) {
                    Ok(Some(next)) => return Parting::Replaced(Box::new(next)),
                    Ok(None) => Verdict::GoOn,
                    Err(Denial { code, problem }) => Verdict::Fatal(code, problem),
                },
                Ok(()) = self.phase.changed() => self.change_phase(),
                () = self.admission.due() => self.judge_anew(),
                () = self.watches.due(turn) => self.look_again(),
                incoming = connection.next(&mut self.outbound.outbox, reading) => self.read(connection, incoming).await,
                () = self.pacing.turn(reading) => self.begin_turn(reading),
                () = self.port.ready() => Verdict::GoOn,
                state = self.server.house.unavailable(), if self.has_questions() => self.answer_questions(&state),
            };
            if let Some(parting) = self.judge(verdict) {
                return parting;
            }
        }
    }

    /// Waits for the next connection; none if the session ends before.
    async fn detached(&mut self) -> Option<Connection> {
        self.pass_turn();
        tracing::debug!(session = self.registration.id, "session waits for a resume");
        loop {
            let Verdict::GoOn = self.take_notices() else { return None };
            let Verdict::GoOn = self.judge_unread() else { return None };
            tokio::select! {
                () = self.port.ready() => {}
                attach = self.registration.next() => match self.accept(attach) {
                    Ok(None) => {}
                    taken_or_over => return taken_or_over.ok().flatten(),
                },
                Ok(()) = self.phase.changed() => if *self.phase.borrow_and_update() == Phase::Stopping {
                    return None;
                },
                () = self.admission.due() => if self.admission.judge_anew().is_err() {
                    return None;
                },
            }
        }
    }

    /// Takes over a connection that resumes this session, unless it cannot be.
    ///
    /// # Errors
    ///
    /// Whoever resumes it may do less than the session: it has to end, and he has been told.
    fn accept(&mut self, attach: Attach) -> Result<Option<Connection>, Denial> {
        let Verdict::GoOn = self.take_notices() else {
            self.registration.give_back_at_the_end(attach);
            return Ok(None);
        };
        if let Err(denial) = self.admission.check_resume(&attach.admission) {
            let farewell = Farewell::fatal(Outbox::default(), denial.code, denial.problem.clone());
            self.part(attach.connection, LastWords::Farewell(farewell));
            return Err(denial);
        }
        if let Err(bad) = self.outbound.resume(attach.received) {
            let rule = format!("a number from {} to {}", bad.low, bad.high);
            let problem = Problem::with_value("resume.received", &attach.received.to_string(), rule);
            let farewell = Farewell::fatal(Outbox::default(), FatalCode::BadSeq, problem);
            self.part(attach.connection, LastWords::Farewell(farewell));
            return Ok(None);
        }
        self.admission = attach.admission;
        self.watches = Watches::default();
        self.renew();
        self.welcome(true);
        self.outbound.send_again();
        self.tell_phase();
        tracing::debug!(session = self.registration.id, "session is resumed");
        Ok(Some(attach.connection))
    }

    /// Tells a connection that has just come what all others have been told.
    fn tell_phase(&mut self) {
        let phase = *self.phase.borrow_and_update();
        match phase {
            Phase::Running => {}
            Phase::Draining => self.outbound.push_unnumbered(Envelope::new(ServerFrame::Closing).to_text()),
            // The connection is to be closed, as any other, by whoever hears of the change.
            Phase::Stopping => self.phase.mark_changed(),
        }
    }

    fn welcome(&mut self, resumed: bool) {
        let (lease, bucket) = (self.server.config.lease, self.port.bucket());
        let welcome = Welcome {
            server: concat!("lockhouse/", env!("CARGO_PKG_VERSION")).into(),
            epoch: self.server.epoch.as_str().into(),
            session: self.registration.id.as_str().into(),
            secret: self.registration.secret.as_str().into(),
            resumed,
            received: self.received,
            reclaims: bucket.takes_reclaims(),
            recovering_ms: bucket.recovers_for().map_or(0, |left| left.as_millis() as u64),
            credential_ms: self.admission.remaining().map(|left| left.as_millis() as u64),
            lease_ms: lease.as_millis(),
            heartbeat_ms: lease.heartbeat().as_millis() as u64,
            limits: wire_limits(&self.limits),
        };
        let text = Envelope::new(ServerFrame::Welcome(welcome)).to_text();
        self.outbound.push_first(text);
        self.told_received = self.received;
    }

    fn heartbeat(&self) -> Interval {
        let period = self.server.config.lease.heartbeat();
        let mut heartbeat = interval_at(Instant::now() + period, period);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat
    }

    /// Pings, ahead of all that waits, unless the ping before has not even been written.
    fn beat(&mut self) -> Verdict {
        if self.outbound.outbox.has_first() {
            return Verdict::GoOn;
        }
        // What it overtakes may bear an older acknowledgement, and none may come after a later one.
        let ack = if self.outbound.outbox.is_empty() { self.received } else { 0 };
        self.told_received = self.told_received.max(ack);
        self.pings += 1;
        let frame = ServerFrame::Ping { n: self.pings, answered: self.answered };
        self.outbound.push_first(Envelope { ack, frame }.to_text());
        Verdict::GoOn
    }

    fn renew(&mut self) -> Verdict {
        match self.lease_agent {
            Some(agent) => self.ask(Asked::Nothing, Command::Renew { agent }),
            None => Verdict::GoOn,
        }
    }

    /// The settings have changed, or the credential has ended.
    fn judge_anew(&mut self) -> Verdict {
        match self.admission.judge_anew() {
            Ok(()) => Verdict::GoOn,
            Err(Denial { code, problem }) => Verdict::Fatal(code, problem),
        }
    }

    fn change_phase(&mut self) -> Verdict {
        match *self.phase.borrow_and_update() {
            Phase::Running => {}
            Phase::Draining => {
                self.outbound.push_unnumbered(Envelope::new(ServerFrame::Closing).to_text());
            }
            Phase::Stopping => return Verdict::Stop,
        }
        Verdict::GoOn
    }

    fn judge(&mut self, verdict: Verdict) -> Option<Parting> {
        let parting = match verdict {
            Verdict::GoOn => return None,
            Verdict::Lost => {
                self.outbound.detach();
                Parting::Detached(LastWords::None)
            }
            Verdict::Closed(code) => {
                self.outbound.detach();
                match code {
                    Some(close::NORMAL | close::GOING_AWAY) => Parting::Ended(LastWords::AnswerClose),
                    _ => Parting::Detached(LastWords::AnswerClose),
                }
            }
            Verdict::Bye => Parting::Ended(self.close(close::NORMAL, "bye")),
            Verdict::Stop => Parting::Ended(self.close(close::RESTART, "shutdown")),
            Verdict::Unsupported => Parting::Detached(self.close(close::UNSUPPORTED, "binary message")),
            Verdict::Fatal(code, problem) => {
                // What the client sent is not repeated: it may be a secret in the wrong place.
                let (field, rule) = (problem.field.as_deref(), problem.rule.as_deref());
                tracing::debug!(
                    session = self.registration.id,
                    code = code.word(),
                    field,
                    rule,
                    "connection ends"
                );
                match code {
                    FatalCode::SlowReader => _ = self.server.bounds.refuse(Refused::SlowReader),
                    FatalCode::TooLarge => _ = self.server.bounds.refuse(Refused::FrameBytes),
                    _ => {}
                }
                let farewell = Farewell::fatal(self.outbound.detach(), code, problem);
                match code {
                    FatalCode::LeaseExpired
                    | FatalCode::SlowReader
                    | FatalCode::Unauthenticated
                    | FatalCode::Forbidden => Parting::Ended(LastWords::Farewell(farewell)),
                    _ => Parting::Detached(LastWords::Farewell(farewell)),
                }
            }
        };
        Some(parting)
    }

    fn close(&mut self, code: u16, reason: &'static str) -> LastWords {
        LastWords::Farewell(Farewell::new(self.outbound.detach(), code, reason))
    }

    /// Sees the connection off, in a task of its own: the session does not wait for it.
    fn part(&self, connection: Connection, words: LastWords) {
        match words {
            LastWords::None => {}
            LastWords::AnswerClose => drop(self.server.tasks.spawn(connection.answer_close())),
            LastWords::Farewell(farewell) => drop(self.server.tasks.spawn(connection.part(farewell))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use lockhouse::BucketKey;
    use lockhouse::core::{Acquire, Mode, Name, NewRequest};

    use super::*;
    use crate::Config;
    use crate::access::Initiator;

    fn scope() -> BucketKey {
        BucketKey::from("b")
    }

    pub(super) async fn session(server: &Arc<Server>, phase: watch::Receiver<Phase>) -> Session {
        let (bucket, partition) = ("b".to_owned(), String::new());
        let certificate = Err(crate::auth::Unauthenticated::Absent);
        let presented = Presented {
            credential: None,
            certificate,
            from: None,
            initiator: Initiator::Program,
            bucket,
            partition,
        };
        let admission = Admission::new(server, presented).unwrap();
        Session::begin(server.clone(), admission, phase).await.unwrap()
    }

    fn request(session: &Session) {
        let (agent, name) = (session.lease_agent.unwrap(), Name::new("n").unwrap());
        session
            .port
            .submit(0, Command::Request(NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive))));
    }

    #[tokio::test]
    async fn a_session_that_begins_while_the_server_begins_to_stop_is_granted_nothing_and_hears_of_it() {
        let server = Server::new(Config::default());
        let phase = server.phases();
        // The step to draining, after the phase was looked at and before there is a bucket.
        server.stop_granting();
        let mut session = session(&server, phase).await;
        request(&session);
        assert!(!server.house().bucket(scope()).has_held());
        session.outbound.resume(0).unwrap();
        session.phase.changed().await.unwrap();
        assert!(matches!(session.change_phase(), Verdict::GoOn));
        assert_eq!(
            session.outbound.outbox.pop().unwrap().as_str(),
            r#"{"type":"closing","reason":"shutdown"}"#
        );
    }

    #[tokio::test]
    async fn a_session_that_is_resumed_when_the_server_closes_its_connections_still_hears_of_it() {
        let server = Server::new(Config::default());
        let mut session = session(&server, server.phases()).await;
        session.outbound.resume(0).unwrap();
        server.stop_granting();
        server.close_connections();
        session.tell_phase();
        assert!(session.phase.has_changed().unwrap());
        assert!(matches!(session.change_phase(), Verdict::Stop));
    }

    /// Notes how many sessions there are when it is woken.
    struct Count(Arc<Server>, AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.1.store(self.0.session_count(), Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn the_agents_of_a_session_end_before_a_resume_finds_it_gone() {
        let server = Server::new(Config::default());
        let holder = session(&server, server.phases()).await;
        let mut waiter = session(&server, server.phases()).await;
        request(&holder);
        request(&waiter);
        waiter.take_notices();
        let count = Arc::new(Count(server.clone(), AtomicUsize::new(0)));
        let mut ready = Box::pin(waiter.port.ready());
        assert!(ready.as_mut().poll(&mut Context::from_waker(&count.clone().into())).is_pending());
        // Its end grants the waiter the lock, at a moment at which it is still registered.
        drop(holder);
        assert_eq!(count.1.load(Ordering::SeqCst), 2);
        assert_eq!(server.session_count(), 1);
    }
}
