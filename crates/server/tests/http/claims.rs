//! Claims, assignments, and what of both survives.

use reqwest::Method;
use serde_json::json;

use crate::http::calls::{Api, PATIENCE};
use crate::process::ServerProcess;

#[tokio::test]
async fn claim_claim_finalize_finalize_answer_201_409_200_200() {
    let api = Api::new();
    let claimed = api.claim("seat/12a", "Anna").await;
    assert_eq!(claimed.status, 201, "{claimed:?}");
    for key in ["resource", "claimant", "token", "expiresAt", "fencingToken"] {
        assert!(!claimed.body[key].is_null(), "{key}");
    }
    let token = claimed.text("token");
    let refused = api.claim("seat/12a", "Bob").await;
    assert_eq!(refused.outcome(), (409, "claimed"));
    assert_eq!(
        (&refused.body["holders"][0]["label"], &refused.body["expiresAt"]),
        (&json!("Anna"), &claimed.body["expiresAt"])
    );
    assert!(!refused.body.to_string().contains(&token));
    let first = api.with_token("finalize", "seat/12a", &token).await;
    let second = api.with_token("finalize", "seat/12a", &token).await;
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.body, second.body);
    assert_eq!(api.claim("seat/12a", "Bob").await.outcome(), (409, "already_assigned"));
}

#[tokio::test]
async fn a_stale_worker_learns_that_its_claim_is_lost_and_harms_no_other_cl_013() {
    let api = Api::new();
    let stale =
        api.post("claims", json!({"resource": "r", "claimant": "A", "ttlMs": 100})).await.text("token");
    let begin = std::time::Instant::now();
    let fresh = loop {
        let claimed = api.claim("r", "B").await;
        if claimed.status == 201 {
            break claimed.text("token");
        }
        assert!(begin.elapsed() < PATIENCE, "never free");
    };
    for what in ["finalize", "renew", "release"] {
        assert_eq!(api.with_token(what, "r", &stale).await.outcome(), (409, "claim_lost"), "{what}");
    }
    assert_eq!(api.with_token("finalize", "r", &fresh).await.body["claimant"], "B");
    for (what, token) in [("finalize", &*stale), ("renew", &stale), ("release", "nonsense")] {
        let refused = api.with_token(what, "r", token).await;
        assert_eq!(refused.outcome(), (409, "claim_lost"), "{what}");
        assert_eq!(refused.body["assignment"]["claimant"], "B", "{what}");
    }
}

#[tokio::test]
async fn without_a_claim_everything_is_expired_also_a_second_release_cl_007_cl_012() {
    let api = Api::new();
    let token = api.claim("r", "A").await.text("token");
    assert_eq!(api.with_token("release", "r", &token).await.body, json!({"resource": "r", "released": true}));
    for what in ["release", "renew", "finalize"] {
        assert_eq!(api.with_token(what, "r", &token).await.outcome(), (410, "claim_expired"), "{what}");
        assert_eq!(api.with_token(what, "r", "nonsense").await.outcome(), (410, "claim_expired"), "{what}");
    }
    assert_eq!(api.claim("r", "B").await.status, 201, "the resource is free at once");
    assert_eq!(api.with_token("finalize", "r", "nonsense").await.outcome(), (409, "claim_lost"));
}

#[tokio::test]
async fn an_assignment_is_seen_and_taken_back() {
    let api = Api::new();
    assert_eq!(api.get("assignments?resource=r%2F1").await.outcome(), (404, "not_found"));
    let claimed = api.claim("r/1", "A").await;
    let (token, fencing_token) = (claimed.text("token"), claimed.body["fencingToken"].as_u64().unwrap());
    assert_eq!(api.get("assignments?resource=r%2F1").await.status, 404, "pending is not final");
    api.with_token("finalize", "r/1", &token).await;
    let shown = api.get("assignments?resource=r%2F1").await;
    assert_eq!((shown.status, &shown.body["claimant"]), (200, &json!("A")));
    let delete = |query: String| {
        let api = &api;
        async move {
            let deleted = api.send(Method::DELETE, &format!("assignments?{query}"), &[], None).await;
            (deleted.status, deleted.body["unassigned"].as_bool())
        }
    };
    assert_eq!(delete(format!("resource=r/1&fencingToken={}", fencing_token + 1)).await, (200, Some(false)));
    assert_eq!(
        api.get("assignments?resource=r/1").await.status,
        200,
        "another token names another assignment"
    );
    assert_eq!(delete(format!("resource=r/1&fencingToken={fencing_token}")).await, (200, Some(true)));
    assert_eq!(delete("resource=r/1".to_owned()).await, (200, Some(false)));
    assert_eq!(api.with_token("finalize", "r/1", &token).await.outcome(), (410, "claim_expired"));
    assert_eq!(api.claim("r/1", "B").await.status, 201);
}

