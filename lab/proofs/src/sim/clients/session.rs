//! The client's side of a session: it speaks the protocol with the server's own code, frame by frame, over
//! connections that come and go, and keeps its own view of its lease.
//!
//! ```text
//!   RemoteWebClient ─▶ Session ─▶ WebSocket ─▶ link: slow, stalled, broken ─▶ router, session (the real)
//!                                                └─▶ Listener: announced before durable?
//! ```

mod connection;
mod link;
mod listener;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use lockhouse::core::{FencingToken, HolderKind, Mode};
use lockhouse_wire::{
    ClientCall, ClientFrame, Envelope, ErrorCode, FatalCode, Hello, LostReason, Resume, ServerEvent,
    ServerFrame, SnapshotPage, SnapshotQuery, Ticket, Welcome, frames_of,
};
use random::Random;

use self::connection::{Connection, Input};
pub(super) use self::link::Break;
use self::listener::Announced;
use crate::sim::server::{Place, ServerHandle, ServerLife};

/// What has come for the client.
#[derive(Debug)]
pub(super) enum Frame {
    /// A new session; the locks of the one before are held until then at most.
    Began {
        until: Option<u64>,
    },
    Granted {
        tag: u64,
        token: FencingToken,
        ticket: Option<Ticket<'static>>,
    },
    Refused {
        tag: u64,
        code: Option<ErrorCode>,
    },
    Lost {
        tag: u64,
        reason: LostReason,
    },
    /// The tokens of all web locks that are held.
    Snapshot {
        tag: u64,
        tokens: Vec<u64>,
    },
}

/// A session, with a connection or between two of them. Tags are the ids of the protocol: those of reclaims
/// are odd, all others even.
#[derive(Debug)]
pub(super) struct Session {
    place: Place,
    label: String,
    connection: Option<Connection>,
    /// None before the first welcome.
    known: Option<Known>,
    /// The number of `hello`s.
    attempts: u64,
    announced: Arc<Announced>,
    frames: VecDeque<Frame>,
    /// Reclaims that must be refused.
    void: HashSet<u64>,
    /// The pages so far of the snapshots that are not complete.
    pages: Vec<(u64, Vec<Shown>)>,
}

/// The state that outlives a connection.
#[derive(Debug)]
struct Known {
    id: String,
    secret: String,
    /// The life of the server that has the session.
    life: u64,
    lease_ms: u64,
    /// The number of the last numbered frame to the server.
    seq: u64,
    unacknowledged: VecDeque<(u64, ClientCall<'static>)>,
    /// The number of the last such frame from the server, and how many came since the last acknowledgement.
    received: u64,
    since_ack: u64,
    /// The pongs whose arrival the server has not confirmed, and when each was sent.
    pongs: VecDeque<(u64, u64)>,
    /// When the client sent the last sign of life whose arrival the server has confirmed.
    confirmed_ms: u64,
}

/// A session that its client has given up, and the server perhaps not yet.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) id: String,
    pub(super) lease_ms: u64,
    /// How long the tasks of the server had run by then.
    pub(super) since_ms: u64,
}

/// A web lock in a snapshot.
#[derive(Debug)]
struct Shown {
    name: String,
    mode: Mode,
    token: u64,
}

/// The agent of each session.
pub(super) const AGENT: u64 = 1;

/// A client acknowledges after so many numbered frames, if it sends nothing else.
const ACK_AFTER: u64 = 16;

impl Session {
    /// The client connects for the first time.
    pub(super) fn begin(life: &ServerLife, place: &Place, label: &str, random: &mut Random) -> Self {
        let mut session = Self {
            place: place.clone(),
            label: label.to_owned(),
            connection: None,
            known: None,
            attempts: 0,
            announced: Arc::default(),
            frames: VecDeque::new(),
            void: HashSet::new(),
            pages: Vec::new(),
        };
        session.connect_if_need_be(life, random);
        session
    }

    /// Connects, and asks for the session that it has, if it has one.
    pub(super) fn connect_if_need_be(&mut self, life: &ServerLife, random: &mut Random) {
        if self.connection.is_some() {
            return;
        }
        self.attempts += 1;
        let resume = self.known.as_ref().map(|known| Resume {
            session: known.id.clone().into(),
            secret: known.secret.clone().into(),
            received: known.received,
            attempt: Some(self.attempts),
        });
        if resume.is_some() {
            life.server.journal.count("web: connects again");
        }
        let hello = Hello { resume, ..Hello::default() };
        let hello = Envelope::new(ClientFrame::Hello(hello)).to_text();
        self.connection = Some(Connection::open(life, &self.place, &self.announced, hello, random));
    }

