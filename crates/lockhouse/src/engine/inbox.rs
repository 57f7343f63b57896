//! The ordered queue of all notices to the agents of a port.

use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use lockhouse_core::{AgentId, Effect, Outcome};

use crate::engine::absence::SessionHash;
use crate::engine::sync::Mutex;
use crate::loss::Loss;

/// A message to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The outcome of the command that was submitted with that tag.
    Answer {
        /// The tag.
        tag: u64,
        /// The outcome.
        outcome: Outcome,
    },
    /// Something happened to an agent of the port.
    Effect(Effect),
    /// The house has lost its store: every lock is lost, and nothing is granted any more.
    Over(Loss),
}

/// More notices than the inbox holds came and were not drained; some are lost, and the port is of no more
/// use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the inbox overflowed")]
pub struct Overflowed;

#[derive(Debug)]
pub(crate) struct Inbox {
    capacity: usize,
    /// The session whose agents the notices are about, if it can be recognised after a restart.
    session: Option<SessionHash>,
    state: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    notices: VecDeque<Notice>,
    agents: BTreeSet<AgentId>,
    /// Whether a reclaim was refused, of which the client may not have heard yet.
    refused_reclaim: bool,
    overflowed: bool,
    /// Whether an agent of the port has ended as its lease was over.
    lease_ended: bool,
    waker: Option<Waker>,
}

impl Inbox {
    pub(crate) fn new(capacity: usize, session: Option<SessionHash>) -> Self {
        Self { capacity, session, state: Mutex::default() }
    }

    pub(crate) fn session(&self) -> Option<SessionHash> {
        self.session
    }

    /// A reclaim of an agent of the port is refused.
    pub(crate) fn refuse_reclaim(&self) {
        self.state.lock().refused_reclaim = true;
    }

    pub(crate) fn has_refused_reclaim(&self) -> bool {
        self.state.lock().refused_reclaim
    }

    /// Takes note of an agent that joins or ends, as the notice says, which may be pushed later.
    pub(crate) fn note(&self, notice: &Notice) {
        match notice {
            Notice::Answer { outcome: Outcome::Joined(agent), .. } => {
                self.state.lock().agents.insert(*agent);
            }
            Notice::Effect(Effect::AgentEnded { agent, .. }) => {
                let mut inbox = self.state.lock();
                inbox.agents.remove(agent);
                inbox.lease_ended = true;
            }
            _ => {}
        }
    }

    /// Called under the bucket's mutex, which gives the order. The waker is to be woken after it.
    pub(crate) fn push(&self, notice: Notice) -> Option<Waker> {
        let mut inbox = self.state.lock();
        if inbox.notices.len() < self.capacity {
            inbox.notices.push_back(notice);
        } else {
            inbox.overflowed = true;
        }
        inbox.waker.take()
    }

    /// Moves all notices to `into`.
    pub(crate) fn drain(&self, into: &mut VecDeque<Notice>) -> Result<(), Overflowed> {
        let mut inbox = self.state.lock();
        into.append(&mut inbox.notices);
        if inbox.overflowed { Err(Overflowed) } else { Ok(()) }
    }

    /// Waits until there is something to drain. Only the latest caller is woken.
    pub(crate) async fn ready(&self) {
        poll_fn(|context| {
            let mut inbox = self.state.lock();
            if !inbox.notices.is_empty() || inbox.overflowed {
                return Poll::Ready(());
            }
            let displaced = inbox.waker.replace(context.waker().clone());
            // A waker may own a task that owns a port, so that it must not go under the mutex.
            drop(inbox);
            drop(displaced);
            Poll::Pending
        })
        .await;
    }

    /// Whether an agent of the port has ended as its lease was over.
    pub(crate) fn lease_has_ended(&self) -> bool {
        self.state.lock().lease_ended
    }

    /// The agents that have joined and not ended, of which the inbox knows nothing any more.
    pub(crate) fn take_agents(&self) -> BTreeSet<AgentId> {
        std::mem::take(&mut self.state.lock().agents)
    }

    /// A command has ended that agent.
    pub(crate) fn forget(&self, agent: AgentId) {
        self.state.lock().agents.remove(&agent);
    }
}
