//! Owners and their offline locks: the Pessimistic Offline Lock.

pub(crate) mod error;
pub(crate) mod kinds;
mod local;
pub(crate) mod lock;
#[cfg(feature = "remote")]
mod remote;
pub(crate) mod transaction;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use lockhouse_core::{Acquired, FencingToken, Mode, Name, OwnerId, Unlock};

use crate::engine::bucket::Bucket;
use crate::error::{Quota, StoreError};
use crate::location::{BucketLocation, call_at};
use crate::owners::error::{LockError, OwnerError};
use crate::owners::kinds::{Wanted, needed_locks};
use crate::owners::lock::{Acquisition, OfflineLock, OwnerInfo};
use crate::secret::Secret;

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
    location: BucketLocation,
}

/// A session or business transaction, which holds offline locks until it releases them or ends.
///
/// An owner is durable: dropping it changes nothing, and a holder of its id and secret
/// [resumes](Owners::resume) it, after a restart, too. An owner ends by [`end`](Self::end), or once it was
/// silent for its TTL; [`touch`](Self::touch) and every other call that succeeds count as activity.
#[derive(Clone, Debug)]
pub struct Owner {
    location: BucketLocation,
    id: OwnerId,
    secret: Secret,
}

/// An owner to be; awaiting it opens it.
#[derive(Clone, Debug)]
#[must_use = "no owner begins unless it is awaited"]
pub struct NewOwner {
    location: BucketLocation,
    label: String,
    ttl: Duration,
    max_life: Option<Duration>,
    metadata: Option<String>,
    key: Option<IdempotencyKey>,
}

/// A key by which an owner is found again.
#[derive(Clone)]
struct IdempotencyKey {
    text: String,
    /// The caller whose owners alone it finds; none if it finds those of all.
    caller: Option<String>,
}

impl IdempotencyKey {
    /// The rule of the header `Idempotency-Key`.
    fn check(&self) -> Result<(), Quota> {
        let (bytes, most) = (self.text.len(), NewOwner::KEY_BYTES);
        if (1..=most).contains(&bytes) && self.text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(());
        }
        let rule = format!("1 to {most} visible ASCII characters are needed");
        Err(Quota::new("idempotency_key", format!("{bytes} bytes"), rule))
    }
}

/// A key is as good as a secret.
impl std::fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdempotencyKey(..)")
    }
}

impl Bucket {
    /// Owners of offline locks: sessions and business transactions.
    pub fn owners(&self) -> Owners {
        Owners::new(BucketLocation::Local(self.0.clone()))
    }

    /// As [`Owners::resume`], but not as activity of the owner: for servers, which carry out a call of the
    /// owner next, that may be refused.
    ///
    /// # Errors
    ///
    /// [`OwnerError::Unknown`], [`OwnerError::WrongSecret`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn identify_owner(&self, id: OwnerId, secret: &Secret) -> Result<Owner, OwnerError> {
        local::identify(&self.0, id, secret).await
    }

    /// As [`Owner::info`], but not as activity of the owner, and without its secret.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn look_at_owner(&self, id: OwnerId) -> Result<Option<OwnerInfo>, StoreError> {
        local::look(&self.0, id).await
    }
}

impl Owners {
    pub(crate) fn new(location: BucketLocation) -> Self {
        Self { location }
    }

    /// Begins an owner that others see as `label`, and that ends once it was silent for `ttl`. The label has
    /// from 1 to 256 bytes.
    ///
    /// # Errors
    ///
    /// [`OwnerError`].
    ///
    /// # Cancel safety
    ///
    /// An owner whose future is dropped ends at once, unless it has an idempotency key, with which it can be
    /// asked for again.
    pub fn open(&self, label: impl Into<String>, ttl: Duration) -> NewOwner {
        let (location, label) = (self.location.clone(), label.into());
        NewOwner { location, label, ttl, max_life: None, metadata: None, key: None }
    }

    /// Finds an owner again, by its id and its secret. That counts as activity.
    ///
    /// # Errors
    ///
    /// [`OwnerError::Unknown`] if it has ended, [`OwnerError::WrongSecret`] if the secret is another.
    ///
    /// # Cancel safety
    ///
    /// The call may have counted.
    pub async fn resume(&self, id: OwnerId, secret: &Secret) -> Result<Owner, OwnerError> {
        call_at!(&self.location, local::resume | remote::resume, (id, secret))
    }
}

