//! The requests of every agent, whether in this process or over a network: grants, queues, refusals, steals,
//! ends.
//!
//! A world says where the agents live; `behaviours!` makes a test of every behaviour for it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lockhouse::{Agent, BucketKey, LockState, Loss, Mode, NotSupported, RequestError};
use tokio_util::sync::CancellationToken;

/// Where agents live.
pub(crate) trait World: Sized {
    async fn start() -> Self;

    async fn agent(&self, bucket: &BucketKey, client_id: &str) -> Agent;
}

macro_rules! behaviours {
    ($world:ty) => {
        $crate::behaviour::behaviours! { $world:
            a_waiter_is_granted_when_the_holder_releases
            dropping_a_queued_exclusive_request_wakes_the_shared_ones_behind_it
            dropping_the_future_at_the_instant_of_the_grant_releases_the_lock
            if_available_is_refused_with_the_holders_and_never_queued
            a_steal_notifies_every_victim_and_passes_the_queue
            a_grant_that_was_stolen_before_its_task_ran_is_handed_over_with_its_loss
            the_end_of_an_agent_ends_its_requests_and_locks_at_once
            an_agent_lives_as_long_as_a_guard_or_a_request_of_it
            losing_is_heard_by_every_listener_also_while_it_waits
            a_timeout_gives_up_and_leaves_the_queue
            an_abort_wins_until_the_lock_is_handed_over_and_has_no_effect_after
            an_abort_before_the_first_poll_of_a_request_is_an_abort
            forbidden_combinations_are_refused_in_the_order_of_the_specification
            the_callback_form_gives_the_result_and_reports_a_loss
            a_panic_in_the_callback_releases_the_lock
            several_names_are_held_together_and_none_when_one_is_given_up
            of_several_names_the_loss_of_one_ends_the_wait_for_the_next
            a_loss_that_comes_with_the_last_of_several_grants_is_reported_instead
            a_query_shows_all_agents_with_places_tokens_and_metadata
            buckets_and_partitions_never_meet_and_tokens_outlive_an_idle_bucket
            a_longest_hold_ends_by_itself_and_lets_the_next_in
        }
    };
    ($world:ty: $($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                $crate::behaviour::$name(&<$world as $crate::behaviour::World>::start().await).await;
            }
        )*
    };
}
pub(crate) use behaviours;

async fn agents<const N: usize>(world: &impl World) -> [Agent; N] {
    let mut agents = Vec::new();
    for n in 0..N {
        agents.push(world.agent(&BucketKey::from("default"), &format!("agent-{n}")).await);
    }
    agents.try_into().unwrap()
}

/// Polls once.
async fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *future).poll(context))).await
}

async fn counts(agent: &Agent) -> (usize, usize) {
    let snapshot = agent.locks().query().await.unwrap();
    (snapshot.held.len(), snapshot.pending.len())
}

/// Returns when all that the agent has asked for before has happened, and its notices have been answered.
async fn settle(agent: &Agent) {
    for _ in 0..2 {
        agent.locks().query().await.unwrap();
    }
}

/// Makes a request that has to wait, and returns when it does.
async fn wait<F: Future + Unpin>(agent: &Agent, request: &mut F) {
    assert!(poll(request).await.is_pending());
    settle(agent).await;
}

/// Polls the request until the observer sees a waiter for that name.
async fn until_waiting<F: Future + Unpin>(observer: &Agent, name: &str, request: &mut F) {
    let is_pending = async || {
        let snapshot = observer.locks().query().await.unwrap();
        snapshot.pending.iter().any(|entry| entry.name.as_name().as_str() == Some(name))
    };
    while !is_pending().await {
        assert!(poll(request).await.is_pending());
    }
}

pub(crate) async fn a_waiter_is_granted_when_the_holder_releases(world: &impl World) {
    let [a, b] = agents(world).await;
    let held = a.locks().request("n").await.unwrap();
    let mut waiting = b.locks().request("n").into_future();
    wait(&b, &mut waiting).await;
    assert_eq!(counts(&a).await, (1, 1));
    let first = held.fencing_token();
    drop(held);
    let second = waiting.await.unwrap();
    assert!(second.fencing_token() > first);
}

pub(crate) async fn dropping_a_queued_exclusive_request_wakes_the_shared_ones_behind_it(world: &impl World) {
    let [a, b, c] = agents(world).await;
    let reader = a.locks().request("n").shared().await.unwrap();
    let mut writer = b.locks().request("n").into_future();
    let mut behind = c.locks().request("n").shared().into_future();
    wait(&b, &mut writer).await;
    wait(&c, &mut behind).await;
    drop(writer);
    let second = behind.await.unwrap();
    assert_eq!((reader.mode(), second.mode()), (Mode::Shared, Mode::Shared));
}

