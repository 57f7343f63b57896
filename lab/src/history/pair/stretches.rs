//! The stretches of a history between the restores of backups, each of which is judged for itself.
//!
//! What a restore takes back or brings back is unknown. So nothing of before is judged after it; but
//! whatever was granted since has to be kept. Fencing tokens are judged over the whole history.
//!
//! Web locks outlive a restore as they do a kill: every bucket recovers, so that nothing is granted before
//! each holder has reclaimed its lock or passed its deadline. So no other client gets a web lock's name
//! before its holder has let it go, and that is judged in the stretches after its grant, too.

use std::collections::HashSet;

use super::{History, Op, Readout};
use crate::history::record::{Completion, Found, Invocation};

/// A restore of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restore {
    /// When it was done. The server does not run then.
    pub(crate) at: u64,
    /// The server goes on above this token.
    pub(crate) above: u64,
}

/// The time from one restore to the next one.
struct Stretch<'a> {
    from: u64,
    to: u64,
    /// Tokens up to this one are of before.
    above: u64,
    /// The claims of before, with their buckets.
    old_claims: HashSet<(&'a str, &'a str)>,
}

impl History {
    /// A history for each stretch.
    pub(crate) fn stretches(&self) -> Vec<Self> {
        let mut begins = vec![Restore { at: 0, above: 0 }];
        begins.extend(&self.restores);
        let ends = self.restores.iter().map(|restore| restore.at).chain([u64::MAX]);
        begins.iter().zip(ends).map(|(begin, to)| self.stretch(*begin, to)).collect()
    }

    fn stretch(&self, begin: Restore, to: u64) -> Self {
        let old = self.ops.iter().filter(|op| op.closes < begin.at);
        let old_claims = old.filter_map(|op| Some((op.bucket.as_str(), op.gain()?.0.claim.as_deref()?)));
        let stretch = Stretch { from: begin.at, to, above: begin.above, old_claims: old_claims.collect() };
        Self {
            ops: self.ops.iter().filter_map(|op| stretch.take(op)).collect(),
            readouts: self.readouts.iter().filter_map(|readout| stretch.take_readout(readout)).collect(),
            passes: Vec::new(),
            kills: self.kills.clone(),
            restores: Vec::new(),
            events: self.events,
            acknowledged: self.acknowledged,
            origin: self.origin,
        }
    }
}

impl Stretch<'_> {
    /// What is to be judged of the operation in this stretch.
    fn take(&self, op: &Op) -> Option<Op> {
        if self.may_bear_on_web_locks(op) {
            return Some(op.clone());
        }
        if !self.contains(op) || self.is_about_what_was_before(op) {
            return None;
        }
        let mut op = op.clone();
        op.closes = op.closes.min(self.to);
        match &mut op.answered {
            Some((_, Completion::Ok { gain, .. })) => {
                if let Some(found) = &mut gain.found {
                    found.retain(|found| self.is_new(found));
                }
            }
            Some((_, Completion::Refused { token, claimant, .. }))
                if !token.is_some_and(|it| it > self.above) =>
            {
                (*token, *claimant) = (None, None);
            }
            _ => {}
        }
        Some(op)
    }

    fn take_readout(&self, readout: &Readout) -> Option<Readout> {
        (self.from..self.to).contains(&readout.at.ns).then(|| Readout {
            bucket: readout.bucket.clone(),
            began: readout.began,
            at: readout.at,
            found: readout.found.iter().filter(|found| self.is_new(found)).cloned().collect(),
        })
    }

    /// An operation that was answered was done right before the answer, or refused.
    fn contains(&self, op: &Op) -> bool {
        match &op.answered {
            Some((at, answer)) if *answer != Completion::Unknown => (self.from..self.to).contains(&at.ns),
            _ => op.invoked.ns < self.to && op.closes >= self.from,
        }
    }

    /// Whether it is a web lock of before that is held still, or a steal of before, which may have ended one.
    fn may_bear_on_web_locks(&self, op: &Op) -> bool {
        let Invocation::Request { steal, .. } = op.call else { return false };
        let token = op.gain().and_then(|(gain, _)| gain.token);
        // An answer of before may be read after the restore.
        let is_of_before = op.closes < self.from || token.is_some_and(|token| token <= self.above);
        is_of_before && (steal || token.is_some() && op.let_go > self.from)
    }

    fn is_about_what_was_before(&self, op: &Op) -> bool {
        let is_old_claim = match &op.call {
            Invocation::Renew { claim, .. }
            | Invocation::ReleaseClaim { claim, .. }
            | Invocation::Finalize { claim, .. } => self.old_claims.contains(&(&*op.bucket, &**claim)),
            _ => false,
        };
        is_old_claim || op.gain().is_some_and(|(gain, _)| gain.token.is_some_and(|token| token <= self.above))
    }

    fn is_new(&self, found: &Found) -> bool {
        found.token > self.above
    }
}
