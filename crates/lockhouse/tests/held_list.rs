//! A stop while remote agents hold web locks: the next start waits for these locks, and for no others. The
//! clock is moved by hand.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::core::{
    Acquire, AgentId, Command, Effect, EndCause, EventKind, LossReason, NewAgent, NewReclaim, NewRequest,
    Outcome, Refusal, RequestId,
};
use lockhouse::store::MemoryStore;
use lockhouse::{
    ClaimError, EventFilter, EventItem, EventsFrom, FencingToken, House, Left, LockError, LockType,
    ManualClock, Mode, Name, NameBuf, Notice, Options, Port, RecordKind, StoreState,
};

const LEASE: Duration = Duration::from_secs(10);

/// One life of a server.
struct Life {
    house: House,
    clock: ManualClock,
}

impl Life {
    async fn begin(store: &MemoryStore) -> Self {
        let clock = ManualClock::default();
        let options = Options::new().lease(LEASE).clock(&clock);
        let house = House::open(Arc::new(store.reopen()), options).await.unwrap();
        Self { house, clock }
    }

    fn session(&self, secret: &str) -> Session {
        self.session_in("default", secret)
    }

    fn session_in(&self, bucket: &str, secret: &str) -> Session {
        Session { port: self.house.bucket(bucket).port_of_session(secret, 100_000), tag: 0 }
    }

    async fn stop(self) -> Left {
        match self.house.close().await {
            StoreState::Closed(left) => left,
            state => panic!("{state:?}"),
        }
    }

    /// Whether that name is granted at once to another agent, which gives it back.
    async fn is_free(&self, name: &str) -> bool {
        let agent = self.house.bucket("default").agent("other").unwrap();
        agent.locks().request(name).if_available().await.is_ok()
    }
}

/// A session of a client.
struct Session {
    port: Port,
    tag: u64,
}

/// A lock as its client knows it.
struct Lock {
    request: RequestId,
    name: &'static str,
    mode: Mode,
    token: FencingToken,
    ticket: String,
}

impl Session {
    async fn next(&mut self) -> Notice {
        let mut notices = VecDeque::new();
        self.port.ready().await;
        self.port.drain(&mut notices).unwrap();
        assert_eq!(notices.len(), 1, "{notices:?}");
        notices.pop_front().unwrap()
    }

    async fn ask(&mut self, command: Command<'_>) -> Outcome {
        self.tag += 1;
        self.port.submit(self.tag, command);
        self.answer().await
    }

    async fn answer(&mut self) -> Outcome {
        match self.next().await {
            Notice::Answer { tag, outcome } if tag == self.tag => outcome,
            notice => panic!("{notice:?}"),
        }
    }

    async fn join(&mut self) -> AgentId {
        let Outcome::Joined(agent) = self.ask(Command::Join(NewAgent::new("a"))).await else { panic!() };
        agent
    }

    async fn lock(&mut self, agent: AgentId, name: &'static str, mode: Mode) -> Lock {
        let request = NewRequest::new(agent, Name::new(name).unwrap(), Acquire::Wait(mode));
        let grant = match self.ask(Command::Request(request)).await {
            Outcome::Granted(grant) => grant,
            // The first grant of a bucket is announced once the store knows of the bucket.
            Outcome::Queued(_) => match self.next().await {
                Notice::Effect(Effect::Granted { grant, .. }) => grant,
                notice => panic!("{notice:?}"),
            },
            outcome => panic!("{outcome:?}"),
        };
        let ticket = self.port.ticket(grant.request).unwrap();
        Lock { request: grant.request, name, mode, token: grant.token, ticket }
    }

    async fn reclaim(&mut self, agent: AgentId, lock: &Lock) -> Result<RequestId, Refusal> {
        let Lock { name, mode, token, ref ticket, .. } = *lock;
        let name = Name::new(name).unwrap();
        self.tag += 1;
        let reclaim = NewReclaim { agent, name, mode, token, metadata: None, max_hold_ms: None };
        self.port.reclaim(self.tag, reclaim, ticket);
        let outcome = match self.answer().await {
            Outcome::Queued(_) => match self.next().await {
                Notice::Effect(Effect::Granted { grant, .. }) => Outcome::Granted(grant),
                notice => panic!("{notice:?}"),
            },
            outcome => outcome,
        };
        match outcome {
            Outcome::Granted(grant) => {
                assert_eq!(grant.token, token);
                Ok(grant.request)
            }
            Outcome::Refused(refusal) => Err(refusal),
            outcome => panic!("{outcome:?}"),
        }
    }
}

