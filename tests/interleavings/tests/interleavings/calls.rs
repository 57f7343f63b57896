//! The calls whose answers rest on the store.

use std::time::Duration;

use lockhouse::{Bucket, Claim, ClaimError, LockError, Mode, Name, Owner, OwnerError, StoreError};

use crate::durable::Records;

/// The name of all scenarios.
const NAME: &str = "row 7, seat 12";

const TTL: Duration = Duration::from_secs(600);

/// A call that changes something durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    OpenOwner,
    EndOwner,
    Lock,
    Unlock,
    Claim,
    Release,
    Finalize,
    Unassign,
}

/// What the caller has learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// Nothing has happened.
    Refused(String),
    /// It is not known which.
    Unknown,
}

/// A bucket in which the call can be made.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    call: Call,
    bucket: Bucket,
    owner: Option<Owner>,
    claim: Option<Claim>,
}

impl Call {
    /// Makes all that the call needs.
    pub(crate) async fn prepare(self, bucket: Bucket) -> Ready {
        let (mut owner, mut claim) = (None, None);
        match self {
            Self::OpenOwner | Self::Claim => {}
            Self::EndOwner | Self::Lock | Self::Unlock => {
                let opened = bucket.owners().open("ada", TTL).await.expect("nothing is in the way");
                if self != Self::Lock {
                    lock(&opened).await.expect("nothing is in the way");
                }
                owner = Some(opened);
            }
            Self::Release | Self::Finalize | Self::Unassign => {
                let made = bucket.claims().claim(NAME, "ada", TTL).await.expect("nothing is in the way");
                if self == Self::Unassign {
                    made.finalize().await.expect("nothing is in the way");
                }
                claim = Some(made);
            }
        }
        Ready { call: self, bucket, owner, claim }
    }

    /// Whether that is the state after the call, or else the one before.
    pub(crate) fn has_happened(self, records: &Records) -> bool {
        let found = (records.owners(), records.locks(), records.claims(), records.assignments());
        let (before, after) = match self {
            Self::OpenOwner => ((0, 0, 0, 0), (1, 0, 0, 0)),
            Self::EndOwner => ((1, 1, 0, 0), (0, 0, 0, 0)),
            Self::Lock => ((1, 0, 0, 0), (1, 1, 0, 0)),
            Self::Unlock => ((1, 1, 0, 0), (1, 0, 0, 0)),
            Self::Claim => ((0, 0, 0, 0), (0, 0, 1, 0)),
            Self::Release => ((0, 0, 1, 0), (0, 0, 0, 0)),
            Self::Finalize => ((0, 0, 1, 0), (0, 0, 0, 1)),
            Self::Unassign => ((0, 0, 0, 1), (0, 0, 0, 0)),
        };
        assert!(found == before || found == after, "{self:?} left half of it: {records:?}");
        found == after
    }
}

impl Ready {
    fn owner(&self) -> &Owner {
        self.owner.as_ref().expect("a call about an owner has one")
    }

    fn claim(&self) -> &Claim {
        self.claim.as_ref().expect("a call about a claim has one")
    }

    pub(crate) async fn make(&self) -> Answer {
        match self.call {
            Call::OpenOwner => answer(self.bucket.owners().open("grace", TTL).await),
            Call::EndOwner => answer(self.owner().end().await),
            Call::Lock => answer(lock(self.owner()).await),
            Call::Unlock => answer(self.owner().unlock(name(), None).await),
            Call::Claim => answer(self.bucket.claims().claim(NAME, "grace", TTL).await),
            Call::Release => answer(self.claim().release().await),
            Call::Finalize => answer(self.claim().finalize().await),
            Call::Unassign => answer(self.bucket.claims().unassign(NAME, None).await),
        }
    }

    /// Whether a question is answered as after the call; none if it is not answered.
    pub(crate) async fn look(&self) -> Option<bool> {
        let claims = self.bucket.claims();
        match self.call {
            Call::OpenOwner => None,
            Call::EndOwner => {
                match self.bucket.owners().resume(self.owner().id(), self.owner().secret()).await {
                    Ok(_) => Some(false),
                    Err(OwnerError::Unknown) => Some(true),
                    Err(_) => None,
                }
            }
            Call::Lock => self.owner().locks().await.ok().map(|locks| !locks.is_empty()),
            Call::Unlock => self.owner().locks().await.ok().map(|locks| locks.is_empty()),
            Call::Claim => claims.get(NAME).await.ok().map(|claim| claim.is_some()),
            Call::Release => claims.get(NAME).await.ok().map(|claim| claim.is_none()),
            Call::Finalize => claims.assignment(NAME).await.ok().map(|found| found.is_some()),
            Call::Unassign => claims.assignment(NAME).await.ok().map(|found| found.is_none()),
        }
    }

    /// As [`look`](Self::look), at all that is held.
    pub(crate) async fn look_at_all(&self) -> Option<bool> {
        let is_held = !self.bucket.snapshot().await.ok()?.held.is_empty();
        match self.call {
            Call::OpenOwner | Call::Finalize | Call::Unassign => None,
            Call::Lock | Call::Claim => Some(is_held),
            Call::EndOwner | Call::Unlock | Call::Release => Some(!is_held),
        }
    }
}

fn name() -> Name<'static> {
    Name::new(NAME).expect("the name is none of the reserved ones")
}

async fn lock(owner: &Owner) -> Result<(), LockError> {
    let names = [(name(), Mode::Exclusive)];
    owner.lock_names(&names, None).await.map(|_| ())
}

fn answer<T, E: Refusal>(result: Result<T, E>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(error) => match error.of_store() {
            Some(
                StoreError::Unavailable { .. }
                | StoreError::Fenced
                | StoreError::Failed(_)
                | StoreError::Closed
                | StoreError::Denied(_),
            )
            | None => Answer::Refused(format!("{error:?}")),
            Some(_) => Answer::Unknown,
        },
    }
}

/// An error of a call.
trait Refusal: std::fmt::Debug {
    /// The error of the store, if it is one.
    fn of_store(&self) -> Option<&StoreError>;
}

impl Refusal for StoreError {
    fn of_store(&self) -> Option<&StoreError> {
        Some(self)
    }
}

impl Refusal for OwnerError {
    fn of_store(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self { Some(error) } else { None }
    }
}

impl Refusal for LockError {
    fn of_store(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self { Some(error) } else { None }
    }
}

impl Refusal for ClaimError {
    fn of_store(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self { Some(error) } else { None }
    }
}
