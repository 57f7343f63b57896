//! The frames of a client.

mod usual;

use std::borrow::Cow;

use lockhouse_core::{Acquire, FencingToken, Mode, NameBuf};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::credential::Credential;
use crate::decode::{MODES, Violation};
use crate::fault::{BadClientFrame, ErrorCode, FrameProblem};
use crate::read::{self, NATURAL, POSITIVE, RawField, ReadResult, STRING, field, inner};
use crate::ticket::Ticket;
use crate::write::ObjectWriter;
use crate::{CLIENT_ID_BYTES, Envelope, LABEL_BYTES};

/// A frame from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame<'a> {
    /// The first frame of a connection.
    Hello(Hello<'a>),
    /// A frame that is sent again after a resume.
    Numbered {
        /// 1, 2, 3 … over the life of the session.
        seq: u64,
        /// The request.
        call: ClientCall<'a>,
    },
    /// One snapshot.
    Query(SnapshotQuery),
    /// A snapshot now and after each change.
    Watch(SnapshotQuery),
    /// The answer to a ping.
    Pong {
        /// The number of the ping.
        n: u64,
    },
    /// The acknowledgement in the envelope, and nothing else.
    Ack,
    /// The session is over.
    Bye,
}

/// The first frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello<'a> {
    /// A label for logs.
    pub client: Option<Cow<'a, str>>,
    /// The credential of the client, where the server requires one.
    pub credential: Option<Credential<'a>>,
    /// The session to resume.
    pub resume: Option<Resume<'a>>,
    /// Whether a server that drains may begin the session, too.
    pub while_draining: bool,
}

/// The session to resume, and its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume<'a> {
    /// Its id, from `welcome`.
    pub session: Cow<'a, str>,
    /// Its secret, from `welcome`.
    pub secret: Cow<'a, str>,
    /// The last numbered server frame that the client has processed.
    pub received: u64,
    /// Above that of each earlier `hello` with this session, so that one that arrives late takes the session
    /// from no newer connection. `None`: the client does not count them.
    pub attempt: Option<u64>,
}

/// The request of a numbered frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCall<'a> {
    /// An agent begins.
    Join {
        /// Its number, strictly growing over the session.
        agent: u64,
        /// Its label, at most [`CLIENT_ID_BYTES`].
        client_id: Cow<'a, str>,
    },
    /// An agent ends, its requests and locks with it.
    Leave {
        /// The agent.
        agent: u64,
    },
    /// A lock is requested.
    Request(WebLockRequest<'a>),
    /// A lock of an earlier epoch is to be held again.
    Reclaim(Reclaim<'a>),
    /// All that the client still holds of the session that its hello wanted to resume has been asked for.
    Reclaimed,
    /// A request leaves its queue, or a watch ends.
    Abort {
        /// The request.
        id: u64,
    },
    /// A lock is released.
    Release {
        /// The lock, by the request that it was granted to.
        id: u64,
        /// Whether `released` is to answer it.
        reply: bool,
    },
}

/// A lock request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebLockRequest<'a> {
    /// Its number, strictly growing over the session.
    pub id: u64,
    /// The agent of the request.
    pub agent: u64,
    /// The resource name.
    pub name: NameBuf,
    /// The way of the acquisition.
    pub acquire: Acquire,
    /// Shown to others.
    pub metadata: Option<Cow<'a, str>>,
    /// How long the lock is held at most, in milliseconds.
    pub max_hold_ms: Option<u64>,
}

/// A lock that was granted in an earlier life of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaim<'a> {
    /// Its number, strictly growing over the session, and not its former number.
    pub id: u64,
    /// The agent of the request.
    pub agent: u64,
    /// The resource name.
    pub name: NameBuf,
    /// The mode of the lock.
    pub mode: Mode,
    /// The token of its grant.
    pub token: FencingToken,
    /// The ticket that came with the grant.
    pub ticket: Ticket<'a>,
    /// Shown to others.
    pub metadata: Option<Cow<'a, str>>,
    /// How long the lock is held at most from now on, in milliseconds.
    pub max_hold_ms: Option<u64>,
}

