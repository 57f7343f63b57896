//! What a server sends.

use std::borrow::Cow;

use lockhouse_core::{FencingToken, Mode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Envelope;
use crate::fault::{BadServerFrame, ErrorCode, FatalCode, FrameProblem};
use crate::holder::{HolderView, RawHolder};
use crate::read::{self, RawField, ReadResult};
use crate::snapshot::SnapshotPage;
use crate::ticket::Ticket;
use crate::write::ObjectWriter;

/// A frame from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerFrame<'a> {
    /// The answer to `hello`.
    Welcome(Welcome<'a>),
    /// A frame that is sent again after a resume.
    Numbered {
        /// 1, 2, 3 … over the life of the session.
        seq: u64,
        /// What happened.
        event: ServerEvent<'a>,
    },
    /// A part of what is held and pending.
    Snapshot(SnapshotPage<'a>),
    /// To be answered by a pong, at once.
    Ping {
        /// 1, 2, 3 … over the life of the session.
        n: u64,
        /// The highest ping whose pong has come; 0: none.
        answered: u64,
    },
    /// Nothing but the acknowledgement in the envelope.
    Ack,
    /// The connection is closed right after.
    Fatal {
        /// Why.
        code: FatalCode,
        /// What is wrong.
        problem: FrameProblem<'a>,
    },
    /// The server stops: nothing is granted any more.
    Closing,
}

/// The answer to `hello`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome<'a> {
    /// Name and version of the server, for logs.
    pub server: Cow<'a, str>,
    /// Names one life of the server.
    pub epoch: Cow<'a, str>,
    /// Names the session.
    pub session: Cow<'a, str>,
    /// What a resume must present.
    pub secret: Cow<'a, str>,
    /// Whether the session asked for goes on.
    pub resumed: bool,
    /// The last numbered client frame that the server has processed.
    pub received: u64,
    /// Whether locks of an earlier epoch may be reclaimed.
    pub reclaims: bool,
    /// For how long at most the bucket still waits for those who do, in milliseconds; 0: it does not wait.
    pub recovering_ms: u64,
    /// For how long the credential is still good, in milliseconds; none: without an end.
    pub credential_ms: Option<u64>,
    /// How long agents live without a pong, in milliseconds.
    pub lease_ms: u64,
    /// How often the server pings, in milliseconds.
    pub heartbeat_ms: u64,
    /// What the server takes on.
    pub limits: WireLimits,
}

/// What a server takes on from one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// Bytes of a frame.
    pub frame_bytes: u64,
    /// 16-bit units of a name.
    pub name_units: u64,
    /// Bytes of the metadata of a request.
    pub metadata_bytes: u64,
    /// Agents of a session at once.
    pub agents: u64,
    /// Requests and locks of an agent at once.
    pub requests_per_agent: u64,
}

/// What a numbered frame tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent<'a> {
    /// The lock is held.
    Granted {
        /// The request, now the lock.
        id: u64,
        /// The fencing token.
        token: FencingToken,
        /// What proves the grant to a later epoch, where locks can be reclaimed.
        ticket: Option<Ticket<'a>>,
    },
    /// An ifAvailable request could not be granted at once.
    Refused {
        /// The request.
        id: u64,
        /// The first of those who hold the name.
        holders: Vec<HolderView<'a>>,
        /// How many wait for the name.
        queued: u64,
    },
    /// The answer to a release.
    Released {
        /// The lock.
        id: u64,
        /// Whether it was still held.
        held: bool,
    },
    /// A lock is not held any more, without its holder's doing.
    Lost {
        /// The lock.
        id: u64,
        /// Why.
        reason: LostReason,
    },
    /// An agent has ended, its requests and locks with it, without its client's doing.
    Ended {
        /// Which.
        agent: u64,
        /// Why.
        reason: EndedReason,
    },
    /// A frame was wrong, or refused.
    Error {
        /// The request, query or watch that has ended with it.
        id: Option<u64>,
        /// What kind of error.
        code: ErrorCode,
        /// When it may be worth to ask again, in milliseconds; none: not before the client does something
        /// about it.
        retry_after_ms: Option<u64>,
        /// What is wrong.
        problem: FrameProblem<'a>,
    },
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    /// Another request stole the name.
    Stolen,
    /// It was held for its `maxHoldMs`.
    Expired,
    /// An operator broke it.
    Broken,
    /// It could not be reclaimed, or gave way to a reclaim with a higher token.
    Superseded,
}

