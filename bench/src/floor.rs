//! The least that a server costs which answers claims over HTTP/1.1: it reads what it is sent and answers as ours does.
//!
//! Bare, it decides nothing, and keeps a record if it is told to: what it cannot reach then, no server on these libraries and this disk can. Or it takes JSON
//! apart and claims in the lock table of the library, for whoever calls, at any rate and by no rule: what is missing from there to ours are identity,
//! permissions, rates, problems and counting.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use lockhouse::{Claims, House};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What is written at once for those who wait: a page of claims and one of history, as ours writes for one claim.
const RECORD: usize = 2 * 4096;
/// The file is written over and over from its beginning.
const FILE: u64 = 4 << 20;

/// Those who wait until their record is kept; nobody does where none is kept.
type Disk = Option<Sender<oneshot::Sender<()>>>;

const CLAIM: &str = "/v1/buckets/default/claims";
const RELEASE: &str = "/v1/buckets/default/claims/release";

/// Serves on that port until it is killed, and decides nothing.
pub fn serve(port: u16, kept_in: Option<&Path>) -> Result<()> {
    let disk: Disk = match kept_in {
        None => None,
        Some(path) => {
            let file = File::create(path)?;
            file.write_all_at(&vec![0; FILE as usize], 0)?;
            file.sync_all()?;
            let (queue, waiting) = channel();
            std::thread::spawn(move || keep(&file, &waiting));
            Some(queue)
        }
    };
    answer(port, || Router::new().route(CLAIM, post(claim)).route(RELEASE, post(release)).with_state(disk))
}

/// Serves on that port until it is killed, with a lock table in memory.
pub fn serve_claims(port: u16) -> Result<()> {
    answer(port, || {
        let claims = House::new().bucket("default").claims();
        Router::new()
            .route(CLAIM, post(claim_in_table))
            .route(RELEASE, post(release_in_table))
            .with_state(claims)
    })
}

fn answer(port: u16, router: impl FnOnce() -> Router) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let router = router();
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        Ok(axum::serve(listener, router).await?)
    })
}

/// One write and one sync for all who have come meanwhile.
fn keep(file: &File, waiting: &Receiver<oneshot::Sender<()>>) {
    let record = [1; RECORD];
    let mut at = 0;
    while let Ok(first) = waiting.recv() {
        let all: Vec<_> = std::iter::once(first).chain(waiting.try_iter()).collect();
        if file.write_all_at(&record, at).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        at = (at + RECORD as u64) % FILE;
        all.into_iter().for_each(|one| _ = one.send(()));
    }
}

async fn claim(State(disk): State<Disk>, body: Bytes) -> Response {
    let answer = r#"{"resource":"record/000/0000","claimant":"bench","token":"0123456789012345678901234567890123456789","expiresAt":"2026-01-01T00:00:00.000Z","fencingToken":1}"#;
    answered(StatusCode::CREATED, &disk, &body, answer).await
}

async fn release(State(disk): State<Disk>, body: Bytes) -> Response {
    answered(StatusCode::OK, &disk, &body, r#"{"resource":"record/000/0000","released":true}"#).await
}

async fn answered(ok: StatusCode, disk: &Disk, body: &[u8], answer: &'static str) -> Response {
    let kept = match disk {
        None => true,
        Some(queue) => {
            let (told, kept) = oneshot::channel();
            queue.send(told).is_ok() && kept.await.is_ok()
        }
    };
    let status = if kept && body.starts_with(b"{") { ok } else { StatusCode::INTERNAL_SERVER_ERROR };
    (status, [(header::CONTENT_TYPE, "application/json")], answer).into_response()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewClaim<'a> {
    resource: &'a str,
    claimant: &'a str,
    ttl_ms: u64,
}

#[derive(Deserialize)]
struct ClaimKey<'a> {
    resource: &'a str,
    token: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Claimed<'a> {
    resource: &'a str,
    claimant: &'a str,
    token: &'a str,
    /// Ours tells it as a date.
    expires_at: u64,
    fencing_token: u64,
}

#[derive(Serialize)]
struct Released<'a> {
    resource: &'a str,
    released: bool,
}

async fn claim_in_table(State(claims): State<Claims>, body: Bytes) -> Response {
    let Ok(NewClaim { resource, claimant, ttl_ms }) = serde_json::from_slice(&body) else {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    };
    let Ok(claim) = claims.claim(resource, claimant, Duration::from_millis(ttl_ms)).await else {
        return StatusCode::CONFLICT.into_response();
    };
    let since_epoch = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let claimed = Claimed {
        resource,
        claimant,
        token: &claim.token().reveal(),
        expires_at: since_epoch(claim.expires_at()),
        fencing_token: claim.fencing_token().get(),
    };
    json(StatusCode::CREATED, &claimed)
}

async fn release_in_table(State(claims): State<Claims>, body: Bytes) -> Response {
    let Ok(ClaimKey { resource, token }) = serde_json::from_slice(&body) else {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    };
    let Ok(token) = token.parse() else { return StatusCode::CONFLICT.into_response() };
    match claims.release(resource, &token).await {
        Ok(()) => json(StatusCode::OK, &Released { resource, released: true }),
        Err(_) => StatusCode::CONFLICT.into_response(),
    }
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
