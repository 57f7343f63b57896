//! Logs, and the id by which the lines of a request are found.

use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::running::{Running, lockhouse, run_in_vain};

/// A call that is answered with a problem.
async fn ask(server: &Running, id: Option<&str>) -> Response {
    let url = format!("http://{}/v1/buckets/default/owners/nobody", server.address);
    let mut request = Client::new().get(url);
    if let Some(id) = id {
        request = request.header("x-request-id", id);
    }
    request.send().await.unwrap()
}

fn id_of(response: &Response) -> String {
    response.headers()["x-request-id"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_line_in_json_about_a_request_has_the_id_that_its_answer_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = lockhouse(
        folder.path(),
        &["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh", "--log-format", "json"],
    );
    command.env("RUST_LOG", "lockhouse_server=debug");
    let server = Running::of(command);
    assert_eq!(id_of(&ask(&server, Some("of-the-client.1")).await), "of-the-client.1");
    let made = id_of(&ask(&server, Some("of the client")).await);
    assert!(made.len() > 16 && !made.contains(' '), "{made}");
    for id in ["of-the-client.1", &made] {
        let line = server.log("a request is answered with a problem");
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["span"]["id"], id, "{line}");
        assert_eq!((line["level"].as_str(), line["timestamp"].is_string()), (Some("DEBUG"), true), "{line}");
    }
    let (_, rest) = server.terminate();
    assert!(rest.iter().all(|line| serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object())));
}

#[tokio::test]
async fn the_audit_line_of_a_call_has_its_id_whichever_levels_are_shown() {
    for levels in ["audit=info,warn", "off,audit=info", "info"] {
        let folder = tempfile::tempdir().unwrap();
        let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh"];
        let mut command = lockhouse(folder.path(), &[&serve[..], &["--log-format", "json"]].concat());
        command.env("RUST_LOG", levels);
        let server = Running::of(command);
        let post = async |path: &str, body: Value, headers: &[(&str, &str)]| -> Value {
            let mut request =
                Client::new().post(format!("http://{}/v1/buckets/default/{path}", server.address));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.header("content-type", "application/json").body(body.to_string());
            let answer = request.send().await.unwrap();
            assert!(answer.status().is_success(), "{answer:?}");
            serde_json::from_str(&answer.text().await.unwrap()).unwrap()
        };
        for (id, more) in [("plain", &[][..]), ("with-a-key", &[("idempotency-key", "k")])] {
            let claim = post("claims", json!({"resource": id, "claimant": "Ada"}), &[]).await;
            let broken = json!({"holds": [{"name": id, "fencingToken": claim["fencingToken"]}]});
            post("locks/break", broken, &[more, &[("x-request-id", id)]].concat()).await;
            let line: Value = serde_json::from_str(&server.log("\"break\"")).unwrap();
            assert_eq!((&line["target"], &line["span"]["id"]), (&json!("audit"), &json!(id)), "{line}");
        }
    }
}

#[tokio::test]
async fn a_line_of_text_has_the_id_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut command =
        lockhouse(folder.path(), &["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh"]);
    command.env("RUST_LOG", "lockhouse_server=debug");
    let server = Running::of(command);
    let id = id_of(&ask(&server, None).await);
    let line = server.log("a request is answered with a problem");
    assert!(line.contains(&format!("request{{id=\"{id}\"}}")), "{line}");
}

#[test]
fn another_format_is_refused_with_those_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--store", "memory:", "--log-format", "xml"];
    let (code, _, stderr) = run_in_vain(&mut lockhouse(folder.path(), &serve));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("\"xml\"") && stderr.contains("\"text\" or \"json\""), "{stderr}");
}

/// The value of a metric without labels.
async fn metric(address: impl Display, name: &str) -> u64 {
    let text = reqwest::get(format!("http://{address}/metrics")).await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name}")).parse::<f64>().unwrap() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_the_log_that_stands_still_keeps_no_call_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh", "--log-format", "json"];
    let mut command = lockhouse(folder.path(), &serve);
    command.env("RUST_LOG", "lockhouse_server=debug");
    let (server, mut stderr) = Running::with_unread_log(command);
    // Each call is a line, and the lines are more than the pipe and the queue take together.
    let client = Client::new();
    let url = format!("http://{}/v1/buckets/default/owners/nobody", server.address);
    let calls = async {
        while metric(&server.address, "lockhouse_log_lines_dropped_total").await == 0 {
            for _ in 0..500 {
                assert_eq!(client.get(&url).send().await.unwrap().status(), 401);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), calls).await.expect("a call waits for the log");
    // Once the log is read again, it says that lines are missing. The end does not wait for a reader either.
    let mut log = BufReader::new(&mut stderr);
    let report = loop {
        let mut line = String::new();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the log ended");
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["message"].as_str().is_some_and(|message| message.contains("were dropped")) {
            break line;
        }
    };
    assert_eq!(report["level"], "WARN", "{report}");
    assert!(report["lines"].as_u64().unwrap() > 0, "{report}");
    drop(server);
}

#[tokio::test]
async fn a_server_whose_output_takes_nothing_serves_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let mut command =
        lockhouse(folder.path(), &["serve", "--listen", &listen, "--store", "memory:", "--fresh"]);
    let mut server = command.stdout(full()).stderr(full()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while reqwest::get(format!("http://{listen}/livez")).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not serve");
    }
    // The lines of the start could not be written.
    while metric(&listen, "lockhouse_log_lines_dropped_total").await == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no line is counted");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
