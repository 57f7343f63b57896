//! The one task of a connection: it reads, writes and watches the clock, and connects anew when a connection
//! breaks.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use lockhouse_wire::{Envelope, FatalCode, ServerFrame, close};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::backoff::Backoff;
use super::state::{HangUp, Shared, State, Unwelcome};
use crate::moment::Moment;
use crate::remote::connection::Connection;
use crate::remote::error::ConnectError;
use crate::remote::http::api::Api;
use crate::remote::transport::address::Address;
use crate::remote::transport::credentials::Credentials;
use crate::remote::transport::socket;
use crate::remote::transport::socket::{Over, Socket};

/// How long a connection may take, from the dial to the welcome.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that has lasted so long was a good one, and so was one that has outlived a heartbeat.
const GOOD: Duration = Duration::from_secs(1);

/// Connects once; then the task keeps the connection.
pub(crate) async fn start(
    address: Address,
    label: String,
    credentials: Credentials,
    while_draining: bool,
    api: Arc<Api>,
) -> Result<Connection, ConnectError> {
    let shared = Arc::new(Shared::new());
    let bucket = address.bucket();
    let task = SessionTask { shared: shared.clone(), address, label, credentials, while_draining };
    let connection = Connection::new(shared, bucket, api);
    let socket = task.connect().await?;
    tokio::spawn(task.run(socket));
    Ok(connection)
}

struct SessionTask {
    shared: Arc<Shared>,
    address: Address,
    label: String,
    credentials: Credentials,
    while_draining: bool,
}

impl SessionTask {
    async fn run(self, mut socket: Socket) {
        let mut backoff = Backoff::default();
        loop {
            let (begun, heartbeat) = (Instant::now(), self.shared.with(|state| state.heartbeat()));
            let before = self.shared.with(|state| state.received());
            self.drive(socket).await;
            // With short leases that is soon, as there is little time to come back, too. One that brought
            // something new is good at once: where connections are cut soon, the work goes on between the
            // cuts.
            let has_brought = self.shared.with(|state| state.received()) > before;
            if has_brought || heartbeat.is_some_and(|heartbeat| begun.elapsed() >= heartbeat.min(GOOD)) {
                backoff.reset();
            }
            match self.reconnect(&mut backoff).await {
                Some(next) => socket = next,
                None => return self.say_farewell().await,
            }
        }
    }

    /// One last connection, if the server did not get the goodbye over another.
    async fn say_farewell(&self) {
        if let Some(time) = self.shared.with(|state| state.time_for_farewell()) {
            // The last connection takes the session up, and closes as everything is over. A server that it
            // does not reach learns by the lease.
            _ = timeout(time, self.connect()).await;
        }
    }

    /// Keeps one connection until it breaks or is to be hung up.
    async fn drive(&self, socket: Socket) {
        let (mut sink, mut stream) = socket.split();
        let over = tokio::select! {
            over = self.read(&mut stream) => Some(over),
            _broken = self.write(&mut sink) => Some(Over::Closed(None)),
            () = self.until(|shared| shared.with(|state| state.hang_up().is_some())) => None,
        };
        match over {
            Some(Over::Closed(code)) => self.shared.with(|state| state.disconnected(code)),
            Some(Over::Binary) => self.shared.with(|state| state.accuse("a message that is no frame")),
            None => {}
        }
        if let Some(how) = self.shared.with(|state| state.hang_up()) {
            // The halves are of one socket.
            if let Ok(socket) = sink.reunite(stream) {
                let close = socket::close(socket, how.code(), how.last_words());
                if how == HangUp::Silent {
                    // The session goes on: neither its deadline nor its next connection waits for a link that
                    // is silent.
                    tokio::spawn(close);
                } else if close.await {
                    self.shared.with(State::farewell_answered);
                }
            }
            self.shared.with(State::link_down);
        }
    }

    async fn read(&self, stream: &mut (impl Stream<Item = Result<Message, Error>> + Unpin)) -> Over {
        loop {
            match socket::receive(stream).await {
                Ok(text) => self.shared.with(|state| state.receive(&text)),
                Err(over) => return over,
            }
        }
    }

