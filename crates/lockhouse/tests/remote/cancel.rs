//! Futures that are dropped, wherever they stand.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lockhouse::remote::{Connection, connect};
use lockhouse::{Agent, LockGuard};

use crate::process::ServerProcess;
use crate::remote::world::LEASE;

/// Polls so often, each time when woken, then drops the future; its output if it had one by then.
async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn is_left_empty(connection: &Connection) {
    // Two rounds: a grant that crosses the abort is answered by a release.
    connection.query(None).await.unwrap();
    let left = connection.query(None).await.unwrap();
    assert_eq!((left.held.len(), left.pending.len()), (0, 0), "{left:?}");
}

async fn with_the_lock(agent: &Agent) -> usize {
    let first = agent.locks().request("n").await.unwrap();
    let queried = agent.locks().query().await.unwrap();
    first.release().await.unwrap();
    let second = agent.locks().request_all(["n", "m"]).await.unwrap();
    drop(second);
    queried.held.len()
}

#[tokio::test]
async fn a_task_dropped_at_any_await_leaves_nothing_behind() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let connection = connect(format!("http://{server}")).await.unwrap();
    let agent = connection.agent("a").unwrap();
    for polls in 0.. {
        let done = dropped_after(polls, with_the_lock(&agent)).await;
        is_left_empty(&connection).await;
        if done == Some(1) {
            assert!(polls > 4, "only {polls} polls");
            return;
        }
    }
}

#[tokio::test]
async fn a_release_that_is_not_awaited_to_its_end_releases_all_the_same() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let connection = connect(format!("http://{server}")).await.unwrap();
    let agent = connection.agent("a").unwrap();
    for polls in 0..2 {
        let held = agent.locks().request("n").await.unwrap();
        assert_eq!(dropped_after(polls, held.release()).await, None);
        is_left_empty(&connection).await;
    }
}

#[tokio::test]
async fn crowds_that_give_up_around_the_instant_of_the_grant_leave_nothing_behind() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(connect(format!("http://{server}")).await.unwrap());
    }
    let mut agents = Vec::new();
    // On a busy machine a longer patience is needed for some to be granted.
    for longest_us in [20_000, 200_000, 2_000_000] {
        let mut tasks = Vec::new();
        for number in 0..300_u64 {
            let agent = connections[(number % 3) as usize].agent("crowd").unwrap();
            tasks.push(tokio::spawn(async move {
                let patience = Duration::from_micros(number * 7919 % longest_us);
                let lock = agent.locks().request("n").timeout(patience).await;
                let was_granted = lock.is_ok();
                drop(lock);
                // So that the end of the agent does not clean up.
                (agent, was_granted)
            }));
        }
        let mut granted = 0;
        for task in tasks {
            let (agent, was_granted) = task.await.unwrap();
            granted += usize::from(was_granted);
            agents.push(agent);
        }
        if granted > 0 {
            assert!(granted < 300, "nobody gave up");
            break;
        }
        assert!(longest_us < 2_000_000, "nobody was granted");
    }
    for _ in 0..2 {
        for connection in &connections {
            connection.query(None).await.unwrap();
        }
    }
    is_left_empty(&connections[0]).await;
}

/// The values that the waker of a task owns that is dropped with its last waker.
struct OwnsAGuard {
    _guard: LockGuard,
}

impl Wake for OwnsAGuard {
    fn wake(self: Arc<Self>) {}
}

/// Makes a future wait with a waker that is the last to own a guard, then polls it with another one; or drops
/// it.
fn displace<F: Future>(guard: LockGuard, is_dropped: bool, future: F) {
    let mut future = Box::pin(future);
    let mut poll = |waker: &Waker| {
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending());
    };
    poll(&Arc::new(OwnsAGuard { _guard: guard }).into());
    if !is_dropped {
        poll(Waker::noop());
    }
}

#[tokio::test]
async fn a_waker_that_owns_a_guard_of_the_same_connection_may_be_displaced_at_any_wait() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let connection = connect(format!("http://{server}")).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    let mut guards = Vec::new();
    for number in 0..6 {
        guards.push(agent.locks().request(&format!("guard {number}")).await.unwrap());
    }
    let released = agent.locks().request("released").await.unwrap();
    let other = agent.locks().request("other").await.unwrap();
    let mut guards = guards.into_iter();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        for is_dropped in [false, true] {
            displace(guards.next().unwrap(), is_dropped, agent.locks().request("n").into_future());
            displace(guards.next().unwrap(), is_dropped, agent.locks().query());
        }
        displace(guards.next().unwrap(), false, released.release());
        displace(guards.next().unwrap(), true, other.release());
        drop(held);
        done.send((agent, connection)).unwrap();
    });
    // The wait is on this thread, which is also the connection's: nothing can be received meanwhile.
    let done = is_done.recv_timeout(Duration::from_secs(10));
    let (_agent, connection) = done.expect("a waker was dropped under a mutex that its guard needs");
    is_left_empty(&connection).await;
}
