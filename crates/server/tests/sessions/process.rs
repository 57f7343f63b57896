//! The binary: what it prints, and how it ends.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};

use serde_json::json;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::program;
use crate::sessions::support::Client;

fn lockhouse(arguments: &[&str]) -> Command {
    let mut command = Command::new(program::lockhouse());
    command.args(arguments).env_remove("LOCKHOUSE_LISTEN").env_remove("RUST_LOG");
    command.env("LOCKHOUSE_STORE", "memory:");
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = lockhouse(arguments).output().unwrap();
    traces::leave(&stderr);
    (status.code(), String::from_utf8(stderr).unwrap())
}

fn start(command: &mut Command) -> (Child, SocketAddr) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening http://").unwrap_or_else(|| panic!("{line:?}"));
    (child, address.trim_end().parse().unwrap())
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn the_first_line_says_where_and_sigterm_ends_it_with_0() {
    for name in ["-TERM", "-INT"] {
        let (mut child, address) =
            start(&mut lockhouse(&["serve", "--fresh", "--listen", "127.0.0.1:0", "--lease", "5s"]));
        let mut client = Client::hello(address, "").await;
        assert_eq!(client.welcome["leaseMs"], 5000);
        assert_eq!(client.welcome["heartbeatMs"], 500);
        let secret = client.welcome["secret"].as_str().unwrap().to_owned();
        client.join(1).await;
        client.request(1, 1, "n").await;
        client.granted(1).await;
        signal(&child, name);
        assert_eq!(client.next().await, json!({"type": "closing", "reason": "shutdown"}));
        client.release(1).await;
        assert_eq!(client.closed().await, 1012);
        let status = tokio::task::spawn_blocking(move || {
            let status = child.wait().unwrap();
            (status, child)
        });
        let (status, child) = status.await.unwrap();
        assert_eq!(status.code(), Some(0));
        let mut logs = String::new();
        child.stderr.unwrap().read_to_string(&mut logs).unwrap();
        traces::leave(logs.as_bytes());
        assert!(!logs.contains(&secret));
    }
}