    /// Sends the frames that are ready, as soon as there are some.
    async fn write(
        &self,
        sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    ) -> Result<Infallible, Error> {
        loop {
            // A few at a time: a pong that becomes due meanwhile goes before the rest.
            loop {
                let messages = self.shared.with(State::next_messages);
                if messages.is_empty() {
                    break;
                }
                for text in messages {
                    sink.feed(Message::text(text)).await?;
                }
            }
            sink.flush().await?;
            self.shared.outgoing.notified().await;
        }
    }

    /// Connects until it succeeds; `None` if everything is over before.
    async fn reconnect(&self, backoff: &mut Backoff) -> Option<Socket> {
        loop {
            let attempt = async {
                sleep(backoff.pause()).await;
                self.connect().await
            };
            tokio::select! {
                biased;
                () = self.until(|shared| shared.with(|state| state.is_closed())) => return None,
                attempt = attempt => match attempt {
                    Ok(socket) => return Some(socket),
                    Err(ConnectError::Denied { message, .. }) => self.shared.with(|state| state.deny(&message)),
                    Err(ConnectError::Key) => self.shared.with(|state| state.deny("there is no usable key any more")),
                    Err(_) => {}
                },
            }
        }
    }

    /// Watches the clock until that has come true.
    async fn until(&self, true_now: impl Fn(&Shared) -> bool) {
        loop {
            let wait = self.shared.with(State::check);
            if true_now(&self.shared) {
                return;
            }
            tokio::select! {
                () = self.shared.control.notified() => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// One attempt, up to the welcome.
    async fn connect(&self) -> Result<Socket, ConnectError> {
        match timeout(DIAL_TIMEOUT, self.dial()).await {
            Ok(result) => result,
            Err(_) => Err(ConnectError::TimedOut { address: self.address.to_string() }),
        }
    }

    async fn dial(&self) -> Result<Socket, ConnectError> {
        let credential = self.credentials.show()?;
        let mut socket = socket::open(&self.address).await?;
        let moment = Moment::now();
        let hello = self.shared.with(|state| state.hello(&self.label, credential, self.while_draining));
        let sent = socket.send(Message::text(hello)).await;
        sent.map_err(|error| self.no_server(error.to_string()))?;
        let text = socket::receive(&mut socket).await.map_err(|over| self.no_welcome(&over))?;
        let envelope = Envelope::<ServerFrame<'_>>::parse(&text)
            .map_err(|error| self.no_server(error.0.message.into_owned()))?;
        let welcome = match envelope.frame {
            ServerFrame::Welcome(welcome) => welcome,
            ServerFrame::Fatal { code: FatalCode::Unauthenticated | FatalCode::Forbidden, problem } => {
                let (address, message) = (self.address.to_string(), problem.message.into_owned());
                return Err(ConnectError::Denied { address, message });
            }
            ServerFrame::Fatal { problem, .. } => return Err(self.no_server(problem.message.into_owned())),
            _ => return Err(self.no_server("its first frame is no welcome".to_owned())),
        };
        match self.shared.with(|state| state.welcome(&welcome, moment)) {
            Ok(()) => Ok(socket),
            Err(unwelcome) => {
                // The close ends the session at the server, too.
                socket::close(socket, close::NORMAL, None).await;
                Err(match unwelcome {
                    Unwelcome::Outdated => self.no_server("the session ended meanwhile".to_owned()),
                    Unwelcome::Breach(breach) => {
                        self.shared.with(|state| state.accuse(&breach.0));
                        self.no_server(breach.0)
                    }
                })
            }
        }
    }

    fn no_welcome(&self, over: &Over) -> ConnectError {
        self.no_server(match over {
            Over::Closed(Some(close::RESTART)) => {
                return ConnectError::Stopping { address: self.address.to_string() };
            }
            Over::Closed(Some(code)) => format!("it closed with code {code} before its welcome"),
            Over::Closed(None) => "it went away before its welcome".to_owned(),
            Over::Binary => "its first message is no frame".to_owned(),
        })
    }

    fn no_server(&self, message: String) -> ConnectError {
        ConnectError::NotLockhouse { address: self.address.to_string(), message }
    }
}

impl Drop for SessionTask {
    /// A runtime that goes takes its tasks with it: then nothing must wait for this one any more.
    fn drop(&mut self) {
        self.shared.with(State::close);
        self.shared.finished.cancel();
    }
}
