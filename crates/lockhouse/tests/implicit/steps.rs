//! Beginning and continuing business transactions, and how their steps end.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use lockhouse::implicit::{AccessError, ApplicationSession, Refusal};
use lockhouse::{LockError, LockType, Mode, RecordKind};

use super::office::{Office, Trace, customers, status, text};

#[tokio::test]
async fn loading_locks_first_without_an_explicit_lock() {
    let office = Office::new();
    let ada = office.open("Ada").await;
    assert_eq!(office.get(&ada, "/edit/1").await, 200);
    assert_eq!(office.held().await, ["Ada customer/1"]);
    assert_eq!(office.trace.take(), ["load 1"]);
}

#[tokio::test]
async fn a_record_that_another_owner_has_locked_is_not_even_loaded() {
    let office = Office::new();
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    office.get(&ada, "/edit/1").await;
    office.trace.take();
    assert_eq!(office.get(&bob, "/edit/1").await, 423);
    assert_eq!(office.trace.take(), [""; 0]);
    assert_eq!(office.held().await, ["Ada customer/1"]);
}

#[tokio::test]
async fn the_layer_locks_what_a_route_names_before_its_handler_runs() {
    let office = Office::with(|router, sessions| {
        let handler =
            async |State(trace): State<Trace>, Path(id): Path<u32>| trace.note(format!("handler {id}"));
        let wanted = |request: &http::request::Parts| {
            [customers().for_write(request.uri.path().rsplit('/').next().unwrap_or_default())]
        };
        router.route("/named/{id}", get(handler).layer(sessions.begins().locking(wanted)))
    });
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    assert_eq!(office.get(&ada, "/named/1").await, 200);
    assert_eq!(office.held().await, ["Ada customer/1"]);
    assert_eq!(office.trace.take(), ["handler 1"]);

    let refused = office.send(Some(&bob), "GET", "/named/1").await;
    assert_eq!(refused.status(), 423);
    let Some(Refusal::Lock(LockError::Conflict(conflicts))) = refused.extensions().get() else {
        panic!("{refused:?}")
    };
    assert_eq!(conflicts[0].holders[0].client_id, "Ada");
    assert!(text(refused).await.contains("Ada"));
    assert_eq!(office.trace.take(), [""; 0]);
}

#[tokio::test]
async fn a_route_that_declares_neither_loads_nothing() {
    let office = Office::new();
    let ada = office.open("Ada").await;
    assert_eq!(office.get(&ada, "/undeclared/1").await, 500);
    assert!(office.trace.take().is_empty() && office.held().await.is_empty());
    assert!(matches!(ApplicationSession::current(), Err(AccessError::Undeclared)));
}

#[tokio::test]
#[should_panic(expected = "declares neither")]
async fn a_layer_that_declares_neither_takes_no_locks() {
    let _ = Office::new().sessions.attends().locking(|_| [customers().for_write(1)]);
}

#[tokio::test]
async fn beginning_anew_gives_back_all_that_the_transaction_before_has_locked() {
    let office = Office::new();
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    office.get(&ada, "/edit/1").await;
    office.get(&ada, "/more/2").await;
    office.get(&ada, "/edit/3").await;
    assert_eq!(office.held().await, ["Ada customer/3"]);
    assert_eq!(office.get(&bob, "/merge/1/2").await, 200);
}

#[tokio::test]
async fn beginning_twice_keeps_what_is_locked_again() {
    let office = Office::new();
    let ada = office.open("Ada").await;
    office.get(&ada, "/edit/1").await;
    let before = ada.owner().locks().await.unwrap();
    office.get(&ada, "/edit/1").await;
    assert_eq!(ada.owner().locks().await.unwrap(), before, "it never was free in between");
}

#[tokio::test]
async fn continuing_finds_the_lock_and_the_same_object() {
    let office = Office::with(|router, sessions| {
        let again = async |Path(id): Path<u32>| {
            let session = ApplicationSession::current().unwrap();
            let known: Arc<String> = session.get(&customers().record(id)).unwrap();
            let loaded =
                session.load(customers().for_write(id), async |_| Err::<String, _>("not again")).await;
            assert!(Arc::ptr_eq(&known, loaded.unwrap().object()));
            known.to_string()
        };
        router.route("/again/{id}", get(again).layer(sessions.continues()))
    });
    let ada = office.open("Ada").await;
    office.get(&ada, "/edit/1").await;
    office.trace.rename(1, "changed behind the back of all locks");
    assert_eq!(text(office.send(Some(&ada), "GET", "/again/1").await).await, "customer 1");
    assert_eq!(office.trace.take(), ["load 1"]);
}

