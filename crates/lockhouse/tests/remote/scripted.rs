//! A server that does as the test says.

use std::collections::VecDeque;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// Takes the next connection.
pub(crate) async fn accept(listener: &TcpListener) -> WebSocketStream<TcpStream> {
    accept_on(listener.accept().await.unwrap().0).await
}

/// Takes this connection.
pub(crate) async fn accept_on(stream: TcpStream) -> WebSocketStream<TcpStream> {
    #[expect(clippy::result_large_err, reason = "the signature is the library's")]
    let select = |_: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        response.headers_mut().insert("sec-websocket-protocol", "lockhouse.v1".parse().unwrap());
        Ok(response)
    };
    tokio_tungstenite::accept_hdr_async(stream, select).await.unwrap()
}

pub(crate) async fn next_text(socket: &mut WebSocketStream<TcpStream>) -> Option<String> {
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = message {
            return Some(text.to_string());
        }
    }
    None
}

/// Listens for as many lives of a server as a test needs.
pub(crate) struct Scripted(TcpListener);

/// One connection to one life of it.
pub(crate) struct Peer {
    socket: WebSocketStream<TcpStream>,
    /// The frames of a message that are still to be read.
    frames: VecDeque<Value>,
    sent: u64,
    /// Whether the client has said that all is reclaimed: once, and behind all reclaims.
    has_reclaimed: bool,
}

impl Scripted {
    pub(crate) async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    /// A connection, up to its `hello`.
    pub(crate) async fn hello(&self) -> (WebSocketStream<TcpStream>, Value) {
        let mut socket = accept(&self.0).await;
        let hello = next_text(&mut socket).await.unwrap();
        (socket, serde_json::from_str(&hello).unwrap())
    }

    /// A connection, up to a welcome with a fresh session of a minute, save for these fields.
    pub(crate) async fn welcome(&self, fields: Value) -> Peer {
        let (socket, _) = self.hello().await;
        let mut welcome = json!({"type": "welcome", "server": "x", "epoch": "e", "session": "s", "secret": "t", "resumed": false,
            "received": 0, "leaseMs": 60000, "heartbeatMs": 6000, "limits": {"frameBytes": 65536, "nameUnits": 4096,
            "metadataBytes": 1024, "agents": 8, "requestsPerAgent": 8, "windowBytes": 196608}});
        welcome.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let mut peer = Peer { socket, frames: VecDeque::new(), sent: 0, has_reclaimed: false };
        peer.send_unnumbered(&welcome).await;
        peer
    }

    /// Takes the next connection, and ends it.
    pub(crate) async fn refuse(&self) {
        drop(self.0.accept().await.unwrap());
    }

    /// Leaves all further connections to the server at this address.
    pub(crate) async fn forward_to(&self, address: &str) {
        loop {
            let (mut client, _) = self.0.accept().await.unwrap();
            let mut server = TcpStream::connect(address).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    }
}

impl Peer {
    /// The next frame of the client, which is to be of this type; pongs and acknowledgements are passed over,
    /// and so is that all has been reclaimed, unless it is this type.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.next().await;
            if frame["type"] == kind {
                return frame;
            }
            assert_eq!(frame["type"], "reclaimed", "{frame}");
        }
    }

    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let Some(frame) = self.frames.pop_front() else {
                let text = next_text(&mut self.socket).await.expect("the client goes on");
                self.frames = match serde_json::from_str(&text).unwrap() {
                    Value::Array(frames) => frames.into(),
                    frame => VecDeque::from([frame]),
                };
                continue;
            };
            if frame["type"] == "reclaim" || frame["type"] == "reclaimed" {
                assert!(!self.has_reclaimed, "all was reclaimed: {frame}");
                self.has_reclaimed = frame["type"] == "reclaimed";
            }
            if frame["type"] != "pong" && frame["type"] != "ack" {
                return frame;
            }
        }
    }

    /// Sends a numbered frame.
    pub(crate) async fn send(&mut self, mut frame: Value) {
        self.sent += 1;
        frame["seq"] = json!(self.sent);
        self.send_unnumbered(&frame).await;
    }

    /// Expects a frame of this type and grants what it asks for.
    pub(crate) async fn grant(&mut self, kind: &str, token: u64, ticket: &str) -> Value {
        let asked = self.expect(kind).await;
        self.send(json!({"type": "granted", "id": asked["id"], "token": token, "ticket": ticket})).await;
        asked
    }

    /// Until the client hangs up.
    pub(crate) async fn gone(mut self) {
        while next_text(&mut self.socket).await.is_some() {}
    }

    pub(crate) async fn send_unnumbered(&mut self, frame: &Value) {
        self.send_text(frame.to_string()).await;
    }

    /// Sends a text as it is.
    pub(crate) async fn send_text(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.unwrap();
    }
}
