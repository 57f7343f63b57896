//! The owners of offline locks: how long each certainly lived, and what may have ended its locks.

use std::collections::HashMap;

use super::ends::Instants;
use super::pair::{History, Op};
use super::record::{Invocation, Reason};

/// The lives of the owners of all buckets.
#[derive(Debug, Default)]
pub(crate) struct OwnerLives<'a> {
    buckets: HashMap<&'a str, HashMap<&'a str, OwnerLife<'a>>>,
}

/// An owner's life.
#[derive(Debug)]
pub(crate) struct OwnerLife<'a> {
    pub(crate) opened: &'a Op,
    /// The instant until which the lease certainly ran, other ends left aside.
    pub(crate) lives_until: u64,
    /// The first attempt to end it.
    pub(crate) ended: u64,
    /// The first answer that reports that the owner has ended.
    pub(crate) gone: Option<&'a Op>,
    /// The ends that all of its locks may have had: last instant and invocation.
    pub(crate) ends: Instants,
    /// The certain ends of all of its locks: invocation and answer.
    pub(crate) acknowledged: Instants,
    enders: Vec<&'a Op>,
}

impl<'a> OwnerLives<'a> {
    pub(crate) fn of(history: &'a History) -> Self {
        let mut buckets: HashMap<&str, HashMap<&str, OwnerLife<'_>>> = HashMap::new();
        for op in &history.ops {
            if let (Invocation::OpenOwner { .. }, Some((gain, _))) = (&op.call, op.gain())
                && let Some(id) = &gain.owner
            {
                buckets.entry(&op.bucket).or_default().insert(id, OwnerLife::opened_by(op));
            }
        }
        for op in &history.ops {
            let owners = buckets.get_mut(op.bucket.as_str());
            if let (Some(owners), Some(id)) = (owners, op.call.owner())
                && let Some(owner) = owners.get_mut(id)
            {
                owner.learn(op);
            }
        }
        for owner in buckets.values_mut().flat_map(HashMap::values_mut) {
            owner.ends.sort();
            owner.acknowledged.sort();
        }
        Self { buckets }
    }

    pub(crate) fn get(&self, bucket: &str, id: &str) -> Option<&OwnerLife<'a>> {
        self.buckets.get(bucket)?.get(id)
    }

    /// The operation that ended the owner's locks and was answered at this instant.
    pub(crate) fn ended_at(&self, bucket: &str, id: &str, answered: u64) -> Option<&'a Op> {
        self.get(bucket, id)?.enders.iter().find(|op| op.closes == answered).copied()
    }
}

impl<'a> OwnerLife<'a> {
    fn opened_by(op: &'a Op) -> Self {
        Self {
            opened: op,
            lives_until: leased(op, op),
            ended: u64::MAX,
            gone: None,
            ends: Instants::default(),
            acknowledged: Instants::default(),
            enders: Vec::new(),
        }
    }

    fn learn(&mut self, op: &'a Op) {
        if op.gain().is_some_and(|(gain, _)| gain.was != Some(false)) {
            // Any success proves that the owner lives, and is activity; that there was nothing to
            // unlock is also said of one that is gone.
            self.lives_until = self.lives_until.max(leased(self.opened, op));
        }
        let ended = matches!(op.call, Invocation::EndOwner { .. }) && op.gain().is_some();
        let says_gone = ended || op.refusal() == Some(Reason::OwnerGone);
        if says_gone && self.gone.is_none_or(|gone| op.closes < gone.closes) {
            self.gone = Some(op);
        }
        let ends_all = matches!(op.call, Invocation::EndOwner { .. } | Invocation::UnlockAll { .. });
        if !ends_all || !op.may_have_ended_something() {
            return;
        }
        self.ends.push((op.closes, op.invoked.ns));
        self.enders.push(op);
        if op.gain().is_some() {
            self.acknowledged.push((op.invoked.ns, op.closes));
        }
        if matches!(op.call, Invocation::EndOwner { .. }) {
            self.ended = self.ended.min(op.invoked.ns);
        }
    }
}

/// Until when an owner certainly lives that did something at `active`.
fn leased(opened: &Op, active: &Op) -> u64 {
    let Invocation::OpenOwner { ttl_ms, max_ms } = opened.call else { return 0 };
    let end = max_ms.map_or(u64::MAX, |max| certain(opened.invoked.ns, max));
    certain(active.invoked.ns, ttl_ms).min(end)
}

/// A TTL counts for nine tenths of its length, as clients count everywhere: the rest is for clocks that tick.
pub(crate) fn certain(from: u64, ttl_ms: u64) -> u64 {
    from.saturating_add(ttl_ms.saturating_mul(900_000))
}
