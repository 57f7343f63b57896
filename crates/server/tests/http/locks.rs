//! Owners and their offline locks.

use reqwest::Method;
use serde_json::{Value, json};

use crate::http::calls::{Answer, Api, Owner, PATIENCE};
use crate::process::ServerProcess;

#[tokio::test]
async fn a_second_editor_is_refused_at_once_with_the_first_as_holder_ol_001_ol_034() {
    let api = Api::new();
    let (anna, bob) = (api.owner("Anna").await, api.owner("Bob").await);
    let granted = api.lock(&anna, "42", "write").await;
    assert_eq!(granted.status, 201, "{granted:?}");
    let lock = &granted.body["locks"][0];
    assert_eq!(
        (&lock["name"], &lock["mode"], &lock["how"]),
        (&json!("customer/42"), &json!("exclusive"), &json!("fresh"))
    );

    let refused = api.lock(&bob, "42", "read").await;
    assert_eq!(refused.outcome(), (423, "locked"));
    assert_eq!(refused.header("content-type"), "application/problem+json");
    let conflict = &refused.body["conflicts"][0];
    assert_eq!((&conflict["kind"], &conflict["id"]), (&json!("customer"), &json!("42")));
    assert_eq!(conflict["holders"][0]["label"], "Anna");
    assert_eq!(conflict["holders"][0]["owner"], anna.id.as_str());
    assert!(!refused.body.to_string().contains(&anna.secret));
    assert_eq!(api.locked().await, ["customer/42"]);
}

#[tokio::test]
async fn several_locks_are_granted_all_or_none_and_in_the_order_asked() {
    let api = Api::new();
    let (anna, bob) = (api.owner("Anna").await, api.owner("Bob").await);
    api.lock(&anna, "2", "write").await;
    let wanted = |ids: [&str; 3]| {
        let locks = ids.map(|id| json!({"kind": "customer", "id": id, "intent": "write"}));
        json!({"owner": bob.id, "locks": locks})
    };
    let refused = api.post_as(&bob, "locks", wanted(["1", "2", "3"])).await;
    assert_eq!((refused.status, refused.body["conflicts"].as_array().unwrap().len()), (423, 1));
    assert_eq!(api.locked().await, ["customer/2"]);
    let granted = api.post_as(&bob, "locks", wanted(["5", "4", "5"])).await;
    let ids: Vec<_> =
        granted.body["locks"].as_array().unwrap().iter().map(|lock| lock["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["5", "4", "5"]);
    assert_eq!(api.locked().await, ["customer/2", "customer/4", "customer/5"]);
}

#[tokio::test]
async fn an_owner_has_its_locks_already_and_the_sole_reader_becomes_the_writer_ol_044() {
    let api = Api::new();
    let anna = api.owner("Anna").await;
    let how = |answer: &Answer| answer.body["locks"][0]["how"].as_str().unwrap().to_owned();
    assert_eq!(how(&api.lock(&anna, "1", "read").await), "fresh");
    assert_eq!(how(&api.lock(&anna, "1", "read").await), "alreadyHeld");
    assert_eq!(how(&api.lock(&anna, "1", "write").await), "upgraded");
    let last = api.lock(&anna, "1", "read").await;
    assert_eq!((how(&last), &last.body["locks"][0]["mode"]), ("alreadyHeld".to_owned(), &json!("exclusive")));
    let released = api.post_as(&anna, "locks/release", json!({"owner": anna.id, "all": true})).await;
    assert_eq!(released.body, json!({"released": 1}));
}

#[tokio::test]
async fn names_are_locked_as_they_are_by_programs_that_know_their_lock_types() {
    let api = Api::new();
    let (anna, bob) = (api.owner("Anna").await, api.owner("Bob").await);
    let lock = |locks: Value| json!({"owner": anna.id, "locks": locks});
    let wanted =
        json!([{"name": "report", "mode": "shared"}, {"kind": "customer", "id": "1", "intent": "write"}]);
    let granted = api.post_as(&anna, "locks", lock(wanted)).await;
    let lock_at = |at: usize| {
        ["name", "kind", "id", "intent", "mode"].map(|key| granted.body["locks"][at][key].clone())
    };
    assert_eq!(lock_at(0), [json!("report"), json!(""), json!(""), json!(null), json!("shared")]);
    assert_eq!(
        lock_at(1),
        [json!("customer/1"), json!("customer"), json!("1"), json!("write"), json!("exclusive")]
    );
    let refused = json!({"owner": bob.id, "locks": [{"name": "report", "mode": "exclusive"}]});
    let refused = api.post_as(&bob, "locks", refused).await;
    assert_eq!((refused.status, &refused.body["conflicts"][0]["name"]), (423, &json!("report")));
    let shown = api.as_owner(Method::GET, &anna, &format!("owners/{}", anna.id)).await;
    assert_eq!(shown.body["locks"][0]["name"], "report");
    for (wrong, field) in [
        (json!({"name": "n", "mode": "write"}), "locks[0].mode"),
        (json!({"name": "n"}), "locks[0].mode"),
        (json!({"name": "n", "mode": "shared", "id": "1"}), "locks[0].id"),
        (json!({"name": "n", "mode": "shared", "intent": "read"}), "locks[0].intent"),
        (json!({"kind": "k", "id": "1", "intent": "read", "mode": "shared"}), "locks[0].mode"),
        (json!({"name": "-n", "mode": "shared"}), "locks[0].name"),
    ] {
        let refused = api.post_as(&anna, "locks", lock(json!([wrong]))).await;
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!(field)));
    }
    let spared = json!({"owner": anna.id, "all": true, "sparing": [{"name": "report"}]});
    assert_eq!(api.post_as(&anna, "locks/release", spared).await.body, json!({"released": 1}));
    let these = json!({"owner": anna.id, "locks": [{"name": "report"}]});
    assert_eq!(api.post_as(&anna, "locks/release", these).await.body, json!({"released": 1}));
}

