//! The client's dealings with its locks when the server is started anew: every line of the table in
//! `remote/reclaim.rs`.

use std::future::{IntoFuture, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockhouse::remote::{Connection, connect};
use lockhouse::{Agent, LockGuard, Loss, RequestError};
use serde_json::json;

use crate::remote::scripted::{Peer, Scripted};

/// A client of a scripted server, with one agent, in the first life of the server.
struct Client {
    server: Scripted,
    connection: Connection,
    agent: Agent,
}

impl Client {
    async fn start(lease_ms: u64) -> (Self, Peer) {
        Self::welcomed(json!({"epoch": "e1", "reclaims": true, "leaseMs": lease_ms})).await
    }

    async fn welcomed(fields: serde_json::Value) -> (Self, Peer) {
        let server = Scripted::start().await;
        let (connection, mut peer) = tokio::join!(connect(server.url()), server.welcome(fields));
        let connection = connection.unwrap();
        let agent = connection.agent("a").unwrap();
        peer.expect("join").await;
        (Self { server, connection, agent }, peer)
    }

    /// The lock, granted with this token and the ticket `TOKEN.1`.
    async fn lock(&self, peer: &mut Peer, name: &str, token: u64) -> LockGuard {
        let (locks, ticket) = (self.agent.locks(), format!("{token}.1"));
        let (lock, _) = tokio::join!(locks.request(name), peer.grant("request", token, &ticket));
        lock.unwrap()
    }

    /// The next life of the server, up to the join of the agent.
    async fn next_life(&self, epoch: &str) -> Peer {
        let mut peer = self.server.welcome(json!({"epoch": epoch, "reclaims": true})).await;
        let join = peer.expect("join").await;
        assert_eq!((&join["agent"], &join["clientId"], &join["seq"]), (&json!(1), &json!("a"), &json!(1)));
        peer
    }
}

/// Nothing that the server has sent so far is still on its way into the client.
async fn settled(connection: &Connection, peer: &mut Peer) {
    let query = async {
        let asked = peer.expect("query").await;
        peer.send_unnumbered(&json!({"type": "snapshot", "id": asked["id"], "held": [], "pending": []}))
            .await;
    };
    let (snapshot, ()) = tokio::join!(connection.query(None), query);
    snapshot.unwrap();
}

#[tokio::test]
async fn a_lock_is_reclaimed_with_its_ticket_and_keeps_its_token() {
    let (client, mut peer) = Client::start(60_000).await;
    let held = client.lock(&mut peer, "n", 17).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    let reclaim = peer.grant("reclaim", 17, "17.2").await;
    assert_eq!(
        (&reclaim["name"], &reclaim["token"], &reclaim["ticket"]),
        (&json!("n"), &json!(17), &json!("17.1"))
    );
    assert_eq!((&reclaim["agent"], &reclaim["seq"], &reclaim["mode"]), (&json!(1), &json!(2), &json!(null)));
    settled(&client.connection, &mut peer).await;
    assert_eq!((held.loss(), held.fencing_token().get()), (None, 17));
    drop(peer);
    // The answer came with a new ticket, and that is the one to be shown next.
    let mut peer = client.next_life("e3").await;
    let reclaim = peer.grant("reclaim", 17, "17.3").await;
    assert_eq!(reclaim["ticket"], "17.2");
    settled(&client.connection, &mut peer).await;
    let (released, ()) = tokio::join!(held.release(), async {
        let release = peer.expect("release").await;
        assert_eq!(release["id"], reclaim["id"]);
        peer.send(json!({"type": "released", "id": release["id"], "held": true})).await;
    });
    assert_eq!(released, Ok(()));
}

#[tokio::test]
async fn reclaims_go_before_pending_requests_and_each_keeps_its_order() {
    let (client, mut peer) = Client::start(60_000).await;
    let locks = client.agent.locks();
    let first = client.lock(&mut peer, "a", 1).await;
    let mut waiting = pin!(locks.request("b").into_future());
    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    peer.expect("request").await;
    let (second, _) = tokio::join!(
        locks.request("c").shared().metadata("nightly").max_hold(Duration::from_secs(60)),
        peer.grant("request", 3, "3.1")
    );
    let second = second.unwrap();
    drop(peer);
    let mut peer = client.next_life("e2").await;
    let mut ids = Vec::new();
    for (kind, name) in [("reclaim", "a"), ("reclaim", "c"), ("reclaimed", ""), ("request", "b")] {
        let frame = peer.next().await;
        assert_eq!(frame["type"], kind);
        if kind == "reclaimed" {
            continue;
        }
        assert_eq!(frame["name"], name);
        ids.push(frame["id"].as_u64().unwrap());
        if name == "c" {
            assert_eq!((&frame["mode"], &frame["metadata"]), (&json!("shared"), &json!("nightly")));
            let left = frame["maxHoldMs"].as_u64().unwrap();
            assert!((1..60_000).contains(&left), "{left}");
        }
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    for (id, token) in [(ids[0], 1), (ids[1], 3), (ids[2], 9)] {
        peer.send(json!({"type": "granted", "id": id, "token": token, "ticket": "t"})).await;
    }
    assert_eq!(waiting.await.unwrap().fencing_token().get(), 9);
    assert_eq!((first.loss(), second.loss()), (None, None));
}

#[tokio::test]
async fn a_lock_that_gives_way_to_another_reclaim_is_superseded_before_or_after_its_grant() {
    let (client, mut peer) = Client::start(60_000).await;
    let at_once = client.lock(&mut peer, "n", 17).await;
    let later = client.lock(&mut peer, "m", 18).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    let n = peer.expect("reclaim").await;
    peer.send(json!({"type": "lost", "id": n["id"], "reason": "superseded"})).await;
    assert_eq!(at_once.lost().await, Loss::Superseded);
    let m = peer.grant("reclaim", 18, "18.2").await;
    settled(&client.connection, &mut peer).await;
    assert_eq!(later.loss(), None);
    peer.send(json!({"type": "lost", "id": m["id"], "reason": "superseded"})).await;
    assert_eq!(later.lost().await, Loss::Superseded);
    // A lost lock needs no release, neither of the guard nor of the answer to its reclaim.
    drop((at_once, later));
    settled(&client.connection, &mut peer).await;
}

#[tokio::test]
async fn a_reclaim_that_fails_is_superseded() {
    let (client, mut peer) = Client::start(60_000).await;
    let held = client.lock(&mut peer, "n", 17).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    let reclaim = peer.expect("reclaim").await;
    let error =
        json!({"type": "error", "id": reclaim["id"], "code": "quota_exceeded", "message": "too much"});
    peer.send(error).await;
    assert_eq!(held.lost().await, Loss::Superseded);
}

#[tokio::test]
async fn until_the_reclaim_is_answered_the_deadline_of_old_holds() {
    let begun = Instant::now();
    let (client, mut peer) = Client::start(1_000).await;
    let held = client.lock(&mut peer, "n", 17).await;
    drop(peer);
    // The lease of the new session is a minute, and yet the old one is kept.
    let mut peer = client.next_life("e2").await;
    let reclaim = peer.expect("reclaim").await;
    assert_eq!(held.lost().await, Loss::Expired);
    assert!((Duration::from_millis(900)..Duration::from_secs(20)).contains(&begun.elapsed()));
    // The session goes on, and a lock that is granted too late is given back.
    peer.send(json!({"type": "granted", "id": reclaim["id"], "token": 17, "ticket": "17.2"})).await;
    assert_eq!(peer.expect("release").await["id"], reclaim["id"]);
    settled(&client.connection, &mut peer).await;
}

#[tokio::test]
async fn until_the_reclaim_is_answered_nothing_is_held_beyond_the_end_of_the_credential() {
    let fields = json!({"epoch": "e1", "reclaims": true, "credentialMs": 2_000});
    let (client, mut peer) = Client::welcomed(fields).await;
    let held = client.lock(&mut peer, "n", 17).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    peer.expect("reclaim").await;
    assert_eq!(held.lost().await, Loss::Denied);
}

#[tokio::test]
async fn a_reclaim_that_is_answered_in_time_is_under_the_new_lease() {
    let (client, mut peer) = Client::start(1_000).await;
    let held = client.lock(&mut peer, "n", 17).await;
    let unanswered = client.lock(&mut peer, "m", 18).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    peer.grant("reclaim", 17, "17.2").await;
    assert_eq!(unanswered.lost().await, Loss::Expired);
    assert_eq!(held.loss(), None);
}

#[tokio::test]
async fn a_second_restart_before_the_answer_changes_neither_ticket_nor_deadline() {
    let begun = Instant::now();
    let (client, mut peer) = Client::start(1_500).await;
    let held = client.lock(&mut peer, "n", 17).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    assert_eq!(peer.expect("reclaim").await["ticket"], "17.1");
    drop(peer);
    let mut peer = client.next_life("e3").await;
    assert_eq!(peer.expect("reclaim").await["ticket"], "17.1");
    assert_eq!(held.lost().await, Loss::Expired);
    assert!((Duration::from_millis(1_350)..Duration::from_secs(20)).contains(&begun.elapsed()));
}

#[tokio::test]
async fn past_the_deadline_nothing_is_reclaimed() {
    let (client, mut peer) = Client::start(300).await;
    let held = client.lock(&mut peer, "n", 17).await;
    drop(peer);
    assert_eq!(held.lost().await, Loss::Expired);
    let mut peer = client.next_life("e2").await;
    settled(&client.connection, &mut peer).await;
}

#[tokio::test]
async fn what_cannot_be_reclaimed_is_lost_with_its_session() {
    let lives = [
        json!({"epoch": "e2"}),
        json!({"epoch": "e2", "reclaims": false, "recoveringMs": 60_000}),
        json!({"epoch": "e1", "reclaims": true}),
    ];
    for life in lives {
        let (client, mut peer) = Client::start(60_000).await;
        let held = client.lock(&mut peer, "n", 17).await;
        drop(peer);
        let mut peer = client.server.welcome(life.clone()).await;
        peer.expect("join").await;
        assert_eq!(held.lost().await, Loss::SessionEnded, "{life}");
        let query = async {
            let asked = peer.next().await;
            assert_eq!(asked["type"], "query", "nothing was reclaimed, and that is not said: {life}");
            peer.send_unnumbered(&json!({"type": "snapshot", "id": asked["id"], "held": [], "pending": []}))
                .await;
        };
        let (snapshot, ()) = tokio::join!(client.connection.query(None), query);
        snapshot.unwrap();
    }
}

#[tokio::test]
async fn a_lock_without_a_ticket_is_lost_and_the_others_are_reclaimed() {
    let (client, mut peer) = Client::start(60_000).await;
    let locks = client.agent.locks();
    let (bare, ()) = tokio::join!(locks.request("n"), async {
        let request = peer.expect("request").await;
        peer.send(json!({"type": "granted", "id": request["id"], "token": 17})).await;
    });
    let proved = client.lock(&mut peer, "m", 18).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    assert_eq!(bare.unwrap().lost().await, Loss::SessionEnded);
    assert_eq!(peer.grant("reclaim", 18, "18.2").await["name"], "m");
    settled(&client.connection, &mut peer).await;
    assert_eq!(proved.loss(), None);
}

#[tokio::test]
async fn a_reclaim_granted_without_a_new_ticket_is_the_last_one() {
    let (client, mut peer) = Client::start(60_000).await;
    let held = client.lock(&mut peer, "n", 17).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    let reclaim = peer.expect("reclaim").await;
    peer.send(json!({"type": "granted", "id": reclaim["id"], "token": 17})).await;
    settled(&client.connection, &mut peer).await;
    assert_eq!(held.loss(), None);
    drop(peer);
    let mut peer = client.next_life("e3").await;
    assert_eq!(held.lost().await, Loss::SessionEnded);
    settled(&client.connection, &mut peer).await;
}

#[tokio::test]
async fn what_is_being_released_is_not_reclaimed() {
    let (client, mut peer) = Client::start(60_000).await;
    let awaited = client.lock(&mut peer, "n", 17).await;
    let dropped = client.lock(&mut peer, "m", 18).await;
    drop(dropped);
    peer.expect("release").await;
    let (released, mut peer) = tokio::join!(awaited.release(), async {
        peer.expect("release").await;
        drop(peer);
        client.next_life("e2").await
    });
    assert_eq!(released, Ok(()), "it was held until its release was asked for");
    // The new server need not wait for either of them.
    peer.expect("reclaimed").await;
    settled(&client.connection, &mut peer).await;
}

#[tokio::test]
async fn a_release_while_the_answer_is_due_follows_the_reclaim() {
    let (client, mut peer) = Client::start(60_000).await;
    let awaited = client.lock(&mut peer, "n", 17).await;
    let dropped = client.lock(&mut peer, "m", 18).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    let (n, m) = (peer.expect("reclaim").await, peer.expect("reclaim").await);
    drop(dropped);
    assert_eq!(peer.expect("release").await["id"], m["id"]);
    let (released, ()) = tokio::join!(awaited.release(), async {
        assert_eq!(peer.expect("release").await["id"], n["id"]);
        peer.send(json!({"type": "granted", "id": n["id"], "token": 17, "ticket": "17.2"})).await;
        peer.send(json!({"type": "released", "id": n["id"], "held": true})).await;
    });
    assert_eq!(released, Ok(()));
}

#[tokio::test]
async fn a_grant_that_its_future_has_not_seen_is_reclaimed_too() {
    let (client, mut peer) = Client::start(60_000).await;
    let mut unseen = pin!(client.agent.locks().request("n").into_future());
    assert!(poll_fn(|context| Poll::Ready(unseen.as_mut().poll(context))).await.is_pending());
    peer.grant("request", 17, "17.1").await;
    settled(&client.connection, &mut peer).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    peer.grant("reclaim", 17, "17.2").await;
    settled(&client.connection, &mut peer).await;
    let lock = unseen.await.unwrap();
    assert_eq!((lock.fencing_token().get(), lock.loss()), (17, None));
}

#[tokio::test]
async fn a_steal_under_way_stays_unknown() {
    let (client, mut peer) = Client::start(60_000).await;
    let (stolen, mut peer) = tokio::join!(client.agent.locks().request("n").steal(), async {
        peer.expect("request").await;
        drop(peer);
        client.next_life("e2").await
    });
    assert_eq!(stolen.unwrap_err(), RequestError::OutcomeUnknown);
    settled(&client.connection, &mut peer).await;
}

#[tokio::test]
async fn a_reclaim_that_is_granted_with_another_token_breaks_the_protocol() {
    let (client, mut peer) = Client::start(60_000).await;
    let held = client.lock(&mut peer, "n", 17).await;
    drop(peer);
    let mut peer = client.next_life("e2").await;
    peer.grant("reclaim", 18, "18.2").await;
    assert_eq!(held.lost().await, Loss::SessionEnded);
    peer.gone().await;
}

#[tokio::test]
async fn a_refused_join_is_reported_to_its_requests_and_tried_again_with_the_next_one() {
    let (client, mut peer) = Client::start(60_000).await;
    let refusal = json!({"type": "error", "code": "quota_exceeded", "field": "agent",
        "rule": "one of at most 3 of a bucket at once", "message": "agent must be one of at most 3", "retryAfterMs": 900});
    let refused = async {
        let request = peer.expect("request").await;
        peer.send(refusal).await;
        let unknown =
            json!({"type": "error", "id": request["id"], "code": "unknown_agent", "message": "never joined"});
        peer.send(unknown).await;
    };
    let (error, ()) = tokio::join!(client.agent.locks().request("n"), refused);
    let RequestError::Quota(quota) = error.unwrap_err() else { panic!("the refusal of the join") };
    assert_eq!((&*quota.field, &*quota.rule), ("agent", "one of at most 3 of a bucket at once"));
    let again = async {
        let join = peer.expect("join").await;
        assert_eq!((&join["agent"], &join["clientId"]), (&json!(2), &json!("a")), "numbers grow");
        peer.grant("request", 17, "17.1").await
    };
    let (lock, request) = tokio::join!(client.agent.locks().request("n"), again);
    assert_eq!((lock.unwrap().fencing_token().get(), &request["agent"]), (17, &json!(2)));
    let release = peer.expect("release").await;
    assert_eq!(release["id"], request["id"]);
    // A fresh session begins with the numbers of old.
    drop(peer);
    client.next_life("e2").await;
}