/// Why an agent was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndedReason {
    /// Its lease ran out.
    Expired,
    /// An operator ended it.
    Broken,
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
    token: RawField<'a>,
    #[serde(borrow)]
    ticket: RawField<'a>,
    #[serde(borrow)]
    held: RawField<'a>,
    #[serde(borrow)]
    reason: RawField<'a>,
    #[serde(borrow)]
    n: RawField<'a>,
    #[serde(borrow)]
    answered: RawField<'a>,
    #[serde(borrow)]
    holders: RawField<'a>,
    #[serde(borrow)]
    queued: RawField<'a>,
    #[serde(borrow)]
    agent: RawField<'a>,
    #[serde(borrow)]
    pending: RawField<'a>,
    #[serde(borrow)]
    more: RawField<'a>,
    #[serde(borrow)]
    code: RawField<'a>,
    #[serde(borrow)]
    retry_after_ms: RawField<'a>,
    #[serde(borrow)]
    field: RawField<'a>,
    #[serde(borrow)]
    value: RawField<'a>,
    #[serde(borrow)]
    rule: RawField<'a>,
    #[serde(borrow)]
    message: RawField<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawWelcome<'a> {
    #[serde(borrow)]
    server: RawField<'a>,
    #[serde(borrow)]
    epoch: RawField<'a>,
    #[serde(borrow)]
    session: RawField<'a>,
    #[serde(borrow)]
    secret: RawField<'a>,
    #[serde(borrow)]
    resumed: RawField<'a>,
    #[serde(borrow)]
    received: RawField<'a>,
    #[serde(borrow)]
    reclaims: RawField<'a>,
    #[serde(borrow)]
    recovering_ms: RawField<'a>,
    #[serde(borrow)]
    credential_ms: RawField<'a>,
    #[serde(borrow)]
    lease_ms: RawField<'a>,
    #[serde(borrow)]
    heartbeat_ms: RawField<'a>,
    #[serde(borrow)]
    limits: RawField<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLimits<'a> {
    #[serde(borrow)]
    frame_bytes: RawField<'a>,
    #[serde(borrow)]
    name_units: RawField<'a>,
    #[serde(borrow)]
    metadata_bytes: RawField<'a>,
    #[serde(borrow)]
    agents: RawField<'a>,
    #[serde(borrow)]
    requests_per_agent: RawField<'a>,
}

impl<'a> Envelope<ServerFrame<'a>> {
    /// Reads the text of a message.
    ///
    /// # Errors
    ///
    /// [`BadServerFrame`], with the field, the value and the rule.
    pub fn parse(text: &'a str) -> Result<Self, BadServerFrame> {
        read::object::<RawFrame<'a>>(text).and_then(|raw| raw.envelope(text)).map_err(BadServerFrame)
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
            ServerFrame::Welcome(welcome) => welcome.write(unnumbered(out, "welcome")),
            ServerFrame::Numbered { seq, event } => event.write(out, *seq, self.ack),
            ServerFrame::Snapshot(page) => page.write(unnumbered(out, "snapshot")),
            ServerFrame::Ping { n, answered } => {
                let mut object = unnumbered(out, "ping");
                object.number("n", *n);
                object.number("answered", *answered);
                object.end();
            }
            ServerFrame::Ack => {
                let mut object = ObjectWriter::frame(out, "ack", None, 0);
                object.number("ack", self.ack);
                object.end();
            }
            ServerFrame::Fatal { code, problem } => {
                let mut object = unnumbered(out, "fatal");
                object.word("code", code.word());
                problem.write(object);
            }
            ServerFrame::Closing => {
                let mut object = unnumbered(out, "closing");
                object.word("reason", "shutdown");
                object.end();
            }
        }
    }
}

