//! Claims of a bucket in this process.

use std::sync::Arc;
use std::time::SystemTime;

use lockhouse_core::{
    AssignmentRecord, AssignmentView, ClaimGrant, Command, FencingToken, Name, NameBuf, Outcome, Refusal,
    SecretSeed,
};

use super::{Claim, Claims, Terms};
use crate::claims::error::ClaimError;
use crate::claims::info::{Assignment, ClaimInfo};
use crate::engine::bucket::shared::Shared;
use crate::error::{Quota, StoreError};
use crate::location::BucketLocation;
use crate::secret::{Secret, random_seed, seed_of};
use crate::snapshot::Holder;
use crate::whole_millis::whole_millis;

pub(super) async fn claim(
    bucket: &Arc<Shared>,
    resource: NameBuf,
    terms: Terms,
) -> Result<Claim, ClaimError> {
    let name = resource.as_name();
    // Without the key nothing may begin, as its claimant would not learn the token.
    bucket.secret_key()?;
    let seed = match &terms.idempotency_key {
        Some(key) => seed_of(bucket.secret_key()?, bucket.scope(), name, &terms.claimant, key),
        None => random_seed()?,
    };
    let command = Command::Claim(lockhouse_core::NewClaim {
        name,
        claimant: &terms.claimant,
        ttl_ms: whole_millis(terms.ttl),
        seed,
        metadata: terms.metadata.as_deref(),
    });
    let mut release_on_drop = ReleaseOnDrop { bucket, name, token: None };
    let is_for_good = terms.idempotency_key.is_some();
    let outcome = bucket.execute_durable(command, |outcome| {
        if let Outcome::Claimed(grant) = outcome
            && !is_for_good
        {
            release_on_drop.token = Some(grant.token);
        }
    });
    let outcome = outcome.await?;
    release_on_drop.token = None;
    drop(release_on_drop);
    let grant = match outcome {
        Outcome::Claimed(grant) => grant,
        // The repeat of a claim that stands is told that claim, although no other would be granted now.
        Outcome::Refused(
            Refusal::Claimed { .. }
            | Refusal::BudgetExceeded { .. }
            | Refusal::Recovering { .. }
            | Refusal::Closed,
        ) if is_for_good => match again(bucket, name, seed).await? {
            Some(grant) => grant,
            None => return Err(refused(bucket, outcome)),
        },
        outcome => return Err(refused(bucket, outcome)),
    };
    let token = token_of(bucket, name, grant.token, seed)?;
    let claims = Claims::new(BucketLocation::Local(bucket.clone()));
    Ok(Claim {
        claims,
        resource,
        claimant: terms.claimant,
        token,
        fencing_token: grant.token,
        expires_at: bucket.wall(grant.expires),
    })
}

/// The claim that was made with the same idempotency key, if it is the current one.
async fn again(
    bucket: &Arc<Shared>,
    name: Name<'_>,
    seed: SecretSeed,
) -> Result<Option<ClaimGrant>, StoreError> {
    let now = bucket.environment.clock.now();
    let known = bucket.execute_read(|manager| {
        let claim = manager.claim_of(name).filter(|claim| claim.seed == seed && claim.expires > now)?;
        Some(ClaimGrant { token: claim.token, expires: claim.expires })
    });
    known.await
}

/// Releases a claim whose caller has gone.
struct ReleaseOnDrop<'a> {
    bucket: &'a Arc<Shared>,
    name: Name<'a>,
    token: Option<FencingToken>,
}

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        if self.token.is_some() {
            self.bucket.execute(Command::ReleaseClaim { name: self.name, token: self.token });
        }
    }
}

pub(super) async fn renew(
    bucket: &Arc<Shared>,
    name: Name<'_>,
    token: &Secret,
) -> Result<SystemTime, ClaimError> {
    let token = known(bucket, name, token)?;
    match bucket.execute_volatile(Command::RenewClaim { name, token }, None).await? {
        Outcome::ClaimRenewed { expires } => Ok(bucket.wall(expires)),
        outcome => Err(refused(bucket, outcome)),
    }
}

pub(super) async fn release(bucket: &Arc<Shared>, name: Name<'_>, token: &Secret) -> Result<(), ClaimError> {
    let token = known(bucket, name, token)?;
    match bucket.execute_durable(Command::ReleaseClaim { name, token }, |_| {}).await? {
        Outcome::ClaimReleased => Ok(()),
        outcome => Err(refused(bucket, outcome)),
    }
}

pub(super) async fn finalize(
    bucket: &Arc<Shared>,
    name: Name<'_>,
    token: &Secret,
) -> Result<Assignment, ClaimError> {
    let token = known(bucket, name, token)?;
    match bucket.execute_durable(Command::Finalize { name, token }, |_| {}).await? {
        Outcome::Finalized(record) => Ok(describe(bucket, *record)),
        outcome => Err(refused(bucket, outcome)),
    }
}

