//! The frames of a server.

use std::borrow::Cow;

use lockhouse_core::{FencingToken, Mode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Envelope;
use crate::decode::Violation;
use crate::fault::{BadServerFrame, ErrorCode, FatalCode, FrameProblem};
use crate::holder::{HolderView, RawHolder};
use crate::read::{self, FrameField, NATURAL, POSITIVE, RawField, ReadResult, STRING, field, inner};
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
        /// The event.
        event: ServerEvent<'a>,
    },
    /// A part of the held locks and pending requests.
    Snapshot(SnapshotPage<'a>),
    /// To be answered by a pong, at once.
    Ping {
        /// 1, 2, 3 … over the life of the session.
        n: u64,
        /// The highest ping whose pong has come; 0: none.
        answered: u64,
    },
    /// The acknowledgement in the envelope, and nothing else.
    Ack,
    /// The connection is closed right after.
    Fatal {
        /// Why.
        code: FatalCode,
        /// The problem.
        problem: FrameProblem<'a>,
    },
    /// The server stops, or the bucket moves to another one: nothing is granted any more.
    Closing {
        /// How long the client waits before it connects again, once the connection is closed: so the crowd of
        /// clients is spread. None if it has its own pause.
        pause_ms: Option<u64>,
    },
}

/// The answer to `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Welcome<'a> {
    /// Name and version of the server, for logs.
    pub server: Cow<'a, str>,
    /// Names one life of the server.
    pub epoch: Cow<'a, str>,
    /// Names the session.
    pub session: Cow<'a, str>,
    /// The secret that a resume must present.
    pub secret: Cow<'a, str>,
    /// Whether the requested session was resumed.
    pub resumed: bool,
    /// The last numbered client frame that the server has processed.
    pub received: u64,
    /// Whether locks of an earlier epoch may be reclaimed.
    pub reclaims: bool,
    /// How long the bucket still waits for reclaims at most, in milliseconds; 0: it does not wait.
    pub recovering_ms: u64,
    /// How long the credential is still valid, in milliseconds; none: without an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_ms: Option<u64>,
    /// How long agents live without a pong, in milliseconds.
    pub lease_ms: u64,
    /// How often the server pings, in milliseconds.
    pub heartbeat_ms: u64,
    /// The bounds of the server.
    pub limits: WireLimits,
}

/// The bounds of a server for one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
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
    /// Bytes of frames that the client may have under way, each with [`FRAME_WEIGHT`](crate::FRAME_WEIGHT)
    /// more.
    pub window_bytes: u64,
}

/// The event in a numbered frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent<'a> {
    /// The lock is held.
    Granted {
        /// The request, now the lock.
        id: u64,
        /// The fencing token.
        token: FencingToken,
        /// The proof of the grant for a later epoch, where locks can be reclaimed.
        ticket: Option<Ticket<'a>>,
    },
    /// An ifAvailable request could not be granted at once.
    Refused {
        /// The request.
        id: u64,
        /// The first holders of the name.
        holders: Vec<HolderView<'a>>,
        /// How many requests wait for the name.
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
        /// The words of the operator who broke the lock.
        why: Option<Cow<'a, str>>,
    },
    /// An agent has ended, its requests and locks with it, without its client's doing.
    Ended {
        /// The agent.
        agent: u64,
        /// Why.
        reason: EndedReason,
    },
    /// A frame was wrong, or refused.
    Error {
        /// The request, query or watch that has ended with it.
        id: Option<u64>,
        /// The kind of error.
        code: ErrorCode,
        /// The time after which a retry may succeed, in milliseconds; none: not before the client has removed
        /// the cause.
        retry_after_ms: Option<u64>,
        /// The problem.
        problem: FrameProblem<'a>,
    },
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    /// Another request stole the name.
    Stolen,
    /// The lock was held for its `maxHoldMs`.
    Expired,
    /// An operator broke the lock.
    Broken,
    /// The lock could not be reclaimed, or gave way to a reclaim with a higher token.
    Superseded,
}