/// The subject of a query or a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotQuery {
    /// Its number, shared with those of requests.
    pub id: u64,
    /// Whether entries come with all details.
    pub detail: bool,
    /// Only this name.
    pub name: Option<NameBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFrame<'a> {
    #[serde(borrow, rename = "type")]
    kind: RawField<'a>,
    #[serde(borrow)]
    seq: RawField<'a>,
    #[serde(borrow)]
    ack: RawField<'a>,
    #[serde(borrow)]
    id: RawField<'a>,
    #[serde(borrow)]
    agent: RawField<'a>,
    #[serde(borrow)]
    name: RawField<'a>,
    #[serde(borrow)]
    mode: RawField<'a>,
    #[serde(borrow)]
    if_available: RawField<'a>,
    #[serde(borrow)]
    steal: RawField<'a>,
    #[serde(borrow)]
    token: RawField<'a>,
    #[serde(borrow)]
    ticket: RawField<'a>,
    #[serde(borrow)]
    metadata: RawField<'a>,
    #[serde(borrow)]
    max_hold_ms: RawField<'a>,
    #[serde(borrow)]
    reply: RawField<'a>,
    #[serde(borrow)]
    client_id: RawField<'a>,
    #[serde(borrow)]
    n: RawField<'a>,
    #[serde(borrow)]
    detail: RawField<'a>,
    #[serde(borrow)]
    client: RawField<'a>,
    #[serde(borrow)]
    credential: RawField<'a>,
    #[serde(borrow)]
    resume: RawField<'a>,
    #[serde(borrow)]
    while_draining: RawField<'a>,
}

#[derive(Deserialize)]
struct RawResume<'a> {
    #[serde(borrow)]
    session: RawField<'a>,
    #[serde(borrow)]
    secret: RawField<'a>,
    #[serde(borrow)]
    received: RawField<'a>,
    #[serde(borrow)]
    attempt: RawField<'a>,
}

impl<'a> Envelope<ClientFrame<'a>> {
    /// Reads the text of a message.
    ///
    /// # Errors
    ///
    /// [`BadClientFrame`], with the code, the field, the value and the rule.
    pub fn parse(text: &'a str) -> Result<Self, BadClientFrame> {
        usual::read(text).map_or_else(|| Self::parse_any(text), Ok)
    }

    fn parse_any(text: &'a str) -> Result<Self, BadClientFrame> {
        let raw: RawFrame<'a> = read::object(text).map_err(BadClientFrame::Fatal)?;
        let kind = field("type", raw.kind).text(&STRING).map_err(BadClientFrame::fatal)?;
        let ack = match &*kind {
            "ack" => field("ack", raw.ack).number(&NATURAL),
            _ => field("ack", raw.ack).number_if_any(&NATURAL).map(Option::unwrap_or_default),
        }
        .map_err(BadClientFrame::fatal)?;
        let frame = match &*kind {
            "join" | "leave" | "request" | "reclaim" | "reclaimed" | "abort" | "release" => {
                raw.numbered(&kind, ack)?
            }
            "hello" => ClientFrame::Hello(raw.hello().map_err(BadClientFrame::Fatal)?),
            "query" => ClientFrame::Query(raw.look().map_err(|fault| raw.answered(ack, None, fault))?),
            "watch" => ClientFrame::Watch(raw.look().map_err(|fault| raw.answered(ack, None, fault))?),
            "pong" => {
                let n = field("n", raw.n)
                    .number(&POSITIVE)
                    .map_err(|fault| raw.answered(ack, None, fault.into()))?;
                ClientFrame::Pong { n }
            }
            "ack" => ClientFrame::Ack,
            "bye" => ClientFrame::Bye,
            _ => return Err(raw.unknown(ack)),
        };
        Ok(Self { ack, frame })
    }

