//! Each fault is one line that names the setting, the value and the rule, and nothing is half done.

use std::fs;

use crate::cluster::fleet::{Fleet, url};
use crate::running::{lockhouse, run, run_in_vain};

#[test]
fn a_node_that_cannot_be_one_says_why_in_one_line() {
    let fleet = Fleet::new();
    let _a = fleet.start("a");
    let start = |label: &str, more: &[&str]| run_in_vain(&mut fleet.command(label, more));
    let one_line = |(code, out, error): (Option<i32>, String, String), expected: i32, parts: &[&str]| {
        assert_eq!((code, out.as_str()), (Some(expected), ""), "{error}");
        let faults: Vec<_> = error.lines().filter(|line| line.starts_with("lockhouse: ")).collect();
        assert_eq!(faults.len(), 1, "{error}");
        parts.iter().for_each(|part| assert!(faults[0].contains(part), "{part}: {error}"));
    };
    one_line(start("a", &[]), 1, &["cluster.node: label is \"a\"", "give each node a label of its own"]);
    one_line(start("b", &["--advertise", &url(&_a)]), 1, &["cluster.advertise: ", &url(&_a), "\"a\""]);

    let other = fleet.folder.path().join("other");
    fs::write(&other, "f".repeat(32)).unwrap();
    let other = other.to_str().unwrap();
    one_line(start("b", &["--cluster-secret-file", other]), 1, &["cluster secret", "\"a\""]);
    let short = fleet.folder.path().join("short");
    fs::write(&short, "f").unwrap();
    let short = short.to_str().unwrap();
    one_line(start("b", &["--cluster-secret-file", short]), 2, &["cluster.secret_file", "1 bytes", "32"]);
    one_line(start("b", &["--cluster-secret-file", "/nowhere"]), 2, &["cluster.secret_file", "/nowhere"]);

    let mut slots = fleet.command("b", &[]);
    slots.env("LOCKHOUSE_CLUSTER_SLOTS", "32");
    one_line(run_in_vain(&mut slots), 1, &["slots is 32", "made with 16"]);
    one_line(start("b", &["--slot-lease", "2s"]), 2, &["cluster.slot_lease = \"2s\"", "lease of 2s"]);
    one_line(start("b", &["--slot-lease", "1h"]), 2, &["cluster.slot_lease = \"1h\"", "from 500ms to 1m"]);
    let advertise = |url| start("b", &["--advertise", url]);
    one_line(advertise("http://10.0.0.1:7420"), 2, &["cluster.advertise", "must be https://"]);
    one_line(advertise("10.0.0.1"), 2, &["cluster.advertise = \"10.0.0.1\"", "must be http"]);
    let store = |address| start("b", &["--store", address]);
    let (code, _, error) = store("postgres://u:hunter2@127.0.0.1:1/d");
    assert_eq!(code, Some(2));
    assert!(error.contains("must have no password in it") && !error.contains("hunter2"), "{error}");
    let nowhere = ["--store", "postgres://nobody@127.0.0.1:1/d", "--wait-for-store", "0s"];
    one_line(start("b", &nowhere), 1, &["127.0.0.1"]);
    for (address, fault) in
        [("postgres://u@h:1/d?colour=red", "parameter"), ("postgres://u@h:port/d", "its port is no number")]
    {
        one_line(store(address), 2, &["store = ", address, fault, "postgres://USER@HOST:PORT/DATABASE"]);
    }
    let statement = ["--config", "x.toml"];
    fs::write(fleet.folder.path().join("x.toml"), "[cluster]\nstatement_timeout = \"250ms\"\n").unwrap();
    one_line(start("b", &statement), 2, &["cluster.statement_timeout = \"250ms\"", "nine tenths"]);

    // Nothing of these has touched the fleet.
    assert_eq!(fleet.view(&_a)["nodes"].as_array().unwrap().len(), 1);
    let drain = ["cluster", "drain", "nowhere", "--url", &url(&_a)];
    let (code, _, error) = run(&mut lockhouse(fleet.folder.path(), &drain));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("the label of a node: \"a\""), "{error}");
    let (code, _, error) =
        run(&mut lockhouse(fleet.folder.path(), &["cluster", "drain", "--url", &url(&_a)]));
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("node is \"a\"") && error.contains("no other node could take its slots"),
        "{error}"
    );
}

#[test]
fn a_first_command_waits_for_the_slots_of_a_node_that_has_just_started() {
    let fleet = Fleet::new();
    let a = fleet.start("a");
    let arguments = ["run", "n", "--url", &url(&a), "--", "echo", "held"];
    let (code, out, error) = run(&mut lockhouse(fleet.folder.path(), &arguments));
    assert_eq!((code, out.trim()), (Some(0), "held"), "{error}");
}

#[test]
fn settings_of_a_fleet_are_refused_with_another_store() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--advertise=http://127.0.0.1:1", "--node=a", "--cluster-secret-file=s", "--cluster-ca=c"]
    {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", option];
        let (code, _, error) = run_in_vain(&mut lockhouse(folder.path(), &arguments));
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("only with the store postgres://"), "{error}");
    }
}
