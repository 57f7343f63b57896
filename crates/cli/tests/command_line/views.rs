//! `lockhouse ls` with filters, and `lockhouse buckets`.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::command_line::support::{bare, code, holder, lockhouse, stderr, stdout, until_pending};
use crate::process::ServerProcess;

fn listed(server: &ServerProcess, arguments: &[&str]) -> Value {
    let output = lockhouse(server, &[arguments, &["--json"]].concat()).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    serde_json::from_str(stdout(&output)).unwrap()
}

fn column(rows: &Value, key: &str) -> Vec<String> {
    let text = |row: &Value| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned);
    rows.as_array().unwrap().iter().map(text).collect()
}

#[test]
fn a_list_with_filters_shows_what_they_name_in_their_order() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "report", "read line || true");
    let mut waiting =
        lockhouse(&server, &["run", "report", "--client-id", "late", "--", "true"]).spawn().unwrap();
    until_pending(&server, 1);
    for (resource, claimant) in [("seat/1", "Ada"), ("seat/2", "Bob")] {
        let claim = ["claim", resource, "--claimant", claimant, "--ttl", "10m"];
        assert_eq!(code(&lockhouse(&server, &claim).output().unwrap()), 0);
    }
    let report = listed(&server, &["ls", "report"]);
    assert_eq!(column(&report, "clientId"), ["holder", "late"]);
    assert_eq!(column(&report, "state"), ["held", "pending"]);
    assert_eq!(report[0]["bucket"], "default");
    let keys: Vec<_> = report[0].as_object().unwrap().keys().cloned().collect();
    let plain = listed(&server, &["ls"]);
    assert_eq!(keys, plain[0].as_object().unwrap().keys().cloned().collect::<Vec<_>>(), "the same keys");
    assert_eq!(column(&listed(&server, &["ls", "--prefix", "seat/"]), "name"), ["seat/1", "seat/2"]);
    assert_eq!(column(&listed(&server, &["ls", "--client", "Bob"]), "name"), ["seat/2"]);
    assert_eq!(column(&listed(&server, &["ls", "--state", "pending"]), "clientId"), ["late"]);
    let token = report[0]["fencingToken"].to_string();
    assert_eq!(column(&listed(&server, &["ls", "--token", &token]), "name"), ["report"]);
    assert_eq!(
        column(&listed(&server, &["ls", "--kind", "claim", "--sort", "age"]), "clientId"),
        ["Ada", "Bob"]
    );
    assert_eq!(column(&listed(&server, &["ls", "--limit", "1", "--sort", "age"]), "clientId"), ["holder"]);
    assert_eq!(listed(&server, &["ls", "--older-than", "1h"]), json!([]));
    let nothing = "nothing that was asked for is held, waits or is assigned in bucket \"default\"\n";
    let no_holder = "nobody holds or waits for \"other\" in bucket \"default\", and it is not assigned\n";
    for (nothing, said) in [
        (&["--older-than", "1h"][..], nothing),
        (&["other", "--kind", "claim"], nothing),
        (&["--state", "assigned"], nothing),
        (&["other"], no_holder),
    ] {
        let output = lockhouse(&server, &[&["ls"], nothing].concat()).output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (0, said), "{nothing:?}");
    }
    let table = lockhouse(&server, &["ls", "report"]).output().unwrap();
    assert!(stdout(&table).lines().nth(2).unwrap().contains("waits #1"), "{table:?}");
    drop(held.stdin.take());
    assert!(held.wait().unwrap().success() && waiting.wait().unwrap().success());
}

/// What `lockhouse events --state` prints first, in so many lines.
fn first_events(server: &ServerProcess, arguments: &[&str], lines: usize) -> Vec<String> {
    let mut events = lockhouse(server, &[&["events", "--state"], arguments].concat()).spawn().unwrap();
    let printed = BufReader::new(events.stdout.take().unwrap()).lines();
    let printed = printed.take(lines).collect::<Result<_, _>>().unwrap();
    events.kill().unwrap();
    events.wait().unwrap();
    printed
}

#[test]
fn the_state_before_the_events_says_who_holds_who_waits_or_that_none_does() {
    let server = ServerProcess::start("10s");
    let of_report = ["--name", "report"];
    assert_eq!(first_events(&server, &of_report, 1), ["state       nothing is held and nobody waits"]);
    let nothing: Value = serde_json::from_str(&first_events(&server, &["--json"], 1)[0]).unwrap();
    assert_eq!((&nothing["event"], &nothing["name"]), (&json!("state"), &Value::Null));
    let mut held = holder(&server, "report", "read line || true");
    let mut waiting =
        lockhouse(&server, &["run", "report", "--client-id", "late", "--", "true"]).spawn().unwrap();
    until_pending(&server, 1);
    let state = first_events(&server, &of_report, 2);
    assert!(state[0].starts_with("state       web  report  exclusive  held  holder  "), "{state:?}");
    assert!(state[1].starts_with("state       web  report  exclusive  pending  1  late  "), "{state:?}");
    drop(held.stdin.take());
    assert!(held.wait().unwrap().success() && waiting.wait().unwrap().success());
}

