//! After a crash: no lock is granted that a remote client may hold.

use std::time::Duration;

use lockhouse::core::{
    Acquire, AgentId, Command, Effect, Mode, Name, NewAgent, NewReclaim, NewRequest, Outcome,
};
use lockhouse::store::{CommitOutcome, StoreUnavailable, Write};
use lockhouse::{
    Bucket, ClaimError, FencingToken, House, LockError, ManualClock, Notice, OpenError, Options, Port,
    RequestError, StoreState,
};
use tokio::time::{Instant, timeout};

use super::gate::{Gate, drained, manual, poll, record, settle};

const LEASE: Duration = Duration::from_secs(10);

fn join(port: &Port) -> AgentId {
    port.submit(1, Command::Join(NewAgent { client_id: "far", lease_ms: Some(10_000) }));
    match drained(port)[..] {
        [Notice::Answer { outcome: Outcome::Joined(agent), .. }] => agent,
        ref notices => panic!("{notices:?}"),
    }
}

/// A port whose agent holds `n`, and the token.
async fn holder(bucket: &Bucket) -> (Port, FencingToken) {
    let port = bucket.port(10);
    let agent = join(&port);
    let name = Name::new("n").unwrap();
    port.submit(2, Command::Request(NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive))));
    settle().await;
    match drained(&port).pop() {
        Some(Notice::Effect(Effect::Granted { grant, .. })) => (port, grant.token),
        other => panic!("{other:?}"),
    }
}

/// The successor of a house that was killed while a remote client held `n` in bucket `told`.
async fn after_a_crash() -> (House, std::sync::Arc<Gate>, ManualClock, FencingToken) {
    let (clock, options) = manual();
    let gate = Gate::new();
    let house = gate.house_with(options.clone().lease(LEASE)).await;
    let (port, token) = holder(&house.bucket("told")).await;
    let embedded = house.bucket("quiet").agent("embedded").unwrap();
    let held = embedded.locks().request("m").await.unwrap();
    let claim = house.bucket("quiet").claims().claim("seat", "ada", Duration::from_secs(600)).await.unwrap();
    let next = Gate::before(gate.inner.reopen());
    let house_after = next.house_with(options.lease(LEASE)).await;
    drop((port, held, claim, embedded, house));
    (house_after, next, clock, token)
}

#[tokio::test]
async fn a_bucket_recovers_for_the_longest_lease_if_a_web_lock_was_announced_in_it() {
    let (house, gate, clock, token) = after_a_crash().await;
    let bucket = house.bucket("told");
    let agent = bucket.agent("web").unwrap();
    let mut asked = agent.locks().request("n").if_available().into_future();
    assert!(poll(&mut asked).await.is_pending());
    let owner = bucket.owners().open("Ada", Duration::from_secs(600)).await.unwrap();
    let refused = owner.lock([record(1)]).await.unwrap_err();
    assert_eq!(refused, LockError::Recovering { retry_after: LEASE });
    let refused = bucket.claims().claim("seat", "ada", LEASE).await.unwrap_err();
    assert_eq!(refused, ClaimError::Recovering { retry_after: LEASE });
    clock.advance(LEASE - Duration::from_secs(1));
    assert!(poll(&mut asked).await.is_pending());
    gate.batches();
    clock.advance(Duration::from_secs(1));
    let held = asked.await.unwrap();
    assert!(held.fencing_token() > token);
    settle().await;
    assert!(gate.writes().contains(&Write::RecoveryCompleted));
    owner.lock([record(1)]).await.unwrap();
}

#[tokio::test]
async fn a_bucket_without_announced_web_locks_goes_on_at_once() {
    let (house, _gate, _clock, _) = after_a_crash().await;
    let bucket = house.bucket("quiet");
    let agent = bucket.agent("web").unwrap();
    drop(agent.locks().request("m").if_available().await.unwrap());
    assert!(bucket.claims().get("seat").await.unwrap().is_some());
    drop(house.bucket("unheard of").agent("web").unwrap().locks().request("n").if_available().await.unwrap());
}

#[tokio::test]
async fn what_is_brought_back_keeps_its_token_and_others_wait_on() {
    let (house, _gate, clock, token) = after_a_crash().await;
    let bucket = house.bucket("told");
    let port = bucket.port(10);
    let agent = join(&port);
    let name = Name::new("n").unwrap();
    let reclaim = NewReclaim { agent, name, mode: Mode::Exclusive, token, metadata: None, max_hold_ms: None };
    port.submit(2, Command::Reclaim(reclaim));
    settle().await;
    let notices = drained(&port);
    let Some(Notice::Effect(Effect::Granted { grant, .. })) = notices.last() else { panic!("{notices:?}") };
    assert_eq!(grant.token, token);
    let web = bucket.agent("web").unwrap();
    let mut asked = web.locks().request("n").if_available().into_future();
    assert!(poll(&mut asked).await.is_pending());
    clock.advance(Duration::from_secs(9));
    port.submit(3, Command::Renew { agent });
    clock.advance(Duration::from_secs(1));
    let refused = asked.await.unwrap_err();
    assert_eq!(refused.to_string(), "not available: held by \"far\", 0 waiting");
}

