//! Refusals of offline locks and claims on their way into the history. They never make a commit: they go with
//! the next one that others make, so that a caller who is refused again and again makes the store write
//! neither more often nor much more.

use std::collections::HashMap;
use std::sync::Arc;

use lockhouse_core::NameBuf;
use lockhouse_store::{HistoryKind, REFUSALS_GATHERED, RefusalRecord, Scope, Write};
use tokio::time::Instant;

use crate::engine::sync::Mutex;

/// So many different refusals are gathered at once, and so many of each tenant.
const GATHERED: usize = 1024;
const GATHERED_OF_TENANT: usize = 128;

/// So many go with one commit.
const WITH_A_COMMIT: usize = 64;

/// The refusals that are gathered.
#[derive(Debug, Default)]
pub(crate) struct RefusalQueue(Mutex<Gathered>);

#[derive(Debug, Default)]
struct Gathered {
    of: HashMap<Kind, State>,
    tenants: HashMap<Box<str>, usize>,
    /// Before that nothing is to be written; none if nothing is there.
    next: Option<Instant>,
}

/// What is one entry: the same name, refused to the same caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    scope: Arc<Scope>,
    kind: HistoryKind,
    name: NameBuf,
    who: Box<str>,
}

#[derive(Debug)]
struct State {
    tenant: Box<str>,
    /// What was refused since it was written; nothing, if its count is 0.
    record: RefusalRecord,
    /// No entry of it is written before.
    not_before: Instant,
}

impl RefusalQueue {
    /// Something was refused in a bucket of that tenant. Beyond the bounds it is left out.
    pub(crate) fn add(&self, scope: &Arc<Scope>, tenant: &str, record: RefusalRecord, now: Instant) {
        let mut gathered = self.0.lock();
        let kind = Kind {
            scope: scope.clone(),
            kind: record.kind,
            name: record.name.clone(),
            who: record.who.clone(),
        };
        if let Some(state) = gathered.of.get_mut(&kind) {
            if state.record.count == 0 {
                state.record.since = record.since;
            }
            (state.record.at, state.record.owner, state.record.mode) = (record.at, record.owner, record.mode);
            state.record.count = state.record.count.saturating_add(1);
            let due = state.not_before;
            gathered.is_due(due);
            return;
        }
        let of_tenant = gathered.tenants.get(tenant).copied().unwrap_or_default();
        if gathered.of.len() >= GATHERED || of_tenant >= GATHERED_OF_TENANT {
            return;
        }
        gathered.tenants.insert(tenant.into(), of_tenant + 1);
        gathered.of.insert(kind, State { tenant: tenant.into(), record, not_before: now });
        gathered.is_due(now);
    }

    /// Takes what goes with the commit that is about to be made.
    pub(crate) fn take(&self, now: Instant, writes: &mut Vec<Write>) {
        let mut gathered = self.0.lock();
        if gathered.next.is_none_or(|next| next > now) {
            return;
        }
        gathered.next = None;
        let Gathered { of, tenants, next } = &mut *gathered;
        let mut taken = 0;
        of.retain(|kind, state| {
            let is_due = state.not_before <= now;
            if is_due && state.record.count == 0 {
                // Its minute is over, and nothing came since.
                if let Some(count) = tenants.get_mut(&state.tenant) {
                    *count -= 1;
                    if *count == 0 {
                        tenants.remove(&state.tenant);
                    }
                }
                return false;
            }
            if is_due && taken < WITH_A_COMMIT {
                taken += 1;
                let refusal = Box::new(state.record.clone());
                writes.push(Write::Refused { scope: kind.scope.clone(), refusal });
                state.record.count = 0;
                state.not_before = now + REFUSALS_GATHERED;
            }
            *next = Some(next.map_or(state.not_before, |next| next.min(state.not_before)));
            true
        });
    }
}

impl Gathered {
    fn is_due(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    fn refused(queue: &RefusalQueue, tenant: &str, name: &str, (begin, ms): (Instant, u64)) {
        let at = lockhouse_core::Instant::from_millis(ms);
        let record = RefusalRecord {
            kind: HistoryKind::Claim,
            name: NameBuf::new(name).unwrap(),
            mode: None,
            who: "Bob".into(),
            owner: None,
            since: at,
            at,
            count: 1,
        };
        queue.add(&Arc::new(Scope::new(tenant, "b")), tenant, record, begin + Duration::from_millis(ms));
    }

    fn taken(queue: &RefusalQueue, (begin, ms): (Instant, u64)) -> Vec<(u32, u64, u64)> {
        let mut writes = Vec::new();
        queue.take(begin + Duration::from_millis(ms), &mut writes);
        let record = |write| match write {
            Write::Refused { refusal, .. } => {
                (refusal.count, refusal.since.as_millis(), refusal.at.as_millis())
            }
            other => panic!("{other:?}"),
        };
        writes.into_iter().map(record).collect()
    }

    #[test]
    fn the_same_refusal_is_one_entry_a_minute_however_often_it_comes() {
        let (queue, begin) = (RefusalQueue::default(), Instant::now());
        (1..=3).for_each(|ms| refused(&queue, "t", "n", (begin, ms)));
        assert_eq!(taken(&queue, (begin, 3)), [(3, 1, 3)]);
        (4..=1000).for_each(|ms| refused(&queue, "t", "n", (begin, ms)));
        assert_eq!(taken(&queue, (begin, 60_002)), []);
        assert_eq!(taken(&queue, (begin, 60_003)), [(997, 4, 1000)]);
        assert_eq!(taken(&queue, (begin, 120_003)), []);
        let gathered = queue.0.lock();
        assert!(gathered.of.is_empty() && gathered.tenants.is_empty());
    }

    #[test]
    fn a_tenant_that_is_refused_very_much_leaves_others_their_place_and_no_commit_is_long() {
        let (queue, begin) = (RefusalQueue::default(), Instant::now());
        (0..10_000).for_each(|n| refused(&queue, "loud", &n.to_string(), (begin, 1)));
        refused(&queue, "quiet", "n", (begin, 1));
        assert_eq!(queue.0.lock().of.len(), GATHERED_OF_TENANT + 1);
        let commits: Vec<_> = (0..4).map(|_| taken(&queue, (begin, 1)).len()).collect();
        assert_eq!(commits, [WITH_A_COMMIT, WITH_A_COMMIT, 1, 0]);
    }
}