#[tokio::test]
async fn what_a_step_took_is_taken_back_as_it_was_come_by() {
    let api = Api::new();
    let (anna, bob) = (api.owner("Anna").await, api.owner("Bob").await);
    let [read, written, fresh] = [
        api.lock(&anna, "1", "read").await,
        api.lock(&anna, "1", "write").await,
        api.lock(&anna, "2", "write").await,
    ]
    .map(|answer| {
        let lock = &answer.body["locks"][0];
        json!({"name": lock["name"], "fencingToken": lock["fencingToken"], "how": lock["how"]})
    });
    assert_eq!((&written["how"], &fresh["how"]), (&json!("upgraded"), &json!("fresh")));
    let undo = |locks: Value| {
        let (api, anna) = (&api, &anna);
        async move { api.post_as(anna, "locks/undo", json!({"owner": anna.id, "locks": locks})).await }
    };
    let stale = json!({"name": "customer/1", "fencingToken": read["fencingToken"], "how": "fresh"});
    assert_eq!(undo(json!([stale])).await.body, json!({"undone": 0}));
    assert_eq!(undo(json!([written, fresh])).await.body, json!({"undone": 2}));
    assert_eq!(undo(json!([written, fresh])).await.body, json!({"undone": 0}), "once more does no harm");
    assert_eq!(api.lock(&bob, "1", "read").await.status, 201);
    assert_eq!(api.lock(&bob, "2", "write").await.status, 201);
    assert_eq!(api.lock(&bob, "1", "write").await.status, 423, "Anna still reads it");
    let refused = undo(json!([{"name": "n", "fencingToken": 1, "how": "alreadyHeld"}])).await;
    assert_eq!((refused.status, &refused.body["field"]), (422, &json!("locks[0].how")));
}

#[tokio::test]
async fn a_release_touches_only_what_owner_and_token_match_ol_046() {
    let api = Api::new();
    let (anna, bob) = (api.owner("Anna").await, api.owner("Bob").await);
    let token = api.lock(&anna, "1", "write").await.body["locks"][0]["fencingToken"].as_u64().unwrap();
    api.lock(&anna, "2", "write").await;
    let release = |owner: Owner, token: u64| {
        let api = &api;
        async move {
            let locks = [json!({"kind": "customer", "id": "1", "fencingToken": token})];
            let body = json!({"owner": owner.id, "locks": locks});
            api.post_as(&owner, "locks/release", body).await.body["released"].clone()
        }
    };
    assert_eq!(release(bob.clone(), token).await, 0);
    assert_eq!(release(anna.clone(), token + 100).await, 0);
    assert_eq!(release(anna.clone(), token).await, 1);
    assert_eq!(release(anna.clone(), token).await, 0);
    let spared = json!({"owner": anna.id, "all": true, "sparing": [{"kind": "customer", "id": "2"}]});
    assert_eq!(api.post_as(&anna, "locks/release", spared).await.body, json!({"released": 0}));
    assert_eq!(api.locked().await, ["customer/2"]);
}

