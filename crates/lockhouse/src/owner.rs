//! Owners and their offline locks: the Pessimistic Offline Lock.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockhouse_core::{
    Acquired, Command, FencingToken, LockRecord, Mode, Name, NameBuf, NewLocks, Outcome, OwnedLock, OwnerId,
    OwnerView, Refusal, Seal, Unlock,
};

use crate::bucket::Shared;
use crate::error::Quota;
use crate::kept::{OwnerError, StoreError};
use crate::kinds::Wanted;
use crate::local::whole_millis;
use crate::secret::Secret;
use crate::snapshot::Holder;

/// The owners of one bucket. <https://martinfowler.com/eaaCatalog/pessimisticOfflineLock.html>
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// use lockhouse::{House, LockError, LockType, RecordKind};
///
/// let owners = House::new().bucket("crm").owners();
/// let customers = RecordKind::new("customer", LockType::ExclusiveWrite);
///
/// let ada = owners.open("Ada", Duration::from_secs(1200)).await?;
/// let locks = ada.lock([customers.for_write(4711)]).await?;
/// println!("fencing token {}", locks[0].token);
///
/// let bob = owners.open("Bob", Duration::from_secs(1200)).await?;
/// let Err(LockError::Conflict(conflicts)) = bob.lock([customers.for_write(4711)]).await else { panic!() };
/// assert_eq!(conflicts[0].holders[0].client_id, "Ada");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Owners {
    bucket: Arc<Shared>,
}

/// A session or business transaction, which holds offline locks until it releases them or ends.
///
/// It is kept: dropping it changes nothing, and whoever has its id and secret [resumes](Owners::resume) it, after a restart, too. It ends by
/// [`end`](Self::end), or once nothing was heard of it for its TTL; [`touch`](Self::touch) and every other call that succeeds count as activity.
#[derive(Clone, Debug)]
pub struct Owner {
    pub(crate) bucket: Arc<Shared>,
    id: OwnerId,
    secret: Secret,
}

/// An owner to be; awaiting it opens it.
#[derive(Clone, Debug)]
#[must_use = "no owner begins unless it is awaited"]
pub struct NewOwner {
    bucket: Arc<Shared>,
    label: String,
    ttl: Duration,
    max_life: Option<Duration>,
    metadata: Option<String>,
}

/// An owner, as it sees itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerInfo {
    /// What it is called.
    pub label: String,
    /// What it said of itself.
    pub metadata: Option<String>,
    /// How long it lives without any activity.
    pub ttl: Duration,
    /// When it began.
    pub since: SystemTime,
    /// When it ends unless more is heard of it.
    pub expires_at: SystemTime,
    /// When it ends at the latest.
    pub ends_at: Option<SystemTime>,
}

/// An offline lock, as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflineLock {
    /// The resource name.
    pub name: NameBuf,
    /// How it is held, which may be stronger than what was asked for.
    pub mode: Mode,
    /// The fencing token, to be shown to the guarded resource.
    pub token: FencingToken,
    /// How the owner came by it.
    pub how: Acquired,
}

/// A name that could not be locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The resource name.
    pub name: NameBuf,
    /// The first holders, at most 8.
    pub holders: Vec<Holder>,
    /// How many requests wait for the name.
    pub queued: u32,
}

