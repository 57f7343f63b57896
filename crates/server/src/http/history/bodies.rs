//! A page of the history, and the question for it.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use lockhouse::FencingToken;
use lockhouse::core::{Instant, OwnerId};
use lockhouse::store::{HistoryEnd, HistoryEntry, HistoryFilter, HistoryKind};
use lockhouse_wire::decode::{Choice, Field, FieldValue, Violation};
use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::http::dto::{At, JsonName, ModeWord};
use crate::http::request::constraints::{
    HISTORY_CURSOR, HISTORY_PAGE, INSTANT, LABEL, PREFIX, RESOURCE, TOKEN,
};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::path;
use crate::http::request::schema::RuleSchema;

/// What an entry of the history was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedKind(HistoryKind);

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldEnd(pub(crate) HistoryEnd);

const KINDS: Choice<HistoryKind> = Choice(HistoryKind::KEYS);

const ENDS: Choice<HistoryEnd> = Choice(HistoryEnd::KEYS);

impl Serialize for EndedKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.key())
    }
}

impl PartialSchema for EndedKind {
    fn schema() -> RefOr<Schema> {
        KINDS.schema().description(Some("What an entry of the history was.")).into()
    }
}

impl ToSchema for EndedKind {}

impl Serialize for HoldEnd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.key())
    }
}

impl PartialSchema for HoldEnd {
    fn schema() -> RefOr<Schema> {
        ENDS.schema().description(Some("Why it ended.")).into()
    }
}

impl ToSchema for HoldEnd {}

/// A hold, or an owner, that has ended.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ended {
    /// What it was.
    pub(crate) kind: EndedKind,
    /// The resource name; none of an owner.
    #[schema(value_type = Option<String>)]
    pub(crate) name: Option<JsonName>,
    /// The label of the owner, the claimant, or the client id of a web lock.
    pub(crate) label: String,
    /// The owner, of an owner or an offline lock.
    #[schema(example = "17")]
    pub(crate) owner: Option<String>,
    /// The mode of a lock.
    pub(crate) mode: Option<ModeWord>,
    /// The fencing token; none of an owner, and of what was never held.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: Option<u64>,
    /// Since when a web lock was waited for, if it had to wait.
    #[schema(value_type = Option<At>)]
    pub(crate) waiting_since: Option<At>,
    /// When it began; of a wait that came to nothing, when that began.
    pub(crate) since: At,
    /// When it ended.
    pub(crate) ended_at: At,
    /// Why it ended.
    pub(crate) end: HoldEnd,
    /// Who broke it.
    pub(crate) operator: Option<String>,
    /// The words of the operator.
    pub(crate) reason: Option<String>,
    /// How often it was refused from `since` to `endedAt`; 1 of all else.
    #[schema(minimum = 1, example = 1)]
    pub(crate) count: u32,
}

/// A page of the history, the latest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryAnswer {
    /// At most as many as asked for. There may be fewer, or none, before the last page.
    #[schema(max_items = 200)]
    pub(crate) entries: Vec<Ended>,
    /// The `cursor` of the next page; `null` on the last.
    #[schema(example = "4711.0000000000000000.0")]
    pub(crate) next: Option<String>,
}

/// A question about the history.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) filter: HistoryFilter,
    pub(crate) cursor: HistoryCursor,
    pub(crate) limit: usize,
}

/// Where a page of the history begins, in the store and in the history of web locks: each is read in its own
/// order, so that no entry is lost or comes twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryCursor {
    pub(crate) stored: Rest,
    /// The number is one of that life of the bucket.
    pub(crate) web: Rest,
    pub(crate) epoch: u64,
}

/// What is left of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// All of it.
    #[default]
    All,
    /// The entries with lower numbers.
    Below(u64),
    /// Nothing.
    Nothing,
}

impl Rest {
    pub(crate) fn is_over(self) -> bool {
        self == Self::Nothing
    }

    pub(crate) fn before(self) -> Option<u64> {
        if let Self::Below(number) = self { Some(number) } else { None }
    }

    /// 0 stands for nothing, as no entry has a lower number.
    fn number(self) -> u64 {
        match self {
            Self::All => u64::MAX >> 11,
            Self::Below(number) => number,
            Self::Nothing => 0,
        }
    }

