//! Settings, ports, space and limits.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::doctor::{Found, doctor};
use crate::running::{Running, run};

#[test]
fn faults_of_the_settings_are_named_by_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), "lease = \"10s\"\nleese = \"1s\"\n").unwrap();
    let found = Found::of(folder.path(), &["--config", "a.toml"]);
    found.has_fault("configuration", "a.toml:2: leese: unknown key");
    let found = Found::of(folder.path(), &["--fresh"]);
    found.has_fault("configuration", "only with the store memory:");
}

#[test]
fn a_misspelt_variable_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let found = Found::by(doctor(folder.path(), &[]).env("LOCKHOUSE_LEESE", "1s"));
    found.has_warning("configuration", "LOCKHOUSE_LEESE is unknown");
}

#[test]
fn another_program_at_the_port_is_a_fault_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let found = Found::of(folder.path(), &["--listen", &address]);
    found.has_fault("ports", "is in use by another program");
    if cfg!(target_os = "linux") {
        found.has_fault("ports", &format!("process {}", std::process::id()));
    }
}

#[test]
fn an_address_for_the_metrics_that_cannot_be_had_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let found = Found::of(folder.path(), &["--metrics-listen", &taken]);
    found.has_fault("ports", &format!("metrics.listen: {taken} is in use by another program"));
    drop(listener);
    let found = Found::of(folder.path(), &["--listen", &taken, "--metrics-listen", &taken]);
    found.has_fault("ports", &format!("metrics.listen: {taken} is the address of listen, too"));
    let found = Found::of(folder.path(), &["--metrics-listen", "192.0.2.1:7421"]);
    found.has_fault("ports", "metrics.listen: cannot listen on 192.0.2.1:7421");
    let found = Found::of(folder.path(), &["--metrics-listen", "127.0.0.1:0"]);
    found.says("ports", "metrics.listen: 127.0.0.1:0 can be listened on");
}

#[test]
fn the_addresses_of_a_running_server_are_none_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &["--metrics-listen", "127.0.0.1:0"]);
    let metrics = server.announced.iter().find_map(|line| line.strip_prefix("metrics http://"));
    let metrics = metrics.unwrap().trim_end_matches("/metrics");
    let found =
        Found::of(folder.path(), &["--listen", &server.address.to_string(), "--metrics-listen", metrics]);
    found.says("ports", &format!("metrics.listen: {metrics} is in use by a lockhouse"));
    let found = Found::of(folder.path(), &["--metrics-listen", metrics]);
    found.has_fault("ports", &format!("metrics.listen: {metrics} is in use by a lockhouse"));
}

#[test]
fn levels_of_the_log_that_serve_does_not_take_are_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let found = Found::by(doctor(folder.path(), &[]).env("RUST_LOG", "lockhouse=loud"));
    found.has_fault("configuration", "RUST_LOG is \"lockhouse=loud\", but must be levels of logs");
}

#[test]
fn an_address_beyond_this_machine_without_keys_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let found = Found::of(folder.path(), &["--listen", "0.0.0.0:0"]);
    found.has_fault("ports", "only loopback addresses");
}

#[test]
#[cfg(target_os = "linux")]
fn a_disk_without_space_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let inner = doctor(folder.path(), &[]);
    let mut command = Command::new("unshare");
    // A disk that only this process sees, and that goes with it.
    let script = "mount -t tmpfs -o size=50m none . && cd \"$PWD\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(folder.path()).env_remove("LOCKHOUSE_CONFIG");
    Found::by(&mut command).has_fault("disk space", "50 MiB of 50 MiB are free");
}

#[test]
fn few_open_files_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let inner = doctor(folder.path(), &[]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256 && exec \"$@\"", "sh"]).arg(inner.get_program());
    command.args(inner.get_args()).current_dir(folder.path());
    Found::by(&mut command)
        .has_warning("open files", "256 in this shell, which is enough for 64 connections");
}

#[test]
fn a_secret_that_others_may_read_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "x\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let store = "postgres://u@127.0.0.1:9/d";
    let secret = folder.path().join("secret");
    fs::write(&secret, "0".repeat(32)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let options = ["--store", store, "--store-password-file", "password", "--cluster-secret-file", "secret"];
    let found = Found::of(folder.path(), &options);
    let faults = found.lines("fault").join("\n");
    assert!(faults.contains("secrets: store_password_file: every account"), "{faults}");
}

#[test]
fn a_key_with_which_tokens_are_signed_is_a_secret_and_one_that_only_checks_them_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.toml");
    let file = folder.path().join("signing");
    fs::write(&file, "0".repeat(32)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let issuer = "store = \"memory:\"\n[[auth.jwt]]\nid = \"idp\"\nissuer = \"i\"\naudience = \"a\"\n";
    fs::write(&settings, format!("{issuer}algorithm = \"HS256\"\nkey_file = \"signing\"\n")).unwrap();
    let found = Found::of(folder.path(), &["--config", "settings.toml"]);
    let faults = found.lines("fault").join("\n");
    assert!(faults.contains("secrets: auth.jwt.key_file: every account"), "{faults}");
}

#[test]
fn people_get_a_line_for_each_check_and_a_total() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut command =
        crate::running::lockhouse(folder.path(), &["doctor", "--listen", &address, "--store", "memory:"]);
    let (code, out, error) = run(&mut command);
    assert_eq!((code, &*error), (Some(1), ""));
    let lines: Vec<_> = out.lines().collect();
    let [checks @ .., total] = &*lines else { panic!("{out}") };
    assert_eq!(*total, format!("{} checks, 0 warnings, 1 fault", checks.len()));
    let fault = checks.iter().find(|line| line.starts_with("fault ")).unwrap();
    assert!(fault.ends_with("-> end it, or choose another address with --listen"), "{fault}");
    let (code, _, _) = run(&mut crate::running::lockhouse(folder.path(), &["doctor", "--leese", "1s"]));
    assert_eq!(code, Some(2));
}