/// Why nothing was locked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// At least one of the names is held, or waited for, by others. It is never waited for: give up, and tell who has it.
    #[error("{}", conflicts(.0))]
    Conflict(Vec<Conflict>),
    /// The owner has ended.
    #[error("the owner has ended")]
    OwnerEnded,
    /// The bucket recovers from a crash, and grants nothing until then.
    #[error("recovering, for {} ms at most", retry_after.as_millis())]
    Recovering {
        /// When to try again.
        retry_after: Duration,
    },
    /// Nothing is granted any more.
    #[error("the bucket is closed")]
    Closed,
    /// A bound was exceeded.
    #[error(transparent)]
    Quota(Quota),
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Owners {
    pub(crate) fn new(bucket: Arc<Shared>) -> Self {
        Self { bucket }
    }

    /// Begins an owner that is called `label` where others are told of it, and that ends once nothing was heard of it for `ttl`.
    ///
    /// # Errors
    ///
    /// [`OwnerError`].
    ///
    /// # Cancel safety
    ///
    /// An owner that nobody heard of ends at once.
    pub fn open(&self, label: impl Into<String>, ttl: Duration) -> NewOwner {
        let (bucket, label) = (self.bucket.clone(), label.into());
        NewOwner { bucket, label, ttl, max_life: None, metadata: None }
    }

    /// Finds an owner again, by its id and its secret.
    ///
    /// # Errors
    ///
    /// [`OwnerError::Unknown`] if it has ended, [`OwnerError::WrongSecret`] if the secret is another.
    pub async fn resume(&self, id: OwnerId, secret: &Secret) -> Result<Owner, OwnerError> {
        let seal = self.bucket.with(|state| state.manager().owner(id).map(|owner| owner.seal));
        let expected = seal.ok_or(OwnerError::Unknown).and_then(|seal| secret_of(&self.bucket, id, seal));
        match expected {
            // The secret was told only once its beginning was kept, and nothing else is told here.
            Ok(expected) if expected == *secret => {
                Ok(Owner { bucket: self.bucket.clone(), id, secret: expected })
            }
            refused => {
                self.bucket.read(|_| ()).await?;
                Err(refused.err().unwrap_or(OwnerError::WrongSecret))
            }
        }
    }
}

impl NewOwner {
    /// It ends so long after its beginning, whatever it does.
    pub fn max_life(mut self, max_life: Duration) -> Self {
        self.max_life = Some(max_life);
        self
    }

    /// Something to keep with it.
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    async fn open(self) -> Result<Owner, OwnerError> {
        let seal = random_seal()?;
        let new = lockhouse_core::NewOwner {
            label: &self.label,
            metadata: self.metadata.as_deref(),
            ttl_ms: whole_millis(self.ttl),
            max_ms: self.max_life.map(whole_millis),
            seal,
        };
        let mut unheard = Unheard { bucket: &self.bucket, owner: None };
        let outcome = self.bucket.keep(Command::OpenOwner(new), |outcome| unheard.note(outcome)).await?;
        unheard.owner = None;
        match outcome {
            Outcome::OwnerOpened(id) => {
                let secret = secret_of(&self.bucket, id, seal)?;
                Ok(Owner { bucket: self.bucket.clone(), id, secret })
            }
            Outcome::Refused(refusal) => Err(refusal.into()),
            outcome => unreachable!("an owner cannot begin with {outcome:?}"),
        }
    }
}

impl IntoFuture for NewOwner {
    type Output = Result<Owner, OwnerError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// Ends an owner that nobody hears of.
struct Unheard<'a> {
    bucket: &'a Arc<Shared>,
    owner: Option<OwnerId>,
}

impl Unheard<'_> {
    fn note(&mut self, outcome: &Outcome) {
        if let Outcome::OwnerOpened(owner) = outcome {
            self.owner = Some(*owner);
        }
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if let Some(owner) = self.owner {
            self.bucket.tell(Command::EndOwner { owner });
        }
    }
}

impl Owner {
    /// Its public number.
    pub fn id(&self) -> OwnerId {
        self.id
    }

    /// What whoever acts for it later has to show.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Locks records at once, all of them or none; what it has already stays as it is. Kinds whose readers take no lock give none. Nothing is ever waited for.
    ///
    /// The sole reader of a record becomes its writer when it asks, with a new token. Lock before you load: only then what is loaded stays the newest.
    ///
    /// # Errors
    ///
    /// [`LockError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes back what it had locked.
    pub async fn lock(
        &self,
        wanted: impl IntoIterator<Item = Wanted>,
    ) -> Result<Vec<OfflineLock>, LockError> {
        self.lock_with(wanted, None).await
    }

    /// As [`lock`](Self::lock), with something to show to others.
    ///
    /// # Errors
    ///
    /// [`LockError`].
    pub async fn lock_with(
        &self,
        wanted: impl IntoIterator<Item = Wanted>,
        metadata: Option<&str>,
    ) -> Result<Vec<OfflineLock>, LockError> {
        let wanted: Vec<_> = wanted.into_iter().filter_map(|wanted| Some((wanted.mode()?, wanted))).collect();
        let names: Vec<_> = wanted.iter().map(|(mode, wanted)| (wanted.name(), *mode)).collect();
        self.lock_names(&names, metadata).await
    }

