//! `lockhouse config check` and `lockhouse config show`.

use std::fs;

use crate::running::{Running, lockhouse, run};

const WRONG: &str = r#"listen = "nowhere"
lease = "10"
alowed_origins = ["https://a.example"]
fresh = "yes"
drain = "2h"
allowed_origins = ["https://a.example", "https://b.example/path", 7]

[lock_types]
customer = "exclusive-writer"

[tls]
cert = "cert.pem"
client_auth = 1
lease = "5s"

[tlss]
"#;

#[test]
fn every_fault_is_reported_in_one_line_with_file_line_key_value_and_rule() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.toml"), WRONG).unwrap();
    let (code, stdout, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    let expected = [
        r#"f.toml:1: listen = "nowhere": must be HOST:PORT, such as 127.0.0.1:7420 or [::1]:7420"#,
        r#"f.toml:2: lease = "10": a duration is written like 500ms, 10s or 1m"#,
        "f.toml:3: alowed_origins: unknown key; the nearest known one is allowed_origins",
        r#"f.toml:4: fresh = "yes": must be true or false"#,
        r#"f.toml:5: drain = "2h": draining takes at most 1h"#,
        r#"f.toml:6: allowed_origins[1] = "https://b.example/path": an origin is the scheme of a page and a host, with a port from 1 to 65535 if it has one, without a path and without "*", like https://app.example or http://localhost:3000"#,
        "f.toml:6: allowed_origins[2] = 7: must be a text in quotation marks",
        r#"f.toml:9: lock_types.customer = "exclusive-writer": must be "read-write" or "exclusive-write" or "exclusive-read""#,
        r#"f.toml:12: tls.cert = "cert.pem": needs tls.key, the file with the private key"#,
        r#"f.toml:13: tls.client_auth = 1: must be "required" or "optional""#,
        "f.toml:14: tls.lease: unknown key; the nearest known one is lease, which stands above all tables",
        "f.toml:16: tlss: unknown key; the nearest known one is tls",
    ];
    let expected: Vec<String> = expected.iter().map(|line| format!("lockhouse: {line}")).collect();
    assert_eq!(stderr.lines().collect::<Vec<_>>(), expected);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
}

#[test]
fn correct_settings_are_checked_together_and_with_their_files_despite_other_faults() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"lease = "10"
alowed_origins = []
fresh = true
[tls]
cert = "none.pem"
key = "none.key"
client_ca = "none.ca"
[limits]
sessions = "many"
tenant_rate = 0
[[auth.keys]]
id = "A"
hash = "sha256:00"
tenant = "acme"
buckets = { jobs = ["query"] }
[[auth.jwt]]
id = "idp"
algorithm = "HS256"
issuer = "idp"
audience = "lockhouse"
key_file = "none.txt"
"#;
    fs::write(folder.path().join("f.toml"), text).unwrap();
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    let expected = [
        "1: lease = \"10\"",
        "2: alowed_origins: unknown key",
        "3: fresh = true: only with the store memory:",
        "5: tls.cert = \"none.pem\": none.pem cannot be read",
        "6: tls.key = \"none.key\": none.key cannot be read",
        "7: tls.client_ca = \"none.ca\": none.ca cannot be read",
        "9: limits.sessions = \"many\": must be a whole number",
        "10: limits.tenant_rate = 0: must be from 1 to 10000000",
        "12: auth.keys[0].id",
        "21: auth.jwt[0].key_file",
    ];
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!((code, lines.len()), (Some(2), expected.len()), "{stderr}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("lockhouse: f.toml:{expected}")), "{line}\n{expected}");
    }
}

#[test]
fn a_setting_that_depends_on_a_wrong_one_is_not_reported_itself() {
    let folder = tempfile::tempdir().unwrap();
    let text = "store = 7\nfresh = true\n[tls]\ncert = 7\nkey = \"key.pem\"\nclient_ca = \"ca.pem\"\n";
    fs::write(folder.path().join("f.toml"), text).unwrap();
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("store = 7") && stderr.contains("tls.cert = 7"), "{stderr}");
    assert!(!stderr.contains("fresh") && !stderr.contains("needs"), "{stderr}");
}

