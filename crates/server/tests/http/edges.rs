//! Requests that cannot be used, and rules that hold for all.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::http::calls::Api;

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn every_failure_is_a_problem_that_leads_to_its_explanation() {
    let api = Api::new();
    let claim = json!({"resource": "r", "claimant": "A"}).to_string();
    let post = |headers: Vec<(&'static str, &'static str)>, body: String| {
        let api = &api;
        async move { api.send(Method::POST, "claims", &headers, Some(body)).await }
    };
    let failures = [
        (post(vec![JSON], "{".to_owned()).await, (400, "bad_request")),
        (post(vec![JSON], "{\"a\":1,\"a\":2}".to_owned()).await, (400, "bad_request")),
        (post(vec![JSON], "[]".to_owned()).await, (422, "invalid")),
        (post(vec![JSON], "{}".to_owned()).await, (422, "invalid")),
        (post(vec![("content-type", "text/plain")], claim.clone()).await, (415, "unsupported_media_type")),
        (post(vec![], claim.clone()).await, (415, "unsupported_media_type")),
        (post(vec![JSON], "x".repeat((256 << 10) + 1)).await, (413, "too_large")),
        (post(vec![JSON, ("idempotency-key", "a b")], claim.clone()).await, (422, "invalid")),
        (post(vec![JSON, ("origin", "https://evil.example")], claim.clone()).await, (403, "forbidden")),
        (post(vec![JSON, ("host", "evil.example")], claim).await, (403, "forbidden")),
        (api.get("query?limit=0").await, (422, "invalid")),
        (api.get("query?cursor=xyz").await, (422, "invalid")),
        (api.get("query?prefix=%FF").await, (422, "invalid")),
        (api.get("query?kind=web&kind=web").await, (422, "invalid")),
        (api.get("assignments").await, (422, "invalid")),
        (api.get("claims").await, (422, "invalid")),
        (api.get("claims?resource=%FF").await, (422, "invalid")),
        (api.get("claims?resource=-x").await, (422, "invalid")),
        (api.get("nothing").await, (404, "not_found")),
        (api.get("/v1/nothing").await, (404, "not_found")),
        (api.get(&format!("/v1/buckets/{}/query", "x".repeat(257))).await, (422, "invalid")),
        (api.get("/v1/buckets//query").await, (422, "invalid")),
        (api.get("/v1/buckets/%FF/query").await, (400, "bad_request")),
        (api.send(Method::PATCH, "claims", &[], None).await, (405, "method_not_allowed")),
    ];
    for (answer, expected) in failures {
        assert_eq!(answer.outcome(), expected, "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(answer.body["status"], answer.status);
        let explanation = api.get(&format!("/{}", answer.text("type").replace("../", ""))).await;
        assert_eq!(
            (explanation.status, explanation.header("content-type")),
            (200, "text/markdown; charset=utf-8")
        );
    }
    let answer = api.send(Method::PATCH, "claims", &[], None).await;
    assert_eq!(answer.header("allow"), "GET,HEAD,POST");
}

#[tokio::test]
async fn a_violation_is_reported_with_field_value_and_rule() {
    let api = Api::new();
    let refused = api.post("claims", json!({"resource": "r", "claimant": "A", "ttlMs": -1})).await;
    assert_eq!(refused.body["field"], "ttlMs");
    assert_eq!(refused.body["value"], "-1");
    assert_eq!(refused.body["rule"], "an integer from 1 to 2592000000");
    assert_eq!(refused.body["detail"], "ttlMs is -1, but must be an integer from 1 to 2592000000");
    let anna = api.owner("Anna").await;
    let locks =
        json!([{"kind": "c", "id": "1", "intent": "write"}, {"kind": "c", "id": "", "intent": "write"}]);
    let refused = api.post_as(&anna, "locks", json!({"owner": anna.id, "locks": locks})).await;
    assert_eq!(refused.body["field"], "locks[1].id");
    let secret = "s".repeat(300);
    let refused = api.with_token("renew", "r", &secret).await;
    assert_eq!(refused.outcome(), (422, "invalid"));
    assert!(!refused.body.to_string().contains("ssss"), "a secret is never repeated");
}

#[tokio::test]
async fn what_a_call_would_not_look_at_is_refused_and_nothing_is_done() {
    let api = Api::new();
    let owner = api.owner("Anna").await;
    let token = api.claim("seat", "Bob").await.text("token");
    assert_eq!(api.with_token("finalize", "seat", &token).await.status, 200);
    let secret = format!("Bearer {}", owner.secret);
    let headers = [JSON, ("authorization", &*secret)];
    let beat = format!("owners/{}/heartbeat", owner.id);
    let own = format!("owners/{}", owner.id);
    let target = r#"{"kind":"k","id":"1","intent":"write","steal":true}"#;
    let lock = format!(r#"{{"owner":"{}","locks":[{target}]}}"#, owner.id);
    for (method, path, body, field) in [
        (Method::DELETE, "assignments?resource=seat&token=9", None, "parameter"),
        (Method::DELETE, "assignments?resource=seat", Some(r#"{"fencingToken":9}"#), "body"),
        (Method::GET, "query?Prefix=a", None, "parameter"),
        (Method::GET, "claims?resource=seat&limit=1", None, "parameter"),
        (Method::GET, "locks?name=a", None, "parameter"),
        (Method::GET, &*format!("{own}?x=1"), None, "parameter"),
        (Method::DELETE, &*format!("{own}?reason=x"), None, "parameter"),
        (Method::POST, &*format!("{beat}?ttlMs=5"), None, "parameter"),
        (Method::POST, "claims?ttlMs=3", Some(r#"{"resource":"x","claimant":"A"}"#), "parameter"),
        (Method::POST, &*beat, Some(r#"{"ttlMs":5}"#), "body"),
        (Method::POST, &*beat, Some("garbage"), "body"),
        (Method::DELETE, &*own, Some(r#"{"reason":"x"}"#), "body"),
        (Method::POST, "owners", Some(r#"{"label":"A","ttlms":5}"#), "ttlms"),
        (Method::POST, "claims", Some(r#"{"resource":"x","claimant":"A","TTL":5}"#), "TTL"),
        (Method::POST, "locks", Some(&*lock), "locks[0].steal"),
        (Method::GET, "query?cursor=00", None, "cursor"),
        (Method::GET, "query", Some(r#"{"prefix":"seat/"}"#), "body"),
        (Method::POST, &*beat, Some("{null}"), "body"),
        (Method::GET, "query?cursor=", None, "cursor"),
    ] {
        let answer = api.send(method, path, &headers, body.map(str::to_owned)).await;
        assert_eq!((answer.outcome(), answer.text("field")), ((422, "invalid"), field.to_owned()), "{path}");
    }
    assert_eq!(api.send(Method::POST, &beat, &headers, Some("{ }".to_owned())).await.status, 200);
    assert_eq!(api.get("assignments?resource=seat").await.status, 200, "it stands");
}

#[tokio::test]
async fn a_url_that_is_wrongly_encoded_or_says_what_is_unknown_is_refused() {
    let api = Api::new();
    for path in ["/v1/buckets/%zz/query", "query?prefix=%zz", "claims?resource=%4", "query?prefix=%FF"] {
        let answer = api.get(path).await;
        assert!(matches!(answer.outcome(), (400, "bad_request") | (422, "invalid")), "{path}: {answer:?}");
    }
    for query in ["bucket=%ff", "bucket=a%zz", "bucket=a&bucket=b", "Bucket=a", "parition=a"] {
        let mut stream = TcpStream::connect(api.server.address()).await.unwrap();
        let request = format!(
            "GET /v1/ws?{query} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: lockhouse.v1\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut first = String::new();
        BufReader::new(stream).read_line(&mut first).await.unwrap();
        assert_eq!(first.trim_end(), "HTTP/1.1 400 Bad Request", "{query}");
    }
}

/// The first line of the answer to a request of so many header lines.
async fn answer_to_lines(api: &Api, lines: usize) -> String {
    let mut stream = TcpStream::connect(api.server.address()).await.unwrap();
    let more: String = (1..lines).map(|line| format!("x-{line}: 1\r\n")).collect();
    let request = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first).await.unwrap();
    first.trim_end().to_owned()
}

#[tokio::test]
async fn a_head_of_too_many_lines_is_refused() {
    let api = Api::new();
    assert_eq!(answer_to_lines(&api, 100).await, "HTTP/1.1 200 OK");
    assert_eq!(answer_to_lines(&api, 101).await, "HTTP/1.1 431 Request Header Fields Too Large");
}

#[tokio::test]
async fn a_request_sent_again_with_its_key_is_answered_again_and_not_carried_out_again() {
    let api = Api::new();
    let send = |key: &'static str, body: serde_json::Value| {
        let api = &api;
        async move {
            api.send(Method::POST, "owners", &[JSON, ("idempotency-key", key)], Some(body.to_string())).await
        }
    };
    let first = send("k1", json!({"label": "Anna"})).await;
    let again = send("k1", json!({"label": "Anna"})).await;
    assert_eq!((first.status, again.status, &first.body), (201, 201, &again.body));
    assert_eq!((first.header("idempotency-replayed"), again.header("idempotency-replayed")), ("", "true"));
    assert_eq!(first.header("location"), again.header("location"));
    let other = send("k1", json!({"label": "Bob"})).await;
    assert_eq!(other.outcome(), (422, "idempotency_mismatch"));
    assert_ne!(send("k2", json!({"label": "Anna"})).await.body["owner"], first.body["owner"]);

    // A refusal is not remembered: what was in the way may be gone.
    let token = api.claim("r", "Bob").await.text("token");
    let claim = || {
        let body = json!({"resource": "r", "claimant": "A"}).to_string();
        api.send(Method::POST, "claims", &[JSON, ("idempotency-key", "k3")], Some(body))
    };
    assert_eq!(claim().await.outcome(), (409, "claimed"));
    api.with_token("release", "r", &token).await;
    assert_eq!(claim().await.status, 201);
}

#[tokio::test]
async fn a_deletion_sent_again_with_its_key_is_not_carried_out_again() {
    let api = Api::new();
    let assign = || async {
        let token = api.claim("r", "A").await.text("token");
        assert_eq!(api.with_token("finalize", "r", &token).await.status, 200);
    };
    let delete = |path: &'static str| api.send(Method::DELETE, path, &[("idempotency-key", "k1")], None);
    assign().await;
    let first = delete("assignments?resource=r").await;
    assign().await;
    let again = delete("assignments?resource=r").await;
    assert_eq!((first.status, &first.body, again.status), (200, &json!({"unassigned": true}), 200));
    assert_eq!((&again.body, again.header("idempotency-replayed")), (&first.body, "true"));
    assert_eq!(api.get("assignments?resource=r").await.status, 200, "the later one stands");
    assert_eq!(delete("assignments?resource=s").await.outcome(), (422, "idempotency_mismatch"));
}

#[tokio::test]
async fn pages_of_admitted_origins_may_call_and_read_what_they_need() {
    let api = Api::new();
    let origin = ("origin", "http://localhost:3000");
    let asks = [
        origin,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,idempotency-key"),
    ];
    let preflight = api.send(Method::OPTIONS, "locks", &asks, None).await;
    assert_eq!(
        (preflight.status, preflight.header("access-control-allow-origin")),
        (200, "http://localhost:3000")
    );
    for header in ["authorization", "content-type", "idempotency-key"] {
        assert!(preflight.header("access-control-allow-headers").contains(header), "{header}");
    }
    let answer = api.send(Method::GET, "locks", &[origin], None).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, "http://localhost:3000"));
    assert!(answer.header("access-control-expose-headers").contains("retry-after"));
    let refused =
        api.send(Method::OPTIONS, "locks", &[("origin", "https://evil.example"), asks[1]], None).await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, ""));
}

#[tokio::test]
async fn names_with_lone_surrogates_are_claimed_and_shown_as_they_are() {
    let api = Api::new();
    let body = r#"{"resource":"\ud800/\u0000","claimant":"A"}"#.to_owned();
    let claimed = api.send(Method::POST, "claims", &[JSON], Some(body.clone())).await;
    // serde_json reads no such name into a string: it came back as text.
    assert_eq!(claimed.status, 201);
    assert!(claimed.body.as_str().unwrap().contains(r#""resource":"\ud800/\u0000""#), "{claimed:?}");
    let again = api.send(Method::POST, "claims", &[JSON], Some(body)).await;
    assert_eq!(again.outcome(), (409, "claimed"));
    assert!(api.get("query").await.body.as_str().unwrap().contains(r#""name":"\ud800/\u0000""#));
}

#[tokio::test]
async fn the_document_is_openapi_3_1_and_names_every_call_once() {
    let api = Api::new();
    let document = api.get("/openapi.json").await.body;
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert!(path == "/v1/buckets" || path.starts_with("/v1/buckets/{bucket}/"), "{path}");
        for operation in ["get", "post", "delete"].iter().filter_map(|method| item.get(*method)) {
            ids.push(operation["operationId"].as_str().unwrap().to_owned());
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let is_problem = !answer["content"]["application/problem+json"].is_null();
                assert_eq!(is_problem, !status.starts_with('2'), "{path} {status}");
            }
        }
    }
    ids.sort();
    let expected = [
        "breakHolds",
        "claim",
        "deleteAssignment",
        "endOwner",
        "events",
        "finalizeClaim",
        "getAssignment",
        "getClaim",
        "getOwner",
        "heartbeat",
        "history",
        "listBuckets",
        "listLocks",
        "listOwners",
        "lock",
        "openOwner",
        "overview",
        "query",
        "releaseClaim",
        "renewClaim",
        "sessions",
        "undoLocks",
        "unlock",
        "waits",
    ];
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn buckets_never_meet() {
    let api = Api::new();
    let body = || json!({"resource": "r", "claimant": "A"});
    assert_eq!(api.post("/v1/buckets/a/claims", body()).await.status, 201);
    assert_eq!(api.post("/v1/buckets/a%2Fb/claims", body()).await.status, 201);
    assert_eq!(api.claim("r", "A").await.status, 201);
    assert_eq!(api.post("/v1/buckets/a/claims", body()).await.status, 409);
}
