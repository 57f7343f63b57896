//! Owners of a bucket in this process.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{
    Acquired, Command, FencingToken, Limits, LockRecord, Mode, Name, NameBuf, NewLocks, Outcome, OwnedLock,
    OwnerId, Refusal, SecretSeed, Unlock,
};

use super::{NewOwner, Owner};
use crate::engine::bucket::results::StepResult;
use crate::engine::bucket::shared::Shared;
use crate::error::{Quota, StoreError};
use crate::location::BucketLocation;
use crate::owners::error::{Conflict, LockError, OwnerError};
use crate::owners::lock::{Acquisition, OfflineLock, OwnerInfo};
use crate::secret::{Secret, random_seed, seed_of_owner};
use crate::snapshot::Holder;
use crate::whole_millis::whole_millis;

pub(super) async fn open(bucket: &Arc<Shared>, new: &NewOwner) -> Result<Owner, OwnerError> {
    let max_ms = new.max_life.map(whole_millis);
    Quota::check_max_life(max_ms, &bucket.environment.bounds.limits).map_err(OwnerError::Quota)?;
    // Without the key nothing may begin, as its caller would not learn the secret.
    let secret_key = bucket.secret_key()?;
    let seed = match &new.key {
        Some(key) => seed_of_owner(secret_key, bucket.scope(), key.caller.as_deref(), &key.text),
        None => random_seed()?,
    };
    let terms = lockhouse_core::NewOwner {
        label: &new.label,
        metadata: new.metadata.as_deref(),
        ttl_ms: whole_millis(new.ttl),
        max_ms,
        seed,
    };
    let outcome = if new.key.is_some() {
        bucket.open_owner_once(&terms).await?.ok_or(OwnerError::KeyMismatch)?
    } else {
        let mut end_on_drop = EndOnDrop { bucket, owner: None };
        let opened = bucket.execute_durable(Command::OpenOwner(terms), |outcome| end_on_drop.note(outcome));
        let outcome = opened.await?;
        end_on_drop.owner = None;
        outcome
    };
    match outcome {
        Outcome::OwnerOpened(id) => Ok(Owner {
            location: BucketLocation::Local(bucket.clone()),
            id,
            secret: secret_of(bucket, id, seed)?,
        }),
        Outcome::Refused(refusal) => Err(refusal.into()),
        outcome => unreachable!("an owner cannot begin with {outcome:?}"),
    }
}

/// Ends an owner whose caller has gone.
struct EndOnDrop<'a> {
    bucket: &'a Arc<Shared>,
    owner: Option<OwnerId>,
}

impl EndOnDrop<'_> {
    fn note(&mut self, outcome: &Outcome) {
        if let Outcome::OwnerOpened(owner) = outcome {
            self.owner = Some(*owner);
        }
    }
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(owner) = self.owner {
            self.bucket.execute(Command::EndOwner { owner });
        }
    }
}

pub(super) async fn resume(bucket: &Arc<Shared>, id: OwnerId, secret: &Secret) -> Result<Owner, OwnerError> {
    let owner = identify(bucket, id, secret).await?;
    if touch(bucket, &owner).await? { Ok(owner) } else { Err(OwnerError::Unknown) }
}

pub(super) async fn identify(
    bucket: &Arc<Shared>,
    id: OwnerId,
    secret: &Secret,
) -> Result<Owner, OwnerError> {
    let seed = bucket.look_at(|manager| manager.owner(id).map(|owner| owner.seed))?;
    let expected = seed.ok_or(OwnerError::Unknown).and_then(|seed| secret_of(bucket, id, seed));
    match expected {
        // The secret was returned only once the owner's beginning was durable, and nothing else is returned
        // here.
        Ok(expected) if expected == *secret => {
            Ok(Owner { location: BucketLocation::Local(bucket.clone()), id, secret: expected })
        }
        refused => {
            bucket.execute_read(|_| ()).await?;
            Err(refused.err().unwrap_or(OwnerError::WrongSecret))
        }
    }
}