#[tokio::test]
async fn a_transaction_has_one_object_per_record_and_none_of_the_one_before() {
    let office = Office::with(|router, sessions| {
        let twice = async |State(trace): State<Trace>, Path(id): Path<u32>| {
            let session = ApplicationSession::current().unwrap();
            let load = || session.load(customers().for_write(id), async |_| trace.read(id).await);
            let (one, other) = tokio::join!(load(), load());
            let (one, other) = (one.unwrap(), other.unwrap());
            assert!(Arc::ptr_eq(one.object(), other.object()));
            let read = session.load(customers().for_read(id), async |_| trace.read(id).await).await.unwrap();
            assert!(Arc::ptr_eq(one.object(), read.object()) && read.lock().is_none());
            format!("{} of transaction {}", *one, session.id())
        };
        router.route("/twice/{id}", get(twice).layer(sessions.begins()))
    });
    let ada = office.open("Ada").await;
    let first = text(office.send(Some(&ada), "GET", "/twice/1").await).await;
    office.trace.rename(1, "renamed");
    let second = text(office.send(Some(&ada), "GET", "/twice/1").await).await;
    assert!(first.starts_with("customer 1 of") && second.starts_with("renamed of"), "{first}, {second}");
    assert_ne!(first.rsplit(' ').next(), second.rsplit(' ').next());
}

#[tokio::test]
async fn an_object_goes_with_its_lock() {
    let office = Office::new();
    let ada = office.open("Ada").await;
    office.get(&ada, "/edit/1").await;
    office.trace.take();
    ada.owner().unlock_all().await.unwrap();
    office.trace.rename(1, "changed by somebody who had the lock in between");
    assert!(text(office.send(Some(&ada), "GET", "/more/1").await).await.starts_with("changed"));

    // A record that is read without a lock does not outlive the step, either.
    let office = Office::with(|router, sessions| {
        let read = async |State(trace): State<Trace>, Path(id): Path<u32>| {
            let session = ApplicationSession::current().unwrap();
            let load = || session.load(customers().for_read(id), async |_| trace.read(id).await);
            assert!(Arc::ptr_eq(load().await.unwrap().object(), load().await.unwrap().object()));
        };
        router.route("/read/{id}", get(read).layer(sessions.continues()))
    });
    let ada = office.open("Ada").await;
    office.get(&ada, "/read/1").await;
    office.get(&ada, "/read/1").await;
    assert_eq!(office.trace.take(), ["load 1", "load 1"]);
}

#[tokio::test]
async fn what_was_read_without_a_lock_is_loaded_again_when_it_is_locked() {
    let office = Office::with(|router, sessions| {
        let read_then_write = async |State(trace): State<Trace>, Path(id): Path<u32>| {
            let session = ApplicationSession::current().unwrap();
            session.load(customers().for_read(id), async |_| trace.read(id).await).await.unwrap();
            trace.rename(id, "newest");
            let read = session.load(customers().for_write(id), async |_| trace.read(id).await).await;
            read.unwrap().object().to_string()
        };
        router.route("/read-then-write/{id}", get(read_then_write).layer(sessions.begins()))
    });
    let ada = office.open("Ada").await;
    assert_eq!(text(office.send(Some(&ada), "GET", "/read-then-write/1").await).await, "newest");
}

#[tokio::test]
async fn a_record_of_an_aggregate_is_loaded_under_the_lock_of_its_root() {
    let office = Office::with(|router, sessions| {
        let orders = async |Path(id): Path<u32>| {
            let session = ApplicationSession::current().unwrap();
            let orders = RecordKind::new("order", LockType::ExclusiveWrite);
            let root = customers().record(id);
            for order in [7, 8] {
                let load = async |_| Ok::<_, std::convert::Infallible>(format!("order {order}"));
                let loaded = session.load_under(&root, orders.for_write(order), load).await.unwrap();
                assert_eq!(**loaded, format!("order {order}"));
                assert_eq!(loaded.lock().unwrap().name.as_name(), root.name());
                assert!(loaded.token().is_some());
            }
        };
        router.route("/orders/{id}", get(orders).layer(sessions.begins()))
    });
    let ada = office.open("Ada").await;
    assert_eq!(office.get(&ada, "/orders/1").await, 200);
    assert_eq!(office.held().await, ["Ada customer/1"]);
}

