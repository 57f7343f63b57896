//! Deadlines: the ends by time, and when they are due.

use std::collections::BTreeSet;

use super::table::Removed;
use crate::{AgentId, Instant, RequestId};

/// The kinds of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The lease of a party, if it was not renewed meanwhile.
    Lease(AgentId),
    /// The longest hold of a lock, or the time of a claim, if it was not renewed meanwhile.
    Hold(RequestId),
}

/// The armed deadlines, in order. Plain locks arm none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines(BTreeSet<(Instant, Due)>);

impl Deadlines {
    pub(crate) fn arm_lease(&mut self, party: AgentId, ends: Instant) {
        self.0.insert((ends, Due::Lease(party)));
    }

    pub(crate) fn disarm_lease(&mut self, party: AgentId, armed: Instant) {
        self.0.remove(&(armed, Due::Lease(party)));
    }

    pub(crate) fn arm_hold(&mut self, request: RequestId, expires: Option<Instant>) {
        if let Some(expires) = expires {
            self.0.insert((expires, Due::Hold(request)));
        }
    }

    #[inline]
    pub(crate) fn disarm_hold(&mut self, removed: Removed) {
        if let Some(armed) = removed.armed {
            self.0.remove(&(armed, Due::Hold(removed.request)));
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The next one, if it is due.
    pub(crate) fn peek_due(&self, now: Instant) -> Option<Due> {
        self.0.first().filter(|(at, _)| *at <= now).map(|(_, due)| *due)
    }

    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Due> {
        let (at, _) = self.0.first()?;
        if *at > now {
            return None;
        }
        self.0.pop_first().map(|(_, due)| due)
    }
}