#[test]
fn a_fault_of_all_settings_together_is_reported_alike() {
    let folder = tempfile::tempdir().unwrap();
    let text = "lease = \"5s\"\nfresh = true\n[tls]\nkey = \"key.pem\"\nclient_ca = \"ca.pem\"\n[limits]\nconnections = 1\nhello_timeout = \"2h\"\n";
    fs::write(folder.path().join("f.toml"), text).unwrap();
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    let expected = [
        "f.toml:2: fresh = true: only with the store memory:, as a database knows by itself whether there is anything to wait for",
        r#"f.toml:4: tls.key = "key.pem": needs tls.cert, the file with the certificate"#,
        r#"f.toml:5: tls.client_ca = "ca.pem": needs tls.cert and tls.key, as clients have certificates in TLS only"#,
        "f.toml:7: limits.connections = 1: must be from 16 to 1000000",
        r#"f.toml:8: limits.hello_timeout = "2h": must be from 100ms to 1h"#,
    ];
    let expected: Vec<String> = expected.iter().map(|line| format!("lockhouse: {line}")).collect();
    assert_eq!(stderr.lines().collect::<Vec<_>>(), expected);
    assert_eq!(code, Some(2));
}

#[test]
fn the_files_of_a_fleet_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = "store = \"postgres://u@h/d\"\nstore_password_file = \"password\"\n[cluster]\nadvertise = \"https://a.example:7420\"\nsecret_file = \"secret\"\nca = \"ca.pem\"\n";
    fs::write(folder.path().join("f.toml"), text).unwrap();
    fs::write(folder.path().join("secret"), "f").unwrap();
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    assert_eq!(code, Some(2), "{stderr}");
    for part in [
        "f.toml:2: store_password_file = \"password\": password cannot be read",
        "f.toml:5: cluster.secret_file = \"secret\": secret has 1 bytes",
        "f.toml:6: cluster.ca = \"ca.pem\": ",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn a_setting_of_tls_without_effect_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[tls]\nclient_auth = \"required\"\nhsts = \"1h\"\nself_signed = \"tls\"\n";
    fs::write(folder.path().join("f.toml"), text).unwrap();
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    let expected = [
        r#"lockhouse: f.toml:2: tls.client_auth = "required": needs tls.client_ca, as no client is asked for a certificate without it"#,
        r#"lockhouse: f.toml:3: tls.hsts = "1h": needs tls.cert and tls.key, as no browser takes it without a certificate that it trusts"#,
    ];
    assert_eq!((code, stderr.lines().collect::<Vec<_>>()), (Some(2), expected.to_vec()));
}

#[test]
fn invalid_toml_is_reported_with_its_line_and_never_with_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let text = "lease = \"5s\"\nhash = \"lk_not_for_logs\nlease = \"6s\"\n";
    fs::write(folder.path().join("f.toml"), text).unwrap();
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.starts_with("lockhouse: f.toml:2: "), "{stderr}");
    assert!(!stderr.contains("not_for_logs"), "{stderr}");
}

#[test]
fn a_key_in_place_of_its_hash_is_not_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let key = "lk_not_for_logs";
    for hash in [format!("\"{key}\""), format!("[\"{key}\"]"), format!("{{ a = \"{key}\" }}")] {
        let text = format!("[[auth.keys]]\nid = \"ci\"\nhash = {hash}\nbuckets = 7\nhassh = {hash}\n");
        fs::write(folder.path().join("f.toml"), text).unwrap();
        let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
        assert_eq!(code, Some(2), "{stderr}");
        assert!(
            stderr.contains(
                "f.toml:5: auth.keys[0].hassh: unknown key; the nearest known one is auth.keys[0].hash"
            ),
            "{stderr}"
        );
        assert!(!stderr.contains(key), "{stderr}");
    }
    let keys = "[{ id = \"ci\", hash = \"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\", buckets = { \"*\" = [\"query\"] } }]";
    let mut command = lockhouse(folder.path(), &["config", "show"]);
    let (code, shown, stderr) = run(command.env("LOCKHOUSE_AUTH_KEYS", keys));
    assert_eq!(code, Some(0), "{stderr}");
    let expected = "keys = [{ id = \"ci\", hash = \"(secret)\", buckets = { \"*\" = [\"query\"] } }] # LOCKHOUSE_AUTH_KEYS";
    assert!(shown.lines().any(|line| line == expected), "{shown}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "none.toml"]));
    assert_eq!((code, stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.starts_with("lockhouse: none.toml: the file cannot be read (No such file"), "{stderr}");
    fs::write(folder.path().join("f.toml"), b"fresh = true\nlease = \"\xff\"\n").unwrap();
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    assert_eq!((code, stderr.as_str()), (Some(2), "lockhouse: f.toml:2: the file must be UTF-8\n"));
}

#[test]
fn a_right_file_is_passed_without_a_word_whatever_the_environment_says() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.toml"), "lease = \"5s\"\n").unwrap();
    let mut command = lockhouse(folder.path(), &["config", "check", "f.toml"]);
    let result = run(command.env("LOCKHOUSE_LEASE", "nonsense"));
    assert_eq!(result, (Some(0), String::new(), String::new()));
}

