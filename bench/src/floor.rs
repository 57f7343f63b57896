//! The least that a server costs which answers claims over HTTP/1.1: it reads what it is sent, decides nothing, keeps a record of it if it
//! is told to, and answers as ours does. What it cannot reach, no server on these libraries and this disk can.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What is written at once for those who wait: a page of claims and one of history, as ours writes for one claim.
const RECORD: usize = 2 * 4096;
/// The file is written over and over from its beginning.
const FILE: u64 = 4 << 20;

/// Those who wait until their record is kept; nobody does where none is kept.
type Disk = Option<Sender<oneshot::Sender<()>>>;

/// Serves on that port until it is killed.
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
    let router = Router::new()
        .route("/v1/buckets/default/claims", post(claim))
        .route("/v1/buckets/default/claims/release", post(release))
        .with_state(disk);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
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
