//! How web sessions begin, are found again, and end.

use std::sync::Arc;

use axum::Extension;
use axum::routing::get;
use lockhouse::implicit::{MalformedSessionKey, Refusal, SeriousError, SessionKey, WebSession};
use lockhouse::store::{CommitOutcome, MemoryStore, StoreUnavailable};
use lockhouse::{House, Options, OwnerError, StoreError, StoreState};

use super::office::{Office, TIMEOUT, text};
use crate::durability::gate::Gate;

#[tokio::test]
async fn who_has_no_session_is_refused_and_the_handler_does_not_run() {
    let office = Office::new();
    for (method, path) in [("GET", "/edit/1"), ("POST", "/save/1")] {
        let refused = office.send(None, method, path).await;
        assert_eq!(refused.status(), 403);
        assert_eq!(refused.extensions().get(), Some(&Refusal::NoSession));
        assert_eq!(refused.headers()["cache-control"], "no-store");
        assert_eq!(text(refused).await, "there is no session, or it has ended: sign in again\n");
    }
    assert!(office.trace.take().is_empty());
}

#[tokio::test]
async fn the_first_transaction_of_a_guest_makes_the_session_with_all_that_belongs_to_it() {
    let office = Office::over(House::new(), |options| options.guests("guest"), |router, _| router);
    let answer = office.send(None, "GET", "/edit/1").await;
    assert_eq!(answer.status(), 200);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
    assert_eq!(office.held().await, ["guest customer/1"]);
    assert_eq!(office.trace.take(), ["load 1"]);

    // The session was stored, and the application session with its objects in it.
    let cookie = Some(cookie.split(';').next().unwrap().to_owned());
    let again = office.send_with(cookie.clone(), "GET", "/more/1").await;
    assert!(again.headers().get("set-cookie").is_none());
    assert_eq!(text(again).await, "customer 1");
    assert!(office.trace.take().is_empty(), "the object is the one of the step before");
    assert_eq!(office.send_with(cookie, "POST", "/save/1").await.status(), 200);
    assert_eq!(office.send(None, "POST", "/save/1").await.status(), 403, "there is nothing to go on with");
}

#[tokio::test(start_paused = true)]
async fn a_silent_session_ends_with_its_locks_and_with_no_further_call() {
    // The clock of the owners stands still: it is the remover that ends them.
    let office = Office::new();
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    office.get(&ada, "/edit/1").await;
    office.get(&bob, "/edit/2").await;
    tokio::time::sleep(TIMEOUT / 2).await;
    office.get(&bob, "/nowhere").await;
    tokio::time::sleep(TIMEOUT / 2).await;
    tokio::task::yield_now().await;
    assert_eq!(office.held().await, ["Bob customer/2"], "any request counts as activity");
    assert_eq!(office.post(&ada, "/save/1").await, 403);
    tokio::time::sleep(TIMEOUT).await;
    tokio::task::yield_now().await;
    assert!(office.held().await.is_empty());
    assert!(office.serious.lock().unwrap().is_empty());
}

#[tokio::test]
async fn ending_a_session_releases_all_its_locks_and_no_others() {
    let office = Office::new();
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    office.get(&ada, "/merge/1/2").await;
    office.get(&bob, "/edit/3").await;
    ada.end().await.unwrap();
    assert_eq!(office.held().await, ["Bob customer/3"]);
    assert_eq!(office.get(&ada, "/edit/1").await, 403);
    assert!(ada.end().await.is_ok(), "it had ended before");
}

#[tokio::test(start_paused = true)]
async fn a_failing_remover_notifies_the_handler_of_serious_errors() {
    let house = House::open(Arc::new(MemoryStore::new().unwrap()), Options::new()).await.unwrap();
    let office = Office::over(house, |options| options, |router, _| router);
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    office.get(&ada, "/edit/1").await;
    office.house.close().await;
    let not_removed = |session: &WebSession| SeriousError::NotRemoved {
        owner: session.owner().id(),
        user: session.user().to_owned(),
        error: StoreError::Closed,
    };
    assert_eq!(bob.end().await, Err(StoreError::Closed), "whoever ends it is told as well");
    assert_eq!(*office.serious.lock().unwrap(), [not_removed(&bob)]);
    tokio::time::sleep(TIMEOUT).await;
    tokio::task::yield_now().await;
    assert_eq!(*office.serious.lock().unwrap(), [not_removed(&bob), not_removed(&ada)]);
    let line = office.serious.lock().unwrap()[1].to_string();
    assert!(
        line.starts_with("the locks of \"Ada\" (owner ") && line.ends_with("the house is closed"),
        "{line}"
    );
}