/// A store whose last server stopped while session `one` held `n` and `m/1`, and session `two` a share of
/// `s`.
async fn stopped() -> (MemoryStore, [Lock; 3]) {
    let store = MemoryStore::new().unwrap();
    let life = Life::begin(&store).await;
    let (mut one, mut two) = (life.session("one"), life.session("two"));
    let (a, b) = (one.join().await, two.join().await);
    let n = one.lock(a, "n", Mode::Exclusive).await;
    let m = one.lock(a, "m/1", Mode::Exclusive).await;
    let s = two.lock(b, "s", Mode::Shared).await;
    let given_back = two.lock(b, "given back", Mode::Exclusive).await;
    two.ask(Command::Release { request: given_back.request }).await;
    assert_eq!(life.stop().await, Left::Listed { locks: 3 });
    (store, [n, m, s])
}

#[tokio::test]
async fn only_what_is_listed_waits_and_comes_back_under_its_token() {
    let (store, [n, _, _]) = stopped().await;
    let life = Life::begin(&store).await;
    assert_eq!(life.house.bucket("default").recovers_for(), None);
    assert!(life.is_free("given back").await && life.is_free("new").await);
    assert!(!life.is_free("n").await);

    let waits = life.house.bucket("default").agent("waits").unwrap();
    let waiting = tokio::spawn(waits.locks().request("n").into_future());
    let mut one = life.session("one anew");
    let agent = one.join().await;
    let request = one.reclaim(agent, &n).await.unwrap();
    assert!(!waiting.is_finished());
    let twice = one.reclaim(agent, &n).await.unwrap_err();
    assert!(matches!(twice, Refusal::NotRecovering), "{twice:?}");
    one.ask(Command::Release { request }).await;
    assert!(waiting.await.unwrap().unwrap().fencing_token() > n.token);
}

#[tokio::test]
async fn a_client_that_has_reclaimed_all_gives_up_the_rest_and_no_other_client_can() {
    let (store, [n, ..]) = stopped().await;
    let life = Life::begin(&store).await;
    let mut one = life.session("one anew");
    let agent = one.join().await;
    one.reclaim(agent, &n).await.unwrap();
    one.port.has_reclaimed("three");
    one.port.has_reclaimed("One");
    assert!(!life.is_free("m/1").await, "of another session");
    one.port.has_reclaimed("one");
    assert!(life.is_free("m/1").await);
    assert!(!life.is_free("n").await && !life.is_free("s").await);
    // Now it waits for `two` alone.
    life.session("two anew").port.has_reclaimed("two");
    assert!(life.is_free("s").await);
}

