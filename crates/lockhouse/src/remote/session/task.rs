//! The one task of a connection: it reads, writes and watches the clock, and connects anew when a connection
//! breaks.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use lockhouse_wire::{Envelope, FatalCode, ServerFrame, close};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::backoff::{Backoff, GOOD, LONGEST};
use super::state::{HangUp, Shared, State, Unwelcome};
use crate::moment::Moment;
use crate::remote::connection::Connection;
use crate::remote::error::ConnectError;
use crate::remote::http::api::Api;
use crate::remote::transport::address::Address;
use crate::remote::transport::credentials::Credentials;
use crate::remote::transport::endpoints::{Endpoints, LONGEST_PATIENCE};
use crate::remote::transport::socket;
use crate::remote::transport::socket::{Over, Socket};

/// How long the first connection waits for a bucket that moves: longer than the servers take over from one
/// that has died, with their default times.
const MOVING_PATIENCE: Duration = Duration::from_secs(10);

/// Connects once; then the task keeps the connection.
pub(crate) async fn start(
    endpoints: Arc<Endpoints>,
    label: String,
    credentials: Credentials,
    while_draining: bool,
    api: Arc<Api>,
) -> Result<Connection, ConnectError> {
    let shared = Arc::new(Shared::new());
    let bucket = endpoints.first().bucket();
    let task = SessionTask { shared: shared.clone(), endpoints, label, credentials, while_draining };
    let connection = Connection::new(shared, bucket, api);
    let connected = task.connect_first().await?;
    tokio::spawn(task.run(connected));
    Ok(connection)
}

struct SessionTask {
    shared: Arc<Shared>,
    endpoints: Arc<Endpoints>,
    label: String,
    credentials: Credentials,
    while_draining: bool,
}

/// A connection, up to its welcome.
struct Connected {
    socket: Socket,
    endpoint: usize,
}

impl SessionTask {
    async fn run(self, mut connected: Connected) {
        let mut backoff = Backoff::default();
        loop {
            let (begun, heartbeat) = (Instant::now(), self.shared.with(|state| state.heartbeat()));
            let before = self.shared.with(|state| state.received());
            self.drive(connected).await;
            // With short leases that is soon, as there is little time to come back, too. One that brought
            // something new is good at once: where connections are cut soon, the work goes on between the
            // cuts.
            let has_brought = self.shared.with(|state| state.received()) > before;
            if has_brought || heartbeat.is_some_and(|heartbeat| begun.elapsed() >= heartbeat.min(GOOD)) {
                backoff.reset();
            }
            match self.reconnect(&mut backoff).await {
                Some(next) => connected = next,
                None => return self.say_farewell().await,
            }
        }
    }

    /// One last connection, if the server did not get the goodbye over another.
    async fn say_farewell(&self) {
        if let Some(time) = self.shared.with(|state| state.time_for_farewell()) {
            // The last connection takes the session up, and closes as everything is over. A server that it
            // does not reach learns by the lease.
            _ = timeout(time, self.connect(0)).await;
        }
    }

