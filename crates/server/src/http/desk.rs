//! Where the API meets the lock tables: what it asks of a bucket, and how it tells what it hears.

use std::collections::HashMap;
use std::time::Duration;

use lockhouse::core::{Acquired, OwnerId};
use lockhouse::{
    Acquisition, Bucket, BucketKey, ClaimError, FencingToken, HolderKind, LockError, LockInfo, LockType,
    Mode, Name, NameBuf, OfflineLock, Owner, OwnerError, Quota, RecordKind, Secret, State, StoreError,
};
use percent_encoding::percent_decode_str;

use super::access::charge_more;
use super::claims::{Assignment, ClaimKey, ClaimState, Claimed, NewClaim, Renewed};
use super::entries::{Entry, EntryKind, EntryState};
use super::locks::{
    GrantedLock, HeldLock, How, Intent, Lockable, Locked, NewLocks, Record, Regretted, Release, Wanted,
};
use super::looks::{look, tell};
use super::owners::{Beat, NewOwner, OpenedOwner, OwnerState};
use super::parameters::{Asker, Shown, unauthorized};
use super::problem::{Code, Problem};
use super::read::Read;
use super::views::{At, Conflict, HoldKind, Holder, JsonName, ModeWord, Told};
use crate::audit::Named;
use crate::limits::{QUOTA, Refused, apart};
use crate::recent::STAY;
use crate::state::{AppState, Phase};

/// Who speaks for an owner.
pub(super) struct OwnerKey {
    pub(super) owner: u64,
    pub(super) secret: Shown,
}

/// For how long a server that stops is away, about.
const RESTART: Duration = Duration::from_secs(1);

/// Every call comes here once.
pub(super) fn bucket(state: &AppState, key: &BucketKey) -> Read<Bucket> {
    let most = state.bounds.settings().buckets_per_tenant;
    let room = state.recent.bucket(&state.house, key, most as usize);
    let bucket = room.ok_or_else(|| {
        state.bounds.refuse(Refused::BucketsPerTenant);
        let rule = format!("one of at most {most} of a tenant that are in use at once");
        Problem::field(Code::QuotaExceeded, "bucket", rule).retry_after(STAY)
    })?;
    if state.phase() != Phase::Running {
        // It may have come after all others were closed.
        bucket.close();
    }
    Ok(bucket)
}

/// Charges for a call that names so many locks: it costs as much as so many calls with one.
fn charge_locks(state: &AppState, key: &BucketKey, count: usize) -> Read<()> {
    charge_more(state, key.tenant(), count.saturating_sub(1))
}

pub(super) async fn open_owner(state: &AppState, key: &BucketKey, new: &NewOwner) -> Read<OpenedOwner> {
    let mut opening = bucket(state, key)?.owners().open(&*new.label, Duration::from_millis(new.ttl_ms));
    if let Some(max_ms) = new.max_ms {
        opening = opening.max_life(Duration::from_millis(max_ms));
    }
    if let Some(metadata) = &new.metadata {
        opening = opening.metadata(&**metadata);
    }
    let owner = opening.await.map_err(of_owner)?;
    let info = owner.info().await.map_err(of_store)?.ok_or_else(unknown_owner)?;
    Ok(OpenedOwner {
        owner: owner.id().to_string(),
        owner_secret: owner.secret().reveal(),
        label: info.label,
        ttl_ms: info.ttl.as_millis() as u64,
        expires_at: At(info.expires_at),
        ends_at: info.ends_at.map(At),
    })
}

async fn resume(state: &AppState, bucket: &Bucket, key: &OwnerKey) -> Read<Owner> {
    let resumed = match key.secret.text.parse::<Secret>() {
        Ok(secret) => bucket.owners().resume(OwnerId::new(key.owner), &secret).await,
        // What is no secret at all is the secret of no owner.
        Err(_) => Err(OwnerError::WrongSecret),
    };
    resumed.map_err(|error| {
        if error == OwnerError::WrongSecret {
            key.secret.asker.deny(state, &key.owner, &"not the secret of the owner");
        }
        of_owner(error)
    })
}