#[tokio::test]
async fn a_waiting_request_is_granted_what_a_client_gives_up() {
    let (store, _) = stopped().await;
    let life = Life::begin(&store).await;
    let waits = life.house.bucket("default").agent("waits").unwrap();
    let waiting = tokio::spawn(waits.locks().request("m/1").into_future());
    tokio::task::yield_now().await;
    life.session("one anew").port.has_reclaimed("one");
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_name_is_granted_once_the_lease_of_a_holder_that_does_not_come_back_is_over() {
    let (store, [n, ..]) = stopped().await;
    let life = Life::begin(&store).await;
    life.clock.advance(LEASE - Duration::from_millis(1));
    assert!(!life.is_free("n").await && !life.is_free("m/1").await);
    life.clock.advance(Duration::from_millis(1));
    assert!(life.is_free("n").await && life.is_free("m/1").await);
    let mut late = life.session("one anew");
    let agent = late.join().await;
    assert!(matches!(late.reclaim(agent, &n).await, Err(Refusal::NotRecovering)));
    // Nothing is held any more: the stop is clean.
    drop(late);
    assert_eq!(life.stop().await, Left::Nothing);
}

#[tokio::test]
async fn offline_locks_and_claims_are_refused_what_is_listed_and_a_steal_takes_it() {
    let (store, [n, m, _]) = stopped().await;
    let life = Life::begin(&store).await;
    let bucket = life.house.bucket("default");
    let kind = RecordKind::new("m", LockType::ExclusiveRead);
    let owner = bucket.owners().open("Ada", Duration::from_secs(600)).await.unwrap();
    owner.lock([kind.for_write(2)]).await.unwrap();
    let busy = bucket.claims().claim("n", "ada", LEASE).await.unwrap_err();
    assert!(matches!(busy, ClaimError::Busy { .. }), "{busy:?}");
    let conflict = owner.lock([kind.for_write(1)]).await.unwrap_err();
    assert!(matches!(conflict, LockError::Conflict(_)), "{conflict:?}");
    let agent = bucket.agent("thief").unwrap();
    let _stolen = agent.locks().request("m/1").steal().await.unwrap();
    let mut one = life.session("one anew");
    let agent = one.join().await;
    assert!(matches!(one.reclaim(agent, &m).await, Err(Refusal::NotRecovering)), "stolen");
    one.reclaim(agent, &n).await.unwrap();
}

#[tokio::test]
async fn a_list_serves_one_start_and_the_next_one_recovers() {
    let (store, _) = stopped().await;
    drop(Life::begin(&store).await);
    // It was killed before any holder came back.
    let life = Life::begin(&store).await;
    assert_eq!(life.house.bucket("default").recovers_for(), Some(LEASE));
    let agent = life.house.bucket("default").agent("a").unwrap();
    let waiting = tokio::spawn(agent.locks().request("new").into_future());
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
}

#[tokio::test]
async fn a_house_that_waits_for_holders_leaves_no_list() {
    let (store, [n, ..]) = stopped().await;
    let life = Life::begin(&store).await;
    let mut one = life.session("one anew");
    let agent = one.join().await;
    one.reclaim(agent, &n).await.unwrap();
    one.port.has_reclaimed("one");
    assert_eq!(life.stop().await, Left::Unknown, "`two` may still come back");

    let life = Life::begin(&store).await;
    assert_eq!(life.house.bucket("default").recovers_for(), Some(LEASE));
    assert_eq!(life.stop().await, Left::Unknown, "it recovers");
}

#[tokio::test]
async fn a_lock_that_was_brought_back_is_listed_anew() {
    let (store, [n, m, s]) = stopped().await;
    let life = Life::begin(&store).await;
    let (mut one, mut two) = (life.session("one anew"), life.session("two anew"));
    let (a, b) = (one.join().await, two.join().await);
    let (request, _) = (one.reclaim(a, &n).await.unwrap(), one.reclaim(a, &m).await.unwrap());
    let renewed = Lock { ticket: one.port.ticket(request).unwrap(), ..n };
    two.reclaim(b, &s).await.unwrap();
    life.clock.advance(Duration::from_secs(1));
    assert_eq!(life.stop().await, Left::Listed { locks: 3 });

    let life = Life::begin(&store).await;
    let mut one = life.session("one once more");
    let agent = one.join().await;
    one.reclaim(agent, &renewed).await.unwrap();
    // The answer to the reclaim of this one was lost, so that its client has the ticket of the grant.
    one.reclaim(agent, &m).await.unwrap();
    one.port.has_reclaimed("one anew");
    assert!(!life.is_free("n").await && !life.is_free("m/1").await);
}

#[tokio::test]
async fn a_client_that_has_not_got_the_answer_to_its_reclaim_keeps_its_lock_over_a_kill() {
    let (store, [n, m, s]) = stopped().await;
    let life = Life::begin(&store).await;
    let (mut one, mut two) = (life.session("one anew"), life.session("two anew"));
    let (a, b) = (one.join().await, two.join().await);
    for lock in [&n, &m] {
        one.reclaim(a, lock).await.unwrap();
    }
    two.reclaim(b, &s).await.unwrap();
    // Every holder is back, and does not know it yet.
    life.clock.advance(LEASE - Duration::from_millis(1));
    let life = Life::begin(&store).await;
    assert_eq!(life.house.bucket("default").recovers_for(), Some(LEASE));
    let mut one = life.session("one once more");
    let agent = one.join().await;
    one.reclaim(agent, &n).await.unwrap();
}

#[tokio::test]
async fn once_the_lease_is_over_old_tickets_are_void() {
    let (store, [n, m, _]) = stopped().await;
    let life = Life::begin(&store).await;
    let mut one = life.session("one anew");
    let agent = one.join().await;
    one.reclaim(agent, &n).await.unwrap();
    life.clock.advance(LEASE);
    assert_eq!(life.stop().await, Left::Listed { locks: 1 });
    let life = Life::begin(&store).await;
    let mut one = life.session("one once more");
    let agent = one.join().await;
    for lock in [&n, &m] {
        assert_eq!(one.reclaim(agent, lock).await.unwrap_err(), Refusal::Superseded);
    }
}

#[tokio::test]
async fn a_client_whose_reclaim_was_refused_gives_nothing_up() {
    for is_genuine in [false, true] {
        let (store, [n, m, _]) = stopped().await;
        let life = Life::begin(&store).await;
        let mut one = life.session("one anew");
        let agent = one.join().await;
        let refused = if is_genuine {
            one.reclaim(agent, &m).await.unwrap();
            m
        } else {
            Lock { ticket: "1.00".to_owned(), ..n }
        };
        one.reclaim(agent, &refused).await.unwrap_err();
        // It may not have heard of that.
        one.port.has_reclaimed("one");
        assert!(!life.is_free("n").await && !life.is_free("m/1").await);
        life.clock.advance(LEASE);
        assert!(life.is_free("n").await);
    }
}

#[tokio::test]
async fn a_question_about_a_name_brings_it_up() {
    let (store, _) = stopped().await;
    let life = Life::begin(&store).await;
    let bucket = life.house.bucket("default");
    assert_eq!(bucket.snapshot().await.unwrap().held.len(), 0);
    life.session("other").port.name_comes_up(Name::new("n").unwrap());
    let held = bucket.snapshot().await.unwrap().held;
    assert_eq!(held.iter().map(|lock| &*lock.client_id).collect::<Vec<_>>(), ["(away since a restart)"]);
}

#[tokio::test]
async fn a_reader_of_a_listed_name_sees_its_holder_and_then_one_grant() {
    let (store, locks) = stopped().await;
    let life = Life::begin(&store).await;
    let bucket = life.house.bucket("default");
    let name = Some(NameBuf::new("n").unwrap());
    let filter = EventFilter { name, ..EventFilter::default() };
    let mut events = bucket.events(EventsFrom::State, filter);
    let Some(Ok(EventItem::State(_, state))) = events.next().await else { panic!() };
    assert_eq!(&*state.held[0].client_id, "(away since a restart)");
    let mut back = life.session("one anew");
    let agent = back.join().await;
    let lock = back.reclaim(agent, &locks[0]).await.unwrap();
    back.ask(Command::Release { request: lock }).await;
    for kind in [EventKind::Granted, EventKind::Ended(EndCause::Released)] {
        let Some(Ok(EventItem::Event(event))) = events.next().await else { panic!() };
        assert_eq!((event.kind, &*event.client_id), (kind, "a"));
    }
}

#[tokio::test]
async fn a_stolen_lock_is_of_its_thief_alone_after_a_stop() {
    let store = MemoryStore::new().unwrap();
    let life = Life::begin(&store).await;
    let (mut one, mut two) = (life.session("one"), life.session("two"));
    let (a, b) = (one.join().await, two.join().await);
    let victim = one.lock(a, "n", Mode::Exclusive).await;
    let steal = NewRequest::new(b, Name::new("n").unwrap(), Acquire::Steal);
    let Outcome::Granted(grant) = two.ask(Command::Request(steal)).await else { panic!() };
    let thief = Lock { token: grant.token, ticket: two.port.ticket(grant.request).unwrap(), ..victim };
    let Notice::Effect(Effect::Lost { loss, .. }) = one.next().await else { panic!() };
    assert_eq!(loss.reason, LossReason::Stolen);
    assert_eq!(life.stop().await, Left::Listed { locks: 1 });
    let life = Life::begin(&store).await;
    let mut back = life.session("two anew");
    let agent = back.join().await;
    back.reclaim(agent, &thief).await.unwrap();
}

#[tokio::test]
async fn a_steal_from_a_holder_that_is_away_names_it() {
    let (store, _) = stopped().await;
    let life = Life::begin(&store).await;
    let mut thief = life.session("thief");
    let agent = thief.join().await;
    let steal = NewRequest::new(agent, Name::new("n").unwrap(), Acquire::Steal);
    let stolen = thief.port.steal(7, steal, true).unwrap();
    assert_eq!((stolen.holders, &*stolen.first[0].label), (1, "(away since a restart)"));
}

#[tokio::test]
async fn equal_names_of_two_buckets_are_listed_apart() {
    let store = MemoryStore::new().unwrap();
    let life = Life::begin(&store).await;
    let mut other = life.session_in("other", "one");
    let agent = other.join().await;
    other.lock(agent, "n", Mode::Exclusive).await;
    assert_eq!(life.stop().await, Left::Listed { locks: 1 });
    let life = Life::begin(&store).await;
    assert!(life.is_free("n").await);
    life.session("one anew").port.has_reclaimed("one");
    let agent = life.house.bucket("other").agent("a").unwrap();
    agent.locks().request("n").if_available().await.unwrap_err();
    life.session_in("other", "one anew").port.has_reclaimed("one");
    drop(agent.locks().request("n").if_available().await.unwrap());
}

#[tokio::test]
async fn more_locks_than_a_list_has_space_for_leave_none() {
    let store = MemoryStore::new().unwrap();
    let life = Life::begin(&store).await;
    let mut one = life.session("one");
    let agent = one.join().await;
    one.lock(agent, "first", Mode::Shared).await;
    for nth in 0..10_000 {
        let name = format!("{nth}");
        let request = NewRequest::new(agent, Name::new(&name).unwrap(), Acquire::Wait(Mode::Exclusive));
        one.port.submit(0, Command::Request(request));
    }
    assert_eq!(life.stop().await, Left::Unknown);
    let life = Life::begin(&store).await;
    assert_eq!(life.house.bucket("default").recovers_for(), Some(LEASE));
}
