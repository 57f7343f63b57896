//! Claims: reservations by token, which end by themselves unless they are made final.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockhouse_core::{
    AssignmentRecord, ClaimGrant, Command, FencingToken, Name, NameBuf, Outcome, Refusal, Seal,
};

use crate::bucket::Shared;
use crate::error::{NotSupported, Quota};
use crate::kept::StoreError;
use crate::local::whole_millis;
use crate::locks::NameArg;
use crate::owner::random_seal;
use crate::secret::{Secret, seal_of};
use crate::snapshot::Holder;

/// The claims and assignments of one bucket.
///
/// A claim says "reserve this now, let me prepare, and make it final only if it is still mine". Only its token gives the right to that: having held it once
/// proves nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// use lockhouse::{ClaimError, House};
///
/// let seats = House::new().bucket("seats").claims();
/// let claim = seats.claim("row 7, seat 12", "ada", Duration::from_secs(600)).await?;
///
/// let taken = seats.claim("row 7, seat 12", "bob", Duration::from_secs(600)).await.unwrap_err();
/// assert!(matches!(taken, ClaimError::Claimed { holder } if holder.client_id == "ada"));
///
/// // After the payment:
/// let assignment = claim.finalize().await?;
/// assert_eq!(assignment.claimant, "ada");
/// # Ok(()) }
/// ```
///
/// Resource and claimant alone make nothing final:
///
/// ```compile_fail
/// # async fn make_final(seats: lockhouse::Claims) {
/// seats.finalize("row 7, seat 12", "ada").await;
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Claims {
    bucket: Arc<Shared>,
}

/// A claim to be; awaiting it claims.
#[derive(Clone, Debug)]
#[must_use = "nothing is claimed unless it is awaited"]
pub struct NewClaim {
    claims: Claims,
    name: Result<NameBuf, NotSupported>,
    claimant: String,
    ttl: Duration,
    metadata: Option<String>,
    idempotency_key: Option<String>,
}

/// A claim, as its claimant sees it. Dropping it changes nothing: it lasts until it is released, made final, or over.
#[derive(Clone, Debug)]
pub struct Claim {
    claims: Claims,
    resource: NameBuf,
    claimant: String,
    token: Secret,
    fencing_token: FencingToken,
    expires_at: SystemTime,
}

/// A current claim, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimInfo {
    /// The resource name.
    pub resource: NameBuf,
    /// Who claims it.
    pub claimant: String,
    /// The fencing token.
    pub fencing_token: FencingToken,
    /// When it began.
    pub since: SystemTime,
    /// When it ends unless it is renewed.
    pub expires_at: SystemTime,
    /// What the claimant said of it.
    pub metadata: Option<String>,
}

/// A claim made final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The resource name.
    pub resource: NameBuf,
    /// To whom it belongs.
    pub claimant: String,
    /// The fencing token of the claim.
    pub fencing_token: FencingToken,
    /// When it became final.
    pub since: SystemTime,
}