pub(crate) async fn dropping_the_future_at_the_instant_of_the_grant_releases_the_lock(world: &impl World) {
    let [a, b] = agents(world).await;
    let held = a.locks().request("n").await.unwrap();
    let mut waiting = b.locks().request("n").into_future();
    wait(&b, &mut waiting).await;
    drop(held);
    assert_eq!(counts(&a).await, (1, 0), "granted, though nobody has looked yet");
    drop(waiting);
    settle(&b).await;
    assert_eq!(counts(&a).await, (0, 0));
}

pub(crate) async fn if_available_is_refused_with_the_holders_and_never_queued(world: &impl World) {
    let [a, b] = agents(world).await;
    let _held = a.locks().request("n").metadata("page 7").await.unwrap();
    let refused = b.locks().request("n").if_available().await.unwrap_err();
    let RequestError::Unavailable(unavailable) = refused else { panic!("{refused}") };
    assert_eq!(unavailable.holders[0].client_id, "agent-0");
    assert_eq!(unavailable.holders[0].metadata.as_deref(), Some("page 7"));
    assert_eq!(counts(&a).await, (1, 0));
}

pub(crate) async fn a_steal_notifies_every_victim_and_passes_the_queue(world: &impl World) {
    let [a, b, c, d] = agents(world).await;
    let first = a.locks().request("n").shared().await.unwrap();
    let second = b.locks().request("n").shared().await.unwrap();
    let mut waiting = c.locks().request("n").into_future();
    wait(&c, &mut waiting).await;
    let thief = d.locks().request("n").steal().await.unwrap();
    assert_eq!((first.lost().await, second.lost().await), (Loss::Stolen, Loss::Stolen));
    assert_eq!(first.release().await, Err(Loss::Stolen));
    settle(&a).await;
    settle(&c).await;
    assert!(poll(&mut waiting).await.is_pending(), "a victim's release lets nobody in");
    drop(thief);
    drop(waiting.await.unwrap());
}

pub(crate) async fn a_grant_that_was_stolen_before_its_task_ran_is_handed_over_with_its_loss(
    world: &impl World,
) {
    let [a, b, c] = agents(world).await;
    let held = a.locks().request("n").await.unwrap();
    let mut waiting = b.locks().request("n").into_future();
    wait(&b, &mut waiting).await;
    drop(held);
    settle(&a).await;
    let thief = c.locks().request("n").steal().await.unwrap();
    settle(&b).await;
    let victim = waiting.await.unwrap();
    assert_eq!(victim.loss(), Some(Loss::Stolen));
    assert!(victim.fencing_token() < thief.fencing_token());
}

pub(crate) async fn the_end_of_an_agent_ends_its_requests_and_locks_at_once(world: &impl World) {
    let [a, b, c] = agents(world).await;
    let held = a.locks().request("n").await.unwrap();
    let handle = a.locks().clone();
    let mut own = a.locks().request("n").into_future();
    let mut waiting = b.locks().request("n").into_future();
    wait(&a, &mut own).await;
    wait(&b, &mut waiting).await;
    a.end();
    assert_eq!(held.lost().await, Loss::Terminated);
    assert_eq!(own.await.unwrap_err(), RequestError::AgentEnded);
    assert_eq!(handle.request("other").await.unwrap_err(), RequestError::AgentEnded);
    assert_eq!(handle.query().await.unwrap_err(), RequestError::AgentEnded);
    drop(waiting.await.unwrap());
    settle(&b).await;
    assert_eq!(counts(&c).await, (0, 0));
}

pub(crate) async fn an_agent_lives_as_long_as_a_guard_or_a_request_of_it(world: &impl World) {
    let [observer] = agents(world).await;
    let key = BucketKey::from("default");
    let held = world.agent(&key, "short").await.locks().request("n").await.unwrap();
    let mut waiting = world.agent(&key, "short").await.locks().request("n").into_future();
    until_waiting(&observer, "n", &mut waiting).await;
    assert_eq!((held.loss(), counts(&observer).await), (None, (1, 1)));
    drop(held);
    let held = waiting.await.unwrap();
    assert_eq!((held.loss(), counts(&observer).await), (None, (1, 0)));
    drop(held);
    while counts(&observer).await != (0, 0) {}
}

