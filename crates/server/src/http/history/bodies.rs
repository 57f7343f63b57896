//! A page of the history, and the question for it.

use std::time::{Duration, SystemTime};

use lockhouse::FencingToken;
use lockhouse::core::{Instant, OwnerId};
use lockhouse::store::{HistoryEnd, HistoryEntry, HistoryFilter, HistoryKind};
use lockhouse_wire::decode::Choice;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::dto::{At, JsonName, ModeWord};
use crate::http::request::constraints::{HISTORY_CURSOR, HISTORY_PAGE, LABEL, PREFIX, RESOURCE, TOKEN};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::path;

/// What an entry of the history was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EndedKind {
    Owner,
    Offline,
    Claim,
    Assignment,
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum HoldEnd {
    /// Its holder gave it back.
    Released,
    /// The step that took it failed.
    Undone,
    /// A shared lock became exclusive, with a new token.
    Upgraded,
    /// An upgraded lock became shared again, as the step failed.
    Downgraded,
    /// A request stole the name.
    Stolen,
    /// An operator broke it.
    Broken,
    /// Its time was over.
    Expired,
    /// The owner was ended.
    Ended,
    /// The longest life of the owner was over.
    Overdue,
    /// The claim was made final.
    Finalized,
    /// The assignment was taken back.
    Unassigned,
    /// The owner of the lock was ended.
    OwnerEnded,
    /// The time of the owner of the lock was over.
    OwnerExpired,
    /// The longest life of the owner of the lock was over.
    OwnerOverdue,
}

const KINDS: Choice<HistoryKind> = Choice(&[
    ("owner", HistoryKind::Owner),
    ("offline", HistoryKind::Offline),
    ("claim", HistoryKind::Claim),
    ("assignment", HistoryKind::Assignment),
]);

const ENDS: Choice<HistoryEnd> = Choice(&[
    ("released", HistoryEnd::Released),
    ("undone", HistoryEnd::Undone),
    ("upgraded", HistoryEnd::Upgraded),
    ("downgraded", HistoryEnd::Downgraded),
    ("stolen", HistoryEnd::Stolen),
    ("broken", HistoryEnd::Broken),
    ("expired", HistoryEnd::Expired),
    ("ended", HistoryEnd::Ended),
    ("overdue", HistoryEnd::Overdue),
    ("finalized", HistoryEnd::Finalized),
    ("unassigned", HistoryEnd::Unassigned),
    ("ownerEnded", HistoryEnd::OwnerEnded),
    ("ownerExpired", HistoryEnd::OwnerExpired),
    ("ownerOverdue", HistoryEnd::OwnerOverdue),
]);

/// A hold, or an owner, that has ended.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ended {
    /// What it was.
    pub(crate) kind: EndedKind,
    /// The resource name; none of an owner.
    #[schema(value_type = Option<String>)]
    pub(crate) name: Option<JsonName>,
    /// The label of the owner, or the claimant.
    pub(crate) label: String,
    /// The owner, of an owner or an offline lock.
    #[schema(example = "17")]
    pub(crate) owner: Option<String>,
    /// The mode of an offline lock.
    pub(crate) mode: Option<ModeWord>,
    /// The fencing token; none of an owner.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: Option<u64>,
    /// When it began.
    pub(crate) since: At,
    /// When it ended.
    pub(crate) ended_at: At,
    /// Why it ended.
    pub(crate) end: HoldEnd,
    /// Who broke it.
    pub(crate) operator: Option<String>,
    /// The words of the operator.
    pub(crate) reason: Option<String>,
}

/// A page of the history, the latest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryAnswer {
    /// At most as many as asked for. There may be fewer, or none, before the last page.
    #[schema(max_items = 200)]
    pub(crate) entries: Vec<Ended>,
    /// The `cursor` of the next page; `null` on the last.
    #[schema(example = "4711")]
    pub(crate) next: Option<String>,
}

/// A question about the history.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) filter: HistoryFilter,
    pub(crate) before: Option<u64>,
    pub(crate) limit: usize,
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
        };
        let limit = parameters.field("limit")?.number_if_any(&HISTORY_PAGE)?.unwrap_or(HISTORY_PAGE.example);
        let before = parameters.field("cursor")?.number_if_any(&HISTORY_CURSOR)?;
        Ok(Self { filter, before, limit: limit as usize })
    }
}

impl From<HistoryEntry> for Ended {
    fn from(it: HistoryEntry) -> Self {
        let at = |at: Instant| At(SystemTime::UNIX_EPOCH + Duration::from_millis(at.as_millis()));
        Self {
            kind: match it.kind {
                HistoryKind::Owner => EndedKind::Owner,
                HistoryKind::Offline => EndedKind::Offline,
                HistoryKind::Claim => EndedKind::Claim,
                HistoryKind::Assignment => EndedKind::Assignment,
            },
            name: it.name.map(JsonName),
            label: it.who.into(),
            owner: it.owner.map(|owner| owner.to_string()),
            mode: it.mode.map(ModeWord::from),
            fencing_token: it.token.map(FencingToken::get),
            since: at(it.since),
            ended_at: at(it.at),
            end: HoldEnd::from(it.end),
            operator: it.operator.map(Into::into),
            reason: it.reason.map(Into::into),
        }
    }
}

impl From<HistoryEnd> for HoldEnd {
    fn from(end: HistoryEnd) -> Self {
        match end {
            HistoryEnd::Released => Self::Released,
            HistoryEnd::Undone => Self::Undone,
            HistoryEnd::Upgraded => Self::Upgraded,
            HistoryEnd::Downgraded => Self::Downgraded,
            HistoryEnd::Stolen => Self::Stolen,
            HistoryEnd::Broken => Self::Broken,
            HistoryEnd::Expired => Self::Expired,
            HistoryEnd::Ended => Self::Ended,
            HistoryEnd::Overdue => Self::Overdue,
            HistoryEnd::Finalized => Self::Finalized,
            HistoryEnd::Unassigned => Self::Unassigned,
            HistoryEnd::OwnerEnded => Self::OwnerEnded,
            HistoryEnd::OwnerExpired => Self::OwnerExpired,
            HistoryEnd::OwnerOverdue => Self::OwnerOverdue,
        }
    }
}