impl NewOwner {
    /// The most bytes of an idempotency key.
    pub const KEY_BYTES: usize = 255;

    /// The owner ends so long after its beginning, whatever it does. It has the bounds of a TTL.
    pub fn max_life(mut self, max_life: Duration) -> Self {
        self.max_life = Some(max_life);
        self
    }

    /// Metadata to store with the owner.
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// A caller that opens an owner with the same key and the same terms gets the same owner, as long as it
    /// lives, after a restart, too: for callers that never got the answer. That counts as activity of the
    /// owner. With other terms it is [`OwnerError::KeyMismatch`]. Make the key hard to guess, as it is as
    /// good as the secret. From 1 to [`KEY_BYTES`](Self::KEY_BYTES) visible ASCII characters.
    ///
    /// Over the network this is the `Idempotency-Key`: a server with authentication finds the owners of the
    /// same credential alone, and for ten minutes repeats its answer even if the owner has ended.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(IdempotencyKey { text: key.into(), caller: None });
        self
    }

    /// As [`idempotency_key`](Self::idempotency_key), with a key that finds the owners of this caller alone,
    /// so that it need not be hard to guess: for servers that know their callers. A client has no such key,
    /// as a server knows its callers by itself.
    pub fn idempotency_key_of(mut self, caller: &str, key: &str) -> Self {
        self.key = Some(IdempotencyKey { text: key.to_owned(), caller: Some(caller.to_owned()) });
        self
    }

    async fn open(self) -> Result<Owner, OwnerError> {
        Quota::check_label("label", &self.label).map_err(OwnerError::Quota)?;
        self.key.as_ref().map_or(Ok(()), IdempotencyKey::check).map_err(OwnerError::Quota)?;
        call_at!(&self.location, local::open | remote::open, (&self))
    }
}

impl IntoFuture for NewOwner {
    type Output = Result<Owner, OwnerError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

impl Owner {
    /// The owner's public number.
    pub fn id(&self) -> OwnerId {
        self.id
    }

    /// The secret that acts for the owner later.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Locks records at once, all of them or none; locks that the owner has already stay as they are. Kinds
    /// whose readers take no lock give none. The call never waits for a lock.
    ///
    /// The sole reader of a record becomes its writer when it asks, with a new token. Lock before you load:
    /// only then the loaded record stays the newest.
    ///
    /// # Errors
    ///
    /// [`LockError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes back the locks of the call, except those that others were answered meanwhile
    /// that the owner has, as they may rely on that.
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
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn lock_with(
        &self,
        wanted: impl IntoIterator<Item = Wanted>,
        metadata: Option<&str>,
    ) -> Result<Vec<OfflineLock>, LockError> {
        let needed = needed_locks(wanted).map_err(LockError::Quota)?;
        let names: Vec<_> = needed.iter().map(|(wanted, mode)| (wanted.name(), *mode)).collect();
        self.lock_names(&names, metadata).await
    }

    /// Locks names as they are, for callers that have no kinds of record.
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
        let locks = self.lock_noting(locks, metadata, |granted| undo.note(granted)).await;
        undo.acquired.clear();
        locks
    }

