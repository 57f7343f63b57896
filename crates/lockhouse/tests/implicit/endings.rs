//! Requests that end otherwise: by a panic, by a client that hangs up, by a store that fails.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::routing::get;
use lockhouse::implicit::{AccessError, ApplicationSession, Refusal, SeriousError, WebSession};
use lockhouse::store::{FaultStore, Faults, MemoryStore};
use lockhouse::{House, LockError, Options, StoreError};
use tokio::sync::{Barrier, Notify, oneshot};

use super::office::{Office, Trace, customers, text};

async fn lock(id: u32) -> ApplicationSession {
    let session = ApplicationSession::current().unwrap();
    session.lock([customers().for_write(id)]).await.unwrap();
    session
}

#[tokio::test]
async fn a_handler_that_panics_takes_its_locks_along() {
    let office = Arc::new(Office::with(|router, sessions| {
        let panics = async |Path(id): Path<u32>| -> () {
            lock(id).await;
            panic!("a bug of the handler");
        };
        router.route("/panic/{id}", get(panics).layer(sessions.begins()))
    }));
    let ada = office.open("Ada").await;
    let (of_task, ada_too) = (office.clone(), ada.clone());
    assert!(tokio::spawn(async move { of_task.get(&ada_too, "/panic/1").await }).await.is_err());
    assert!(office.held().await.is_empty());
    assert_eq!(office.get(&ada, "/edit/1").await, 200, "the session goes on");
}

#[tokio::test]
async fn an_abandoned_request_is_undone() {
    let locked = Arc::new(Notify::new());
    let notify = locked.clone();
    let office = Arc::new(Office::with(|router, sessions| {
        let hangs = async move |Path(id): Path<u32>| {
            lock(id).await;
            notify.notify_one();
            std::future::pending::<()>().await;
        };
        router.route("/hang/{id}", get(hangs).layer(sessions.begins()))
    }));
    let ada = office.open("Ada").await;
    let (of_task, ada_too) = (office.clone(), ada.clone());
    let request = tokio::spawn(async move { of_task.get(&ada_too, "/hang/1").await });
    locked.notified().await;
    assert_eq!(office.held().await, ["Ada customer/1"]);
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    assert!(office.held().await.is_empty());
    assert_eq!(office.get(&ada, "/edit/1").await, 200);
}

#[tokio::test]
async fn every_request_sees_its_own_application_session_only_while_it_lasts() {
    let both = Arc::new(Barrier::new(2));
    let (kept, keep) = oneshot::channel();
    let kept = Arc::new(std::sync::Mutex::new(Some(kept)));
    let office = Arc::new(Office::with(|router, sessions| {
        let mine = async move |Path(id): Path<u32>| {
            let session = lock(id).await;
            both.wait().await;
            let user = ApplicationSession::current().unwrap().user().to_owned();
            assert_eq!(user, session.user());
            if let Some(kept) = kept.lock().unwrap().take() {
                kept.send(session).unwrap();
            }
            user
        };
        router.route("/mine/{id}", get(mine).layer(sessions.begins()))
    }));
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    let (one, other) =
        tokio::join!(office.send(Some(&ada), "GET", "/mine/1"), office.send(Some(&bob), "GET", "/mine/2"));
    assert_eq!((text(one).await, text(other).await), ("Ada".into(), "Bob".into()));
    assert!(matches!(ApplicationSession::current(), Err(AccessError::Undeclared)));

    let stray = keep.await.unwrap();
    let locked = stray.lock([customers().for_write(3)]).await;
    assert_eq!(locked, Err(AccessError::Unbound));
    assert_eq!(stray.release(&customers().record(1)).await, Err(AccessError::Unbound));
    assert_eq!(office.held().await, ["Ada customer/1", "Bob customer/2"]);
    // Not even while the next step of the same business transaction runs.
    assert_eq!(office.get(&ada, "/more/1").await, 200);
    assert_eq!(stray.lock([customers().for_write(3)]).await, Err(AccessError::Unbound));
}

#[tokio::test]
async fn the_steps_of_one_session_come_one_after_the_other() {
    let office = Office::with(|router, sessions| {
        let slow = async |State(trace): State<Trace>, Path(id): Path<u32>| {
            trace.note(format!("in {id}"));
            lock(id).await;
            tokio::task::yield_now().await;
            trace.note(format!("out {id}"));
        };
        router.route("/slow/{id}", get(slow).layer(sessions.begins()))
    });
    let ada = office.open("Ada").await;
    tokio::join!(office.get(&ada, "/slow/1"), office.get(&ada, "/slow/2"));
    assert_eq!(office.trace.take(), ["in 1", "out 1", "in 2", "out 2"]);
    assert_eq!(office.held().await, ["Ada customer/2"]);
}

/// An office whose store goes while a handler runs, so that nothing becomes durable afterwards.
async fn over_a_store_that_goes() -> Office {
    let store = Arc::new(MemoryStore::new().unwrap());
    let house = House::open(store, Options::new()).await.unwrap();
    let goes = house.clone();
    Office::over(
        house,
        |options| options,
        |router, sessions| {
            let goes_too = goes.clone();
            let locks = async move |Path(id): Path<u32>| {
                lock(id).await;
                goes.close().await;
            };
            let gives_back = async move |Path(id): Path<u32>| {
                let session = ApplicationSession::current().unwrap();
                session.release(&customers().record(id)).await.unwrap();
                goes_too.close().await;
            };
            let router = router.route("/locks/{id}", get(locks).layer(sessions.begins()));
            router.route("/gives-back/{id}", get(gives_back).layer(sessions.continues()))
        },
    )
}

