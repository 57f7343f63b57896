//! The history of web locks beside that of the store.

use reqwest::Client;
use serde_json::{Value, json};

use crate::events::streams::{hold, post, url};
use crate::running::{Running, lockhouse};

async fn history(url: &str, query: &str) -> Value {
    let response =
        Client::new().get(format!("{url}/v1/buckets/default/history{query}")).send().await.unwrap();
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

/// All pages, as names with their ends.
async fn all(url: &str, filter: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = history(url, &format!("?limit=3{filter}{cursor}")).await;
        for entry in page["entries"].as_array().unwrap() {
            let [name, end] = ["name", "end"].map(|key| entry[key].as_str().unwrap().to_owned());
            found.push(format!("{name} {end}"));
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn web_locks_and_stored_holds_come_in_the_order_of_their_ends_and_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let usual = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:a.db"];
    let server = Running::of(lockhouse(folder.path(), &usual));
    let url = url(&server);
    for number in 0..4 {
        hold(folder.path(), &url, &format!("web/{number}"));
        let name = format!("claim/{number}");
        let claim = post(&url, "claims", json!({"resource": name, "claimant": "Anna"})).await;
        post(&url, "claims/release", json!({"resource": name, "token": claim["token"]})).await;
    }
    let mut expected: Vec<_> =
        (0..4).rev().flat_map(|n| [format!("claim/{n} released"), format!("web/{n} released")]).collect();
    let mut found = all(&url, "").await;
    let web = all(&url, "&kind=web").await;
    assert_eq!(web, expected.iter().filter(|it| it.starts_with("web")).cloned().collect::<Vec<_>>());
    assert_eq!(all(&url, "&kind=claim").await.len(), 4);
    // Ends of one tick of the clock may come in any order.
    expected.sort();
    found.sort();
    assert_eq!(found, expected);

    // What happens while pages are read is on none of them, or on the first.
    let first = history(&url, "?limit=2").await;
    hold(folder.path(), &url, "late");
    let cursor = first["next"].as_str().unwrap();
    let rest = history(&url, &format!("?limit=50&cursor={cursor}")).await;
    assert_eq!(rest["entries"].as_array().unwrap().len(), 6);
    assert!(rest["entries"].as_array().unwrap().iter().all(|entry| entry["name"] != "late"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_web_locks_says_who_waited_who_was_refused_and_for_how_often() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let url = url(&server);
    let claim = post(&url, "claims", json!({"resource": "report", "claimant": "Anna"})).await;
    for _ in 0..3 {
        let arguments =
            ["run", "report", "--if-available", "--client-id", "eager", "--url", &url, "--", "true"];
        let (code, ..) = crate::running::run(&mut lockhouse(folder.path(), &arguments));
        assert_eq!(code, Some(75));
    }
    post(&url, "claims/release", json!({"resource": "report", "token": claim["token"]})).await;
    let refused = history(&url, "?kind=web&end=refused").await;
    let entries = refused["entries"].as_array().unwrap();
    let count: u64 = entries.iter().map(|entry| entry["count"].as_u64().unwrap()).sum();
    assert_eq!(count, 3, "{refused}");
    let later = history(&url, "?kind=web&from=2999-01-01T00:00:00Z").await;
    assert_eq!(later["entries"], json!([]));
    let both = history(&url, "?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z").await;
    assert_eq!((&both["code"], &both["field"]), (&json!("invalid"), &json!("to")));
    for (query, field) in [
        ("?from=yesterday", "from"),
        ("?kind=lock", "kind"),
        ("?cursor=4711", "cursor"),
        ("?limit=0", "limit"),
    ] {
        assert_eq!(history(&url, query).await["field"], field, "{query}");
    }
}
