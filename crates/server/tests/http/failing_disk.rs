//! A disk that fails under a running server. strace has one write or sync of the database or its log fail
//! with EIO: what is on the disk is unknown then, and the server ends. Or strace has a sync hang.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lockhouse::remote::connect;
use lockhouse::{ClaimError, StoreError};
use reqwest::Method;
use serde_json::json;

use crate::http::calls::{Answer, Api, PATIENCE};
use crate::http::places::Folder;
use crate::process::{DiskFailure, ServerProcess};
use crate::program;

/// The outcome of a claim, as its client has it.
#[derive(Debug, PartialEq, Eq)]
enum Reported {
    Done,
    Unknown,
    /// Nothing has happened.
    Nothing,
}

/// Who claims.
#[derive(Clone, Copy, Debug)]
enum Claimant {
    Http { key: Option<&'static str> },
    Rust,
    Shell,
}

const CLAIMANTS: [Claimant; 4] =
    [Claimant::Http { key: None }, Claimant::Http { key: Some("k1") }, Claimant::Rust, Claimant::Shell];

const SEAT: &str = "seat/12a";
const JSON: (&str, &str) = ("content-type", "application/json");

impl Claimant {
    async fn claim(self, api: &Api) -> Reported {
        match self {
            Self::Http { key } => claim_by_http(api, SEAT, key).await,
            Self::Rust => claim_by_rust(&api.server.url()).await,
            Self::Shell => {
                let url = api.server.url();
                tokio::task::spawn_blocking(move || claim_by_shell(&url)).await.unwrap()
            }
        }
    }
}

async fn claim_by_http(api: &Api, seat: &str, key: Option<&str>) -> Reported {
    let headers: Vec<_> = [JSON].into_iter().chain(key.map(|key| ("idempotency-key", key))).collect();
    let body = json!({"resource": seat, "claimant": "ada", "ttlMs": 600_000, "metadata": "m".repeat(1000)});
    let answer = api.try_send(Method::POST, "claims", &headers, Some(body.to_string())).await;
    match answer {
        Ok(Answer { status: 201, .. }) => Reported::Done,
        Ok(answer) if answer.outcome() == (504, "outcome_unknown") => {
            let retry_after = if key.is_some() { "1" } else { "" };
            assert_eq!(answer.header("retry-after"), retry_after, "{answer:?}");
            Reported::Unknown
        }
        Ok(answer) if answer.outcome() == (503, "unavailable") => Reported::Nothing,
        Ok(answer) => panic!("{answer:?}"),
        Err(error) if error.is_connect() => Reported::Nothing,
        Err(_) => Reported::Unknown,
    }
}

async fn claim_by_rust(url: &str) -> Reported {
    let Ok(connection) = connect(url).timeout(Duration::from_secs(1)).await else { return Reported::Nothing };
    match connection.claims().claim(SEAT, "ada", Duration::from_secs(600)).await {
        Ok(_) => Reported::Done,
        Err(ClaimError::Store(StoreError::OutcomeUnknown { .. })) => Reported::Unknown,
        Err(ClaimError::Store(StoreError::Unavailable { .. })) => Reported::Nothing,
        Err(error) => panic!("{error}"),
    }
}

fn claim_by_shell(url: &str) -> Reported {
    let mut command = Command::new(program::lockhouse());
    let output = command.args(["claim", SEAT, "--claimant", "ada", "--ttl", "10m", "--url", url]).output();
    let output = output.unwrap();
    match output.status.code() {
        Some(0) => Reported::Done,
        Some(74) => Reported::Unknown,
        Some(69 | 75) => Reported::Nothing,
        _ => panic!("{output:?}"),
    }
}

/// The file of a server that has ended in order.
fn used_file(folder: &Folder) -> PathBuf {
    let file = folder.file("used.db");
    assert!(ServerProcess::over_file("1s", file.clone()).terminate());
    file
}

fn log_of(file: &Path) -> PathBuf {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

const FAILS: &str = "error=EIO";

/// Longer than this test takes.
const HANGS: &str = "delay_enter=600s";

/// More than a start and a claim take.
const MOST_CALLS: u32 = 30;

#[tokio::test]
async fn a_claim_whose_write_or_sync_fails_is_unknown_and_what_was_reported_is_there_after_a_restart() {
    let folder = Folder::new();
    let used = used_file(&folder);
    let mut unknown = 0;
    for call in ["pwrite64", "fdatasync"] {
        let before = unknown;
        for nth in 1..=MOST_CALLS {
            let file = folder.file(&format!("{call}-{nth}.db"));
            fs::copy(&used, &file).unwrap();
            let failure = DiskFailure { call, file: log_of(&file), nth, how: FAILS };
            let server = match ServerProcess::over_failing("1s", file, &failure, &[]) {
                Ok(server) => server,
                Err(end) => {
                    assert_eq!(end.code(), Some(1), "{call} {nth}: while it was opened");
                    continue;
                }
            };
            let mut api = Api::over(server);
            let claimant = CLAIMANTS[unknown % CLAIMANTS.len()];
            let reported = claimant.claim(&api).await;
            if reported == Reported::Done && unknown > before {
                break;
            }
            if reported != Reported::Done {
                assert_eq!(api.server.ended().code(), Some(1), "{call} {nth}");
                api.start_again();
            } else {
                api.restart();
            }
            unknown += usize::from(reported == Reported::Unknown);
            let claim = api.get("claims?resource=seat%2F12a").await;
            match reported {
                Reported::Done => assert_eq!(claim.status, 200, "{call} {nth}, {claimant:?}: {claim:?}"),
                Reported::Nothing => assert_eq!(claim.status, 404, "{call} {nth}, {claimant:?}: {claim:?}"),
                Reported::Unknown => {}
            }
            if let (Reported::Unknown, Claimant::Http { key: Some(key) }) = (reported, claimant) {
                assert_eq!(
                    claim_by_http(&api, SEAT, Some(key)).await,
                    Reported::Done,
                    "it may be sent again"
                );
            }
        }
        assert!(unknown > before, "no {call} of a claim has failed");
    }
    assert!(unknown >= CLAIMANTS.len(), "not everybody who claims has met a failure: {unknown}");
}

#[tokio::test]
async fn a_claim_whose_checkpoint_fails_is_unknown_and_what_was_reported_is_there_after_a_restart() {
    for call in ["pwrite64", "fdatasync"] {
        let folder = Folder::new();
        let file = used_file(&folder);
        let failure = DiskFailure { call, file: file.clone(), nth: 1, how: FAILS };
        let mut api = Api::over(ServerProcess::over_failing("1s", file, &failure, &[]).unwrap());
        let mut seats = 0;
        let reported = loop {
            match claim_by_http(&api, &format!("seat/{seats}"), None).await {
                Reported::Done => seats += 1,
                reported => break reported,
            }
            assert!(seats < 10_000, "the log is never moved into the file");
        };
        assert_eq!(reported, Reported::Unknown, "{call}, after {seats} claims");
        assert_eq!(api.server.ended().code(), Some(1), "{call}");
        api.start_again();
        for seat in [0, seats / 2, seats - 1] {
            let claim = api.get(&format!("claims?resource=seat%2F{seat}")).await;
            assert_eq!(claim.status, 200, "{call}: claim {seat} of {seats} is gone: {claim:?}");
        }
    }
}

/// The number of the first sync of the log that is one of a claim and none of the start.
async fn first_sync_of_a_claim(folder: &Folder, used: &Path) -> u32 {
    for nth in 1..=MOST_CALLS {
        let file = folder.file(&format!("counted-{nth}.db"));
        fs::copy(used, &file).unwrap();
        let failure = DiskFailure { call: "fdatasync", file: log_of(&file), nth, how: FAILS };
        let Ok(server) = ServerProcess::over_failing("1s", file, &failure, &[]) else { continue };
        if claim_by_http(&Api::over(server), SEAT, None).await == Reported::Unknown {
            return nth;
        }
    }
    panic!("no sync of a claim has failed");
}

#[tokio::test]
async fn a_server_whose_disk_hangs_is_unavailable_in_time_and_ends_in_its_drain_time() {
    let folder = Folder::new();
    let used = used_file(&folder);
    let nth = first_sync_of_a_claim(&folder, &used).await;
    let file = folder.file("hangs.db");
    fs::copy(&used, &file).unwrap();
    let failure = DiskFailure { call: "fdatasync", file: log_of(&file), nth, how: HANGS };
    let settings = folder.file("idle.toml");
    fs::write(&settings, "[limits]\nidle_timeout = \"900ms\"\n").unwrap();
    let options = ["--store-timeout", "500ms", "--config", settings.to_str().unwrap()];
    let mut api = Api::over(ServerProcess::over_failing("1s", file, &failure, &options).unwrap());
    let begun = Instant::now();
    assert_eq!(claim_by_http(&api, SEAT, None).await, Reported::Unknown);
    assert!(begun.elapsed() >= Duration::from_secs(1), "the store is waited for: {:?}", begun.elapsed());
    assert_eq!(claim_by_http(&api, "seat/other", None).await, Reported::Nothing);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    // The state rests on what the store may not have: a reader that is cut off meanwhile begins anew, and so
    // no comment has an id.
    let mut stream = api.stream("events?state=true").await;
    let mut text = String::new();
    while text.matches("\n\n").count() < 3 {
        let piece = tokio::time::timeout(PATIENCE, stream.chunk()).await.expect("a comment in time");
        text.push_str(std::str::from_utf8(&piece.unwrap().expect("the stream goes on")).unwrap());
    }
    assert!(!text.contains("id:") && !text.contains("data:"), "{text}");
    drop(stream);

    let stopped = Instant::now();
    assert!(api.server.terminate_hanging());
    assert!(stopped.elapsed() < Duration::from_secs(60), "{:?}", stopped.elapsed());
    api.start_again();
    assert_eq!(claim_by_http(&api, "seat/other", None).await, Reported::Done);
}

#[test]
fn a_server_whose_disk_hangs_at_the_start_says_so_and_ends_at_sigterm() {
    let folder = Folder::new();
    let used = used_file(&folder);
    // A read of the file hangs while it is opened, a sync of the log while it is taken.
    for call in ["pread64", "fdatasync"] {
        let file = folder.file(&format!("{call}.db"));
        fs::copy(&used, &file).unwrap();
        let hanging = if call == "pread64" { file.clone() } else { log_of(&file) };
        let failure = DiskFailure { call, file: hanging, nth: 1, how: HANGS };
        let options = ["--store-timeout", "200ms"];
        let (mut server, stderr) = ServerProcess::hanging("1s", file, &failure, &options);
        let (says, said) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
            let said = lines.find(|line| line.contains("the store is not open after 200ms"));
            // The test may have given up.
            _ = said.map(|line| says.send(line));
        });
        traces::leave(said.recv_timeout(PATIENCE).expect("it says so").as_bytes());
        let stopped = Instant::now();
        assert!(server.terminate_hanging(), "{call}");
        assert!(stopped.elapsed() < Duration::from_secs(60), "{call}: {:?}", stopped.elapsed());
    }
}
