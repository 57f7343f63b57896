//! The filter of requested entries.

use lockhouse_wire::decode::Choice;

use super::entry::{Entry, EntryKind, EntryState};
use crate::http::request::constraints::PREFIX;
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::path;

const KINDS: Choice<EntryKind> = Choice(&[
    ("web", EntryKind::Web),
    ("offline", EntryKind::Offline),
    ("claim", EntryKind::Claim),
    ("assignment", EntryKind::Assignment),
]);

const STATES: Choice<EntryState> = Choice(&[
    ("held", EntryState::Held),
    ("pending", EntryState::Pending),
    ("assigned", EntryState::Assigned),
]);

/// Which entries, and how many.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    prefix: Option<String>,
    kind: Option<EntryKind>,
    owner: Option<String>,
    state: Option<EntryState>,
}

impl Filter {
    pub(crate) fn read(parameters: &Parameters<'_>) -> ApiResult<Self> {
        Ok(Self {
            prefix: parameters.field("prefix")?.string_if_any(&PREFIX)?,
            kind: parameters.field("kind")?.if_any(|word| word.choice(&KINDS))?,
            owner: parameters.field("owner")?.if_any(path::owner)?.map(|owner| owner.to_string()),
            state: parameters.field("state")?.if_any(|word| word.choice(&STATES))?,
        })
    }

    /// The WTF-8 that the names begin with.
    pub(crate) fn prefix(&self) -> &[u8] {
        self.prefix.as_deref().unwrap_or_default().as_bytes()
    }

    /// Whether any lock, request or claim may be among them.
    pub(crate) fn admits_entries(&self) -> bool {
        self.kind != Some(EntryKind::Assignment) && self.state != Some(EntryState::Assigned)
    }

    /// Whether any assignment may be among them.
    pub(crate) fn admits_assignments(&self) -> bool {
        self.kind.is_none_or(|kind| kind == EntryKind::Assignment)
            && self.state.is_none_or(|state| state == EntryState::Assigned)
            && self.owner.is_none()
    }

    pub(crate) fn admits(&self, entry: &Entry) -> bool {
        entry.name.0.as_name().as_wtf8().starts_with(self.prefix())
            && self.kind.is_none_or(|kind| kind == entry.kind)
            && self.state.is_none_or(|state| state == entry.state)
            && (self.owner.is_none() || self.owner == entry.owner)
    }
}
