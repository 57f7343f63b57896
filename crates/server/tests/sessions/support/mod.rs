//! A server to test, and a bare client.

pub(crate) mod keys;
pub(crate) mod proxy;
pub(crate) mod resuming;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use lockhouse::House;
use lockhouse_server::{Config, Lease, Listener, Server, bind};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// Nothing that is waited for takes so long on a working server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) server: Arc<Server>,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
}

pub(crate) fn config(lease_ms: u64) -> Config {
    let lease = Lease::new(Duration::from_millis(lease_ms)).unwrap();
    Config { lease, drain: Duration::from_secs(1), ..Config::default() }
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(config(10_000)).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let listener = bind("127.0.0.1:0", &config.authority).await.unwrap();
        Self::listening(listener, config)
    }

    /// A server whose links hold next to nothing on their way to [`Client::hello_over_a_narrow_link`].
    pub(crate) async fn with_narrow_links(config: Config) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // Connections have what their listener has.
        socket.set_send_buffer_size(4 << 10).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self::listening(socket.listen(1024).unwrap(), config)
    }

    /// A server over that house.
    pub(crate) async fn over(config: Config, house: House) -> Self {
        let listener = bind("127.0.0.1:0", &config.authority).await.unwrap();
        Self::serving(listener, Server::of(config, house))
    }

    fn listening(listener: impl Into<Listener>, config: Config) -> Self {
        Self::serving(listener.into(), Server::new(config))
    }

    fn serving(listener: Listener, server: Arc<Server>) -> Self {
        log_listener::listen();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.clone().serve(listener, async {
            // A test that ends without stopping the server drops the sender.
            _ = stopped.await;
        }));
        Self { address, server, stop: Some(stop), task }
    }

    /// The signal to stop; the server then drains.
    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    pub(crate) async fn client(&self) -> Client {
        Client::hello(self.address, "").await
    }

    /// Waits until no session is left, and nothing in any table.
    pub(crate) async fn is_empty_within(&self, limit: Duration) {
        let start = Instant::now();
        while self.server.session_count() != 0
            || self.server.houses()[0].buckets().iter().any(|b| !b.is_empty())
        {
            assert!(start.elapsed() < limit, "{} sessions are left", self.server.session_count());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The frames of a message of the server, which keeps its bounds.
pub(crate) fn frames(message: &str) -> Vec<Value> {
    assert!(message.len() <= 65_536, "{} bytes", message.len());
    traces::answer(message);
    match serde_json::from_str(message).unwrap_or_else(|error| panic!("{error}: {message}")) {
        Value::Array(frames) => {
            assert!((2..=1024).contains(&frames.len()), "{} frames", frames.len());
            frames
        }
        frame => vec![frame],
    }
}

/// A WebSocket that sends and receives as the test asks.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<TcpStream>,
    pub(crate) welcome: Value,
    /// The last number sent.
    pub(crate) seq: u64,
    /// The last number received.
    pub(crate) received: u64,
    /// Whether pings are answered.
    pub(crate) alive: bool,
    /// The frames of a message that are still to be read.
    pub(crate) frames: VecDeque<Value>,
}

impl Client {
    /// Connects, with query parameters such as `?bucket=a`, and sends nothing.
    pub(crate) async fn open(address: SocketAddr, query: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::open_over(stream, address, query).await
    }

    async fn open_over(stream: TcpStream, address: SocketAddr, query: &str) -> Self {
        let mut request = format!("ws://{address}/v1/ws{query}").into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("lockhouse.v1"));
        let connect = client_async(request, stream);
        let (socket, response) = timeout(PATIENCE, connect).await.unwrap().unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "lockhouse.v1");
        Self { socket, welcome: Value::Null, seq: 0, received: 0, alive: true, frames: VecDeque::new() }
    }

    /// Connects and says hello.
    pub(crate) async fn hello(address: SocketAddr, query: &str) -> Self {
        Self::hello_with(address, query, None).await
    }

    /// Connects and says hello with that credential.
    pub(crate) async fn hello_with(address: SocketAddr, query: &str, credential: Option<&str>) -> Self {
        Self::open(address, query).await.say_hello(credential).await
    }

    /// Connects over a link that takes next to nothing before it is read, and says hello.
    pub(crate) async fn hello_over_a_narrow_link(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let stream = socket.connect(address).await.unwrap();
        Self::open_over(stream, address, "").await.say_hello(None).await
    }

    async fn say_hello(self, credential: Option<&str>) -> Self {
        let mut client = self;
        client.send(json!({"type": "hello", "client": "test", "credential": credential})).await;
        client.welcome = client.next().await;
        assert_eq!(client.welcome["type"], "welcome");
        assert_eq!(client.welcome["resumed"], false);
        client
    }

    /// Connects and goes on with the session of `other`.
    pub(crate) async fn resume(address: SocketAddr, other: &Self) -> Self {
        let mut client = Self::open(address, "").await;
        let resume = json!({"session": other.welcome["session"], "secret": other.welcome["secret"], "received": other.received});
        client.send(json!({"type": "hello", "resume": resume})).await;
        client.welcome = client.next().await;
        assert_eq!(client.welcome["type"], "welcome");
        if client.welcome["resumed"] == true {
            client.seq = other.seq;
            client.received = other.received;
        }
        client
    }

    pub(crate) async fn send(&mut self, frame: Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// Sends a frame with the next [`flush`](Self::flush), or before.
    pub(crate) async fn feed(&mut self, frame: Value) {
        self.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }

    pub(crate) async fn flush(&mut self) {
        self.socket.flush().await.unwrap();
    }

    /// Sends a numbered frame.
    pub(crate) async fn call(&mut self, mut frame: Value) {
        self.seq += 1;
        frame["seq"] = json!(self.seq);
        self.send(frame).await;
    }

    /// Sends numbered frames in one message.
    pub(crate) async fn call_all(&mut self, frames: impl IntoIterator<Item = Value>) {
        let number = |mut frame: Value| {
            self.seq += 1;
            frame["seq"] = json!(self.seq);
            frame
        };
        let mut frames: Vec<_> = frames.into_iter().map(number).collect();
        self.send(if frames.len() == 1 { frames.remove(0) } else { json!(frames) }).await;
    }

    pub(crate) async fn join(&mut self, agent: u64) {
        self.call(json!({"type": "join", "agent": agent, "clientId": format!("agent {agent}")})).await;
    }

    pub(crate) async fn request(&mut self, id: u64, agent: u64, name: &str) {
        self.call(json!({"type": "request", "id": id, "agent": agent, "name": name})).await;
    }

    pub(crate) async fn release(&mut self, id: u64) {
        self.call(json!({"type": "release", "id": id})).await;
    }

    /// The next frame; pings are answered and passed over, acknowledgements passed over.
    pub(crate) async fn next(&mut self) -> Value {
        match self.next_or_close().await {
            Ok(frame) => frame,
            Err(close) => panic!("closed: {close:?}"),
        }
    }

    /// The next frame, or how the connection ended.
    pub(crate) async fn next_or_close(&mut self) -> Result<Value, Option<CloseFrame>> {
        timeout(PATIENCE, self.next_or_close_at_last()).await.expect("nothing came but pings")
    }

    /// The next frame as it comes, with nothing answered or passed over.
    pub(crate) async fn next_of_any_type(&mut self) -> Value {
        while self.frames.is_empty() {
            let message = timeout(PATIENCE, self.socket.next()).await.expect("nothing came");
            self.frames = frames(message.unwrap().unwrap().to_text().unwrap()).into();
        }
        self.frames.pop_front().unwrap()
    }

    async fn next_or_close_at_last(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            let Some(frame) = self.frames.pop_front() else {
                let message = self.socket.next().await;
                let text = match message {
                    Some(Ok(Message::Text(text))) => text,
                    Some(Ok(Message::Close(frame))) => return Err(frame),
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => return Err(None),
                };
                self.frames = frames(&text).into();
                continue;
            };
            if frame["type"] == "ping" && self.alive {
                // The server may close at this moment.
                _ = self.try_send(json!({"type": "pong", "n": frame["n"]})).await;
            }
            if frame["type"] == "ping" || frame["type"] == "ack" {
                continue;
            }
            if let Some(seq) = frame["seq"].as_u64() {
                assert_eq!(seq, self.received + 1, "{frame}");
                self.received = seq;
            }
            return Ok(frame);
        }
    }

    pub(crate) async fn try_send(&mut self, frame: Value) -> Result<(), Error> {
        self.socket.send(Message::text(frame.to_string())).await
    }

    /// The next frame must be that of a grant; its token.
    pub(crate) async fn granted(&mut self, id: u64) -> u64 {
        let frame = self.next().await;
        assert_eq!((&frame["type"], &frame["id"]), (&json!("granted"), &json!(id)), "{frame}");
        frame["token"].as_u64().unwrap()
    }

    /// The connection must end with this code, frames before it being passed over.
    pub(crate) async fn closed(&mut self) -> u16 {
        loop {
            match self.next_or_close().await {
                Ok(_) => {}
                Err(Some(close)) => return close.code.into(),
                Err(None) => panic!("broke off without a close"),
            }
        }
    }

    /// The held and the pending names, in lists.
    pub(crate) async fn query(&mut self, id: u64) -> (Vec<String>, Vec<String>) {
        self.send(json!({"type": "query", "id": id})).await;
        let (mut held, mut pending) = (Vec::new(), Vec::new());
        loop {
            let frame = self.next().await;
            assert_eq!((&frame["type"], &frame["id"]), (&json!("snapshot"), &json!(id)));
            for (key, names) in [("held", &mut held), ("pending", &mut pending)] {
                let entries = frame[key].as_array().unwrap();
                names.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
            }
            if frame["more"] != json!(true) {
                return (held, pending);
            }
        }
    }

    pub(crate) async fn close(&mut self, code: u16) {
        self.socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await.unwrap();
    }
}