impl<'a> RawFrame<'a> {
    fn envelope(&self, text: &'a str) -> ReadResult<Envelope<ServerFrame<'a>>> {
        let kind = read::text("type", self.kind)?;
        let frame = match &*kind {
            "granted" => self.numbered(self.granted()?),
            "refused" => self.numbered(self.refused()?),
            "released" => {
                self.numbered(ServerEvent::Released { id: self.id()?, held: read::flag("held", self.held)? })
            }
            "lost" => self.numbered(ServerEvent::Lost { id: self.id()?, reason: self.lost_reason()? }),
            "ended" => {
                let agent = read::positive("agent", self.agent)?;
                self.numbered(ServerEvent::Ended { agent, reason: self.ended_reason()? })
            }
            "error" => self.numbered(self.error()?),
            "welcome" => welcome(text).map(ServerFrame::Welcome),
            "snapshot" => {
                SnapshotPage::read(self.id()?, self.held, self.pending, self.more).map(ServerFrame::Snapshot)
            }
            "ping" => Ok(ServerFrame::Ping {
                n: read::positive("n", self.n)?,
                answered: read::natural("answered", self.answered)?,
            }),
            "ack" => {
                let ack = read::natural("ack", self.ack)?;
                return Ok(Envelope { ack, frame: ServerFrame::Ack });
            }
            "fatal" => self.fatal(),
            "closing" => Ok(ServerFrame::Closing),
            _ => {
                Err(FrameProblem::with_value("type", &kind, "a frame type of lockhouse.v1 that servers send"))
            }
        };
        Ok(Envelope { ack: read::natural_or("ack", self.ack, 0)?, frame: frame? })
    }

    fn id(&self) -> ReadResult<u64> {
        read::positive("id", self.id)
    }

    fn numbered(&self, event: ServerEvent<'a>) -> ReadResult<ServerFrame<'a>> {
        Ok(ServerFrame::Numbered { seq: read::positive("seq", self.seq)?, event })
    }

    fn granted(&self) -> ReadResult<ServerEvent<'a>> {
        let token = read::token("token", self.token)?;
        let ticket = self.ticket.map(|_| Ticket::read(self.ticket)).transpose()?;
        Ok(ServerEvent::Granted { id: self.id()?, token, ticket })
    }

    fn refused(&self) -> ReadResult<ServerEvent<'a>> {
        self.one_of("reason", self.reason, &[("unavailable", ())])?;
        let holders: Vec<RawHolder<'a>> = list("holders", self.holders)?;
        let holders = holders.iter().map(RawHolder::view).collect::<ReadResult<_>>()?;
        Ok(ServerEvent::Refused { id: self.id()?, holders, queued: read::natural("queued", self.queued)? })
    }

    fn lost_reason(&self) -> ReadResult<LostReason> {
        let reasons = [LostReason::Stolen, LostReason::Expired, LostReason::Broken, LostReason::Superseded];
        self.one_of("reason", self.reason, &reasons.map(|reason| (reason.word(), reason)))
    }

    fn ended_reason(&self) -> ReadResult<EndedReason> {
        let reasons = [EndedReason::Expired, EndedReason::Broken];
        self.one_of("reason", self.reason, &reasons.map(|reason| (reason.word(), reason)))
    }

    fn one_of<T: Copy>(&self, key: &'static str, field: RawField<'a>, known: &[(&str, T)]) -> ReadResult<T> {
        let word = read::text(key, field)?;
        let found = known.iter().find(|(known, _)| *known == &*word);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| FrameProblem::with_value(key, &word, "a word of lockhouse.v1"))
    }

    fn error(&self) -> ReadResult<ServerEvent<'a>> {
        let id = read::positive_if_any("id", self.id)?;
        let code = ErrorCode::from_word(&read::text("code", self.code)?);
        let retry_after_ms = read::positive_if_any("retryAfterMs", self.retry_after_ms)?;
        Ok(ServerEvent::Error { id, code, retry_after_ms, problem: self.problem()? })
    }

    fn fatal(&self) -> ReadResult<ServerFrame<'a>> {
        let word = read::text("code", self.code)?;
        let code = FatalCode::from_word(&word)
            .ok_or_else(|| FrameProblem::with_value("code", &word, "a fatal code of lockhouse.v1"))?;
        Ok(ServerFrame::Fatal { code, problem: self.problem()? })
    }

    fn problem(&self) -> ReadResult<FrameProblem<'a>> {
        Ok(FrameProblem {
            field: read::text_if_any("field", self.field)?,
            value: read::text_if_any("value", self.value)?,
            rule: read::text_if_any("rule", self.rule)?,
            message: read::text("message", self.message)?,
        })
    }
}

/// A list of objects.
pub(super) fn list<'a, T: Deserialize<'a>>(key: &'static str, field: RawField<'a>) -> ReadResult<Vec<T>> {
    let raw = read::needed(key, field, "a list of objects")?;
    serde_json::from_str(raw.get()).map_err(|_| FrameProblem::with_value(key, raw.get(), "a list of objects"))
}

/// Read apart from the rest, so that the frames that come all the time have fewer keys to look for.
fn welcome(text: &str) -> ReadResult<Welcome<'_>> {
    let raw: RawWelcome<'_> = read::object(text)?;
    let limits = read::needed("limits", raw.limits, "an object")?;
    Ok(Welcome {
        server: read::text("server", raw.server)?,
        epoch: read::text("epoch", raw.epoch)?,
        session: read::text("session", raw.session)?,
        secret: read::secret("secret", raw.secret)?,
        resumed: read::flag("resumed", raw.resumed)?,
        received: read::natural("received", raw.received)?,
        reclaims: read::flag_or_false("reclaims", raw.reclaims)?,
        recovering_ms: read::natural_or("recoveringMs", raw.recovering_ms, 0)?,
        credential_ms: read::natural_if_any("credentialMs", raw.credential_ms)?,
        lease_ms: read::positive("leaseMs", raw.lease_ms)?,
        heartbeat_ms: read::positive("heartbeatMs", raw.heartbeat_ms)?,
        limits: WireLimits::read(limits)?,
    })
}

