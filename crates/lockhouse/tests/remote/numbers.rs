//! Servers that send impossible numbers: each is an error that names the field, and nothing panics.

use std::pin::pin;
use std::process::{Command, Output};
use std::time::Duration;

use lockhouse::remote::{ConnectError, Connection, connect};
use lockhouse::{Claim, ClaimError, LockError, LockType, OwnerError, RecordKind, RequestError, StoreError};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::program;
use crate::remote::scripted::Scripted;

const MINUTE: Duration = Duration::from_secs(60);
const SECRET: &str = "0123456789abcdef0123456789abcdef01234567";
const INSTANT: &str = "2026-01-01T00:00:00.000Z";

/// No fencing token.
const NO_TOKENS: [&str; 7] = ["0", "-1", "1.5", "9007199254740992", "18446744073709551615", "1e300", "\"1\""];

/// No instant.
const NO_INSTANTS: [&str; 5] = [
    "\"\"",
    "\"+292277026596-12-04T15:30:08Z\"",
    "\"2026-99-01T00:00:00Z\"",
    "\"0000-00-00T00:00:00Z\"",
    "7",
];

/// An HTTP server that gives every call this answer; its URL.
async fn answers(status: u16, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            tokio::spawn(async move {
                // The calls of these tests have one packet each.
                _ = stream.read(&mut [0; 65_536]).await;
                _ = stream.write_all(answer.as_bytes()).await;
                // Until the client has closed, so that nothing is cut off.
                while let Ok(1..) = stream.read(&mut [0; 1024]).await {}
            });
        }
    });
    url
}

/// A client of a server that speaks the protocol, and gives this answer to every call over HTTP.
async fn client(status: u16, body: String) -> Connection {
    let http = answers(status, body).await;
    let scripted = Scripted::start().await;
    let url = scripted.url();
    let http = http.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        let peer = scripted.welcome(json!({})).await;
        tokio::spawn(peer.gone());
        scripted.forward_to(&http).await;
    });
    connect(url).timeout(Duration::from_secs(5)).await.unwrap()
}

/// The claim of a server that answers claims so.
async fn claim(body: String) -> Result<Claim, ClaimError> {
    client(201, body).await.claims().claim("seat", "ada", MINUTE).await
}

fn is_about(error: &StoreError, member: &str) {
    let (StoreError::OutcomeUnknown { why } | StoreError::Unavailable { why, .. }) = error else {
        panic!("{member}: {error}")
    };
    assert!(why.contains(member), "{member}: {why}");
}

