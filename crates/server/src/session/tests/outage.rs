//! Sessions whose answers rest on changes that the store cannot make durable.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::store::{
    BackupError, CommitBatch, CommitOutcome, Fatal, MemoryStore, Opened, RecoveredRow, Slot, Store,
    StoreFuture, TakeError, WriterId,
};
use lockhouse::{House, LockError, Mode, Name, OfflineLock, Options, StoreError, StoreState};
use lockhouse_wire::frames_of;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::state::Session;
use super::super::verdict::Verdict;
use super::session;
use crate::Config;
use crate::bounds::WAITING_ANSWERS;
use crate::state::AppState;

/// A store whose commits wait until it is open.
#[derive(Debug)]
struct Gate {
    inner: MemoryStore,
    is_open: watch::Sender<bool>,
}

impl Store for Gate {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        self.inner.take_slot(slot, writer, visit)
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move {
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
            self.inner.commit(batches).await
        })
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        self.inner.backup(to)
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        self.inner.close()
    }
}

/// A store that cannot write, while the lock of `n` and the release of `freed` are on their way to it.
struct Outage {
    store: Arc<Gate>,
    house: House,
    lock: JoinHandle<Result<Vec<OfflineLock>, LockError>>,
    unlock: JoinHandle<Result<bool, StoreError>>,
}

