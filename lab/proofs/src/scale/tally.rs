//! What a part of a run has cost.

use std::collections::BTreeMap;

use crate::sim::fleet::model::StatementKind;

/// What has happened since the last part began.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// The statements, by what they are for.
    pub(super) statements: BTreeMap<StatementKind, u64>,
    /// The most statements in a second.
    pub(super) busiest_second: u64,
    this_second: (u64, u64),
    /// Attempts of clients to connect.
    pub(super) attempts: u64,
    /// Connections from one node to another, for these clients.
    pub(super) hops: u64,
    /// Attempts that a node has ended, as the bucket was nowhere for too long.
    pub(super) refusals: u64,
    /// Sessions that went on over a new connection.
    pub(super) resumed: u64,
    /// Messages of clients, and to them, without those that only renew.
    pub(super) to_nodes: u64,
    pub(super) to_clients: u64,
    /// Pings, of which each has a pong.
    pub(super) heartbeats: u64,
    /// Locks that were brought back.
    pub(super) reclaimed: u64,
    /// Locks that their clients have lost, or found under another token.
    pub(super) locks_lost: u64,
    /// The longest time for which a client lacked its connection or a lock.
    pub(super) longest_gap_ms: u64,
    /// Slots that were taken, and of these the ones that wait for holders of before.
    pub(super) taken: u64,
    pub(super) recovering: u64,
    /// Nodes that were declared dead.
    pub(super) buried: u64,
}

impl Tally {
    /// Adds the statements of a step.
    pub(super) fn add_statements(&mut self, now_ms: u64, statements: BTreeMap<StatementKind, u64>) {
        for (kind, times) in statements {
            let count = times * statements_of(kind);
            *self.statements.entry(kind).or_default() += count;
            let second = now_ms / 1000;
            let before = if self.this_second.0 == second { self.this_second.1 } else { 0 };
            self.this_second = (second, before + count);
            self.busiest_second = self.busiest_second.max(before + count);
        }
    }

    pub(super) fn statements(&self, kinds: &[StatementKind]) -> u64 {
        kinds.iter().filter_map(|kind| self.statements.get(kind)).sum()
    }

    pub(super) fn all_statements(&self) -> u64 {
        self.statements.values().sum()
    }

    /// All messages but those that only renew.
    pub(super) fn messages(&self) -> u64 {
        self.to_nodes + self.to_clients
    }
}

/// How many statements PostgreSQL gets for one of the model.
fn statements_of(kind: StatementKind) -> u64 {
    if kind == StatementKind::Load { 3 } else { 1 }
}
