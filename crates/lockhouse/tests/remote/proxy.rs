//! A proxy that breaks connections, swallows what passes, or delivers it late and in batches.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Which way frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// Forwards to a server, until it is switched to another mode.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// The frames that went to the server, over all connections.
    pub(crate) to_server: watch::Sender<usize>,
    cut: parking_lot::Mutex<CancellationToken>,
    refusing: AtomicBool,
    swallowing: AtomicBool,
    /// How late everything is delivered, together with what has come meanwhile.
    lateness: Option<Duration>,
}

impl Proxy {
    /// Breaks the first connection once that many WebSocket frames have passed that way: the last of them
    /// goes through in full or, if `torn`, in half.
    pub(crate) async fn cutting_after(server: SocketAddr, way: Way, frames: usize, torn: bool) -> Arc<Self> {
        Self::start(server, Some((way, frames, torn)), None).await
    }

    /// Breaks connections only on demand.
    pub(crate) async fn new(server: SocketAddr) -> Arc<Self> {
        Self::start(server, None, None).await
    }

    /// Delivers everything so late, in batches.
    pub(crate) async fn late(server: SocketAddr, lateness: Duration) -> Arc<Self> {
        Self::start(server, None, Some(lateness)).await
    }

    async fn start(
        server: SocketAddr,
        plan: Option<(Way, usize, bool)>,
        lateness: Option<Duration>,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            to_server: watch::Sender::new(0),
            cut: parking_lot::Mutex::default(),
            refusing: AtomicBool::default(),
            swallowing: AtomicBool::default(),
            lateness,
        });
        tokio::spawn(proxy.clone().run(listener, server, plan));
        proxy
    }

    /// Breaks every present connection.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut *self.cut.lock()).cancel();
    }

    /// Breaks every connection, and every later one at once, until [`mend`](Self::mend).
    pub(crate) fn part(&self) {
        self.refusing.store(true, Ordering::SeqCst);
        self.cut();
    }

    pub(crate) fn mend(&self) {
        self.refusing.store(false, Ordering::SeqCst);
    }

    /// From now on nothing arrives any more, and no end of a connection is passed to the other side.
    pub(crate) fn swallow(&self) {
        self.swallowing.store(true, Ordering::SeqCst);
    }

    /// How many connections were let through.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        server: SocketAddr,
        mut plan: Option<(Way, usize, bool)>,
    ) {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            if self.refusing.load(Ordering::SeqCst) {
                continue;
            }
            self.connections.fetch_add(1, Ordering::SeqCst);
            // While the server is away, connections break at once.
            let Ok(server) = TcpStream::connect(server).await else { continue };
            let cut = self.cut.lock().clone();
            let (proxy, plan) = (self.clone(), plan.take());
            tokio::spawn(async move {
                tokio::select! {
                    () = proxy.forward(client, server, plan) => {}
                    () = cut.cancelled() => {}
                }
            });
        }
    }

    async fn forward(&self, client: TcpStream, server: TcpStream, plan: Option<(Way, usize, bool)>) {
        let limit = |of| plan.filter(|(way, ..)| *way == of).map(|(_, frames, torn)| (frames, torn));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = self.pump(from_client, to_server, limit(Way::ToServer), Some(&self.to_server)) => {}
            () = self.pump(from_server, to_client, limit(Way::ToClient), None) => {}
        }
    }

    /// Forwards the head of HTTP and then frame by frame; returns at the end, or after so many frames.
    async fn pump(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        limit: Option<(usize, bool)>,
        count: Option<&watch::Sender<usize>>,
    ) {
        let mut buffered = Vec::new();
        let mut frames = None;
        loop {
            let is_open = self.read(&mut from, &mut buffered).await;
            if self.swallowing.load(Ordering::SeqCst) {
                // Until the connection is broken on demand, or the test ends.
                std::future::pending::<()>().await;
            }
            if !is_open {
                return;
            }
            while let Some(length) = unit_length(&buffered, frames.is_none()) {
                let unit: Vec<u8> = buffered.drain(..length).collect();
                frames = Some(frames.map_or(0, |frames| frames + 1));
                let is_last = limit.is_some_and(|(limit, _)| frames == Some(limit));
                let torn = is_last && limit.is_some_and(|(_, torn)| torn);
                let unit = if torn { &unit[..length / 2] } else { &unit };
                if to.write_all(unit).await.is_err() || is_last {
                    return;
                }
                if let Some(count) = count.filter(|_| frames != Some(0)) {
                    count.send_modify(|count| *count += 1);
                }
            }
        }
    }

    /// Reads what has come, with what comes meanwhile if it is to be delivered late; false at the end.
    async fn read(&self, from: &mut OwnedReadHalf, buffered: &mut Vec<u8>) -> bool {
        let mut chunk = [0; 4096];
        let Ok(read @ 1..) = from.read(&mut chunk).await else { return false };
        buffered.extend_from_slice(&chunk[..read]);
        if let Some(lateness) = self.lateness {
            tokio::time::sleep(lateness).await;
            while let Ok(read @ 1..) = from.try_read(&mut chunk) {
                buffered.extend_from_slice(&chunk[..read]);
            }
        }
        true
    }
}

/// The length of the head of HTTP or of the frame that these bytes begin with, if it is there in full.
fn unit_length(bytes: &[u8], is_head: bool) -> Option<usize> {
    let length = if is_head { head_length(bytes) } else { frame_length(bytes) };
    length.filter(|length| *length <= bytes.len())
}

fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4)
}

/// The length of the frame that these bytes begin with (RFC 6455, section 5.2).
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let second = *bytes.get(1)?;
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    Some(match second & 0x7F {
        126 => 4 + mask + usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)),
        127 => 10 + mask + u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize,
        short => 2 + mask + usize::from(short),
    })
}
