//! The stretches of a history between the restores of backups, each of which is judged for itself. A failover
//! is a restore of all that was done until then, and so begins a stretch, too; what certainly outlives it is
//! judged besides.
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

/// The time from one restore or failover to the next one.
struct Stretch<'a> {
    from: u64,
    to: u64,
    /// Whether servers run at its beginning, so that an answer may come later than what it speaks of.
    is_overlapped: bool,
    /// Tokens up to this one are of before.
    above: u64,
    /// The claims of before, with their buckets.
    old_claims: HashSet<(&'a str, &'a str)>,
}

impl History {
    /// A history for each stretch.
    pub(crate) fn stretches(&self) -> Vec<Self> {
        if self.failovers.is_empty() {
            return self.between(&self.restores);
        }
        let failovers = self.failovers.iter().map(|it| Restore { at: it.at, above: it.above });
        let mut begins: Vec<Restore> = self.restores.iter().copied().chain(failovers).collect();
        begins.sort_by_key(|begin| begin.at);
        let mut stretches = self.between(&begins);
        stretches.extend(self.outliving().between(&self.restores));
        stretches
    }

    fn between(&self, restores: &[Restore]) -> Vec<Self> {
        let mut begins = vec![Restore { at: 0, above: 0 }];
        begins.extend(restores);
        let ends = restores.iter().map(|restore| restore.at).chain([u64::MAX]);
        begins.iter().zip(ends).map(|(begin, to)| self.stretch(*begin, to)).collect()
    }

    fn stretch(&self, begin: Restore, to: u64) -> Self {
        let (mut old_claims, mut new_claims) = (HashSet::new(), HashSet::new());
        for (bucket, claim, token) in self.ops.iter().filter_map(claim_of) {
            let claims = if token > begin.above { &mut new_claims } else { &mut old_claims };
            claims.insert((bucket, claim));
        }
        // A claim that is lost may be made again, by a repeated call.
        old_claims.retain(|claim| !new_claims.contains(claim));
        let is_overlapped = self.failovers.iter().any(|failover| failover.at == begin.at);
        let stretch = Stretch { from: begin.at, to, is_overlapped, above: begin.above, old_claims };
        Self {
            ops: self.ops.iter().filter_map(|op| stretch.take(op)).collect(),
            readouts: self.readouts.iter().filter_map(|readout| stretch.take_readout(readout)).collect(),
            passes: Vec::new(),
            kills: self.kills.clone(),
            restores: Vec::new(),
            failovers: Vec::new(),
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
            Some((_, answer @ Completion::Ok { .. })) if self.may_be_of_before(op.invoked.ns, answer) => {
                *answer = Completion::Unknown;
            }
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

    /// Whether the answer, to what was asked for then, may be one to something done before.
    fn may_be_of_before(&self, invoked: u64, answer: &Completion) -> bool {
        let has_token = matches!(answer, Completion::Ok { gain, .. } if gain.token.is_some());
        self.is_overlapped && invoked < self.from && !has_token
    }

    fn is_new(&self, found: &Found) -> bool {
        found.token > self.above
    }
}

/// The claim that an operation was answered with: its bucket, its ID and its token.
fn claim_of(op: &Op) -> Option<(&str, &str, u64)> {
    let (gain, _) = op.gain()?;
    Some((&op.bucket, gain.claim.as_deref()?, gain.token?))
}
