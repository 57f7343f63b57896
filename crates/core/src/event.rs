//! What happens to names and owners, for those who look on: nothing that is granted or refused rests on it.

use crate::{
    BrokenBy, ClaimEnd, Discipline, FencingToken, Instant, LockEnd, LossReason, Mode, NameBuf, OwnerEnd,
    OwnerId, RefusalCause,
};

/// Something that has happened to a name, or to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEvent {
    /// When.
    pub at: Instant,
    /// What.
    pub kind: EventKind,
    /// Of which discipline; an owner is of offline locks.
    pub discipline: Discipline,
    /// The name; none of an owner.
    pub name: Option<NameBuf>,
    /// The mode; none of an owner or an assignment.
    pub mode: Option<Mode>,
    /// The client id of a web lock, the label of an owner, or the claimant.
    pub who: Box<str>,
    /// The owner, of an owner or an offline lock.
    pub owner: Option<OwnerId>,
    /// The fencing token of what is held or was held.
    pub token: Option<FencingToken>,
    /// Since when it waits or waited, of a wait and a grant; since when it was held, of its end.
    pub since: Instant,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A request begins to wait.
    Waiting,
    /// A lock or a claim is granted, or a web lock was reclaimed.
    Granted,
    /// A hold has ended, or the wait of a request without a token.
    Ended(EndCause),
    /// Something was refused.
    Refused(RefusalCause),
    /// A claim was made final.
    Assigned,
    /// An assignment was taken back.
    Unassigned,
    /// An owner began.
    OwnerOpened,
    /// An owner has ended.
    OwnerClosed(OwnerEnd),
}

/// Why a hold or a wait has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// Its holder gave it back.
    Released,
    /// The step of the business transaction that took it failed.
    Undone,
    /// The lock became exclusive, with a new token.
    Upgraded,
    /// The lock became shared again, as the step that had upgraded it failed.
    Downgraded,
    /// A request stole the name.
    Stolen,
    /// An operator broke it.
    Broken(BrokenBy),
    /// The time of the claim was over.
    Expired,
    /// The claim was made final.
    Finalized,
    /// The owner of the lock has ended.
    WithOwner(OwnerEnd),
    /// The longest hold of the web lock was over.
    MaxHold,
    /// A younger lock that excludes it was reclaimed.
    Superseded,
    /// The lease of the agent ran out.
    Lease,
    /// The holder did not come back for its lock after a restart.
    NotReclaimed,
    /// The agent has ended.
    AgentEnded,
    /// The request was taken back while it waited.
    Aborted,
    /// The request was to wait for the end of a recovery only, and the name was not free then.
    Unavailable,
}

impl From<&LockEnd> for EndCause {
    fn from(end: &LockEnd) -> Self {
        match end {
            LockEnd::Released => Self::Released,
            LockEnd::Undone => Self::Undone,
            LockEnd::Stolen => Self::Stolen,
            LockEnd::Broken(by) => Self::Broken(by.clone()),
            LockEnd::WithOwner(end) => Self::WithOwner(*end),
        }
    }
}

impl From<&ClaimEnd> for EndCause {
    fn from(end: &ClaimEnd) -> Self {
        match end {
            ClaimEnd::Released => Self::Released,
            ClaimEnd::Expired => Self::Expired,
            ClaimEnd::Stolen => Self::Stolen,
            ClaimEnd::Broken(by) => Self::Broken(by.clone()),
        }
    }
}

impl EndCause {
    /// Of a web lock that its holder loses. `operator` breaks it, if one does.
    pub(crate) fn of_loss(reason: &LossReason, operator: Option<&str>) -> Self {
        match reason {
            LossReason::Stolen => Self::Stolen,
            LossReason::Expired => Self::MaxHold,
            LossReason::Superseded => Self::Superseded,
            LossReason::Broken { reason } => Self::Broken(BrokenBy {
                operator: operator.unwrap_or_default().into(),
                reason: reason.clone(),
            }),
        }
    }
}

impl TableEvent {
    /// How much memory it takes, about.
    pub fn bytes(&self) -> usize {
        let said = match &self.kind {
            EventKind::Ended(EndCause::Broken(by)) => {
                by.operator.len() + by.reason.as_ref().map_or(0, |reason| reason.len())
            }
            _ => 0,
        };
        let name = self.name.as_ref().map_or(0, |name| name.as_name().as_wtf8().len());
        size_of::<Self>() + name + self.who.len() + said
    }
}
