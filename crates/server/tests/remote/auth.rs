//! A server that wants to know who connects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use lockhouse::remote::{ConnectError, ConnectionState, connect};
use lockhouse::{Loss, OwnerError, RequestError, StoreError};
use lockhouse_server::auth::{Authority, KeySettings, NewKey, Permission, Settings};
use lockhouse_server::{Config, Server, bind};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::remote::scripted::Scripted;

const PATIENCE: Duration = Duration::from_secs(20);

fn key(id: &str, permissions: &[Permission]) -> (String, KeySettings) {
    let key = NewKey::draw(id).unwrap();
    traces::secret(traces::Kind::ApiKey, &key.text);
    let buckets = BTreeMap::from([("default".to_owned(), permissions.to_vec())]);
    let (id, tenant) = (id.to_owned(), "acme".to_owned());
    (key.text, KeySettings { id, hash: key.hash, tenant, isolate_origins: false, session: None, buckets })
}

fn authority(keys: &[&KeySettings]) -> Authority {
    let keys = keys.iter().map(|key| (*key).clone()).collect();
    Authority::new(&Settings { keys, ..Settings::default() }).unwrap()
}

async fn server(authority: Authority) -> (Arc<Server>, String) {
    let listener = bind("127.0.0.1:0", &authority).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::new(Config { authority, ..Config::default() });
    tokio::spawn(server.clone().serve(listener, std::future::pending()));
    (server, url)
}

#[tokio::test]
async fn a_key_opens_locks_owners_and_claims() {
    let (text, ada) = key("ada", &Permission::ALL);
    let (_server, url) = server(authority(&[&ada])).await;
    let connection = connect(&url).key(text).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let _lock = agent.locks().request("n").await.unwrap();
    let owner = connection.owners().open("Ada", Duration::from_secs(60)).await.unwrap();
    assert!(owner.touch().await.unwrap());
    let claim = connection.claims().claim("seat", "Ada", Duration::from_secs(60)).await.unwrap();
    claim.release().await.unwrap();
}

#[tokio::test]
async fn a_key_that_is_not_taken_is_a_final_error() {
    let (text, ada) = key("ada", &Permission::ALL);
    let (_server, url) = server(authority(&[&ada])).await;
    for denied in [connect(&url), connect(&url).key("wrong"), connect(&url).key(&text).bucket("other")] {
        let error = denied.await.unwrap_err();
        assert!(matches!(error, ConnectError::Denied { .. }), "{error}");
        assert!(!error.to_string().contains(&text), "{error}");
    }
    assert!(matches!(connect(&url).key("two words").await.unwrap_err(), ConnectError::Key));
}

#[tokio::test]
async fn a_client_whose_key_is_deleted_loses_its_locks_and_does_not_come_back() {
    let (text, ada) = key("ada", &Permission::ALL);
    let (_, bob) = key("bob", &Permission::ALL);
    let (server, url) = server(authority(&[&ada, &bob])).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let key = move || {
        count.fetch_add(1, Ordering::SeqCst);
        text.clone()
    };
    let connection = connect(&url).key_with(key).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let lock = agent.locks().request("n").await.unwrap();
    server.reload_auth(authority(&[&bob])).unwrap();
    assert_eq!(timeout(PATIENCE, lock.lost()).await.unwrap(), Loss::Denied);
    let mut state = connection.state();
    let closed = state.wait_for(|state| *state == ConnectionState::Closed);
    timeout(PATIENCE, closed).await.unwrap().unwrap();
    // Once for the connection, once for the one after it.
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    agent.locks().request("m").await.unwrap_err();
    assert_eq!(server.session_count(), 0);
}

#[tokio::test]
async fn what_a_key_does_not_permit_is_refused_and_the_connection_goes_on() {
    let (text, ada) = key("ada", &[Permission::Request]);
    let (_server, url) = server(authority(&[&ada])).await;
    let connection = connect(&url).key(text).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let refused = agent.locks().request("n").steal().await.unwrap_err();
    assert!(matches!(&refused, RequestError::Refused(why) if why.contains("\"steal\"")), "{refused}");
    let _lock = agent.locks().request("n").await.unwrap();
    let refused = connection.owners().open("Ada", Duration::from_secs(60)).await.unwrap_err();
    let OwnerError::Store(StoreError::Denied(why)) = refused else { panic!("{refused}") };
    assert!(why.contains("\"offline\""), "{why}");
}

#[tokio::test]
async fn a_client_that_hears_nothing_counts_on_no_lock_beyond_the_end_of_its_credential() {
    let server = Scripted::start().await;
    // The end comes in the lease, and behind the moment at which the client connects anew, for a credential
    // that may be newer.
    let fields = json!({"credentialMs": 1000});
    let (connection, mut peer) = tokio::join!(connect(server.url()), server.welcome(fields));
    let connection = connection.unwrap();
    let agent = connection.agent("a").unwrap();
    let locks = agent.locks();
    peer.expect("join").await;
    let (held, _) = tokio::join!(locks.request("n"), peer.grant("request", 7, "7.1"));
    let held = held.unwrap();
    peer.gone().await;
    assert_eq!(held.loss(), None);
    assert_eq!(timeout(Duration::from_secs(10), held.lost()).await.unwrap(), Loss::Denied);
}

#[tokio::test]
async fn the_holder_of_a_broken_lock_learns_the_reason_and_the_next_is_granted() {
    let server = crate::remote::server(Config::default()).await;
    let connection = connect(format!("http://{server}")).await.unwrap();
    let (first, second) = (connection.agent("a").unwrap(), connection.agent("b").unwrap());
    let held = first.locks().request("n").await.unwrap();
    let other = first.locks().request("m").await.unwrap();
    let mut waiting = second.locks().request("n").into_future();
    assert!((&mut waiting).now_or_never().is_none());
    let hold = |token: u64| json!({"holds": [{"name": "n", "fencingToken": token}], "reason": "it hangs"});
    let http = reqwest::Client::new();
    let breaks = async |token: u64| {
        let url = format!("http://{server}/v1/buckets/default/locks/break");
        let answer = http.post(url).header("content-type", "application/json").body(hold(token).to_string());
        serde_json::from_str::<Value>(&answer.send().await.unwrap().text().await.unwrap()).unwrap()
    };
    let answer = breaks(held.fencing_token().get()).await;
    assert_eq!(answer["broken"][0]["holder"]["label"], "a", "{answer}");
    assert_eq!(held.lost().await, Loss::Broken { reason: Some("it hangs".into()) });
    let next = waiting.await.unwrap();
    // What the successor has is not meant, though the name is the same.
    let answer = breaks(held.fencing_token().get()).await;
    assert_eq!((&answer["broken"], &answer["gone"][0]["name"]), (&json!([]), &json!("n")));
    assert_eq!((next.loss(), other.loss()), (None, None));
    next.release().await.unwrap();
}