/// `note` gets the granted locks before they are durable.
pub(super) async fn lock(
    bucket: &Arc<Shared>,
    owner: &Owner,
    locks: &[(Name<'_>, Mode)],
    metadata: Option<&str>,
    note: impl FnOnce(Vec<OfflineLock>),
) -> Result<Vec<OfflineLock>, LockError> {
    let described = |granted: &[OwnedLock]| {
        let both = locks.iter().zip(granted);
        both.map(|((name, _), lock)| OfflineLock::new(name.to_buf(), *lock)).collect::<Vec<_>>()
    };
    let command = Command::Lock(NewLocks { owner: owner.id, locks, metadata });
    let outcome = bucket.execute_durable(command, |outcome| {
        if let Outcome::Locked(granted) = outcome {
            note(described(granted));
        }
    });
    match outcome.await? {
        Outcome::Locked(granted) => Ok(described(&granted)),
        Outcome::Refused(refusal) => Err(refused(bucket, refusal)),
        outcome => unreachable!("locks cannot be answered with {outcome:?}"),
    }
}

pub(super) async fn give_back(
    bucket: &Arc<Shared>,
    owner: &Owner,
    locks: Unlock<'_>,
) -> Result<usize, StoreError> {
    match bucket.execute_durable(Command::Unlock { owner: owner.id, locks }, |_| {}).await? {
        Outcome::Unlocked { count } => Ok(count),
        outcome => unreachable!("an unlock cannot be answered with {outcome:?}"),
    }
}

pub(super) async fn commit_step(
    bucket: &Arc<Shared>,
    owner: &Owner,
    held: &[(Name<'_>, Option<FencingToken>)],
    release: Option<Unlock<'_>>,
) -> Result<usize, LockError> {
    match bucket.end_step(owner.id, held, release).await? {
        StepResult::Succeeded { released } => Ok(released),
        StepResult::OwnerEnded => Err(LockError::OwnerEnded),
        StepResult::Lost(names) => Err(LockError::Lost(names)),
    }
}

pub(super) async fn undo(
    bucket: &Arc<Shared>,
    owner: &Owner,
    locks: &[Acquisition],
) -> Result<usize, StoreError> {
    let mut undone = 0;
    for locks in in_commands(locks) {
        let command = Command::Undo { owner: owner.id, locks: &locks };
        let outcome = bucket.execute_durable(command, |_| {}).await;
        match outcome.map_err(|error| error.after_a_part(undone > 0))? {
            Outcome::Undone { count } => undone += count,
            outcome => unreachable!("an undo cannot be answered with {outcome:?}"),
        }
    }
    Ok(undone)
}

/// As [`undo`], at once, for callers that cannot wait for the answer.
pub(super) fn undo_now(bucket: &Arc<Shared>, owner: &Owner, locks: &[Acquisition]) {
    for locks in in_commands(locks) {
        bucket.execute(Command::Undo { owner: owner.id, locks: &locks });
    }
}

/// The locks to be taken back, in parts that every store can write as a whole.
fn in_commands(locks: &[Acquisition]) -> Vec<Vec<lockhouse_core::GrantToUndo<'_>>> {
    let taken = locks.iter().filter(|acquired| acquired.lock.how != Acquired::AlreadyHeld);
    let taken: Vec<_> = taken
        .map(|Acquisition { lock: OfflineLock { name, token, how, .. }, again }| {
            let name = name.as_name();
            lockhouse_core::GrantToUndo { name, token: *token, how: *how, repeats: *again }
        })
        .collect();
    taken.chunks(Limits::DEFAULT.locks_per_command).map(<[_]>::to_vec).collect()
}

pub(super) async fn locks(bucket: &Arc<Shared>, owner: &Owner) -> Result<Vec<OfflineLock>, StoreError> {
    let locks = bucket.execute_read(|manager| manager.locks_of(owner.id).map(OfflineLock::from).collect());
    let locks = locks.await?;
    touch(bucket, owner).await?;
    Ok(locks)
}

pub(super) async fn has_lock(
    bucket: &Arc<Shared>,
    owner: &Owner,
    name: Name<'_>,
) -> Result<Option<OfflineLock>, StoreError> {
    let lock = bucket.execute_read(|manager| manager.lock_of(owner.id, name).map(OfflineLock::from)).await?;
    touch(bucket, owner).await?;
    Ok(lock)
}

pub(super) async fn touch(bucket: &Arc<Shared>, owner: &Owner) -> Result<bool, StoreError> {
    // The command writes nothing, so that it works while the store cannot write.
    let outcome = bucket.execute_volatile(Command::Touch { owner: owner.id }, None).await?;
    Ok(outcome == Outcome::Renewed { alive: true })
}

pub(super) async fn info(bucket: &Arc<Shared>, owner: &Owner) -> Result<Option<OwnerInfo>, StoreError> {
    touch(bucket, owner).await?;
    look(bucket, owner.id).await
}

pub(super) async fn look(bucket: &Arc<Shared>, id: OwnerId) -> Result<Option<OwnerInfo>, StoreError> {
    let describe = |owner: lockhouse_core::OwnerView<'_>| OwnerInfo {
        label: owner.label.to_owned(),
        metadata: owner.metadata.map(str::to_owned),
        ttl: Duration::from_millis(owner.ttl_ms),
        since: bucket.wall(owner.since),
        expires_at: bucket.wall(owner.expires),
        ends_at: owner.ends.map(|ends| bucket.wall(ends)),
    };
    // While the owner lives: its beginning is durable, and the changes with its activity are never written.
    // Its end is reported once that is durable.
    let seen = bucket.look_at(|manager| manager.owner(id).map(describe))?;
    if seen.is_none() {
        bucket.execute_read(|_| ()).await?;
    }
    Ok(seen)
}

pub(super) async fn end(bucket: &Arc<Shared>, owner: &Owner) -> Result<bool, StoreError> {
    match bucket.execute_durable(Command::EndOwner { owner: owner.id }, |_| {}).await? {
        Outcome::Ended { alive } => Ok(alive),
        outcome => unreachable!("an end cannot be answered with {outcome:?}"),
    }
}

fn refused(bucket: &Shared, refusal: Refusal) -> LockError {
    match refusal {
        Refusal::Conflict(conflicts) => {
            LockError::Conflict(conflicts.into_iter().map(|it| conflict(bucket, it)).collect())
        }
        Refusal::UnknownOwner => LockError::OwnerEnded,
        Refusal::Recovering { until } => LockError::Recovering { retry_after: bucket.until(until) },
        Refusal::Closed => LockError::Closed,
        quota => LockError::Quota(Quota::of(&quota).expect("every other refusal is about a bound")),
    }
}

fn conflict(bucket: &Shared, conflict: lockhouse_core::Conflict) -> Conflict {
    let lockhouse_core::Conflict { name, holders, queued } = conflict;
    let holders = holders.into_iter().map(|holder| Holder::new(holder, &|at| bucket.wall(at))).collect();
    Conflict { name, holders, queued }
}

impl OfflineLock {
    fn new(name: NameBuf, OwnedLock { token, mode, how }: OwnedLock) -> Self {
        Self { name, mode, token, how }
    }
}

impl From<LockRecord> for OfflineLock {
    fn from(record: LockRecord) -> Self {
        let how = Acquired::AlreadyHeld;
        Self { name: record.name, mode: record.mode, token: record.token, how }
    }
}

fn secret_of(bucket: &Shared, owner: OwnerId, seed: SecretSeed) -> Result<Secret, OwnerError> {
    Ok(Secret::of_owner(bucket.secret_key()?, bucket.scope(), owner, seed))
}
