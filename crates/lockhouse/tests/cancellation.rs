//! Futures and guards dropped at any point: no lock is left held, no request is left waiting, and no two
//! holders hold at the same time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockhouse::{Agent, House, LockManager, RequestError};

/// Polls the future at most `polls` times, letting others run in between, then drops it; whether it was done
/// by then.
async fn cut_after(polls: usize, future: impl Future<Output = ()>) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if polled.is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// All that can be awaited, one after another, while another agent takes and gives the same names.
async fn everything(locks: &LockManager) {
    let first = locks.request("a").await.unwrap();
    tokio::task::yield_now().await;
    first.release().await.unwrap();
    let reader = locks.request("a").shared().timeout(Duration::from_secs(60)).await.unwrap();
    locks.with("b", async |_| tokio::task::yield_now().await).await.unwrap();
    drop(reader);
    for _ in 0..3 {
        let both = locks.request_all(["b", "a"]).await.unwrap();
        tokio::task::yield_now().await;
        locks.query().await.unwrap();
        drop(both);
    }
    match locks.request("b").if_available().await {
        Ok(guard) => drop(guard),
        Err(RequestError::Unavailable(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Takes and gives both names, for ever.
async fn neighbour(agent: Agent) {
    loop {
        let held = agent.locks().request_all(["a", "b"]).await.unwrap();
        tokio::task::yield_now().await;
        drop(held);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_future_dropped_at_any_await_leaves_nothing_behind() {
    let bucket = House::new().bucket("default");
    let mut polls = 0;
    loop {
        let agent = bucket.agent("cut").unwrap();
        let busy = tokio::spawn(neighbour(bucket.agent("neighbour").unwrap()));
        tokio::task::yield_now().await;
        let done = cut_after(polls, everything(agent.locks())).await;
        let snapshot = agent.locks().query().await.unwrap();
        let mine = snapshot.held.iter().chain(&snapshot.pending).filter(|entry| entry.client_id == "cut");
        assert_eq!(mine.count(), 0, "left behind after {polls} polls: {snapshot:?}");
        busy.abort();
        assert!(busy.await.unwrap_err().is_cancelled());
        assert!(bucket.is_empty(), "after {polls} polls");
        if done {
            break;
        }
        polls += 1;
    }
    assert!(polls > 10, "only {polls} points to cut at");
}

/// The count of those inside, which each newcomer checks: a writer counts as a million.
struct Inside(AtomicI64);

impl Inside {
    const WRITER: i64 = 1_000_000;

    fn enter(&self, weight: i64) {
        let before = self.0.fetch_add(weight, Ordering::SeqCst);
        let alone = if weight == Self::WRITER { before == 0 } else { before < Self::WRITER };
        assert!(alone, "{before} inside when {weight} came");
    }

    fn leave(&self, weight: i64) {
        self.0.fetch_sub(weight, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_stays_alone_while_futures_are_dropped_on_many_threads() {
    const TASKS: u64 = 32;
    const ROUNDS: u64 = 2_000;
    let bucket = House::new().bucket("default");
    let inside = Arc::new([Inside(AtomicI64::new(0)), Inside(AtomicI64::new(0))]);
    let entered = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let agent = bucket.agent(&task.to_string()).unwrap();
            let (inside, entered) = (inside.clone(), entered.clone());
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let dice = (task * 7919 + round * 104_729) % 97;
                    let name = usize::from(dice % 2 == 0);
                    let request = agent.locks().request(["a", "b"][name]);
                    let weight = if dice % 3 == 0 { Inside::WRITER } else { 1 };
                    let request = if weight == 1 { request.shared() } else { request };
                    let critical = async {
                        let guard = request.await.unwrap();
                        inside[name].enter(weight);
                        std::hint::spin_loop();
                        inside[name].leave(weight);
                        entered.fetch_add(1, Ordering::Relaxed);
                        drop(guard);
                    };
                    let polls = if dice % 5 == 0 { 1 } else { usize::MAX };
                    if polls == 1 {
                        cut_after(1, critical).await;
                    } else {
                        critical.await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(bucket.is_empty());
    assert!(entered.load(Ordering::Relaxed) > TASKS * ROUNDS / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn agents_that_end_while_others_wait_never_leave_a_lock_behind() {
    let bucket = House::new().bucket("default");
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let bucket = bucket.clone();
            tokio::spawn(async move {
                for round in 0..500 {
                    let agent = bucket.agent("mortal").unwrap();
                    let locks = agent.locks().clone();
                    let waiter = tokio::spawn(async move { locks.request("n").await.map(drop) });
                    let own = agent.locks().request("n").await;
                    if (task + round) % 3 == 0 {
                        agent.end();
                        drop(own);
                        _ = waiter.await.unwrap();
                    } else {
                        drop(own);
                        waiter.await.unwrap().unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(bucket.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_when_its_agent_ends() {
    let bucket = House::new().bucket("default");
    let (holder, mortal) = (bucket.agent("holder").unwrap(), bucket.agent("mortal").unwrap());
    let held = holder.locks().request("n").await.unwrap();
    let locks = mortal.locks().clone();
    let waiter = tokio::spawn(async move { locks.request("n").await.map(drop) });
    while holder.locks().query().await.unwrap().pending.is_empty() {
        tokio::task::yield_now().await;
    }
    mortal.end();
    // Time stands still as long as anything else can go on.
    let end = tokio::time::timeout(Duration::from_secs(1), waiter).await.expect("woken").unwrap();
    assert!(matches!(end, Err(RequestError::AgentEnded)), "{end:?}");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_outlives_its_agent_takes_nothing_from_who_came_after() {
    let bucket = House::new().bucket("default");
    let (holder, mortal) = (bucket.agent("holder").unwrap(), bucket.agent("mortal").unwrap());
    let held = holder.locks().request("n").await.unwrap();
    let locks = mortal.locks().clone();
    let mut forgotten = Box::pin(async move { locks.request("n").await.map(drop) });
    let polled = std::future::poll_fn(|context| Poll::Ready(forgotten.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    mortal.end();

    // Takes the place of the request that ended with its agent.
    let locks = holder.locks().clone();
    let next = tokio::spawn(async move { locks.request("n").await.map(drop) });
    while holder.locks().query().await.unwrap().pending.is_empty() {
        tokio::task::yield_now().await;
    }
    drop(forgotten);
    drop(held);
    tokio::time::timeout(Duration::from_secs(1), next).await.expect("woken").unwrap().unwrap();
}
