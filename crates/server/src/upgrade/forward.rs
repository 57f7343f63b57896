//! A WebSocket whose bucket another node of the fleet has: all its bytes are handed on, from its first frame.
//!
//! This node never begins a close. Where either side is gone, so is the other, as if the network had cut them
//! off: the client comes again, and goes on with its session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use lockhouse::BucketKey;
use lockhouse::fleet::BucketPlace;
use lockhouse::store::{NodeRow, Slot};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::bounds::{FAREWELL_TIMEOUT, HAND_ON_PATIENCE, MOVING_PATIENCE, RELAY_BYTES};
use crate::cluster::{Cluster, HopCaller};
use crate::session;
use crate::state::{AppState, Phase};
use crate::websocket::{RawConnection, WebSocketConnection};

/// The head of the request that a WebSocket begins with, as the next node gets it.
#[derive(Debug)]
pub(super) struct UpgradeHead {
    /// Path and query.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) caller: HopCaller,
}

/// The answer of a node to a WebSocket that another one hands on: it has not the slot, nor gets it soon.
pub(super) const NOT_HERE: StatusCode = StatusCode::MISDIRECTED_REQUEST;

/// Why another node does not take a WebSocket.
enum Refused {
    /// It has not got it, or has not the bucket.
    Elsewhere,
    /// It has the bucket, and does not take it for that reason.
    There(&'static str),
}

/// Gives the connection back if the bucket is here. Otherwise hands it on, until it ends; a bucket that moves
/// is waited for.
pub(super) async fn hand_on(
    state: &AppState,
    cluster: &Cluster,
    head: &UpgradeHead,
    key: &BucketKey,
    connection: WebSocketConnection,
) -> Option<WebSocketConnection> {
    let (begun, slot) = (Instant::now(), cluster.node.slot_of(key));
    let until = begun + MOVING_PATIENCE;
    let mut place = cluster.node.find_in_time(key, MOVING_PATIENCE).await;
    loop {
        let node = match place {
            BucketPlace::Here(_) => return Some(connection),
            BucketPlace::There(node) => node,
            BucketPlace::Moving => {
                session::part_as_it_moves(state, connection).await;
                return None;
            }
        };
        match connect(cluster, head, slot, &node, begun + HAND_ON_PATIENCE).await {
            Ok(far) => {
                relay(state, connection, far).await;
                return None;
            }
            Err(Refused::There(why)) => {
                connection.part(session::busy(why)).await;
                return None;
            }
            Err(Refused::Elsewhere) => {}
        }
        let left = until.saturating_duration_since(Instant::now());
        place = cluster.node.find_elsewhere(key, node.id, left).await;
    }
}

/// Opens a WebSocket at the other node by then, as the client has opened this one.
async fn connect(
    cluster: &Cluster,
    head: &UpgradeHead,
    slot: Slot,
    node: &NodeRow,
    deadline: Instant,
) -> Result<TokioIo<Upgraded>, Refused> {
    let UpgradeHead { target, headers, caller } = head;
    let caller = HopCaller { slot: Some(slot), ..caller.clone() };
    let (call, gone) = ((Method::GET, &**target), std::future::pending());
    let sending = cluster.client.send(node, call, headers.clone(), &caller, Body::empty(), gone);
    let opened = async {
        let response = sending.await.map_err(|error| error.to_string())?;
        let status = response.status();
        let upgraded = match status {
            StatusCode::SWITCHING_PROTOCOLS => hyper::upgrade::on(response).await,
            _ => return Ok(Err(status)),
        };
        upgraded.map(Ok).map_err(|error| error.to_string())
    };
    let why = match timeout_at(deadline, opened).await {
        Ok(Ok(Ok(far))) => return Ok(TokioIo::new(far)),
        Ok(Ok(Err(StatusCode::SERVICE_UNAVAILABLE))) => {
            return Err(Refused::There("the server that has the bucket is full"));
        }
        Ok(Ok(Err(NOT_HERE))) => format!("it answers {NOT_HERE}"),
        Ok(Ok(Err(status))) => {
            // This node has taken the same request: the two have other settings, or other versions.
            tracing::warn!(node = &*node.label, %status, "a WebSocket that was handed on is refused there");
            return Err(Refused::There("the server that has the bucket refuses what this one takes"));
        }
        Ok(Err(why)) => why,
        Err(_) => "it does not answer".to_owned(),
    };
    tracing::debug!(node = &*node.label, "a WebSocket was not handed on: {why}");
    Err(Refused::Elsewhere)
}

/// Copies bytes both ways until one side is gone, or the server stops.
async fn relay(state: &AppState, connection: WebSocketConnection, mut far: TokioIo<Upgraded>) {
    let RawConnection { io: near, read, places } = connection.into_parts();
    let mut phases = state.phases();
    let relaying = async {
        if far.write_all(&read).await.is_err() {
            return;
        }
        drop(read);
        let ((mut near_read, mut near_write), (mut far_read, mut far_write)) = (split(near), split(far));
        let heard = Heard::now();
        let mut up = Box::pin(pass(&mut near_read, &mut far_write, || {}));
        let mut down = Box::pin(pass(&mut far_read, &mut near_write, || heard.again()));
        // The owner pings at each heartbeat, so that one which says nothing for a lease is gone, whether the
        // network says so or not; as is a client that takes nothing for that long.
        let lease = Duration::from_millis(state.config.lease.as_millis());
        // What the other side still has to say is of use to no client that is gone.
        let rest = tokio::select! {
            () = &mut up => timeout(FAREWELL_TIMEOUT, down).await,
            () = &mut down => timeout(FAREWELL_TIMEOUT, up).await,
            () = heard.nothing_for(lease) => return,
        };
        _ = rest;
    };
    tokio::select! {
        () = relaying => {}
        _ = phases.wait_for(|phase| *phase == Phase::Stopping) => {}
    }
    drop(places);
}

/// Copies until an end. All that comes or goes is noted.
async fn pass(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin), note: impl Fn()) {
    let mut chunk = vec![0; RELAY_BYTES];
    // Whichever end it is, the connection is over.
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        note();
        // Others read first what is there, so that a node is woken once for the messages of many clients.
        yield_now().await;
        if to.write_all(&chunk[..length]).await.is_err() {
            break;
        }
        note();
    }
    _ = timeout(FAREWELL_TIMEOUT, to.shutdown()).await;
}

/// When something came or went last. A timer for each message would cost more than its copy.
struct Heard {
    begun: Instant,
    /// In milliseconds since then.
    last: AtomicU64,
}

impl Heard {
    fn now() -> Self {
        Self { begun: Instant::now(), last: AtomicU64::new(0) }
    }

    fn again(&self) {
        self.last.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Waits until nothing has come or gone for that long.
    async fn nothing_for(&self, patience: Duration) {
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let until = self.begun + last + patience;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }
}
