//! A proxy that forwards WebSocket messages, and cuts, delays or gathers them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use random::Random;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{accept_hdr_async, connect_async};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// The treatment of messages by the proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Of the first connection, forwards so many messages in that direction, then cuts both sides without a
    /// close.
    CutAfter(Direction, usize),
    /// Holds each message back for a time that depends on the connection and on the message, in order within
    /// a connection.
    Delay { most_ms: u64 },
    /// Delivers what has come in bursts.
    Batch { every_ms: u64 },
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(forward(stream, server, fault, number));
            }
        });
        Self { address, connections }
    }
}

async fn forward(stream: TcpStream, server: SocketAddr, fault: Fault, number: usize) {
    let mut target = String::new();
    #[expect(clippy::result_large_err, reason = "the signature is that of the library")]
    let accepted = accept_hdr_async(stream, |request: &Request, mut response: Response| {
        target = request.uri().to_string();
        response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("lockhouse.v1"));
        Ok(response)
    });
    let Ok(client) = accepted.await else { return };
    let mut request = format!("ws://{server}{target}").into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("lockhouse.v1"));
    let Ok((server, _)) = connect_async(request).await else { return };
    let (to_client, from_client) = client.split();
    let (to_server, from_server) = server.split();
    // Whichever ends first takes the other with it, and both sockets.
    tokio::select! {
        () = pump(from_client, to_server, fault, Direction::ToServer, number) => {}
        () = pump(from_server, to_client, fault, Direction::ToClient, number) => {}
    }
}

async fn pump(
    mut from: impl Stream<Item = Result<Message, Error>> + Unpin,
    mut to: impl Sink<Message, Error = Error> + Unpin,
    fault: Fault,
    direction: Direction,
    connection: usize,
) {
    let mut forwarded = 0;
    // By a seed, so that a run can be repeated.
    let mut random = Random::new(connection as u64 * 2 + u64::from(direction == Direction::ToClient));
    loop {
        if matches!(fault, Fault::CutAfter(cut, after) if connection == 0 && cut == direction && forwarded == after)
        {
            return;
        }
        let Some(Ok(message)) = from.next().await else { return };
        match fault {
            Fault::CutAfter(..) => {}
            Fault::Delay { most_ms } => {
                sleep_until(Instant::now() + Duration::from_millis(random.next_u64() % most_ms)).await;
            }
            Fault::Batch { every_ms } => sleep_until(Instant::now() + Duration::from_millis(every_ms)).await,
        }
        if to.feed(message).await.is_err() {
            return;
        }
        forwarded += 1;
        if matches!(fault, Fault::Batch { .. }) {
            while let Some(Some(Ok(more))) = futures_util::FutureExt::now_or_never(from.next()) {
                if to.feed(more).await.is_err() {
                    return;
                }
            }
        }
        if to.flush().await.is_err() {
            return;
        }
    }
}
