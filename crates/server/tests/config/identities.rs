//! A server with certificates of clients in its settings, from the check of the file to the end of an entry.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::certificates::Ca;
use crate::running::{Running, lockhouse, run};

const PATIENCE: Duration = Duration::from_secs(20);

const TLS: &str = "[tls]\ncert = \"server.pem\"\nkey = \"server.key\"\nclient_ca = \"cas.pem\"\nclient_auth = \"required\"\n";

fn entry(name: &str, permissions: &str) -> String {
    format!(
        "[[auth.certificates]]\nid = \"{name}\"\nuri = \"spiffe://acme.example/{name}\"\nbuckets = {{ \"*\" = [{permissions}] }}\n"
    )
}

/// Settings with the clients `stays` and `goes`, whose certificates are of different CAs.
fn settings(folder: &Path) -> String {
    let (ca, others) = (Ca::new(folder, "ca"), Ca::new(folder, "others"));
    ca.sign("server");
    ca.sign_uri("stays", "spiffe://acme.example/stays");
    others.sign_uri("goes", "spiffe://acme.example/goes");
    take_cas(folder, &["ca", "others"]);
    let usual = r#""request", "query""#;
    let text = TLS.to_owned() + &entry("stays", usual) + &entry("goes", usual);
    fs::write(folder.join("f.toml"), &text).unwrap();
    text
}

fn take_cas(folder: &Path, names: &[&str]) {
    let cas: String =
        names.iter().map(|name| fs::read_to_string(folder.join(format!("{name}.pem"))).unwrap()).collect();
    fs::write(folder.join("cas.pem"), cas).unwrap();
}

/// A command of one of the clients.
fn of(folder: &Path, server: &Running, name: &str, arguments: &[&str]) -> Command {
    let mut command = lockhouse(folder, arguments);
    command
        .env("LOCKHOUSE_URL", format!("https://{}", server.address))
        .env("LOCKHOUSE_CA", "ca.pem")
        .env("LOCKHOUSE_CERT", format!("{name}.pem"))
        .env("LOCKHOUSE_CERT_KEY", format!("{name}.key"));
    command
}

