//! Faults that keep a server from starting: one line that names the fault and the remedy, and the exit code.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;

use crate::certificates::Ca;
use crate::running::{Running, lockhouse, run, run_in_vain};

#[test]
fn each_error_of_the_start_is_one_line_with_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = Ca::new(path, "ca");
    let (good, other, old, early) =
        (ca.sign("good"), ca.sign("other"), ca.sign_expired("old"), ca.sign_early("early"));
    fs::write(path.join("empty.pem"), "nothing\n").unwrap();
    fs::write(path.join("broken.pem"), "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n")
        .unwrap();
    fs::write(path.join("wrong.toml"), "leese = \"1s\"\n").unwrap();
    fs::create_dir(path.join("folder")).unwrap();
    symlink("loop.pem", path.join("loop.pem")).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let tls = |cert: &str, key: &str| vec![format!("--tls-cert={cert}"), format!("--tls-key={key}")];
    let ca_is = |file: &str| vec![("LOCKHOUSE_TLS_CLIENT_CA", file.to_owned())];
    let none = Vec::<(&str, String)>::new;
    let hash = format!("sha256:{}", "0".repeat(64));
    let key = format!("[{{ id = \"ci\", hash = \"{hash}\", buckets = {{ \"*\" = [\"query\"] }} }}]");
    let key = vec![("LOCKHOUSE_AUTH_KEYS", key)];
    let issuer = |member: &str, file: &str| {
        let of = "id = \"idp\", algorithm = \"HS256\", issuer = \"idp\", audience = \"lockhouse\"";
        vec![("LOCKHOUSE_AUTH_JWT", format!("[{{ {of}, {member} = \"{file}\" }}]"))]
    };
    let table = [
        // Options, variables, exit code, fault, remedy.
        (
            vec!["--config=none.toml".to_owned()],
            none(),
            2,
            "none.toml: the file cannot be read",
            "No such file",
        ),
        (vec!["--config=folder".to_owned()], none(), 2, "folder: the file cannot be read", "directory"),
        (vec!["--config=wrong.toml".to_owned()], none(), 2, "wrong.toml:1: leese: unknown key", "lease"),
        (vec!["--lease=10".to_owned()], none(), 2, "--lease: lease = \"10\"", "500ms, 10s or 1m"),
        (vec!["--listen=nonsense".to_owned()], none(), 2, "nonsense", "HOST:PORT"),
        (vec!["--listen=0.0.0.0:0".to_owned()], none(), 2, "0.0.0.0:0", "loopback"),
        (vec![format!("--listen={taken}")], none(), 1, &taken, "end it, or choose another address"),
        // A network that is nowhere (RFC 5737).
        (vec!["--listen=192.0.2.1:0".to_owned()], key.clone(), 1, "192.0.2.1:0", "choose one of its own"),
        (vec!["--store=sqlite:none/x.db".to_owned()], none(), 1, "none/x.db", "folder"),
        (vec!["--store=sqlite::memory:".to_owned()], none(), 2, "sqlite::memory:", "sqlite:PATH"),
        (
            vec!["--allow-origin=https://*.example".to_owned()],
            none(),
            2,
            "https://*.example",
            "without \"*\"",
        ),
        (vec!["--fresh".to_owned()], none(), 2, "--fresh: fresh = true", "only with the store memory:"),
        (vec!["--tls-cert=good.pem".to_owned()], none(), 2, "--tls-cert: tls.cert", "needs tls.key"),
        (
            tls("none.pem", &good.key),
            none(),
            2,
            "tls.cert = \"none.pem\": none.pem cannot be read",
            "name a PEM file",
        ),
        (
            tls(&good.cert, "none.key"),
            none(),
            2,
            "tls.key = \"none.key\": none.key cannot be read",
            "name a PEM file",
        ),
        (
            tls("folder", &good.key),
            none(),
            2,
            "tls.cert = \"folder\": folder cannot be read",
            "name a PEM file",
        ),
        (
            tls("loop.pem", &good.key),
            none(),
            2,
            "tls.cert = \"loop.pem\": loop.pem cannot be read",
            "name a PEM file",
        ),
        (
            tls("empty.pem", &good.key),
            none(),
            2,
            "tls.cert = \"empty.pem\": empty.pem holds no certificate",
            "must be PEM",
        ),
        (
            tls(&good.cert, "empty.pem"),
            none(),
            2,
            "tls.key = \"empty.pem\": empty.pem holds no private key",
            "must be PEM",
        ),
        (
            tls("broken.pem", &good.key),
            none(),
            2,
            "tls.cert = \"broken.pem\": broken.pem cannot be used",
            "make it anew",
        ),
        (
            tls(&good.cert, &other.key),
            none(),
            2,
            "other.key is not that of the certificate in good.pem",
            "made together",
        ),
        (tls(&old.cert, &old.key), none(), 2, "the certificate in old.pem expired at 2", "renew it"),
        (
            tls(&early.cert, &early.key),
            none(),
            2,
            "the certificate in early.pem is valid only from 2",
            "clock",
        ),
        (
            tls(&good.cert, &good.key),
            ca_is("none.pem"),
            2,
            "tls.client_ca = \"none.pem\": none.pem cannot be read",
            "name a PEM file",
        ),
        (
            tls(&good.cert, &good.key),
            ca_is("empty.pem"),
            2,
            "tls.client_ca = \"empty.pem\": empty.pem holds no certificate",
            "PEM",
        ),
        (vec![], ca_is("ca.pem"), 2, "LOCKHOUSE_TLS_CLIENT_CA: tls.client_ca", "needs tls.cert"),
        (
            vec![],
            vec![("LOCKHOUSE_AUTH_KEYS", "[{ id = \"ci\", hash = \"x\", buckets = {} }]".to_owned())],
            2,
            "auth",
            ":",
        ),
        (
            vec![],
            issuer("key_file", "none.key"),
            2,
            "auth.jwt[0].key_file = \"none.key\": none.key cannot be read",
            "name a file that the server",
        ),
        (
            vec![],
            issuer("key_file", "folder"),
            2,
            "auth.jwt[0].key_file = \"folder\": folder cannot be read",
            "with the key of the issuer",
        ),
        (
            vec![],
            issuer("jwks_file", "none.json"),
            2,
            "auth.jwt[0].jwks_file = \"none.json\": none.json cannot be read",
            "JSON Web Key Set",
        ),
        (vec!["--tls-self-signed=none".to_owned()], none(), 2, "tls.self_signed", "may write to"),
    ];
    for (options, variables, code, what, remedy) in table {
        let mut command = lockhouse(path, &["serve"]);
        let listens = options.iter().any(|option| option.starts_with("--listen"));
        command.env("LOCKHOUSE_LISTEN", if listens { "" } else { "127.0.0.1:0" });
        let keeps =
            options.iter().any(|option| option.starts_with("--store") || option.starts_with("--fresh"));
        command.env("LOCKHOUSE_STORE", if keeps { "" } else { "memory:" });
        command.env("RUST_LOG", "error");
        let (exit, stdout, stderr) = run_in_vain(command.args(&options).envs(variables));
        assert_eq!(
            (exit, stderr.lines().count(), stdout.as_str()),
            (Some(code), 1, ""),
            "{options:?}: {stderr}"
        );
        assert!(stderr.starts_with("lockhouse: "), "{options:?}: {stderr}");
        assert!(stderr.contains(what) && stderr.contains(remedy), "{options:?}: {what} {remedy}: {stderr}");
    }
}