pub(crate) async fn losing_is_heard_by_every_listener_also_while_it_waits(world: &impl World) {
    let [a, b] = agents(world).await;
    let held = a.locks().request("n").await.unwrap();
    let (mut first, mut second) = (pin!(held.lost()), pin!(held.lost()));
    assert!(poll(&mut first).await.is_pending());
    assert!(poll(&mut second).await.is_pending());
    let _thief = b.locks().request("n").steal().await.unwrap();
    assert_eq!((first.await, second.await), (Loss::Stolen, Loss::Stolen));
}

pub(crate) async fn a_timeout_gives_up_and_leaves_the_queue(world: &impl World) {
    let [a, b] = agents(world).await;
    let _held = a.locks().request("n").await.unwrap();
    let late = b.locks().request("n").timeout(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(late, RequestError::TimedOut);
    settle(&b).await;
    assert_eq!(counts(&a).await, (1, 0));
}

pub(crate) async fn an_abort_wins_until_the_lock_is_handed_over_and_has_no_effect_after(world: &impl World) {
    let [a, b] = agents(world).await;
    let held = a.locks().request("n").await.unwrap();
    let signal = CancellationToken::new();
    let mut waiting = b.locks().request("n").signal(signal.clone()).into_future();
    wait(&b, &mut waiting).await;
    drop(held);
    settle(&a).await;
    signal.cancel();
    assert_eq!(waiting.await.unwrap_err(), RequestError::Aborted);
    settle(&b).await;
    assert_eq!(counts(&a).await, (0, 0));

    let signal = CancellationToken::new();
    let held = a.locks().request("n").signal(signal.clone()).await.unwrap();
    signal.cancel();
    assert_eq!(held.loss(), None);
}

pub(crate) async fn an_abort_before_the_first_poll_of_a_request_is_an_abort(world: &impl World) {
    let [a] = agents(world).await;
    let signal = CancellationToken::new();
    let request = a.locks().request("n").signal(signal.clone()).into_future();
    signal.cancel();
    assert_eq!(request.await.unwrap_err(), RequestError::Aborted);
    assert_eq!(counts(&a).await, (0, 0));
}

pub(crate) async fn forbidden_combinations_are_refused_in_the_order_of_the_specification(world: &impl World) {
    let [a] = agents(world).await;
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let refused = async |request: lockhouse::Request<'static>| match request.await.unwrap_err() {
        RequestError::NotSupported(rule) => Some(rule),
        RequestError::Aborted => None,
        other => panic!("{other}"),
    };
    let locks = a.locks();
    assert_eq!(
        refused(locks.request("-x").signal(cancelled.clone())).await,
        Some(NotSupported::ReservedName)
    );
    assert_eq!(
        refused(locks.request("x").steal().if_available().shared()).await,
        Some(NotSupported::StealIfAvailable)
    );
    assert_eq!(
        refused(locks.request("x").steal().shared().signal(cancelled.clone())).await,
        Some(NotSupported::StealMode(Mode::Shared))
    );
    assert_eq!(
        refused(locks.request("x").steal().signal(cancelled.clone())).await,
        Some(NotSupported::Signal)
    );
    assert_eq!(refused(locks.request("x").signal(cancelled)).await, None);
    assert_eq!(counts(&a).await, (0, 0), "a request that is refused leaves nothing behind");
}

pub(crate) async fn the_callback_form_gives_the_result_and_reports_a_loss(world: &impl World) {
    let [a, b] = agents(world).await;
    assert_eq!(a.locks().with("n", async |_| 7).await, Ok(7));
    let stolen = a
        .locks()
        .with("n", async |lock| {
            let thief = b.locks().request("n").steal().await.unwrap();
            assert_eq!(lock.lost().await, Loss::Stolen);
            thief
        })
        .await;
    assert_eq!(stolen.unwrap_err(), RequestError::Lost(Loss::Stolen));
}

pub(crate) async fn a_panic_in_the_callback_releases_the_lock(world: &impl World) {
    let [a] = agents(world).await;
    let locks = a.locks().clone();
    let task = tokio::spawn(async move { locks.with("n", async |_| panic!("on purpose")).await });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(counts(&a).await, (0, 0));
}

