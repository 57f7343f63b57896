//! Nodes that speak TLS with each other, for a client that is known by its certificate.

use std::fs;

use crate::certificates::Ca;
use crate::cluster::fleet::{Fleet, until_settled};
use crate::running::{Running, lockhouse, run};

const SETTINGS: &str = r#"
[tls]
cert = "server.pem"
key = "server.key"
client_ca = "ca.pem"
client_auth = "optional"

[cluster]
ca = "ca.pem"

[[auth.certificates]]
id = "billing"
uri = "spiffe://acme.example/billing"
buckets = { "*" = ["claim", "operate"] }
"#;

#[test]
fn a_client_is_known_by_its_certificate_to_the_node_behind_the_one_that_it_has_come_to() {
    let fleet = Fleet::new();
    let folder = fleet.folder.path();
    let ca = Ca::new(folder, "ca");
    ca.sign("server");
    ca.sign_uri("billing", "spiffe://acme.example/billing");
    fs::write(folder.join("f.toml"), SETTINGS).unwrap();
    let start = |label| Running::of(fleet.command(label, &["--config", "f.toml"]));
    let (a, _b) = (start("a"), start("b"));
    let url = format!("https://127.0.0.1:{}", a.address.port());
    let by = |certificate: &[&str], arguments: &[&str]| {
        let usual = ["--url", &url, "--ca", "ca.pem"];
        run(&mut lockhouse(folder, &[arguments, &usual, certificate].concat()))
    };
    let billing = ["--cert", "billing.pem", "--cert-key", "billing.key"];
    let view = until_settled(2, || {
        let (code, out, error) = by(&billing, &["cluster", "--json"]);
        assert_eq!(code, Some(0), "{error}");
        serde_json::from_str(&out).unwrap()
    });
    // Both nodes have some of these.
    let mut at = [0, 0];
    for number in 0..16 {
        let bucket = format!("bucket-{number}");
        at[usize::from(fleet.is_at_in(&view, &bucket, "b"))] += 1;
        let claim = ["claim", "seat", "--claimant", "ada", "--bucket", &bucket];
        let (code, _, error) = by(&billing, &claim);
        assert_eq!(code, Some(0), "{error}");
        let (code, _, error) = by(&[], &claim);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("certificate"), "{error}");
    }
    assert!(at.iter().all(|count| *count > 0), "{at:?}");
}
