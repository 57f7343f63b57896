//! The task of a session: it waits for input, with and without a connection, until the session ends.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::fleet::BucketPlace;
use lockhouse::{Bucket, House, StoreState};
use lockhouse_wire::{Envelope, FatalCode, FrameProblem, Hello, ServerFrame, Welcome, close};
use tokio::task::yield_now;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

use super::state::{HouseEnd, Session};
use super::verdict::{LastWords, Parting, Verdict};
use super::watches::Watches;
use crate::bounds::MOVING_PATIENCE;
use crate::limits::{Refused, wire_limits};
use crate::state::{AppState, Phase};
use crate::websocket::{Admission, Attach, Denial, Farewell, ReadMode, WebSocketConnection, WriteQueue};

/// The farewell to a client that cannot be served now.
pub(crate) fn busy(why: &'static str) -> Farewell {
    Farewell::new(WriteQueue::default(), close::FULL, why)
}

/// Closes a connection whose bucket moves, at its turn among all that have to come again.
pub(crate) async fn part_as_it_moves(state: &AppState, connection: WebSocketConnection) {
    sleep(state.turns.next().min(MOVING_PATIENCE)).await;
    connection.part(Farewell::new(WriteQueue::default(), close::RESTART, close::MOVING)).await;
}

/// Comes once the store cannot write and the bucket does not recover: by then it is the store that keeps back
/// the answers to requests that are not to wait. One that is not decided yet, as the requests of a recovery
/// are processed in parts after its end, is refused likewise.
async fn unavailable_after_recovery(house: &House, bucket: &Bucket) -> StoreState {
    bucket.recovered().await;
    house.unavailable().await
}

/// Comes once the house has ended, if others go on without it.
async fn end_of(house_end: &mut HouseEnd) -> StoreState {
    match house_end {
        Some(end) => end.await,
        None => std::future::pending().await,
    }
}

/// Goes on with the session that the client resumes, or begins one, and runs it to its end.
pub(crate) async fn run(
    state: Arc<AppState>,
    mut admission: Admission,
    hello: Hello<'_>,
    mut connection: WebSocketConnection,
) {
    if let Some(resume) = &hello.resume {
        match state.sessions.resume(admission, resume, connection).await {
            Some(given_back) => (admission, connection) = given_back,
            None => return,
        }
    }
    let refuse = |code, reason| Farewell::new(WriteQueue::default(), code, reason);
    let phase = state.phases();
    let begins = match *phase.borrow() {
        Phase::Running => true,
        Phase::Draining => hello.while_draining,
        Phase::Stopping => false,
    };
    if !begins {
        return connection.part(refuse(close::RESTART, "shutdown")).await;
    }
    let BucketPlace::Here(house) = state.houses.find_in_time(&admission.scope, MOVING_PATIENCE).await else {
        return part_as_it_moves(&state, connection).await;
    };
    let former_secret = hello.resume.map(|resume| resume.secret.into_owned());
    match Session::begin(state, house, admission, former_secret, phase).await {
        Ok(session) => session.run(connection).await,
        Err(why) => connection.part(busy(why)).await,
    }
}

impl Session {
    pub(super) async fn run(mut self, mut connection: WebSocketConnection) {
        tracing::debug!(session = self.registration.id, "session begins");
        if self.outbound.resume(0).is_err() {
            return;
        }
        if self.is_handed_over() {
            let farewell = Farewell::new(WriteQueue::default(), close::RESTART, close::MOVING);
            return see_off(&self.state, connection, LastWords::Farewell(farewell));
        }
        self.welcome(false);
        self.announce_phase();
        loop {
            match self.attached(&mut connection).await {
                Parting::Replaced(next) => {
                    let problem = FrameProblem::with_message("another connection resumed this session");
                    let farewell = Farewell::fatal(WriteQueue::default(), FatalCode::Replaced, problem);
                    see_off(&self.state, connection, LastWords::Farewell(farewell));
                    connection = *next;
                }
                Parting::Detached(words) => {
                    see_off(&self.state, connection, words);
                    match self.detached().await {
                        Some(next) => connection = next,
                        None => return,
                    }
                }
                Parting::Ended(words) => {
                    // Its agents end before input that came later at other connections is carried out.
                    let state = Arc::clone(&self.state);
                    drop(self);
                    return see_off(&state, connection, words);
                }
            }
        }
    }