    /// `note` gets the granted locks, if possible before the future can be dropped.
    pub(crate) async fn lock_noting(
        &self,
        locks: &[(Name<'_>, Mode)],
        metadata: Option<&str>,
        note: impl FnOnce(Vec<OfflineLock>),
    ) -> Result<Vec<OfflineLock>, LockError> {
        call_at!(&self.location, local::lock | remote::lock, (self, locks, metadata, note))
    }

    /// Gives back the lock of that name, if the owner has it, and if it has the token, where one is given;
    /// else nothing happens. Returns whether the owner had it.
    ///
    /// Over the network a call is repeated if its answer is lost, and a lock that the repeat finds gone
    /// counts as given back. Without a token a repeat could give back a lock that another step of the owner
    /// has taken since, so that there is none: the [outcome is unknown](StoreError::OutcomeUnknown) then.
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

    /// As [`unlock`](Self::unlock), several at once; how many it had. A repeat needs the tokens of all.
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

    /// Gives back all its locks except those of these names; how many there were. Over the network it is not
    /// repeated, as [`unlock`](Self::unlock) without a token.
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

    /// Gives back all its locks; how many there were. Over the network it is not repeated, as
    /// [`unlock`](Self::unlock) without a token.
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
        call_at!(&self.location, local::give_back | remote::give_back, (self, locks))
    }

    /// Ends a step as [`Step::commit`](crate::Step::commit) does, for callers that keep record of its locks
    /// themselves: checks that the owner lives and holds these locks, each under its token, where one is
    /// given, and gives locks back, all in one. Returns how many were given back.
    ///
    /// Over the network it is repeated as [`unlock`](Self::unlock) is: a lock that is given back needs a
    /// token there or among those held.
    ///
    /// # Errors
    ///
    /// [`LockError::OwnerEnded`], [`LockError::Lost`] with the locks that are gone, [`LockError::Store`].
    /// Nothing is given back then, unless it is [`StoreError::OutcomeUnknown`]: the step may have ended as it
    /// should, and to undo its locks would take them from a step that is kept.
    ///
    /// # Cancel safety
    ///
    /// The step may have ended.
    pub async fn commit_step(
        &self,
        held: &[(Name<'_>, Option<FencingToken>)],
        release: Option<Unlock<'_>>,
    ) -> Result<usize, LockError> {
        call_at!(&self.location, local::commit_step | remote::commit_step, (self, held, release))
    }

    /// Takes back the locks that [`lock`](Self::lock) gave: a lock that was taken freshly is released, one
    /// that was upgraded is shared again. Locks that are no longer held under their token are passed over,
    /// and so are those that the owner had before, and those that others were answered since that the owner
    /// has, as they may rely on that. Returns how many it changed; over the network, after an answer that was
    /// lost, how many at most.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// The locks are taken back all the same.
    pub async fn undo(&self, locks: &[Acquisition]) -> Result<usize, StoreError> {
        call_at!(&self.location, local::undo | remote::undo, (self, locks))
    }

    /// All its locks, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Nothing but the activity may have counted.
    pub async fn locks(&self) -> Result<Vec<OfflineLock>, StoreError> {
        call_at!(&self.location, local::locks | remote::locks, (self))
    }

    /// Whether it has a lock of that name ("has lock"), and which.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Nothing but the activity may have counted.
    pub async fn has_lock(&self, name: Name<'_>) -> Result<Option<OfflineLock>, StoreError> {
        call_at!(&self.location, local::has_lock | remote::has_lock, (self, name))
    }

    /// Shows that the owner is active: its TTL runs anew from now. False if it has ended.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// The call may have counted.
    pub async fn touch(&self) -> Result<bool, StoreError> {
        call_at!(&self.location, local::touch | remote::touch, (self))
    }

    /// All that is known of it; `None` if it has ended.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Nothing but the activity may have counted.
    pub async fn info(&self) -> Result<Option<OwnerInfo>, StoreError> {
        call_at!(&self.location, local::info | remote::info, (self))
    }

    /// Ends it, and with it all its locks. False if it had ended before.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// The owner ends all the same.
    pub async fn end(&self) -> Result<bool, StoreError> {
        call_at!(&self.location, local::end | remote::end, (self))
    }
}

/// Takes back the locks that an owner was granted, unless it is emptied before.
pub(crate) struct Undo {
    owner: Owner,
    /// Each name once.
    pub(crate) acquired: Vec<Acquisition>,
}

impl Undo {
    pub(crate) fn new(owner: &Owner) -> Self {
        Self { owner: owner.clone(), acquired: Vec::new() }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Adds the granted locks; a name that was taken freshly before and then upgraded is still fresh, with
    /// its last token.
    pub(crate) fn note(&mut self, granted: Vec<OfflineLock>) {
        for lock in granted {
            match self.acquired.iter_mut().find(|known| known.lock.name == lock.name) {
                None => self.acquired.push(lock.into()),
                Some(known) if lock.how == Acquired::AlreadyHeld => {
                    known.again += u32::from(known.lock.token == lock.token);
                }
                // Its earlier answers count as well, as all of it is taken back.
                Some(Acquisition { lock: known, .. }) if known.how == Acquired::Fresh => {
                    *known = OfflineLock { how: Acquired::Fresh, ..lock };
                }
                Some(known) => *known = lock.into(),
            }
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.acquired.iter().all(|acquired| acquired.lock.how == Acquired::AlreadyHeld) {
            return;
        }
        match &self.owner.location {
            BucketLocation::Local(bucket) => local::undo_now(bucket, &self.owner, &self.acquired),
            #[cfg(feature = "remote")]
            BucketLocation::Remote(api) => {
                remote::undo_soon(api, &self.owner, std::mem::take(&mut self.acquired));
            }
        }
    }
}
