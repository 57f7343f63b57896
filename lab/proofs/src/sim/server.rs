//! Lives of the server: each is a house on a runtime of its own, with a clock of its own, over the one disk.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lockhouse::{
    Bucket, BucketKey, FencingToken, House, Left, Limits, ManualClock, OpenError, Options, OwnerError,
    StoreError, StoreState,
};
use lockhouse_server::{Config, Lease, LimitSettings, Server, router};
use lockhouse_store::{Scope, Store, TakeError};
use parking_lot::Mutex;
use random::Random;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use super::disk::{Disk, DiskLink};
use super::journal::{Journal, Op};
use super::ledger::{Ledger, Sort};
use crate::history::record::{Invocation, Reason};

/// All names. An owner that has all of them has more locks than are swept at one tick, or at two.
pub(crate) const NAMES: [&str; 15] = [
    "k/0", "k/1", "k/2", "k/3", "k/4", "k/5", "k/6", "k/7", "k/8", "k/9", "k/10", "k/11", "k/12", "k/13",
    "k/14",
];

/// The number of names that all clients want.
pub(crate) const WANTED: usize = 3;

/// A bucket, with its names for the clients and in the history.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// In the history.
    pub(crate) label: &'static str,
    pub(crate) key: BucketKey,
    pub(crate) scope: Arc<Scope>,
}

/// The buckets that there are.
pub(crate) fn places() -> Vec<Place> {
    let place = |label, partition: &str, bucket: &str| Place {
        label,
        key: BucketKey { bucket: bucket.to_owned(), partition: partition.to_owned() },
        scope: Arc::new(Scope::new(partition, bucket)),
    };
    vec![place("crm", "", "crm"), place("p/crm", "p", "crm"), place("seats", "", "seats")]
}

/// A server as its clients have it.
#[derive(Clone, Debug)]
pub(crate) struct ServerHandle {
    pub(crate) house: House,
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    pub(crate) journal: Arc<Journal>,
    pub(crate) disk: Arc<Disk>,
    /// Another one has taken the disk, which this one may not know yet.
    is_displaced: Arc<AtomicBool>,
}

impl ServerHandle {
    pub(crate) fn bucket(&self, place: &Place) -> Bucket {
        self.house.bucket(place.key.clone())
    }

    pub(crate) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }

    /// Records a request. Requests to a displaced server are not in the journal: any answer that it gives
    /// without the disk is about the past.
    pub(crate) fn ask(&self, client: &Arc<str>, place: &Place, call: Invocation) -> Op {
        self.journal.count("commands");
        (!self.is_displaced()).then(|| self.journal.invoke(client, self.number, place.label, call))
    }

    /// Checks a grant that was announced just now: the disk must have it.
    pub(crate) fn check_durable(&self, place: &Place, sort: Sort, number: u64) {
        if !self.disk.ledger(|ledger| ledger.has(&place.scope, sort, number)) {
            self.journal.breach(format!(
                "bucket {:?}: {sort:?} {number} was told before it was durable",
                place.label
            ));
        }
    }

    /// Checks a token of this life that was announced just now.
    pub(crate) fn check_token(&self, place: &Place, token: FencingToken) {
        let token = token.get();
        let (mark, floor) =
            self.disk.ledger(|ledger| (ledger.mark(&place.scope), ledger.floor(&place.scope)));
        if token > mark {
            self.journal.breach(format!(
                "bucket {:?}: token {token} was told, but the durable mark is {mark}",
                place.label
            ));
        }
        let is_old = token <= floor;
        if is_old != self.is_displaced() {
            let whose = if is_old { "the earlier life" } else { "its successor" };
            self.journal.breach(format!(
                "bucket {:?}: token {token} was given, which is one of {whose}",
                place.label
            ));
        }
        if !self.is_displaced() && !self.disk.announce(&place.scope, token) {
            self.journal.breach(format!(
                "bucket {:?}: token {token} was given, though one as high was given in an earlier life",
                place.label
            ));
        }
    }

    /// The question could not be answered.
    pub(crate) fn failed(&self, op: Op, error: &StoreError) {
        match error {
            StoreError::Unavailable { .. } => {
                self.journal.count("refused: unavailable");
                self.journal.refused(op, Reason::Unavailable);
            }
            StoreError::OutcomeUnknown { .. } => {
                self.journal.count("unknown: fenced");
                self.journal.unknown(op);
            }
            // Nothing has happened, and the history is judged by that.
            error => {
                if matches!(error, StoreError::Failed(_)) {
                    self.journal.breach(format!("the store failed: {error}"));
                }
                self.journal.refused(op, Reason::Other);
            }
        }
    }

    /// Reports an answer that no request can have caused.
    pub(crate) fn strange(&self, what: impl Display) {
        self.journal.breach(format!("a strange answer: {what}"));
    }
}

