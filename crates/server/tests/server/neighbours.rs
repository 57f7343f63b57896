//! Two tenants side by side: one that does anything at its limits, and one that must not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lockhouse_server::{LimitSettings, Refused};
use random::Random;
use serde_json::{Value, json};

use crate::support::Client;
use crate::support::keys::TwoTenants;

/// What a tenant is told, with tokens counted from its first one.
async fn story(tenants: &TwoTenants) -> Vec<Value> {
    let (mut one, mut two) = (tenants.quiet("?bucket=b").await, tenants.quiet("?bucket=b").await);
    one.join(1).await;
    two.join(1).await;
    let mut told = Vec::new();
    for round in 0..60_u64 {
        let id = 10 * round;
        let name = format!("name {}", round % 7);
        one.request(id + 1, 1, &name).await;
        told.push(one.next().await);
        two.call(json!({"type": "request", "id": id + 1, "agent": 1, "name": name, "ifAvailable": true}))
            .await;
        told.push(without_instants(two.next().await));
        two.request(id + 2, 1, &name).await;
        let (held, pending) = two.query(id + 3).await;
        told.push(json!({"held": held, "pending": pending}));
        one.release(id + 1).await;
        told.push(two.next().await);
        if round % 3 == 0 {
            two.release(id + 2).await;
        } else {
            one.call(json!({"type": "request", "id": id + 2, "agent": 1, "name": name, "steal": true})).await;
            told.push(one.next().await);
            told.push(two.next().await);
            one.release(id + 2).await;
        }
        for client in [&mut one, &mut two] {
            let ack = client.received;
            client.send(json!({"type": "ack", "ack": ack})).await;
        }
    }
    one.close(1000).await;
    two.close(1000).await;
    let first = told[0]["token"].as_u64().unwrap();
    for frame in &mut told {
        frame.as_object_mut().unwrap().remove("ticket");
        if let Some(token) = frame["token"].as_u64() {
            frame["token"] = json!(token - first);
        }
    }
    told
}

fn without_instants(mut frame: Value) -> Value {
    for holder in frame["holders"].as_array_mut().into_iter().flatten() {
        holder.as_object_mut().unwrap().remove("since");
    }
    frame
}

/// Does anything, in buckets of the same name and others, in partitions of its own, until it is over.
async fn noise(
    address: std::net::SocketAddr,
    key: String,
    number: u64,
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) {
    let mut random = Random::new(number);
    let mut below = move |bound: usize| random.below(bound);
    while !over.load(Ordering::Relaxed) {
        let bucket = ["b", "c", "d", "e", "f"][below(5)];
        let mut client = Client::open(address, &format!("?partition={}&bucket={bucket}", below(4))).await;
        client.send(json!({"type": "hello", "credential": key})).await;
        if client.next_or_close().await.is_err() {
            continue;
        }
        client.join(1).await;
        for id in 1..40 {
            let name = format!("name {}", below(7));
            let frame = match below(8) {
                0 => json!({"type": "query", "id": id}),
                1 => json!({"type": "watch", "id": id}),
                2 => json!({"type": "request", "id": id, "agent": 1, "name": name, "steal": true, "seq": 0}),
                3 => json!({"type": "release", "id": id - 1, "reply": true, "seq": 0}),
                4 => json!({"type": "request", "id": id, "agent": 1, "name": "n".repeat(5000), "seq": 0}),
                5 => json!({"type": "nonsense", "seq": 0}),
                _ => json!({"type": "request", "id": id, "agent": 1, "name": name, "seq": 0}),
            };
            let sent = if frame["seq"].is_null() {
                client.try_send(frame).await
            } else {
                client.seq += 1;
                let mut frame = frame;
                frame["seq"] = json!(client.seq);
                client.try_send(frame).await
            };
            if sent.is_err() {
                break;
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        if below(2) == 0 {
            client.close(1000).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_tenant_has_no_effect_on_what_another_is_told() {
    let alone = {
        let tenants = TwoTenants::with(LimitSettings::default(), 10_000).await;
        story(&tenants).await
    };
    assert!(alone.len() > 300, "{}", alone.len());
    let limits = LimitSettings {
        connections_per_tenant: 64,
        sessions_per_tenant: 40,
        buckets_per_tenant: 3,
        requests_per_bucket: 300,
        tenant_rate: 2_000,
        ..LimitSettings::default()
    };
    let tenants = TwoTenants::with(limits, 1_000).await;
    let server = &tenants.server;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let noises: Vec<_> = (0..6)
        .map(|number| {
            tokio::spawn(noise(server.address, tenants.loud.clone(), number, over.clone(), done.clone()))
        })
        .collect();
    // It is at its limits before the other one begins.
    while server.server.refused(Refused::BucketsPerTenant) == 0 || server.server.refused(Refused::Frame) == 0
    {
        tokio::task::yield_now().await;
    }
    let before = done.load(Ordering::Relaxed);
    let beside = story(&tenants).await;
    let meanwhile = done.load(Ordering::Relaxed) - before;
    over.store(true, Ordering::Relaxed);
    for noise in noises {
        noise.await.unwrap();
    }
    assert!(meanwhile > 50, "only {meanwhile} frames beside it");
    for (number, (alone, beside)) in alone.iter().zip(&beside).enumerate() {
        assert_eq!(alone, beside, "answer {number}");
    }
    assert_eq!(alone.len(), beside.len());
}
