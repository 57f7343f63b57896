//! What ends by itself, and when.

use std::collections::BTreeSet;

use super::table::Removed;
use crate::{AgentId, Instant, RequestId};

/// What may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The lease of an agent, if it was not renewed meanwhile.
    Lease(AgentId),
    /// The longest hold of a lock.
    Hold(RequestId),
}

/// The armed deadlines, in order. Plain locks arm none.
#[derive(Debug, Default)]
pub(super) struct Deadlines(BTreeSet<(Instant, Due)>);

impl Deadlines {
    pub(super) fn arm_lease(&mut self, agent: AgentId, ends: Instant) {
        self.0.insert((ends, Due::Lease(agent)));
    }

    pub(super) fn disarm_lease(&mut self, agent: AgentId, armed: Instant) {
        self.0.remove(&(armed, Due::Lease(agent)));
    }

    pub(super) fn arm_hold(&mut self, request: RequestId, expires: Option<Instant>) {
        if let Some(expires) = expires {
            self.0.insert((expires, Due::Hold(request)));
        }
    }

    #[inline]
    pub(super) fn disarm_hold(&mut self, removed: Removed) {
        if let Some(expires) = removed.expires {
            self.0.remove(&(expires, Due::Hold(removed.request)));
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Due> {
        let (at, _) = self.0.first()?;
        if *at > now {
            return None;
        }
        self.0.pop_first().map(|(_, due)| due)
    }
}