/// Why a claim was not made, renewed, released or made final.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Somebody else claims it.
    #[error("claimed by {:?}", holder.client_id)]
    Claimed {
        /// Who, and until when; never the token.
        holder: Box<Holder>,
    },
    /// It is held, or waited for, in another way.
    #[error("busy: {} holders, {queued} waiting", holders.len())]
    Busy {
        /// The first holders, at most 8.
        holders: Vec<Holder>,
        /// How many requests wait for the name.
        queued: u32,
    },
    /// It belongs to somebody.
    #[error("already assigned to {:?}", .0.claimant)]
    AlreadyAssigned(Box<Assignment>),
    /// There is no current claim: it has ended, was released, or was made final and taken back.
    #[error("the claim has expired")]
    ClaimExpired,
    /// There is a current claim, but a newer one.
    #[error("the claim is lost: there is a newer one")]
    ClaimLost,
    /// The bucket recovers from a crash, and grants nothing until then.
    #[error("recovering, for {} ms at most", retry_after.as_millis())]
    Recovering {
        /// When to try again.
        retry_after: Duration,
    },
    /// Nothing is granted any more.
    #[error("the bucket is closed")]
    Closed,
    /// The name is none.
    #[error("not supported: {0}")]
    NotSupported(NotSupported),
    /// A bound was exceeded.
    #[error(transparent)]
    Quota(Quota),
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Claims {
    pub(crate) fn new(bucket: Arc<Shared>) -> Self {
        Self { bucket }
    }

    /// Claims a resource at once or not at all, for `ttl` unless it is renewed.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    ///
    /// # Cancel safety
    ///
    /// A claim that nobody heard of is released, unless it has an idempotency key, with which it can be asked for again.
    pub fn claim<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        claimant: impl Into<String>,
        ttl: Duration,
    ) -> NewClaim {
        let name = owned(resource.into());
        let (claims, claimant) = (self.clone(), claimant.into());
        NewClaim { claims, name, claimant, ttl, metadata: None, idempotency_key: None }
    }

    /// The TTL of the claim with that token runs anew from now; when it then ends.
    ///
    /// # Errors
    ///
    /// [`ClaimError::ClaimExpired`], [`ClaimError::ClaimLost`], [`ClaimError::Store`].
    pub async fn renew<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        token: &Secret,
    ) -> Result<SystemTime, ClaimError> {
        let name = owned(resource.into()).map_err(ClaimError::NotSupported)?;
        let token = self.current(name.as_name(), token)?;
        let command = Command::RenewClaim { name: name.as_name(), token };
        match self.bucket.keep_nothing(command).await? {
            Outcome::ClaimRenewed { expires } => Ok(self.bucket.wall(expires)),
            outcome => Err(self.refused(outcome)),
        }
    }

    /// Gives the claim with that token back: the resource is free at once.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    ///
    /// # Cancel safety
    ///
    /// The claim is given back all the same.
    pub async fn release<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        token: &Secret,
    ) -> Result<(), ClaimError> {
        let name = owned(resource.into()).map_err(ClaimError::NotSupported)?;
        let token = self.current(name.as_name(), token)?;
        let command = Command::ReleaseClaim { name: name.as_name(), token };
        match self.bucket.keep(command, |_| {}).await? {
            Outcome::ClaimReleased => Ok(()),
            outcome => Err(self.refused(outcome)),
        }
    }

    /// Makes the claim with that token final: the resource belongs to its claimant, until that is [taken back](Self::unassign). Checking, assigning and
    /// ending the claim are one; doing it again answers the same.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew); nothing has changed then.
    ///
    /// # Cancel safety
    ///
    /// It may have happened; do it again to know.
    pub async fn finalize<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        token: &Secret,
    ) -> Result<Assignment, ClaimError> {
        let name = owned(resource.into()).map_err(ClaimError::NotSupported)?;
        let name = name.as_name();
        let token = match self.current(name, token)? {
            Some(token) => Some(token),
            None => self.assigned(name, token)?,
        };
        match self.bucket.keep(Command::Finalize { name, token }, |_| {}).await? {
            Outcome::Finalized(record) => Ok(self.describe(*record)),
            outcome => Err(self.refused(outcome)),
        }
    }

    /// The current claim of the resource.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Store`].
    pub async fn get<'a>(&self, resource: impl Into<NameArg<'a>>) -> Result<Option<ClaimInfo>, ClaimError> {
        let name = owned(resource.into()).map_err(ClaimError::NotSupported)?;
        let claim = self.bucket.read(|manager| {
            let claim = manager.claim_of(name.as_name())?;
            Some((
                claim.claimant.to_owned(),
                claim.token,
                claim.since,
                claim.expires,
                claim.metadata.map(str::to_owned),
            ))
        });
        Ok(claim.await?.map(|(claimant, fencing_token, since, expires, metadata)| ClaimInfo {
            resource: name.clone(),
            claimant,
            fencing_token,
            since: self.bucket.wall(since),
            expires_at: self.bucket.wall(expires),
            metadata,
        }))
    }

    /// To whom the resource belongs.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Store`].
    pub async fn assignment<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
    ) -> Result<Option<Assignment>, ClaimError> {
        let name = owned(resource.into()).map_err(ClaimError::NotSupported)?;
        let assignment = self.bucket.read(|manager| {
            let assignment = manager.assignment_of(name.as_name())?;
            Some((assignment.claimant.to_owned(), assignment.token, assignment.since))
        });
        Ok(assignment.await?.map(|(claimant, fencing_token, since)| Assignment {
            resource: name.clone(),
            claimant,
            fencing_token,
            since: self.bucket.wall(since),
        }))
    }

    /// All standing assignments, in the order of their names.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Store`].
    pub async fn assignments(&self) -> Result<Vec<Assignment>, ClaimError> {
        let describe = |assignment: lockhouse_core::AssignmentView<'_>| Assignment {
            resource: assignment.name.clone(),
            claimant: assignment.claimant.to_owned(),
            fencing_token: assignment.token,
            since: self.bucket.wall(assignment.since),
        };
        Ok(self.bucket.read(|manager| manager.assignments().map(describe).collect()).await?)
    }

    /// Takes an assignment back, only the one with that fencing token if one is given, so that the resource can be claimed again; whether there was one.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Store`].
    ///
    /// # Cancel safety
    ///
    /// It is taken back all the same.
    pub async fn unassign<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        token: Option<FencingToken>,
    ) -> Result<bool, ClaimError> {
        let name = owned(resource.into()).map_err(ClaimError::NotSupported)?;
        let command = Command::Unassign { name: name.as_name(), token };
        match self.bucket.keep(command, |_| {}).await? {
            Outcome::Unassigned { was } => Ok(was),
            outcome => Err(self.refused(outcome)),
        }
    }

    /// The fencing token of the current claim, if the token is that claim's.
    fn current(&self, name: Name<'_>, token: &Secret) -> Result<Option<FencingToken>, StoreError> {
        let known =
            self.bucket.with(|state| state.manager().claim_of(name).map(|claim| (claim.token, claim.seal)));
        self.proven(name, token, known)
    }

    /// The fencing token of the assignment, if the token is that of the claim it came from.
    fn assigned(&self, name: Name<'_>, token: &Secret) -> Result<Option<FencingToken>, StoreError> {
        let known =
            self.bucket.with(|state| state.manager().assignment_of(name).map(|it| (it.token, it.seal)));
        self.proven(name, token, known)
    }

    fn proven(
        &self,
        name: Name<'_>,
        token: &Secret,
        known: Option<(FencingToken, Seal)>,
    ) -> Result<Option<FencingToken>, StoreError> {
        let Some((number, seal)) = known else { return Ok(None) };
        Ok((self.token_of(name, number, seal)? == *token).then_some(number))
    }

    fn token_of(&self, name: Name<'_>, number: FencingToken, seal: Seal) -> Result<Secret, StoreError> {
        Ok(Secret::of_claim(self.bucket.secret_key()?, self.bucket.scope(), name, number, seal))
    }

    fn describe(&self, record: AssignmentRecord) -> Assignment {
        Assignment {
            resource: record.name,
            claimant: record.claimant.into(),
            fencing_token: record.token,
            since: self.bucket.wall(record.since),
        }
    }

    fn refused(&self, outcome: Outcome) -> ClaimError {
        let Outcome::Refused(refusal) = outcome else {
            unreachable!("a claim cannot be answered with {outcome:?}")
        };
        let holder = |holder| Holder::new(holder, &|at| self.bucket.wall(at));
        match refusal {
            Refusal::Claimed { holder: by } => ClaimError::Claimed { holder: Box::new(holder(*by)) },
            Refusal::Busy { holders, queued } => {
                ClaimError::Busy { holders: holders.into_iter().map(holder).collect(), queued }
            }
            Refusal::AlreadyAssigned(record) => ClaimError::AlreadyAssigned(Box::new(self.describe(*record))),
            Refusal::ClaimExpired => ClaimError::ClaimExpired,
            Refusal::ClaimLost => ClaimError::ClaimLost,
            Refusal::Recovering { until } => ClaimError::Recovering { retry_after: self.bucket.until(until) },
            Refusal::Closed => ClaimError::Closed,
            quota => ClaimError::Quota(Quota::of(&quota).expect("every other refusal is about a bound")),
        }
    }
}

