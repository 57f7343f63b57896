//! Servers that are no lockhouse, and lockhouse servers that are full.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::support::{bare, code, holder, lockhouse, stderr, stdout};
use crate::process::ServerProcess;

/// A server that gives every request the same answer.
struct Foreign {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Foreign {
    /// `answer` is what comes behind `HTTP/1.1 `.
    fn start(answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (format!("HTTP/1.1 {answer}"), requests.clone());
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, answer, count) = (stream.unwrap(), answer.clone(), count.clone());
                std::thread::spawn(move || serve(stream, &answer, &count));
            }
        });
        Self { url, requests }
    }

    /// With this status and this body of JSON.
    fn with(status: u16, body: &str) -> Self {
        let length = body.len();
        Self::start(&format!(
            "{status} Fine\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }
}

/// Answers the requests of a connection. The client may end it at any time.
fn serve(mut stream: TcpStream, answer: &str, count: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = text.trim().parse().unwrap();
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        count.fetch_add(1, Ordering::Relaxed);
        stream.write_all(answer.as_bytes()).ok()?;
        if !answer.contains("content-length") {
            return None;
        }
    }
}

/// What answers of other programs have for a body.
const BODIES: [(u16, &str); 7] =
    [(200, ""), (200, "{}"), (200, "[]"), (200, "null"), (200, r#"{"token":null}"#), (201, "7"), (204, "")];

const SECRET: &str = "3b3beb300bea6813d6d2dd9ace8b12dbc16aedfc";

#[test]
fn an_empty_or_foreign_answer_is_no_success() {
    let owner = ["--owner", "1", "--secret", SECRET];
    let changes: [&[&str]; 12] = [
        &["claim", "seat", "--claimant", "Ada"],
        &["renew", "seat", SECRET],
        &["release", "seat", SECRET],
        &["finalize", "seat", SECRET],
        &["assignments", "delete", "seat"],
        &["owner", "open", "Ada"],
        &[&["owner", "beat"], &owner[..]].concat(),
        &[&["lock", "customer/42"], &owner[..]].concat(),
        &[&["unlock", "customer/42"], &owner[..]].concat(),
        &[&["unlock", "--all"], &owner[..]].concat(),
        &["break", "seat", "--token", "7"],
        &["cluster", "drain"],
    ];
    let questions: [&[&str]; 7] = [
        &["ls", "seat"],
        &["history"],
        &["buckets"],
        &["cluster"],
        &["assignments"],
        &["break", "seat", "--dry-run"],
        &[&["owner", "show"], &owner[..]].concat(),
    ];
    for (status, body) in BODIES {
        let server = Foreign::with(status, body);
        let outcomes = changes.iter().map(|command| (command, 74)).chain(questions.iter().map(|it| (it, 69)));
        for (command, expected) in outcomes {
            let output = bare(command).env("LOCKHOUSE_URL", &server.url).output().unwrap();
            let what = format!("{command:?} after {status} {body:?}: {output:?}");
            assert_eq!((code(&output), stdout(&output)), (expected, ""), "{what}");
            assert!(stderr(&output).contains("does not answer as a lockhouse server"), "{what}");
        }
    }
    // The real answer has no body either, but another status.
    let end = &[&["owner", "end"], &owner[..]].concat();
    let output = bare(end).env("LOCKHOUSE_URL", &Foreign::with(200, "{}").url).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (74, ""), "{output:?}");
}

#[test]
fn an_answer_about_other_records_than_were_asked_for_is_no_success() {
    for body in [
        r#"{"owner":"1","expiresAt":"2026-01-01T00:00:00Z","locks":[]}"#,
        r#"{"locks":[{"kind":"customer","id":"43","name":"customer/43","how":"fresh","fencingToken":7}]}"#,
    ] {
        let server = Foreign::with(201, body);
        let mut lock = bare(&["lock", "customer/42", "--owner", "1", "--secret", SECRET]);
        let output = lock.env("LOCKHOUSE_URL", &server.url).output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (74, ""), "{output:?}");
    }
}

#[test]
fn a_redirect_is_not_followed_and_is_reported() {
    let other = Foreign::with(200, "{}");
    let answer =
        |status| format!("{status} Elsewhere\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.url);
    for status in [301, 302, 303, 307, 308] {
        let server = Foreign::start(&answer(status));
        for command in
            [&["claim", "seat", "--claimant", "Ada", "--key", SECRET][..], &["history"], &["events"]]
        {
            let output = bare(command).env("LOCKHOUSE_URL", &server.url).output().unwrap();
            assert_eq!(code(&output), 69, "{output:?}");
            assert!(stderr(&output).contains(&format!("leads to {:?}", other.url)), "{output:?}");
        }
    }
    assert_eq!(other.requests.load(Ordering::Relaxed), 0);
}

#[test]
fn a_stream_that_is_none_ends_the_events() {
    for answer in [
        "200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
        "200 OK\r\ncontent-length: 0\r\n\r\n",
        "204 No Content\r\ncontent-length: 0\r\n\r\n",
    ] {
        let server = Foreign::start(answer);
        let output = bare(&["events"]).env("LOCKHOUSE_URL", &server.url).output().unwrap();
        assert_eq!(code(&output), 69, "{output:?}");
        assert!(stderr(&output).contains("does not answer as a lockhouse server"), "{output:?}");
        assert_eq!(server.requests.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn foreign_events_end_the_events() {
    for event in [
        "data: <html>",
        "data: x",
        "event: granted\ndata: {}",
        "event: state\ndata: {}",
        "event: gap\ndata: 7",
    ] {
        let head = "200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
        let server = Foreign::start(&format!("{head}\r\n\r\n{event}\n\n"));
        let output = bare(&["events"]).env("LOCKHOUSE_URL", &server.url).output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (69, ""), "{output:?}");
        assert!(stderr(&output).contains("its events are none"), "{output:?}");
    }
}

#[test]
fn an_answer_that_lacks_something_shows_no_secret() {
    let body =
        format!(r#"{{"token":"{SECRET}","ownerSecret":"{SECRET}","resource":"seat","claimant":"Ada"}}"#);
    for (status, body) in [(201, &*body), (500, &body), (201, &body[..60])] {
        let server = Foreign::with(status, body);
        for command in [&["claim", "seat", "--claimant", "Ada"][..], &["owner", "open", "Ada"]] {
            let output = bare(command).env("LOCKHOUSE_URL", &server.url).output().unwrap();
            assert_eq!((code(&output), stdout(&output)), (74, ""), "{output:?}");
            assert!(!stderr(&output).contains(SECRET), "{output:?}");
        }
    }
}

#[test]
fn events_whose_streams_bring_nothing_are_asked_for_ever_more_rarely_and_then_given_up() {
    let server = Foreign::start("200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
    let begun = Instant::now();
    let output = bare(&["events"]).env("LOCKHOUSE_URL", &server.url).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (69, ""), "{output:?}");
    assert!(stderr(&output).contains("its events are none"), "{output:?}");
    // The pauses double from 100 ms.
    assert!(begun.elapsed() >= Duration::from_millis(1500), "after {:?}", begun.elapsed());
    assert_eq!(server.requests.load(Ordering::Relaxed), 5);
}

/// A server with these limits.
fn limited(limits: &str) -> ServerProcess {
    let file = std::env::temp_dir().join(format!("lockhouse-limits-{}.toml", std::process::id()));
    std::fs::write(&file, format!("[limits]\n{limits}\n")).unwrap();
    let server = ServerProcess::with_options("10s", &["--config", file.to_str().unwrap()]);
    std::fs::remove_file(file).unwrap();
    server
}

#[test]
fn a_full_server_names_its_setting_and_is_waited_for() {
    for setting in ["sessions", "sessions_per_tenant", "connections_per_tenant"] {
        let server = limited(&format!("{setting} = 1"));
        let mut held = holder(&server, "n", "read _");
        let output = lockhouse(&server, &["run", "m", "--", "echo", "ran"]).output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (75, ""), "{output:?}");
        assert!(stderr(&output).contains(&format!("takes no more sessions now ({setting})")), "{output:?}");
        let late = ["run", "m", "--wait-for-server", "--timeout", "500ms", "--", "echo", "ran"];
        let output = lockhouse(&server, &late).output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (75, ""), "{output:?}");
        assert!(stderr(&output).lines().last().unwrap().contains(setting), "{output:?}");
        let waiting = lockhouse(&server, &["run", "m", "--wait-for-server", "--", "echo", "ran"]).spawn();
        let mut waiting = waiting.unwrap();
        let mut first = String::new();
        let mut errors = BufReader::new(waiting.stderr.take().unwrap());
        errors.read_line(&mut first).unwrap();
        assert!(first.contains(setting) && first.contains("waiting for it"), "{first}");
        drop(held.stdin.take());
        held.wait().unwrap();
        let output = waiting.wait_with_output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (0, "ran\n"), "{output:?}");
    }
}

#[test]
fn a_bucket_that_is_full_is_no_wrong_usage() {
    for (setting, most) in [("names_per_bucket", 1), ("agents_per_bucket", 2), ("requests_per_bucket", 1)] {
        let server = limited(&format!("{setting} = {most}"));
        let mut held = holder(&server, "n", "read _");
        let output =
            lockhouse(&server, &["run", "m", "--timeout", "1s", "--", "echo", "ran"]).output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (75, ""), "{setting}: {output:?}");
        assert!(stderr(&output).contains(setting), "{setting}: {output:?}");
        let late = ["run", "m", "--wait-for-server", "--timeout", "500ms", "-E", "9", "--", "echo", "ran"];
        let output = lockhouse(&server, &late).output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (75, ""), "{setting}: {output:?}");
        assert!(stderr(&output).lines().last().unwrap().contains(setting), "{setting}: {output:?}");
        let waiting = lockhouse(&server, &["run", "m", "--wait-for-server", "--", "echo", "ran"]).spawn();
        let mut waiting = waiting.unwrap();
        let mut first = String::new();
        let mut errors = BufReader::new(waiting.stderr.take().unwrap());
        errors.read_line(&mut first).unwrap();
        assert!(first.contains(setting) && first.contains("waiting for it"), "{first}");
        drop(held.stdin.take());
        held.wait().unwrap();
        let output = waiting.wait_with_output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (0, "ran\n"), "{setting}: {output:?}");
    }
}
