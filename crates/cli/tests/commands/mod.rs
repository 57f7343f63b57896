//! The commands for owners, locks, claims and assignments as real processes.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::postgres::Server;
use crate::process::ServerProcess;
use crate::program;

/// Nothing that is waited for takes so long on a working server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A shell in which a user types commands.
struct Shell {
    url: String,
    variables: Vec<(String, String)>,
}

impl Shell {
    fn new(server: &ServerProcess) -> Self {
        Self { url: server.url(), variables: Vec::new() }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program::lockhouse());
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env("LOCKHOUSE_URL", &self.url)
            .env_remove("LOCKHOUSE_BUCKET");
        command
            .env_remove("LOCKHOUSE_OWNER")
            .env_remove("LOCKHOUSE_OWNER_SECRET")
            .env_remove("LOCKHOUSE_CLAIM_TOKEN");
        let output = command.envs(self.variables.iter().map(|(key, value)| (key, value))).output().unwrap();
        traces::answer(&String::from_utf8_lossy(&output.stdout));
        traces::leave(&output.stderr);
        output
    }

    /// The exit code, stdout and stderr.
    fn output(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.run(arguments);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.output(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout.trim_end().to_owned()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    fn code(&self, arguments: &[&str]) -> i32 {
        self.output(arguments).0
    }

    /// `export $(lockhouse owner open LABEL)`
    fn export_owner(&mut self, label: &str) {
        let printed = self.ok(&["owner", "open", label]);
        let pairs = printed.lines().map(|line| line.split_once('=').unwrap());
        self.variables = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        assert_eq!(self.variables.len(), 2, "{printed}");
    }
}

#[test]
fn owners_lock_and_unlock_records_and_others_get_their_holders() {
    let server = ServerProcess::start("10s");
    let (mut anna, mut bob) = (Shell::new(&server), Shell::new(&server));
    anna.export_owner("Anna");
    bob.export_owner("Bob");
    // Which server and bucket may be said behind the word, too.
    let elsewhere = ["owner", "open", "Carl", "--url", &server.url(), "--bucket", "other"];
    assert_eq!(anna.ok(&elsewhere).lines().count(), 2);
    let locked = anna.json(&["lock", "customer/42", "order/7", "--metadata", "m", "--json"]);
    assert_eq!(locked["locks"][1]["name"], "order/7");
    assert!(anna.ok(&["lock", "customer/42"]).ends_with("alreadyHeld"));

    let (code, stdout, stderr) = bob.output(&["lock", "page/1", "customer/42"]);
    assert_eq!((code, stdout.as_str()), (75, ""));
    assert!(stderr.contains("  customer/42: Anna since 20"), "{stderr}");
    assert_eq!(bob.code(&["lock", "--read", "order/7"]), 75);

    assert!(anna.ok(&["owner", "show"]).contains("customer/42  exclusive"));
    assert!(anna.ok(&["owner", "beat"]).starts_with("lives until 20"));
    assert_eq!(anna.ok(&["unlock", "customer/42", "nothing/1"]), "1 released");
    assert_eq!(bob.code(&["lock", "customer/42"]), 0);
    assert_eq!(anna.json(&["unlock", "--all", "--json"]), json!({"released": 1}));
    assert_eq!(bob.code(&["owner", "end"]), 0);
    assert_eq!(bob.code(&["owner", "beat"]), 76);
    assert_eq!(bob.code(&["lock", "customer/42"]), 76);
}

#[test]
fn of_two_processes_that_lock_one_record_over_one_database_one_is_refused() {
    let server = ServerProcess::with_file("500ms");
    let (mut anna, mut bob) = (Shell::new(&server), Shell::new(&server));
    anna.export_owner("Anna");
    bob.export_owner("Bob");
    for round in 0..8 {
        let record = format!("customer/{round}");
        let codes = std::thread::scope(|scope| {
            let others = scope.spawn(|| bob.code(&["lock", &record]));
            let mut codes = [anna.code(&["lock", &record]), others.join().unwrap()];
            codes.sort();
            codes
        });
        assert_eq!(codes, [0, 75], "round {round}");
    }
    let list = anna.json(&["ls", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 8, "one holder each: {list}");
}

#[test]
fn a_claim_is_made_renewed_finalized_and_its_assignment_listed_and_deleted() {
    let server = ServerProcess::start("10s");
    let shell = Shell::new(&server);
    let token = shell.ok(&["claim", "seat/1", "--claimant", "Anna", "--ttl", "5m"]);
    let (code, _, stderr) = shell.output(&["claim", "seat/1", "--claimant", "Bob"]);
    assert_eq!(code, 75);
    assert!(stderr.starts_with("lockhouse: claimed by \"Anna\", until 20"), "{stderr}");
    assert!(shell.ok(&["renew", "seat/1", &token]).starts_with("stands until 20"));
    assert_eq!(shell.code(&["finalize", "seat/1", "nonsense"]), 76);
    let assigned = shell.json(&["finalize", "seat/1", &token, "--json"]);
    assert_eq!((&assigned["resource"], &assigned["claimant"]), (&json!("seat/1"), &json!("Anna")));
    assert_eq!(shell.json(&["assignments", "--json"]), json!([assigned]));
    // A claim that was made final is not said to have expired.
    for what in ["release", "renew"] {
        let (code, _, stderr) = shell.output(&[what, "seat/1", &token]);
        assert!(code == 76 && stderr.contains("or was made final"), "{what}: {stderr}");
    }
    assert_eq!(shell.ok(&["assignments", "--prefix", "row/"]), "");
    assert_eq!(shell.code(&["claim", "seat/1", "--claimant", "Bob"]), 75);
    for was in [true, false] {
        let deleted = shell.json(&["assignments", "delete", "seat/1", "--json"]);
        assert_eq!(deleted, json!({"resource": "seat/1", "deleted": was}));
    }
    assert_eq!(shell.code(&["finalize", "seat/1", &token]), 76);
    let token =
        shell.json(&["claim", "seat/1", "--claimant", "Bob", "--json"])["token"].as_str().unwrap().to_owned();
    shell.ok(&["release", "seat/1", &token]);
    assert_eq!(shell.code(&["release", "seat/1", &token]), 76);
}

#[test]
fn after_a_kill_and_a_restart_ls_shows_the_same_offline_locks_and_the_next_token_is_higher() {
    let mut server = ServerProcess::with_file("500ms");
    let mut shell = Shell::new(&server);
    shell.export_owner("Anna");
    shell.ok(&["lock", "customer/42", "order/7"]);
    shell.ok(&["claim", "seat/1", "--claimant", "Anna", "--ttl", "1h"]);
    let offline = |list: Value| -> Vec<Value> {
        let entries = list.as_array().unwrap().iter();
        // The lease of an owner runs anew after a restart.
        entries
            .map(|entry| {
                json!([entry["name"], entry["kind"], entry["owner"], entry["since"], entry["fencingToken"]])
            })
            .collect()
    };
    let before = offline(shell.json(&["ls", "--json"]));
    assert_eq!(before.len(), 3, "{before:?}");
    server.restart();
    assert_eq!(offline(shell.json(&["ls", "--json"])), before);
    let begin = Instant::now();
    let locked = loop {
        let (code, stdout, stderr) = shell.output(&["lock", "page/1", "--json"]);
        if code == 0 {
            break serde_json::from_str::<Value>(&stdout).unwrap();
        }
        assert!(code == 75 && stderr.contains("recovers") && begin.elapsed() < PATIENCE, "{stderr}");
    };
    let highest = before.iter().filter_map(|entry| entry[4].as_u64()).max().unwrap();
    assert!(locked["locks"][0]["fencingToken"].as_u64().unwrap() > highest);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_rule_and_exit_2() {
    let server = ServerProcess::start("10s");
    let shell = Shell::new(&server);
    for (arguments, rule) in [
        (&["lock", "customer", "--owner", "1", "--secret", "x"][..], "KIND/ID"),
        (&["lock", "a/b"], "open one with \"lockhouse owner open LABEL\""),
        (&["unlock", "--all"], "export them as LOCKHOUSE_OWNER and LOCKHOUSE_OWNER_SECRET"),
        (&["owner", "end", "--owner", "1"], "an owner is needed, and its secret"),
        (&["unlock", "--owner", "1", "--secret", "x"], "<KIND/ID>..."),
        (&["claim", "r", "--claimant", ""], "claimant is \"\", but must be a string of 1 to 256 bytes"),
        (&["claim", "-x", "--claimant", "A"], "-x"),
        (&["claim", "r", "--claimant", "A", "--ttl", "5"], "500ms, 10s or 1m"),
        (&["claim", "r", "--claimant", "A", "--url", "ftp://x"], "begins with http:// or https://"),
        (&["assignments", "--url", "nonsense"], "http://127.0.0.1:7420"),
    ] {
        let (code, _, stderr) = shell.output(arguments);
        assert_eq!(code, 2, "{arguments:?}: {stderr}");
        assert!(stderr.contains(rule), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_69_in_one_line() {
    let mut server = ServerProcess::start("10s");
    server.kill();
    let shell = Shell::new(&server);
    for arguments in [&["claim", "r", "--claimant", "A"][..], &["assignments"], &["owner", "open", "Anna"]] {
        let (code, _, stderr) = shell.output(arguments);
        assert_eq!(code, 69, "{stderr}");
        assert!(stderr.starts_with(&format!("lockhouse: cannot reach {}: ", server.url())), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_backup_of_the_running_server_is_restored_into_a_stopped_one() {
    let mut server = ServerProcess::with_file("500ms");
    let mut shell = Shell::new(&server);
    shell.export_owner("Anna");
    let before = shell.json(&["lock", "customer/42", "--json"])["locks"][0]["fencingToken"].as_u64().unwrap();
    let (database, backup) = (server.file(), server.file().with_file_name("backup.db"));
    let store = format!("sqlite:{}", database.display());
    let backup = backup.to_str().unwrap();
    assert!(shell.ok(&["backup", backup, "--store", &store]).starts_with("backed up to "));
    let (code, _, stderr) = shell.output(&["backup", backup, "--store", &store]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("exists already"), "{stderr}");
    let nowhere = database.with_file_name("no/backup.db");
    let (code, _, stderr) = shell.output(&["backup", nowhere.to_str().unwrap(), "--store", &store]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("its folder is not there"), "{stderr}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(backup).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    shell.ok(&["lock", "order/7"]);
    let (code, _, stderr) = shell.output(&["restore", backup, "--store", &store]);
    assert!(code == 1 && stderr.contains("in use"), "{stderr}");

    assert!(server.terminate());
    let (code, _, stderr) = shell.output(&["backup", "x.db", "--store", &store]);
    assert!(code == 1 && stderr.contains("no server runs on this database"), "{stderr}");
    assert!(shell.json(&["restore", backup, "--store", &store, "--json"])["keptAside"].is_string());
    server.start_again();
    let names = |list: Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(shell.json(&["ls", "--json"])), ["customer/42"]);
    let begin = Instant::now();
    let after = loop {
        let (code, stdout, stderr) = shell.output(&["lock", "page/1", "--json"]);
        if code == 0 {
            break serde_json::from_str::<Value>(&stdout).unwrap()["locks"][0]["fencingToken"]
                .as_u64()
                .unwrap();
        }
        assert!(code == 75 && begin.elapsed() < PATIENCE, "{stderr}");
    };
    // What the server may have reserved before counts as given.
    assert!(after > before + (1 << 20), "{after}");
}

#[test]
fn a_backup_is_restored_into_an_empty_fleet_and_once() {
    let mut server = ServerProcess::with_file("500ms");
    let mut shell = Shell::new(&server);
    shell.export_owner("Anna");
    let token = shell.json(&["lock", "customer/42", "--json"])["locks"][0]["fencingToken"].as_u64().unwrap();
    let file = server.file();
    let backup = file.with_file_name("backup.db");
    let (backup, of_server) = (backup.to_str().unwrap(), format!("sqlite:{}", file.display()));
    shell.ok(&["backup", backup, "--store", &of_server]);
    assert!(server.terminate());

    let database = Server::start(&[]);
    let host = database.folder().to_str().unwrap().replace('/', "%2F");
    let with_password = format!("postgres://postgres:geheim@{host}/postgres");
    let (code, _, stderr) = shell.output(&["restore", backup, "--store", &with_password]);
    assert!(
        code == 2 && stderr.contains("must have no password in it") && !stderr.contains("geheim"),
        "{stderr}"
    );
    let store = format!("postgres://postgres@{host}/postgres");
    let report = shell.json(&["restore", backup, "--store", &store, "--slots", "16", "--json"]);
    assert!(report["tokensAbove"].as_u64().unwrap() > token && report["rows"].as_u64() > Some(2), "{report}");
    let (code, _, stderr) = shell.output(&["restore", backup, "--store", &store, "--slots", "16"]);
    assert!(code == 1 && stderr.contains("is in use: it has buckets; name another"), "{stderr}");
    for (args, why) in [
        (["--store", &store, "--slots", "17"], "slots is 17, but "),
        (["--store", &store, "--slots", "0"], "0 is not in 1..=4096"),
        (["--store", &of_server, "--slots", "16"], "--slots: must be absent"),
        (["--store", "nonsense:", "--slots", "16"], "postgres://USER@HOST/DATABASE"),
    ] {
        let (code, _, stderr) = shell.output(&[&["restore", backup], &args[..]].concat());
        assert_eq!(code, if args[3] == "17" { 1 } else { 2 }, "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
}

#[test]
fn a_restore_warns_of_a_clock_that_was_ahead_at_an_earlier_one() {
    let mut server = ServerProcess::with_file("500ms");
    assert!(server.terminate());
    let (shell, file) = (Shell::new(&server), server.file());
    let restored = file.with_file_name("restored.db");
    let store = format!("sqlite:{}", restored.display());
    let restore = || shell.output(&["restore", file.to_str().unwrap(), "--store", &store]);
    let (code, _, stderr) = restore();
    assert_eq!((code, &*stderr), (0, ""));
    // As a restore leaves it whose clock shows the year 2096. The next one rises by four years of numbers.
    let floor = 4_000_000_000_i64 << 20;
    let database = rusqlite::Connection::open(&file).unwrap();
    database.execute("UPDATE slots SET token_floor = ?1", [floor]).unwrap();
    drop(database);
    let (code, _, stderr) = restore();
    assert_eq!(code, 0, "{stderr}");
    let warning =
        "lockhouse: warning: the fencing tokens are ahead of the clock of this machine until 2101-01-03T";
    assert!(stderr.starts_with(warning) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn a_backup_needs_the_secret_beside_the_database() {
    let server = ServerProcess::with_file("500ms");
    let shell = Shell::new(&server);
    let store = format!("sqlite:{}", server.file().display());
    std::fs::write(server.operator_file(), "nonsense").unwrap();
    let target = server.file().with_file_name("backup.db");
    let (code, _, stderr) = shell.output(&["backup", target.to_str().unwrap(), "--store", &store]);
    assert!(code == 1 && stderr.contains(".operator"), "{stderr}");
    assert!(!target.exists());
}

#[test]
fn holds_are_broken_by_name_by_token_and_by_prefix_and_the_history_has_them() {
    let server = ServerProcess::with_file("10s");
    let mut shell = Shell::new(&server);
    shell.export_owner("Anna");
    let locked = shell.json(&["lock", "seat/1", "seat/2", "seat/3", "customer/42", "--json"]);
    let token = |at: usize| locked["locks"][at]["fencingToken"].to_string();
    let (code, stdout, stderr) = shell.output(&["break", "seat/1", "--token", &token(1)]);
    assert_eq!((code, stdout.as_str()), (75, ""));
    let why = format!("lockhouse: nothing broken: \"seat/1\" is not held with the token {}\n", token(1));
    assert_eq!(stderr, why);
    assert_eq!(shell.output(&["break", "seat"]).2, "lockhouse: nothing broken: \"seat\" is not held\n");
    let broke = shell.ok(&["break", "seat/1", "--reason", "she has left"]);
    assert!(broke.starts_with("broke seat/1  offline  Anna  20"), "{broke}");
    assert!(broke.ends_with(&format!("  {}", token(0))), "{broke}");
    let dry = shell.ok(&["break", "--prefix", "seat/", "--dry-run"]);
    assert_eq!(dry.lines().filter(|line| line.starts_with("would break seat/")).count(), 2, "{dry}");
    let broken = shell.json(&["break", "--prefix", "seat/", "--json"]);
    assert_eq!((broken["broken"].as_array().unwrap().len(), &broken["gone"]), (2, &json!([])));
    let nothing = shell.output(&["break", "--prefix", "seat/"]);
    assert_eq!(nothing.2, "lockhouse: nothing broken: no name that begins with \"seat/\" is held\n");
    assert!(shell.ok(&["owner", "show"]).contains("customer/42  exclusive"));
    for wrong in
        [&["break"][..], &["break", "n", "--prefix", "n"], &["break", "--prefix", "n", "--token", "1"]]
    {
        assert_eq!(shell.code(wrong), 2, "{wrong:?}");
    }
    let history = shell.json(&["history", "--json"]);
    let names: Vec<_> = history.as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["seat/3", "seat/2", "seat/1"]);
    let table = shell.ok(&["history", "seat/1"]);
    let (header, line) = table.split_once('\n').unwrap();
    assert!(header.starts_with("ENDED  ") && header.ends_with("BY AND WHY"), "{table}");
    assert!(
        line.contains("  broken  offline  seat/1  Anna  ") && line.ends_with("(she has left)"),
        "{table}"
    );
    assert_eq!(shell.ok(&["history", "--limit", "1", "--end", "broken"]).lines().count(), 2);
    let empty = "nothing that was asked for has ended or was refused in bucket \"default\"";
    assert_eq!(shell.ok(&["history", "--end", "stolen"]), empty);
    let (code, _, stderr) = shell.output(&["history", "--end", "gone"]);
    assert_eq!(code, 2, "{stderr}");
}
