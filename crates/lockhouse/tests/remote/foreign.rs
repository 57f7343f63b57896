//! Calls that are answered as no lockhouse server answers: a change may have been made, a question is not
//! answered, and no default takes the place of an answer.

use std::time::Duration;

use futures_util::SinkExt;
use lockhouse::remote::{Connection, connect};
use lockhouse::{
    ClaimError, LockError, LockType, NameBuf, Owner, OwnerError, RecordKind, Secret, StoreError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use crate::remote::scripted::{accept_on, next_text};

const MINUTE: Duration = Duration::from_secs(60);
const WELCOME: &str = r#"{"type":"welcome","server":"x","epoch":"e","session":"s","secret":"t","resumed":false,"received":0,"leaseMs":60000,"heartbeatMs":6000,"limits":{"frameBytes":65536,"nameUnits":4096,"metadataBytes":1024,"agents":8,"requestsPerAgent":8,"windowBytes":196608}}"#;
const SECRET: &str = "3b3beb300bea6813d6d2dd9ace8b12dbc16aedfc";

/// A connection to a server that opens an owner as it should, and gives every other call this answer.
async fn answered(status: u16, body: &str) -> (Connection, Owner) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = http(status, body);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream, answer.clone()));
        }
    });
    let connection = connect(url).await.unwrap();
    let owner = connection.owners().open("Ada", MINUTE).await.unwrap();
    (connection, owner)
}

fn http(status: u16, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Fine\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// One connection, of either kind. It may break at any time.
async fn serve(mut stream: TcpStream, answer: String) {
    let mut head = vec![0; 4096];
    let head = loop {
        let length = stream.peek(&mut head).await.unwrap();
        let text = String::from_utf8_lossy(&head[..length]).to_ascii_lowercase();
        if text.contains("\r\n\r\n") {
            break text;
        }
        tokio::task::yield_now().await;
    };
    if head.contains("upgrade: websocket") {
        let mut socket = accept_on(stream).await;
        next_text(&mut socket).await.unwrap();
        socket.send(Message::text(WELCOME)).await.unwrap();
        while next_text(&mut socket).await.is_some() {}
        return;
    }
    let opened = format!(
        r#"{{"owner":"1","ownerSecret":"{SECRET}","label":"Ada","ttlMs":60000,"expiresAt":"2099-01-01T00:00:00Z"}}"#
    );
    let answer =
        if head.starts_with("post /v1/buckets/default/owners http") { http(201, &opened) } else { answer };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.trim().parse().unwrap());
    let whole = head.find("\r\n\r\n").unwrap() + 4 + length;
    stream.read_exact(&mut vec![0; whole]).await.unwrap();
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

fn is_unknown(error: &StoreError) -> bool {
    matches!(error, StoreError::OutcomeUnknown { why } if why.contains("as a lockhouse server answers") || why.contains("cannot be used"))
}

fn is_no_answer(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { why, .. } if why.contains("as a lockhouse server answers"))
}

#[tokio::test]
async fn an_empty_or_foreign_answer_is_no_success() {
    let bodies = [
        (200, ""),
        (200, "{}"),
        (200, "[]"),
        (200, "null"),
        (200, r#"{"token":null}"#),
        (201, r#"{"expiresAt":7,"locks":[]}"#),
        (204, ""),
    ];
    for (status, body) in bodies {
        let what = format!("{status} {body:?}");
        let (connection, owner) = answered(status, body).await;
        let (claims, secret) = (connection.claims(), SECRET.parse::<Secret>().unwrap());
        let unknown = |error: &ClaimError| matches!(error, ClaimError::Store(error) if is_unknown(error));
        assert!(unknown(&claims.claim("seat", "Ada", MINUTE).await.unwrap_err()), "{what}");
        assert!(unknown(&claims.renew("seat", &secret).await.unwrap_err()), "{what}");
        assert!(unknown(&claims.release("seat", &secret).await.unwrap_err()), "{what}");
        assert!(unknown(&claims.finalize("seat", &secret).await.unwrap_err()), "{what}");
        assert!(unknown(&claims.unassign("seat", None).await.unwrap_err()), "{what}");
        let no_answer = |error: &ClaimError| matches!(error, ClaimError::Store(error) if is_no_answer(error));
        assert!(no_answer(&claims.get("seat").await.unwrap_err()), "{what}");
        assert!(no_answer(&claims.assignment("seat").await.unwrap_err()), "{what}");
        assert!(no_answer(&claims.assignments().await.unwrap_err()), "{what}");
        let kind = RecordKind::new("customer", LockType::ExclusiveWrite);
        let locked = owner.lock([kind.for_write(42)]).await.unwrap_err();
        assert!(matches!(&locked, LockError::Store(error) if is_unknown(error)), "{what}: {locked:?}");
        let name = NameBuf::new("customer/42").unwrap();
        assert!(is_unknown(&owner.unlock(name.as_name(), None).await.unwrap_err()), "{what}");
        assert!(is_unknown(&owner.unlock_all().await.unwrap_err()), "{what}");
        assert!(is_unknown(&owner.touch().await.unwrap_err()), "{what}");
        assert!(is_no_answer(&owner.locks().await.unwrap_err()), "{what}");
        assert!(is_no_answer(&owner.info().await.unwrap_err()), "{what}");
        let resumed = connection.owners().resume(owner.id(), owner.secret()).await.unwrap_err();
        assert!(matches!(&resumed, OwnerError::Store(error) if is_no_answer(error)), "{what}: {resumed:?}");
        // The real answer has no body either, and this status.
        if status != 204 {
            assert!(is_unknown(&owner.end().await.unwrap_err()), "{what}");
        }
    }
}
