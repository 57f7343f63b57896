//! A WebSocket connection of the protocol, frame by frame, for crowds of clients whose calls a library would
//! prevent.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use lockhouse::core::{Acquire, NameBuf};
use lockhouse_wire::{
    ClientCall, ClientFrame, Credential, Envelope, Hello, PATH, Resume, SUBPROTOCOL, ServerEvent,
    ServerFrame, SnapshotQuery, WebLockRequest, frames_of,
};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

/// The timeout for an answer; a working server is faster.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An open connection with a session of one agent.
pub(crate) struct Client {
    socket: WebSocketStream<TcpStream>,
    /// The frames of a message that are still to be read.
    frames: VecDeque<String>,
    pub(crate) session: ClientSession,
}

/// The state of a session that a client keeps beyond one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientSession {
    id: String,
    secret: String,
    seq: u64,
    received: u64,
    last_id: u64,
    unacknowledged: u64,
}

/// The answers of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Granted {
        id: u64,
        token: u64,
    },
    Refused {
        id: u64,
    },
    Released {
        id: u64,
        held: bool,
    },
    Lost {
        id: u64,
    },
    Error {
        id: Option<u64>,
        code: &'static str,
        message: String,
    },
    /// A page of a snapshot, and whether more come.
    Snapshot {
        id: u64,
        more: bool,
    },
}

impl Client {
    /// Connects from that address and begins a session with an agent of that name.
    pub(crate) async fn begin(address: SocketAddr, from: Ipv4Addr, query: &str, name: &str) -> Result<Self> {
        Self::begin_with(address, from, query, name, None).await
    }

    /// The same with an API key.
    pub(crate) async fn begin_with(
        address: SocketAddr,
        from: Ipv4Addr,
        query: &str,
        name: &str,
        key: Option<&str>,
    ) -> Result<Self> {
        let mut client = Self::open(address, from, query).await?;
        let resumed = client.hello(key, None).await?;
        ensure!(!resumed, "a new session goes on with another");
        client.call(ClientCall::Join { agent: 1, client_id: name.into() }).await?;
        Ok(client)
    }

    /// Connects anew and goes on with a session; none if it is gone.
    pub(crate) async fn resume(
        address: SocketAddr,
        from: Ipv4Addr,
        query: &str,
        session: ClientSession,
    ) -> Result<Option<Self>> {
        let mut client = Self::open(address, from, query).await?;
        let resumed = client.hello(None, Some(session)).await?;
        Ok(resumed.then_some(client))
    }

    async fn open(address: SocketAddr, from: Ipv4Addr, query: &str) -> Result<Self> {
        let socket = open(address, from, query).await?;
        Ok(Self { socket, frames: VecDeque::new(), session: ClientSession::default() })
    }

    async fn hello(&mut self, key: Option<&str>, resumed: Option<ClientSession>) -> Result<bool> {
        let resume = resumed.as_ref().map(|session| Resume {
            session: (&*session.id).into(),
            secret: (&*session.secret).into(),
            received: session.received,
            attempt: None,
        });
        let credential = key.and_then(|key| Credential::new(key.to_owned()));
        let hello = Hello { credential, client: Some("xtask".into()), resume, while_draining: false };
        self.send(Envelope::new(ClientFrame::Hello(hello))).await?;
        let text = self.next_frame().await?;
        let envelope = Envelope::<ServerFrame<'_>>::parse(&text).map_err(|bad| anyhow::anyhow!("{bad}"))?;
        let ServerFrame::Welcome(welcome) = envelope.frame else { bail!("no welcome, but {text}") };
        if welcome.resumed {
            self.session = resumed.context("a session was resumed that was not asked for")?;
            ensure!(welcome.received == self.session.seq, "the server has lost frames that it answered");
        }
        self.session.id = welcome.session.into_owned();
        self.session.secret = welcome.secret.into_owned();
        Ok(welcome.resumed)
    }

    /// Requests a lock; the number of the request.
    pub(crate) async fn request(&mut self, name: &str, acquire: Acquire) -> Result<u64> {
        self.session.last_id += 1;
        let id = self.session.last_id;
        let name = NameBuf::new(name)?;
        let ask = WebLockRequest { id, agent: 1, name, acquire, metadata: None, max_hold_ms: None };
        self.call(ClientCall::Request(ask)).await?;
        Ok(id)
    }

    /// Releases a lock; the answer says whether it was held.
    pub(crate) async fn release(&mut self, id: u64) -> Result<()> {
        self.call(ClientCall::Release { id, reply: true }).await
    }

    /// Gives a request up.
    pub(crate) async fn abort(&mut self, id: u64) -> Result<()> {
        self.call(ClientCall::Abort { id }).await
    }

    /// Requests a snapshot of held and pending locks; returns the number of the request.
    pub(crate) async fn query(&mut self, detail: bool) -> Result<u64> {
        self.session.last_id += 1;
        let id = self.session.last_id;
        self.send(Envelope::new(ClientFrame::Query(SnapshotQuery { id, name: None, detail }))).await?;
        Ok(id)
    }

    /// Requests a snapshot after each change, until the session ends.
    pub(crate) async fn watch(&mut self) -> Result<()> {
        self.session.last_id += 1;
        let query = SnapshotQuery { id: self.session.last_id, name: None, detail: false };
        self.send(Envelope::new(ClientFrame::Watch(query))).await
    }

