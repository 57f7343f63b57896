//! How much of the server's memory a tenant may have.

use futures_util::SinkExt;
use lockhouse_server::LimitSettings;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::sessions::support::keys::TwoTenants;
use crate::sessions::support::{Client, TestServer, config};

fn long(number: usize) -> String {
    format!("{number}{}", "n".repeat(4_000))
}

/// Holds names of 4 KB with these numbers; why not, if it may not.
async fn hold(client: &mut Client, names: std::ops::Range<usize>) -> Result<(), Value> {
    for number in names {
        client.request(number as u64 + 1, 1, &long(number)).await;
        let frame = client.next().await;
        if frame["type"] != "granted" {
            return Err(frame);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_tenant_keeps_as_much_as_it_may_in_all_its_buckets_and_another_has_its_own() {
    let limits = LimitSettings { table_mib_per_tenant: 1, ..LimitSettings::default() };
    let tenants = TwoTenants::with(limits, 60_000).await;
    let (mut one, mut two) = (tenants.loud("?bucket=1").await, tenants.loud("?bucket=2").await);
    let mut other = tenants.quiet("?bucket=1").await;
    for client in [&mut one, &mut two, &mut other] {
        client.join(1).await;
    }
    hold(&mut two, 0..1).await.unwrap();
    let refused = hold(&mut one, 0..300).await.unwrap_err();
    assert_eq!(
        (&refused["type"], &refused["code"]),
        (&json!("error"), &json!("quota_exceeded")),
        "{refused}"
    );
    let message = "the tables of the tenant have all of the 1048576 bytes of memory that they may have (limits.table_mib_per_tenant): give something back first";
    assert_eq!(refused["message"], message);
    assert_eq!(refused["retryAfterMs"], 1000, "others of the tenant may make room");
    let held = refused["id"].as_u64().unwrap() - 1;
    assert!((200..260).contains(&held), "{held} names of 4 KB fit into 1 MiB");
    // Events that are kept have given way since, but for a little.
    assert_eq!(hold(&mut two, 1..20).await.unwrap_err()["message"], message);
    hold(&mut other, 0..100).await.unwrap();

    // The tenant can look, and give back; a lock that it gives back in one bucket it has in another.
    let mut third = tenants.loud("?bucket=1").await;
    assert_eq!(third.query(1).await.0.len(), held as usize);
    for id in 1..=3 {
        one.release(id).await;
    }
    assert_eq!(one.query(400).await.0.len(), held as usize - 3);
    hold(&mut two, 20..21).await.unwrap();

    let more = LimitSettings { table_mib_per_tenant: 2, ..LimitSettings::default() };
    tenants.server.server.reload_limits(more).unwrap();
    hold(&mut two, 21..100).await.unwrap();
}

/// Shares the name in the refusals of `receive_refusals`, with these numbers.
async fn share(holder: &mut Client, ids: std::ops::RangeInclusive<u64>) {
    let metadata = "m".repeat(1_000);
    for id in ids {
        let shared = json!({"type": "request", "id": id, "agent": 1, "name": "held", "mode": "shared", "metadata": metadata});
        holder.call(shared).await;
        holder.granted(id).await;
    }
}

/// Clients that have more than 1 MiB together, and each one as much as a client may have that has yet to
/// acknowledge.
async fn deaf(server: &TestServer) -> Vec<Client> {
    let mut deaf = Vec::new();
    for _ in 0..6 {
        let mut client = server.client().await;
        client.join(1).await;
        receive_refusals(&mut client, 1..61).await.unwrap();
        deaf.push(client);
    }
    deaf
}

/// Receives so many refusals of nearly 4 KB, one after the other, and acknowledges none; returns the code of
/// the close, if the connection ends before.
async fn receive_refusals(client: &mut Client, refusals: std::ops::Range<u64>) -> Result<(), u16> {
    for id in refusals {
        let request = json!({"type": "request", "id": id, "agent": 1, "name": "held", "ifAvailable": true});
        client.call(request).await;
        let frame = client.next().await;
        if frame["type"] != "refused" {
            assert_eq!((&frame["type"], &frame["code"]), (&json!("fatal"), &json!("slow_reader")), "{frame}");
            return Err(client.closed().await);
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_sessions_that_read_least_end_once_their_tenant_is_at_its_limit() {
    let limits = LimitSettings { unread_mib_per_tenant: 1, ..LimitSettings::default() };
    let server = TestServer::with(lockhouse_server::Config { limits, ..config(60_000) }).await;
    let mut holder = server.client().await;
    holder.join(1).await;
    share(&mut holder, 1..=3).await;
    let mut deaf = deaf(&server).await;
    hold(&mut holder, 10..20).await.unwrap();
    for client in &mut deaf {
        receive_refusals(client, 61..64).await.unwrap();
    }
    assert_eq!(receive_refusals(&mut deaf[0], 64..120).await, Err(4429));

    // The bytes that it had are free again, once two of them are gone.
    assert_eq!(receive_refusals(&mut deaf[1], 64..120).await, Err(4429));
    receive_refusals(&mut deaf[2], 64..120).await.unwrap();
    hold(&mut holder, 20..30).await.unwrap();
}

#[tokio::test]
async fn who_is_in_the_middle_of_a_long_answer_may_read_it_to_its_end() {
    let limits = LimitSettings { unread_mib_per_tenant: 2, ..LimitSettings::default() };
    let server = TestServer::with_narrow_links(lockhouse_server::Config { limits, ..config(60_000) }).await;
    let mut holder = server.client().await;
    holder.join(1).await;
    hold(&mut holder, 100..400).await.unwrap();
    let mut reader = Client::hello_over_a_narrow_link(server.address).await;
    reader.send(json!({"type": "query", "id": 1})).await;
    let first = reader.next().await;
    assert_eq!((&first["type"], &first["more"]), (&json!("snapshot"), &json!(true)));

    share(&mut holder, 501..=503).await;
    // Together they have the rest of what the tenant may have, and none of them so much that he goes.
    let _deaf = deaf(&server).await;
    holder.send(json!({"type": "query", "id": 600})).await;
    assert_eq!(holder.next().await["code"], "quota_exceeded", "the tenant is not full");
    // A frame of the client makes the session of the reader check how much there is, and the rest comes.
    reader.socket.send(Message::Ping(Bytes::new())).await.unwrap();
    reader.send(json!({"type": "query", "id": 2, "name": "held"})).await;
    hold(&mut holder, 700..710).await.unwrap();
    let mut pages = 1;
    loop {
        let page = reader.next().await;
        assert_eq!((&page["type"], &page["id"]), (&json!("snapshot"), &json!(1)), "{page}");
        pages += 1;
        if page["more"] != true {
            break;
        }
    }
    assert!(pages > 10, "{pages} pages");
    assert_eq!(reader.next().await["id"], 2);
}

#[tokio::test]
async fn a_query_is_refused_while_too_much_waits_to_be_taken() {
    let limits = LimitSettings { unread_mib_per_tenant: 1, ..LimitSettings::default() };
    let server = TestServer::with(lockhouse_server::Config { limits, ..config(60_000) }).await;
    let mut holder = server.client().await;
    holder.join(1).await;
    hold(&mut holder, 0..300).await.unwrap();
    for frame in ["query", "watch"] {
        let mut client = server.client().await;
        client.send(json!({"type": frame, "id": 1})).await;
        let refused = client.next().await;
        assert_eq!(
            (&refused["type"], &refused["code"]),
            (&json!("error"), &json!("quota_exceeded")),
            "{refused}"
        );
        assert_eq!(refused["retryAfterMs"], 1000);
        // The entries of one name are fewer.
        client.send(json!({"type": frame, "id": 2, "name": long(7)})).await;
        assert_eq!(client.next().await["type"], "snapshot");
    }
}