impl Outage {
    /// An outage, and a session in its bucket.
    async fn with_session(config: Config) -> (Self, Session) {
        let store = Arc::new(Gate { inner: MemoryStore::new().unwrap(), is_open: watch::Sender::new(true) });
        let house = House::open(store.clone(), Options::new().lease(Duration::from_secs(60))).await.unwrap();
        let state = AppState::new(config, house.clone());
        let mut session = session(&state, state.phases()).await;
        session.outbound.resume(0).unwrap();
        let agent = r#"{"type":"join","seq":1,"agent":1,"clientId":"ada"}"#;
        assert!(matches!(session.frame(agent), Verdict::GoOn));
        let owner = session.port.bucket().owners().open("Ada", Duration::from_secs(600)).await.unwrap();
        let (n, freed) = (Name::new("n").unwrap(), Name::new("freed").unwrap());
        owner.lock_names(&[(freed, Mode::Exclusive)], None).await.unwrap();
        // The grants of a bucket wait until the store knows of the first one.
        ask(&mut session, 2, "request", r#""agent":1,"name":"first""#);
        session.port.ready().await;
        session.take_notices();
        assert!(texts(&mut session).concat().contains("granted"));

        store.is_open.send_replace(false);
        let releasing = owner.clone();
        let lock = tokio::spawn(async move { owner.lock_names(&[(n, Mode::Exclusive)], None).await });
        let unlock = tokio::spawn(async move { releasing.unlock(freed, None).await });
        house.unavailable().await;
        (Self { store, house, lock, unlock }, session)
    }

    /// The store can write again, and everything that waited comes.
    async fn end(self, session: &mut Session) {
        self.store.is_open.send_replace(true);
        self.house.serving().await;
        self.lock.await.unwrap().unwrap();
        assert!(self.unlock.await.unwrap().unwrap());
        assert!(matches!(session.take_notices(), Verdict::GoOn));
    }
}

/// Sends a frame whose number is that of its request.
fn ask(session: &mut Session, n: u64, kind: &str, rest: &str) {
    let frame = format!(r#"{{"type":"{kind}","seq":{n},"id":{n},{rest}}}"#);
    assert!(matches!(session.frame(&frame), Verdict::GoOn));
}

/// Asks for `n`, which is not to wait.
fn ask_for_n(session: &mut Session, n: u64) {
    ask(session, n, "request", r#""agent":1,"name":"n","ifAvailable":true"#);
}

/// The state of a store that is full.
fn full() -> StoreState {
    StoreState::Unavailable { why: "full".to_owned(), retry_after: Duration::from_secs(1) }
}

/// The frames to be written, acknowledgements apart.
fn texts(session: &mut Session) -> Vec<String> {
    let messages: Vec<_> = std::iter::from_fn(|| session.outbound.queue.pop()).collect();
    let texts = messages.iter().flat_map(|message| frames_of(message).unwrap());
    texts.filter(|text| !text.contains(r#""type":"ack""#)).map(str::to_owned).collect()
}

/// The number of frames in which that stands.
fn count(texts: &[String], part: &str) -> usize {
    texts.iter().filter(|text| text.contains(part)).count()
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_waits_for_the_store_counts_as_one_of_the_session() {
    let mut config = Config::default();
    config.limits.requests_per_session = 8;
    let (outage, mut session) = Outage::with_session(config).await;
    (3..23).for_each(|n| ask_for_n(&mut session, n));
    let refused = texts(&mut session);
    assert_eq!((refused.len(), count(&refused, "one of at most 8 of a session")), (13, 13));
    outage.end(&mut session).await;
    let sent = texts(&mut session);
    assert_eq!(count(&sent, r#""type":"refused""#), 7, "{sent:?}");
    assert!(session.asked.is_empty());
    ask_for_n(&mut session, 23);
    assert_eq!(count(&texts(&mut session), r#""type":"refused""#), 1);
}

#[tokio::test(start_paused = true)]
async fn answers_that_wait_for_the_store_are_few_and_become_unavailable() {
    let (outage, mut session) = Outage::with_session(Config::default()).await;
    let most = WAITING_ANSWERS as u64;
    (3..3 + most).for_each(|n| ask_for_n(&mut session, n));
    assert_eq!(texts(&mut session), [""; 0]);
    ask_for_n(&mut session, 3 + most);
    let refused = texts(&mut session).concat();
    assert!(refused.contains("quota_exceeded") && refused.contains("retryAfterMs"), "{refused}");

    assert!(session.has_questions());
    session.answer_questions(&full());
    assert_eq!(count(&texts(&mut session), r#""code":"unavailable""#), WAITING_ANSWERS);
    assert!(!session.has_questions());
    ask(&mut session, 4 + most, "request", r#""agent":1,"name":"other""#);
    assert_eq!(count(&texts(&mut session), "granted"), 1, "the rest goes on");
    outage.end(&mut session).await;
    assert_eq!(texts(&mut session), [""; 0], "nothing is answered twice");
    assert!(session.asked.is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_a_snapshot_of_the_watches_waits_for_the_store_no_other_is_taken() {
    let (outage, mut session) = Outage::with_session(Config::default()).await;
    let watch = |session: &mut Session, id| {
        let frame = format!(r#"{{"type":"watch","id":{id}}}"#);
        assert!(matches!(session.frame(&frame), Verdict::GoOn));
    };
    watch(&mut session, 3);
    let waiting = session.asked.len();
    assert_eq!(waiting, 1);
    for _ in 0..5 {
        session.look_again();
    }
    watch(&mut session, 4);
    assert_eq!((session.asked.len(), texts(&mut session).len()), (waiting, 0));
    outage.end(&mut session).await;
    let sent = texts(&mut session).concat();
    assert!(sent.contains(r#""id":3"#) && !sent.contains(r#""id":4"#), "it is from before the watch: {sent}");
    session.watches.due(Instant::now()).await;
    session.look_again();
    let sent = texts(&mut session).concat();
    assert!(sent.contains(r#""id":4"#) && sent.contains(r#""name":"n""#), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_waits_for_the_store_and_is_not_to_wait_becomes_unavailable_and_is_given_back() {
    let (outage, mut session) = Outage::with_session(Config::default()).await;
    let freed = r#""agent":1,"name":"freed""#;
    ask(&mut session, 3, "request", &format!(r#"{freed},"ifAvailable":true"#));
    ask(&mut session, 4, "request", freed);
    assert_eq!(texts(&mut session), [""; 0]);
    assert!(session.has_undecided() && !session.has_questions());
    assert!(matches!(session.answer_undecided(&full()), Verdict::GoOn));
    assert!(!session.has_undecided());
    let sent = texts(&mut session);
    assert!(sent.len() == 1 && sent[0].contains(r#""id":3,"code":"unavailable""#), "{sent:?}");
    assert!(sent[0].contains(r#""retryAfterMs":1000"#), "{sent:?}");
    outage.end(&mut session).await;
    let sent = texts(&mut session);
    assert!(sent.len() == 1 && sent[0].contains(r#""id":4,"token""#), "the next one has it: {sent:?}");
    assert!(session.asked.is_empty());
}

#[tokio::test(start_paused = true)]
async fn grants_that_are_not_to_wait_and_do_are_few() {
    let (outage, mut session) = Outage::with_session(Config::default()).await;
    let most = WAITING_ANSWERS as u64;
    let ask_for_freed = |session: &mut Session, n| {
        ask(session, n, "request", r#""agent":1,"name":"freed","mode":"shared","ifAvailable":true"#);
    };
    (3..3 + most).for_each(|n| ask_for_freed(&mut session, n));
    assert_eq!(texts(&mut session), [""; 0]);
    ask_for_freed(&mut session, 3 + most);
    let refused = texts(&mut session).concat();
    assert!(refused.contains("quota_exceeded") && refused.contains("retryAfterMs"), "{refused}");
    let query = format!(r#"{{"type":"query","id":{}}}"#, 4 + most);
    assert!(matches!(session.frame(&query), Verdict::GoOn));
    assert_eq!(count(&texts(&mut session), "quota_exceeded"), 1);
    outage.end(&mut session).await;
    assert_eq!(count(&texts(&mut session), "granted"), WAITING_ANSWERS);
    assert!(!session.has_undecided());
}
