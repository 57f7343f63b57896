//! The entries of a snapshot.

use lockhouse_core::{FencingToken, Holder, Instant, LockState, NameBuf, Party, SnapshotEntry};

use super::Request;

pub(super) fn entry(
    request: &Request,
    state: LockState,
    since: Instant,
    expires: Option<Instant>,
) -> SnapshotEntry {
    SnapshotEntry {
        name: request.name.clone(),
        mode: request.mode,
        request: Some(request.id),
        party: Party::Agent(request.agent),
        label: request.client_id.clone(),
        state,
        since,
        expires,
        metadata: request.metadata.clone(),
    }
}

pub(super) fn held_entry(name: &NameBuf, token: FencingToken, holder: Holder) -> SnapshotEntry {
    let Holder { party, label, mode, since, expires, metadata } = holder;
    SnapshotEntry {
        name: name.clone(),
        mode,
        request: None,
        party,
        label,
        state: LockState::Held(token),
        since,
        expires,
        metadata,
    }
}