    /// Runs while there is a connection.
    async fn attached(&mut self, connection: &mut WebSocketConnection) -> Parting {
        let mut heartbeat = self.heartbeat();
        self.registration.view.set_connected(true);
        connection.enter(&self.registration.order, self.house.slot_lease());
        let mut has_read = false;
        loop {
            self.held_back_bytes = connection.held_back_bytes();
            let verdict = match self.take_notices() {
                Verdict::GoOn => self.check_unread(),
                over => over,
            };
            if let Some(parting) = self.parting_for(verdict) {
                return parting;
            }
            self.settle();
            if mem::take(&mut has_read) && !self.outbound.queue.is_empty() {
                // The other sessions read what has come to them before this one writes: each write may wake a
                // client that takes the CPU, and a client that is woken later finds more answers.
                yield_now().await;
                continue;
            }
            let (reading, turn) = (self.pacing.reading(), self.pacing.tenants_turn());
            let house = &self.house;
            // The order ensures that no crowd of frames delays a ping or the snapshot of a watch.
            let verdict = tokio::select! {
                biased;
                _ = heartbeat.tick() => self.beat(),
                attach = self.registration.next() => match self.accept(attach) {
                    Ok(Some(next)) => return Parting::Replaced(Box::new(next)),
                    Ok(None) => Verdict::GoOn,
                    Err(Denial { code, problem }) => Verdict::Fatal(code, problem),
                },
                Ok(()) = self.phase.changed() => self.change_phase(),
                () = self.admission.due() => self.revalidate(),
                _ = end_of(&mut self.house_end), if self.house_end.is_some() => Verdict::Moved,
                () = self.watches.due(turn) => self.look_again(),
                incoming = connection.next(&mut self.outbound.queue, reading) => {
                    has_read = true;
                    self.read(connection, incoming).await
                }
                () = self.pacing.turn(reading) => self.begin_turn(reading),
                () = self.port.ready() => Verdict::GoOn,
                store = house.unavailable(), if self.has_questions() => self.answer_questions(&store),
                store = unavailable_after_recovery(house, self.port.bucket()), if self.has_undecided() => {
                    self.answer_undecided(&store)
                }
            };
            if let Some(parting) = self.parting_for(verdict) {
                return parting;
            }
        }
    }

    /// Waits for the next connection; none if the session ends before.
    async fn detached(&mut self) -> Option<WebSocketConnection> {
        self.pass_turn();
        self.held_back_bytes = 0;
        self.registration.view.set_connected(false);
        tracing::debug!(session = self.registration.id, "session waits for a resume");
        loop {
            let Verdict::GoOn = self.take_notices() else { return None };
            let Verdict::GoOn = self.check_unread() else { return None };
            tokio::select! {
                () = self.port.ready() => {}
                attach = self.registration.next() => match self.accept(attach) {
                    Ok(None) => {}
                    taken_or_over => return taken_or_over.ok().flatten(),
                },
                Ok(()) = self.phase.changed() => if *self.phase.borrow_and_update() == Phase::Stopping {
                    return None;
                },
                () = self.admission.due() => if self.admission.revalidate().is_err() {
                    return None;
                },
                _ = end_of(&mut self.house_end), if self.house_end.is_some() => return None,
            }
        }
    }

    /// Takes over a connection that resumes this session, unless it cannot be.
    ///
    /// # Errors
    ///
    /// The client that resumes may do less than the session: the session has to end, and the client has the
    /// reason.
    fn accept(&mut self, attach: Attach) -> Result<Option<WebSocketConnection>, Denial> {
        if self.is_handed_over() || !matches!(self.take_notices(), Verdict::GoOn) {
            self.registration.give_back_at_the_end(attach);
            return Ok(None);
        }
        if attach.attempt.is_some_and(|attempt| attempt <= self.attempt) {
            // It was on its way when its client gave it up for a newer one, which has been taken.
            tracing::debug!(
                session = self.registration.id,
                "a hello came late: a newer connection was taken"
            );
            let problem = FrameProblem::with_message("a newer connection has resumed this session");
            let farewell = Farewell::fatal(WriteQueue::default(), FatalCode::Replaced, problem);
            see_off(&self.state, attach.connection, LastWords::Farewell(farewell));
            return Ok(None);
        }
        if let Err(denial) = self.admission.check_resume(&attach.admission) {
            let farewell = Farewell::fatal(WriteQueue::default(), denial.code, denial.problem.clone());
            see_off(&self.state, attach.connection, LastWords::Farewell(farewell));
            return Err(denial);
        }
        // Where the renewal comes too late the session is gone.
        let Verdict::GoOn = self.renew() else {
            self.registration.give_back_at_the_end(attach);
            return Ok(None);
        };
        if let Err(bad) = self.outbound.resume(attach.received) {
            let rule = format!("a number from {} to {}", bad.low, bad.high);
            let problem = FrameProblem::with_value("resume.received", &attach.received.to_string(), rule);
            let farewell = Farewell::fatal(WriteQueue::default(), FatalCode::BadSeq, problem);
            see_off(&self.state, attach.connection, LastWords::Farewell(farewell));
            return Ok(None);
        }
        self.attempt = attach.attempt.unwrap_or(self.attempt);
        self.registration.view.set_peer(attach.admission.peer());
        self.admission = attach.admission;
        self.watches = Watches::default();
        self.welcome(true);
        self.outbound.send_again();
        self.announce_phase();
        tracing::debug!(session = self.registration.id, "session is resumed");
        Ok(Some(attach.connection))
    }

