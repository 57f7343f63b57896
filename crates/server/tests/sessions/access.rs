//! The clients that may connect, and the separation of buckets and partitions.

use lockhouse_server::Config;
use serde_json::json;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};

use crate::sessions::support::{Client, TestServer, config};

/// The status with which a handshake is answered.
async fn handshake(server: &TestServer, query: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = format!("ws://{}/v1/ws{query}", server.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("lockhouse.v1"));
    for (key, value) in headers {
        request
            .headers_mut()
            .insert(HeaderName::try_from(*key).unwrap(), HeaderValue::try_from(*value).unwrap());
    }
    match connect_async(request).await {
        Ok(_) => 101,
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused_with_403() {
    let allowed = Config { allowed_origins: vec!["https://app.example".parse().unwrap()], ..config(10_000) };
    let server = TestServer::with(allowed).await;
    assert_eq!(handshake(&server, "", &[]).await, 101);
    assert_eq!(handshake(&server, "", &[("origin", "http://localhost:3000")]).await, 101);
    assert_eq!(handshake(&server, "", &[("origin", "https://app.example")]).await, 101);
    assert_eq!(handshake(&server, "", &[("origin", "https://evil.example")]).await, 403);
    assert_eq!(handshake(&server, "", &[("origin", "null")]).await, 403);
    assert_eq!(handshake(&server, "", &[("host", "evil.example")]).await, 403);
    assert_eq!(handshake(&server, "", &[("host", "app.example")]).await, 101);
}

#[tokio::test]
async fn a_handshake_without_a_known_version_is_answered_with_400() {
    let server = TestServer::start().await;
    assert_eq!(handshake(&server, "", &[("sec-websocket-protocol", "lockhouse.v9")]).await, 400);
    let offers = [("sec-websocket-protocol", "lockhouse.v9, lockhouse.v1")];
    assert_eq!(handshake(&server, "", &offers).await, 101);
    assert_eq!(handshake(&server, "", &[("sec-websocket-version", "12")]).await, 400);
}

#[tokio::test]
async fn bucket_and_partition_have_at_most_256_bytes() {
    let server = TestServer::start().await;
    for field in ["bucket", "partition"] {
        assert_eq!(handshake(&server, &format!("?{field}={}", "x".repeat(256)), &[]).await, 101);
        assert_eq!(handshake(&server, &format!("?{field}={}", "x".repeat(257)), &[]).await, 400);
    }
    assert_eq!(handshake(&server, "?bucket=a&bucket=b", &[]).await, 400);
}

#[tokio::test]
async fn two_connections_share_locks_exactly_if_bucket_and_partition_are_equal() {
    let server = TestServer::start().await;
    let scopes = ["", "?bucket=a", "?partition=a", "?bucket=a&partition=a", "?bucket=a%26partition"];
    let mut holders = Vec::new();
    for scope in scopes {
        let mut client = Client::hello(server.address, scope).await;
        client.join(1).await;
        client.request(1, 1, "n").await;
        client.granted(1).await;
        holders.push(client);
    }
    for scope in scopes.into_iter().chain(["?bucket=default", "?partition=&bucket=default"]) {
        let mut client = Client::hello(server.address, scope).await;
        client.join(1).await;
        client.call(json!({"type": "request", "id": 1, "agent": 1, "name": "n", "ifAvailable": true})).await;
        assert_eq!(client.next().await["type"], "refused", "{scope}");
        assert_eq!(client.query(2).await.0, ["n"], "{scope}");
    }
}