#[tokio::test]
async fn an_impossible_token_is_an_error_that_names_it() {
    for token in NO_TOKENS {
        let claimed = format!(
            r#"{{"resource":"seat","claimant":"ada","token":"{SECRET}","expiresAt":"{INSTANT}","fencingToken":{token}}}"#
        );
        let ClaimError::Store(error) = claim(claimed).await.unwrap_err() else { panic!("{token}") };
        assert!(matches!(error, StoreError::OutcomeUnknown { .. }), "it was done: {error}");
        is_about(&error, "fencingToken");

        let assignment = format!(
            r#"{{"resource":"seat","claimant":"ada","assignedAt":"{INSTANT}","fencingToken":{token}}}"#
        );
        let claims = client(200, assignment.clone()).await.claims();
        let ClaimError::Store(error) = claims.assignment("seat").await.unwrap_err() else {
            panic!("{token}")
        };
        assert!(matches!(error, StoreError::Unavailable { .. }), "a question changes nothing: {error}");
        is_about(&error, "fencingToken");

        let problem = format!(r#"{{"code":"already_assigned","detail":"","assignment":{assignment}}}"#);
        let claims = client(409, problem).await.claims();
        let refused = claims.claim("seat", "bob", MINUTE).await.unwrap_err();
        let ClaimError::Store(error) = refused else { panic!("{token}: {refused}") };
        is_about(&error, "assignment.fencingToken");

        let locks = format!(r#"[{{"name":"n","mode":"exclusive","how":"fresh","fencingToken":{token}}}]"#);
        let body = format!(
            r#"{{"owner":"7","ownerSecret":"{SECRET}","label":"Ada","since":"{INSTANT}","ttlMs":1000,"expiresAt":"{INSTANT}","locks":{locks}}}"#
        );
        let owner = client(200, body).await.owners().open("Ada", MINUTE).await.unwrap();
        let customers = RecordKind::new("customer", LockType::ExclusiveWrite);
        let refused = owner.lock([customers.for_write(1)]).await.unwrap_err();
        let LockError::Store(error) = refused else { panic!("{token}: {refused}") };
        is_about(&error, "locks[0].fencingToken");
        is_about(&owner.locks().await.unwrap_err(), "locks[0].fencingToken");
    }
}

#[tokio::test]
async fn an_impossible_instant_is_an_error_that_names_it() {
    for instant in NO_INSTANTS {
        let claimed = format!(r#"{{"token":"{SECRET}","expiresAt":{instant},"fencingToken":1}}"#);
        let ClaimError::Store(error) = claim(claimed).await.unwrap_err() else { panic!("{instant}") };
        is_about(&error, "expiresAt");
    }
}

#[tokio::test]
async fn an_owner_id_that_is_no_number_is_an_error_that_names_it() {
    for id in [json!(7), json!("-1"), json!("18446744073709551616"), Value::Null] {
        let body = json!({"owner": id, "ownerSecret": SECRET}).to_string();
        let refused = client(201, body).await.owners().open("Ada", MINUTE).await.unwrap_err();
        let OwnerError::Store(error) = refused else { panic!("{id}: {refused}") };
        is_about(&error, "owner");
    }
    let body = json!({"owner": "7", "ownerSecret": "7"}).to_string();
    let refused = client(201, body).await.owners().open("Ada", MINUTE).await.unwrap_err();
    let OwnerError::Store(error) = refused else { panic!("{refused}") };
    is_about(&error, "ownerSecret");
}

#[tokio::test]
async fn the_longest_durations_are_no_harm() {
    for code in ["unavailable", "rate_limited", "recovering", "outcome_unknown"] {
        let body = format!(r#"{{"code":"{code}","detail":"later","retryAfterMs":{}}}"#, u64::MAX);
        let status = if code == "outcome_unknown" { 504 } else { 503 };
        let refused = client(status, body).await.claims().claim("seat", "ada", MINUTE).await.unwrap_err();
        match (code, &refused) {
            ("recovering", ClaimError::Recovering { .. }) => {}
            ("outcome_unknown", ClaimError::Store(StoreError::OutcomeUnknown { .. })) => {}
            (_, ClaimError::Store(StoreError::Unavailable { .. })) => {}
            _ => panic!("{code}: {refused}"),
        }
    }
    let body = json!({"label": "Ada", "since": INSTANT, "ttlMs": u64::MAX, "expiresAt": INSTANT, "locks": [],
        "owner": "7", "ownerSecret": SECRET});
    let http = answers(200, body.to_string()).await;
    let scripted = Scripted::start().await;
    let url = scripted.url();
    let (asked, has_asked) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let peer = scripted.welcome(json!({"leaseMs": (1_u64 << 53) - 1, "heartbeatMs": (1_u64 << 53) - 1,
            "credentialMs": (1_u64 << 53) - 1, "recoveringMs": (1_u64 << 53) - 1}));
        let mut peer = peer.await;
        tokio::spawn(async move {
            peer.expect("join").await;
            peer.expect("request").await;
            asked.send(()).unwrap();
            peer.gone().await;
        });
        scripted.forward_to(http.trim_start_matches("http://")).await;
    });
    let connection = connect(url).timeout(Duration::MAX).await.unwrap();
    let owner = connection.owners().open("Ada", MINUTE).await.unwrap();
    assert_eq!(owner.info().await.unwrap().unwrap().ttl, Duration::from_millis(u64::MAX));
    let agent = connection.agent("a").unwrap();
    let mut lock = pin!(agent.locks().request("n").timeout(Duration::MAX).into_future());
    tokio::select! {
        ended = &mut lock => panic!("{ended:?}"),
        asked = has_asked => asked.unwrap(),
    }
    assert!(futures_util::poll!(lock).is_pending());
}

#[tokio::test]
async fn an_impossible_number_in_a_frame_ends_the_session_and_is_named() {
    for token in NO_TOKENS {
        let scripted = Scripted::start().await;
        let connection = connect(scripted.url());
        let server = tokio::spawn(async move {
            let mut peer = scripted.welcome(json!({})).await;
            peer.expect("join").await;
            let asked = peer.expect("request").await;
            let id = &asked["id"];
            let frame = format!(r#"{{"type":"granted","seq":1,"id":{id},"token":{token}}}"#);
            peer.send_text(frame).await;
            scripted.welcome(json!({"session": "t"})).await
        });
        let connection = connection.await.unwrap();
        let agent = connection.agent("a").unwrap();
        let error = agent.locks().request("n").await.unwrap_err();
        let RequestError::Protocol(why) = &error else { panic!("{token}: {error}") };
        assert!(why.starts_with("token "), "{token}: {why}");
        server.await.unwrap();
    }
    for field in ["leaseMs", "heartbeatMs", "credentialMs", "recoveringMs", "received"] {
        for number in [json!(1_u64 << 53), json!(u64::MAX), json!(-1), json!(0.5)] {
            let scripted = Scripted::start().await;
            let connection = connect(scripted.url());
            let mut fields = json!({});
            fields[field] = number;
            tokio::spawn(async move { scripted.welcome(fields).await.gone().await });
            let error = connection.await.unwrap_err();
            let ConnectError::NotLockhouse { message, .. } = &error else { panic!("{field}: {error}") };
            assert!(message.contains(field), "{field}: {message}");
        }
    }
}

/// What a command does with that server.
async fn command(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program::lockhouse());
    command.args(arguments).args(["--url", url]);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_command_survives_every_number() {
    for number in ["0", "-1", "18446744073709551615", "1e300"] {
        let entry = format!(
            r#"{{"kind":"claim","name":"n","clientId":"a","since":{number},"expiresAt":{number},"fencingToken":{number},"mode":"exclusive","state":"held"}}"#
        );
        let body = format!(
            r#"{{"entries":[{entry}],"locks":[{entry}],"fencingToken":{number},"token":{number},"expiresAt":{number},"next":null,"code":"claimed","holders":[{entry}],"retryAfterMs":{number}}}"#
        );
        for status in [200, 503] {
            let url = answers(status, body.clone()).await;
            for arguments in
                [&["claim", "seat", "--claimant", "ada"][..], &["assignments"], &["finalize", "seat", SECRET]]
            {
                let output = command(&url, arguments).await;
                let code = output.status.code().unwrap();
                assert!([0, 69, 74, 75].contains(&code), "{arguments:?}, {status}, {number}: {output:?}");
            }
        }
    }
}