impl NewClaim {
    /// Something to show to others.
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// Whoever claims the same resource for the same claimant with the same key gets the same claim, as long as it lives: for those who never heard the
    /// answer. Make it hard to guess, as it is as good as the token.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    async fn make(self) -> Result<Claim, ClaimError> {
        let name = self.name.clone().map_err(ClaimError::NotSupported)?;
        let bucket = &self.claims.bucket;
        let seal = match &self.idempotency_key {
            Some(key) => seal_of(bucket.secret_key()?, bucket.scope(), name.as_name(), &self.claimant, key),
            None => random_seal()?,
        };
        let new = lockhouse_core::NewClaim {
            name: name.as_name(),
            claimant: &self.claimant,
            ttl_ms: whole_millis(self.ttl),
            seal,
            metadata: self.metadata.as_deref(),
        };
        let mut unheard = Unheard { bucket, name: name.as_name(), token: None };
        let is_for_good = self.idempotency_key.is_some();
        let outcome = bucket.keep(Command::Claim(new), |outcome| {
            if let Outcome::Claimed(grant) = outcome
                && !is_for_good
            {
                unheard.token = Some(grant.token);
            }
        });
        let outcome = outcome.await?;
        unheard.token = None;
        drop(unheard);
        match outcome {
            Outcome::Claimed(grant) => self.claim(name, grant, seal),
            Outcome::Refused(Refusal::Claimed { .. }) if is_for_good => self.again(name, seal, outcome).await,
            outcome => Err(self.claims.refused(outcome)),
        }
    }

    /// The claim that was made with the same idempotency key, if it is the current one.
    async fn again(self, name: NameBuf, seal: Seal, outcome: Outcome) -> Result<Claim, ClaimError> {
        let known = self.claims.bucket.read(|manager| {
            let claim = manager.claim_of(name.as_name()).filter(|claim| claim.seal == seal)?;
            Some(ClaimGrant { token: claim.token, expires: claim.expires })
        });
        match known.await? {
            Some(grant) => self.claim(name, grant, seal),
            None => Err(self.claims.refused(outcome)),
        }
    }

    fn claim(self, resource: NameBuf, grant: ClaimGrant, seal: Seal) -> Result<Claim, ClaimError> {
        let token = self.claims.token_of(resource.as_name(), grant.token, seal)?;
        let expires_at = self.claims.bucket.wall(grant.expires);
        let (claims, claimant) = (self.claims, self.claimant);
        Ok(Claim { claims, resource, claimant, token, fencing_token: grant.token, expires_at })
    }
}

