//! No client gets a notice of a change that is not durable; clients that the change does not concern do not
//! wait.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockhouse::core::{
    Acquire, AgentId, Command, Effect, Mode, Name, NewAgent, NewRequest, Outcome, Refusal, Unlock,
};
use lockhouse::store::Write;
use lockhouse::{
    BucketKey, LockError, Loss, MemoryBudget, Notice, Options, OwnerError, Port, RequestError, StoreError,
};
use tokio::time::{Instant, timeout};

use super::gate::{Gate, drained, manual, poll, record, settle};

#[tokio::test]
async fn an_offline_lock_is_announced_once_it_is_durable_and_other_names_do_not_wait() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let agent = bucket.agent("web").unwrap();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    for _ in 0..1000 {
        let held = poll(&mut agent.locks().request("other").into_future()).await;
        assert!(matches!(held, Poll::Ready(Ok(_))), "{held:?}");
    }
    gate.open();
    assert_eq!(lock.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_refusal_waits_for_the_lock_that_it_speaks_of() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let agent = bucket.agent("web").unwrap();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let wanted = record(1);
    let mut refused = agent.locks().request(wanted.name()).if_available().into_future();
    assert!(poll(&mut refused).await.is_pending());
    let mut shown = Box::pin(agent.locks().query());
    assert!(poll(&mut shown).await.is_pending(), "a snapshot speaks of everything");
    gate.open();
    let Err(RequestError::Unavailable(unavailable)) = refused.await else { panic!() };
    assert_eq!(unavailable.holders[0].client_id, "Ada");
    assert_eq!(shown.await.unwrap().held.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn neither_a_query_nor_an_if_available_request_waits_for_a_store_that_is_away() {
    let gate = Gate::new();
    let (house, bucket, owner) = gate.shut_house().await;
    gate.let_through(1);
    owner.lock([record(1)]).await.unwrap();
    let agent = bucket.agent("web").unwrap();
    let (locked, freed) = (record(2), record(1));
    let mut unlock = Box::pin(owner.unlock(freed.name(), None));
    let mut lock = Box::pin(owner.lock([record(2)]));
    assert!(poll(&mut unlock).await.is_pending() && poll(&mut lock).await.is_pending());
    let mut refused = agent.locks().request(locked.name()).if_available().into_future();
    let mut granted = agent.locks().request(freed.name()).if_available().into_future();
    let mut shown = Box::pin(agent.locks().query());
    assert!(poll(&mut refused).await.is_pending() && poll(&mut granted).await.is_pending());
    assert!(poll(&mut shown).await.is_pending());

    let begun = Instant::now();
    let answers =
        async { [refused.await.unwrap_err(), granted.await.unwrap_err(), shown.await.unwrap_err()] };
    let answers = timeout(2 * Options::STORE_TIMEOUT, answers).await.expect("no answer waits for the store");
    for error in answers {
        assert!(matches!(error, RequestError::StoreUnavailable { .. }), "{error:?}");
    }
    assert_eq!(begun.elapsed(), Options::STORE_TIMEOUT);
    assert!(!bucket.has_held(), "what was not told is given back");
    let late = poll(&mut Box::pin(agent.locks().query())).await;
    assert!(matches!(late, Poll::Ready(Err(RequestError::StoreUnavailable { .. }))), "{late:?}");
    // The rest goes on.
    drop(agent.locks().request("other").if_available().await.unwrap());
    let other = house.bucket("other");
    assert_eq!(other.agent("web").unwrap().locks().query().await.unwrap().held.len(), 0);

    gate.open();
    lock.await.unwrap();
    drop(agent.locks().request(freed.name()).if_available().await.unwrap());
    let refused = agent.locks().request(locked.name()).if_available().await;
    assert!(matches!(refused, Err(RequestError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn the_first_grant_of_a_bucket_waits_for_the_reservation_of_its_token() {
    let gate = Gate::new();
    let house = gate.house().await;
    let agent = house.bucket("new").agent("web").unwrap();
    gate.shut();
    let mut request = agent.locks().request("n").into_future();
    assert!(poll(&mut request).await.is_pending());
    gate.open();
    let held = request.await.unwrap();
    let next = agent.locks().request("m").await.unwrap();
    assert!(held.fencing_token() < next.fencing_token());
    settle().await;
    assert!(matches!(gate.writes()[..], [Write::Change { .. }]), "embedded agents need no recovery");
}

#[tokio::test]
async fn a_grant_that_follows_a_release_waits_until_the_release_is_durable() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    gate.let_through(1);
    owner.lock([record(1)]).await.unwrap();
    let agent = bucket.agent("web").unwrap();
    let wanted = record(1);
    let mut waiting = agent.locks().request(wanted.name()).into_future();
    assert!(poll(&mut waiting).await.is_pending());
    let mut unlock = Box::pin(owner.unlock(wanted.name(), None));
    assert!(poll(&mut unlock).await.is_pending());
    assert!(poll(&mut waiting).await.is_pending());
    assert!(bucket.has_held(), "granted, though it is not told yet");
    gate.open();
    assert!(unlock.await.unwrap());
    drop(waiting.await.unwrap());
}

#[tokio::test]
async fn dropping_a_future_before_its_grant_is_announced_releases_the_lock() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let agent = bucket.agent("web").unwrap();
    gate.let_through(1);
    owner.lock([record(1)]).await.unwrap();
    let wanted = record(1);
    let thief = poll(&mut agent.locks().request(wanted.name()).steal().into_future()).await;
    assert!(thief.is_pending(), "the end of the lock that was stolen is not kept yet");
    settle().await;
    assert!(!bucket.has_held(), "and the thief has given up");
    let mut next = agent.locks().request(wanted.name()).into_future();
    assert!(poll(&mut next).await.is_pending());
    gate.open();
    drop(next.await.unwrap());
    assert!(owner.locks().await.unwrap().is_empty());
    assert!(bucket.is_empty());
}

#[tokio::test]
async fn a_grant_stolen_before_its_announcement_is_handed_over_with_its_loss() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let agent = bucket.agent("web").unwrap();
    gate.let_through(1);
    owner.lock([record(1)]).await.unwrap();
    let wanted = record(1);
    let mut first = agent.locks().request(wanted.name()).steal().into_future();
    assert!(poll(&mut first).await.is_pending());
    let mut second = agent.locks().request(wanted.name()).steal().into_future();
    assert!(poll(&mut second).await.is_pending());
    assert!(poll(&mut first).await.is_pending());
    // The next request may be in the same place of the lock table.
    let mut third = agent.locks().request(wanted.name()).into_future();
    assert!(poll(&mut third).await.is_pending());
    gate.open();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((first.loss(), second.loss()), (Some(Loss::Stolen), None));
    assert!(first.fencing_token() < second.fencing_token());
    assert!(poll(&mut third).await.is_pending());
    drop(second);
    drop(third.await.unwrap());
}

#[tokio::test]
async fn a_timeout_gives_up_a_grant_that_is_not_announced_yet() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let agent = bucket.agent("web").unwrap();
    gate.let_through(1);
    owner.lock([record(1)]).await.unwrap();
    let wanted = record(1);
    let steal = agent.locks().request(wanted.name()).steal().timeout(Duration::from_millis(20));
    assert!(matches!(steal.await, Err(RequestError::TimedOut)));
    assert!(!bucket.has_held());
    gate.open();
    drop(agent.locks().request(wanted.name()).if_available().await.unwrap());
}

fn join(port: &Port, lease_ms: Option<u64>) -> Option<AgentId> {
    port.submit(1, Command::Join(NewAgent { client_id: "far", lease_ms }));
    match drained(port)[..] {
        [Notice::Answer { tag: 1, outcome: Outcome::Joined(agent) }] => Some(agent),
        [] => None,
        ref notices => panic!("{notices:?}"),
    }
}

fn request(port: &Port, tag: u64, agent: AgentId, name: &str, acquire: Acquire) {
    port.submit(tag, Command::Request(NewRequest::new(agent, Name::new(name).unwrap(), acquire)));
}

const WAIT: Acquire = Acquire::Wait(Mode::Exclusive);

#[tokio::test]
async fn the_store_knows_of_a_web_lock_before_it_is_announced() {
    let gate = Gate::new();
    let (_house, bucket, _owner) = gate.shut_house().await;
    let port = bucket.port(100);
    let agent = join(&port, None).unwrap();
    request(&port, 2, agent, "n", WAIT);
    request(&port, 3, agent, "m", WAIT);
    let notices = drained(&port);
    let [
        Notice::Answer { tag: 2, outcome: Outcome::Queued(n) },
        Notice::Answer { tag: 3, outcome: Outcome::Queued(m) },
    ] = notices[..]
    else {
        panic!("{notices:?}")
    };
    settle().await;
    assert!(matches!(gate.writes()[..], [Write::NeedsRecovery { .. }]));
    assert!(drained(&port).is_empty());
    gate.open();
    port.ready().await;
    let notices = drained(&port);
    let [
        Notice::Effect(Effect::Granted { grant: first, .. }),
        Notice::Effect(Effect::Granted { grant: second, .. }),
    ] = notices[..]
    else {
        panic!("{notices:?}")
    };
    assert_eq!((first.request, second.request), (n, m));
    gate.shut();
    request(&port, 4, agent, "o", WAIT);
    let notices = drained(&port);
    assert!(matches!(notices[..], [Notice::Answer { tag: 4, outcome: Outcome::Granted(_) }]), "{notices:?}");
    assert!(gate.writes().is_empty(), "once is enough");
}

#[tokio::test]
async fn the_store_knows_of_a_longer_lease_before_it_is_given() {
    let gate = Gate::new();
    let house = gate.house_with(Options::new().lease(Duration::from_secs(10))).await;
    let bucket = house.bucket("default");
    gate.shut();
    let port = bucket.port(100);
    assert!(join(&port, Some(10_000)).is_some(), "it was told when the house was opened");
    assert!(join(&port, Some(20_000)).is_none());
    settle().await;
    assert!(matches!(gate.writes()[..], [Write::LongestLease { ms: 20_000 }]));
    gate.let_through(1);
    port.ready().await;
    assert_eq!(drained(&port).len(), 1);
    assert!(join(&port, Some(20_000)).is_some());
}

#[tokio::test]
async fn a_port_gets_notices_of_each_name_in_order_and_of_other_names_at_once() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    gate.let_through(2);
    let port = bucket.port(100);
    let agent = join(&port, None).unwrap();
    request(&port, 1, agent, "warm", WAIT);
    owner.lock([record(1)]).await.unwrap();
    settle().await;
    drained(&port);
    let wanted = record(1);
    let name = wanted.name().display().into_owned();
    request(&port, 2, agent, &name, Acquire::Steal);
    request(&port, 3, agent, &name, Acquire::Steal);
    request(&port, 4, agent, &name, Acquire::IfAvailable(Mode::Shared));
    port.submit(5, Command::Snapshot);
    request(&port, 6, agent, "other", WAIT);
    let received: Vec<_> = drained(&port).into_iter().map(|notice| tag_of(&notice)).collect();
    assert_eq!(
        received,
        [Some(2), Some(3), Some(6)],
        "two steals whose grants are to come, and the other name"
    );
    gate.open();
    port.ready().await;
    let notices = drained(&port);
    assert!(
        matches!(
            notices[..],
            [
                Notice::Effect(Effect::Granted { .. }),
                Notice::Effect(Effect::Lost { .. }),
                Notice::Effect(Effect::Granted { .. }),
                Notice::Answer { tag: 4, outcome: Outcome::Refused(Refusal::Unavailable { .. }) },
                Notice::Answer { tag: 5, outcome: Outcome::Snapshot(_) },
            ]
        ),
        "{notices:?}"
    );
}

#[tokio::test]
async fn the_first_grant_of_a_bucket_is_announced_before_its_loss() {
    let gate = Gate::new();
    let (clock, options) = manual();
    let house = gate.house_with(options).await;
    let bucket = house.bucket("new");
    let port = bucket.port(100);
    let agent = join(&port, None).unwrap();
    gate.shut();
    let (stolen, overdue) = (Name::new("n").unwrap(), Name::new("m").unwrap());
    port.submit(1, Command::Request(NewRequest::new(agent, stolen, WAIT)));
    let short = NewRequest { max_hold_ms: Some(1000), ..NewRequest::new(agent, overdue, WAIT) };
    port.submit(2, Command::Request(short));
    port.submit(3, Command::Request(NewRequest::new(agent, stolen, Acquire::Steal)));
    clock.advance(Duration::from_secs(1));
    let received = drained(&port);
    assert!(
        received.iter().all(|notice| matches!(notice, Notice::Answer { outcome: Outcome::Queued(_), .. })),
        "nobody was told yet that he holds: {received:?}"
    );
    gate.open();
    settle().await;
    let ends = drained(&port);
    let of = |wanted: &Name<'_>| {
        let about = |notice: &&Notice| match notice {
            Notice::Effect(Effect::Lost { loss, .. }) => loss.name.as_name() == *wanted,
            _ => false,
        };
        ends.iter().position(|notice| about(&notice)).expect("a loss is told")
    };
    let grants_before = |loss: usize| {
        let grants = ends[..loss].iter();
        grants.filter(|notice| matches!(notice, Notice::Effect(Effect::Granted { .. }))).count()
    };
    assert_eq!(
        (grants_before(of(&stolen)), ends.len()),
        (2, 5),
        "both first grants, then the losses: {ends:?}"
    );
    assert!(grants_before(of(&overdue)) >= 2, "{ends:?}");
}

