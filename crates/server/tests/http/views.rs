//! What dashboards ask for: queries with filters, and overviews.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockhouse::{House, Mode};
use lockhouse_server::{Config, LimitSettings, Server, bind};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::http::calls::{Api, PATIENCE};
use crate::program;

/// Some members of each entry.
fn members<'a>(list: &'a Value, keys: &[&str]) -> Vec<Vec<&'a Value>> {
    let entries = list.as_array().unwrap_or_else(|| panic!("{list}"));
    entries.iter().map(|entry| keys.iter().map(|key| &entry[*key]).collect()).collect()
}

fn names(answer: &Value) -> Vec<&str> {
    answer["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

/// Asks until that is seen.
async fn until(api: &Api, path: &str, is_seen: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        if is_seen(&answer.body) {
            return answer.body;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer:?}");
    }
}

#[tokio::test]
async fn filters_and_sorts_show_exactly_what_they_name() {
    let api = Api::new();
    let connection = lockhouse::remote::connect(api.server.url()).await.unwrap();
    let [one, other] = ["one", "other"].map(|label| connection.agent(label).unwrap());
    let held = one.locks().request("a").await.unwrap();
    let waiting = tokio::spawn({
        let locks = other.locks().clone();
        async move { locks.request("a").await }
    });
    until(&api, "query?state=pending", |it| names(it) == ["a"]).await;
    // Instants are told to a tick of the lease clock.
    let ticks_on = async |name: &str| {
        until(&api, &format!("query?name={name}&olderThanMs=200"), |it| !names(it).is_empty()).await;
    };
    ticks_on("a").await;
    let anna = api.owner("Anna").await;
    assert_eq!(api.lock(&anna, "7", "write").await.status, 201);
    ticks_on("customer%2F7").await;
    let token = api.claim("b", "Bob").await.text("token");
    assert_eq!(api.with_token("finalize", "b", &token).await.status, 200);
    ticks_on("b").await;
    api.claim("c", "Bob").await;

    let found = async |query: &str| {
        let answer = api.get(&format!("query?{query}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        names(&answer.body).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found("").await, ["a", "a", "b", "c", "customer/7"]);
    assert_eq!(found("sort=age").await, ["a", "a", "customer/7", "b", "c"]);
    assert_eq!(found("name=a").await, ["a", "a"]);
    assert_eq!(found("name=a&state=pending").await, ["a"]);
    assert_eq!(found("name=b").await, ["b"], "an assignment");
    assert_eq!(found("name=nothing").await, [""; 0]);
    assert_eq!(found("name=a&prefix=b").await, [""; 0]);
    assert_eq!(found("client=Bob").await, ["b", "c"]);
    assert_eq!(found("client=Anna").await, ["customer/7"]);
    assert_eq!(found("client=one").await, ["a"]);
    assert_eq!(found(&format!("fencingToken={}", held.fencing_token())).await, ["a"]);
    assert_eq!(found("fencingToken=1").await, [""; 0]);
    assert_eq!(found("olderThanMs=3600000").await, [""; 0]);
    // Every page of the order by age, one entry each.
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("query?sort=age&limit=1{cursor}")).await.body;
        all.extend(names(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(all, ["a", "a", "customer/7", "b", "c"]);
    drop(held);
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_wrong_filter_is_refused_with_field_value_and_rule() {
    let api = Api::new();
    api.claim("a", "Ada").await;
    api.claim("b", "Ada").await;
    let by_name = api.get("query?limit=1").await.text("next");
    let by_age = api.get("query?limit=1&sort=age").await.text("next");
    let [wrong_sort, wrong_cursor] =
        [format!("query?sort=age&cursor={by_name}"), format!("query?cursor={by_age}")];
    for (path, field, value, rule) in [
        ("query?sort=size", "sort", "\"size\"", "\"name\" or \"age\""),
        ("query?sort=", "sort", "\"\"", "\"name\" or \"age\""),
        ("query?limit=0", "limit", "\"0\"", "an integer from 1 to 1000"),
        ("query?limit=1001&sort=age", "limit", "\"1001\"", "an integer from 1 to 1000"),
        ("query?olderThanMs=-1", "olderThanMs", "\"-1\"", "an integer from 0 to 9007199254740991"),
        ("query?fencingToken=0", "fencingToken", "\"0\"", "an integer from 1 to 9007199254740991"),
        ("query?kind=lock", "kind", "\"lock\"", "\"web\", \"offline\", \"claim\" or \"assignment\""),
        ("overview?name=a", "parameter", "\"name\"", "absent, as this call has none"),
        (&wrong_sort, "cursor", "", "the `next` of a page sorted by age, and this is of one sorted by name"),
        (
            &wrong_cursor,
            "cursor",
            "",
            "the `next` of a page sorted by name, and this is of one sorted by age",
        ),
    ] {
        let answer = api.get(path).await;
        assert_eq!(answer.outcome(), (422, "invalid"), "{path}: {answer:?}");
        let said = ["field", "value", "rule"].map(|member| answer.text(member));
        assert_eq!((&*said[0], &*said[2]), (field, rule), "{path}");
        assert!(value.is_empty() || said[1] == value, "{path}: {said:?}");
    }
    let unknown = api.get("query?metadata=x").await;
    assert_eq!((unknown.status, unknown.text("field")), (422, "parameter".to_owned()));
    let long = api.get(&format!("query?client={}", "x".repeat(257))).await;
    assert_eq!((long.status, long.text("field")), (422, "client".to_owned()));
}

#[tokio::test]
async fn the_figures_of_an_overview_are_those_of_what_was_done() {
    let api = Api::new();
    let empty = api.get("overview").await;
    assert_eq!(empty.status, 200, "{empty:?}");
    assert_eq!(empty.body["longestWait"], Value::Null);
    assert_eq!(empty.body["waits"]["p50Ms"], Value::Null);

    let connection = lockhouse::remote::connect(api.server.url()).await.unwrap();
    let holder = connection.agent("holder").unwrap();
    let [first, second] = [holder.locks().request("first").await, holder.locks().request("second").await];
    // Three wait for one name and one for another.
    let waiters: Vec<_> = (0..4).map(|n| connection.agent(&format!("waiter {n}")).unwrap()).collect();
    let mut waits = Vec::new();
    for (n, waiter) in waiters.iter().enumerate() {
        let locks = waiter.locks().clone();
        let name = if n == 3 { "second" } else { "first" };
        waits.push(tokio::spawn(async move { locks.request(name).await }));
        until(&api, "query?state=pending", |it| names(it).len() == n + 1).await;
    }
    for n in 0..2 {
        let refused = connection.agent(&format!("late {n}")).unwrap();
        assert!(refused.locks().request("first").if_available().await.is_err());
    }
    let anna = api.owner("Anna").await;
    api.lock(&anna, "7", "read").await;
    let token = api.claim("seat", "Bob").await.text("token");
    api.with_token("finalize", "seat", &token).await;
    api.claim("seat 2", "Bob").await;

    // The two that were late have ended, and the session is no agent.
    let seen = until(&api, "overview", |it| it["held"]["claim"] == 1 && it["agents"] == 5).await;
    assert_eq!(seen["held"], json!({"web": 2, "offline": 1, "claim": 1}));
    assert_eq!([&seen["waiting"], &seen["assigned"], &seen["owners"]], [4, 1, 1]);
    let contended = members(&seen["contended"], &["name", "waiting", "held"]);
    assert_eq!(
        contended,
        [[&json!("first"), &json!(3), &json!(1)], [&json!("second"), &json!(1), &json!(1)]]
    );
    assert_eq!(
        [&seen["longestWait"]["clientId"], &seen["longestWait"]["place"]],
        [&json!("waiter 0"), &json!(1)]
    );
    assert_eq!([&seen["oldest"]["name"], &seen["oldest"]["kind"]], ["first", "web"]);
    assert_eq!(seen["totals"]["granted"], json!({"web": 2, "offline": 1, "claim": 2}));
    assert_eq!([&seen["totals"]["refused"]["taken"], &seen["totals"]["lost"]["stolen"]], [2, 0]);
    assert_eq!([&seen["waits"]["count"], &seen["holds"]["web"]["count"]], [2, 0]);

    drop((first, second));
    for wait in waits {
        drop(wait.await.unwrap().unwrap());
    }
    let seen = until(&api, "overview", |it| it["held"]["web"] == 0 && it["waiting"] == 0).await;
    assert_eq!(seen["totals"]["granted"]["web"], 6);
    assert_eq!([&seen["waits"]["count"], &seen["holds"]["web"]["count"]], [6, 6]);
    let ranges = seen["waits"]["buckets"].as_array().unwrap();
    assert_eq!(ranges.iter().map(|range| range["count"].as_u64().unwrap()).sum::<u64>(), 6);
    assert_eq!((&seen["contended"], &seen["longestWait"]), (&json!([]), &Value::Null));
}

#[tokio::test]
async fn many_dashboards_cost_one_pass_a_second() {
    let api = Api::new();
    api.claim("a", "Ada").await;
    let asked = join_all((0..50).map(|_| api.get("overview"))).await;
    assert!(asked.iter().all(|answer| answer.status == 200));
    let mut instants: Vec<_> = asked.iter().map(|answer| answer.text("at")).collect();
    instants.sort_unstable();
    instants.dedup();
    // Each answer is up to a second old, and all of them took no more than a few.
    assert!(instants.len() < 10, "{instants:?}");
}

/// A server over a house with a hundred thousand locks, whose clients have a rate of a thousand a second: a
/// query that reads all of them costs as much as 6250 calls.
#[tokio::test]
async fn a_query_for_one_name_of_a_hundred_thousand_reads_only_that() {
    let house = House::new();
    let agent = house.bucket("default").agent("holder").unwrap();
    let names: Vec<_> = (0..100_000).map(|number| format!("name {number}")).collect();
    let locks = agent.locks();
    let _held =
        join_all(names.iter().map(|name| locks.request(&**name).mode(Mode::Shared).into_future())).await;
    let limits = LimitSettings { tenant_rate: 1000, ..LimitSettings::default() };
    let config = Config { limits, ..Config::default() };
    let listener = bind("127.0.0.1:0", &config.authority).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(Server::of(config, house).serve(listener, async { _ = stopped.await }));

    let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
    let ask = async |query: &str| {
        let url = format!("http://{address}/v1/buckets/default/query?{query}");
        let answer = http.get(url).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap())
    };
    for number in 0..100 {
        let (status, page) = ask(&format!("name=name+{number}")).await;
        assert_eq!((status, page["entries"].as_array().map(Vec::len)), (200, Some(1)), "{page}");
    }
    assert_eq!(ask("limit=1").await.0, 200);
    let (status, problem) = ask("name=name+7").await;
    assert_eq!((status, &problem["code"]), (429, &json!("rate_limited")), "the copy of all was not charged");
    assert!(Duration::from_millis(problem["retryAfterMs"].as_u64().unwrap()) > Duration::from_secs(3));
}

/// The client ids of each cycle, each beginning with the first in the alphabet.
fn cycles(answer: &Value) -> Vec<Vec<String>> {
    let nodes = answer["nodes"].as_array().unwrap();
    let client = |id: &Value| {
        let node = nodes.iter().find(|node| node["id"] == *id).unwrap_or_else(|| panic!("no {id}: {answer}"));
        node["clientId"].as_str().unwrap().to_owned()
    };
    let of = |cycle: &Value| {
        let mut clients: Vec<_> = cycle.as_array().unwrap().iter().map(client).collect();
        let first = clients.iter().enumerate().min_by_key(|(_, client)| (*client).clone()).unwrap().0;
        clients.rotate_left(first);
        clients
    };
    answer["cycles"].as_array().unwrap().iter().map(of).collect()
}

/// Terminals in each of which a `lockhouse run` holds a name and another one within asks for the next name;
/// killed when dropped.
struct Terminals(Vec<std::process::Child>);

impl Drop for Terminals {
    fn drop(&mut self) {
        for terminal in &mut self.0 {
            terminal.kill().unwrap();
            terminal.wait().unwrap();
        }
    }
}

fn terminals(api: &Api, folder: &std::path::Path, names: &[&str]) -> Terminals {
    let run = |(number, name): (usize, &&str)| {
        let next = names[(number + 1) % names.len()];
        // The inner request begins once every terminal holds its name.
        let script = format!(
            "touch {folder}/{number}; while [ $(ls {folder} | wc -l) -lt {count} ]; do sleep 0.01; done; \
             exec {lockhouse} run {next} -- true",
            folder = folder.display(),
            count = names.len(),
            lockhouse = program::lockhouse(),
        );
        std::process::Command::new(program::lockhouse())
            .args(["run", name, "--", "sh", "-c", &script])
            .env("LOCKHOUSE_URL", api.server.url())
            .env("LOCKHOUSE_CLIENT_ID", format!("terminal {number}"))
            .spawn()
            .unwrap()
    };
    Terminals(names.iter().enumerate().map(run).collect())
}

#[tokio::test]
async fn two_and_three_terminals_that_wait_for_each_other_are_found() {
    for names in [&["a", "b"][..], &["a", "b", "c"]] {
        let (api, folder) = (Api::new(), tempfile::tempdir().unwrap());
        let _terminals = terminals(&api, folder.path(), names);
        let all: Vec<_> = (0..names.len()).map(|number| format!("terminal {number}")).collect();
        let seen = until(&api, "waits", |it| !it["cycles"].as_array().unwrap().is_empty()).await;
        assert_eq!(cycles(&seen), [all]);
        assert_eq!(seen["nodes"].as_array().unwrap().len(), names.len());
        let mut edges = members(&seen["edges"], &["from", "to", "name", "held"]);
        edges.sort_by_key(|edge| edge[0].to_string());
        for (number, edge) in edges.iter().enumerate() {
            let next = (number + 1) % names.len();
            let (from, to) = (format!("w:terminal {number}"), format!("w:terminal {next}"));
            assert_eq!(*edge, [&json!(from), &json!(to), &json!(names[next]), &json!(true)]);
        }
        assert_eq!((edges.len(), &seen["truncated"]), (names.len(), &json!(false)));
    }
}

#[tokio::test]
async fn who_waits_for_owners_and_claims_is_seen_and_is_no_cycle() {
    let api = Api::new();
    assert_eq!(
        api.get("waits").await.body,
        json!({"nodes": [], "edges": [], "cycles": [], "truncated": false})
    );
    let anna = api.owner("Anna").await;
    assert_eq!(api.lock(&anna, "7", "write").await.status, 201);
    api.claim("seat", "Bob").await;
    let connection = lockhouse::remote::connect(api.server.url()).await.unwrap();
    let agent = connection.agent("worker").unwrap();
    let waiting = join_all(["customer/7", "seat"].map(|name| agent.locks().request(name).into_future()));
    let waiting = tokio::spawn(waiting);
    let seen = until(&api, "waits", |it| it["edges"].as_array().unwrap().len() == 2).await;
    assert_eq!(seen["cycles"], json!([]));
    let nodes = members(&seen["nodes"], &["id", "kind", "clientId"]);
    let owner = format!("o:{}", anna.id);
    let expected = [("c:seat", "claim", "Bob"), (&*owner, "offline", "Anna"), ("w:worker", "web", "worker")];
    assert_eq!(
        nodes,
        expected
            .map(|(id, kind, client)| [json!(id), json!(kind), json!(client)])
            .each_ref()
            .map(|it| it.each_ref().to_vec())
    );
    waiting.abort();
}

#[tokio::test]
async fn owners_are_listed_page_by_page_and_without_their_secrets() {
    let api = Api::new();
    let mut owners = Vec::new();
    for label in ["Anna", "Bob", "Anna", "Cid"] {
        owners.push(api.open(json!({"label": label, "metadata": "m", "maxMs": 3_600_000})).await);
    }
    api.lock(&owners[1], "7", "write").await;
    let ids = |answer: &Value| -> Vec<String> {
        answer["owners"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["owner"].as_str().unwrap().to_owned())
            .collect()
    };
    let all: Vec<_> = owners.iter().map(|owner| owner.id.clone()).collect();
    let list = api.get("owners").await;
    assert_eq!((list.status, ids(&list.body), &list.body["next"]), (200, all.clone(), &Value::Null));
    assert_eq!(
        members(&list.body["owners"], &["label", "metadata", "locks"])[1],
        [&json!("Bob"), &json!("m"), &json!(1)]
    );
    let text = list.body.to_string();
    assert!(owners.iter().all(|owner| !text.contains(&owner.secret)) && !text.contains("ecret"), "{text}");
    assert!(list.body["owners"][0]["endsAt"].is_string() && list.body["owners"][0]["expiresAt"].is_string());
    let of_anna = api.get("owners?label=Anna").await.body;
    assert_eq!(ids(&of_anna), [all[0].clone(), all[2].clone()]);
    let first = api.get("owners?limit=3").await.body;
    assert_eq!((ids(&first).len(), first["next"].as_str()), (3, Some(&*all[2])));
    assert_eq!(ids(&api.get(&format!("owners?cursor={}", all[2])).await.body), [all[3].clone()]);
    for (path, field, rule) in [
        ("owners?limit=0", "limit", "an integer from 1 to 1000"),
        ("owners?label=", "label", "1 to 256 bytes"),
        ("owners?cursor=x", "cursor", "of digits"),
        ("owners?kind=web", "parameter", "one of label, limit, cursor"),
        ("waits?name=a", "parameter", "absent"),
    ] {
        let answer = api.get(path).await;
        assert_eq!((answer.outcome(), &*answer.text("field")), ((422, "invalid"), field), "{path}");
        assert!(answer.text("rule").contains(rule), "{answer:?}");
    }
}

#[tokio::test]
async fn sessions_show_who_is_connected_and_never_a_secret() {
    let api = Api::new();
    assert_eq!(api.get("sessions").await.body, json!({"sessions": [], "next": null}));
    let connection = lockhouse::remote::connect(api.server.url()).await.unwrap();
    let [one, other] = ["one", "other"].map(|label| connection.agent(label).unwrap());
    let held = [one.locks().request("a").await.unwrap(), one.locks().request("b").await.unwrap()];
    let waiting = tokio::spawn(other.locks().request("a").into_future());
    let seen = until(&api, "sessions", |it| it["sessions"][0]["waiting"] == 1).await;
    let session = &seen["sessions"][0];
    assert_eq!([&session["clientIds"], &session["agents"]], [&json!(["one", "other"]), &json!(2)]);
    assert_eq!([&session["held"], &session["connected"]], [&json!(2), &json!(true)]);
    assert_eq!([&session["address"], &session["credential"]], ["127.0.0.1", "anybody"]);
    assert!(session["queuedBytes"].is_u64() && session["since"].is_string(), "{session}");
    let keys: Vec<_> = session.as_object().unwrap().keys().map(String::as_str).collect();
    let known = [
        "address",
        "agents",
        "clientIds",
        "connected",
        "credential",
        "held",
        "origin",
        "queuedBytes",
        "since",
        "userAgent",
        "waiting",
    ];
    assert_eq!(keys, known, "nothing else is told");
    drop(held);
    drop(waiting.await.unwrap().unwrap());
    let seen = until(&api, "sessions", |it| it["sessions"][0]["held"] == 0).await;
    assert_eq!(seen["sessions"][0]["waiting"], 0);
    // Pages of one each.
    let more = [
        lockhouse::remote::connect(api.server.url()).await.unwrap(),
        lockhouse::remote::connect(api.server.url()).await.unwrap(),
    ];
    let (mut pages, mut cursor) = (0, String::new());
    loop {
        let page = api.get(&format!("sessions?limit=1{cursor}")).await.body;
        assert_eq!(page["sessions"].as_array().unwrap().len(), 1, "{page}");
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    for connection in more {
        connection.close().await;
    }
    until(&api, "sessions", |it| it["sessions"].as_array().unwrap().len() == 1).await;
    for (path, field, rule) in [
        ("sessions?limit=201", "limit", "an integer from 1 to 200"),
        ("sessions?cursor=x", "cursor", "an integer from 1"),
        ("sessions?name=a", "parameter", "one of limit, cursor"),
        ("/v1/buckets?limit=0", "limit", "an integer from 1 to 1000"),
        ("/v1/buckets?cursor=", "cursor", "1 to 256 bytes"),
        ("/v1/buckets?name=a", "parameter", "one of prefix, limit, cursor"),
    ] {
        let answer = api.get(path).await;
        assert_eq!((answer.outcome(), &*answer.text("field")), ((422, "invalid"), field), "{path}");
        assert!(answer.text("rule").contains(rule), "{answer:?}");
    }
}