    /// The text of a message.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(128);
        self.write(&mut text);
        text
    }

    /// Writes the text of a message to the end of `out`.
    pub fn write(&self, out: &mut String) {
        let unnumbered = |out, kind| ObjectWriter::frame(out, kind, None, self.ack);
        match &self.frame {
            ClientFrame::Hello(hello) => hello.write(unnumbered(out, "hello")),
            ClientFrame::Numbered { seq, call } => call.write(out, *seq, self.ack),
            ClientFrame::Query(look) => look.write(unnumbered(out, "query")),
            ClientFrame::Watch(look) => look.write(unnumbered(out, "watch")),
            ClientFrame::Pong { n } => {
                let mut object = unnumbered(out, "pong");
                object.number("n", *n);
                object.end();
            }
            ClientFrame::Ack => {
                let mut object = ObjectWriter::frame(out, "ack", None, 0);
                object.number("ack", self.ack);
                object.end();
            }
            ClientFrame::Bye => unnumbered(out, "bye").end(),
        }
    }
}

/// The problem of a field, and its error code.
struct Fault {
    code: ErrorCode,
    problem: FrameProblem<'static>,
}

impl Fault {
    fn new(code: ErrorCode, problem: impl Into<FrameProblem<'static>>) -> Self {
        Self { code, problem: problem.into() }
    }
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self::new(ErrorCode::BadFrame, violation)
    }
}

impl From<FrameProblem<'static>> for Fault {
    fn from(problem: FrameProblem<'static>) -> Self {
        Self::new(ErrorCode::BadFrame, problem)
    }
}

impl BadClientFrame {
    fn fatal(violation: Violation) -> Self {
        Self::Fatal(violation.into())
    }
}