#[tokio::test]
async fn an_abandoned_look_that_waits_for_the_store_keeps_its_reservation() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let budget = MemoryBudget::new(1 << 20);
    let take = || {
        let mut reservation = budget.of("a");
        reservation.reserve(4096).unwrap();
        Arc::new(reservation)
    };
    let port = bucket.port(100);
    port.look(1, take());
    drop(port);
    let mut shown = Box::pin(bucket.look(take()));
    assert!(poll(&mut shown).await.is_pending());
    drop(shown);
    assert_eq!(budget.taken("a"), 8192, "both copies are there");
    gate.open();
    lock.await.unwrap();
    assert_eq!(budget.taken("a"), 0);
    let reservation = take();
    bucket.look(reservation.clone()).await.unwrap();
    assert_eq!(Arc::strong_count(&reservation), 1, "who asked has the only copy");
}

fn tag_of(notice: &Notice) -> Option<u64> {
    match notice {
        Notice::Answer { tag, .. } => Some(*tag),
        _ => None,
    }
}

#[tokio::test]
async fn a_loss_by_time_is_announced_at_once_if_its_name_waits_for_nothing() {
    let gate = Gate::new();
    let (clock, options) = manual();
    let house = gate.house_with(options).await;
    let bucket = house.bucket("default");
    let owner = bucket.owners().open("Ada", Duration::from_secs(60)).await.unwrap();
    let port = bucket.port(100);
    let agent = join(&port, None).unwrap();
    let name = Name::new("n").unwrap();
    let held = NewRequest { max_hold_ms: Some(1000), ..NewRequest::new(agent, name, WAIT) };
    port.submit(2, Command::Request(held));
    port.submit(3, Command::Request(held));
    settle().await;
    drained(&port);
    gate.shut();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    clock.advance(Duration::from_secs(1));
    let notices = drained(&port);
    assert!(
        matches!(notices[..], [Notice::Effect(Effect::Lost { .. }), Notice::Effect(Effect::Granted { .. })]),
        "{notices:?}"
    );
    gate.open();
    lock.await.unwrap();
}