#[tokio::test]
async fn an_answer_that_promises_locks_is_not_given_if_they_cannot_become_durable() {
    let office = over_a_store_that_goes().await;
    let ada = office.open("Ada").await;
    let answer = office.send(Some(&ada), "GET", "/locks/1").await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.extensions().get(), Some(&Refusal::Store(StoreError::Closed)));
    assert!(office.serious.lock().unwrap().is_empty(), "the user was told");
}

#[tokio::test]
async fn an_answer_whose_locks_could_only_not_be_given_back_stands_and_that_is_reported() {
    let office = over_a_store_that_goes().await;
    let ada = office.open("Ada").await;
    assert_eq!(office.get(&ada, "/edit/1").await, 200);
    assert_eq!(office.get(&ada, "/gives-back/1").await, 200);
    let serious = office.serious.lock().unwrap().clone();
    let [SeriousError::NotGivenBack { user, error: StoreError::Closed, .. }] = &serious[..] else {
        panic!("{serious:?}")
    };
    assert_eq!(user, "Ada");
}

#[tokio::test(start_paused = true)]
async fn a_save_that_the_store_does_not_confirm_is_unknown() {
    let memory = Arc::new(MemoryStore::new().unwrap());
    let store = Arc::new(FaultStore::new(memory, 1, Faults::NONE));
    let house = House::open(store.clone(), Options::new()).await.unwrap();
    let office = Office::over(
        house.clone(),
        |options| options,
        |router, sessions| {
            let goes = store.clone();
            let save = async move |Path(id): Path<u32>| {
                let session = ApplicationSession::current().unwrap();
                session.held(&customers().record(id)).await.unwrap();
                session.release(&customers().record(id)).await.unwrap();
                lock(id + 1).await;
                goes.set_faults(Faults { refused: 1000, ..Faults::NONE });
            };
            router.route("/save/{id}", get(save).layer(sessions.continues()))
        },
    );
    let ada = office.open("Ada").await;
    assert_eq!(office.get(&ada, "/edit/1").await, 200);
    let answer = office.send(Some(&ada), "GET", "/save/1").await;
    assert_eq!(answer.status(), 504);
    let refusal = answer.extensions().get();
    assert!(matches!(refusal, Some(Refusal::Store(StoreError::OutcomeUnknown { .. }))), "{refusal:?}");
    store.set_faults(Faults::NONE);
    house.serving().await;
    assert_eq!(office.held().await, ["Ada customer/2"], "it is kept, with the lock that it relies on");
}

#[tokio::test]
async fn an_answer_that_promises_locks_is_not_given_once_the_session_has_ended() {
    let office = Office::with(|router, sessions| {
        // As if she signed out in another tab meanwhile.
        let ends = async |Path(id): Path<u32>, Extension(session): Extension<WebSession>| {
            lock(id).await;
            session.end().await.unwrap();
        };
        let router = router.route("/ends/{id}", get(ends).layer(sessions.begins()));
        router.route("/ends-later/{id}", get(ends).layer(sessions.continues()))
    });
    for (before, path) in [("/edit/2", "/ends/1"), ("/edit/1", "/ends/1"), ("/edit/1", "/ends-later/1")] {
        let ada = office.open("Ada").await;
        assert_eq!(office.get(&ada, before).await, 200);
        let answer = office.send(Some(&ada), "GET", path).await;
        assert_eq!(answer.extensions().get(), Some(&Refusal::NoSession), "{before}, {path}");
        assert!(office.held().await.is_empty());
    }
}

/// An office whose save only finds its lock and gives it back, and loses it between that and its answer.
fn with_late_saves() -> Office {
    async fn save(id: u32) {
        let session = ApplicationSession::current().unwrap();
        session.held(&customers().record(id)).await.unwrap();
        session.release(&customers().record(id)).await.unwrap();
    }
    let house = House::new();
    let thief = Arc::new(house.bucket("crm").agent("operator").unwrap());
    Office::over(
        house,
        |options| options,
        |router, sessions| {
            let ends = async |Path(id): Path<u32>, Extension(session): Extension<WebSession>| {
                save(id).await;
                session.end().await.unwrap();
            };
            let gives_up = async |Path(id): Path<u32>, Extension(session): Extension<WebSession>| {
                save(id).await;
                session.owner().unlock_all().await.unwrap();
            };
            let is_stolen = async move |Path(id): Path<u32>| {
                save(id).await;
                drop(thief.locks().request(customers().record(id).name()).steal().await.unwrap());
            };
            let router = router.route("/save/ends/{id}", get(ends).layer(sessions.continues()));
            let router = router.route("/save/gives-up/{id}", get(gives_up).layer(sessions.continues()));
            router.route("/save/is-stolen/{id}", get(is_stolen).layer(sessions.continues()))
        },
    )
}

#[tokio::test]
async fn a_save_is_not_answered_as_one_if_its_lock_went_meanwhile() {
    let office = with_late_saves();
    let lost = Refusal::Lock(LockError::Lost(vec![customers().record(1).name().to_buf()]));
    let cases = [
        ("/save/ends/1", 403, Refusal::NoSession),
        ("/save/gives-up/1", 409, lost.clone()),
        ("/save/is-stolen/1", 409, lost),
    ];
    for (path, status, refusal) in cases {
        let ada = office.open("Ada").await;
        assert_eq!(office.get(&ada, "/edit/1").await, 200);
        let answer = office.send(Some(&ada), "GET", path).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.extensions().get(), Some(&refusal), "{path}");
        assert!(office.held().await.is_empty());
    }
    assert!(office.serious.lock().unwrap().is_empty(), "the user was told");
}