pub(super) async fn heartbeat(state: &AppState, key: &BucketKey, owner: &OwnerKey) -> Read<Beat> {
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    if !owner.touch().await.map_err(of_store)? {
        return Err(unknown_owner());
    }
    Ok(Beat { owner: owner.id().to_string(), expires_at: expiry(&owner).await? })
}

async fn expiry(owner: &Owner) -> Read<At> {
    owner.expires_at().await.map_err(of_store)?.map(At).ok_or_else(unknown_owner)
}

pub(super) async fn owner(state: &AppState, key: &BucketKey, owner: &OwnerKey) -> Read<Told> {
    let bucket = bucket(state, key)?;
    let owner = resume(state, &bucket, owner).await?;
    let info = owner.info().await.map_err(of_store)?.ok_or_else(unknown_owner)?;
    let id = owner.id().to_string();
    let mut seen = look(state, &bucket).await?;
    // In its own order: oldest first.
    let locks = owner.locks().await.map_err(of_store)?.into_iter();
    apart(seen.size(), || {
        let mut of_owner: HashMap<_, _> = seen
            .take()
            .filter(|entry| entry.owner.as_ref() == Some(&id))
            .map(|entry| (entry.name.0.clone(), entry))
            .collect();
        let shown = OwnerState {
            locks: locks.filter_map(|lock| of_owner.remove(&lock.name).and_then(HeldLock::of)).collect(),
            owner: id,
            label: info.label,
            metadata: info.metadata,
            since: At(info.since),
            ttl_ms: info.ttl.as_millis() as u64,
            expires_at: At(info.expires_at),
            ends_at: info.ends_at.map(At),
        };
        tell(state, &bucket, &shown)
    })
}

pub(super) async fn end_owner(state: &AppState, key: &BucketKey, owner: &OwnerKey) -> Read<()> {
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    if owner.end().await.map_err(of_store)? { Ok(()) } else { Err(unknown_owner()) }
}

