//! Messages that wait in the outbox for the changes that they depend on.

use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, Change, ClaimRecord, Command, FencingToken, LockRecord, Name, NewLocks, NewReclaim,
    NewRequest, Outcome, OwnerRecord, Refusal, RequestId, Unlock,
};
use lockhouse_store::{Scope, Write};
use tokio::sync::oneshot;

use crate::engine::clock::Clock;
use crate::engine::inbox::{Inbox, Notice};
use crate::engine::memory::MemoryReservation;

/// A message that is sent once its changes are durable.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// To a port. The message holds that memory meanwhile.
    Port {
        inbox: Arc<Inbox>,
        notice: Notice,
        #[expect(dead_code, reason = "kept for its end")]
        memory: Option<Arc<MemoryReservation>>,
    },
    /// To the future of a request: it is granted.
    Grant { request: RequestId, token: FencingToken },
    /// To the future of a request: it is refused after all.
    Refusal { request: RequestId, refusal: Refusal },
    /// To the caller that waits for the answer. The message holds that memory meanwhile.
    Reply {
        to: oneshot::Sender<Outcome>,
        outcome: Outcome,
        #[expect(dead_code, reason = "kept for its end")]
        memory: Option<Arc<MemoryReservation>>,
    },
}

/// A change that has to be durable, as a bucket expresses it.
#[derive(Debug)]
pub(crate) enum DurableChange {
    /// Of the lock manager; instants are those of the lease clock.
    Change(Change),
    /// A web lock is about to be announced to a remote holder.
    NeedsRecovery,
    /// A lease of this length is about to be given.
    LongestLease { ms: u64 },
}

/// The subjects of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DependsOn<'a> {
    /// Nothing durable.
    Nothing,
    /// Of these names, and of tokens up to this one.
    Names(Vec<Name<'a>>, u64),
    /// The whole bucket, or the changes of the command itself.
    Everything,
}

impl<'a> DependsOn<'a> {
    /// The subjects of the answer to that command. `has_changed`: whether the command has changed something
    /// durable.
    pub(crate) fn answer(command: &Command<'a>, outcome: &Outcome, has_changed: bool) -> Self {
        match *command {
            // All changes of a request are on its name.
            Command::Request(NewRequest { name, .. }) | Command::Reclaim(NewReclaim { name, .. }) => {
                match outcome {
                    Outcome::Granted(grant) => Self::Names(vec![name], grant.token.get()),
                    Outcome::Refused(Refusal::Unavailable { .. } | Refusal::Superseded) => {
                        Self::Names(vec![name], 0)
                    }
                    _ => Self::Nothing,
                }
            }
            // Nothing of an agent is durable. What has changed is the mark, for the grants of others.
            Command::Abort { .. }
            | Command::Release { .. }
            | Command::Renew { .. }
            | Command::End { .. }
            | Command::Close => Self::Nothing,
            // Of a join it is the length of its lease.
            _ if has_changed => Self::Everything,
            Command::Join(_) => Self::Nothing,
            Command::Touch { .. } if matches!(outcome, Outcome::Renewed { alive: true }) => Self::Nothing,
            Command::Lock(NewLocks { locks, .. }) => {
                Self::Names(locks.iter().map(|(name, _)| *name).collect(), 0)
            }
            Command::Unlock { locks: Unlock::These(locks), .. } => {
                Self::Names(locks.iter().map(|(name, _)| *name).collect(), 0)
            }
            Command::Claim(new) => Self::Names(vec![new.name], 0),
            Command::RenewClaim { name, .. }
            | Command::ReleaseClaim { name, .. }
            | Command::Finalize { name, .. }
            | Command::Unassign { name, .. } => Self::Names(vec![name], 0),
            Command::Touch { .. }
            | Command::OpenOwner(_)
            | Command::EndOwner { .. }
            | Command::Unlock { .. }
            | Command::Undo { .. }
            | Command::Snapshot
            | Command::EndRecovery => Self::Everything,
        }
    }
}

impl DurableChange {
    /// As the store takes it, which knows no clock but the calendar.
    pub(crate) fn into_write(self, scope: &Arc<Scope>, clock: &Clock) -> Write {
        let scope = scope.clone();
        match self {
            Self::Change(change) => Write::Change { scope, change: by_the_calendar(change, clock) },
            Self::NeedsRecovery => Write::NeedsRecovery { scope },
            Self::LongestLease { ms } => Write::LongestLease { ms },
        }
    }
}

/// The change with instants that count wall time, as the store has it.
fn by_the_calendar(change: Change, clock: &Clock) -> Change {
    on_clock(change, &|at| lockhouse_core::Instant::from_millis(clock.wall_ms(at)))
}

/// The change with instants of the lease clock, from one as the store has it.
pub(crate) fn by_the_lease_clock(change: Change, clock: &Clock) -> Change {
    on_clock(change, &|at| clock.at_wall(at.as_millis()))
}

fn on_clock(change: Change, turned: &dyn Fn(lockhouse_core::Instant) -> lockhouse_core::Instant) -> Change {
    match change {
        Change::TokensReserved { .. } => change,
        Change::OwnerOpened(record) => Change::OwnerOpened(OwnerRecord {
            since: turned(record.since),
            ends: record.ends.map(turned),
            ..record
        }),
        Change::OwnerEnded { owner, names, reason, at } => {
            Change::OwnerEnded { owner, names, reason, at: turned(at) }
        }
        Change::Locked(record) => Change::Locked(LockRecord { since: turned(record.since), ..record }),
        Change::Unlocked { name, owner, token, reason, at } => {
            Change::Unlocked { name, owner, token, reason, at: turned(at) }
        }
        Change::Claimed(record) => Change::Claimed(ClaimRecord { since: turned(record.since), ..record }),
        Change::Unclaimed { name, token, reason, at } => {
            Change::Unclaimed { name, token, reason, at: turned(at) }
        }
        Change::Assigned(record) => {
            Change::Assigned(AssignmentRecord { since: turned(record.since), ..record })
        }
        Change::Unassigned { name, token, at } => Change::Unassigned { name, token, at: turned(at) },
    }
}
