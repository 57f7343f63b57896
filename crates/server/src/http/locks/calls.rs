//! The API's calls about locks.

use lockhouse::core::Unlock;
use lockhouse::{
    Acquisition, BucketKey, FencingToken, LockType, Mode, Name, NameBuf, OfflineLock, RecordKind,
};

use super::bodies::{
    GrantedLock, HeldLock, HeldLocks, How, Intent, LockTarget, Lockable, Locked, NewLocks, OldLocks,
    RecordId, Regretted, Release, Unwanted,
};
use crate::http::calls::{OwnerKey, bucket, charge_locks, expiry, expiry_or, resume};
use crate::http::dto::{JsonAnswer, JsonName, record_of};
use crate::http::problem::Problem;
use crate::http::query::page::{Cut, Page, Position};
use crate::http::query::snapshot::{json_answer, look};
use crate::http::request::decode::ApiResult;
use crate::limits::block_in_place_if_large;
use crate::state::AppState;

pub(crate) async fn lock(
    state: &AppState,
    key: &BucketKey,
    owner: &OwnerKey,
    new: &NewLocks,
) -> ApiResult<Locked> {
    charge_locks(state, key, new.locks.len())?;
    let bucket = bucket(state, key)?;
    let owner = resume(state, &bucket, owner).await?;
    let wanted: Vec<_> = new.locks.iter().map(|wanted| name_and_mode(state, wanted)).collect();
    let needed = wanted.iter().filter_map(|(name, mode)| Some((name.as_name(), (*mode)?)));
    let needed: Vec<_> = needed.collect();
    let expires_before = expiry(&bucket, &owner).await?;
    let granted = owner.lock_names(&needed, new.metadata.as_deref()).await?;
    let mut granted = granted.into_iter();
    let locks = new.locks.iter().zip(wanted).map(|(asked, (name, mode))| {
        let (record, intent) = match asked {
            LockTarget::Record { record, intent } => {
                ((record.kind.clone(), record.id.clone()), Some(*intent))
            }
            LockTarget::Name { name, .. } => (record_of(name).unwrap_or_default(), None),
        };
        // Records that need no lock are left out of what was granted.
        let lock = mode.and_then(|_| granted.next());
        GrantedLock {
            kind: record.0,
            id: record.1,
            intent,
            mode: lock.as_ref().map(|lock| lock.mode.into()),
            name: JsonName(name),
            fencing_token: lock.as_ref().map(|lock| lock.token.get()),
            how: lock.map_or(How::NotNeeded, |lock| lock.how.into()),
        }
    });
    let locks = locks.collect();
    let expires_at = expiry_or(&bucket, &owner, expires_before).await?;
    Ok(Locked { owner: owner.id().to_string(), expires_at, locks })
}

/// The name to be locked, and the mode, if it needs a lock at all.
fn name_and_mode(state: &AppState, wanted: &LockTarget) -> (NameBuf, Option<Mode>) {
    match wanted {
        LockTarget::Name { name, mode } => (name.clone(), Some(*mode)),
        LockTarget::Record { record, intent } => {
            let record = kind_of(state, &record.kind).record(&record.id);
            let wanted = match intent {
                Intent::Read => record.for_read(),
                Intent::Write => record.for_write(),
            };
            (wanted.name().to_buf(), wanted.mode())
        }
    }
}

fn kind_of(state: &AppState, kind: &str) -> RecordKind {
    RecordKind::new(kind, state.config.lock_types.get(kind).copied().unwrap_or(LockType::ReadWrite))
}

fn name_of(lockable: &Lockable) -> NameBuf {
    match lockable {
        Lockable::Name(name) => name.clone(),
        // The lock type has no say in the name.
        Lockable::Record(RecordId { kind, id }) => {
            RecordKind::new(&**kind, LockType::ReadWrite).record(id).name().to_buf()
        }
    }
}

pub(crate) async fn unlock(
    state: &AppState,
    key: &BucketKey,
    owner: &OwnerKey,
    old: &OldLocks,
) -> ApiResult<usize> {
    // The release of unnamed locks was paid for when they were locked.
    let named = match &old.release {
        None => 0,
        Some(Release::These(unwanted)) => unwanted.len(),
        Some(Release::AllBut(spared)) => spared.len(),
    };
    charge_locks(state, key, named + old.holding.len())?;
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    let named = |locks: &[Unwanted]| -> Vec<_> {
        locks.iter().map(|it| (name_of(&it.lockable), it.token.map(FencingToken::new))).collect()
    };
    let holding = named(&old.holding);
    let holding = borrowed(&holding);
    let released = match &old.release {
        None => owner.commit_step(&holding, None).await,
        Some(Release::These(unwanted)) => {
            let names = named(unwanted);
            owner.commit_step(&holding, Some(Unlock::These(&borrowed(&names)))).await
        }
        Some(Release::AllBut(spared)) => {
            let names: Vec<_> = spared.iter().map(name_of).collect();
            let spared: Vec<_> = names.iter().map(NameBuf::as_name).collect();
            owner.commit_step(&holding, Some(Unlock::AllBut(&spared))).await
        }
    };
    // Without tokens a repeat may release what another step of the owner has locked again.
    released.map_err(
        |error| if is_by_token(old) { error.into() } else { Box::<Problem>::from(error).never_again() },
    )
}

/// Whether tokens say which locks are meant, so that a repeat releases no others.
fn is_by_token(old: &OldLocks) -> bool {
    match &old.release {
        None => true,
        Some(Release::These(unwanted)) => unwanted.iter().all(|it| it.token.is_some()),
        Some(Release::AllBut(_)) => false,
    }
}

fn borrowed(locks: &[(NameBuf, Option<FencingToken>)]) -> Vec<(Name<'_>, Option<FencingToken>)> {
    locks.iter().map(|(name, token)| (name.as_name(), *token)).collect()
}

pub(crate) async fn undo(
    state: &AppState,
    key: &BucketKey,
    owner: &OwnerKey,
    regretted: &[Regretted],
) -> ApiResult<usize> {
    charge_locks(state, key, regretted.len())?;
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    let lock = |it: &Regretted| {
        let (name, token) = (it.name.clone(), FencingToken::new(it.token));
        // The mode does not decide which lock is taken back.
        let lock = OfflineLock { name, mode: Mode::Exclusive, token, how: it.how };
        Acquisition { lock, again: it.again }
    };
    let locks: Vec<_> = regretted.iter().map(lock).collect();
    Ok(owner.undo(&locks).await?)
}

/// A page of the offline locks that are wanted.
pub(crate) async fn list(
    state: &AppState,
    key: &BucketKey,
    cut: &Cut,
    is_wanted: impl Fn(&HeldLock) -> bool,
) -> ApiResult<JsonAnswer> {
    let bucket = bucket(state, key)?;
    let mut seen = look(state, &bucket).await?;
    block_in_place_if_large(seen.size(), || {
        let locks = seen.take().filter_map(|entry| {
            let at = Position::of(&entry, cut.order);
            HeldLock::of(entry).filter(&is_wanted).map(|lock| (at, lock))
        });
        let Page { entries: locks, next } = cut.page(locks);
        json_answer(state, bucket.key().tenant(), &HeldLocks { locks, next })
    })
}
