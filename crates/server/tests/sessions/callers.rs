//! Callers that are told apart by their tokens alone.

use std::collections::BTreeSet;
use std::time::SystemTime;

use lockhouse_server::auth::Settings;
use serde_json::{Value, json};
use traces::Kind;

use crate::sessions::auth::{SECRET, issuer, server};

/// A token with that subject, if any; `number` tells it from others.
fn token(subject: Option<&str>, number: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({
        "iss": "idp", "aud": "lockhouse", "exp": now + 1000 + number, "tenant": "acme",
        "buckets": {"default": ["offline", "claim"]},
    });
    if let Some(subject) = subject {
        claims["sub"] = subject.into();
    }
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap();
    traces::secret(Kind::Token, &token);
    token
}

#[tokio::test]
async fn tokens_without_a_subject_share_no_idempotency_key() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&Settings { jwt: vec![issuer(&folder)], ..Settings::default() }).await;
    let http = reqwest::Client::new();
    let call = async |path: &str, token: &str, body: &Value| {
        let url = format!("http://{}/v1/buckets/default/{path}", server.address);
        let request = http.post(url).header("lockhouse-key", token).header("idempotency-key", "k");
        let request = request.header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    let mut secrets = BTreeSet::new();
    for (subject, owners) in [(None, 2), (Some(""), 4), (Some("ada"), 5)] {
        for number in [0, 1, 0] {
            let (status, body) = call("owners", &token(subject, number), &json!({"label": "Ada"})).await;
            assert_eq!(status, 201, "{body}");
            secrets.insert(body["ownerSecret"].as_str().unwrap().to_owned());
        }
        assert_eq!(secrets.len(), owners, "{subject:?}");
    }
    let claim = json!({"resource": "seat", "claimant": "Ada"});
    let (status, first) = call("claims", &token(None, 0), &claim).await;
    assert_eq!(status, 201, "{first}");
    traces::secret(Kind::ClaimToken, first["token"].as_str().unwrap());
    assert_eq!(call("claims", &token(None, 1), &claim).await.0, 409);
}
