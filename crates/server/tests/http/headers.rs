//! Headers of answers, for all that stands between a server and its clients.

use reqwest::Method;
use serde_json::json;

use crate::http::calls::{Answer, Api};

/// No cache keeps the answer for another caller.
fn is_for_no_cache(answer: &Answer) -> bool {
    let vary: Vec<_> = answer.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
    let vary = vary.join(", ");
    let varies = ["authorization", "lockhouse-key"].iter().all(|name| vary.contains(name));
    varies && answer.headers.get_all("cache-control").iter().eq(["no-store"])
}

#[tokio::test]
async fn no_answer_below_v1_is_for_a_cache() {
    let api = Api::new();
    let owner = api.owner("Anna").await;
    let page = [("origin", "http://localhost:3000")];
    let elsewhere = [("origin", "https://evil.example")];
    let preflight = [page[0], ("access-control-request-method", "POST")];
    for (status, answer) in [
        (200, api.get("query").await),
        (200, api.send(Method::GET, "query", &page, None).await),
        (200, api.send(Method::OPTIONS, "query", &preflight, None).await),
        (200, api.send(Method::HEAD, "locks", &[], None).await),
        (200, api.as_owner(Method::GET, &owner, &format!("owners/{}", owner.id)).await),
        (201, api.post("claims", json!({"resource": "seat", "claimant": "Anna"})).await),
        (401, api.get(&format!("owners/{}", owner.id)).await),
        (403, api.send(Method::GET, "query", &elsewhere, None).await),
        (404, api.get("nothing").await),
        (404, api.get("/v1/nothing").await),
        (405, api.send(Method::PUT, "query", &[], None).await),
        (409, api.post("claims", json!({"resource": "seat", "claimant": "Bob"})).await),
        (422, api.get("query?limit=0").await),
        (426, api.get("/v1/ws").await),
    ] {
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(is_for_no_cache(&answer), "{answer:?}");
    }
}

#[tokio::test]
async fn the_place_of_a_new_owner_is_relative_and_survives_a_prefix() {
    let api = Api::new();
    let opened = api.post("owners", json!({"label": "Anna"})).await;
    let request = "https://proxy.example/locks/v1/buckets/default/owners".parse::<reqwest::Url>().unwrap();
    let place = request.join(opened.header("location")).unwrap();
    let expected = format!("/locks/v1/buckets/default/owners/{}", opened.text("owner"));
    assert_eq!(place.path(), expected);
}

#[tokio::test]
async fn the_type_of_a_problem_is_relative_and_survives_a_prefix() {
    let api = Api::new();
    let owner = api.owner("Anna").await;
    for (path, word) in [
        ("query?limit=0", "invalid"),
        ("owners/7", "unauthorized"),
        (&*format!("owners/{}/nothing", owner.id), "not_found"),
        ("/v1/nothing/at/all/", "not_found"),
        ("/problems/nothing", "not_found"),
    ] {
        let answer = api.get(path).await;
        assert_eq!(answer.text("code"), word, "{answer:?}");
        let path =
            if path.starts_with('/') { path.to_owned() } else { format!("/v1/buckets/default/{path}") };
        let request = format!("https://proxy.example/locks{path}").parse::<reqwest::Url>().unwrap();
        let explanation = request.join(&answer.text("type")).unwrap();
        assert_eq!(explanation.as_str(), format!("https://proxy.example/locks/problems/{word}"));
        let explained = api.get(explanation.path().strip_prefix("/locks").unwrap()).await;
        assert_eq!(explained.status, 200);
    }
}

#[tokio::test]
async fn an_answer_says_how_long_its_connection_may_be_idle() {
    let api = Api::new();
    assert_eq!(api.get("query").await.header("keep-alive"), "timeout=75");
    assert_eq!(
        api.send(Method::GET, "query", &[("connection", "close")], None).await.header("keep-alive"),
        ""
    );
}