#[tokio::test]
async fn after_a_clean_stop_nothing_recovers() {
    let (_clock, options) = manual();
    let options = options.lease(LEASE);
    let gate = Gate::new();
    let house = gate.house_with(options.clone()).await;
    let (port, _) = holder(&house.bucket("told")).await;
    let claim = house.bucket("told").claims().claim("seat", "ada", Duration::from_secs(600)).await.unwrap();
    drop(port);
    house.close().await;
    drop((house, claim));
    let house = Gate::before(gate.inner.reopen()).house_with(options).await;
    let agent = house.bucket("told").agent("web").unwrap();
    drop(agent.locks().request("n").if_available().await.unwrap());
}

/// As after a failover of the database that lost the first record of a bucket.
#[tokio::test]
async fn a_clock_that_leaps_does_not_end_the_recovery_of_buckets_that_come_anew() {
    let (clock, options) = manual();
    let gate = Gate::new();
    let house = gate.house_with(options.lease(LEASE).always_recover(true)).await;
    clock.stand_still(2 * LEASE);
    let agent = house.bucket("new").agent("web").unwrap();
    let mut asked = agent.locks().request("n").if_available().into_future();
    assert!(poll(&mut asked).await.is_pending());
    clock.advance(LEASE);
    drop(asked.await.unwrap());
    assert!(!house.waits_for_holders());
}

#[tokio::test]
async fn where_nothing_is_known_of_the_past_every_bucket_recovers() {
    let (clock, options) = manual();
    let gate = Gate::new();
    let house = gate.house_with(options.lease(LEASE).always_recover(true)).await;
    let agent = house.bucket("new").agent("web").unwrap();
    let mut asked = agent.locks().request("n").if_available().into_future();
    assert!(poll(&mut asked).await.is_pending());
    clock.advance(LEASE);
    drop(asked.await.unwrap());
    drop(house.bucket("later").agent("web").unwrap().locks().request("n").if_available().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_to_wait_waits_for_the_recovery_and_then_for_no_store_that_is_away() {
    let (clock, options) = manual();
    let gate = Gate::new();
    let house = gate.house_with(options.clone()).await;
    let owner = house.bucket("told").owners().open("Ada", Duration::from_secs(600)).await.unwrap();
    let freed = record(1);
    owner.lock([freed.clone()]).await.unwrap();
    let next = Gate::before(gate.inner.reopen());
    let house = next.house_with(options.lease(LEASE).always_recover(true)).await;
    let bucket = house.bucket("told");
    let owner = bucket.owners().resume(owner.id(), owner.secret()).await.unwrap();
    let agent = bucket.agent("web").unwrap();
    let mut asked = agent.locks().request(freed.name()).if_available().into_future();
    assert!(poll(&mut asked).await.is_pending());
    next.shut();
    let mut unlock = Box::pin(owner.unlock(freed.name(), None));
    assert!(poll(&mut unlock).await.is_pending());
    house.unavailable().await;
    assert!(poll(&mut asked).await.is_pending(), "a holder may still come back");
    clock.advance(LEASE);
    let answer = timeout(Options::STORE_TIMEOUT, asked).await.expect("it does not wait for the store");
    assert!(matches!(answer, Err(RequestError::StoreUnavailable { .. })), "{answer:?}");
    assert!(!bucket.has_held(), "what was not told is given back");
}

#[tokio::test(start_paused = true)]
async fn a_house_whose_store_hangs_or_is_full_at_the_start_is_not_opened() {
    let full = StoreUnavailable::Away { place: "the store".into(), why: "no space".into() };
    for refusals in [0, 1000] {
        let gate = Gate::new();
        gate.then((0..refusals).map(|_| CommitOutcome::Refused(full.clone())));
        if refusals == 0 {
            gate.shut();
        }
        let timeout = Duration::from_secs(3);
        let (begun, options) = (Instant::now(), Options::new().lease(LEASE).store_timeout(timeout));
        let error = House::open(gate, options).await.unwrap_err();
        assert!(matches!(error, OpenError::Lost(StoreState::Unavailable { .. })), "{error:?}");
        assert!(error.to_string().starts_with("the store was taken, and then: unavailable: "), "{error}");
        let waited = begun.elapsed();
        assert!(waited >= timeout && waited < 3 * timeout, "{waited:?}");
    }
}
