//! The settings that a running server takes anew.

use std::fs;

use crate::certificates::Ca;
use crate::config::keys::new_key;
use crate::running::{Running, lockhouse};

#[test]
fn a_change_that_waits_for_the_next_start_is_logged_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.toml");
    fs::write(&file, "lease = \"5s\"\n").unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    fs::write(&file, "\nlease = \"6s\"\n").unwrap();
    server.hang_up();
    let line = server.log("lease");
    assert!(line.contains("f.toml:2: lease has changed") && line.contains("next start"), "{line}");
    server.log("reloaded");
    // Settings that are as they were at the start are not logged.
    fs::write(&file, "drain = \"10s\"\nlease = \"5s\"\n").unwrap();
    server.hang_up();
    server.log("reloaded");
    let (code, rest) = server.terminate();
    assert_eq!(code, Some(0));
    assert!(!rest.iter().any(|line| line.contains("has changed")), "{rest:?}");
}

#[test]
fn a_broken_file_leaves_everything_as_it_was_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.toml");
    let ca = Ca::new(folder.path(), "ca");
    let (good, other) = (ca.sign("good"), ca.sign("other"));
    let text = |key: &str, more: &str| format!("{more}[tls]\ncert = \"{}\"\nkey = \"{key}\"\n", good.cert);
    fs::write(&file, text(&good.key, "")).unwrap();
    let mut server = Running::start(folder.path(), &["--config", "f.toml"]);
    assert!(server.announced[0].starts_with("listening https://127.0.0.1:"), "{:?}", server.announced);

    fs::write(&file, text(&good.key, "leese = \"1s\"\nlease = 7\n")).unwrap();
    server.hang_up();
    assert!(server.log("leese").contains("f.toml:1: leese: unknown key; the nearest known one is lease"));
    assert!(server.log("lease = 7").contains("f.toml:2: lease = 7: must be a text in quotation marks"));
    server.log("nothing is reloaded: the server goes on as it was");

    fs::write(&file, text(&other.key, "")).unwrap();
    server.hang_up();
    server.log("other.key is not that of the certificate in good.pem");
    server.log("nothing is reloaded: the server goes on as it was");

    fs::remove_file(&file).unwrap();
    server.hang_up();
    server.log("f.toml: the file cannot be read");
    server.log("nothing is reloaded: the server goes on as it was");
    assert!(!server.has_ended());

    let ls = |server: &Running| {
        let url = format!("https://{}", server.address);
        let mut command = lockhouse(folder.path(), &["ls", "--url", &url, "--ca", "ca.pem"]);
        command.status().unwrap().success()
    };
    assert!(ls(&server));
}

#[test]
fn a_deleted_key_is_refused_though_something_else_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.toml");
    let ca = Ca::new(folder.path(), "ca");
    let (good, expired) = (ca.sign("good"), ca.sign_expired("old"));
    fs::write(&file, format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\n", good.cert, good.key)).unwrap();
    let [stays, first, second] =
        ["stays", "first", "second"].map(|id| new_key(folder.path(), &["--id", id, "--permission", "query"]));
    let text = fs::read_to_string(&file).unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let is_taken = |key: &str| {
        let url = format!("https://{}", server.address);
        let mut command = lockhouse(folder.path(), &["ls", "--url", &url, "--ca", "ca.pem"]);
        command.env("LOCKHOUSE_KEY", key).output().unwrap().status.success()
    };
    assert!([&stays, &first, &second].into_iter().all(|key| is_taken(key)));
    let without = |text: &str, id: &str| {
        let sections: Vec<&str> = text.split("[[auth.keys]]").collect();
        let is_left = |section: &&&str| !section.contains(&format!("id = \"{id}\""));
        sections.iter().filter(is_left).copied().collect::<Vec<_>>().join("[[auth.keys]]")
    };

    // The certificate on the disk has expired.
    let text = without(&text, "first").replace(&good.cert, &expired.cert).replace(&good.key, &expired.key);
    fs::write(&file, &text).unwrap();
    server.hang_up();
    server.log("old.pem expired at");
    server.log("only the section auth is reloaded");
    assert_eq!([&stays, &first, &second].map(|key| is_taken(key)), [true, false, true]);

    // A value is wrong.
    let text = without(&text, "second") + "[limits]\ntenant_rate = 0\n";
    fs::write(&file, &text).unwrap();
    server.hang_up();
    server.log("limits.tenant_rate = 0");
    server.log("only the section auth is reloaded");
    assert_eq!([&stays, &second].map(|key| is_taken(key)), [true, false]);

    // The content of the section auth is not known.
    fs::write(&file, text.replace("auth", "auht")).unwrap();
    server.hang_up();
    server.log("nothing is reloaded");
    assert!(is_taken(&stays));
}

#[test]
fn limits_are_taken_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.toml");
    fs::write(&file, "").unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let url = format!("http://{}", server.address);
    let claim = |name: &str| {
        let mut command = lockhouse(folder.path(), &["claim", name, "--claimant", "Ada", "--url", &url]);
        command.output().unwrap().status.success()
    };
    assert!(claim("a"));
    fs::write(&file, "[limits]\ntenant_rate = 1\n").unwrap();
    server.hang_up();
    server.log("reloaded");
    // More than one in a second is refused.
    assert!(!(0..20).all(|n| claim(&format!("b{n}"))));
    fs::write(&file, "[limits]\nnames_per_bucket = 7\n").unwrap();
    server.hang_up();
    let line = server.log("names_per_bucket");
    assert!(line.contains("f.toml:2: limits.names_per_bucket has changed"), "{line}");
    server.log("reloaded");
    // Once what was asked for too fast has been made up for.
    let begun = std::time::Instant::now();
    while !claim("c") {
        assert!(begun.elapsed().as_secs() < 20, "it is still as slow");
    }
}

#[test]
fn tls_is_switched_off_by_a_new_start_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.toml");
    let good = Ca::new(folder.path(), "ca").sign("good");
    fs::write(&file, format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\n", good.cert, good.key)).unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    fs::write(&file, "").unwrap();
    server.hang_up();
    server.log("TLS is switched on or off at the next start only");
    let url = format!("https://{}", server.address);
    let ls = lockhouse(folder.path(), &["ls", "--url", &url, "--ca", "ca.pem"]).status().unwrap();
    assert!(ls.success());
}
