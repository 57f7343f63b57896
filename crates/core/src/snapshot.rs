//! All that is held and pending, as data.

use crate::{AgentId, FencingToken, Instant, Mode, NameBuf};

/// A consistent cut of a lock manager. <https://w3c.github.io/web-locks/#snapshot-the-lock-state>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Every pending request; those of one name in queue order.
    pub pending: Vec<Entry>,
    /// Every held lock, in no promised order.
    pub held: Vec<Entry>,
}

/// One request or lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The resource name.
    pub name: NameBuf,
    /// Its mode.
    pub mode: Mode,
    /// Whose it is.
    pub agent: AgentId,
    /// The agent's label.
    pub client_id: String,
    /// Held or pending.
    pub state: State,
    /// The instant of the grant, of the request while pending.
    pub since: Instant,
    /// When its longest hold ends, if it is held and has one.
    pub expires: Option<Instant>,
    /// What the requester said of it.
    pub metadata: Option<String>,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Granted, with this token.
    Held(FencingToken),
    /// In the queue of its name, at this place, counted from 1.
    Pending {
        /// The place.
        place: u32,
    },
}