#[tokio::test]
async fn a_session_finds_its_locks_again_after_a_restart_and_loads_anew() {
    let store = MemoryStore::new().unwrap();
    let over = async |store: &MemoryStore| {
        let house = House::open(Arc::new(store.reopen()), Options::new()).await.unwrap();
        Office::over(house, |options| options, |router, _| router)
    };
    let office = over(&store).await;
    let ada = office.open("Ada").await;
    office.get(&ada, "/edit/1").await;
    // As after a crash.
    office.house.store().unwrap().close().await.unwrap();
    drop(office);

    let office = over(&store).await;
    assert_eq!(office.held().await, ["Ada customer/1"]);
    let (one, other) = tokio::join!(office.get(&ada, "/more/1"), office.get(&ada, "/more/1"));
    assert_eq!((one, other), (200, 200));
    assert_eq!(office.trace.take(), ["load 1"], "its object was lost, its lock was not");
    assert_eq!(office.post(&ada, "/save/1").await, 200);
    assert!(office.held().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_from_before_a_restart_has_its_lock_remover_again() {
    let store = MemoryStore::new().unwrap();
    let house = House::open(Arc::new(store.reopen()), Options::new()).await.unwrap();
    let office = Office::over(house, |options| options, |router, _| router);
    let ada = office.open("Ada").await;
    office.get(&ada, "/edit/1").await;
    office.house.store().unwrap().close().await.unwrap();
    drop(office);

    let house = House::open(Arc::new(store.reopen()), Options::new()).await.unwrap();
    let office = Office::over(house, |options| options, |router, _| router);
    assert_eq!(office.get(&ada, "/more/1").await, 200);
    tokio::time::sleep(TIMEOUT).await;
    // The end has to be durable before it is announced.
    while !office.held().await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(office.get(&ada, "/more/1").await, 403);
}

#[tokio::test]
async fn only_the_whole_key_finds_a_session() {
    let office = Office::new();
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    let key = ada.key().reveal();
    assert_eq!(key.parse(), Ok(ada.key()));
    let (_, secret) = key.split_once('.').unwrap();
    let of_bob = format!("{}.{secret}", bob.owner().id());
    for wrong in [of_bob.as_str(), "", ".", "1", secret, "x.y", &key[..key.len() - 1]] {
        let answer = office.send_with(Some(format!("lockhouse-session={wrong}")), "GET", "/edit/1").await;
        assert_eq!(answer.status(), 403, "{wrong}");
    }
    assert_eq!("1.2.3".parse::<SessionKey>(), Err(MalformedSessionKey));
    assert!(!format!("{ada:?} {:?}", ada.key()).contains(secret), "nothing shows the secret");
    assert!(ada.cookie().is_sensitive());
}

#[tokio::test]
async fn a_store_of_sessions_of_ones_own_shows_the_key_instead_of_a_cookie() {
    let office = Office::new();
    let ada = office.open("Ada").await;
    let request = http::Request::builder().extension(ada.key()).body(()).unwrap().into_parts().0;
    let found = office.sessions.find(&request).await.unwrap().unwrap();
    assert_eq!(found.owner().id(), ada.owner().id());
}

#[tokio::test]
async fn whatever_is_attended_knows_the_session() {
    let office = Office::with(|router, _| {
        let who = async |Extension(session): Extension<Option<WebSession>>| {
            session.map_or_else(|| "nobody".to_owned(), |session| session.user().to_owned())
        };
        router.route("/who", get(who))
    });
    let ada = office.open("Ada").await;
    assert_eq!(text(office.send(Some(&ada), "GET", "/who").await).await, "Ada");
    assert_eq!(text(office.send(None, "GET", "/who").await).await, "nobody");
}

#[tokio::test]
async fn without_the_store_a_session_can_look_but_not_begin() {
    let house = House::open(Arc::new(MemoryStore::new().unwrap()), Options::new()).await.unwrap();
    let office =
        Office::over(house, |options| options, |router, _| router.route("/look", get(async || "look")));
    let ada = office.open("Ada").await;
    office.house.close().await;
    assert_eq!(office.get(&ada, "/look").await, 200);
    let refused = office.send(Some(&ada), "GET", "/edit/1").await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.extensions().get(), Some(&Refusal::Owner(OwnerError::Store(StoreError::Closed))));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_the_store_is_away_is_over_at_once_and_its_locks_go_when_it_serves_again() {
    let gate = Gate::new();
    let office = Office::over(gate.house().await, |options| options, |router, _| router);
    let (ada, bob) = (office.open("Ada").await, office.open("Bob").await);
    assert_eq!(office.get(&ada, "/edit/1").await, 200);
    let unplugged = StoreUnavailable::Away { place: "the store".into(), why: "unplugged".into() };
    gate.then([CommitOutcome::Refused(unplugged)]);
    let (refused, _) = tokio::join!(office.get(&bob, "/edit/2"), async {
        office.house.unavailable().await;
        gate.shut();
        assert!(matches!(ada.end().await, Err(StoreError::Unavailable { .. })));
        let request = http::Request::builder().extension(ada.key()).body(()).unwrap().into_parts().0;
        assert!(office.sessions.find(&request).await.unwrap().is_none(), "her cookie is worth nothing");
        gate.open();
    });
    assert_eq!(refused, 200, "it was kept once the store served again");
    assert_eq!(office.house.store_state(), StoreState::Serving);
    let all_gone = async {
        while office.held().await != ["Bob customer/2"] {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT / 4, all_gone).await.expect("her locks go long before her time is over");
    let serious = office.serious.lock().unwrap().clone();
    assert!(matches!(&serious[..], [SeriousError::NotRemoved { .. }]), "told once: {serious:?}");
}

#[tokio::test]
async fn a_cookie_is_taken_away_where_it_was_given() {
    let office = Office::over(House::new(), |options| options.cookie("mine").secure(), |router, _| router);
    let given = office.open("Ada").await.cookie();
    let (_, how) = given.to_str().unwrap().split_once(';').unwrap();
    let taken = office.sessions.no_cookie();
    assert_eq!(how, " Path=/; HttpOnly; SameSite=Lax; Secure");
    assert_eq!(taken.to_str().unwrap(), "mine=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0; Secure");
}
