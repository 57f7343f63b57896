//! Where an agent lives: in this process, or behind a connection to a server.

use std::sync::Arc;

#[cfg(feature = "remote")]
use crate::remote::agent::RemoteAgent;
use crate::web_locks::local_agent::LocalAgent;

/// An agent, wherever it lives.
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    Local(Arc<LocalAgent>),
    #[cfg(feature = "remote")]
    Remote(Arc<RemoteAgent>),
}

impl Backend {
    /// Terminates the agent.
    pub(crate) fn end(&self) {
        match self {
            Self::Local(agent) => agent.end(),
            #[cfg(feature = "remote")]
            Self::Remote(agent) => agent.end(),
        }
    }
}