    fn of(number: u64) -> Self {
        match number {
            0 => Self::Nothing,
            number => Self::Below(number),
        }
    }
}

impl fmt::Display for HistoryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:016x}.{}", self.stored.number(), self.epoch, self.web.number())
    }
}

impl FromStr for HistoryCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let mut next = || parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let (stored, epoch, web) = (next().ok_or(())?, next().ok_or(())?, next().ok_or(())?);
        let number = |text: &str| text.parse().map(Rest::of).map_err(|_| ());
        let epoch = u64::from_str_radix(epoch, 16).map_err(|_| ())?;
        Ok(Self { stored: number(stored)?, web: number(web)?, epoch })
    }
}

impl Question {
    pub(crate) fn read(parameters: &Parameters<'_>) -> ApiResult<Self> {
        let filter = HistoryFilter {
            name: parameters.field("name")?.if_any(|name| name.name(&RESOURCE))?,
            prefix: parameters.field("prefix")?.string_if_any(&PREFIX)?.map(|it| it.into_bytes().into()),
            kind: parameters.field("kind")?.if_any(|word| word.choice(&KINDS))?,
            end: parameters.field("end")?.if_any(|word| word.choice(&ENDS))?,
            owner: parameters.field("owner")?.if_any(path::owner)?.map(OwnerId::new),
            who: parameters.field("label")?.string_if_any(&LABEL)?.map(Into::into),
            token: parameters.field("fencingToken")?.number_if_any(&TOKEN)?.map(FencingToken::new),
            from: parameters.field("from")?.if_any(instant)?,
            to: parameters.field("to")?.if_any(instant)?,
        };
        if let (Some(from), Some(to)) = (filter.from, filter.to)
            && from >= to
        {
            return Err(parameters.field("to")?.broken("an instant after `from`").into());
        }
        let limit = parameters.field("limit")?.number_if_any(&HISTORY_PAGE)?.unwrap_or(HISTORY_PAGE.example);
        let cursor = parameters.field("cursor")?.text_if_any(&HISTORY_CURSOR)?;
        let cursor = cursor.and_then(|text| text.parse().ok()).unwrap_or_default();
        Ok(Self { filter, cursor, limit: limit as usize })
    }
}

/// An instant, in milliseconds since 1970.
fn instant<'a>(field: Field<'_, impl FieldValue<'a>>) -> Result<Instant, Violation> {
    let parse = |text: &str| {
        let at = humantime::parse_rfc3339(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Instant::from_millis(at.as_millis().try_into().ok()?))
    };
    field.parse(|| INSTANT.words(), |text| parse(&text).filter(|_| INSTANT.admits(&text)))
}

impl From<HistoryEntry> for Ended {
    fn from(it: HistoryEntry) -> Self {
        let at = |at: Instant| At(SystemTime::UNIX_EPOCH + Duration::from_millis(at.as_millis()));
        Self {
            kind: EndedKind(it.kind),
            name: it.name.map(JsonName),
            label: it.who.into(),
            owner: it.owner.map(|owner| owner.to_string()),
            mode: it.mode.map(ModeWord::from),
            fencing_token: it.token.map(FencingToken::get),
            waiting_since: it.waiting_since.map(at),
            since: at(it.since),
            ended_at: at(it.at),
            end: HoldEnd(it.end),
            operator: it.operator.map(Into::into),
            reason: it.reason.map(Into::into),
            count: it.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text() {
        for (stored, web) in [(Rest::Below(7), Rest::Below(1)), (Rest::Nothing, Rest::Below(3))] {
            let cursor = HistoryCursor { stored, web, epoch: u64::MAX };
            assert!(HISTORY_CURSOR.admits(&cursor.to_string()));
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        // A history that was not begun has no number that is too high.
        let begun = HistoryCursor { stored: Rest::All, web: Rest::Nothing, epoch: 0 };
        assert!(HISTORY_CURSOR.admits(&begun.to_string()) && HISTORY_CURSOR.admits(HISTORY_CURSOR.example));
        for text in ["", "1", "1.1", "x.1.1", "1..1", "1.1.1.1", "-1.1.1", "1.00000000000000001.1"] {
            assert!(!HISTORY_CURSOR.admits(text), "{text}");
        }
    }
}
