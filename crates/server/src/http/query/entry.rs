//! An entry of the tables, as it is sent.

use lockhouse::{FencingToken, HolderKind, LockInfo, LockState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::dto::{At, HoldKind, JsonName, ModeWord};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EntryKind {
    Web,
    Offline,
    Claim,
    Assignment,
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EntryState {
    Held,
    Pending,
    Assigned,
}

/// A lock, a request, a claim or an assignment.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    /// The resource name.
    pub(crate) name: JsonName,
    /// Its mode.
    pub(crate) mode: ModeWord,
    /// Which discipline it belongs to.
    pub(crate) kind: EntryKind,
    /// Held, waiting in the queue of its name, or assigned for good.
    pub(crate) state: EntryState,
    /// The client id of a web lock, the label of an owner, or the claimant.
    pub(crate) client_id: String,
    /// The owner of an offline lock.
    #[schema(example = "17")]
    pub(crate) owner: Option<String>,
    /// The instant of the grant; of the request while it waits.
    pub(crate) since: At,
    /// When it ends unless it is renewed.
    #[schema(value_type = Option<At>)]
    pub(crate) expires_at: Option<At>,
    /// The place in the queue of its name, counted from 1.
    #[schema(minimum = 1)]
    pub(crate) place: Option<u64>,
    /// The fencing token; none while it waits.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: Option<u64>,
    /// What was said of it.
    pub(crate) metadata: Option<String>,
    /// Tells it from the others of its name and kind as long as it is there: the number of the request or of
    /// the owner.
    #[serde(skip)]
    pub(crate) number: u64,
}

impl From<LockInfo> for Entry {
    fn from(info: LockInfo) -> Self {
        let (state, place) = match info.state {
            LockState::Held(_) => (EntryState::Held, None),
            LockState::Pending { place } => (EntryState::Pending, Some(place.into())),
        };
        let number = match info.kind {
            HolderKind::Offline(owner) => owner.get(),
            _ => info.request.unwrap_or_default(),
        };
        let (kind, owner) = match HoldKind::of(info.kind) {
            (HoldKind::Web, owner) => (EntryKind::Web, owner),
            (HoldKind::Offline, owner) => (EntryKind::Offline, owner),
            (HoldKind::Claim, owner) => (EntryKind::Claim, owner),
        };
        Self {
            fencing_token: info.fencing_token().map(FencingToken::get),
            name: JsonName(info.name),
            mode: info.mode.into(),
            kind,
            state,
            client_id: info.client_id,
            owner,
            since: At(info.since),
            expires_at: info.expires_at.map(At),
            place,
            metadata: info.metadata,
            number,
        }
    }
}

impl From<lockhouse::Assignment> for Entry {
    fn from(assignment: lockhouse::Assignment) -> Self {
        Self {
            name: JsonName(assignment.resource),
            mode: ModeWord::Exclusive,
            kind: EntryKind::Assignment,
            state: EntryState::Assigned,
            client_id: assignment.claimant,
            owner: None,
            since: At(assignment.since),
            expires_at: None,
            place: None,
            fencing_token: Some(assignment.fencing_token.get()),
            metadata: None,
            number: 0,
        }
    }
}