#[tokio::test]
async fn the_end_of_an_agent_waits_for_no_store() {
    let gate = Gate::new();
    let (clock, options) = manual();
    let house = gate.house_with(options.lease(Duration::from_secs(1))).await;
    let bucket = house.bucket("default");
    let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    let port = bucket.port(100);
    let leased = join(&port, Some(1000)).unwrap();
    let (left, heir) = (join(&port, None).unwrap(), join(&port, None).unwrap());
    let (first, second) = (Name::new("first").unwrap(), Name::new("second").unwrap());
    for (agent, name) in [(leased, first), (left, second), (heir, first), (heir, second)] {
        port.submit(2, Command::Request(NewRequest::new(agent, name, WAIT)));
    }
    settle().await;
    drained(&port);
    gate.shut();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());

    port.submit(3, Command::End { agent: left });
    let notices = drained(&port);
    assert!(
        matches!(notices[..], [Notice::Effect(Effect::Granted { .. }), Notice::Answer { tag: 3, .. }]),
        "{notices:?}"
    );
    clock.advance(Duration::from_secs(1));
    let notices = drained(&port);
    assert!(
        matches!(notices[..], [Notice::Effect(Effect::AgentEnded { agent, .. }), Notice::Effect(Effect::Granted { .. })] if agent == leased),
        "{notices:?}"
    );
    gate.open();
    lock.await.unwrap();
}