#[tokio::test]
async fn only_the_secret_of_an_owner_speaks_for_it() {
    let api = Api::new();
    let (anna, bob) = (api.owner("Anna").await, api.owner("Bob").await);
    let thief = Owner { id: anna.id.clone(), secret: bob.secret.clone() };
    let path = format!("owners/{}", anna.id);
    for answer in [
        api.lock(&thief, "1", "write").await,
        api.as_owner(Method::DELETE, &thief, &path).await,
        api.as_owner(Method::GET, &thief, &path).await,
        api.as_owner(Method::POST, &thief, &format!("{path}/heartbeat")).await,
        api.send(Method::GET, &path, &[], None).await,
        api.send(Method::GET, &path, &[("authorization", "Bearer nonsense")], None).await,
    ] {
        assert_eq!(answer.outcome(), (401, "unauthorized"), "{answer:?}");
        assert!(answer.header("www-authenticate").starts_with("Bearer"));
    }
    let unknown = Owner { id: "999".to_owned(), ..bob };
    assert_eq!(api.lock(&unknown, "1", "write").await.outcome(), (404, "unknown_owner"));
}

#[tokio::test]
async fn an_owner_shows_itself_beats_and_ends_with_its_locks() {
    let api = Api::new();
    let anna = api.open(json!({"label": "Anna", "metadata": "m", "ttlMs": 60_000, "maxMs": 120_000})).await;
    let path = format!("owners/{}", anna.id);
    api.lock(&anna, "1", "write").await;
    let shown = api.as_owner(Method::GET, &anna, &path).await.body;
    assert_eq!(
        (&shown["label"], &shown["metadata"], &shown["ttlMs"]),
        (&json!("Anna"), &json!("m"), &json!(60_000))
    );
    assert_eq!(shown["locks"][0]["name"], "customer/1");
    assert!(shown["endsAt"].is_string() && shown["ownerSecret"].is_null());
    assert_eq!(api.as_owner(Method::POST, &anna, &format!("{path}/heartbeat")).await.status, 200);
    assert_eq!(api.as_owner(Method::DELETE, &anna, &path).await.status, 204);
    assert_eq!(api.locked().await, [""; 0]);
    assert_eq!(api.as_owner(Method::DELETE, &anna, &path).await.outcome(), (404, "unknown_owner"));
    assert_eq!(api.lock(&anna, "1", "write").await.outcome(), (404, "unknown_owner"));
}

#[tokio::test]
async fn the_locks_of_an_owner_of_whom_nothing_is_heard_become_free_ol_035() {
    let api = Api::new();
    let (anna, bob) = (api.open(json!({"label": "Anna", "ttlMs": 300})).await, api.owner("Bob").await);
    assert_eq!(api.lock(&anna, "1", "write").await.status, 201);
    let begin = std::time::Instant::now();
    while api.lock(&bob, "1", "write").await.status != 201 {
        assert!(begin.elapsed() < PATIENCE, "never free");
    }
    assert_eq!(api.lock(&anna, "2", "write").await.outcome(), (404, "unknown_owner"));
}

#[tokio::test]
async fn the_lock_type_belongs_to_the_kind_of_record_ol_004_ol_006_ol_007() {
    let options = ["--lock-type", "customer=exclusive-write", "--lock-type", "account=exclusive-read"];
    let api = Api::over(ServerProcess::with_options("10s", &options));
    let (anna, bob) = (api.owner("Anna").await, api.owner("Bob").await);
    assert_eq!(api.lock(&anna, "1", "write").await.status, 201);
    let read = api.lock(&bob, "1", "read").await;
    let lock = &read.body["locks"][0];
    assert_eq!((read.status, &lock["how"], &lock["mode"]), (201, &json!("notNeeded"), &json!(null)));
    let account = |owner: Owner| {
        let body = json!({"owner": owner.id, "locks": [{"kind": "account", "id": "1", "intent": "read"}]});
        let api = &api;
        async move { api.post_as(&owner, "locks", body).await.status }
    };
    assert_eq!(account(anna).await, 201);
    assert_eq!(account(bob).await, 423);
}