    /// Whether the server has welcomed the present connection.
    pub(super) fn is_open(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_welcomed)
    }

    /// Whether the session has begun.
    pub(super) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Whether the server has written something of weight that the client has not read.
    pub(super) fn has_unread(&self) -> bool {
        self.known.as_ref().is_some_and(|known| self.announced.seq() > known.received)
    }

    /// Past this the client ends the session itself; none before it has begun.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.known.as_ref().map(Known::deadline_ms)
    }

    /// Notes that this reclaim must be refused.
    pub(super) fn is_void(&mut self, tag: u64) {
        self.void.insert(tag);
    }

    /// Sends a numbered frame, now or with the next connection.
    pub(super) fn call(&mut self, call: ClientCall<'static>) {
        let Some(known) = &mut self.known else { return };
        known.seq += 1;
        known.unacknowledged.push_back((known.seq, call.clone()));
        let frame = ClientFrame::Numbered { seq: known.seq, call };
        if let Some(connection) = self.connection.as_mut().filter(|connection| connection.is_welcomed()) {
            known.since_ack = 0;
            connection.send(&Envelope { ack: known.received, frame });
        }
    }

    /// Asks for a snapshot; false if there is no connection for it.
    pub(super) fn query(&mut self, tag: u64) -> bool {
        let query = SnapshotQuery { id: tag, detail: true, name: None };
        let is_open = self.is_open();
        self.say(ClientFrame::Query(query));
        is_open
    }

    /// Ends the session, and with it all that it holds.
    pub(super) fn bye(&mut self) {
        self.say(ClientFrame::Bye);
    }

    fn say(&mut self, frame: ClientFrame<'_>) {
        if let Some(connection) = self.connection.as_mut().filter(|connection| connection.is_welcomed()) {
            connection.send(&Envelope::new(frame));
        }
    }

    /// Nothing passes between client and server, or everything does again.
    pub(super) fn set_stalled(&self, is_stalled: bool) {
        if let Some(connection) = &self.connection {
            connection.wire.set_stalled(is_stalled);
        }
    }

    /// The connection breaks off, and with it all that is on its way.
    pub(super) fn break_off(&mut self, how: Break, random: &mut Random) {
        if let Some(connection) = self.connection.take() {
            connection.wire.break_off(how, random);
        }
        self.pages.clear();
    }

    /// The connection is gone, with all that was on its way to the client.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
        self.pages.clear();
    }

    /// The client goes away.
    pub(super) fn abandon(self, life: &ServerLife) -> Option<Orphan> {
        let known = self.known.filter(|known| known.life == life.server.number)?;
        Some(Orphan { id: known.id, lease_ms: known.lease_ms, since_ms: life.ran_ms() })
    }

    /// A client that counts on its session has it.
    pub(super) fn is_missed(&self, life: &ServerLife) -> bool {
        let now = life.server.journal.now_ms();
        self.known.as_ref().is_some_and(|known| {
            known.life == life.server.number && now < known.deadline_ms() && !life.has_session(&known.id)
        })
    }

    /// Everything that has come.
    pub(super) fn read(&mut self, server: &ServerHandle) -> VecDeque<Frame> {
        while let Some(connection) = &mut self.connection {
            match connection.next(server.journal.now_ms()) {
                Input::Nothing => break,
                Input::Text(text) => match frames_of(&text) {
                    Ok(frames) => frames.into_iter().for_each(|frame| self.frame(server, frame)),
                    Err(problem) => server.strange(format!("a message that breaks the protocol: {problem}")),
                },
                Input::Closed => self.disconnect(),
            }
        }
        std::mem::take(&mut self.frames)
    }

    fn frame(&mut self, server: &ServerHandle, text: &str) {
        let Ok(Envelope { ack, frame }) = Envelope::<ServerFrame<'_>>::parse(text) else { return };
        if let Some(known) = &mut self.known {
            known.acknowledged(ack);
        }
        match frame {
            ServerFrame::Welcome(welcome) => self.welcome(server, welcome),
            ServerFrame::Numbered { seq, event } => self.numbered(server, seq, event),
            ServerFrame::Snapshot(page) => self.page(server, page),
            ServerFrame::Ping { n, answered } => self.ping(server, n, answered),
            ServerFrame::Fatal { code: FatalCode::LeaseExpired, .. } => {
                if self.deadline_ms().is_some_and(|deadline| server.journal.now_ms() < deadline) {
                    server.journal.breach("a lease was told as over, but its client counts on it");
                }
            }
            // The `hello` was on its way for too long.
            ServerFrame::Fatal { code: FatalCode::BadFrame, .. } if !self.is_open() => {
                server.journal.count("web: hello too late");
            }
            ServerFrame::Fatal { code, problem } => {
                server.strange(format!("a connection ends: {}: {problem}", code.word()));
            }
            ServerFrame::Ack | ServerFrame::Closing { .. } => {}
        }
    }

    fn welcome(&mut self, server: &ServerHandle, welcome: Welcome<'_>) {
        let Some(connection) = &mut self.connection else { return };
        let hello_ms = connection.is_welcomed_now();
        let now = server.journal.now_ms();
        if let Some(known) = self.known.as_mut().filter(|_| welcome.resumed) {
            server.journal.count("web: resumed");
            known.confirmed_ms = known.confirmed_ms.max(hello_ms);
            known.pongs.clear();
            known.acknowledged(welcome.received);
            for (seq, call) in known.unacknowledged.clone() {
                let frame = ClientFrame::Numbered { seq, call };
                connection.send(&Envelope { ack: known.received, frame });
            }
            return;
        }
        let until = self.deadline_ms();
        let was_here = self.known.as_ref().is_some_and(|known| known.life == server.number);
        if was_here && until.is_some_and(|until| now < until) {
            server.journal.breach("a session was not resumed, but its client counts on it");
        }
        if welcome.resumed {
            server.strange("a session was resumed that no client asked for");
        }
        self.void.clear();
        self.known = Some(Known {
            id: welcome.session.into_owned(),
            secret: welcome.secret.into_owned(),
            life: server.number,
            lease_ms: welcome.lease_ms,
            seq: 0,
            unacknowledged: VecDeque::new(),
            received: 0,
            since_ack: 0,
            pongs: VecDeque::new(),
            confirmed_ms: hello_ms,
        });
        self.call(ClientCall::Join { agent: AGENT, client_id: self.label.clone().into() });
        self.frames.push_back(Frame::Began { until });
    }

    /// A ping confirms pongs before it, and is answered.
    fn ping(&mut self, server: &ServerHandle, n: u64, answered: u64) {
        let (Some(known), Some(connection)) = (&mut self.known, &mut self.connection) else { return };
        while let Some((_, sent_ms)) = known.pongs.pop_front_if(|(of, _)| *of <= answered) {
            known.confirmed_ms = known.confirmed_ms.max(sent_ms);
        }
        known.pongs.push_back((n, server.journal.now_ms()));
        known.since_ack = 0;
        connection.send(&Envelope { ack: known.received, frame: ClientFrame::Pong { n } });
    }

    fn numbered(&mut self, server: &ServerHandle, seq: u64, event: ServerEvent<'_>) {
        let (Some(known), Some(connection)) = (&mut self.known, &mut self.connection) else { return };
        if seq != known.received + 1 {
            return server.strange(format!("frame {seq} came after frame {}", known.received));
        }
        known.received = seq;
        known.since_ack += 1;
        if known.since_ack >= ACK_AFTER {
            known.since_ack = 0;
            connection.send(&Envelope { ack: seq, frame: ClientFrame::Ack });
        }
        let frame = match event {
            ServerEvent::Granted { id: tag, token, ticket } => {
                if self.void.contains(&tag) {
                    return server
                        .journal
                        .breach(format!("token {token} was brought back with a void ticket"));
                }
                Frame::Granted { tag, token, ticket: ticket.map(Ticket::into_owned) }
            }
            ServerEvent::Refused { id: tag, .. } => Frame::Refused { tag, code: None },
            ServerEvent::Lost { id, .. } if self.void.remove(&id) => {
                return server.journal.count("web: void tickets refused");
            }
            ServerEvent::Lost { id: tag, reason, .. } => Frame::Lost { tag, reason },
            ServerEvent::Error { id: Some(tag), code, .. } if !self.void.contains(&tag) => {
                Frame::Refused { tag, code: Some(code) }
            }
            event => return server.strange(format!("{event:?}")),
        };
        self.frames.push_back(frame);
    }

    fn page(&mut self, server: &ServerHandle, page: SnapshotPage<'_>) {
        let SnapshotPage { id, held, more, .. } = page;
        let mut shown = match self.pages.iter().position(|(of, _)| *of == id) {
            Some(at) => self.pages.swap_remove(at).1,
            None => Vec::new(),
        };
        shown.extend(held.into_iter().filter_map(|entry| {
            let detail = entry.detail?;
            let lockhouse_wire::EntryPlace::Held(token) = detail.place else { return None };
            let name = entry.name.as_name().as_str()?.to_owned();
            let is_web = detail.kind == HolderKind::Web;
            is_web.then_some(Shown { name, mode: entry.mode, token: token.get() })
        }));
        if more {
            return self.pages.push((id, shown));
        }
        for (nth, one) in shown.iter().enumerate() {
            let excludes = |other: &Shown| {
                other.name == one.name && (one.mode, other.mode) != (Mode::Shared, Mode::Shared)
            };
            if shown[nth + 1..].iter().any(excludes) {
                server.journal.breach(format!("a snapshot shows two holders of {}", one.name));
            }
        }
        let tokens = shown.iter().map(|shown| shown.token).collect();
        self.frames.push_back(Frame::Snapshot { tag: id, tokens });
    }
}

impl Known {
    /// The end of the lease, as the client counts it.
    fn deadline_ms(&self) -> u64 {
        self.confirmed_ms + self.lease_ms * 9 / 10
    }

    fn acknowledged(&mut self, ack: u64) {
        while self.unacknowledged.pop_front_if(|(seq, _)| *seq <= ack).is_some() {}
    }
}