pub(super) async fn get(bucket: &Arc<Shared>, name: Name<'_>) -> Result<Option<ClaimInfo>, ClaimError> {
    let claim = bucket.execute_read(|manager| {
        let claim = manager.claim_of(name)?;
        Some(ClaimInfo {
            resource: name.to_buf(),
            claimant: claim.claimant.to_owned(),
            fencing_token: claim.token,
            since: bucket.wall(claim.since),
            expires_at: bucket.wall(claim.expires),
            metadata: claim.metadata.map(str::to_owned),
        })
    });
    Ok(claim.await?)
}

pub(super) async fn assignment(
    bucket: &Arc<Shared>,
    name: Name<'_>,
) -> Result<Option<Assignment>, ClaimError> {
    let found = bucket.execute_read(|manager| manager.assignment_of(name).map(|it| view(bucket, it)));
    Ok(found.await?)
}

pub(super) async fn assignments(bucket: &Arc<Shared>) -> Result<Vec<Assignment>, ClaimError> {
    Ok(bucket.execute_read(|manager| manager.assignments().map(|it| view(bucket, it)).collect()).await?)
}

pub(super) async fn unassign(
    bucket: &Arc<Shared>,
    name: Name<'_>,
    token: Option<FencingToken>,
) -> Result<bool, ClaimError> {
    match bucket.execute_durable(Command::Unassign { name, token }, |_| {}).await? {
        Outcome::Unassigned { was } => Ok(was),
        outcome => Err(refused(bucket, outcome)),
    }
}

/// The fencing token of the current claim or else of the assignment, if the token is that of this claim or of
/// the one that was made final.
fn known(bucket: &Arc<Shared>, name: Name<'_>, token: &Secret) -> Result<Option<FencingToken>, StoreError> {
    match current(bucket, name, token)? {
        Some(token) => Ok(Some(token)),
        None => assigned(bucket, name, token),
    }
}

fn current(bucket: &Arc<Shared>, name: Name<'_>, token: &Secret) -> Result<Option<FencingToken>, StoreError> {
    let known = bucket.with(|state| state.manager().claim_of(name).map(|claim| (claim.token, claim.seed)));
    proven(bucket, name, token, known)
}

fn assigned(
    bucket: &Arc<Shared>,
    name: Name<'_>,
    token: &Secret,
) -> Result<Option<FencingToken>, StoreError> {
    let known = bucket.with(|state| state.manager().assignment_of(name).map(|it| (it.token, it.seed)));
    proven(bucket, name, token, known)
}

fn proven(
    bucket: &Shared,
    name: Name<'_>,
    token: &Secret,
    known: Option<(FencingToken, SecretSeed)>,
) -> Result<Option<FencingToken>, StoreError> {
    let Some((number, seed)) = known else { return Ok(None) };
    Ok((token_of(bucket, name, number, seed)? == *token).then_some(number))
}

fn token_of(
    bucket: &Shared,
    name: Name<'_>,
    number: FencingToken,
    seed: SecretSeed,
) -> Result<Secret, StoreError> {
    Ok(Secret::of_claim(bucket.secret_key()?, bucket.scope(), name, number, seed))
}

pub(crate) fn view(bucket: &Shared, assignment: AssignmentView<'_>) -> Assignment {
    Assignment {
        resource: assignment.name.clone(),
        claimant: assignment.claimant.to_owned(),
        fencing_token: assignment.token,
        since: bucket.wall(assignment.since),
    }
}

fn describe(bucket: &Shared, record: AssignmentRecord) -> Assignment {
    Assignment {
        resource: record.name,
        claimant: record.claimant.into(),
        fencing_token: record.token,
        since: bucket.wall(record.since),
    }
}

fn refused(bucket: &Shared, outcome: Outcome) -> ClaimError {
    let Outcome::Refused(refusal) = outcome else {
        unreachable!("a claim cannot be answered with {outcome:?}")
    };
    let holder = |holder| Holder::new(holder, &|at| bucket.wall(at));
    match refusal {
        Refusal::Claimed { holder: by } => ClaimError::Claimed { holder: Box::new(holder(*by)) },
        Refusal::Busy { holders, queued } => {
            ClaimError::Busy { holders: holders.into_iter().map(holder).collect(), queued }
        }
        Refusal::AlreadyAssigned(record) => ClaimError::AlreadyAssigned(Box::new(describe(bucket, *record))),
        Refusal::ClaimExpired => ClaimError::ClaimExpired,
        Refusal::ClaimLost { assigned } => {
            ClaimError::ClaimLost { assigned: assigned.map(|record| Box::new(describe(bucket, *record))) }
        }
        Refusal::Recovering { until } => ClaimError::Recovering { retry_after: bucket.until(until) },
        Refusal::Closed => ClaimError::Closed,
        quota => ClaimError::Quota(Quota::of(&quota).expect("every other refusal is about a bound")),
    }
}