pub(crate) async fn several_names_are_held_together_and_none_when_one_is_given_up(world: &impl World) {
    let [a, b] = agents(world).await;
    let all = a.locks().request_all(["c", "a", "b"]).shared("a").await.unwrap();
    assert_eq!(
        all.iter().map(|lock| lock.name().display().into_owned()).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    assert!(all.windows(2).all(|pair| pair[0].fencing_token() < pair[1].fencing_token()));
    drop(all);
    let _c = b.locks().request("c").await.unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(20)] {
        let late = a.locks().request_all(["a", "c"]).timeout(timeout).await.unwrap_err();
        assert_eq!(late, RequestError::TimedOut);
        // Time may run out before "a" is granted. Then its grant is on its way, and is given back at once.
        settle(&a).await;
        assert_eq!(counts(&a).await, (1, 0));
    }
    assert_eq!(a.locks().request_all::<&str>([]).await.unwrap().len(), 0);
}

pub(crate) async fn of_several_names_the_loss_of_one_ends_the_wait_for_the_next(world: &impl World) {
    let [a, b, c] = agents(world).await;
    let _last = b.locks().request("c").await.unwrap();
    let mut all = a.locks().request_all(["a", "b", "c"]).into_future();
    until_waiting(&c, "c", &mut all).await;
    let thief = c.locks().request("b").steal().await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(10), all).await.expect("it waits on");
    assert_eq!(lost.unwrap_err(), RequestError::Lost(Loss::Stolen));
    settle(&a).await;
    drop(thief);
    settle(&c).await;
    assert_eq!(counts(&b).await, (1, 0), "only the last name is held, and nobody waits for it");
}

pub(crate) async fn a_loss_that_comes_with_the_last_of_several_grants_is_reported_instead(
    world: &impl World,
) {
    let [a, b, c] = agents(world).await;
    let last = b.locks().request("b").await.unwrap();
    let mut all = a.locks().request_all(["a", "b"]).into_future();
    until_waiting(&c, "b", &mut all).await;
    // The task does not run while both happen.
    let _thief = c.locks().request("a").steal().await.unwrap();
    last.release().await.unwrap();
    settle(&a).await;
    assert_eq!(all.await.unwrap_err(), RequestError::Lost(Loss::Stolen));
    settle(&a).await;
    assert_eq!(counts(&b).await, (1, 0));
}

pub(crate) async fn a_query_shows_all_agents_with_places_tokens_and_metadata(world: &impl World) {
    let [a, b, c] = agents(world).await;
    let held = a.locks().request("n").await.unwrap();
    let mut first = b.locks().request("n").metadata("m").into_future();
    let mut second = c.locks().request("n").shared().into_future();
    wait(&b, &mut first).await;
    wait(&c, &mut second).await;
    let snapshot = c.locks().query().await.unwrap();
    assert_eq!(snapshot.held[0].fencing_token(), Some(held.fencing_token()));
    let pending: Vec<_> = snapshot.pending.iter().map(|p| (p.client_id.as_str(), p.state)).collect();
    assert_eq!(
        pending,
        [("agent-1", LockState::Pending { place: 1 }), ("agent-2", LockState::Pending { place: 2 })]
    );
    assert_eq!(snapshot.pending[0].metadata.as_deref(), Some("m"));
}

pub(crate) async fn buckets_and_partitions_never_meet_and_tokens_outlive_an_idle_bucket(world: &impl World) {
    let whole = BucketKey::from("x");
    let part = BucketKey { partition: "https://top.example".into(), ..whole.clone() };
    let (here, there) = (world.agent(&whole, "here").await, world.agent(&part, "there").await);
    let lock = here.locks().request("n").await.unwrap();
    let other = there.locks().request("n").if_available().await.unwrap();
    assert_eq!(counts(&here).await, (1, 0));
    drop(other);
    let before = lock.fencing_token();
    drop((lock, here));
    let again = world.agent(&whole, "again").await;
    assert!(again.locks().request("n").await.unwrap().fencing_token() > before);
}

pub(crate) async fn a_longest_hold_ends_by_itself_and_lets_the_next_in(world: &impl World) {
    let [a, b] = agents(world).await;
    let begun = std::time::Instant::now();
    let held = a.locks().request("n").max_hold(Duration::from_millis(300)).await.unwrap();
    let next = b.locks().request("n").await.unwrap();
    let waited = begun.elapsed();
    // The notice and the grant may be on different connections.
    settle(&a).await;
    assert_eq!(held.loss(), Some(Loss::Expired));
    assert!(waited >= Duration::from_millis(300), "ended after {waited:?}");
    assert!(waited < Duration::from_millis(1300), "ended after {waited:?}");
    drop(next);
}