#[test]
fn events_end_with_the_reader_of_their_lines_though_nothing_happens() {
    let server = ServerProcess::start("10s");
    let mut events = lockhouse(&server, &["events", "--state"]).spawn().unwrap();
    let mut lines = BufReader::new(events.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("state"));
    drop(lines);
    assert_eq!(events.wait().unwrap().code(), Some(0));
}

#[test]
fn the_history_says_what_waited_and_never_held() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "report", "read line || true");
    let late = lockhouse(&server, &["run", "report", "--timeout", "50ms", "--", "true"]).output().unwrap();
    assert_eq!(code(&late), 75);
    drop(held.stdin.take());
    assert!(held.wait().unwrap().success());
    let output = lockhouse(&server, &["history"]).output().unwrap();
    let marked = stdout(&output).lines().filter(|line| line.ends_with("  waited, never held")).count();
    assert_eq!(marked, 1, "{output:?}");
}

#[test]
fn buckets_are_listed_with_their_figures() {
    let server = ServerProcess::start("10s");
    let empty = lockhouse(&server, &["buckets"]).output().unwrap();
    assert_eq!((code(&empty), stdout(&empty)), (0, "nothing is held, waits or is assigned in any bucket\n"));
    for (bucket, resource) in [("orders", "a"), ("orders", "b"), ("order-archive", "c"), ("seats", "d")] {
        let claim = ["claim", resource, "--claimant", "Ada", "--ttl", "10m", "--bucket", bucket];
        assert_eq!(code(&lockhouse(&server, &claim).output().unwrap()), 0);
    }
    let all = listed(&server, &["buckets"]);
    assert_eq!(column(&all, "bucket"), ["order-archive", "orders", "seats"]);
    let orders = json!({"bucket": "orders", "held": 2, "waiting": 0, "owners": 0, "assigned": 0});
    assert_eq!(all[1], orders);
    assert_eq!(
        column(&listed(&server, &["buckets", "--prefix", "order"]), "bucket"),
        ["order-archive", "orders"]
    );
    assert_eq!(column(&listed(&server, &["buckets", "--limit", "1"]), "bucket"), ["order-archive"]);
    let table = lockhouse(&server, &["buckets"]).output().unwrap();
    let lines: Vec<_> = stdout(&table).lines().collect();
    assert_eq!(lines[0], "BUCKET         HELD  WAITING  OWNERS  ASSIGNED");
    assert_eq!(lines[2], "orders         2     0        0       0");
}

#[test]
fn what_no_list_knows_is_a_wrong_usage() {
    for (arguments, said) in [
        (&["ls", "--sort", "size"][..], "possible values: name, age"),
        (&["ls", "--state", "free"], "possible values: held, pending, assigned"),
        (&["ls", "--older-than", "5"], "a duration is written like"),
        (&["ls", "--token", "x"], "invalid digit"),
        (&["ls", "report", "--watch"], "cannot be used with"),
        (&["buckets", "--limit", "x"], "invalid digit"),
        (&["buckets", "--limit", "0"], "'0' for '--limit <COUNT>': number would be zero"),
        (&["ls", "--limit", "0"], "'0' for '--limit <COUNT>': number would be zero"),
        (&["history", "a", "--prefix", "b"], "cannot be used with"),
        (&["ls", "a", "--prefix", "b"], "cannot be used with"),
        (&["history", "--limit", "0"], "'0' for '--limit <COUNT>': number would be zero"),
    ] {
        let output = bare(arguments).output().unwrap();
        assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
    let server = ServerProcess::start("10s");
    let output = lockhouse(&server, &["ls", "--token", "0"]).output().unwrap();
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(stderr(&output).contains("--token: fencingToken is \"0\", but must be an integer"), "{output:?}");
    let output = lockhouse(&server, &["buckets", "--prefix", &"x".repeat(257)]).output().unwrap();
    assert_eq!(code(&output), 2, "{output:?}");
    let mut server = server;
    server.kill();
    for command in [&["buckets"][..], &["ls", "report"]] {
        assert_eq!(code(&lockhouse(&server, command).output().unwrap()), 69);
    }
}