/// In half of the schedules the calendar is two centuries ahead, a time that tells nothing of the tokens of
/// earlier lives: only the marks in the store keep tokens growing there, so that a mark that is lost shows.
pub(super) const CALENDAR_AHEAD_MS: i64 = 200 * 365 * 86_400_000;

/// A life of the server.
#[derive(Debug)]
pub(crate) struct ServerLife {
    pub(crate) server: ServerHandle,
    pub(crate) clock: ManualClock,
    /// What serves the remote clients: sessions and all before them.
    sessions: Arc<Server>,
    routes: Router,
    ticks: RefCell<Ticks>,
    runtime: Option<Runtime>,
    link: Arc<DiskLink>,
    /// How long the tasks have run.
    ran_ms: Cell<u64>,
}

impl ServerLife {
    /// Begins; fails if the house does not open.
    pub(crate) fn begin(
        journal: &Arc<Journal>,
        disk: &Arc<Disk>,
        number: u64,
        leases: Leases,
        calendar_ms: i64,
    ) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let clock = ManualClock::new();
        clock.stand_still(Duration::from_millis(journal.now_ms()));
        clock.set_calendar(calendar_ms);
        let link = disk.link();
        // One lock is more than may end at once, except in every eighth life.
        let limits =
            Limits { locks_ended_at_once: if number.is_multiple_of(8) { 60 } else { 0 }, ..Limits::DEFAULT };
        let earlier = Duration::from_millis(leases.earlier_ms);
        let options = Options::new().lease(earlier).clock(&clock).store_timeout(STORE_TIMEOUT).limits(limits);
        let opening =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, open(link.clone(), options)).await });
        let house = opening.map_err(|_| "the house does not open in ten minutes".to_owned())??;
        let lease = Lease::new(Duration::from_millis(leases.own_ms)).map_err(|error| error.to_string())?;
        let sessions =
            Server::of(Config { lease, limits: LIMITS, drain: DRAIN, ..Config::default() }, house.clone());
        let routes = router(sessions.clone());
        let (journal, disk) = (journal.clone(), disk.clone());
        let epoch = disk.ledger(Ledger::epoch);
        let ticks = RefCell::new(Ticks { next_ms: TICK_MS, random: Random::new(disk.draw(u64::MAX - 1)) });
        let server = ServerHandle { house, number, epoch, journal, disk, is_displaced: Arc::default() };
        let (runtime, ran_ms) = (Some(runtime), Cell::new(0));
        Ok(Self { server, clock, sessions, routes, ticks, runtime, link, ran_ms })
    }

    /// Runs all tasks until they wait, and then for this time.
    pub(crate) fn run(&self, ms: u64) {
        self.block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
        self.ran_ms.set(self.ran_ms.get() + ms);
        self.clock.advance_without_tick(Duration::from_millis(ms));
        if self.ticks.borrow_mut().is_due(self.ran_ms()) {
            self.clock.stand_still(Duration::ZERO);
        }
    }

    /// Serves this connection.
    pub(crate) fn serve(&self, connection: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let service = TowerToHyperService::new(self.routes.clone());
        let serving =
            http1::Builder::new().serve_connection(TokioIo::new(connection), service).with_upgrades();
        // A client that breaks off in the middle of its handshake is no fault of the server.
        self.runtime().spawn(async move { drop(serving.await) });
    }

    /// Whether the server has a session with that id.
    pub(crate) fn has_session(&self, id: &str) -> bool {
        self.sessions.has_session(id)
    }

    /// How long the tasks have run.
    pub(crate) fn ran_ms(&self) -> u64 {
        self.ran_ms.get()
    }

    /// As [`run`](Self::run), but the process stands still, and then goes on.
    pub(crate) fn stand_still(&self, ms: u64) {
        self.clock.stand_still(Duration::from_millis(ms));
    }

    /// Runs all tasks, but only a little.
    pub(crate) fn nudge(&self, turns: usize) {
        self.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
    }

    /// # Panics
    ///
    /// The future takes ten minutes of simulated time.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let answer = self.runtime().block_on(async { tokio::time::timeout(PATIENCE, future).await });
        answer.unwrap_or_else(|_| panic!("nothing comes of it in ten minutes"))
    }

    /// Asks something; the answer is there later.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        question: impl Future<Output = T> + Send + 'static,
    ) -> Started<T> {
        let answer = Arc::new(Mutex::new(None));
        let slot = answer.clone();
        let task = self.runtime().spawn(async move {
            let value = question.await;
            *slot.lock() = Some(value);
        });
        let (life, asked_ms) = (self.server.number, self.ran_ms());
        Started { answer, task: task.abort_handle(), life, asked_ms }
    }

    /// Another process has taken the disk.
    pub(crate) fn is_displaced_now(&self) {
        self.server.is_displaced.store(true, Ordering::Relaxed);
    }

    /// Kills the process in the middle of its work.
    pub(crate) fn crash(&mut self) {
        self.link.cut();
        if let Some(runtime) = self.runtime.take() {
            drop(runtime);
        }
    }

    /// Sends a durable change to a displaced house, which must end because of it.
    pub(crate) fn learns_of_its_end(&self, place: &Place) -> Result<(), StoreState> {
        let bucket = self.server.bucket(place);
        self.block_on(async {
            // Longer than the longest pause before a batch is sent again.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let opening = bucket.owners().open("late", Duration::from_secs(1));
            match opening.await {
                Err(OwnerError::Store(StoreError::Fenced | StoreError::OutcomeUnknown { .. })) => {}
                answer => self.server.strange(format!("a displaced house says {answer:?}")),
            }
        });
        match self.server.house.store_state() {
            StoreState::Fenced => Ok(()),
            state => Err(state),
        }
    }

    /// Stops the process in order; with what it left for the next one.
    pub(crate) fn close(&self) -> Result<Left, StoreState> {
        match self.block_on(self.sessions.stop()) {
            StoreState::Closed(left) => Ok(left),
            state => Err(state),
        }
    }

    #[expect(clippy::expect_used, reason = "it goes only with the life itself")]
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime of a life lives as long")
    }
}