impl<'a> RawFrame<'a> {
    fn numbered(&self, kind: &str, ack: u64) -> Result<ClientFrame<'a>, BadClientFrame> {
        let seq = field("seq", self.seq).number(&POSITIVE).map_err(BadClientFrame::fatal)?;
        let call = match kind {
            "join" => self.join(),
            "leave" => field("agent", self.agent)
                .number(&POSITIVE)
                .map(|agent| ClientCall::Leave { agent })
                .map_err(Fault::from),
            "request" => self.request().map(ClientCall::Request),
            "reclaim" => self.reclaim().map(ClientCall::Reclaim),
            "reclaimed" => Ok(ClientCall::Reclaimed),
            "abort" => {
                field("id", self.id).number(&POSITIVE).map(|id| ClientCall::Abort { id }).map_err(Fault::from)
            }
            _ => self.release().map_err(Fault::from),
        };
        match call {
            Ok(call) => Ok(ClientFrame::Numbered { seq, call }),
            Err(fault) => Err(self.answered(ack, Some(seq), fault)),
        }
    }

    fn answered(&self, ack: u64, seq: Option<u64>, fault: Fault) -> BadClientFrame {
        let id = field("id", self.id).number(&POSITIVE).ok();
        BadClientFrame::Answered { ack, seq, id, code: fault.code, problem: Box::new(fault.problem) }
    }

    fn unknown(&self, ack: u64) -> BadClientFrame {
        let seq = match field("seq", self.seq).number_if_any(&POSITIVE) {
            Ok(seq) => seq,
            Err(violation) => return BadClientFrame::fatal(violation),
        };
        let value = self.kind.map_or("absent", RawValue::get);
        let problem =
            FrameProblem::with_value("type", value, "a frame type of lockhouse.v1 that clients send");
        self.answered(ack, seq, Fault::new(ErrorCode::UnknownType, problem))
    }

    fn hello(&self) -> ReadResult<Hello<'a>> {
        let client = field("client", self.client).text_if_any(&STRING)?;
        if let Some(label) = &client
            && label.len() > LABEL_BYTES
        {
            return Err(FrameProblem::with_value("client", &bytes(label.len()), at_most_bytes(LABEL_BYTES)));
        }
        let credential = Credential::read_if_any(self.credential)?;
        let while_draining = field("whileDraining", self.while_draining).flag_or_false()?;
        Ok(Hello { client, credential, resume: self.resume.map(resume).transpose()?, while_draining })
    }

    fn join(&self) -> Result<ClientCall<'a>, Fault> {
        let agent = field("agent", self.agent).number(&POSITIVE)?;
        let client_id = field("clientId", self.client_id).text(&STRING)?;
        if client_id.len() > CLIENT_ID_BYTES {
            let problem =
                FrameProblem::with_value("clientId", &bytes(client_id.len()), at_most_bytes(CLIENT_ID_BYTES));
            return Err(Fault::new(ErrorCode::QuotaExceeded, problem));
        }
        Ok(ClientCall::Join { agent, client_id })
    }

    fn request(&self) -> Result<WebLockRequest<'a>, Fault> {
        let id = field("id", self.id).number(&POSITIVE)?;
        let agent = field("agent", self.agent).number(&POSITIVE)?;
        let name = read::name(field("name", self.name))?;
        let mode = self.mode_or_exclusive()?;
        let if_available = field("ifAvailable", self.if_available).flag_or_false()?;
        let steal = field("steal", self.steal).flag_or_false()?;
        let metadata = field("metadata", self.metadata).text_if_any(&STRING)?;
        let max_hold_ms = field("maxHoldMs", self.max_hold_ms).number_if_any(&POSITIVE)?;
        // From here on the order is that of the specification's checks.
        let name = name.map_err(|problem| Fault::new(ErrorCode::NotSupported, problem))?;
        let acquire = acquire(mode, if_available, steal)?;
        Ok(WebLockRequest { id, agent, name, acquire, metadata, max_hold_ms })
    }

    fn reclaim(&self) -> Result<Reclaim<'a>, Fault> {
        let id = field("id", self.id).number(&POSITIVE)?;
        let agent = field("agent", self.agent).number(&POSITIVE)?;
        let name = read::name(field("name", self.name))?;
        let mode = self.mode_or_exclusive()?;
        let token = read::token(field("token", self.token))?;
        let ticket = Ticket::read(self.ticket)?;
        let metadata = field("metadata", self.metadata).text_if_any(&STRING)?;
        let max_hold_ms = field("maxHoldMs", self.max_hold_ms).number_if_any(&POSITIVE)?;
        let name = name.map_err(|problem| Fault::new(ErrorCode::NotSupported, problem))?;
        Ok(Reclaim { id, agent, name, mode, token, ticket, metadata, max_hold_ms })
    }

    fn mode_or_exclusive(&self) -> ReadResult<Mode> {
        let mode = field("mode", self.mode).if_any(|mode| mode.choice(&MODES))?;
        Ok(mode.unwrap_or(Mode::Exclusive))
    }

    fn release(&self) -> ReadResult<ClientCall<'a>> {
        Ok(ClientCall::Release {
            id: field("id", self.id).number(&POSITIVE)?,
            reply: field("reply", self.reply).flag_or_false()?,
        })
    }

    fn look(&self) -> Result<SnapshotQuery, Fault> {
        let id = field("id", self.id).number(&POSITIVE)?;
        let detail = field("detail", self.detail).flag_or_false()?;
        let name = field("name", self.name).if_any(read::name)?.transpose();
        let name = name.map_err(|problem| Fault::new(ErrorCode::NotSupported, problem))?;
        Ok(SnapshotQuery { id, detail, name })
    }
}

fn acquire(mode: Mode, if_available: bool, steal: bool) -> Result<Acquire, Fault> {
    let refuse = |rule: &'static str| {
        Err(Fault::new(ErrorCode::NotSupported, FrameProblem::with_value("steal", "true", rule)))
    };
    match (steal, if_available, mode) {
        (false, false, mode) => Ok(Acquire::Wait(mode)),
        (false, true, mode) => Ok(Acquire::IfAvailable(mode)),
        (true, false, Mode::Exclusive) => Ok(Acquire::Steal),
        (true, true, _) => refuse("without ifAvailable"),
        (true, false, Mode::Shared) => refuse("with mode \"exclusive\""),
    }
}

