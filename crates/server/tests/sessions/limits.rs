//! Refusals, and their effects on other clients.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::SinkExt;
use lockhouse::Bucket;
use lockhouse_server::{Config, LimitSettings, Refused};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::sessions::support::keys::TwoTenants;
use crate::sessions::support::{Client, PATIENCE, TestServer, config};

async fn server(limits: LimitSettings) -> TestServer {
    TestServer::with(Config { limits, ..config(60_000) }).await
}

/// Calls once over a connection of its own, from that address.
async fn call_from(server: &TestServer, from: [u8; 4], request: &str) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 64 << 10];
    let length = timeout(PATIENCE, stream.read(&mut answer)).await.expect("no answer").unwrap();
    (stream, String::from_utf8_lossy(&answer[..length]).into_owned())
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The status of an answer, its problem, and the seconds after which to come again.
fn problem(answer: &str) -> (u16, Value, Option<u64>) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let header =
        head.to_lowercase().lines().find_map(|line| line.strip_prefix("retry-after: ")?.parse().ok());
    (status, serde_json::from_str(body).unwrap_or(Value::Null), header)
}

fn claim(bucket: &str, resource: &str) -> String {
    claim_with("", bucket, resource)
}

/// With more headers, each with the end of its line.
fn claim_with(headers: &str, bucket: &str, resource: &str) -> String {
    let body = json!({"resource": resource, "claimant": "A"}).to_string();
    format!(
        "POST /v1/buckets/{bucket}/claims HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A call that costs as much as sixty, and does nothing: the cost of a call is checked before its caller.
fn dear() -> String {
    let lock = |id: u32| json!({"name": id.to_string(), "mode": "exclusive"});
    let body = json!({"owner": "1", "locks": (0..60).map(lock).collect::<Value>()}).to_string();
    format!(
        "POST /v1/buckets/default/locks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer no\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// How a session that is refused right away is closed.
async fn refused_session(server: &TestServer, query: &str, credential: Option<&str>) -> (u16, String) {
    let mut client = Client::open(server.address, query).await;
    client.send(json!({"type": "hello", "credential": credential})).await;
    let close = client.next_or_close().await.unwrap_err().unwrap();
    (close.code.into(), close.reason.to_string())
}

#[tokio::test]
async fn connections_from_one_address_leave_some_for_another() {
    let limits = LimitSettings { connections: 16, connections_per_address: 10, ..LimitSettings::default() };
    let server = server(limits).await;
    let mut open = Vec::new();
    let refused = loop {
        let (stream, answer) = call_from(&server, [127, 0, 0, 1], HEALTH).await;
        if !answer.starts_with("HTTP/1.1 200") {
            break answer;
        }
        open.push(stream);
    };
    assert_eq!(open.len(), 10);
    let (status, body, retry_after) = problem(&refused);
    assert_eq!((status, &body["code"], retry_after), (503, &json!("overloaded"), Some(1)));
    assert!(body["detail"].as_str().unwrap().ends_with("limits.connections_per_address"), "{body}");
    assert_eq!(server.server.refused(Refused::ConnectionsPerAddress), 1);

    // Others have permits, though fewer than it had.
    let mut others = Vec::new();
    while let (stream, answer) = call_from(&server, [127, 0, 0, 2], HEALTH).await
        && answer.starts_with("HTTP/1.1 200")
    {
        others.push(stream);
    }
    assert!((3..=6).contains(&others.len()), "{}", others.len());
    drop(open);
    let start = Instant::now();
    while server.server.connection_count() > others.len() {
        assert!(start.elapsed() < PATIENCE, "a connection that is closed keeps its place");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(call_from(&server, [127, 0, 0, 1], HEALTH).await.1.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn websockets_and_sessions_of_one_tenant_leave_some_for_another() {
    let limits =
        LimitSettings { connections_per_tenant: 2, sessions_per_tenant: 3, ..LimitSettings::default() };
    let tenants = TwoTenants::with(limits, 60_000).await;
    let server = &tenants.server;
    // Whatever partitions it names, it is one tenant.
    let (first, second) = (tenants.loud("?partition=a").await, tenants.loud("?partition=b").await);
    let refused = refused_session(server, "?partition=c", Some(&tenants.loud)).await;
    assert_eq!(refused, (1013, "connections_per_tenant".to_owned()));
    assert_eq!(server.server.refused(Refused::ConnectionsPerTenant), 1);
    drop(tenants.quiet("?partition=a").await);

    // Their connections go, their sessions wait for a resume.
    drop((first, second));
    let third = loop {
        if server.server.connection_count() == 0 {
            break tenants.loud("?partition=d").await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let refused = refused_session(server, "?partition=e", Some(&tenants.loud)).await;
    assert_eq!(refused, (1013, "sessions_per_tenant".to_owned()));
    assert_eq!(server.server.refused(Refused::SessionsPerTenant), 1);
    drop((third, tenants.quiet("").await));
}

#[tokio::test]
async fn a_tenant_has_so_many_buckets_and_others_have_theirs() {
    let limits = LimitSettings { buckets_per_tenant: 2, ..LimitSettings::default() };
    let tenants = TwoTenants::with(limits, 60_000).await;
    let server = &tenants.server;
    let (_one, _two) = (tenants.loud("?bucket=1").await, tenants.loud("?bucket=1&partition=a").await);
    for query in ["?bucket=2", "?bucket=1&partition=b"] {
        let refused = refused_session(server, query, Some(&tenants.loud)).await;
        assert_eq!(refused, (1013, "buckets_per_tenant".to_owned()));
    }
    let with = format!("Lockhouse-Key: {}\r\n", tenants.loud);
    let call =
        async |bucket| problem(&call_from(server, [127, 0, 0, 1], &claim_with(&with, bucket, "r")).await.1);
    let (status, body, retry_after) = call("2").await;
    assert_eq!((status, &body["code"], &body["field"]), (429, &json!("quota_exceeded"), &json!("bucket")));
    assert!(retry_after.is_some());
    assert_eq!(server.server.refused(Refused::BucketsPerTenant), 3);
    // Buckets that are in use can be used by every client.
    assert_eq!(call("1").await.0, 201);
    drop(tenants.loud("?bucket=1").await);
    drop(tenants.quiet("?bucket=2").await);
}

#[tokio::test]
async fn without_authentication_all_are_one_tenant_whatever_partition_they_name() {
    let limits =
        LimitSettings { connections_per_tenant: 2, buckets_per_tenant: 1, ..LimitSettings::default() };
    let server = server(limits).await;
    let _one = Client::hello(server.address, "?partition=a").await;
    let two = Client::hello(server.address, "?partition=a").await;
    assert_eq!(refused_session(&server, "?partition=b", None).await.1, "connections_per_tenant");
    drop(two);
    while server.server.connection_count() > 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(refused_session(&server, "?partition=b", None).await.1, "buckets_per_tenant");
}

#[tokio::test]
async fn a_bucket_has_so_many_requests_in_all_its_sessions() {
    let server = server(LimitSettings { requests_per_bucket: 2, ..LimitSettings::default() }).await;
    let (mut one, mut other) = (server.client().await, server.client().await);
    one.join(1).await;
    one.request(1, 1, "n").await;
    one.granted(1).await;
    other.join(1).await;
    other.request(1, 1, "m").await;
    other.granted(1).await;
    other.request(2, 1, "n").await;
    let error = other.next().await;
    assert_eq!(error["rule"], "one of at most 2 of a bucket at once (limits.requests_per_bucket)", "{error}");
    assert_eq!(server.server.refused(Refused::Frame), 1);
    let (status, body, _) = problem(&call_from(&server, [127, 0, 0, 1], &claim("default", "r")).await.1);
    assert_eq!((status, &body["code"]), (429, &json!("quota_exceeded")), "{body}");
    let rule = "it cannot have more (limits.requests_per_bucket)";
    assert_eq!(body["rule"], rule, "{body}");
    assert_eq!(problem(&call_from(&server, [127, 0, 0, 1], &claim("other", "r")).await.1).0, 201);
}

#[tokio::test]
async fn a_large_body_that_comes_late_beside_too_many_others_is_refused_and_counted() {
    let server = server(LimitSettings::default()).await;
    let head = "POST /v1/buckets/b/claims HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n";
    let mut waiting = tokio::task::JoinSet::new();
    // More than may wait from one address.
    for _ in 0..=256 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        waiting.spawn(async move {
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            String::from_utf8(answer).unwrap()
        });
    }
    let first = timeout(PATIENCE, waiting.join_next()).await.expect("no answer").unwrap().unwrap();
    let (status, body, after) = problem(&first);
    assert_eq!((status, &body["code"], after), (503, &json!("overloaded"), Some(1)), "{first}");
    assert!(server.server.refused(Refused::LateBody) > 0);
}

#[tokio::test]
async fn calls_over_the_rate_get_a_time_to_retry() {
    let server = server(LimitSettings { tenant_rate: 2, ..LimitSettings::default() }).await;
    let mut refused = 0;
    for resource in 0..6 {
        let answer = call_from(&server, [127, 0, 0, 1], &claim("default", &resource.to_string())).await.1;
        let (status, body, retry_after) = problem(&answer);
        if status == 201 {
            continue;
        }
        assert_eq!((status, &body["code"], retry_after), (429, &json!("rate_limited"), Some(1)), "{body}");
        let wait = body["retryAfterMs"].as_u64().unwrap();
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let again = call_from(&server, [127, 0, 0, 1], &claim("default", &resource.to_string())).await.1;
        assert_eq!(problem(&again).0, 201, "it came when it was told to: {again}");
        refused += 1;
    }
    assert!((2..=4).contains(&refused), "{refused}");
    assert_eq!(server.server.refused(Refused::TenantRate), refused);
}

#[tokio::test]
async fn the_body_of_a_call_over_the_rate_is_not_parsed() {
    let server = server(LimitSettings { tenant_rate: 1, ..LimitSettings::default() }).await;
    // The call makes no sense, which every admitted caller learns.
    let senseless = claim("default", "a").replace("claimant", "claimnot");
    let call = async |request: &str| problem(&call_from(&server, [127, 0, 0, 1], request).await.1);
    let (status, body, _) = call(&senseless).await;
    assert_eq!((status, &body["code"]), (422, &json!("invalid")), "{body}");
    // This is a minute of the rate.
    assert_eq!(call(&dear()).await.0, 401);
    let (status, refused, _) = call(&senseless).await;
    assert_eq!((status, &refused["code"]), (429, &json!("rate_limited")), "{refused}");
}

#[tokio::test]
async fn a_call_that_makes_no_sense_counts_as_any_other() {
    let makes_sense = claim("default", "a");
    let senseless = [
        makes_sense.replace("claimant", "claimnot"),
        makes_sense.replace("application/json", "text/plain"),
        "GET /v1/buckets/default/query?limit=none HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
    ];
    for request in senseless {
        let server = server(LimitSettings { tenant_rate: 1, ..LimitSettings::default() }).await;
        let call = async |request: &str| problem(&call_from(&server, [127, 0, 0, 1], request).await.1).0;
        let mut statuses = vec![call(&request).await];
        while statuses.last() != Some(&429) {
            assert!(statuses.len() < 20, "never refused: {statuses:?}");
            statuses.push(call(&request).await);
        }
        assert_eq!(call(&makes_sense).await, 429, "after {statuses:?}");
    }
}

#[tokio::test]
async fn a_call_costs_as_much_as_the_locks_that_it_names() {
    let server = server(LimitSettings { tenant_rate: 30, ..LimitSettings::default() }).await;
    let post = async |path: &str, secret: &str, body: Value| {
        let body = body.to_string();
        let request = format!(
            "POST /v1/buckets/default/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        problem(&call_from(&server, [127, 0, 0, 1], &request).await.1)
    };
    let (_, opened, _) = post("owners", "-", json!({"label": "A"})).await;
    let (owner, secret) = (&opened["owner"], opened["ownerSecret"].as_str().unwrap());
    let locks: Vec<_> = (0..60).map(|id| json!({"name": format!("n{id}"), "mode": "exclusive"})).collect();
    let names: Vec<_> = (0..60).map(|id| json!({"name": format!("n{id}")})).collect();
    // Sixty of them are two seconds of the rate, of which one may be done at once.
    assert_eq!(post("locks", secret, json!({"owner": owner, "locks": locks})).await.0, 201);
    let release = json!({"owner": owner, "locks": names});
    // The second time nothing is left of what may be done at once.
    for longest in [1_100, 2_100] {
        let (status, body, _) = post("locks/release", secret, release.clone()).await;
        assert_eq!((status, &body["code"]), (429, &json!("rate_limited")), "{body}");
        let wait = body["retryAfterMs"].as_u64().unwrap();
        assert!(wait <= longest, "{wait} ms");
        tokio::time::sleep(Duration::from_millis(wait)).await;
        assert_eq!(post("locks/release", secret, release.clone()).await.0, 200);
    }
}

#[tokio::test]
async fn calls_that_are_admitted_together_owe_no_more_than_one_of_them_costs() {
    let server = server(LimitSettings { tenant_rate: 100, ..LimitSettings::default() }).await;
    let claim = claim_with("Idempotency-Key: k\r\n", "default", "n");
    let (head, body) = claim.split_once("\r\n\r\n").unwrap();
    let length = format!("Content-Length: {}", body.len());
    let head = head.replace(&length, &format!("Content-Length: {}", body.len() + (60 << 10)));
    let long = format!("{head}\r\n\r\n{body}{}", " ".repeat(60 << 10));
    for (request, status) in [(dear(), 401), (long, 201)] {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        // Callers that are asked for the body have been admitted. They are as many as may be at once, and
        // each costs sixty times as much as that.
        let mut calls = Vec::new();
        for _ in 0..90 {
            let head = format!("{head}\r\nExpect: 100-continue\r\n\r\n");
            let (stream, answer) = call_from(&server, [127, 0, 0, 1], &head).await;
            assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
            calls.push(stream);
        }
        let (mut through, mut longest) = (0, 0);
        for stream in &mut calls {
            stream.write_all(body.as_bytes()).await.unwrap();
            let mut answer = vec![0; 64 << 10];
            let length = timeout(PATIENCE, stream.read(&mut answer)).await.expect("no answer").unwrap();
            match problem(&String::from_utf8_lossy(&answer[..length])) {
                (429, body, _) => longest = longest.max(body["retryAfterMs"].as_u64().unwrap()),
                (other, body, _) => {
                    assert_eq!(other, status, "{body}");
                    through += 1;
                }
            }
        }
        assert!((1..=5).contains(&through), "{through} of {} went on", calls.len());
        assert!((1..=1_500).contains(&longest), "{longest} ms");
        tokio::time::sleep(Duration::from_millis(longest + 1_000)).await;
    }
}

#[tokio::test]
async fn a_page_costs_what_is_on_it_however_many_assignments_there_are() {
    let server = server(LimitSettings { tenant_rate: 30, ..LimitSettings::default() }).await;
    let claims = server.server.houses()[0].bucket("default").claims();
    for seat in 0..1000 {
        let claim = claims.claim(&*format!("seat/{seat}"), "Ada", PATIENCE).await.unwrap();
        claim.finalize().await.unwrap();
    }
    let get = async |what: &str| {
        let request = format!("GET /v1/buckets/default/{what} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        call_from(&server, [127, 0, 0, 1], &request).await.1
    };
    // Twenty calls are less than a second of the rate.
    for _ in 0..10 {
        assert_eq!(problem(&get("locks").await).0, 200);
        let (status, page, _) = problem(&get("query?limit=1").await);
        assert_eq!((status, page["entries"].as_array().map(Vec::len)), (200, Some(1)), "{page}");
    }
    // A thousand entries at once are more than a minute of it, and so are their bytes.
    assert!(get("query?limit=1000").await.starts_with("HTTP/1.1 200"));
    let (status, refused, _) = problem(&get("query?limit=1").await);
    assert_eq!((status, &refused["code"]), (429, &json!("rate_limited")), "{refused}");
    assert!(refused["retryAfterMs"].as_u64().unwrap() > 10_000, "{refused}");
}

#[tokio::test]
async fn pages_of_assignments_miss_none_and_repeat_none() {
    let server = server(LimitSettings::default()).await;
    let bucket = server.server.houses()[0].bucket("default");
    let mut names: Vec<String> = (0..23).map(|seat| format!("seat/{seat}")).collect();
    names.push("row".to_owned());
    for name in &names {
        bucket.claims().claim(&**name, "Ada", PATIENCE).await.unwrap().finalize().await.unwrap();
    }
    // One that is held stands between them.
    _ = bucket.claims().claim("seat/1x", "Bob", PATIENCE).await.unwrap();
    let page = async |filter: &str, cursor: &str| {
        let path = format!("/v1/buckets/default/query?limit=3&{filter}&{cursor}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (status, page, _) = problem(&call_from(&server, [127, 0, 0, 1], &request).await.1);
        assert_eq!(status, 200, "{page}");
        page
    };
    let all = async |filter: &str| {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = page(filter, &cursor).await;
            let entries = page["entries"].as_array().unwrap();
            assert!(!entries.is_empty() && entries.len() <= 3, "{page}");
            seen.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => cursor = format!("cursor={next}"),
                None => return seen,
            }
        }
    };
    names.sort();
    assert_eq!(all("kind=assignment").await, names);
    assert_eq!(all("state=assigned&prefix=seat/").await, names[1..]);
    names.push("seat/1x".to_owned());
    names.sort();
    assert_eq!(all("").await, names);
    assert_eq!(all("prefix=seat/1x").await, ["seat/1x"]);
    // The entry of a cursor need not be there any more.
    let position = "030000000000000000";
    let far = format!("cursor={position}{}", "ff".repeat(40));
    assert_eq!(page("kind=assignment", &far).await["entries"], json!([]));
    let near = format!("cursor={position}");
    assert_eq!(page("kind=assignment", &near).await["entries"][0]["name"], "row");
}

/// Asks for a name that is free, again and again, without waiting for the answers.
async fn flood(client: &mut Client, first: u64, count: u64) {
    for id in first..first + count {
        let frame = json!({"type": "query", "id": id, "name": "n"});
        client.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }
    client.socket.flush().await.unwrap();
}

async fn answers(client: &mut Client, first: u64, count: u64) {
    for id in first..first + count {
        assert_eq!(client.next().await["id"], id);
    }
}

#[tokio::test]
async fn a_session_that_sends_too_fast_is_read_more_slowly_and_loses_nothing() {
    let limits = LimitSettings { session_rate: 100, ..LimitSettings::default() };
    let server = TestServer::with(Config { limits, ..config(1_000) }).await;
    let mut client = server.client().await;
    let start = Instant::now();
    flood(&mut client, 1, 350).await;
    answers(&mut client, 1, 350).await;
    // A second of it at once, the rest at the rate; and longer than the lease, which the pongs renew
    // meanwhile.
    assert!(start.elapsed() >= Duration::from_millis(2_300), "{:?}", start.elapsed());
    let mut other = server.client().await;
    flood(&mut other, 1, 50).await;
    answers(&mut other, 1, 50).await;
}

#[tokio::test]
async fn a_call_that_is_answered_again_counts_as_one_that_is_carried_out_and_so_does_its_body() {
    let server = server(LimitSettings { tenant_rate: 20, ..LimitSettings::default() }).await;
    let here = [127, 0, 0, 1];
    let again = claim_with("Idempotency-Key: k\r\n", "default", "n");
    let mut statuses = Vec::new();
    for _ in 0..100 {
        statuses.push(problem(&call_from(&server, here, &again).await.1).0);
    }
    let admitted = statuses.iter().filter(|status| **status == 201).count();
    assert!((20..=60).contains(&admitted) && statuses.contains(&429), "{statuses:?}");
    // Thirty KiB that need not be carried out cost more than a second of the rate.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (head, body) = again.split_once("\r\n\r\n").unwrap();
    let length = format!("Content-Length: {}", body.len());
    let head = head.replace(&length, &format!("Content-Length: {}", body.len() + (30 << 10)));
    let long = format!("{head}\r\n\r\n{body}{}", " ".repeat(30 << 10));
    let (status, body, _) = problem(&call_from(&server, here, &long).await.1);
    assert_eq!((status, &body["code"]), (422, &json!("idempotency_mismatch")), "{body}");
    assert_eq!(problem(&call_from(&server, here, &again).await.1).0, 429);
}

#[tokio::test]
async fn pings_of_the_websocket_count_as_frames() {
    let server = server(LimitSettings { session_rate: 100, ..LimitSettings::default() }).await;
    let mut client = server.client().await;
    let start = Instant::now();
    for _ in 0..350 {
        client.socket.send(Message::Ping("".into())).await.unwrap();
    }
    flood(&mut client, 1, 1).await;
    answers(&mut client, 1, 1).await;
    // A second of it at once, the rest at the rate.
    assert!(start.elapsed() >= Duration::from_millis(2_300), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_tenant_over_its_rate_slows_down_only_itself() {
    let limits = LimitSettings { tenant_rate: 100, ..LimitSettings::default() };
    let tenants = TwoTenants::with(limits, 1_000).await;
    // Whatever partitions it names, it is one tenant.
    let (mut one, mut two) = (tenants.loud("?partition=a").await, tenants.loud("?partition=b").await);
    let (mut idle, mut other) = (tenants.loud("").await, tenants.quiet("").await);
    idle.join(1).await;
    idle.request(1, 1, "kept").await;
    idle.granted(1).await;
    let start = Instant::now();
    let loud = tokio::spawn(async move {
        flood(&mut one, 1, 200).await;
        flood(&mut two, 1, 200).await;
        tokio::join!(answers(&mut one, 1, 200), answers(&mut two, 1, 200));
        start.elapsed()
    });
    flood(&mut other, 1, 90).await;
    answers(&mut other, 1, 90).await;
    assert!(!loud.is_finished(), "the other has had to wait for it");
    // A client that does little in a tenant that does much keeps what it has: its pongs are read.
    let took = tokio::select! {
        took = loud => took.unwrap(),
        frame = idle.next_or_close() => panic!("{frame:?}"),
    };
    assert!(took >= Duration::from_millis(2_700), "{took:?}");
    assert_eq!(idle.query(2).await.0, ["kept"]);
}

#[tokio::test]
async fn sessions_that_do_little_pay_for_no_turns_and_soon_wait_for_none() {
    let server = server(LimitSettings { tenant_rate: 1000, ..LimitSettings::default() }).await;
    let mut clients = Vec::new();
    for _ in 0..160 {
        clients.push(server.client().await);
    }
    let dear = dear();
    let mut statuses = Vec::new();
    while statuses.last() != Some(&429) {
        assert!(statuses.len() < 1000, "never refused: {statuses:?}");
        statuses.push(problem(&call_from(&server, [127, 0, 0, 1], &dear).await.1).0);
    }
    // Each does one thing after the other, all of them together two thirds of the rate.
    for mut client in clients {
        tokio::spawn(async move {
            for id in 1.. {
                client.query(id).await;
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        });
    }
    let start = Instant::now();
    loop {
        // One that has paid for nothing yet.
        let mut client = server.client().await;
        client.query(1).await;
        // Another one right behind it waits, where there is anything to wait for.
        let asked = Instant::now();
        client.query(2).await;
        if asked.elapsed() < Duration::from_millis(50) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "it waits for turns that nobody takes");
    }
}

#[tokio::test]
async fn other_bounds_are_taken_over_while_it_runs() {
    let server = server(LimitSettings::default()).await;
    let _one = Client::hello(server.address, "?bucket=1").await;
    let wrong = LimitSettings { buckets_per_tenant: 0, ..LimitSettings::default() };
    let error = server.server.reload_limits(wrong).unwrap_err();
    assert_eq!(error.to_string(), "limits.buckets_per_tenant is 0, but must be from 1 to 1000000");
    Client::hello(server.address, "?bucket=2").await.close(1000).await;
    server.server.reload_limits(LimitSettings { buckets_per_tenant: 1, ..LimitSettings::default() }).unwrap();
    let start = Instant::now();
    // The second one is in use until its session has ended.
    while server.server.houses()[0].buckets().len() > 1 {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(refused_session(&server, "?bucket=2", None).await.1, "buckets_per_tenant");
}

#[tokio::test]
async fn a_session_that_has_much_to_do_gives_way_to_what_has_come_for_others() {
    const FRAMES: usize = 100;
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.join(1).await;
    let inner = server.server.clone();
    let held = move || inner.houses()[0].buckets().iter().map(Bucket::len).sum::<usize>();
    // On the one thread of this runtime, it has its turn when the session pauses, behind or before the next
    // one of that.
    let other = tokio::spawn(async move {
        let (mut before, mut most) = (0, 0);
        while before < FRAMES {
            tokio::task::yield_now().await;
            let now = held();
            most = most.max(now - before);
            before = now;
        }
        most
    });
    for id in 1..=FRAMES {
        let frame = json!({"type": "request", "seq": id + 1, "id": id, "agent": 1, "name": id.to_string()});
        client.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }
    client.socket.flush().await.unwrap();
    let most = timeout(PATIENCE, other).await.unwrap().unwrap();
    assert!(most <= 2 * 8, "{most} frames in one go");
}