#[tokio::test]
async fn answers_that_wait_for_the_store_take_no_more_memory_than_the_tenant_may() {
    let budget = MemoryBudget::new(256 << 10);
    let gate = Gate::new();
    let house = gate.house_with(Options::new().memory_budget(&budget)).await;
    let bucket = house.bucket("default");
    let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    let stranger = bucket.owners().open("Eve", Duration::from_secs(3600)).await.unwrap();
    let port = bucket.port(1 << 20);
    let agent = join(&port, None).unwrap();
    let before = budget.taken("");
    gate.shut();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());

    // Each is refused, but may not learn yet who holds the name.
    let (wanted, count) = (record(1), 10_000);
    for tag in 1..=count {
        let request = NewRequest::new(agent, wanted.name(), Acquire::IfAvailable(Mode::Exclusive));
        port.submit(tag, Command::Request(request));
    }
    let refused = drained(&port);
    assert!(refused.iter().all(|notice| matches!(
        notice,
        Notice::Answer { outcome: Outcome::Refused(Refusal::BudgetExceeded { .. }), .. }
    )));
    let waiting = count as usize - refused.len();
    assert!((100..2000).contains(&waiting), "{waiting} of {count} wait");
    assert!(budget.taken("") <= 256 << 10);
    let too_many = bucket.owners().resume(owner.id(), stranger.secret()).await;
    assert!(matches!(too_many, Err(OwnerError::Store(StoreError::Unavailable { .. }))), "{too_many:?}");
    let partition = "\u{1f}other\u{1f}\u{1f}\u{1f}".to_owned();
    let other = house.bucket(BucketKey { bucket: "default".to_owned(), partition });
    assert!(other.agent("web").is_ok(), "the memory is another tenant's");

    gate.open();
    lock.await.unwrap();
    settle().await;
    let answered = drained(&port);
    assert_eq!(answered.len(), waiting);
    assert!(answered.iter().all(|notice| matches!(
        notice,
        Notice::Answer { outcome: Outcome::Refused(Refusal::Unavailable { .. }), .. }
    )));
    drop(bucket.snapshot().await);
    assert!(budget.taken("") <= before + (64 << 10), "{} after {before}", budget.taken(""));
}

