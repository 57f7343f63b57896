//! Futures that are dropped, wherever they stand.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lockhouse::Agent;
use lockhouse::remote::{Connection, connect};
use lockhouse_server::Config;

use crate::world::server;

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
    let server = server(Config::default()).await;
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
    let server = server(Config::default()).await;
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
    let server = server(Config::default()).await;
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(connect(format!("http://{server}")).await.unwrap());
    }
    let mut tasks = Vec::new();
    for number in 0..300_u64 {
        let agent = connections[(number % 3) as usize].agent("crowd").unwrap();
        tasks.push(tokio::spawn(async move {
            let patience = Duration::from_micros(number * 7919 % 20_000);
            let lock = agent.locks().request("n").timeout(patience).await;
            let was_granted = lock.is_ok();
            drop(lock);
            // So that the end of the agent does not clean up.
            (agent, was_granted)
        }));
    }
    let mut granted = 0;
    let mut agents = Vec::new();
    for task in tasks {
        let (agent, was_granted) = task.await.unwrap();
        granted += usize::from(was_granted);
        agents.push(agent);
    }
    assert!((1..300).contains(&granted), "{granted} of 300 were granted");
    for _ in 0..2 {
        for connection in &connections {
            connection.query(None).await.unwrap();
        }
    }
    is_left_empty(&connections[0]).await;
}
