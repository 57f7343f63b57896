//! What outlives a failover of the database to a standby that lacks acknowledged commits.
//!
//! ```text
//!        from              at             until
//! ────────┼─────────────────┼───────────────┼────────▶
//!  there  │ there, or not   │ written: there│  there
//!         │                 │ read: perhaps of before
//! ```
//!
//! Whatever was acknowledged between the last instant that the standby has and its promotion may have been
//! done, or not. Whatever was acknowledged before, or written after, has to be there. In between, an answer
//! that rests on no write may still be that of a server which has not learned of the failover.
//!
//! Fencing tokens are judged over the whole history, and each stretch between two failovers is judged for
//! itself, too.

use super::{History, Op, Readout};
use crate::history::record::{Completion, Invocation, Reason};

/// A failover of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failover {
    /// The standby has all that was acknowledged before.
    pub(crate) from: u64,
    /// Its promotion. The former primary takes nothing any more.
    pub(crate) at: u64,
    /// From here on no server speaks of the state of the former primary.
    pub(crate) until: u64,
    /// The servers go on above this token.
    pub(crate) above: u64,
}

impl History {
    /// The history without what failovers may have undone.
    pub(super) fn outliving(&self) -> Self {
        Self {
            ops: self.ops.iter().filter_map(|op| self.outlived(op)).collect(),
            readouts: self.readouts.iter().filter(|readout| self.is_lasting(readout)).cloned().collect(),
            passes: Vec::new(),
            kills: self.kills.clone(),
            restores: self.restores.clone(),
            failovers: Vec::new(),
            events: self.events,
            acknowledged: self.acknowledged,
            origin: self.origin,
        }
    }

    fn is_lasting(&self, readout: &Readout) -> bool {
        self.failovers.iter().all(|it| readout.at.ns < it.from || it.until <= readout.began)
    }

    /// What is certain of the operation.
    fn outlived(&self, op: &Op) -> Option<Op> {
        if !self.failovers.iter().any(|failover| failover.may_undo(op)) || self.shows_later(op) {
            return Some(op.clone());
        }
        let mut op = op.clone();
        match (&op.call, op.answered.as_mut().map(|(_, answer)| answer)) {
            // It changed nothing, and what it showed may be gone.
            (Invocation::Look { .. }, _) => return None,
            (_, Some(Completion::Ok { gain, .. })) if gain.was == Some(false) => return None,
            (_, Some(Completion::Refused { reason, token, claimant })) => {
                (*reason, *token, *claimant) = (Reason::Other, None, None);
            }
            // Its token is known, by which the claim is recognized if it is there still.
            (Invocation::Claim { .. }, Some(Completion::Ok { durable, gain })) => {
                (*durable, gain.again) = (false, true);
            }
            (_, Some(answer)) => *answer = Completion::Unknown,
            (_, None) => {}
        }
        Some(op)
    }

    /// Whether it opened an owner that did something after each failover which may have undone that.
    fn shows_later(&self, op: &Op) -> bool {
        let Some(owner) = op.gain().and_then(|(gain, _)| gain.owner.as_deref()) else { return false };
        self.failovers.iter().filter(|failover| failover.may_undo(op)).all(|failover| {
            let acts = |other: &Op| {
                other.bucket == op.bucket
                    && other.call.owner() == Some(owner)
                    && other.invoked.ns >= failover.until
                    && other.gain().is_some_and(|(gain, _)| gain.was != Some(false))
            };
            self.ops.iter().any(acts)
        })
    }
}

impl Failover {
    /// Whether what was answered may have been undone, or rests on what was.
    pub(super) fn may_undo(&self, op: &Op) -> bool {
        let Some((answered, _)) = &op.answered else { return false };
        let is_within = self.from <= answered.ns && op.invoked.ns < self.until;
        is_within && !(self.at <= op.invoked.ns && self.was_written_after(op))
    }

    /// Whether what was asked for after the promotion changed the promoted database.
    fn was_written_after(&self, op: &Op) -> bool {
        let Some((gain, _)) = op.gain() else { return false };
        match op.call {
            Invocation::Request { .. } | Invocation::Lock { .. } | Invocation::Claim { .. } => {
                !gain.again && gain.token.is_some_and(|token| token > self.above)
            }
            Invocation::OpenOwner { .. } | Invocation::EndOwner { .. } => true,
            _ => gain.was == Some(true),
        }
    }
}
