//! Tasks of a handler that outlive it.

use std::sync::{Arc, Mutex};

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use lockhouse::implicit::{AccessError, ApplicationSession};
use lockhouse::{OfflineLock, Wanted};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::office::{Office, customers};
use crate::durability::gate::{Gate, settle};

fn customer(id: u32) -> [Wanted; 1] {
    [customers().for_write(id)]
}

/// The task that a handler left behind, and what it had in hand.
struct Stray {
    task: JoinHandle<Result<Vec<OfflineLock>, AccessError>>,
    session: ApplicationSession,
}

/// An office whose handler locks one customer, and leaves behind a task that waits for the store to keep its
/// lock of the next.
async fn over_a_gate(
    gate: &Arc<Gate>,
    answer: StatusCode,
) -> (Office, Arc<Mutex<Option<Stray>>>, Arc<Notify>) {
    let (stray, left) = (Arc::new(Mutex::new(None)), Arc::new(Notify::new()));
    let (its, leaves, shut) = (stray.clone(), left.clone(), gate.clone());
    let leaves_it = async move |Path(id): Path<u32>| {
        let session = ApplicationSession::current().unwrap();
        session.lock(customer(id)).await.unwrap();
        shut.shut();
        let of_task = session.clone();
        let task = tokio::spawn(async move { of_task.lock(customer(id + 1)).await });
        settle().await;
        *its.lock().unwrap() = Some(Stray { task, session });
        leaves.notify_one();
        answer
    };
    let routes = |router: axum::Router<_>, sessions: &lockhouse::implicit::Sessions| {
        router.route("/leaves/{id}", get(leaves_it).layer(sessions.begins()))
    };
    (Office::over(gate.house().await, |options| options, routes), stray, left)
}

#[tokio::test]
async fn what_a_task_of_the_handler_is_about_to_lock_is_part_of_the_step() {
    let gate = Gate::new();
    let (office, stray, left) = over_a_gate(&gate, StatusCode::OK).await;
    let ada = office.open("Ada").await;
    let meanwhile = async {
        left.notified().await;
        settle().await;
        gate.open();
    };
    let (status, ()) = tokio::join!(office.get(&ada, "/leaves/1"), meanwhile);
    assert_eq!(status, 200);
    assert_eq!(office.held().await, ["Ada customer/1", "Ada customer/2"], "as the answer promises");
    let Stray { task, session } = stray.lock().unwrap().take().unwrap();
    assert_eq!(task.await.unwrap().unwrap().len(), 1);
    assert_eq!(session.lock(customer(3)).await, Err(AccessError::Unbound));
}

#[tokio::test]
async fn a_request_that_fails_frees_its_locks_though_a_task_of_its_handler_is_cut_off() {
    let gate = Gate::new();
    let (office, stray, _) = over_a_gate(&gate, StatusCode::INTERNAL_SERVER_ERROR).await;
    let ada = office.open("Ada").await;
    assert_eq!(office.get(&ada, "/leaves/1").await, 500);
    let Stray { task, session } = stray.lock().unwrap().take().unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    gate.open();
    assert!(office.held().await.is_empty(), "though {session:?} is still there");
}

#[tokio::test]
async fn an_abandoned_request_frees_its_locks_while_a_task_of_its_handler_goes_on() {
    let gate = Gate::new();
    let (office, stray, left) = over_a_gate(&gate, StatusCode::OK).await;
    let office = Arc::new(office);
    let ada = office.open("Ada").await;
    let of_task = office.clone();
    let request = tokio::spawn(async move { of_task.get(&ada, "/leaves/1").await });
    left.notified().await;
    // The request has succeeded, and waits for the task.
    settle().await;
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    gate.open();
    let Stray { task, session } = stray.lock().unwrap().take().unwrap();
    assert_eq!(task.await.unwrap(), Err(AccessError::Unbound));
    assert!(office.held().await.is_empty(), "though {session:?} is still there");
}
