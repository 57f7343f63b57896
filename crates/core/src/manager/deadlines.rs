//! What ends by itself, and when.

use std::collections::BTreeSet;

use super::table::Removed;
use crate::{AgentId, Instant, RequestId};

/// What may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The lease of a party, if it was not renewed meanwhile.
    Lease(AgentId),
    /// The longest hold of a lock, or the time of a claim, if it was not renewed meanwhile.
    Hold(RequestId),
}

/// The armed deadlines, in order. Plain locks arm none.
#[derive(Debug, Default)]
pub(super) struct Deadlines(BTreeSet<(Instant, Due)>);

impl Deadlines {
    pub(super) fn arm_lease(&mut self, party: AgentId, ends: Instant) {
        self.0.insert((ends, Due::Lease(party)));
    }

    pub(super) fn disarm_lease(&mut self, party: AgentId, armed: Instant) {
        self.0.remove(&(armed, Due::Lease(party)));
    }

    pub(super) fn arm_hold(&mut self, request: RequestId, expires: Option<Instant>) {
        if let Some(expires) = expires {
            self.0.insert((expires, Due::Hold(request)));
        }
    }

    #[inline]
    pub(super) fn disarm_hold(&mut self, removed: Removed) {
        if let Some(armed) = removed.armed {
            self.0.remove(&(armed, Due::Hold(removed.request)));
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
