//! What is counted.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lockhouse::remote::connect;

use crate::exposition::Exposition;
use crate::running::{Running, lockhouse};

async fn scrape(server: &Running) -> Exposition {
    Exposition::of(&format!("http://{}/metrics", server.address)).await
}

fn url(server: &Running) -> String {
    format!("http://{}", server.address)
}

/// A server that keeps a history.
fn with_database(folder: &Path) -> Running {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:lockhouse.db"];
    Running::of(lockhouse(folder, &serve))
}

/// Scrapes until that is seen.
async fn until(server: &Running, is_seen: impl Fn(&Exposition) -> bool) -> Exposition {
    let begun = Instant::now();
    loop {
        let seen = scrape(server).await;
        if is_seen(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{seen:#?}");
    }
}

#[tokio::test]
async fn what_clients_do_is_counted_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let connection = connect(url(&server)).await.unwrap();
    let (one, other) = (connection.agent("one").unwrap(), connection.agent("other").unwrap());
    let held = one.locks().request("n").await.unwrap();
    assert!(other.locks().request("n").if_available().await.is_err());
    let claims = connection.claims();
    let claim = claims.claim("seat", "Ada", Duration::from_secs(60)).await.unwrap();
    assert!(claims.claim("seat", "Bob", Duration::from_secs(60)).await.is_err());
    let seen = scrape(&server).await;
    let value =
        |name: &str, labels: &str| seen.value(&format!("lockhouse_{name}{{bucket=\"default\",{labels}}}"));
    let (web, of_claim) = (r#"discipline="web""#, r#"discipline="claim""#);
    assert_eq!(
        [value("requests_total", web), value("grants_total", web), value("held", web)],
        [2.0, 1.0, 1.0]
    );
    assert_eq!(value("refusals_total", r#"discipline="web",reason="taken""#), 1.0);
    // The third one is the session.
    assert_eq!(value("leases", web), 3.0);
    assert_eq!([value("requests_total", of_claim), value("grants_total", of_claim)], [2.0, 1.0]);
    assert_eq!(value("refusals_total", r#"discipline="claim",reason="taken""#), 1.0);
    assert_eq!([seen.value("lockhouse_sessions"), seen.value("lockhouse_ready")], [1.0, 1.0]);
    assert!(seen.value("lockhouse_connections") >= 1.0);

    let thief = other.locks().request("n").steal().await.unwrap();
    held.lost().await;
    thief.release().await.unwrap();
    claim.release().await.unwrap();
    let seen = scrape(&server).await;
    let value =
        |name: &str, labels: &str| seen.value(&format!("lockhouse_{name}{{bucket=\"default\",{labels}}}"));
    assert_eq!(value("lost_total", r#"discipline="web",reason="stolen""#), 1.0);
    assert_eq!([value("held", web), value("held", of_claim)], [0.0, 0.0]);
    assert_eq!([value("hold_seconds_count", web), value("hold_seconds_count", of_claim)], [2.0, 1.0]);
    assert_eq!(seen.value(r#"lockhouse_wait_seconds_count{bucket="default"}"#), 2.0);
}

#[tokio::test]
async fn refusals_that_do_not_fit_on_their_way_into_the_history_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let server = with_database(folder.path());
    let connection = connect(url(&server)).await.unwrap();
    let claims = connection.claims();
    let _claim = claims.claim("seat", "Ada", Duration::from_secs(60)).await.unwrap();
    for number in 0..1500 {
        claims.claim("seat", &*format!("Bob {number:0100}"), Duration::from_secs(60)).await.unwrap_err();
    }
    let left_out = scrape(&server).await.value("lockhouse_history_left_out_total");
    assert!((1.0..1500.0).contains(&left_out), "{left_out}");
}

#[tokio::test]
async fn a_stop_logs_how_many_refusals_it_leaves_out_of_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let server = with_database(folder.path());
    let connection = connect(url(&server)).await.unwrap();
    let claims = connection.claims();
    let _claim = claims.claim("seat", "Ada", Duration::from_secs(60)).await.unwrap();
    for number in 0..200 {
        claims.claim("seat", &*format!("Bob {number}"), Duration::from_secs(60)).await.unwrap_err();
    }
    connection.close().await;
    let (_, log) = server.terminate();
    assert!(
        log.iter().any(|line| line.contains("refusals are in no history") && line.contains("count=")),
        "{log:#?}"
    );
}

#[tokio::test]
async fn a_request_that_waits_is_seen_with_its_age_and_its_wait_is_counted_once_it_is_granted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let connection = connect(url(&server)).await.unwrap();
    let (one, other) = (connection.agent("one").unwrap(), connection.agent("other").unwrap());
    let held = one.locks().request("n").await.unwrap();
    let waiting = tokio::spawn(other.locks().request("n").into_future());
    // The age is known to a second.
    until(&server, |seen| {
        seen.sum("lockhouse_waiting") == 1.0 && seen.sum("lockhouse_longest_wait_seconds") >= 1.5
    })
    .await;
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    let seen = scrape(&server).await;
    assert_eq!(seen.value(r#"lockhouse_waiting{bucket="default"}"#), 0.0);
    assert_eq!(seen.value(r#"lockhouse_longest_wait_seconds{bucket="default"}"#), 0.0);
    assert!(seen.value(r#"lockhouse_wait_seconds_sum{bucket="default"}"#) >= 0.4);
    assert_eq!(seen.value(r#"lockhouse_wait_seconds_bucket{le="+Inf",bucket="default"}"#), 2.0);
}

#[tokio::test]
async fn a_holder_that_is_killed_has_lost_its_lock_by_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &["--lease", "500ms"]);
    // The command runs until its input ends.
    let mut holder = lockhouse(folder.path(), &["run", "n", "--", "cat"])
        .env("LOCKHOUSE_URL", url(&server))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(&server, |seen| seen.sum("lockhouse_held") == 1.0).await;
    holder.kill().unwrap();
    holder.wait().unwrap();
    let lost = r#"lockhouse_lost_total{bucket="default",discipline="web",reason="lease"}"#;
    let seen = until(&server, |seen| seen.sum("lockhouse_lost_total") > 0.0).await;
    assert_eq!([seen.value(lost), seen.sum("lockhouse_lost_total")], [1.0, 1.0]);
    assert_eq!(seen.sum("lockhouse_held"), 0.0);
}

#[tokio::test]
async fn labels_are_bounded_and_counts_outlive_their_buckets() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let mut earlier = scrape(&server).await;
    for part in 0..3 {
        for number in 0..50 {
            let bucket = format!("b{}", 50 * part + number);
            let connection = connect(url(&server)).bucket(&bucket).await.unwrap();
            let agent = connection.agent("a").unwrap();
            agent.locks().request("n").await.unwrap().release().await.unwrap();
            connection.close().await;
        }
        let seen = scrape(&server).await;
        seen.assert_grown_since(&earlier);
        earlier = seen;
    }
    let granted = "lockhouse_grants_total";
    assert_eq!(earlier.of_name(granted).count(), 3 * 101);
    assert_eq!(earlier.sum(granted), 150.0);
    assert_eq!(earlier.value(r#"lockhouse_grants_total{bucket="other",discipline="web"}"#), 50.0);
}

#[tokio::test]
async fn only_listed_buckets_have_labels_and_any_name_is_written_so_that_it_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let listed = r#"metrics.buckets = ["a", "quote\" and \\"]"#;
    std::fs::write(folder.path().join("f.toml"), listed).unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    for bucket in ["a", "b", "c", "quote\" and \\"] {
        let connection = connect(url(&server)).bucket(bucket).await.unwrap();
        drop(connection.agent("a").unwrap().locks().request("n").await.unwrap());
    }
    let seen = scrape(&server).await;
    let granted = |bucket: &str| {
        seen.value(&format!(r#"lockhouse_grants_total{{bucket="{bucket}",discipline="web"}}"#))
    };
    assert_eq!([granted("a"), granted("other"), granted(r#"quote\" and \\"#)], [1.0, 2.0, 1.0]);
}

#[tokio::test]
async fn no_label_has_the_name_of_a_lock_an_owner_or_a_client_and_their_number_does_not_grow_with_these() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let connection = connect(url(&server)).await.unwrap();
    let ttl = Duration::from_secs(60);
    let mut earlier: Option<Vec<String>> = None;
    for turn in 0..5 {
        let named = |kind: &str| format!("secret-{kind}-{turn}");
        let (one, other) = (connection.agent(&named("agent")).unwrap(), connection.agent("other").unwrap());
        let held = one.locks().request(&named("web")).await.unwrap();
        let (waiter, name) = (connection.agent("waiter").unwrap(), named("web"));
        let waiting = tokio::spawn(async move { drop(waiter.locks().request(&name).await.unwrap()) });
        let stolen = one.locks().request(&named("stolen")).await.unwrap();
        let thief = other.locks().request(&named("stolen")).steal().await.unwrap();
        connection.claims().claim(&named("claim"), named("claimant"), ttl).await.unwrap();
        let owner = connection.owners().open(named("owner"), ttl).await.unwrap();
        let keys: Vec<String> = scrape(&server).await.keys().map(str::to_owned).collect();
        assert!(keys.len() > 100);
        let revealing: Vec<_> = keys.iter().filter(|key| key.contains("secret")).collect();
        assert!(revealing.is_empty(), "{revealing:?}");
        if let Some(earlier) = earlier.replace(keys.clone()) {
            assert_eq!(keys, earlier);
        }
        drop((held, stolen, thief, owner));
        waiting.await.unwrap();
    }
}