    /// Keeps one connection until it breaks or is to be hung up.
    async fn drive(&self, Connected { socket, endpoint }: Connected) {
        let (mut sink, mut stream) = socket.split();
        let over = tokio::select! {
            over = self.read(&mut stream) => Some(over),
            _broken = self.write(&mut sink) => Some(Over::Closed(None)),
            () = self.until(|shared| shared.with(|state| state.hang_up().is_some())) => None,
        };
        match over {
            Some(Over::Closed(code)) => self.shared.with(|state| state.disconnected(code)),
            Some(Over::Full(_)) => self.shared.with(|state| state.disconnected(Some(close::FULL))),
            Some(Over::Moving) => self.shared.with(|state| state.disconnected(Some(close::RESTART))),
            Some(Over::Binary) => self.shared.with(|state| state.accuse("a message that is no frame")),
            None => {}
        }
        let hang_up = self.shared.with(|state| state.hang_up());
        if hang_up != Some(HangUp::Renewal) {
            self.endpoints.failed(endpoint);
        }
        if let Some(how) = hang_up {
            // The halves are of one socket.
            if let Ok(socket) = sink.reunite(stream) {
                let close = socket::close(socket, how.code(), how.last_words());
                if matches!(how, HangUp::Silent | HangUp::Renewal) {
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

    /// Connects until it succeeds; `None` if everything is over before. The first pause comes before all
    /// endpoints are tried, so that a crowd does not move as one.
    async fn reconnect(&self, backoff: &mut Backoff) -> Option<Connected> {
        let mut round = 0;
        loop {
            let (urgency, named) = self.shared.with(|state| (state.urgency(), state.named_pause.take()));
            let pause = backoff.pause_of_at_most(urgency.unwrap_or(LONGEST), named.unwrap_or_default());
            let attempt = async {
                sleep(pause).await;
                self.connect(round).await
            };
            tokio::select! {
                biased;
                () = self.until(|shared| shared.with(|state| state.is_closed())) => return None,
                attempt = attempt => match attempt {
                    Ok(connected) => return Some(connected),
                    Err(ConnectError::Denied { message, .. }) => self.shared.with(|state| state.deny(&message)),
                    Err(ConnectError::Key) => self.shared.with(|state| state.deny("there is no usable key any more")),
                    Err(_) => round += 1,
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

    /// The first connection. A bucket that moves between two servers is waited for.
    async fn connect_first(&self) -> Result<Connected, ConnectError> {
        let (until, mut backoff) = (Instant::now() + MOVING_PATIENCE, Backoff::default());
        loop {
            match self.connect(0).await {
                Err(error) if error.may_be_moving() && Instant::now() < until => {
                    sleep(backoff.pause_of_at_most(GOOD, Duration::ZERO)).await;
                }
                first => return first,
            }
        }
    }

    /// One attempt at each endpoint, up to the first welcome.
    async fn connect(&self, round: u32) -> Result<Connected, ConnectError> {
        let (mut untried, mut why) = (self.endpoints.addresses().len(), None::<ConnectError>);
        loop {
            let endpoint = self.endpoints.current();
            let error = match self.try_endpoint(&self.endpoints.addresses()[endpoint], round).await {
                Ok(socket) => return Ok(Connected { socket, endpoint }),
                // The others would answer the same.
                Err(error @ (ConnectError::Denied { .. } | ConnectError::Key)) => return Err(error),
                Err(error) => error,
            };
            self.endpoints.failed(endpoint);
            untried -= 1;
            // A server that says that the bucket moves will know who has it, whatever the others say.
            let error = match why.take() {
                Some(moving) if moving.may_be_moving() => moving,
                _ => error,
            };
            if untried == 0 {
                return Err(error.of_all(&self.endpoints));
            }
            why = Some(error);
        }
    }

    /// One attempt, which may take twice as long in each round.
    async fn try_endpoint(&self, address: &Address, round: u32) -> Result<Socket, ConnectError> {
        let urgency = self.shared.with(|state| state.urgency());
        let first = urgency.unwrap_or_else(|| self.endpoints.patience());
        let patience = first.saturating_mul(1 << round.min(16)).min(LONGEST_PATIENCE);
        let is_open = AtomicBool::new(false);
        timeout(patience, self.dial(address, &is_open)).await.unwrap_or_else(|_| {
            let (address, is_open) = (address.to_string(), is_open.into_inner());
            Err(ConnectError::TimedOut { address, after: patience, is_open })
        })
    }

    async fn dial(&self, address: &Address, is_open: &AtomicBool) -> Result<Socket, ConnectError> {
        let no_server =
            |message: String| ConnectError::NotLockhouse { address: address.to_string(), message };
        let credential = self.credentials.show()?;
        let mut socket = socket::open(address).await?;
        is_open.store(true, Ordering::Relaxed);
        let moment = Moment::now();
        let hello = self.shared.with(|state| state.hello(&self.label, credential, self.while_draining));
        let sent = socket.send(Message::text(hello)).await;
        sent.map_err(|error| no_server(error.to_string()))?;
        let text = socket::receive(&mut socket).await.map_err(|over| no_welcome(address, &over))?;
        let envelope = Envelope::<ServerFrame<'_>>::parse(&text)
            .map_err(|error| no_server(error.0.message.into_owned()))?;
        let welcome = match envelope.frame {
            ServerFrame::Welcome(welcome) => welcome,
            ServerFrame::Fatal { code: FatalCode::Unauthenticated | FatalCode::Forbidden, problem } => {
                let (address, message) = (address.to_string(), problem.message.into_owned());
                return Err(ConnectError::Denied { address, message });
            }
            ServerFrame::Fatal { problem, .. } => return Err(no_server(problem.message.into_owned())),
            _ => return Err(no_server("its first frame is no welcome".to_owned())),
        };
        match self.shared.with(|state| state.welcome(&welcome, moment)) {
            Ok(()) => Ok(socket),
            Err(unwelcome) => {
                // The close ends the session at the server, too.
                socket::close(socket, close::NORMAL, None).await;
                Err(match unwelcome {
                    Unwelcome::Outdated => no_server("the session ended meanwhile".to_owned()),
                    Unwelcome::Breach(breach) => {
                        self.shared.with(|state| state.accuse(&breach.0));
                        no_server(breach.0)
                    }
                })
            }
        }
    }
}

fn no_welcome(address: &Address, over: &Over) -> ConnectError {
    let address = address.to_string();
    let message = match over {
        Over::Moving => return ConnectError::Moving { address },
        Over::Full(bound) => return ConnectError::Full { address, bound: bound.clone() },
        Over::Closed(Some(close::RESTART)) => return ConnectError::Stopping { address },
        Over::Closed(Some(code)) => format!("it closed with code {code} before its welcome"),
        Over::Closed(None) => "it went away before its welcome".to_owned(),
        Over::Binary => "its first message is no frame".to_owned(),
    };
    ConnectError::NotLockhouse { address, message }
}

impl Drop for SessionTask {
    /// A runtime that goes takes its tasks with it: then nothing must wait for this one any more.
    fn drop(&mut self) {
        self.shared.with(State::close);
        self.shared.finished.cancel();
    }
}
