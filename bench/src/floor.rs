//! The least that a server costs which answers claims over HTTP/1.1, or frames over WebSockets: it reads the
//! requests and answers as ours does. Over a WebSocket it sends back what it gets.
//!
//! Bare, it decides nothing, and on request keeps a record, or rows like those that ours keeps, but narrower:
//! figures beyond its own are out of reach for any server on these libraries and this disk. Or it takes JSON
//! apart and claims in the lock table of the library, for every caller, at any rate and by no rule: the
//! difference from there to ours is identity, permissions, rates, problems and counting.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use axum::serve::ListenerExt;
use lockhouse::{Claims, House};
use rusqlite::{Connection, ToSql};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The bytes written at once for the waiting callers: a page of claims and one of history, as ours writes for
/// one claim.
const RECORD: usize = 2 * 1024;
/// The file is written over and over from its beginning.
const FILE: u64 = 4 << 20;

/// The callers that wait until their call is durable; none where no call is.
type Disk = Option<Sender<Waiting>>;

/// A waiting caller.
struct Waiting {
    body: Bytes,
    is_claim: bool,
    done: oneshot::Sender<()>,
}

/// The data that a server keeps.
pub enum Keeping {
    /// Nothing.
    Nothing,
    /// A record of each call in this file.
    Records(PathBuf),
    /// Rows in this database: of each claim that stands, and of each that began or ended.
    Rows(PathBuf),
}

const CLAIM: &str = "/v1/buckets/default/claims";
const RELEASE: &str = "/v1/buckets/default/claims/release";

/// Serves on that port until it is killed: decides by a lock table in memory, or decides nothing.
pub fn serve(port: u16, keeping: Keeping, has_table: bool) -> Result<()> {
    let disk: Disk = match keeping {
        Keeping::Nothing => None,
        Keeping::Records(path) => {
            let file = File::create(path)?;
            file.write_all_at(&vec![0; FILE as usize], 0)?;
            file.sync_all()?;
            let record = [1; RECORD];
            let mut at = 0;
            Some(keeper(move |_| {
                file.write_all_at(&record, at)?;
                at = (at + RECORD as u64) % FILE;
                Ok(file.sync_data()?)
            }))
        }
        Keeping::Rows(path) => {
            let database = database(&path)?;
            Some(keeper(move |calls| Ok(keep_rows(&database, calls)?)))
        }
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let router = if has_table {
            let claims = House::new().bucket("default").claims();
            let router =
                Router::new().route(CLAIM, post(claim_in_table)).route(RELEASE, post(release_in_table));
            router.with_state((claims, disk))
        } else {
            Router::new().route(CLAIM, post(claim)).route(RELEASE, post(release)).with_state(disk)
        };
        let router = router.route(ECHO, any(echo));
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        Ok(axum::serve(listener, router).await?)
    })
}

/// Where a WebSocket gets back what it sends.
pub const ECHO: &str = "/v1/ws";

async fn echo(upgrade: WebSocketUpgrade) -> Response {
    upgrade.protocols(["lockhouse.v1"]).on_upgrade(async |mut socket| {
        while let Some(Ok(message @ Message::Text(_))) = socket.recv().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    })
}

/// A thread that keeps at once all calls that came while it kept the ones before.
fn keeper(mut keep: impl FnMut(&[Waiting]) -> Result<()> + Send + 'static) -> Sender<Waiting> {
    let (queue, waiting) = channel::<Waiting>();
    std::thread::spawn(move || {
        while let Ok(first) = waiting.recv() {
            let all: Vec<_> = std::iter::once(first).chain(waiting.try_iter()).collect();
            if let Err(error) = keep(&all) {
                eprintln!("nothing more is kept: {error}");
                return;
            }
            all.into_iter().for_each(|one| _ = one.done.send(()));
        }
    });
    queue
}

/// For this process alone, as ours has it, but with a log that begins empty.
fn database(path: &Path) -> rusqlite::Result<Connection> {
    let database = Connection::open(path)?;
    database.pragma_update(None, "page_size", 1024)?;
    database.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    database.pragma_update(None, "synchronous", "FULL")?;
    database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    database.execute_batch(
        "CREATE TABLE claim (name BLOB PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID;
         CREATE TABLE history (seq INTEGER PRIMARY KEY, event TEXT NOT NULL, name BLOB NOT NULL)",
    )?;
    Ok(database)
}

fn keep_rows(database: &Connection, calls: &[Waiting]) -> rusqlite::Result<()> {
    let run = |sql: &str, params: &[&dyn ToSql]| database.prepare_cached(sql)?.execute(params);
    run("BEGIN IMMEDIATE", &[])?;
    for Waiting { body, is_claim, .. } in calls {
        // Both bodies begin with the resource.
        let name = body.split(|byte| *byte == b'"').nth(3);
        let (event, sql) = match is_claim {
            true => ("began", "INSERT INTO claim VALUES (?1, 1)"),
            false => ("ended", "DELETE FROM claim WHERE name = ?1"),
        };
        run(sql, &[&name])?;
        run("INSERT INTO history (event, name) VALUES (?1, ?2)", &[&event, &name])?;
    }
    run("COMMIT", &[]).map(drop)
}

async fn claim(State(disk): State<Disk>, body: Bytes) -> Response {
    let answer = r#"{"resource":"record/000/0000","claimant":"bench","token":"0123456789012345678901234567890123456789","expiresAt":"2026-01-01T00:00:00.000Z","fencingToken":1}"#;
    answered(StatusCode::CREATED, &disk, body, answer).await
}

async fn release(State(disk): State<Disk>, body: Bytes) -> Response {
    answered(StatusCode::OK, &disk, body, r#"{"resource":"record/000/0000","released":true}"#).await
}

async fn answered(ok: StatusCode, disk: &Disk, body: Bytes, answer: &'static str) -> Response {
    let is_object = body.starts_with(b"{");
    let status = match keep(disk, ok == StatusCode::CREATED, body).await {
        true if is_object => ok,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, [(header::CONTENT_TYPE, "application/json")], answer).into_response()
}

/// Whether the call is durable, or need not be.
async fn keep(disk: &Disk, is_claim: bool, body: Bytes) -> bool {
    let Some(queue) = disk else { return true };
    let (done, durable) = oneshot::channel();
    queue.send(Waiting { body, is_claim, done }).is_ok() && durable.await.is_ok()
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
    /// Our server sends it as a date.
    expires_at: u64,
    fencing_token: u64,
}

#[derive(Serialize)]
struct Released<'a> {
    resource: &'a str,
    released: bool,
}

async fn claim_in_table(State((claims, disk)): State<(Claims, Disk)>, body: Bytes) -> Response {
    let Ok(NewClaim { resource, claimant, ttl_ms }) = serde_json::from_slice(&body) else {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    };
    let Ok(claim) = claims.claim(resource, claimant, Duration::from_millis(ttl_ms)).await else {
        return StatusCode::CONFLICT.into_response();
    };
    if !keep(&disk, true, body.clone()).await {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
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

async fn release_in_table(State((claims, disk)): State<(Claims, Disk)>, body: Bytes) -> Response {
    let Ok(ClaimKey { resource, token }) = serde_json::from_slice(&body) else {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    };
    let Ok(token) = token.parse() else { return StatusCode::CONFLICT.into_response() };
    match claims.release(resource, &token).await {
        Ok(()) if !keep(&disk, false, body.clone()).await => {
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
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
