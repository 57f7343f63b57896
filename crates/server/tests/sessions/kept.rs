//! Answers to calls whose change is kept, or may be, though the house ends or its store hangs meanwhile.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use lockhouse::core::OwnerId;
use lockhouse::{House, Options};
use lockhouse_server::{Config, Server, router};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::sessions::gate::{Gate, poll};

/// A server over a store behind a gate.
struct Served {
    gate: Arc<Gate>,
    house: House,
    router: Router,
}

/// The answer to a call.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    fn text(&self, key: &str) -> &str {
        self.body[key].as_str().unwrap_or_else(|| panic!("no {key} in {}", self.body))
    }
}

impl Served {
    async fn new() -> Self {
        let gate = Gate::new();
        let house = gate.house_with(Options::new()).await;
        let router = router(Server::of(Config::default(), house.clone()));
        Self { gate, house, router }
    }

    async fn post(&self, path: &str, secret: &str, body: Value) -> Answer {
        let request = Request::post(format!("http://localhost/v1/buckets/default/{path}"))
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {secret}"))
            .header("idempotency-key", path);
        let request = request.body(Body::from(body.to_string())).unwrap();
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        traces::answer(&String::from_utf8_lossy(&body));
        Answer { status: parts.status, headers: parts.headers, body: serde_json::from_slice(&body).unwrap() }
    }

    async fn open(&self) -> Answer {
        self.post("owners", "", json!({"label": "Ada", "ttlMs": 60_000, "maxMs": 90_000})).await
    }

    /// The answer to a call whose change is the last one that the closed house has kept.
    async fn last<'a>(&'a self, call: impl Future<Output = Answer> + 'a) -> Answer {
        self.gate.shut();
        let (mut call, mut closing) = (Box::pin(call), Box::pin(self.house.close()));
        assert!(poll(&mut call).await.is_pending());
        assert!(poll(&mut closing).await.is_pending());
        self.gate.open();
        closing.await;
        call.await
    }

    /// The names that the next house finds locked by the owner.
    async fn found(&self, opened: &Answer) -> Vec<String> {
        let next = Gate::before(self.gate.inner.reopen()).house().await;
        let id = OwnerId::new(opened.text("owner").parse().unwrap());
        let secret = opened.text("ownerSecret").parse().unwrap();
        let owner = next.bucket("default").owners().resume(id, &secret).await.unwrap();
        let locks = owner.locks().await.unwrap();
        locks.iter().map(|lock| lock.name.as_name().display().to_string()).collect()
    }
}

fn locks_of(opened: &Answer) -> Value {
    json!({"owner": opened.text("owner"), "locks": [{"name": "n", "mode": "exclusive"}]})
}

#[tokio::test]
async fn what_is_kept_is_reported_though_the_house_is_closed_by_then() {
    let served = Served::new().await;
    let opened = served.last(served.open()).await;
    assert_eq!(opened.status, StatusCode::CREATED, "{}", opened.body);
    assert!(opened.text("expiresAt") < opened.text("endsAt"));
    assert!(served.found(&opened).await.is_empty());

    let served = Served::new().await;
    let opened = served.open().await;
    let locking = served.post("locks", opened.text("ownerSecret"), locks_of(&opened));
    let locked = served.last(locking).await;
    assert_eq!(locked.status, StatusCode::CREATED, "{}", locked.body);
    assert!(locked.text("expiresAt") >= opened.text("expiresAt"));
    assert_eq!(served.found(&opened).await, ["n"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_outcome_is_unknown_may_be_sent_again_if_tokens_name_its_locks() {
    let named = |token: Value| json!({"locks": [{"name": "n", "fencingToken": token}]});
    for (release, retry_after) in
        [(named(json!(1)), Some("1")), (named(Value::Null), None), (json!({"all": true}), None)]
    {
        let served = Served::new().await;
        let opened = served.open().await;
        let secret = opened.text("ownerSecret");
        let locked = served.post("locks", secret, locks_of(&opened)).await;
        let mut release = release;
        release["owner"] = opened.body["owner"].clone();
        if let Some(token) = release.pointer_mut("/locks/0/fencingToken").filter(|token| token.is_number()) {
            *token = locked.body["locks"][0]["fencingToken"].clone();
        }
        served.gate.shut();
        let answer = served.post("locks/release", secret, release.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.text("code")), (504, "outcome_unknown"), "{release}");
        let advised = answer.headers.get(header::RETRY_AFTER).map(|value| value.to_str().unwrap());
        assert_eq!(advised, retry_after, "{release}");
    }
}
