//! Leases: never ended early, at most a second late, kept alive by answers to pings only.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::sessions::support::{Client, TestServer, config};

const LEASE: Duration = Duration::from_millis(1500);

async fn server() -> TestServer {
    TestServer::with(config(LEASE.as_millis() as u64)).await
}

/// A client that waits for the lock that `holder` has.
async fn waiter(server: &TestServer) -> Client {
    let mut waiter = server.client().await;
    waiter.join(1).await;
    waiter.request(1, 1, "n").await;
    assert_eq!(waiter.query(2).await, (vec!["n".to_owned()], vec!["n".to_owned()]));
    waiter
}

async fn holder(server: &TestServer) -> Client {
    let mut holder = server.client().await;
    holder.join(1).await;
    holder.request(1, 1, "n").await;
    holder.granted(1).await;
    holder
}

/// The lock must pass on after the lease, counted from `sign_of_life`, and at most a second later.
async fn granted_at_the_end_of_the_lease(waiter: &mut Client, sign_of_life: Instant) {
    waiter.granted(1).await;
    let elapsed = sign_of_life.elapsed();
    assert!(elapsed >= LEASE, "{elapsed:?}");
    assert!(elapsed <= LEASE + Duration::from_secs(1), "{elapsed:?}");
}

#[tokio::test]
async fn the_locks_of_a_client_that_breaks_off_pass_on_when_its_lease_ends() {
    let server = server().await;
    let begin = Instant::now();
    let holder = holder(&server).await;
    let mut waiter = waiter(&server).await;
    drop(holder);
    waiter.granted(1).await;
    let elapsed = begin.elapsed();
    assert!(elapsed >= LEASE && elapsed <= LEASE + Duration::from_secs(1), "{elapsed:?}");
}

#[tokio::test]
async fn a_client_that_answers_no_ping_loses_its_session_while_connected() {
    let server = server().await;
    let begin = Instant::now();
    let mut holder = holder(&server).await;
    holder.alive = false;
    let mut waiter = waiter(&server).await;
    let watch = tokio::spawn(async move {
        let fatal = holder.next().await;
        assert_eq!(fatal["code"], "lease_expired");
        holder.closed().await
    });
    granted_at_the_end_of_the_lease(&mut waiter, begin).await;
    assert_eq!(watch.await.unwrap(), 4408);
}

#[tokio::test]
async fn other_frames_do_not_keep_a_session_alive() {
    let server = server().await;
    let begin = Instant::now();
    let mut holder = holder(&server).await;
    holder.alive = false;
    let mut waiter = waiter(&server).await;
    let chatter = tokio::spawn(async move {
        for _ in 0.. {
            let abort = json!({"type": "abort", "seq": holder.seq + 1, "id": 99});
            holder.seq += 1;
            if holder.try_send(abort).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    granted_at_the_end_of_the_lease(&mut waiter, begin).await;
    chatter.await.unwrap();
}

#[tokio::test]
async fn answers_to_pings_keep_a_session_alive_beyond_its_lease() {
    let server = server().await;
    let mut holder = holder(&server).await;
    let mut waiter = waiter(&server).await;
    // Both clients answer pings while they wait for frames that do not come.
    let quiet = tokio::time::timeout(2 * LEASE, async {
        tokio::select! {
            frame = holder.next() => frame,
            frame = waiter.next() => frame,
        }
    });
    assert!(quiet.await.is_err());
    holder.release(1).await;
    waiter.granted(1).await;
}

#[tokio::test]
async fn a_resume_within_the_lease_keeps_the_locks_and_renews_it() {
    let server = server().await;
    let mut client = holder(&server).await;
    let mut waiter = waiter(&server).await;
    for _ in 0..3 {
        // Each gap is shorter than the lease, all together are longer.
        let gap = tokio::time::timeout(LEASE * 6 / 10, waiter.next()).await;
        assert!(gap.is_err(), "{gap:?}");
        let next = Client::resume(server.address, &client).await;
        assert_eq!(next.welcome["resumed"], true);
        client = next;
    }
    let sign_of_life = Instant::now();
    drop(client);
    waiter.granted(1).await;
    assert!(sign_of_life.elapsed() <= LEASE + Duration::from_secs(1));
}

#[tokio::test]
async fn a_resume_after_the_lease_begins_a_fresh_session() {
    let server = server().await;
    let first = holder(&server).await;
    let mut waiter = waiter(&server).await;
    let begin = Instant::now();
    let welcome = first.welcome.clone();
    drop(first);
    granted_at_the_end_of_the_lease(&mut waiter, begin - LEASE / 2).await;
    let mut second = Client::open(server.address, "").await;
    let resume = json!({"session": welcome["session"], "secret": welcome["secret"], "received": 1});
    second.send(json!({"type": "hello", "resume": resume})).await;
    let again = second.next().await;
    assert_eq!(again["resumed"], false);
    assert_ne!(again["session"], welcome["session"]);
}

#[tokio::test]
async fn a_lock_with_a_longest_hold_is_lost_when_it_has_passed() {
    let server = server().await;
    let mut client = server.client().await;
    client.join(1).await;
    let begin = Instant::now();
    client.call(json!({"type": "request", "id": 1, "agent": 1, "name": "n", "maxHoldMs": 400})).await;
    client.granted(1).await;
    client.request(2, 1, "n").await;
    assert_eq!(client.next().await, json!({"type": "lost", "seq": 2, "id": 1, "reason": "expired"}));
    assert!(begin.elapsed() >= Duration::from_millis(400));
    client.granted(2).await;
    assert!(begin.elapsed() <= Duration::from_millis(1400));
}

#[tokio::test]
async fn pings_count_up_and_carry_the_highest_answer() {
    let server = server().await;
    let mut client = server.client().await;
    let mut answered = 0;
    for n in 1..=4 {
        let message = client.socket.next().await.unwrap().unwrap();
        let ping: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        assert_eq!(ping, json!({"type": "ping", "n": n, "answered": answered}));
        if n != 2 {
            client.send(json!({"type": "pong", "n": n})).await;
            answered = n;
        }
    }
}

#[tokio::test]
async fn a_busy_client_that_answers_pings_keeps_its_locks() {
    let server = TestServer::with(config(1_000)).await;
    let mut busy = holder(&server).await;
    // One snapshot has two megabytes, and all that is asked for at once more than fits between server and
    // client.
    for id in 2..500 {
        busy.request(id, 1, &format!("{id}{}", "n".repeat(4000))).await;
        busy.granted(id).await;
    }
    let begin = Instant::now();
    for id in 500..506 {
        busy.send(json!({"type": "query", "id": id})).await;
    }
    let mut id = 506;
    while begin.elapsed() < Duration::from_secs(3) {
        let page = busy.next().await;
        assert_eq!(page["type"], "snapshot", "{page}");
        if page["more"] != true {
            busy.send(json!({"type": "query", "id": id})).await;
            id += 1;
        }
    }
}