pub(super) async fn lock(
    state: &AppState,
    key: &BucketKey,
    owner: &OwnerKey,
    new: &NewLocks,
) -> Read<Locked> {
    charge_locks(state, key, new.locks.len())?;
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    let wanted: Vec<_> = new.locks.iter().map(|wanted| name_and_mode(state, wanted)).collect();
    let needed = wanted.iter().filter_map(|(name, mode)| Some((name.as_name(), (*mode)?)));
    let needed: Vec<_> = needed.collect();
    let granted = owner.lock_names(&needed, new.metadata.as_deref()).await.map_err(of_locks)?;
    let mut granted = granted.into_iter();
    let told = new.locks.iter().zip(wanted).map(|(asked, (name, mode))| {
        let (record, intent) = match asked {
            Wanted::Record { record, intent } => ((record.kind.clone(), record.id.clone()), Some(*intent)),
            Wanted::Name { name, .. } => (record_of(name).unwrap_or_default(), None),
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
    let locks = told.collect();
    Ok(Locked { owner: owner.id().to_string(), expires_at: expiry(&owner).await?, locks })
}

/// What is to be locked, and how, if at all.
fn name_and_mode(state: &AppState, wanted: &Wanted) -> (NameBuf, Option<Mode>) {
    match wanted {
        Wanted::Name { name, mode } => (name.clone(), Some(*mode)),
        Wanted::Record { record, intent } => {
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
        Lockable::Record(Record { kind, id }) => {
            RecordKind::new(&**kind, LockType::ReadWrite).record(id).name().to_buf()
        }
    }
}

pub(super) async fn unlock(
    state: &AppState,
    key: &BucketKey,
    owner: &OwnerKey,
    release: &Release,
) -> Read<usize> {
    // What else goes with all of an owner's locks was paid for when it was locked.
    let named = match release {
        Release::These(unwanted) => unwanted.len(),
        Release::AllBut(spared) => spared.len(),
    };
    charge_locks(state, key, named)?;
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    let released = match release {
        Release::These(unwanted) => {
            let names: Vec<_> =
                unwanted.iter().map(|it| (name_of(&it.lockable), it.token.map(FencingToken::new))).collect();
            let these: Vec<_> = names.iter().map(|(name, token)| (name.as_name(), *token)).collect();
            owner.unlock_these(&these).await
        }
        Release::AllBut(spared) => {
            let names: Vec<_> = spared.iter().map(name_of).collect();
            let spared: Vec<_> = names.iter().map(NameBuf::as_name).collect();
            owner.unlock_all_but(&spared).await
        }
    };
    released.map_err(of_store)
}

pub(super) async fn undo(
    state: &AppState,
    key: &BucketKey,
    owner: &OwnerKey,
    regretted: &[Regretted],
) -> Read<usize> {
    charge_locks(state, key, regretted.len())?;
    let owner = resume(state, &bucket(state, key)?, owner).await?;
    let lock = |it: &Regretted| {
        let (name, token) = (it.name.clone(), FencingToken::new(it.token));
        // The mode has no say in what is taken back.
        let lock = OfflineLock { name, mode: Mode::Exclusive, token, how: it.how };
        Acquisition { lock, again: it.again }
    };
    let locks: Vec<_> = regretted.iter().map(lock).collect();
    owner.undo(&locks).await.map_err(of_store)
}

pub(super) async fn claim(
    state: &AppState,
    key: &BucketKey,
    new: NewClaim,
    found_by: Option<String>,
) -> Read<Claimed> {
    let claims = bucket(state, key)?.claims();
    let mut claiming = claims.claim(new.resource.as_name(), new.claimant, Duration::from_millis(new.ttl_ms));
    if let Some(metadata) = new.metadata {
        claiming = claiming.metadata(metadata);
    }
    if let Some(key) = found_by {
        claiming = claiming.idempotency_key(key);
    }
    let claim = claiming.await.map_err(of_claim)?;
    Ok(Claimed {
        resource: JsonName(new.resource),
        claimant: claim.claimant().to_owned(),
        token: claim.token().reveal(),
        expires_at: At(claim.expires_at()),
        fencing_token: claim.fencing_token().get(),
    })
}

/// What is no token at all is the token of no claim; which of the two errors that is depends on whether there is one.
async fn token(claims: &lockhouse::Claims, key: &ClaimKey) -> Result<Secret, ClaimError> {
    if let Ok(token) = key.token.parse() {
        return Ok(token);
    }
    let current = claims.get(key.resource.as_name()).await?;
    Err(if current.is_some() { ClaimError::ClaimLost } else { ClaimError::ClaimExpired })
}

/// Where no claim stands there is nothing to be had by a token, and whoever comes late with his own does no wrong. Where another's
/// stands, a former token cannot be told from one that was made up.
fn refuse_token(state: &AppState, asker: &Asker, key: &ClaimKey, error: ClaimError) -> Box<Problem> {
    if error == ClaimError::ClaimLost {
        asker.deny(state, &Named(key.resource.as_name()), &"not the token of the claim that stands");
    }
    of_claim(error)
}

pub(super) async fn renew(
    state: &AppState,
    bucket_key: &BucketKey,
    key: &ClaimKey,
    asker: &Asker,
) -> Read<Renewed> {
    let refused = |error| refuse_token(state, asker, key, error);
    let claims = bucket(state, bucket_key)?.claims();
    let token = token(&claims, key).await.map_err(refused)?;
    let expires_at = claims.renew(key.resource.as_name(), &token).await.map_err(refused)?;
    Ok(Renewed { resource: JsonName(key.resource.clone()), expires_at: At(expires_at) })
}

pub(super) async fn release(
    state: &AppState,
    bucket_key: &BucketKey,
    key: &ClaimKey,
    asker: &Asker,
) -> Read<()> {
    let refused = |error| refuse_token(state, asker, key, error);
    let claims = bucket(state, bucket_key)?.claims();
    let token = token(&claims, key).await.map_err(refused)?;
    claims.release(key.resource.as_name(), &token).await.map_err(refused)
}

pub(super) async fn finalize(
    state: &AppState,
    bucket_key: &BucketKey,
    key: &ClaimKey,
    asker: &Asker,
) -> Read<Assignment> {
    let refused = |error| refuse_token(state, asker, key, error);
    let claims = bucket(state, bucket_key)?.claims();
    let token = token(&claims, key).await.map_err(refused)?;
    claims.finalize(key.resource.as_name(), &token).await.map(Assignment::from).map_err(refused)
}

pub(super) async fn current_claim(
    state: &AppState,
    key: &BucketKey,
    resource: Name<'_>,
) -> Read<Option<ClaimState>> {
    let claim = bucket(state, key)?.claims().get(resource).await.map_err(of_claim)?;
    Ok(claim.map(|claim| ClaimState {
        resource: JsonName(claim.resource),
        claimant: claim.claimant,
        since: At(claim.since),
        expires_at: At(claim.expires_at),
        fencing_token: claim.fencing_token.get(),
        metadata: claim.metadata,
    }))
}

pub(super) async fn assignment(
    state: &AppState,
    key: &BucketKey,
    resource: Name<'_>,
) -> Read<Option<Assignment>> {
    let assignment = bucket(state, key)?.claims().assignment(resource).await.map_err(of_claim)?;
    Ok(assignment.map(Assignment::from))
}

pub(super) async fn unassign(
    state: &AppState,
    key: &BucketKey,
    resource: Name<'_>,
    token: Option<u64>,
) -> Read<bool> {
    let token = token.map(FencingToken::new);
    bucket(state, key)?.claims().unassign(resource, token).await.map_err(of_claim)
}

impl From<LockInfo> for Entry {
    fn from(info: LockInfo) -> Self {
        let (state, place) = match info.state {
            State::Held(_) => (EntryState::Held, None),
            State::Pending { place } => (EntryState::Pending, Some(place.into())),
        };
        let (kind, owner) = match HoldKind::of(info.kind) {
            (HoldKind::Web, owner) => (EntryKind::Web, owner),
            (HoldKind::Offline, owner) => (EntryKind::Offline, owner),
            (HoldKind::Claim, owner) => (EntryKind::Claim, owner),
        };
        Self {
            fencing_token: info.fencing_token().map(FencingToken::get),
            name: JsonName(info.name),
            mode: info.mode.into(),
            kind,
            state,
            client_id: info.client_id,
            owner,
            since: At(info.since),
            expires_at: info.expires_at.map(At),
            place,
            metadata: info.metadata,
        }
    }
}

impl From<lockhouse::Assignment> for Entry {
    fn from(assignment: lockhouse::Assignment) -> Self {
        Self {
            name: JsonName(assignment.resource),
            mode: ModeWord::Exclusive,
            kind: EntryKind::Assignment,
            state: EntryState::Assigned,
            client_id: assignment.claimant,
            owner: None,
            since: At(assignment.since),
            expires_at: None,
            place: None,
            fencing_token: Some(assignment.fencing_token.get()),
            metadata: None,
        }
    }
}

impl From<lockhouse::Assignment> for Assignment {
    fn from(assignment: lockhouse::Assignment) -> Self {
        Self {
            resource: JsonName(assignment.resource),
            claimant: assignment.claimant,
            assigned_at: At(assignment.since),
            fencing_token: assignment.fencing_token.get(),
        }
    }
}

impl HeldLock {
    /// The entry as a lock, if it is one of an owner.
    pub(super) fn of(entry: Entry) -> Option<Self> {
        let (kind, id) = record_of(&entry.name.0).unwrap_or_default();
        Some(Self {
            kind,
            id,
            name: entry.name,
            mode: entry.mode,
            owner: entry.owner?,
            label: entry.client_id,
            since: entry.since,
            expires_at: entry.expires_at,
            fencing_token: entry.fencing_token?,
            metadata: entry.metadata,
        })
    }
}

/// The kind and the id of the record that a name stands for.
fn record_of(name: &NameBuf) -> Option<(String, String)> {
    let decode = |part: &str| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned());
    let (kind, id) = name.as_name().as_str()?.split_once('/')?;
    Some((decode(kind)?, decode(id)?))
}

impl HoldKind {
    fn of(kind: HolderKind) -> (Self, Option<String>) {
        match kind {
            HolderKind::Offline(owner) => (Self::Offline, Some(owner.to_string())),
            HolderKind::Claim => (Self::Claim, None),
            _ => (Self::Web, None),
        }
    }
}

impl From<lockhouse::Holder> for Holder {
    fn from(holder: lockhouse::Holder) -> Self {
        let (kind, owner) = HoldKind::of(holder.kind);
        Self {
            kind,
            label: holder.client_id,
            owner,
            mode: holder.mode.into(),
            since: At(holder.since),
            expires_at: holder.expires_at.map(At),
            metadata: holder.metadata,
        }
    }
}

impl From<lockhouse::Conflict> for Conflict {
    fn from(conflict: lockhouse::Conflict) -> Self {
        let (kind, id) = record_of(&conflict.name).unwrap_or_default();
        let holders = conflict.holders.into_iter().map(Holder::from).collect();
        Self { name: JsonName(conflict.name), kind, id, holders, queued: conflict.queued }
    }
}

impl From<Acquired> for How {
    fn from(how: Acquired) -> Self {
        match how {
            Acquired::AlreadyHeld => Self::AlreadyHeld,
            Acquired::Fresh => Self::Fresh,
            Acquired::Upgraded => Self::Upgraded,
        }
    }
}

fn unknown_owner() -> Box<Problem> {
    Problem::new(Code::UnknownOwner, "there is no such owner, or it has ended")
}

fn closing() -> Box<Problem> {
    Problem::new(Code::Closing, "the server stops and grants nothing any more").retry_after(RESTART)
}

fn recovering(retry_after: Duration) -> Box<Problem> {
    let why = "the bucket recovers from a restart, and grants nothing meanwhile";
    Problem::new(Code::Recovering, why).retry_after(retry_after)
}

fn of_quota(quota: &Quota) -> Box<Problem> {
    Problem::bound(Code::QuotaExceeded, quota).retry_after(QUOTA)
}

pub(super) fn of_store(error: StoreError) -> Box<Problem> {
    match error {
        StoreError::Unavailable { why, retry_after } => {
            Problem::new(Code::Unavailable, why).retry_after(retry_after)
        }
        StoreError::Closed => closing(),
        error => Problem::new(Code::Unavailable, error.to_string()).retry_after(RESTART),
    }
}

fn of_owner(error: OwnerError) -> Box<Problem> {
    match error {
        OwnerError::Unknown => unknown_owner(),
        OwnerError::WrongSecret => unauthorized(),
        OwnerError::Closed => closing(),
        OwnerError::Quota(quota) => of_quota(&quota),
        OwnerError::Store(error) => of_store(error),
        error => Problem::new(Code::Internal, error.to_string()),
    }
}

fn of_locks(error: LockError) -> Box<Problem> {
    match error {
        LockError::Conflict(conflicts) => {
            let told = LockError::Conflict(conflicts.clone()).to_string();
            Problem::new(Code::Locked, told).conflicts(conflicts.into_iter().map(Conflict::from).collect())
        }
        LockError::OwnerEnded => unknown_owner(),
        LockError::Recovering { retry_after } => recovering(retry_after),
        LockError::Closed => closing(),
        LockError::Quota(quota) => of_quota(&quota),
        LockError::Store(error) => of_store(error),
        error => Problem::new(Code::Internal, error.to_string()),
    }
}

fn of_claim(error: ClaimError) -> Box<Problem> {
    let told = error.to_string();
    match error {
        ClaimError::Claimed { holder } => {
            let holder = Holder::from(*holder);
            let expires_at = holder.expires_at;
            Problem::new(Code::Claimed, told).expires_at(expires_at).holders(vec![holder], 0)
        }
        ClaimError::Busy { holders, queued } => {
            Problem::new(Code::Busy, told).holders(holders.into_iter().map(Holder::from).collect(), queued)
        }
        ClaimError::AlreadyAssigned(assignment) => {
            Problem::new(Code::AlreadyAssigned, told).assignment(Assignment::from(*assignment))
        }
        ClaimError::ClaimExpired => Problem::new(Code::ClaimExpired, told),
        ClaimError::ClaimLost => Problem::new(Code::ClaimLost, told),
        ClaimError::Recovering { retry_after } => recovering(retry_after),
        ClaimError::Closed => closing(),
        ClaimError::Quota(quota) => of_quota(&quota),
        ClaimError::Store(error) => of_store(error),
        error => Problem::new(Code::Internal, error.to_string()),
    }
}