/// Why an agent was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndedReason {
    /// The lease of the agent ran out.
    Expired,
    /// An operator ended the agent.
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
    why: RawField<'a>,
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
    pause_ms: RawField<'a>,
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
    #[serde(borrow)]
    window_bytes: RawField<'a>,
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
            ServerFrame::Welcome(welcome) => unnumbered(out, "welcome").end_with(welcome),
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
            ServerFrame::Closing { pause_ms } => {
                let mut object = unnumbered(out, "closing");
                object.word("reason", "shutdown");
                object.number_if_any("pauseMs", *pause_ms);
                object.end();
            }
        }
    }
}

impl<'a> RawFrame<'a> {
    fn envelope(&self, text: &'a str) -> ReadResult<Envelope<ServerFrame<'a>>> {
        let kind = field("type", self.kind).text(&STRING)?;
        let frame = match &*kind {
            "granted" => self.numbered(self.granted()?),
            "refused" => self.numbered(self.refused()?),
            "released" => self
                .numbered(ServerEvent::Released { id: self.id()?, held: field("held", self.held).flag()? }),
            "lost" => {
                let why = field("why", self.why).text_if_any(&STRING)?;
                self.numbered(ServerEvent::Lost { id: self.id()?, reason: self.lost_reason()?, why })
            }
            "ended" => {
                let agent = field("agent", self.agent).number(&POSITIVE)?;
                self.numbered(ServerEvent::Ended { agent, reason: self.ended_reason()? })
            }
            "error" => self.numbered(self.error()?),
            "welcome" => welcome(text).map(ServerFrame::Welcome),
            "snapshot" => {
                SnapshotPage::read(self.id()?, self.held, self.pending, self.more).map(ServerFrame::Snapshot)
            }
            "ping" => Ok(ServerFrame::Ping {
                n: field("n", self.n).number(&POSITIVE)?,
                answered: field("answered", self.answered).number(&NATURAL)?,
            }),
            "ack" => {
                let ack = field("ack", self.ack).number(&NATURAL)?;
                return Ok(Envelope { ack, frame: ServerFrame::Ack });
            }
            "fatal" => self.fatal(),
            "closing" => Ok(ServerFrame::Closing {
                pause_ms: field("pauseMs", self.pause_ms).number_if_any(&POSITIVE)?,
            }),
            _ => {
                Err(FrameProblem::with_value("type", &kind, "a frame type of lockhouse.v1 that servers send"))
            }
        };
        Ok(Envelope {
            ack: field("ack", self.ack).number_if_any(&NATURAL)?.unwrap_or_default(),
            frame: frame?,
        })
    }

    fn id(&self) -> ReadResult<u64> {
        Ok(field("id", self.id).number(&POSITIVE)?)
    }

    fn numbered(&self, event: ServerEvent<'a>) -> ReadResult<ServerFrame<'a>> {
        Ok(ServerFrame::Numbered { seq: field("seq", self.seq).number(&POSITIVE)?, event })
    }

    fn granted(&self) -> ReadResult<ServerEvent<'a>> {
        let token = read::token(field("token", self.token))?;
        let ticket = self.ticket.map(|_| Ticket::read(self.ticket)).transpose()?;
        Ok(ServerEvent::Granted { id: self.id()?, token, ticket })
    }

    fn refused(&self) -> ReadResult<ServerEvent<'a>> {
        one_of(field("reason", self.reason), &[("unavailable", ())])?;
        let holders: Vec<RawHolder<'a>> = read::list(field("holders", self.holders))?;
        let holders = holders.iter().map(RawHolder::view).collect::<ReadResult<_>>()?;
        Ok(ServerEvent::Refused {
            id: self.id()?,
            holders,
            queued: field("queued", self.queued).number(&NATURAL)?,
        })
    }

    fn lost_reason(&self) -> ReadResult<LostReason> {
        let reasons = [LostReason::Stolen, LostReason::Expired, LostReason::Broken, LostReason::Superseded];
        one_of(field("reason", self.reason), &reasons.map(|reason| (reason.word(), reason)))
    }