#[tokio::test]
async fn that_an_owner_has_ended_is_reported_once_its_end_is_durable() {
    let gate = Gate::new();
    let (_house, bucket, ada) = gate.shut_house().await;
    let owners = bucket.owners();
    let mut end = Box::pin(ada.end());
    assert!(poll(&mut end).await.is_pending());
    let mut answers: Vec<Pin<Box<dyn Future<Output = bool>>>> = vec![
        Box::pin(async { ada.lock([record(1)]).await == Err(LockError::OwnerEnded) }),
        Box::pin(async { ada.commit_step(&[], None).await == Err(LockError::OwnerEnded) }),
        Box::pin(async {
            let all = Some(Unlock::AllBut(&[]));
            ada.commit_step(&[], all).await == Err(LockError::OwnerEnded)
        }),
        Box::pin(async { ada.touch().await == Ok(false) }),
        Box::pin(async { ada.info().await == Ok(None) }),
        Box::pin(async { ada.end().await == Ok(false) }),
        Box::pin(async { owners.resume(ada.id(), ada.secret()).await.err() == Some(OwnerError::Unknown) }),
    ];
    for (call, answer) in answers.iter_mut().enumerate() {
        assert!(poll(answer).await.is_pending(), "call {call}");
    }
    gate.open();
    assert!(end.await.unwrap());
    for (call, answer) in answers.into_iter().enumerate() {
        assert!(answer.await, "call {call}");
    }
}