#[tokio::test]
async fn equal_ids_of_two_kinds_and_odd_ids_are_different_records_ol_042() {
    let api = Api::new();
    let anna = api.owner("Anna").await;
    let locks = [("a", "b/c"), ("a/b", "c"), ("b", "1"), ("a", "1"), ("-", "é \u{0}")]
        .map(|(kind, id)| json!({"kind": kind, "id": id, "intent": "write"}));
    let granted = api.post_as(&anna, "locks", json!({"owner": anna.id, "locks": locks})).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    let list = api.get("locks").await.body["locks"].as_array().unwrap().clone();
    assert_eq!(list.len(), locks.len());
    for lock in locks {
        let is_it = |held: &&Value| held["kind"] == lock["kind"] && held["id"] == lock["id"];
        assert_eq!(list.iter().filter(is_it).count(), 1, "{lock}");
    }
    assert_eq!(api.get("locks?kind=a").await.body["locks"].as_array().unwrap().len(), 2);
    assert_eq!(api.get(&format!("locks?owner={}", anna.id)).await.body["locks"].as_array().unwrap().len(), 5);
    assert_eq!(api.get("locks?owner=999").await.body["locks"], json!([]));
}

#[tokio::test]
async fn an_owner_that_asks_for_itself_lives_on() {
    let api = Api::new();
    let opened = api.post("owners", json!({"label": "Anna"})).await;
    let owner = Owner { id: opened.text("owner"), secret: opened.text("ownerSecret") };
    let begin = std::time::Instant::now();
    // The clock of leases goes on by ticks.
    loop {
        let shown = api.as_owner(Method::GET, &owner, &format!("owners/{}", owner.id)).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        if shown.text("expiresAt") > opened.text("expiresAt") {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "its TTL does not run anew: {shown:?}");
    }
}

/// Each hold with the token that it has, and once with a token that no hold has.
#[tokio::test]
async fn an_operator_breaks_exactly_the_holds_that_are_named() {
    let api = Api::over(ServerProcess::with_file("10s"));
    let (anna, bob) = (api.owner("Anna").await, api.owner("Bob").await);
    let shared = |owner: &Owner| json!({"owner": owner.id, "locks": [{"name": "n", "mode": "shared"}]});
    let annas = api.post_as(&anna, "locks", shared(&anna)).await.body["locks"][0]["fencingToken"].clone();
    assert_eq!(api.post_as(&bob, "locks", shared(&bob)).await.status, 201);
    let claimed = api.claim("seat", "Carl").await;
    let seats = claimed.body["fencingToken"].clone();
    let wrong = json!(seats.as_u64().unwrap() + 1);
    let holds = json!([
        {"name": "n", "fencingToken": annas}, {"name": "seat", "fencingToken": wrong},
        {"name": "seat", "fencingToken": seats}, {"name": "seat", "fencingToken": annas},
    ]);
    let body = json!({"holds": holds, "reason": "the hall is closed"});
    let answer = api.post("locks/break", body.clone()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let broken: Vec<_> = answer.body["broken"].as_array().unwrap().iter().collect();
    let who =
        |at: usize| [&broken[at]["name"], &broken[at]["holder"]["label"], &broken[at]["holder"]["kind"]];
    assert_eq!(who(0), [&json!("n"), &json!("Anna"), &json!("offline")]);
    assert_eq!(who(1), [&json!("seat"), &json!("Carl"), &json!("claim")]);
    let gone = json!([{"name": "seat", "fencingToken": wrong}, {"name": "seat", "fencingToken": annas}]);
    assert_eq!((broken.len(), &answer.body["gone"]), (2, &gone));
    let again = api.post("locks/break", body).await;
    assert_eq!((&again.body["broken"], again.body["gone"].as_array().unwrap().len()), (&json!([]), 4));
    // The other holder stays, and so does the owner.
    let shown = api.as_owner(Method::GET, &bob, &format!("owners/{}", bob.id)).await;
    assert_eq!(shown.body["locks"][0]["name"], "n");
    let shown = api.as_owner(Method::GET, &anna, &format!("owners/{}", anna.id)).await;
    assert_eq!((shown.status, &shown.body["locks"]), (200, &json!([])));
    let finalized = api.with_token("finalize", "seat", &claimed.text("token")).await;
    assert_eq!(finalized.outcome(), (410, "claim_expired"));
    assert_eq!(api.claim("seat", "Dora").await.status, 201);
    for (wrong, field) in [
        (json!({"holds": []}), "holds"),
        (json!({"holds": [{"name": "n"}]}), "holds[0].fencingToken"),
        (json!({"holds": [{"fencingToken": 1}]}), "holds[0].name"),
        (json!({"holds": [{"name": "n", "fencingToken": 1}], "reason": "x".repeat(257)}), "reason"),
        (json!({"holds": [{"name": "n", "fencingToken": 1}], "why": "x"}), "why"),
    ] {
        let refused = api.post("locks/break", wrong).await;
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!(field)), "{refused:?}");
    }
}