    /// Locks names as they are, for those who have no kinds of record.
    ///
    /// # Errors
    ///
    /// [`LockError`].
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn lock_names(
        &self,
        locks: &[(Name<'_>, Mode)],
        metadata: Option<&str>,
    ) -> Result<Vec<OfflineLock>, LockError> {
        let mut undo = Undo::new(self);
        let locks = self.lock_noting(locks, metadata, |granted| undo.granted = granted).await;
        undo.granted.clear();
        locks
    }

    /// `note` hears what was granted before that is kept.
    pub(crate) async fn lock_noting(
        &self,
        locks: &[(Name<'_>, Mode)],
        metadata: Option<&str>,
        note: impl FnOnce(Vec<OfflineLock>),
    ) -> Result<Vec<OfflineLock>, LockError> {
        let described = |granted: &[OwnedLock]| {
            let both = locks.iter().zip(granted);
            both.map(|((name, _), lock)| OfflineLock::new(name.to_buf(), *lock)).collect::<Vec<_>>()
        };
        let command = Command::Lock(NewLocks { owner: self.id, locks, metadata });
        let outcome = self.bucket.keep(command, |outcome| {
            if let Outcome::Locked(granted) = outcome {
                note(described(granted));
            }
        });
        match outcome.await? {
            Outcome::Locked(granted) => Ok(described(&granted)),
            Outcome::Refused(refusal) => Err(self.refused(refusal)),
            outcome => unreachable!("locks cannot be answered with {outcome:?}"),
        }
    }

    /// Gives back the lock of that name, if the owner has it, and if it has the token, where one is given; else nothing happens.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// The lock is given back all the same.
    pub async fn unlock(&self, name: Name<'_>, token: Option<FencingToken>) -> Result<bool, StoreError> {
        Ok(self.give_back(Unlock::These(&[(name, token)])).await? > 0)
    }

    /// As [`unlock`](Self::unlock), several at once; how many it had.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// The locks are given back all the same.
    pub async fn unlock_these(
        &self,
        locks: &[(Name<'_>, Option<FencingToken>)],
    ) -> Result<usize, StoreError> {
        self.give_back(Unlock::These(locks)).await
    }

    /// Gives back all its locks except those of these names; how many there were.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// The locks are given back all the same.
    pub async fn unlock_all_but(&self, spared: &[Name<'_>]) -> Result<usize, StoreError> {
        self.give_back(Unlock::AllBut(spared)).await
    }

    /// Gives back all its locks; how many there were.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// The locks are given back all the same.
    pub async fn unlock_all(&self) -> Result<usize, StoreError> {
        self.give_back(Unlock::AllBut(&[])).await
    }

    pub(crate) async fn give_back(&self, locks: Unlock<'_>) -> Result<usize, StoreError> {
        match self.bucket.keep(Command::Unlock { owner: self.id, locks }, |_| {}).await? {
            Outcome::Unlocked { count } => Ok(count),
            outcome => unreachable!("an unlock cannot be answered with {outcome:?}"),
        }
    }

    /// All its locks, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn locks(&self) -> Result<Vec<OfflineLock>, StoreError> {
        self.bucket.read(|manager| manager.locks_of(self.id).map(OfflineLock::from).collect()).await
    }

    /// Whether it has a lock of that name ("has lock"), and which.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn has_lock(&self, name: Name<'_>) -> Result<Option<OfflineLock>, StoreError> {
        Ok(self.locks().await?.into_iter().find(|lock| lock.name.as_name() == name))
    }

    /// Tells that it is active: its TTL runs anew from now. False if it has ended.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn touch(&self) -> Result<bool, StoreError> {
        // Nothing is written, so that it goes on while nothing can be.
        self.bucket
            .keep_nothing(Command::Touch { owner: self.id })
            .await
            .map(|outcome| outcome == Outcome::Renewed { alive: true })
    }

    /// All that is known of it; `None` if it has ended.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn info(&self) -> Result<Option<OwnerInfo>, StoreError> {
        let bucket = &self.bucket;
        let describe = |owner: OwnerView<'_>| OwnerInfo {
            label: owner.label.to_owned(),
            metadata: owner.metadata.map(str::to_owned),
            ttl: Duration::from_millis(owner.ttl_ms),
            since: bucket.wall(owner.since),
            expires_at: bucket.wall(owner.expires),
            ends_at: owner.ends.map(|ends| bucket.wall(ends)),
        };
        self.look(describe).await
    }

    /// When it ends unless more is heard of it; `None` if it has ended.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn expires_at(&self) -> Result<Option<SystemTime>, StoreError> {
        self.look(|owner| self.bucket.wall(owner.expires)).await
    }

    /// Ends it, and with it all its locks. False if it had ended before.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// It ends all the same.
    pub async fn end(&self) -> Result<bool, StoreError> {
        match self.bucket.keep(Command::EndOwner { owner: self.id }, |_| {}).await? {
            Outcome::Ended { alive } => Ok(alive),
            outcome => unreachable!("an end cannot be answered with {outcome:?}"),
        }
    }

    /// What is to be seen of it while it lives: its beginning is kept, and what changes with its activity never is. Its end is told once that is kept.
    async fn look<T>(&self, describe: impl Fn(OwnerView<'_>) -> T) -> Result<Option<T>, StoreError> {
        let seen = self.bucket.with(|state| state.manager().owner(self.id).map(&describe));
        if seen.is_none() {
            self.bucket.read(|_| ()).await?;
        }
        Ok(seen)
    }

    fn refused(&self, refusal: Refusal) -> LockError {
        match refusal {
            Refusal::Conflict(conflicts) => {
                LockError::Conflict(conflicts.into_iter().map(|conflict| self.conflict(conflict)).collect())
            }
            Refusal::UnknownOwner => LockError::OwnerEnded,
            Refusal::Recovering { until } => LockError::Recovering { retry_after: self.bucket.until(until) },
            Refusal::Closed => LockError::Closed,
            quota => LockError::Quota(Quota::of(&quota).expect("every other refusal is about a bound")),
        }
    }

    fn conflict(&self, conflict: lockhouse_core::Conflict) -> Conflict {
        let lockhouse_core::Conflict { name, holders, queued } = conflict;
        let holders =
            holders.into_iter().map(|holder| Holder::new(holder, &|at| self.bucket.wall(at))).collect();
        Conflict { name, holders, queued }
    }
}

impl OfflineLock {
    fn new(name: NameBuf, OwnedLock { token, mode, how }: OwnedLock) -> Self {
        Self { name, mode, token, how }
    }
}

impl From<LockRecord> for OfflineLock {
    fn from(record: LockRecord) -> Self {
        Self { name: record.name, mode: record.mode, token: record.token, how: Acquired::AlreadyHeld }
    }
}

/// Takes back what an owner was granted, unless it is emptied before.
pub(crate) struct Undo {
    owner: Owner,
    pub(crate) granted: Vec<OfflineLock>,
}

impl Undo {
    pub(crate) fn new(owner: &Owner) -> Self {
        Self { owner: owner.clone(), granted: Vec::new() }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let granted = self.granted.iter().filter(|lock| lock.how != Acquired::AlreadyHeld);
        let granted: Vec<_> = granted
            .map(|OfflineLock { name, mode, token, how }| {
                (name.as_name(), OwnedLock { token: *token, mode: *mode, how: *how })
            })
            .collect();
        let owner = self.owner.id;
        // In parts that every store can keep as a whole.
        for locks in granted.chunks(lockhouse_core::Limits::DEFAULT.locks_per_command) {
            self.owner.bucket.tell(Command::Undo { owner, locks });
        }
    }
}

fn secret_of(bucket: &Shared, owner: OwnerId, seal: Seal) -> Result<Secret, OwnerError> {
    Ok(Secret::of_owner(bucket.secret_key()?, bucket.scope(), owner, seal))
}

pub(crate) fn random_seal() -> Result<Seal, StoreError> {
    getrandom::u64().map(Seal).map_err(|error| no_randomness(&error))
}

pub(crate) fn no_randomness(error: &getrandom::Error) -> StoreError {
    StoreError::Failed(format!("the system gives no random numbers: {error}"))
}

fn conflicts(conflicts: &[Conflict]) -> String {
    let Some(first) = conflicts.first() else { return "not available".to_owned() };
    let mut text = format!("{} is not available", first.name.as_name().display());
    match first.holders.first() {
        Some(holder) => text.push_str(&format!(": held by {:?}", holder.client_id)),
        None => text.push_str(&format!(": {} waiting", first.queued)),
    }
    if conflicts.len() > 1 {
        text.push_str(&format!(", and {} more", conflicts.len() - 1));
    }
    text
}
