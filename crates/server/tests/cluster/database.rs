//! Trouble of the database, as the log, `/readyz`, `lockhouse cluster` and `lockhouse doctor` name it, and as
//! a start meets it.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpSocket;

use crate::cluster::fleet::{Fleet, url};
use crate::running::{Running, lockhouse, run, run_in_vain};

async fn set(fleet: &Fleet, setting: &str) {
    let admin = fleet.database.connect().await;
    admin.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
}

/// What a load balancer reads, once it is as wanted.
async fn readiness(node: &Running, is_wanted: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let answer = reqwest::get(format!("{}/readyz", url(node))).await.unwrap();
        let text = format!("{} {}", answer.status().as_u16(), answer.text().await.unwrap());
        if is_wanted(&text) {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{text}");
    }
}

async fn is_named(harm: &str, cure: &str, words: &str) {
    let fleet = Fleet::new();
    // With times that a busy machine keeps, so that nothing else is in the log.
    let mut command = fleet.command("a", &["--slot-lease", "3s"]);
    command.env_remove("LOCKHOUSE_LEASE");
    let node = Running::of(command);
    readiness(&node, |text| text.starts_with("200")).await;
    set(&fleet, harm).await;
    let ready = readiness(&node, |text| text.contains(words)).await;
    assert!(ready.starts_with("503"), "{ready}");
    let (_, shown, error) = run(&mut lockhouse(fleet.folder.path(), &["cluster", "--url", &url(&node)]));
    assert!(shown.contains(words), "{shown}{error}");
    let mut doctor = lockhouse(fleet.folder.path(), &["doctor", "--server", &url(&node), "--node", "a"]);
    doctor.env("LOCKHOUSE_STORE", fleet.store()).env("LOCKHOUSE_CLUSTER_SECRET_FILE", fleet.secret());
    let (code, found, error) = run(doctor.env("LOCKHOUSE_CLUSTER_SLOTS", "16"));
    assert_eq!(code, Some(1), "{found}{error}");
    assert!(found.contains(words), "{found}");
    set(&fleet, cure).await;
    readiness(&node, |text| text.starts_with("200")).await;
    let (_, log) = node.terminate();
    let of_store = |line: &&String| line.contains("the store is away") || line.contains("the store is back");
    let lines: Vec<_> = log.iter().filter(of_store).collect();
    assert!(
        matches!(lines[..], [begin, end] if begin.contains("WARN") && end.contains("is back")),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn a_database_that_has_become_read_only_is_named() {
    let words = "default_transaction_read_only";
    is_named("default_transaction_read_only = on", "default_transaction_read_only = off", words).await;
}

#[tokio::test]
async fn a_standby_that_is_away_is_named() {
    let (harm, cure) = ("synchronous_standby_names = 'gone'", "synchronous_standby_names = ''");
    is_named(harm, cure, "synchronous_standby_names").await;
}

/// A node that does not serve yet.
struct Starting {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Starting {
    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log }
    }

    /// The next line of the log that has this in it.
    fn log(&mut self, part: &str) -> String {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "no {part:?}");
        }
        line
    }

    /// Waits until it says where it listens.
    fn announces(&mut self) {
        let mut first = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        assert!(first.starts_with("listening "), "{first}");
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        // It may have ended before.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn a_node_waits_at_its_start_for_a_database_that_is_down() {
    let mut fleet = Fleet::new();
    fleet.database.stop();
    // The port stays ours until the node has it, too.
    let port = TcpSocket::new_v4().unwrap();
    port.set_reuseaddr(true).unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = port.local_addr().unwrap();
    let mut node = Starting::of(fleet.command_at(&free.to_string(), "a", &[]));
    let line = node.log("waits for the store");
    assert!(line.contains("WARN") && line.contains("error connecting to server"), "{line}");
    // Who connects goes on to another node at once, instead of waiting for this one.
    assert_eq!(TcpStream::connect(free).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    fleet.database.start_again();
    node.log("the store can be used");
    node.announces();
}

#[tokio::test]
async fn a_node_waits_at_its_start_for_a_free_connection() {
    let fleet = Fleet::new();
    let admin = fleet.database.connect().await;
    let role = "CREATE ROLE app LOGIN CONNECTION LIMIT 0; GRANT CREATE ON DATABASE postgres TO app";
    admin.batch_execute(role).await.unwrap();
    let mut command = fleet.command("a", &[]);
    command.env("LOCKHOUSE_STORE", fleet.store().replace("postgres@", "app@"));
    let mut node = Starting::of(command);
    let line = node.log("waits for the store");
    assert!(line.contains("too many connections") && line.contains("the limit of the role"), "{line}");
    admin.batch_execute("ALTER ROLE app CONNECTION LIMIT 5").await.unwrap();
    node.announces();
}

#[test]
fn a_node_that_waits_for_its_database_ends_at_sigterm_or_after_its_bound() {
    let mut fleet = Fleet::new();
    fleet.database.stop();
    let mut node = Starting::of(fleet.command("a", &[]));
    node.log("waits for the store");
    kill_process(Pid::from_child(&node.child), Signal::TERM).unwrap();
    assert_eq!(node.child.wait().unwrap().code(), Some(0));
    let (code, _, error) = run_in_vain(&mut fleet.command("a", &["--wait-for-store", "0s"]));
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("cannot be used: error connecting to server") && !error.contains("waits"),
        "{error}"
    );
}

/// However long it waits, these would not pass.
#[tokio::test]
async fn a_node_does_not_wait_for_what_only_other_settings_mend() {
    let fleet = Fleet::new();
    for (from, to, part) in
        [("/postgres", "/nowhere", "\"nowhere\" does not exist"), ("postgres@", "stranger@", "\"stranger\"")]
    {
        let mut command = fleet.command("a", &[]);
        // Only at its end, or at its beginning: the name is in the path of the socket, too.
        let store = fleet.store();
        let store = match from {
            "/postgres" => format!("{}{to}", store.strip_suffix(from).unwrap()),
            _ => store.replacen(from, to, 1),
        };
        let (code, _, error) = run_in_vain(command.env("LOCKHOUSE_STORE", store));
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(part), "{error}");
    }
}
