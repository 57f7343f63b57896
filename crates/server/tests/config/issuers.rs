//! Keys of issuers in a file that the issuer changes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;
use traces::Kind;

use crate::running::Running;

const PATIENCE: Duration = Duration::from_secs(20);
const SECRETS: [&str; 2] =
    ["a secret of the issuer that is long enough", "another secret of the issuer, as long"];

/// The set of these keys, each with its number as `kid`.
fn write(folder: &Path, keys: &[usize]) {
    let jwk = |number: &usize| {
        let key = EncodingKey::from_secret(SECRETS[*number].as_bytes());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::HS256).unwrap();
        jwk.common.key_id = Some(number.to_string());
        jwk
    };
    let set = JwkSet { keys: keys.iter().map(jwk).collect() };
    // As issuers do: no reader finds half of it.
    fs::write(folder.join("next.json"), serde_json::to_string(&set).unwrap()).unwrap();
    fs::rename(folder.join("next.json"), folder.join("keys.json")).unwrap();
}

fn token(number: usize) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({"iss": "idp", "aud": "lockhouse", "exp": now + 1000, "buckets": {"*": ["query"]}});
    let header = Header { kid: Some(number.to_string()), ..Header::default() };
    let key = EncodingKey::from_secret(SECRETS[number].as_bytes());
    let token = jsonwebtoken::encode(&header, &claims, &key).unwrap();
    traces::secret(Kind::Token, &token);
    token
}

#[tokio::test]
async fn the_keys_of_an_issuer_are_read_again_when_their_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[0]);
    let settings = "[[auth.jwt]]\nid = \"idp\"\nalgorithm = \"HS256\"\njwks_file = \"keys.json\"\n\
        issuer = \"idp\"\naudience = \"lockhouse\"\ntenant = \"acme\"\n";
    fs::write(folder.path().join("f.toml"), settings).unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let client = reqwest::Client::new();
    let status = async |token: &str| {
        let url = format!("http://{}/v1/buckets/default/query", server.address);
        client.get(url).header("lockhouse-key", token).send().await.unwrap().status().as_u16()
    };
    let becomes = async |token: &str, expected: u16| {
        let begin = Instant::now();
        while status(token).await != expected {
            assert!(begin.elapsed() < PATIENCE, "it never becomes {expected}");
        }
    };
    let [old, new] = [0, 1].map(token);
    assert_eq!((status(&old).await, status(&new).await), (200, 401));
    write(folder.path(), &[0, 1]);
    becomes(&new, 200).await;
    assert_eq!(status(&old).await, 200);
    write(folder.path(), &[1]);
    becomes(&old, 401).await;
    assert_eq!(status(&new).await, 200);
    // What is of no use takes nothing away.
    fs::write(folder.path().join("keys.json"), "nonsense").unwrap();
    server.log("the former keys of the issuer stay in use");
    assert_eq!(status(&new).await, 200);
}
