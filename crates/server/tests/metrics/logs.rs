//! Logs, and the id by which the lines of a request are found.

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