#[test]
fn what_is_wrong_with_all_files_is_reported_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = lockhouse(folder.path(), &["serve", "--tls-cert=none.pem", "--tls-key=none.key"]);
    command.env("LOCKHOUSE_LISTEN", "127.0.0.1:0").env("LOCKHOUSE_STORE", "memory:");
    let (exit, _, stderr) = run_in_vain(command.env("LOCKHOUSE_TLS_CLIENT_CA", "none.ca"));
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!((exit, lines.len()), (Some(2), 3), "{stderr}");
    for (line, what) in lines.iter().zip([
        "lockhouse: LOCKHOUSE_TLS_CLIENT_CA: tls.client_ca = \"none.ca\": none.ca cannot be read",
        "lockhouse: --tls-cert: tls.cert = \"none.pem\": none.pem cannot be read",
        "lockhouse: --tls-key: tls.key = \"none.key\": none.key cannot be read",
    ]) {
        assert!(line.starts_with(what), "{stderr}");
    }
}

#[test]
fn the_exit_codes_are_in_the_help() {
    let folder = tempfile::tempdir().unwrap();
    let (_, help, _) = run(&mut lockhouse(folder.path(), &["serve", "--help"]));
    let codes = help.split("Exit codes:").nth(1).unwrap();
    assert!(codes.contains("1 the system refuses") && codes.contains("2 the settings make"), "{help}");
}

#[test]
fn the_log_of_the_start_names_the_database_file_with_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:a.db"];
    let server = Running::of(lockhouse(folder.path(), &serve));
    let file = folder.path().canonicalize().unwrap().join("a.db");
    let line = server.log("the database file is ");
    assert!(line.contains(" INFO ") && line.ends_with(&format!("is {}\n", file.display())), "{line:?}");
}
