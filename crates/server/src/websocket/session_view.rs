//! What others may see of a session: shared between its task and the registry.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use lockhouse::core::AgentId;
use parking_lot::Mutex;

use crate::limits::Network;

/// What others may see of a session. Nothing in it is a secret.
#[derive(Debug)]
pub(crate) struct SessionView {
    /// Counts the sessions of the bucket.
    pub(crate) number: u64,
    /// When it began.
    pub(crate) since: SystemTime,
    peer: Mutex<Peer>,
    agents: Mutex<BTreeSet<AgentId>>,
    queued_bytes: AtomicUsize,
    is_connected: AtomicBool,
}

/// The other side of a session, as its last connection was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The name of the credential.
    pub(crate) credential: String,
    /// The network that the connection came from, if known.
    pub(crate) address: Option<Network>,
    /// The words of the client about itself.
    pub(crate) user_agent: Option<String>,
    /// The origin of the page.
    pub(crate) origin: Option<String>,
}

impl SessionView {
    pub(super) fn new(number: u64, peer: Peer) -> Self {
        Self {
            number,
            since: SystemTime::now(),
            peer: Mutex::new(peer),
            agents: Mutex::default(),
            queued_bytes: AtomicUsize::new(0),
            is_connected: AtomicBool::new(false),
        }
    }

    /// Another connection goes on with the session.
    pub(crate) fn set_peer(&self, peer: Peer) {
        *self.peer.lock() = peer;
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.is_connected.store(is_connected, Ordering::Relaxed);
    }

    pub(crate) fn set_queued_bytes(&self, bytes: usize) {
        self.queued_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_agent(&self, agent: AgentId) {
        self.agents.lock().insert(agent);
    }

    pub(crate) fn remove_agent(&self, agent: AgentId) {
        self.agents.lock().remove(&agent);
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer.lock().clone()
    }

    /// Its agents, the oldest first; without the one that its lease is of.
    pub(crate) fn agents(&self) -> Vec<AgentId> {
        self.agents.lock().iter().copied().collect()
    }

    /// The bytes of frames that the client has not taken or acknowledged.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }
}
