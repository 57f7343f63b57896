//! The metrics of a node, beside those that the documentation, the alert rules and the dashboard name.

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse::remote::connect;

use crate::cluster::fleet::{Fleet, SLOT_LEASE, SLOTS, url};
use crate::exposition::Exposition;
use crate::running::Running;

const RULES: &str = include_str!("../../../../deploy/alerts.yml");
const RULE_TESTS: &str = include_str!("../../../../deploy/alerts.test.yml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana.json");
const DOCS: &str = include_str!("../../../../docs/metrics.md");

/// A node with some of everything, and its metrics.
async fn busy() -> (Fleet, Vec<Running>, Exposition) {
    let (fleet, nodes) = tokio::task::spawn_blocking(|| Fleet::of(1)).await.unwrap();
    let connection = connect(url(&nodes[0])).await.unwrap();
    let (one, other) = (connection.agent("one").unwrap(), connection.agent("other").unwrap());
    let held = one.locks().request("n").await.unwrap();
    let waiting = tokio::spawn(other.locks().request("n").into_future());
    let claim = connection.claims().claim("seat", "Ada", Duration::from_secs(60)).await.unwrap();
    let owner = connection.owners().open("Ada", Duration::from_secs(60)).await.unwrap();
    let seen = Exposition::of(&format!("{}/metrics", url(&nodes[0]))).await;
    drop((held, waiting, claim, owner));
    (fleet, nodes, seen)
}

fn names_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("lockhouse_")).collect()
}

/// The families of the table in the documentation.
fn documented() -> BTreeSet<&'static str> {
    let rows = DOCS.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).filter(|name| name.starts_with("lockhouse_")).collect()
}

#[tokio::test]
async fn a_busy_node_shows_every_metric_of_the_rules_and_the_dashboard() {
    let (_fleet, _nodes, seen) = busy().await;
    for (file, text) in [("alerts.yml", RULES), ("alerts.test.yml", RULE_TESTS), ("grafana.json", DASHBOARD)]
    {
        let names = names_in(text);
        assert!(names.len() > 10, "{file}: {names:?}");
        let missing: Vec<_> = names.into_iter().filter(|name| !seen.has(name)).collect();
        assert!(missing.is_empty(), "{file} names {missing:?}, which no server shows");
    }
    assert_eq!(seen.value(r#"lockhouse_slots{state="serving"}"#), f64::from(SLOTS));
    assert_eq!(seen.value(r#"lockhouse_node_phase{phase="member"}"#), 1.0);
    assert_eq!(seen.value("lockhouse_slot_lease_seconds"), SLOT_LEASE.as_secs_f64());
    assert!(seen.value("lockhouse_unconfirmed_seconds") < SLOT_LEASE.as_secs_f64());
    assert_eq!(seen.value(r#"lockhouse_stores{state="serving"}"#), f64::from(SLOTS));
    assert!(seen.value("lockhouse_commit_seconds_count") >= 2.0);
    assert_eq!(seen.sum("lockhouse_held"), 2.0);
}

#[tokio::test]
async fn the_documentation_lists_the_metrics_that_there_are() {
    let (_fleet, _nodes, seen) = busy().await;
    let documented = documented();
    let family = |name: &str| {
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        histogram.filter(|family| documented.contains(family)).unwrap_or(name).to_owned()
    };
    let shown: BTreeSet<String> = seen.names().map(family).collect();
    let documented: BTreeSet<String> = documented.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(shown, documented);
}