    /// Announces the phase to a connection that has just come, as it was announced to all others.
    pub(super) fn announce_phase(&mut self) {
        let phase = *self.phase.borrow_and_update();
        match phase {
            Phase::Running => {}
            Phase::Draining => self.announce_close(None),
            // The change of the phase closes this connection as any other.
            Phase::Stopping => self.phase.mark_changed(),
        }
    }

    fn welcome(&mut self, resumed: bool) {
        let (lease, bucket) = (self.state.config.lease, self.port.bucket());
        let welcome = Welcome {
            server: concat!("lockhouse/", env!("CARGO_PKG_VERSION")).into(),
            epoch: self.epoch().into(),
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
        self.note_ack();
    }

    /// Names this life of the table: of the server, or of the house of one of its slots.
    fn epoch(&self) -> String {
        let of_house = self.state.houses.cluster().and_then(|_| self.house.life());
        of_house.unwrap_or_else(|| self.state.epoch.clone())
    }

    fn heartbeat(&self) -> Interval {
        let period = self.state.config.lease.heartbeat();
        let mut heartbeat = interval_at(Instant::now() + period, period);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat
    }

    /// Pings, ahead of all that waits, unless the ping before has not even been written.
    fn beat(&mut self) -> Verdict {
        if self.outbound.queue.has_first() || self.is_handed_over() {
            return Verdict::GoOn;
        }
        // Frames that the ping overtakes may bear an older acknowledgement, and none may come after a later
        // one.
        let ack = if self.outbound.queue.is_empty() { self.received } else { 0 };
        if ack > 0 {
            self.note_ack();
        }
        self.pings += 1;
        let frame = ServerFrame::Ping { n: self.pings, answered: self.answered };
        self.outbound.push_first(Envelope { ack, frame }.to_text());
        Verdict::GoOn
    }

    /// Whether the house gives its slot to another node: from then on nothing may lengthen the leases of
    /// clients, as the next owner counts them from the last write of this one.
    fn is_handed_over(&self) -> bool {
        self.house_end.is_some() && self.house.is_closing()
    }

    /// The settings have changed, or the credential has ended.
    fn revalidate(&mut self) -> Verdict {
        match self.admission.revalidate() {
            Ok(()) => Verdict::GoOn,
            Err(Denial { code, problem }) => Verdict::Fatal(code, problem),
        }
    }

    pub(super) fn change_phase(&mut self) -> Verdict {
        let phase = *self.phase.borrow_and_update();
        match phase {
            Phase::Running => {}
            Phase::Draining => self.announce_close(None),
            Phase::Stopping => return Verdict::Stop,
        }
        Verdict::GoOn
    }

    fn parting_for(&mut self, verdict: Verdict) -> Option<Parting> {
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
            Verdict::Stop => Parting::Ended(self.close_for_now("shutdown")),
            Verdict::Moved => Parting::Ended(self.close_for_now(close::MOVING)),
            Verdict::Unsupported => Parting::Detached(self.close(close::UNSUPPORTED, "binary message")),
            Verdict::Fatal(code, problem) => {
                // The client's value is not repeated: it may be a secret in the wrong place.
                let (field, rule) = (problem.field.as_deref(), problem.rule.as_deref());
                tracing::debug!(
                    session = self.registration.id,
                    code = code.word(),
                    field,
                    rule,
                    "connection ends"
                );
                match code {
                    FatalCode::SlowReader => _ = self.state.limiter.refuse(Refused::SlowReader),
                    FatalCode::TooLarge => _ = self.state.limiter.refuse(Refused::FrameBytes),
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

    /// Announces that the connection will be closed, and when the client may come again.
    fn announce_close(&mut self, pause: Option<Duration>) {
        let pause_ms = pause.map(|pause| pause.as_millis() as u64).filter(|ms| *ms > 0);
        self.outbound.push_unnumbered(Envelope::new(ServerFrame::Closing { pause_ms }).to_text());
    }

    /// Closes the connection of a client that will come again, here or at another server, at its turn among
    /// all that have to.
    fn close_for_now(&mut self, reason: &'static str) -> LastWords {
        self.announce_close(Some(self.state.turns.next()));
        self.close(close::RESTART, reason)
    }

    fn close(&mut self, code: u16, reason: &'static str) -> LastWords {
        LastWords::Farewell(Farewell::new(self.outbound.detach(), code, reason))
    }

    /// The session's turn begins. If it had begun already, nothing is there to be read.
    pub(super) fn begin_turn(&mut self, reading: ReadMode) -> Verdict {
        if reading == ReadMode::All {
            self.pass_turn();
        }
        Verdict::GoOn
    }
}

/// Sees the connection off, in a task of its own: no session waits for it.
fn see_off(state: &AppState, connection: WebSocketConnection, words: LastWords) {
    match words {
        LastWords::None => {}
        LastWords::AnswerClose => drop(state.tasks.spawn(connection.answer_close())),
        LastWords::Farewell(farewell) => drop(state.tasks.spawn(connection.part(farewell))),
    }
}