fn resume(raw: &RawValue) -> ReadResult<Resume<'_>> {
    let Ok(parts) = read::object::<RawResume<'_>>(raw.get()) else {
        return Err(FrameProblem::with_field("resume", "an object with session, secret and received"));
    };
    Ok(Resume {
        session: inner("resume", "session", parts.session).text(&STRING)?,
        secret: inner("resume", "secret", parts.secret).secret().text(&STRING)?,
        received: inner("resume", "received", parts.received).number(&NATURAL)?,
        attempt: inner("resume", "attempt", parts.attempt).number_if_any(&POSITIVE)?,
    })
}

fn bytes(count: usize) -> String {
    format!("{count} bytes")
}

fn at_most_bytes(count: usize) -> String {
    format!("at most {count} bytes")
}

impl Hello<'_> {
    fn write(&self, mut object: ObjectWriter<'_>) {
        object.text_if_any("client", self.client.as_deref());
        object.text_if_any("credential", self.credential.as_ref().map(Credential::as_str));
        if let Some(resume) = &self.resume {
            let mut inner = ObjectWriter::begin(object.key("resume"));
            inner.text("session", &resume.session);
            inner.text("secret", &resume.secret);
            inner.number("received", resume.received);
            inner.number_if_any("attempt", resume.attempt);
            inner.end();
        }
        object.flag_if_set("whileDraining", self.while_draining);
        object.end();
    }
}

impl ClientCall<'_> {
    fn write(&self, out: &mut String, seq: u64, ack: u64) {
        let numbered = |out, kind| ObjectWriter::frame(out, kind, Some(seq), ack);
        let object = match self {
            Self::Join { agent, client_id } => {
                let mut object = numbered(out, "join");
                object.number("agent", *agent);
                object.text("clientId", client_id);
                object
            }
            Self::Leave { agent } => {
                let mut object = numbered(out, "leave");
                object.number("agent", *agent);
                object
            }
            Self::Request(ask) => ask.write(numbered(out, "request")),
            Self::Reclaim(reclaim) => reclaim.write(numbered(out, "reclaim")),
            Self::Reclaimed => numbered(out, "reclaimed"),
            Self::Abort { id } => {
                let mut object = numbered(out, "abort");
                object.number("id", *id);
                object
            }
            Self::Release { id, reply } => {
                let mut object = numbered(out, "release");
                object.number("id", *id);
                object.flag_if_set("reply", *reply);
                object
            }
        };
        object.end();
    }
}

impl WebLockRequest<'_> {
    fn write<'o>(&self, mut object: ObjectWriter<'o>) -> ObjectWriter<'o> {
        object.number("id", self.id);
        object.number("agent", self.agent);
        object.name("name", self.name.as_name());
        if self.acquire.mode() == Mode::Shared {
            object.word("mode", "shared");
        }
        object.flag_if_set("ifAvailable", matches!(self.acquire, Acquire::IfAvailable(_)));
        object.flag_if_set("steal", self.acquire == Acquire::Steal);
        object.text_if_any("metadata", self.metadata.as_deref());
        object.number_if_any("maxHoldMs", self.max_hold_ms);
        object
    }
}

impl Reclaim<'_> {
    fn write<'o>(&self, mut object: ObjectWriter<'o>) -> ObjectWriter<'o> {
        object.number("id", self.id);
        object.number("agent", self.agent);
        object.name("name", self.name.as_name());
        if self.mode == Mode::Shared {
            object.word("mode", "shared");
        }
        object.number("token", self.token.get());
        object.text("ticket", self.ticket.as_str());
        object.text_if_any("metadata", self.metadata.as_deref());
        object.number_if_any("maxHoldMs", self.max_hold_ms);
        object
    }
}

impl SnapshotQuery {
    fn write(&self, mut object: ObjectWriter<'_>) {
        object.number("id", self.id);
        object.flag_if_set("detail", self.detail);
        if let Some(name) = &self.name {
            object.name("name", name.as_name());
        }
        object.end();
    }
}
