//! The filter of requested entries.

use std::time::{Duration, SystemTime};

use lockhouse::{AssignmentQuestion, FencingToken, NameBuf};
use lockhouse_wire::decode::Choice;

use super::entry::{Entry, EntryKind, EntryState};
use crate::http::request::constraints::{CLIENT, OLDER_THAN_MS, PREFIX, RESOURCE, TOKEN};
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

/// Which entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    name: Option<NameBuf>,
    prefix: Option<String>,
    kind: Option<EntryKind>,
    client: Option<String>,
    owner: Option<String>,
    state: Option<EntryState>,
    token: Option<u64>,
    older_than_ms: Option<u64>,
}

impl Filter {
    pub(crate) fn read(parameters: &Parameters<'_>) -> ApiResult<Self> {
        Ok(Self {
            name: parameters.field("name")?.if_any(|name| name.name(&RESOURCE))?,
            prefix: parameters.field("prefix")?.string_if_any(&PREFIX)?,
            kind: parameters.field("kind")?.if_any(|word| word.choice(&KINDS))?,
            client: parameters.field("client")?.string_if_any(&CLIENT)?,
            owner: parameters.field("owner")?.if_any(path::owner)?.map(|owner| owner.to_string()),
            state: parameters.field("state")?.if_any(|word| word.choice(&STATES))?,
            token: parameters.field("fencingToken")?.number_if_any(&TOKEN)?,
            older_than_ms: parameters.field("olderThanMs")?.number_if_any(&OLDER_THAN_MS)?,
        })
    }

    /// The only name that the entries have, if there is one.
    pub(crate) fn name(&self) -> Option<&NameBuf> {
        self.name.as_ref()
    }

    /// The instant before which the entries have begun, if they must have.
    pub(crate) fn before(&self, now: SystemTime) -> Option<SystemTime> {
        let length = Duration::from_millis(self.older_than_ms?);
        Some(now.checked_sub(length).unwrap_or(SystemTime::UNIX_EPOCH))
    }

    /// Whether any lock, request or claim may be among them.
    pub(crate) fn admits_entries(&self) -> bool {
        self.kind != Some(EntryKind::Assignment) && self.state != Some(EntryState::Assigned)
    }

    /// The assignments among them; none if there cannot be any.
    pub(crate) fn assignments(&self, before: Option<SystemTime>) -> Option<AssignmentQuestion> {
        let may_be = self.kind.is_none_or(|kind| kind == EntryKind::Assignment)
            && self.state.is_none_or(|state| state == EntryState::Assigned)
            && self.owner.is_none();
        may_be.then(|| AssignmentQuestion {
            name: self.name.clone(),
            prefix: self.prefix.as_deref().unwrap_or_default().into(),
            start: Vec::new(),
            claimant: self.client.clone(),
            token: self.token.map(FencingToken::new),
            before,
            most: 0,
            most_looked_at: 0,
        })
    }

    /// Whether the lock, request or claim is one of them.
    pub(crate) fn admits(&self, entry: &Entry, before: Option<SystemTime>) -> bool {
        let name = &entry.name.0;
        self.name.as_ref().is_none_or(|only| only == name)
            && self
                .prefix
                .as_ref()
                .is_none_or(|prefix| name.as_name().as_wtf8().starts_with(prefix.as_bytes()))
            && self.kind.is_none_or(|kind| kind == entry.kind)
            && self.client.as_ref().is_none_or(|client| *client == entry.client_id)
            && (self.owner.is_none() || self.owner == entry.owner)
            && self.state.is_none_or(|state| state == entry.state)
            && (self.token.is_none() || self.token == entry.fencing_token)
            && before.is_none_or(|before| entry.since.0 < before)
    }
}