impl IntoFuture for NewClaim {
    type Output = Result<Claim, ClaimError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

/// Releases a claim that nobody hears of.
struct Unheard<'a> {
    bucket: &'a Arc<Shared>,
    name: Name<'a>,
    token: Option<FencingToken>,
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if self.token.is_some() {
            self.bucket.tell(Command::ReleaseClaim { name: self.name, token: self.token });
        }
    }
}

impl Claim {
    /// The resource name.
    pub fn resource(&self) -> Name<'_> {
        self.resource.as_name()
    }

    /// Who claims it.
    pub fn claimant(&self) -> &str {
        &self.claimant
    }

    /// What gives the right to renew, release and finalize it.
    pub fn token(&self) -> &Secret {
        &self.token
    }

    /// A number that grows with every grant of the bucket, for the fence at the guarded resource.
    pub fn fencing_token(&self) -> FencingToken {
        self.fencing_token
    }

    /// When it ends unless it is renewed, as far as this handle knows.
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    /// As [`Claims::renew`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn renew(&mut self) -> Result<(), ClaimError> {
        self.expires_at = self.claims.renew(&self.resource, &self.token).await?;
        Ok(())
    }

    /// As [`Claims::release`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn release(&self) -> Result<(), ClaimError> {
        self.claims.release(&self.resource, &self.token).await
    }

    /// As [`Claims::finalize`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn finalize(&self) -> Result<Assignment, ClaimError> {
        self.claims.finalize(&self.resource, &self.token).await
    }
}

fn owned(name: NameArg<'_>) -> Result<NameBuf, NotSupported> {
    name.get().map(Name::to_buf).map_err(NotSupported::from)
}