impl WireLimits {
    fn read(raw: &RawValue) -> ReadResult<Self> {
        let Ok(raw) = read::object::<RawLimits<'_>>(raw.get()) else {
            return Err(FrameProblem::with_value(
                "limits",
                raw.get(),
                "an object in which no key stands twice",
            ));
        };
        Ok(Self {
            frame_bytes: read::natural("limits.frameBytes", raw.frame_bytes)?,
            name_units: read::natural("limits.nameUnits", raw.name_units)?,
            metadata_bytes: read::natural("limits.metadataBytes", raw.metadata_bytes)?,
            agents: read::natural("limits.agents", raw.agents)?,
            requests_per_agent: read::natural("limits.requestsPerAgent", raw.requests_per_agent)?,
        })
    }

    fn write(self, mut object: ObjectWriter<'_>) {
        object.number("frameBytes", self.frame_bytes);
        object.number("nameUnits", self.name_units);
        object.number("metadataBytes", self.metadata_bytes);
        object.number("agents", self.agents);
        object.number("requestsPerAgent", self.requests_per_agent);
        object.end();
    }
}

impl Welcome<'_> {
    fn write(&self, mut object: ObjectWriter<'_>) {
        object.text("server", &self.server);
        object.text("epoch", &self.epoch);
        object.text("session", &self.session);
        object.text("secret", &self.secret);
        object.flag("resumed", self.resumed);
        object.number("received", self.received);
        object.flag("reclaims", self.reclaims);
        object.number("recoveringMs", self.recovering_ms);
        object.number_if_any("credentialMs", self.credential_ms);
        object.number("leaseMs", self.lease_ms);
        object.number("heartbeatMs", self.heartbeat_ms);
        self.limits.write(ObjectWriter::begin(object.key("limits")));
        object.end();
    }
}

impl ServerEvent<'_> {
    fn write(&self, out: &mut String, seq: u64, ack: u64) {
        let numbered = |out, kind, id| {
            let mut object = ObjectWriter::frame(out, kind, Some(seq), ack);
            object.number_if_any("id", id);
            object
        };
        let object = match self {
            Self::Granted { id, token, ticket } => {
                let mut object = numbered(out, "granted", Some(*id));
                object.number("token", token.get());
                object.text_if_any("ticket", ticket.as_ref().map(Ticket::as_str));
                object
            }
            Self::Refused { id, holders, queued } => {
                let mut object = numbered(out, "refused", Some(*id));
                object.word("reason", "unavailable");
                write_list(object.key("holders"), holders, HolderView::write);
                object.number("queued", *queued);
                object
            }
            Self::Released { id, held } => {
                let mut object = numbered(out, "released", Some(*id));
                object.flag("held", *held);
                object
            }
            Self::Lost { id, reason } => {
                let mut object = numbered(out, "lost", Some(*id));
                object.word("reason", reason.word());
                object
            }
            Self::Ended { agent, reason } => {
                let mut object = numbered(out, "ended", None);
                object.number("agent", *agent);
                object.word("reason", reason.word());
                object
            }
            Self::Error { id, code, retry_after_ms, problem } => {
                let mut object = numbered(out, "error", *id);
                object.word("code", code.word());
                object.number_if_any("retryAfterMs", *retry_after_ms);
                return problem.write(object);
            }
        };
        object.end();
    }
}

impl FrameProblem<'_> {
    fn write(&self, mut object: ObjectWriter<'_>) {
        object.text_if_any("field", self.field.as_deref());
        object.text_if_any("value", self.value.as_deref());
        object.text_if_any("rule", self.rule.as_deref());
        object.text("message", &self.message);
        object.end();
    }
}

impl LostReason {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stolen => "stolen",
            Self::Expired => "expired",
            Self::Broken => "broken",
            Self::Superseded => "superseded",
        }
    }
}

impl EndedReason {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Broken => "broken",
        }
    }
}

pub(super) fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

pub(super) fn write_list<T>(out: &mut String, items: &[T], write: impl Fn(&T, ObjectWriter<'_>)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index != 0 {
            out.push(',');
        }
        write(item, ObjectWriter::begin(out));
    }
    out.push(']');
}