#[tokio::test]
async fn a_claim_is_shown_to_everybody_without_its_token() {
    let api = Api::new();
    assert_eq!(api.get("claims?resource=r%2F1").await.outcome(), (404, "not_found"));
    let claimed = api.claim("r/1", "A").await;
    let shown = api.get("claims?resource=r%2F1").await;
    assert_eq!((shown.status, &shown.body["claimant"]), (200, &json!("A")));
    assert_eq!(shown.body["fencingToken"], claimed.body["fencingToken"]);
    assert_eq!(shown.body["expiresAt"], claimed.body["expiresAt"]);
    assert!(!shown.body.to_string().contains(&claimed.text("token")));
    api.with_token("finalize", "r/1", &claimed.text("token")).await;
    let refused = api.claim("r/1", "B").await;
    assert_eq!(refused.outcome(), (409, "already_assigned"));
    assert_eq!(refused.body["assignment"], api.get("assignments?resource=r%2F1").await.body);
}

#[tokio::test]
async fn a_claim_key_finds_the_claim_while_it_lives_and_makes_a_new_one_after_that() {
    let api = Api::new();
    let claim = |claimant: &'static str, key: &'static str| {
        let api = &api;
        async move { api.post("claims", json!({"resource": "r", "claimant": claimant, "claimKey": key})).await }
    };
    let first = claim("A", "k").await;
    assert_eq!(claim("A", "k").await.text("token"), first.text("token"));
    assert_eq!(claim("A", "l").await.outcome(), (409, "claimed"));
    assert_eq!(claim("B", "k").await.outcome(), (409, "claimed"));
    api.with_token("release", "r", &first.text("token")).await;
    assert_ne!(claim("A", "k").await.text("token"), first.text("token"));
    let long = "k".repeat(257);
    let refused = api.post("claims", json!({"resource": "r", "claimant": "A", "claimKey": long})).await;
    assert_eq!(refused.outcome(), (422, "invalid"));
    assert!(!refused.body.to_string().contains("kkkk"), "a key is as good as a secret");
}

#[tokio::test]
async fn a_name_held_by_an_offline_lock_is_busy() {
    let api = Api::new();
    let anna = api.owner("Anna").await;
    api.lock(&anna, "1", "write").await;
    let refused = api.claim("customer/1", "Bob").await;
    assert_eq!(refused.outcome(), (409, "busy"));
    let holder = &refused.body["holders"][0];
    assert_eq!((&holder["kind"], &holder["label"]), (&json!("offline"), &json!("Anna")));
}

#[tokio::test]
async fn a_query_shows_every_discipline_and_filters_and_pages() {
    let api = Api::new();
    let anna = api.owner("Anna").await;
    api.lock(&anna, "1", "write").await;
    let token = api.claim("a/1", "A").await.text("token");
    api.with_token("finalize", "a/1", &token).await;
    for number in 0..5 {
        api.claim(&format!("c/{number}"), "C").await;
    }
    let names = |query: &str| {
        let path = format!("query?{query}");
        let api = &api;
        async move {
            let page = api.get(&path).await;
            assert_eq!(page.status, 200, "{page:?}");
            let entries = page.body["entries"].as_array().unwrap();
            entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        }
    };
    assert_eq!(names("kind=offline").await, ["customer/1"]);
    assert_eq!(names("kind=assignment").await, ["a/1"]);
    assert_eq!(names("state=assigned").await, ["a/1"]);
    assert_eq!(names(&format!("owner={}", anna.id)).await, ["customer/1"]);
    assert_eq!(names("prefix=c%2F&kind=claim").await.len(), 5);
    assert_eq!(names("kind=web").await, [""; 0]);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("query?limit=2{cursor}")).await.body;
        let entries = page["entries"].as_array().unwrap();
        assert!(entries.len() <= 2);
        seen.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a/1", "c/0", "c/1", "c/2", "c/3", "c/4", "customer/1"]);
}