#[tokio::test]
async fn a_server_whose_settings_ask_for_a_reason_breaks_nothing_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockhouse.toml");
    std::fs::write(&file, "break_reason = \"required\"\n").unwrap();
    let api = Api::over(ServerProcess::with_options("10s", &["--config", file.to_str().unwrap()]));
    let anna = api.owner("Anna").await;
    let token = api.lock(&anna, "42", "write").await.body["locks"][0]["fencingToken"].clone();
    let body =
        |reason: Value| json!({"holds": [{"name": "customer/42", "fencingToken": token}], "reason": reason});
    for none in [Value::Null, json!(""), json!(" \t")] {
        let refused = api.post("locks/break", body(none)).await;
        assert_eq!((refused.outcome(), &refused.body["field"]), ((422, "invalid"), &json!("reason")));
        assert_eq!(api.locked().await, ["customer/42"]);
    }
    let broken = api.post("locks/break", body(json!("she has left"))).await;
    assert_eq!((broken.status, broken.body["broken"].as_array().unwrap().len()), (200, 1), "{broken:?}");
    assert!(api.locked().await.is_empty());
}

#[tokio::test]
async fn the_history_says_who_held_what_from_when_to_when_and_why_it_ended() {
    let mut api = Api::over(ServerProcess::with_file("10s"));
    let anna = api.owner("Anna").await;
    let lock = json!({"owner": anna.id, "locks": [{"name": "n", "mode": "shared"}]});
    let granted = api.post_as(&anna, "locks", lock).await;
    let upgrade = json!({"owner": anna.id, "locks": [{"name": "n", "mode": "exclusive"}]});
    let upgraded = api.post_as(&anna, "locks", upgrade).await.body["locks"][0]["fencingToken"].clone();
    let claimed = api.claim("seat/1", "Carl").await;
    api.with_token("finalize", "seat/1", &claimed.text("token")).await;
    let holds = json!([{"name": "n", "fencingToken": upgraded}]);
    let body = json!({"holds": holds, "reason": "she has left"});
    assert_eq!(api.post("locks/break", body).await.body["gone"], json!([]));
    api.restart();
    let page = async |query: &str| {
        let answer = api.get(&format!("history{query}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    };
    let ends = |answer: &Answer| -> Vec<String> {
        let entries = answer.body["entries"].as_array().unwrap();
        let end = |entry: &Value| format!("{} {} {}", entry["kind"], entry["name"], entry["end"]);
        entries.iter().map(|entry| end(entry).replace('"', "")).collect()
    };
    let all = page("").await;
    assert_eq!(ends(&all), ["offline n broken", "claim seat/1 finalized", "offline n upgraded"]);
    assert_eq!(all.body["next"], json!(null));
    let broken = &all.body["entries"][0];
    assert_eq!([&broken["label"], &broken["mode"], &broken["reason"]], ["Anna", "exclusive", "she has left"]);
    assert_eq!((&broken["fencingToken"], &broken["owner"]), (&upgraded, &json!(anna.id)));
    assert!(broken["operator"].is_string(), "{broken}");
    assert_eq!(all.body["entries"][2]["fencingToken"], granted.body["locks"][0]["fencingToken"]);
    assert!(broken["since"].as_str() <= broken["endedAt"].as_str(), "{broken}");
    for (query, expected) in [
        ("?name=n", &["offline n broken", "offline n upgraded"][..]),
        ("?prefix=seat/", &["claim seat/1 finalized"]),
        ("?kind=claim", &["claim seat/1 finalized"]),
        ("?end=broken", &["offline n broken"]),
        ("?label=Carl", &["claim seat/1 finalized"]),
        (&format!("?owner={}", anna.id), &["offline n broken", "offline n upgraded"]),
        (&format!("?fencingToken={upgraded}"), &["offline n broken"]),
        ("?name=other", &[]),
    ] {
        assert_eq!(ends(&page(query).await), expected, "{query}");
    }
    let first = page("?limit=2").await;
    assert_eq!(ends(&first), ["offline n broken", "claim seat/1 finalized"]);
    let rest = page(&format!("?limit=2&cursor={}", first.text("next"))).await;
    assert_eq!((ends(&rest), &rest.body["next"]), (vec!["offline n upgraded".to_owned()], &json!(null)));
    for (query, field) in [
        ("?kind=lock", "kind"),
        ("?from=2026", "from"),
        ("?end=gone", "end"),
        ("?limit=0", "limit"),
        ("?limit=201", "limit"),
        ("?cursor=x", "cursor"),
        ("?who=Carl", "parameter"),
    ] {
        let refused = api.get(&format!("history{query}")).await;
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!(field)), "{query}: {refused:?}");
    }
}
