//! Messages that wait in the outbox for the changes that they depend on.

use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, Change, ClaimEnd, ClaimRecord, Command, Conflict, Effect, FencingToken, HoldToBreak,
    Holder, LockEnd, LockLoss, LockRecord, LossReason, Name, NameBuf, NewLocks, NewReclaim, NewRequest,
    Outcome, OwnerRecord, Party, Refusal, RequestId, SnapshotEntry, Unlock, VoidLocks,
};
use lockhouse_store::{Scope, Write};
use tokio::sync::oneshot;

use crate::engine::clock::Clock;
use crate::engine::commit::cost;
use crate::engine::commit::outbox::MemorySize;
use crate::engine::inbox::{Inbox, Notice};
use crate::engine::memory::MemoryReservation;

/// A message that is sent once its changes are durable.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// To a port. The message holds that memory meanwhile.
    Port { inbox: Arc<Inbox>, notice: Notice, memory: Option<Arc<MemoryReservation>> },
    /// To the future of a request: it is granted.
    Grant { request: RequestId, token: FencingToken },
    /// To the future of a request: it is refused after all.
    Refusal { request: RequestId, refusal: Refusal },
    /// To the caller that waits for the answer. The message holds that memory meanwhile.
    Reply { to: oneshot::Sender<Outcome>, outcome: Outcome, memory: Option<Arc<MemoryReservation>> },
}

impl MemorySize for Deferred {
    fn bytes(&self) -> usize {
        let heap = match self {
            // What holds memory of its own was charged for it.
            Self::Port { memory: Some(_), .. } | Self::Reply { memory: Some(_), .. } => 0,
            Self::Port { notice: Notice::Answer { outcome, .. }, .. } | Self::Reply { outcome, .. } => {
                bytes_of_outcome(outcome)
            }
            Self::Port { notice: Notice::Effect(Effect::Unavailable { refusal, .. }), .. } => {
                bytes_of_refusal(refusal)
            }
            Self::Port { notice: Notice::Effect(Effect::Lost { loss, .. }), .. } => bytes_of_loss(loss),
            Self::Refusal { refusal, .. } => bytes_of_refusal(refusal),
            Self::Port { .. } | Self::Grant { .. } => 0,
        };
        size_of::<Self>() + heap
    }
}

fn bytes_of_loss(loss: &LockLoss) -> usize {
    let words = match &loss.reason {
        LossReason::Broken { reason } => length(reason.as_deref()),
        LossReason::Stolen | LossReason::Expired | LossReason::Superseded => 0,
    };
    size_of::<LockLoss>() + loss.name.as_name().as_wtf8().len() + words
}

fn bytes_of_outcome(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Refused(refusal) => bytes_of_refusal(refusal),
        Outcome::Locked(locks) => size_of_val(&**locks),
        Outcome::Finalized(assignment) => bytes_of_assignment(assignment),
        Outcome::Snapshot(snapshot) => {
            let entries = snapshot.held.iter().chain(&snapshot.pending);
            let heap = |entry: &SnapshotEntry| {
                entry.name.as_name().as_wtf8().len() + entry.label.len() + length(entry.metadata.as_deref())
            };
            entries.map(|entry| size_of::<SnapshotEntry>() + heap(entry)).sum()
        }
        _ => 0,
    }
}

pub(super) fn bytes_of_refusal(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::Unavailable { holders, .. } | Refusal::Busy { holders, .. } => bytes_of_holders(holders),
        Refusal::Claimed { holder } => bytes_of_holders(std::slice::from_ref(holder)),
        Refusal::AlreadyAssigned(assignment) => bytes_of_assignment(assignment),
        Refusal::Conflict(conflicts) => {
            let heap = |conflict: &Conflict| {
                conflict.name.as_name().as_wtf8().len() + bytes_of_holders(&conflict.holders)
            };
            conflicts.iter().map(|conflict| size_of::<Conflict>() + heap(conflict)).sum()
        }
        _ => 0,
    }
}

fn bytes_of_holders(holders: &[Holder]) -> usize {
    let heap = |holder: &Holder| holder.label.len() + length(holder.metadata.as_deref());
    holders.iter().map(|holder| size_of::<Holder>() + heap(holder)).sum()
}

fn bytes_of_assignment(assignment: &AssignmentRecord) -> usize {
    size_of::<AssignmentRecord>() + assignment.name.as_name().as_wtf8().len() + assignment.claimant.len()
}

fn bytes_of_void(which: &VoidLocks) -> usize {
    let heap = |name: &NameBuf| name.as_name().as_wtf8().len();
    match which {
        VoidLocks::OfEnded(_) => 0,
        VoidLocks::AllBut { spared, .. } => size_of_val(&**spared) + spared.iter().map(heap).sum::<usize>(),
        VoidLocks::These(locks) => {
            size_of_val(&**locks) + locks.iter().map(|(name, _)| heap(name)).sum::<usize>()
        }
    }
}

fn length(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
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

impl MemorySize for DurableChange {
    /// Names count where notices about them wait, which share them; but for those that a change has many of.
    fn bytes(&self) -> usize {
        let heap = match self {
            Self::Change(Change::OwnerOpened(record)) => {
                record.label.len() + length(record.metadata.as_deref())
            }
            Self::Change(Change::OwnerEnded { names, .. }) => size_of_val(&**names),
            Self::Change(Change::Locked(record)) => length(record.metadata.as_deref()),
            Self::Change(Change::Claimed(record)) => {
                record.claimant.len() + length(record.metadata.as_deref())
            }
            Self::Change(Change::Assigned(record)) => record.claimant.len(),
            Self::Change(Change::LocksVoided { which, .. }) => bytes_of_void(which),
            Self::Change(
                Change::Unlocked { reason: LockEnd::Broken(by), .. }
                | Change::Unclaimed { reason: ClaimEnd::Broken(by), .. },
            ) => by.operator.len() + length(by.reason.as_deref()),
            Self::Change(
                Change::TokensReserved { .. }
                | Change::Unlocked { .. }
                | Change::LocksSwept { .. }
                | Change::Unclaimed { .. }
                | Change::Unassigned { .. },
            )
            | Self::NeedsRecovery
            | Self::LongestLease { .. } => 0,
        };
        size_of::<Self>() + heap
    }

    fn cost(&self) -> usize {
        match self {
            Self::Change(change) => cost::of_change(change),
            Self::NeedsRecovery | Self::LongestLease { .. } => 1,
        }
    }
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
            // The end of the owner may be of other names, or of none.
            Command::Lock(_) if matches!(outcome, Outcome::Refused(Refusal::UnknownOwner)) => {
                Self::Everything
            }
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
            // A web lock that was broken is gone, whatever becomes of the store.
            Command::Break(_) if is_of_web_lock(outcome) => Self::Nothing,
            Command::Break(HoldToBreak { name, .. }) => Self::Names(vec![name], 0),
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

/// Whether a web lock was broken.
fn is_of_web_lock(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Broken(Some(holder)) if matches!(holder.party, Party::Agent(_)))
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
        Change::LocksVoided { owner, which, at } => Change::LocksVoided { owner, which, at: turned(at) },
        Change::LocksSwept { .. } => change,
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