#[tokio::test]
async fn a_save_works_under_its_lock_and_gives_it_back_at_its_success() {
    let office = Office::new();
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    office.get(&ada, "/edit/1").await;
    office.trace.take();
    let token = ada.owner().locks().await.unwrap()[0].token;
    assert_eq!(office.post(&ada, "/save/1").await, 200);
    assert_eq!(office.trace.take(), [format!("update 1 under {token}")]);
    assert!(office.held().await.is_empty());
    assert_eq!(office.get(&bob, "/edit/1").await, 200);
}

#[tokio::test]
async fn a_failed_save_keeps_the_lock() {
    let office = Office::new();
    let ada = office.open("Ada").await;
    office.get(&ada, "/edit/1").await;
    assert_eq!(office.post(&ada, "/fail/1").await, 500);
    assert_eq!(office.held().await, ["Ada customer/1"]);
    assert_eq!(office.post(&ada, "/save/1").await, 200);
}

#[tokio::test]
async fn work_on_what_is_not_locked_is_refused_and_locking_again_is_fine() {
    let office = Office::new();
    let ada = office.open("Ada").await;
    assert_eq!(office.post(&ada, "/save/1").await, 409);
    office.get(&ada, "/edit/1").await;
    assert_eq!(office.get(&ada, "/more/1").await, 200);
    assert_eq!(office.post(&ada, "/save/1").await, 200);
    assert_eq!(office.post(&ada, "/save/1").await, 409, "it was given back");
    assert_eq!(office.trace.take().iter().filter(|event| event.starts_with("update")).count(), 1);
}

#[tokio::test]
async fn a_step_whose_second_lock_is_refused_takes_back_the_first() {
    let office = Office::new();
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    office.get(&bob, "/edit/2").await;
    office.get(&ada, "/edit/9").await;
    assert_eq!(office.get(&ada, "/merge/1/2").await, 423);
    // The business transaction before goes on as if nothing had been.
    assert_eq!(office.held().await, ["Ada customer/9", "Bob customer/2"]);
    assert_eq!(office.post(&ada, "/save/9").await, 200);
    assert_eq!(office.get(&bob, "/merge/1/2").await, 200);
}

#[tokio::test]
async fn an_object_of_a_step_that_failed_is_forgotten() {
    let office = Office::with(|router, sessions| {
        let put = async |Path(id): Path<u32>| {
            let session = ApplicationSession::current().unwrap();
            session.put(&customers().record(id), "changed, but not saved".to_owned()).await.unwrap();
            StatusCode::UNPROCESSABLE_ENTITY
        };
        router.route("/put/{id}", get(put).layer(sessions.continues()))
    });
    let ada = office.open("Ada").await;
    office.get(&ada, "/edit/1").await;
    assert_eq!(office.get(&ada, "/put/1").await, 422);
    assert_eq!(text(office.send(Some(&ada), "GET", "/more/1").await).await, "customer 1");
}

#[tokio::test]
async fn a_failed_step_turns_an_upgrade_back() {
    fn documents() -> RecordKind {
        RecordKind::new("document", LockType::ReadWrite)
    }
    let office = Office::with(|router, sessions| {
        let read = async || {
            let session = ApplicationSession::current().unwrap();
            session.lock([documents().for_read(1)]).await.map(drop).map_err(status)
        };
        let write = async || {
            let session = ApplicationSession::current().unwrap();
            session.lock([documents().for_write(1)]).await.map_err(status)?;
            Err::<(), _>(StatusCode::BAD_REQUEST)
        };
        let router = router.route("/read", get(read).layer(sessions.begins()));
        router.route("/write", get(write).layer(sessions.continues()))
    });
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    assert_eq!(office.get(&ada, "/read").await, 200);
    assert_eq!(office.get(&ada, "/write").await, 400);
    assert_eq!(ada.owner().locks().await.unwrap()[0].mode, Mode::Shared);
    assert_eq!(office.get(&bob, "/read").await, 200, "readers share");
    assert_eq!(office.get(&ada, "/write").await, 423, "no longer the only reader");
}