#[tokio::test]
async fn a_server_whose_stderr_is_gone_still_drains() {
    let arguments = ["serve", "--fresh", "--listen", "127.0.0.1:0"];
    let (mut child, address) = start(lockhouse(&arguments).env("RUST_LOG", "lockhouse_server=debug"));
    drop(child.stderr.take());
    let mut client = Client::hello(address, "").await;
    client.join(1).await;
    client.request(1, 1, "n").await;
    client.granted(1).await;
    signal(&child, "-TERM");
    assert_eq!(client.next().await, json!({"type": "closing", "reason": "shutdown"}));
    client.release(1).await;
    assert_eq!(client.closed().await, 1012);
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

/// Killed when dropped.
struct Mortal(Child);

impl Drop for Mortal {
    fn drop(&mut self) {
        // The process may have ended before.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The memory of the process, in bytes.
fn resident(process: &Mortal) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// One short session: fifty frames that are wrong, each in its own way, the last of them so that the
/// connection ends.
async fn short_session(address: SocketAddr, number: u64) {
    let mut client = Client::hello(address, "").await;
    client.join(1).await;
    client.request(1, 1, &format!("name {number}")).await;
    client.granted(1).await;
    for burst in 0..7 {
        for n in 7 * burst..7 * (burst + 1) {
            let seq = client.seq + 1;
            let frame = match n % 4 {
                0 => json!({"type": format!("unknown {n}"), "seq": seq, "ack": client.received}),
                1 => json!({"type": "request", "seq": seq, "id": n + 2, "agent": 9, "name": "x"}),
                2 => {
                    json!({"type": "request", "seq": seq, "id": n + 2, "agent": 1, "name": "x".repeat(5000)})
                }
                _ => {
                    json!({"type": "request", "seq": seq, "id": n + 2, "agent": 1, "name": 7, "mode": "neither"})
                }
            };
            client.seq = seq;
            client.feed(frame).await;
        }
        client.flush().await;
        // The client reads each answer, and acknowledges with the next burst.
        for _ in 0..7 {
            assert_eq!(client.next().await["type"], "error");
        }
    }
    match number % 3 {
        0 => client.send_text("no frame at all").await,
        1 => client.send_text(&"x".repeat(65_537)).await,
        _ => client.send(json!({"type": "ack", "ack": 1_000_000})).await,
    }
    assert_eq!(client.next().await["type"], "fatal");
}

async fn short_sessions(address: SocketAddr, count: u64) {
    let lanes = (0..8).map(|lane| async move {
        for number in (lane..count).step_by(8) {
            short_session(address, number).await;
        }
    });
    futures_util::future::join_all(lanes).await;
}

#[tokio::test]
async fn memory_returns_after_four_hundred_thousand_wrong_frames_and_eight_thousand_short_sessions() {
    const SESSIONS: u64 = 8_000;
    // The memory that the allocator keeps of a crowd swings by some 40 MB from one to the next; a leak of
    // more than 16 KiB per session is three times as much.
    const GROWTH: u64 = SESSIONS * (16 << 10);
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--lease", "2s", "--fresh"];
    let (child, address) = start(&mut lockhouse(&arguments));
    let server = Mortal(child);
    // The memory that a crowd needs at once is no leak. The crowd is about as large as later: those of a
    // lease.
    short_sessions(address, SESSIONS / 4).await;
    until_all_have_ended(address).await;
    let before = resident(&server);
    short_sessions(address, SESSIONS).await;
    until_all_have_ended(address).await;
    let growth = resident(&server).saturating_sub(before);

    assert!(growth <= GROWTH, "{growth} bytes more than before");
}

/// The sessions end with their leases.
async fn until_all_have_ended(address: SocketAddr) {
    let (mut observer, begin) = (Client::hello(address, "").await, std::time::Instant::now());
    for id in 1.. {
        let held = observer.query(id).await.0.len();
        if held == 0 {
            return;
        }
        assert!(begin.elapsed().as_secs() < 30, "{held} locks are held");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[test]
fn logs_have_no_colours_where_stderr_is_no_terminal() {
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    let (child, _) = start(lockhouse(&arguments).env("RUST_LOG", "debug").env("CLICOLOR_FORCE", "1"));
    signal(&child, "-TERM");
    let logs = child.wait_with_output().unwrap().stderr;
    traces::leave(&logs);
    assert!(!logs.is_empty() && !logs.contains(&0x1B), "{}", String::from_utf8_lossy(&logs));
}

#[test]
fn the_environment_names_the_address_and_the_option_goes_before_it() {
    let (mut child, address) = start(lockhouse(&["serve"]).env("LOCKHOUSE_LISTEN", "127.0.0.2:0"));
    assert_eq!(address.ip().to_string(), "127.0.0.2");
    child.kill().unwrap();
    child.wait().unwrap();
    let arguments = ["serve", "--listen", "[::1]:0"];
    let (mut child, address) = start(lockhouse(&arguments).env("LOCKHOUSE_LISTEN", "127.0.0.2:0"));
    assert_eq!(address.ip().to_string(), "::1");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn addresses_that_others_could_reach_are_refused_in_one_line() {
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7420"] {
        let (code, stderr) = run(&["serve", "--listen", listen]);
        assert_eq!(code, Some(2), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(listen) && stderr.contains("loopback"), "{stderr}");
    }
    let (code, stderr) = run(&["serve", "--listen", "nonsense"]);
    assert_eq!((code, stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("nonsense") && stderr.contains("HOST:PORT"));
}

#[test]
fn a_port_in_use_is_reported_in_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let (code, stderr) = run(&["serve", "--listen", &listen]);
    assert_eq!((code, stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains(&listen) && stderr.contains("in use"), "{stderr}");
}

#[test]
fn durations_and_origins_are_checked() {
    for (arguments, hint) in [
        (["--lease", "10"], "500ms, 10s or 1m"),
        (["--lease", "499ms"], "from 500ms to 10m"),
        (["--lease", "1h"], "from 500ms to 10m"),
        (["--drain", "2h"], "at most 1h"),
        (["--allow-origin", "https://app.example/path"], "without a path"),
        (["--allow-origin", "*"], "https://app.example"),
    ] {
        let (code, stderr) = run(&["serve", "--listen", "127.0.0.1:0", arguments[0], arguments[1]]);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(arguments[1]) && stderr.contains(hint), "{arguments:?}: {stderr}");
    }
}

#[test]
fn help_has_examples() {
    let Output { status, stdout, .. } = lockhouse(&["serve", "--help"]).output().unwrap();
    assert!(status.success());
    assert!(
        String::from_utf8(stdout)
            .unwrap()
            .contains("lockhouse serve --store memory: --fresh --listen 127.0.0.1:0")
    );
}

/// A server that is asked to stop while a client holds a lock, with that store and drain time.
async fn stopping(store: &str, drain: &str) -> (Child, Client) {
    let arguments =
        ["serve", "--listen", "127.0.0.1:0", "--store", store, "--drain", drain, "--lease", "500ms"];
    let (child, address) = start(&mut lockhouse(&arguments));
    let mut client = Client::hello(address, "").await;
    client.join(1).await;
    client.request(1, 1, "n").await;
    client.granted(1).await;
    signal(&child, "-TERM");
    assert_eq!(client.next().await, json!({"type": "closing", "reason": "shutdown"}));
    (child, client)
}

/// Waits for its end; the exit code, and the log.
async fn ended(mut child: Child) -> (Option<i32>, String) {
    let end = tokio::task::spawn_blocking(move || {
        let code = child.wait().unwrap().code();
        let mut logs = String::new();
        child.stderr.unwrap().read_to_string(&mut logs).unwrap();
        traces::leave(logs.as_bytes());
        (code, logs)
    });
    tokio::time::timeout(crate::sessions::support::PATIENCE, end).await.expect("it still drains").unwrap()
}

#[tokio::test]
async fn a_second_signal_ends_a_drain_at_once() {
    for second in ["-TERM", "-INT"] {
        let (child, _client) = stopping("memory:", "1h").await;
        signal(&child, second);
        let (code, logs) = ended(child).await;
        assert_eq!(code, Some(0), "{logs}");
        assert!(logs.contains("stopped at once by a second signal"), "{logs}");
    }
}

#[tokio::test]
async fn the_log_after_a_drain_says_what_becomes_of_the_locks() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", folder.path().join("x.db").display());
    for (store, said) in [
        ("memory:", "they are lost, as this server keeps nothing"),
        (&*file, "the next server waits for their holders"),
    ] {
        let (child, _client) = stopping(store, "1ms").await;
        let (code, logs) = ended(child).await;
        assert_eq!(code, Some(0), "{logs}");
        let line = logs.lines().find(|line| line.contains("stopped while web locks were held"));
        assert!(line.is_some_and(|line| line.contains(said)), "{store}: {logs}");
    }
}

#[tokio::test]
async fn a_name_is_listened_on_at_all_its_addresses() {
    let (mut child, first) = start(&mut lockhouse(&["serve", "--fresh", "--listen", "localhost:0"]));
    for host in ["127.0.0.1", "::1"].map(|host| host.parse::<std::net::IpAddr>().unwrap()) {
        // Not every machine has IPv6.
        if std::net::TcpListener::bind((host, 0)).is_ok() {
            Client::hello((host, first.port()).into(), "").await;
        }
    }
    child.kill().unwrap();
}

#[tokio::test]
async fn a_bucket_without_a_name_is_none() {
    let (mut child, address) = start(&mut lockhouse(&["serve", "--fresh", "--listen", "127.0.0.1:0"]));
    let mut request = format!("ws://{address}/v1/ws?bucket=").into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "lockhouse.v1".parse().unwrap());
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let refused = tokio_tungstenite::client_async(request, stream).await.unwrap_err();
    let tokio_tungstenite::tungstenite::Error::Http(response) = refused else { panic!("{refused}") };
    assert_eq!(response.status(), 400);
    let why = String::from_utf8(response.into_body().unwrap()).unwrap();
    assert_eq!(why, "bucket is \"\", but must be 1 to 256 bytes of UTF-8\n");
    child.kill().unwrap();
}
