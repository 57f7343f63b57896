//! The calls to the bucket that are not answered yet.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;
use lockhouse_wire::SnapshotQuery;

use super::verdict::PendingCall;

/// The calls to the bucket that are not answered yet, by their tags. While the store cannot write there may be
/// many, and each is found at once.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    calls: HashMap<u64, PendingCall, RandomState>,
    /// The tags of the queries.
    queries: BTreeSet<u64>,
    last_tag: u64,
}

impl PendingCalls {
    /// The tag for a call that is about to be made.
    pub(super) fn add(&mut self, call: PendingCall) -> u64 {
        self.last_tag += 1;
        if matches!(call, PendingCall::Query(..)) {
            self.queries.insert(self.last_tag);
        }
        self.calls.insert(self.last_tag, call);
        self.last_tag
    }

    /// The call with that tag, which is answered.
    pub(super) fn remove(&mut self, tag: u64) -> Option<PendingCall> {
        let call = self.calls.remove(&tag)?;
        if matches!(call, PendingCall::Query(..)) {
            self.queries.remove(&tag);
        }
        Some(call)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn has_queries(&self) -> bool {
        !self.queries.is_empty()
    }

    /// All queries, in their order. Their memory is free again.
    pub(super) fn take_queries(&mut self) -> Vec<SnapshotQuery> {
        let tags = std::mem::take(&mut self.queries);
        let queries = tags.into_iter().filter_map(|tag| match self.calls.remove(&tag) {
            Some(PendingCall::Query(query, _memory)) => Some(query),
            _ => None,
        });
        queries.collect()
    }
}