/// A lock of `goes` that is held until its input ends, or it is lost.
fn held(folder: &Path, server: &Running) -> Child {
    let mut holder = of(folder, server, "goes", &["run", "report", "--", "sh", "-c", "echo held; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The server lists a lock before its holder has learned of it.
    let mut said = [0; 5];
    holder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(said, *b"held\n");
    holder
}

/// The lock is lost, and free for the other; its client is not let in any more, and gets the reason.
fn has_ended(folder: &Path, server: &Running, holder: &mut Child, why: &str) {
    assert_eq!(holder.wait().unwrap().code(), Some(76));
    let taken =
        of(folder, server, "stays", &["run", "report", "--timeout", "20s", "--", "true"]).output().unwrap();
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    let (code, _, stderr) = run(&mut of(folder, server, "goes", &["ls"]));
    assert!(code != Some(0) && stderr.contains(why), "{stderr}");
}

#[test]
fn an_entry_that_is_taken_out_or_curbed_ends_its_sessions_at_the_reload() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let text = settings(path);
    let server = Running::start(path, &["--config", "f.toml"]);
    let less = TLS.to_owned() + &entry("stays", r#""request", "query""#) + &entry("goes", "\"request\"");
    let without = TLS.to_owned() + &entry("stays", r#""request", "query""#);
    for (changed, why) in [(less, "\"query\""), (without, "stands for nobody")] {
        let mut holder = held(path, &server);
        fs::write(path.join("f.toml"), changed).unwrap();
        server.hang_up();
        server.log("reloaded");
        has_ended(path, &server, &mut holder, why);
        fs::write(path.join("f.toml"), &text).unwrap();
        server.hang_up();
        server.log("reloaded");
    }
    // The last one can be taken out, too, and no client is let in by that.
    fs::write(path.join("f.toml"), TLS).unwrap();
    server.hang_up();
    server.log("nobody is admitted");
    server.log("reloaded");
    assert_eq!(run(&mut of(path, &server, "stays", &["ls"])).0, Some(1));
}

#[test]
fn a_ca_that_is_taken_out_ends_the_sessions_of_its_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    settings(path);
    let server = Running::start(path, &["--config", "f.toml"]);
    let mut holder = held(path, &server);
    let mut other =
        of(path, &server, "stays", &["run", "other", "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !run(&mut of(path, &server, "stays", &["ls", "--json"])).1.contains("\"other\"") {
        assert!(begun.elapsed() < PATIENCE, "nothing is held");
    }
    // Without a signal, as the file is looked at.
    take_cas(path, &["ca"]);
    server.log("it is reloaded");
    has_ended(path, &server, &mut holder, "UnknownCA");
    // The session of the other CA goes on.
    drop(other.stdin.take());
    assert_eq!(other.wait().unwrap().code(), Some(0));
}

#[test]
fn a_wrong_entry_is_reported_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let good = settings(path);
    let check = |text: &str| {
        fs::write(path.join("f.toml"), text).unwrap();
        run(&mut lockhouse(path, &["config", "check", "f.toml"]))
    };
    assert_eq!(check(&good), (Some(0), String::new(), String::new()));
    let begin = TLS.lines().count();
    for (wrong, line, rule) in [
        (
            "dns = \"*.acme.example\"",
            3,
            "auth.certificates[0].dns = \"*.acme.example\": is \"*.acme.example\", but must be a domain name without *",
        ),
        (
            "uri = \"billing\"",
            3,
            "auth.certificates[0].uri = \"billing\": is \"billing\", but must be a URI with its scheme",
        ),
        (
            "email = \"ada\"",
            3,
            "auth.certificates[0].email = \"ada\": is \"ada\", but must be an e-mail address",
        ),
        (
            "sha256 = \"3F\"",
            3,
            "auth.certificates[0].sha256 = \"3F\": is \"3F\", but must be 32 bytes in hexadecimal",
        ),
        ("", 1, "exactly one of dns, uri, email and sha256 must be there"),
        ("uri = \"a:b\"\ndns = \"a.example\"", 1, "exactly one of dns, uri, email and sha256 must be there"),
        (
            "url = \"a:b\"",
            3,
            "auth.certificates[0].url: unknown key; the nearest known one is auth.certificates[0].uri",
        ),
        ("uri = \"a:b\"\ntenant = \"a b\"", 4, "auth.certificates[0].tenant = \"a b\""),
        ("uri = \"a:b\"\nid = \"c\"", 4, "duplicate key"),
    ] {
        let text =
            format!("{TLS}[[auth.certificates]]\nid = \"c\"\n{wrong}\nbuckets = {{ \"*\" = [\"query\"] }}\n");
        let (code, stdout, stderr) = check(&text);
        assert_eq!((code, &*stdout, stderr.lines().count()), (Some(2), "", 1), "{wrong}: {stderr}");
        let begins = format!("lockhouse: f.toml:{}: ", begin + line);
        assert!(stderr.starts_with(&begins) && stderr.contains(rule), "{wrong}: {stderr}");
    }
    // Faults of several together.
    let twice = TLS.to_owned()
        + &entry("c", "\"query\"")
        + &entry("d", "\"query\"").replace("acme.example/d", "acme.example/c");
    let (_, _, stderr) = check(&twice);
    let line = begin + 7;
    assert!(stderr.starts_with(&format!("lockhouse: f.toml:{line}: auth.certificates[1].uri")), "{stderr}");
    assert!(stderr.contains("stands in the entry \"c\" already"), "{stderr}");
    let same_id = TLS.to_owned() + &entry("c", "\"query\"") + &entry("c", "\"query\"");
    assert!(check(&same_id).2.contains("auth.certificates[1].id = \"c\""), "{:?}", check(&same_id));
    let no_ca = TLS.replace("client_ca = \"cas.pem\"\nclient_auth = \"required\"\n", "");
    let no_ca = no_ca + &entry("c", "\"query\"");
    let (code, _, stderr) = check(&no_ca);
    assert_eq!((code, stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(
        stderr.starts_with("lockhouse: f.toml:4: auth.certificates")
            && stderr.contains("needs tls.client_ca"),
        "{stderr}"
    );
}