#[test]
fn the_settings_in_force_are_shown_with_where_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "lease = \"5s\"\ndrain = \"1s\"\n[lock_types]\n\"a b\" = \"exclusive-read\"\n[tls]\nhsts = \"0s\"\n";
    fs::write(folder.path().join("f.toml"), text).unwrap();
    let mut command = lockhouse(folder.path(), &["config", "show", "--config", "f.toml", "--drain", "3s"]);
    let origins = "https://a.example, https://b.example";
    command.env("LOCKHOUSE_DRAIN", "2s").env("LOCKHOUSE_LEASE", "").env("LOCKHOUSE_ALLOWED_ORIGINS", origins);
    let (code, shown, stderr) = run(&mut command);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let expected = r#"listen = "127.0.0.1:7420" # default
store = "sqlite:lockhouse.db" # default
# store_password_file is not set
store_timeout = "5s" # default
fresh = false # default
lease = "5s" # f.toml:1
drain = "3s" # --drain
allowed_origins = ["https://a.example", "https://b.example"] # LOCKHOUSE_ALLOWED_ORIGINS
lock_types = { "a b" = "exclusive-read" } # f.toml:4
break_reason = "optional" # default

[tls]
# cert is not set
# key is not set
# self_signed is not set
# client_ca is not set
# client_auth is not set
hsts = "0s" # f.toml:6
"#;
    assert!(shown.starts_with(expected), "{shown}");
    // The output is a file that says the same.
    fs::write(folder.path().join("shown.toml"), &shown).unwrap();
    let (code, again, _) = run(&mut lockhouse(folder.path(), &["config", "show", "--config", "shown.toml"]));
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.rsplit_once(" # ").map_or(line, |(value, _)| value).to_owned()).collect()
    };
    assert_eq!((code, values(&again)), (Some(0), values(&shown)));
}

#[test]
fn the_name_of_a_variable_is_all_that_is_checked_of_it_and_is_shown_nowhere() {
    const MISTAKEN: [&str; 2] = ["0123456789abcdef0123456789abcdef", "abcdef0123456789abcdef0123456789"];
    let folder = tempfile::tempdir().unwrap();
    let issuer = |key_env: &str| {
        let text = format!(
            "[[auth.jwt]]\nid = \"idp\"\nalgorithm = \"HS256\"\nissuer = \"idp\"\naudience = \"a\"\nkey_env = \"{key_env}\"\n"
        );
        fs::write(folder.path().join("f.toml"), text).unwrap();
    };
    let run = |arguments: &[&str]| run(&mut lockhouse(folder.path(), arguments));
    issuer("NO_SUCH_VARIABLE_9");
    assert_eq!(run(&["config", "check", "f.toml"]), (Some(0), String::new(), String::new()));
    let (code, _, stderr) = run(&["serve", "--config", "f.toml"]);
    let expected = "lockhouse: f.toml:6: auth.jwt[0].key_env: the environment has no variable of that name\n";
    assert_eq!((code, &*stderr), (Some(2), expected));
    for no_name in ["", "9A", "A-B", "A B", "\u{e4}", MISTAKEN[0]] {
        issuer(no_name);
        let (code, stdout, stderr) = run(&["config", "check", "f.toml"]);
        assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
        assert!(stderr.contains("auth.jwt[0].key_env: must be the name of a variable"), "{stderr}");
    }
    // A user who put the key there does not find it in the report, be it a name or not.
    for key in MISTAKEN {
        issuer(key);
        for arguments in [
            &["config", "check", "f.toml"][..],
            &["config", "show", "--config", "f.toml"],
            &["serve", "--config", "f.toml"],
        ] {
            let (_, stdout, stderr) = run(arguments);
            assert!(!stdout.contains(&key[..16]) && !stderr.contains(&key[..16]), "{stdout}{stderr}");
        }
    }
}

#[test]
fn a_variable_that_is_empty_says_nothing_to_any_command() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let url = format!("http://{}", server.address);
    for (arguments, variables) in [
        (&["config", "show"][..], &["LOCKHOUSE_CONFIG"][..]),
        (
            &["ls", "--url", &url],
            &["LOCKHOUSE_CA", "LOCKHOUSE_CERT", "LOCKHOUSE_CERT_KEY", "LOCKHOUSE_KEY", "LOCKHOUSE_BUCKET"],
        ),
    ] {
        let mut command = lockhouse(folder.path(), arguments);
        for variable in variables {
            command.env(variable, "");
        }
        let (code, _, stderr) = run(&mut command);
        assert_eq!((code, &*stderr), (Some(0), ""), "{arguments:?}");
    }
    // Settings of the command line are not passed over.
    let (code, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "show", "--config", ""]));
    assert!(code == Some(2) && stderr.contains("--config"), "{stderr}");
}