#[tokio::test]
async fn that_a_lock_of_a_step_is_lost_is_reported_once_that_is_durable() {
    let gate = Gate::new();
    let (_house, bucket, ada) = gate.shut_house().await;
    gate.let_through(1);
    let locks = ada.lock([record(1), record(2)]).await.unwrap();
    let held: Vec<_> = locks.iter().map(|lock| (lock.name.as_name(), Some(lock.token))).collect();
    let mut unlock = Box::pin(ada.unlock(held[0].0, None));
    assert!(poll(&mut unlock).await.is_pending());
    let mut lost = Box::pin(ada.commit_step(&held, None));
    assert!(poll(&mut lost).await.is_pending());
    assert_eq!(ada.commit_step(&held[1..], None).await, Ok(0), "the other lock is another matter");
    gate.open();
    assert_eq!(lost.await, Err(LockError::Lost(vec![held[0].0.to_buf()])));
    drop(bucket);
}

#[tokio::test]
async fn a_step_that_gives_nothing_back_succeeds_once_its_locks_are_durable() {
    let gate = Gate::new();
    let (_house, _, ada) = gate.shut_house().await;
    let mut lock = Box::pin(ada.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let (locked, other) = (record(1), record(2));
    let (needed, others) = ([(locked.name(), None)], [(other.name(), None)]);
    let mut keeps = Box::pin(ada.commit_step(&needed, None));
    let mut gives_nothing = Box::pin(ada.commit_step(&needed, Some(Unlock::These(&others))));
    assert!(poll(&mut keeps).await.is_pending());
    assert!(poll(&mut gives_nothing).await.is_pending());
    gate.open();
    lock.await.unwrap();
    assert_eq!((keeps.await, gives_nothing.await), (Ok(0), Ok(0)));
}

#[tokio::test]
async fn a_look_is_answered_where_no_memory_is_left_for_answers_that_wait() {
    let budget = MemoryBudget::new(64 << 10);
    let gate = Gate::new();
    let house = gate.house_with(Options::new().memory_budget(&budget)).await;
    let bucket = house.bucket("default");
    let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    let port = bucket.port(1 << 20);
    let agent = join(&port, None).unwrap();
    gate.shut();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let wanted = record(1);
    for tag in 1..1000 {
        let request = NewRequest::new(agent, wanted.name(), Acquire::IfAvailable(Mode::Exclusive));
        port.submit(tag, Command::Request(request));
    }
    drained(&port);
    let memory = Arc::new(MemoryBudget::new(1 << 20).of("looks"));
    port.look(1000, memory);
    gate.open();
    lock.await.unwrap();
    settle().await;
    assert!(
        drained(&port)
            .iter()
            .any(|notice| matches!(notice, Notice::Answer { tag: 1000, outcome: Outcome::Snapshot(_) }))
    );
}
