//! A WebSocket of a client: its handshake, its `hello`, and its messages.

use std::io::ErrorKind;
use std::sync::Arc;

use lockhouse_wire::{ClientFrame, Envelope, MessageBuilder, PATH, SUBPROTOCOL};
use random::Random;
use tokio_tungstenite::tungstenite::client::client_with_config;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::{HandshakeError, MidHandshake};
use tokio_tungstenite::tungstenite::http::{Request, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{ClientHandshake, Error, Message, Utf8Bytes, WebSocket};

use super::link::{ClientEnd, Wire, link};
use super::listener::{Announced, Listener};
use crate::sim::server::{Place, ServerLife};

/// A connection to the server.
#[derive(Debug)]
pub(super) struct Connection {
    state: State,
    /// Frames that go with the next one, or before the next message is read.
    gathered: MessageBuilder,
    random: Random,
    pub(super) wire: Wire,
    /// When the `hello` was sent.
    hello_ms: u64,
}

#[derive(Debug)]
enum State {
    /// The answer to the handshake is not there yet; then this is said.
    Opening(Box<MidHandshake<ClientHandshake<ClientEnd>>>, String),
    /// The `hello` is not answered yet.
    Greeting(Box<WebSocket<ClientEnd>>),
    Welcomed(Box<WebSocket<ClientEnd>>),
    Closed,
}

/// What a connection has for its client.
#[derive(Debug)]
pub(super) enum Input {
    Nothing,
    Text(Utf8Bytes),
    Closed,
}

/// The bytes that can be on their way to a client: seldom so few that the server has to wait.
const CAPACITIES: [usize; 4] = [200, 2000, 64_000, 64_000];

impl Connection {
    pub(super) fn open(
        life: &ServerLife,
        place: &Place,
        announced: &Arc<Announced>,
        hello: String,
        random: &mut Random,
    ) -> Self {
        let capacity = random.pick(&CAPACITIES).copied().unwrap_or(CAPACITIES[0]);
        let (client, wire, server) = link(capacity, Listener::new(&life.server, place, announced));
        life.serve(server);
        let state = match handshake(client, place) {
            Ok(opening) => State::Opening(opening, hello),
            Err(error) => {
                life.server.strange(format!("no handshake: {error}"));
                State::Closed
            }
        };
        let random = Random::new(random.next_u64());
        Self { state, gathered: MessageBuilder::default(), random, wire, hello_ms: 0 }
    }

    pub(super) fn is_welcomed(&self) -> bool {
        matches!(self.state, State::Welcomed(_))
    }

    /// The welcome is there; when the `hello` was sent.
    pub(super) fn is_welcomed_now(&mut self) -> u64 {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Greeting(socket) => State::Welcomed(socket),
            state => state,
        };
        self.hello_ms
    }

    /// Sends a frame, now or in one message with the next ones; a connection that is gone takes it, too.
    pub(super) fn send(&mut self, envelope: &Envelope<ClientFrame<'_>>) {
        let text = envelope.to_text();
        if matches!(envelope.frame, ClientFrame::Pong { .. } | ClientFrame::Bye) {
            self.write(text);
        } else if !self.gathered.try_push(&text) {
            self.flush();
            self.gathered.try_push(&text);
        }
        if self.random.percent(50) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(message) = self.gathered.take() {
            self.write(message);
        }
    }

    fn write(&mut self, message: String) {
        if let State::Greeting(socket) | State::Welcomed(socket) = &mut self.state {
            // That it is gone shows when it is read.
            _ = socket.send(Message::text(message));
        }
    }

    /// The next message that has come.
    pub(super) fn next(&mut self, now_ms: u64) -> Input {
        self.flush();
        if let State::Opening(..) = self.state {
            self.open_if_answered(now_ms);
        }
        let (State::Greeting(socket) | State::Welcomed(socket)) = &mut self.state else {
            return if matches!(self.state, State::Closed) { Input::Closed } else { Input::Nothing };
        };
        loop {
            match socket.read() {
                Ok(Message::Text(text)) => return Input::Text(text),
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Input::Nothing,
                Err(_) => return Input::Closed,
            }
        }
    }

    fn open_if_answered(&mut self, now_ms: u64) {
        let State::Opening(opening, hello) = std::mem::replace(&mut self.state, State::Closed) else {
            return;
        };
        self.state = match opening.handshake() {
            Ok((mut socket, _)) => {
                _ = socket.send(Message::text(hello));
                self.hello_ms = now_ms;
                State::Greeting(Box::new(socket))
            }
            Err(HandshakeError::Interrupted(opening)) => State::Opening(Box::new(opening), hello),
            Err(HandshakeError::Failure(_)) => State::Closed,
        };
    }
}

fn handshake(
    stream: ClientEnd,
    place: &Place,
) -> Result<Box<MidHandshake<ClientHandshake<ClientEnd>>>, Box<Error>> {
    let host = "127.0.0.1:7420";
    let request = Request::builder()
        .uri(format!("ws://{host}{PATH}?bucket={}&partition={}", place.key.bucket, place.key.partition))
        .header(header::HOST, host)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, generate_key())
        .header(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL)
        .body(())
        .map_err(|error| Box::new(error.into()))?;
    let config = WebSocketConfig::default().read_buffer_size(1 << 10).write_buffer_size(0);
    match client_with_config(request, stream, Some(config)) {
        Err(HandshakeError::Interrupted(opening)) => Ok(Box::new(opening)),
        Err(HandshakeError::Failure(error)) => Err(Box::new(error)),
        Ok(_) => Err(Box::new(Error::ConnectionClosed)),
    }
}