#[tokio::test]
async fn pages_show_once_what_is_there_all_the_time_also_if_it_is_granted_meanwhile() {
    let api = Api::new();
    let connection = lockhouse::remote::connect(api.server.url()).await.unwrap();
    let held = connection.agent("first").unwrap().locks().request("n").await.unwrap();
    let mut waiting = Vec::new();
    for (client, before) in [("second", 1), ("third", 2), ("fourth", 3)] {
        let agent = connection.agent(client).unwrap();
        waiting.push(tokio::spawn(async move { agent.locks().request("n").await.unwrap() }));
        while api.get("query").await.body["entries"].as_array().unwrap().len() == before {}
    }
    let page = async |cursor: &str| {
        let page = api.get(&format!("query?limit=2{cursor}")).await.body;
        let clients = page["entries"].as_array().unwrap().iter().map(|entry| entry["clientId"].clone());
        (clients.collect::<Vec<_>>(), page["next"].as_str().map(|next| format!("&cursor={next}")))
    };
    let (first, next) = page("").await;
    assert_eq!(first, ["first", "second"]);
    held.release().await.unwrap();
    let _second = waiting.remove(0).await.unwrap();
    let (rest, next) = page(&next.unwrap()).await;
    assert_eq!((rest, next), (vec![json!("third"), json!("fourth")], None));
}

#[tokio::test]
async fn what_was_answered_survives_a_kill_and_tokens_go_on_above() {
    let mut api = Api::over(ServerProcess::with_file("500ms"));
    let anna = api.owner("Anna").await;
    let before = api.lock(&anna, "1", "write").await.body["locks"][0]["fencingToken"].as_u64().unwrap();
    let claimed = api.claim("seat", "A").await;
    let (token, claim_number) = (claimed.text("token"), claimed.body["fencingToken"].as_u64().unwrap());
    let key = [("content-type", "application/json"), ("idempotency-key", "k-1")];
    let again = json!({"resource": "again", "claimant": "A"}).to_string();
    let keyed = api.send(Method::POST, "claims", &key, Some(again.clone())).await;
    api.restart();

    assert_eq!(api.locked().await, ["customer/1"]);
    let repeated = api.send(Method::POST, "claims", &key, Some(again)).await;
    assert_eq!((repeated.status, &repeated.body["token"]), (201, &keyed.body["token"]));
    let begin = std::time::Instant::now();
    let after = loop {
        let answer = api.lock(&anna, "2", "write").await;
        if answer.status == 201 {
            break answer.body["locks"][0]["fencingToken"].as_u64().unwrap();
        }
        assert_eq!(answer.outcome(), (503, "recovering"));
        assert!(!answer.header("retry-after").is_empty() && begin.elapsed() < PATIENCE, "{answer:?}");
    };
    assert!(after > before.max(claim_number));
    let finalized = api.with_token("finalize", "seat", &token).await;
    assert_eq!((finalized.status, &finalized.body["fencingToken"]), (200, &json!(claim_number)));
    api.restart();
    assert_eq!(api.with_token("finalize", "seat", &token).await.body, finalized.body);
}

#[tokio::test]
async fn a_renewal_with_another_ttl_is_refused() {
    let api = Api::new();
    let token = api.claim("seat", "Anna").await.text("token");
    for what in ["renew", "release", "finalize"] {
        let body = json!({"resource": "seat", "token": token, "ttlMs": 86_400_000});
        let refused = api.post(&format!("claims/{what}"), body).await;
        assert_eq!((refused.outcome(), &*refused.text("field")), ((422, "invalid"), "ttlMs"), "{refused:?}");
    }
    assert_eq!(api.post("claims/renew", json!({"resource": "seat", "token": token})).await.status, 200);
}