/// The lengths of leases in a life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leases {
    /// Of those that it gives.
    pub(crate) own_ms: u64,
    /// Of those that lives before it have given, as far as the operator knows.
    pub(crate) earlier_ms: u64,
}

/// The ticks of the lease clock, which come late like those of a busy process.
#[derive(Debug)]
struct Ticks {
    /// How long the tasks have run by the next one.
    next_ms: u64,
    random: Random,
}

impl Ticks {
    fn is_due(&mut self, ran_ms: u64) -> bool {
        let is_due = ran_ms >= self.next_ms;
        if is_due {
            let late_ms = if self.random.percent(50) { 0 } else { self.random.below(LATEST_TICK_MS) as u64 };
            self.next_ms = ran_ms + TICK_MS + late_ms;
        }
        is_due
    }
}

/// The longest step of simulated time: half of the shortest interval of pings.
pub(crate) const STEP_MS: u64 = 25;

/// The interval of the lease clock's ticks.
const TICK_MS: u64 = 100;

/// Ticks are less late than that, and so never as far apart as the longest time that one tick adds.
const LATEST_TICK_MS: usize = 75;

/// After a deadline a lease ends with the second tick at the latest. Ticks come between two steps, and what
/// was sent before the first step and what a tick ends is seen after the next.
pub(crate) const LATEST_END_MS: u64 = 2 * (TICK_MS + LATEST_TICK_MS as u64 + STEP_MS) + 2 * STEP_MS;

/// The shortest lease that a server gives, and the longest of a simulated one.
pub(crate) const SHORTEST_LEASE_MS: u64 = 500;
pub(crate) const LONGEST_LEASE_MS: u64 = 800;

/// How long a stopping server waits for its clients.
const DRAIN: Duration = Duration::from_millis(60);

/// Times that are longer than every lease prove nothing of a session.
const LIMITS: LimitSettings = LimitSettings {
    hello_timeout: Duration::from_secs(1),
    write_timeout: Duration::from_millis(100),
    ..LimitSettings::DEFAULT
};

/// How long an answer of the store is waited for.
const STORE_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest time in which a question is answered though the store hangs, in milliseconds: the pause before
/// a batch is sent again, the time after which the store is unavailable, and as long again.
pub(crate) const LONGEST_WAIT_MS: u64 = 200 + 2 * STORE_TIMEOUT.as_millis() as u64;

/// Longer than any task with a free way takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// A slot that cannot be taken, or be written to, is tried again, as an operator or a supervisor would.
async fn open(link: Arc<dyn Store>, options: Options) -> Result<House, String> {
    for _ in 0..100 {
        let opening = House::open(link.clone(), options.clone());
        match opening.await {
            Ok(house) => return Ok(house),
            Err(
                OpenError::Store(TakeError::Unavailable(_)) | OpenError::Lost(StoreState::Unavailable { .. }),
            ) => {}
            Err(error) => return Err(format!("the house does not open: {error}")),
        }
    }
    Err("the house does not open in a hundred attempts".to_owned())
}

/// A question under way.
#[derive(Debug)]
pub(crate) struct Started<T> {
    answer: Arc<Mutex<Option<T>>>,
    task: AbortHandle,
    /// The life of the server that received the request.
    pub(crate) life: u64,
    /// How long its tasks had run then.
    pub(crate) asked_ms: u64,
}

impl<T> Started<T> {
    /// The answer, once.
    pub(crate) fn take(&self) -> Option<T> {
        self.answer.lock().take()
    }

    /// Whether it has ended, with an answer or without.
    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Drops the future, wherever it stands.
    pub(crate) fn drop_future(&self) {
        self.task.abort();
    }
}
