//! Who may read the metrics.

use std::fs;
use std::path::Path;

use reqwest::{Client, StatusCode};
use traces::Kind;

use crate::exposition::Exposition;
use crate::running::{Running, lockhouse, run_in_vain};

/// Draws a key and appends its section to the settings.
fn new_key(folder: &Path, arguments: &[&str]) -> String {
    let output = lockhouse(folder, &[&["key", "new"], arguments].concat()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let key = stderr.trim().rsplit_once("LOCKHOUSE_KEY=").unwrap().1.to_owned();
    traces::secret(Kind::ApiKey, &key);
    let file = folder.join("f.toml");
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::write(file, before + &String::from_utf8(output.stdout).unwrap()).unwrap();
    key
}

async fn status(url: &str, key: Option<&str>) -> StatusCode {
    let mut request = Client::new().get(url);
    if let Some(key) = key {
        request = request.header("Lockhouse-Key", key);
    }
    request.send().await.unwrap().status()
}

#[tokio::test]
async fn with_authentication_only_an_operator_of_the_default_tenant_reads_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let operator = new_key(folder.path(), &["--id", "operator", "--permission", "operate"]);
    let user = new_key(folder.path(), &["--id", "user", "--permission", "query"]);
    let other = new_key(folder.path(), &["--id", "acme", "--tenant", "acme", "--permission", "operate"]);
    let of_bucket = new_key(folder.path(), &["--id", "one", "--bucket", "one", "--permission", "operate"]);
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let url = format!("http://{}/metrics", server.address);
    for (key, expected) in [
        (None, 401),
        (Some(&operator), 200),
        (Some(&user), 403),
        (Some(&other), 403),
        (Some(&of_bucket), 403),
    ] {
        assert_eq!(status(&url, key.map(String::as_str)).await, expected, "{key:?}");
    }
}

#[tokio::test]
async fn a_listener_of_their_own_serves_metrics_and_health_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    new_key(folder.path(), &["--permission", "operate"]);
    let server = Running::start(folder.path(), &["--config", "f.toml", "--metrics-listen", "127.0.0.1:0"]);
    let url = server.announced.iter().find_map(|line| line.strip_prefix("metrics ")).unwrap();
    let seen = Exposition::of(url).await;
    assert_eq!(seen.value("lockhouse_ready"), 1.0);
    let base = url.strip_suffix("/metrics").unwrap();
    for (path, expected) in
        [("/livez", 200), ("/readyz", 200), ("/", 404), ("/v1/cluster", 404), ("/openapi.json", 404)]
    {
        assert_eq!(status(&format!("{base}{path}"), None).await, expected, "{path}");
    }
    let posted = Client::new().post(url).send().await.unwrap();
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(status(&format!("http://{}/metrics", server.address), None).await, 401);
}

#[tokio::test]
async fn a_server_that_counts_nothing_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.toml"), "metrics.enabled = false").unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let answer = Client::new().get(format!("http://{}/metrics", server.address)).send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains("metrics.enabled"));
    let vain = ["serve", "--store", "memory:", "--config", "f.toml", "--metrics-listen", "127.0.0.1:0"];
    let (code, _, stderr) = run_in_vain(&mut lockhouse(folder.path(), &vain));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("metrics.listen") && stderr.contains("only with metrics.enabled"), "{stderr}");
}

#[test]
fn an_address_for_the_metrics_that_is_of_no_use_is_reported_with_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh", "--metrics-listen"];
    let (code, said, stderr) =
        run_in_vain(&mut lockhouse(folder.path(), &[&serve[..], &[&address]].concat()));
    assert_eq!((code, &*said), (Some(1), ""));
    assert!(stderr.contains("metrics.listen: cannot listen on"), "{stderr}");
}