    fn ended_reason(&self) -> ReadResult<EndedReason> {
        let reasons = [EndedReason::Expired, EndedReason::Broken];
        one_of(field("reason", self.reason), &reasons.map(|reason| (reason.word(), reason)))
    }

    fn error(&self) -> ReadResult<ServerEvent<'a>> {
        let id = field("id", self.id).number_if_any(&POSITIVE)?;
        let code = ErrorCode::from_word(&field("code", self.code).text(&STRING)?);
        let retry_after_ms = field("retryAfterMs", self.retry_after_ms).number_if_any(&POSITIVE)?;
        Ok(ServerEvent::Error { id, code, retry_after_ms, problem: self.problem()? })
    }

    fn fatal(&self) -> ReadResult<ServerFrame<'a>> {
        let word = field("code", self.code).text(&STRING)?;
        let code = FatalCode::from_word(&word)
            .ok_or_else(|| FrameProblem::with_value("code", &word, "a fatal code of lockhouse.v1"))?;
        Ok(ServerFrame::Fatal { code, problem: self.problem()? })
    }

    fn problem(&self) -> ReadResult<FrameProblem<'a>> {
        Ok(FrameProblem {
            field: field("field", self.field).text_if_any(&STRING)?,
            value: field("value", self.value).text_if_any(&STRING)?,
            rule: field("rule", self.rule).text_if_any(&STRING)?,
            message: field("message", self.message).text(&STRING)?,
        })
    }
}

fn one_of<T: Copy>(field: FrameField<'_>, known: &[(&str, T)]) -> ReadResult<T> {
    let word = field.text(&STRING)?;
    let found = known.iter().find(|(known, _)| *known == &*word).map(|(_, value)| *value);
    Ok(found.ok_or_else(|| Violation::new(field.path(), &word, "a word of lockhouse.v1"))?)
}

/// `welcome` is read separately, so that the reader of the frequent frames has fewer keys to look for.
fn welcome(text: &str) -> ReadResult<Welcome<'_>> {
    let raw: RawWelcome<'_> = read::object(text)?;
    let limits = field("limits", raw.limits).read(|| "an object".into(), Some)?;
    Ok(Welcome {
        server: field("server", raw.server).text(&STRING)?,
        epoch: field("epoch", raw.epoch).text(&STRING)?,
        session: field("session", raw.session).text(&STRING)?,
        secret: field("secret", raw.secret).secret().text(&STRING)?,
        resumed: field("resumed", raw.resumed).flag()?,
        received: field("received", raw.received).number(&NATURAL)?,
        reclaims: field("reclaims", raw.reclaims).flag_or_false()?,
        recovering_ms: field("recoveringMs", raw.recovering_ms).number_if_any(&NATURAL)?.unwrap_or_default(),
        credential_ms: field("credentialMs", raw.credential_ms).number_if_any(&NATURAL)?,
        lease_ms: field("leaseMs", raw.lease_ms).number(&POSITIVE)?,
        heartbeat_ms: field("heartbeatMs", raw.heartbeat_ms).number(&POSITIVE)?,
        limits: WireLimits::read(limits.0)?,
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
            frame_bytes: inner("limits", "frameBytes", raw.frame_bytes).number(&NATURAL)?,
            name_units: inner("limits", "nameUnits", raw.name_units).number(&NATURAL)?,
            metadata_bytes: inner("limits", "metadataBytes", raw.metadata_bytes).number(&NATURAL)?,
            agents: inner("limits", "agents", raw.agents).number(&NATURAL)?,
            requests_per_agent: inner("limits", "requestsPerAgent", raw.requests_per_agent)
                .number(&NATURAL)?,
            window_bytes: inner("limits", "windowBytes", raw.window_bytes).number(&NATURAL)?,
        })
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
            Self::Lost { id, reason, why } => {
                let mut object = numbered(out, "lost", Some(*id));
                object.word("reason", reason.word());
                object.text_if_any("why", why.as_deref());
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