    /// Sends a numbered frame of no known type.
    pub(crate) async fn send_unknown_type(&mut self) -> Result<()> {
        self.session.seq += 1;
        let text = format!("{{\"type\":\"nonsense\",\"seq\":{}}}", self.session.seq);
        Ok(self.socket.send(Message::text(text)).await?)
    }

    async fn call(&mut self, call: ClientCall<'_>) -> Result<()> {
        self.session.seq += 1;
        let frame = ClientFrame::Numbered { seq: self.session.seq, call };
        self.send(Envelope::new(frame)).await
    }

    async fn send(&mut self, envelope: Envelope<ClientFrame<'_>>) -> Result<()> {
        Ok(self.socket.send(Message::text(envelope.to_text())).await?)
    }

    /// The next event from the server; pings are answered meanwhile.
    ///
    /// # Cancel safety
    ///
    /// If a call is cancelled while a ping is answered, that answer may be late: it is sent with the next
    /// frame.
    pub(crate) async fn receive(&mut self) -> Result<Received> {
        Ok(self.receive_in_full().await?.1)
    }

    /// As [`receive`](Self::receive), with the text of the frame.
    pub(crate) async fn receive_in_full(&mut self) -> Result<(String, Received)> {
        loop {
            let text = self.next_frame().await?;
            let frame =
                Envelope::<ServerFrame<'_>>::parse(&text).map_err(|bad| anyhow::anyhow!("{bad}"))?.frame;
            match frame {
                ServerFrame::Ping { n, .. } => {
                    let ack = self.session.received;
                    self.session.unacknowledged = 0;
                    self.send(Envelope { ack, frame: ClientFrame::Pong { n } }).await?;
                }
                ServerFrame::Ack => {}
                ServerFrame::Numbered { seq, event } => {
                    ensure!(seq == self.session.received + 1, "frame {seq} after {}", self.session.received);
                    let received = to_received(event)?;
                    self.session.received = seq;
                    self.session.unacknowledged += 1;
                    if self.session.unacknowledged >= ACK_AFTER {
                        self.session.unacknowledged = 0;
                        self.send(Envelope { ack: seq, frame: ClientFrame::Ack }).await?;
                    }
                    return Ok((text, received));
                }
                ServerFrame::Snapshot(page) => {
                    let (id, more) = (page.id, page.more);
                    return Ok((text, Received::Snapshot { id, more }));
                }
                ServerFrame::Fatal { code, problem } => bail!("fatal {}: {problem}", code.word()),
                ServerFrame::Welcome(_) | ServerFrame::Closing { .. } => bail!("out of place: {text}"),
            }
        }
    }

    async fn next_frame(&mut self) -> Result<String> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(frame);
            }
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let frames = frames_of(&text).map_err(|problem| anyhow::anyhow!("{problem}"))?;
                    self.frames = frames.into_iter().map(str::to_owned).collect();
                }
                Some(Ok(Message::Close(frame))) => bail!("closed by the server: {frame:?}"),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => bail!("the connection broke off"),
            }
        }
    }

    /// Answers pings for so long, and takes nothing else for granted.
    pub(crate) async fn idle(&mut self, length: Duration) -> Result<()> {
        match timeout(length, self.receive()).await {
            Err(_) => Ok(()),
            Ok(received) => bail!("while nothing was asked: {:?}", received?),
        }
    }

    /// Says that the session is over, and waits for the server to close.
    pub(crate) async fn goodbye(mut self) -> Result<()> {
        self.send(Envelope::new(ClientFrame::Bye)).await?;
        self.until_closed().await
    }

    /// Closes like a page that goes.
    pub(crate) async fn close(mut self) -> Result<()> {
        let code = lockhouse_wire::close::GOING_AWAY.into();
        self.socket.close(Some(CloseFrame { code, reason: "".into() })).await?;
        self.until_closed().await
    }

    /// Breaks off without a word.
    pub(crate) fn cut(self) -> ClientSession {
        self.session
    }

    async fn until_closed(&mut self) -> Result<()> {
        let closed = async {
            loop {
                match self.socket.next().await {
                    None | Some(Err(Error::ConnectionClosed)) => return,
                    // A frame that was under way.
                    Some(Ok(_)) => {}
                    Some(Err(_)) => return,
                }
            }
        };
        timeout(PATIENCE, closed).await.context("the server does not close")
    }
}

/// The number of numbered frames after which the client acknowledges them.
const ACK_AFTER: u64 = 32;

async fn open(address: SocketAddr, from: Ipv4Addr, query: &str) -> Result<WebSocketStream<TcpStream>> {
    let opening = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        let mut request = format!("ws://{address}{PATH}{query}").into_client_request()?;
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(SUBPROTOCOL));
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        anyhow::Ok(socket)
    };
    timeout(PATIENCE, opening).await.context("no handshake")?
}

fn to_received(event: ServerEvent<'_>) -> Result<Received> {
    Ok(match event {
        ServerEvent::Granted { id, token, .. } => Received::Granted { id, token: token.get() },
        ServerEvent::Refused { id, .. } => Received::Refused { id },
        ServerEvent::Released { id, held } => Received::Released { id, held },
        ServerEvent::Lost { id, .. } => Received::Lost { id },
        ServerEvent::Ended { agent, .. } => bail!("agent {agent} was ended"),
        ServerEvent::Error { id, code, problem, .. } => {
            Received::Error { id, code: code.word(), message: problem.message.into_owned() }
        }
    })
}
