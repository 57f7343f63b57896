//! Sessions while the store is away: no client that is not to wait is left waiting for it.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::{House, ManualClock, Mode, Name, Owner};
use serde_json::json;

use crate::sessions::gate::{Gate, manual, poll};
use crate::sessions::support::{Client, TestServer, config};

const RECOVERY: Duration = Duration::from_secs(10);

/// A house that recovers from a crash, behind a gate, and the owner that holds `freed`.
async fn after_a_crash() -> (House, Arc<Gate>, ManualClock, Owner) {
    let (clock, options) = manual();
    let gate = Gate::new();
    let house = gate.house_with(options.clone()).await;
    let owner = house.bucket("default").owners().open("Ada", Duration::from_secs(600)).await.unwrap();
    owner.lock_names(&[(Name::new("freed").unwrap(), Mode::Exclusive)], None).await.unwrap();
    let gate = Gate::before(gate.inner.reopen());
    let options = options.lease(RECOVERY).always_recover(true).store_timeout(Duration::from_millis(100));
    let house = gate.house_with(options).await;
    let owner = house.bucket("default").owners().resume(owner.id(), owner.secret()).await.unwrap();
    (house, gate, clock, owner)
}

async fn ask_for_freed(client: &mut Client, id: u64) {
    let request = json!({"type": "request", "id": id, "agent": 1, "name": "freed", "ifAvailable": true});
    client.call(request).await;
}

/// The next frame must tell that the request is not decided at the moment.
async fn unavailable(client: &mut Client, id: u64) {
    let frame = client.next().await;
    assert_eq!((&frame["id"], &frame["code"]), (&json!(id), &json!("unavailable")), "{frame}");
    assert!(frame["retryAfterMs"].is_u64(), "{frame}");
}

#[tokio::test]
async fn a_request_that_is_not_to_wait_is_unavailable_while_its_grant_waits_for_the_store() {
    let (house, gate, clock, owner) = after_a_crash().await;
    let server = TestServer::over(config(60_000), house.clone()).await;
    let mut client = server.client().await;
    client.join(1).await;
    ask_for_freed(&mut client, 1).await;
    gate.shut();
    let mut unlock = Box::pin(owner.unlock(Name::new("freed").unwrap(), None));
    assert!(poll(&mut unlock).await.is_pending());
    house.unavailable().await;
    client.call(json!({"type": "release", "id": 99, "reply": true})).await;
    assert_eq!(client.next().await["type"], "released", "a holder may still come back for what is asked for");
    clock.advance(RECOVERY);
    unavailable(&mut client, 1).await;
    ask_for_freed(&mut client, 2).await;
    unavailable(&mut client, 2).await;
    client.request(3, 1, "freed").await;
    gate.open();
    // Neither of the others is granted.
    client.granted(3).await;
}
