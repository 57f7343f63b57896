//! An event as it is sent, and the question for the stream.

use axum::http::HeaderMap;
use lockhouse::core::{Discipline, EndCause, EventKind, OwnerEnd};
use lockhouse::store::HistoryEnd;
use lockhouse::{BucketEvent, EventFilter, EventPosition, EventsFrom, FencingToken, history_end};
use lockhouse_wire::decode::{Choice, Field, Violation};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::dto::{At, HoldKind, JsonName, ModeWord};
use crate::http::history::bodies::HoldEnd;
use crate::http::query::entry::Entry;
use crate::http::request::constraints::{EVENT_ID, PREFIX, RESOURCE};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;

/// The disciplines as they are written.
const KINDS: Choice<Discipline> =
    Choice(&[("web", Discipline::Web), ("offline", Discipline::Offline), ("claim", Discipline::Claim)]);

/// The header with the id of the last event that a reader has got.
const LAST_EVENT_ID: &str = "last-event-id";

/// The data of an event. Members that do not apply are left out.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventData {
    /// When it happened.
    pub(crate) at: At,
    /// Of which discipline. Owners are of offline locks, assignments of claims.
    pub(crate) kind: HoldKind,
    /// The resource name; none of `opened` and `closed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) name: Option<JsonName>,
    /// The mode of a lock or a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<ModeWord>,
    /// The client id of a web lock, the label of an owner, or the claimant.
    pub(crate) client_id: String,
    /// The owner, of an offline lock or of `opened` and `closed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "17")]
    pub(crate) owner: Option<String>,
    /// The fencing token. An `ended` without one is the end of a wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: Option<u64>,
    /// Since when it waits or waited, of `waiting` and `granted`; since when it was held, of `ended`.
    pub(crate) since: At,
    /// Why it ended, as in the history; of `ended` and `closed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<HoldEnd>,
    /// Why it was refused, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "taken")]
    pub(crate) cause: Option<&'static str>,
    /// Who broke it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// The words of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// A part of the present state.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StateData {
    /// What is held and pending, as `query` shows it.
    #[schema(max_items = 100, value_type = Vec<Entry>)]
    pub(crate) entries: Vec<Box<RawValue>>,
    /// Whether this is the last part.
    pub(crate) last: bool,
}

/// A question for a stream.
#[derive(Clone, Debug)]
pub(crate) struct EventQuestion {
    pub(crate) from: EventsFrom,
    pub(crate) filter: EventFilter,
}

impl EventQuestion {
    pub(crate) fn read(parameters: &Parameters<'_>, headers: &HeaderMap) -> ApiResult<Self> {
        let filter = EventFilter {
            name: parameters.field("name")?.if_any(|name| name.name(&RESOURCE))?,
            prefix: parameters.field("prefix")?.string_if_any(&PREFIX)?.map(|it| it.into_bytes().into()),
            discipline: parameters.field("kind")?.if_any(|word| word.choice(&KINDS))?,
        };
        // A browser that connects again sends the header, and the parameters of the first time.
        let last = match headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("\u{fffd}")) {
            Some(text) if !text.is_empty() => Some(
                text.parse::<EventPosition>()
                    .map_err(|_| Violation::new("Last-Event-ID", &format!("{text:?}"), EVENT_ID.words()))?,
            ),
            _ => {
                let given = parameters.field("lastEventId")?.text_if_any(&EVENT_ID)?;
                given.and_then(|text| text.parse().ok())
            }
        };
        let from = match (last, parameters.field("state")?.if_any(Field::flag)?) {
            (Some(position), _) => EventsFrom::After(position),
            (None, Some(true)) => EventsFrom::State,
            (None, _) => EventsFrom::Now,
        };
        Ok(Self { from, filter })
    }
}

/// The word for a kind of event.
pub(crate) fn word(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Waiting => "waiting",
        EventKind::Granted => "granted",
        EventKind::Ended(_) => "ended",
        EventKind::Refused(_) => "refused",
        EventKind::Assigned => "assigned",
        EventKind::Unassigned => "unassigned",
        EventKind::OwnerOpened => "opened",
        EventKind::OwnerClosed(_) => "closed",
    }
}

impl From<BucketEvent> for EventData {
    fn from(event: BucketEvent) -> Self {
        let (end, cause, by) = match event.kind {
            EventKind::Ended(EndCause::Broken(by)) => (Some(HistoryEnd::Broken), None, Some(by)),
            EventKind::Ended(cause) => (Some(history_end(&cause)), None, None),
            EventKind::OwnerClosed(OwnerEnd::Ended) => (Some(HistoryEnd::Ended), None, None),
            EventKind::OwnerClosed(OwnerEnd::Expired) => (Some(HistoryEnd::Expired), None, None),
            EventKind::OwnerClosed(OwnerEnd::Overdue) => (Some(HistoryEnd::Overdue), None, None),
            EventKind::Refused(cause) => (None, Some(cause.word()), None),
            _ => (None, None, None),
        };
        let (by, reason) =
            by.map_or((None, None), |by| (Some(by.operator.into()), by.reason.map(Into::into)));
        Self {
            at: At(event.at),
            kind: match event.discipline {
                Discipline::Web => HoldKind::Web,
                Discipline::Offline => HoldKind::Offline,
                Discipline::Claim => HoldKind::Claim,
            },
            name: event.name.map(JsonName),
            mode: event.mode.map(ModeWord::from),
            client_id: event.client_id.into(),
            owner: event.owner.map(|owner| owner.to_string()),
            fencing_token: event.fencing_token.map(FencingToken::get),
            since: At(event.since),
            end: end.map(HoldEnd),
            cause,
            by,
            reason,
        }
    }
}
