//! The application session: the objects and locks of a request, and the business transaction in which it is a
//! step.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use lockhouse_core::{Acquired, FencingToken, NameBuf};
use parking_lot::Mutex;

use super::objects::Objects;
use super::refusal::{AccessError, LoadError, Refusal};
use crate::error::StoreError;
use crate::owners::Owner;
use crate::owners::error::LockError;
use crate::owners::kinds::{Record, Wanted};
use crate::owners::lock::OfflineLock;
use crate::owners::transaction::{BusinessTransaction, NeededLock, Step};

tokio::task_local! {
    static CURRENT: ApplicationSession;
}

/// The user, the objects and the locks of a business transaction, bound to the request that is its present
/// step.
///
/// The session is found by [`current`](Self::current) from anywhere in the request's task, or, in axum, as
/// `Extension<ApplicationSession>`. Once the request is over it refuses everything.
#[derive(Clone)]
pub struct ApplicationSession {
    transaction: Arc<Transaction>,
    step: Arc<Bound>,
}

/// The state that lasts from the first step of a business transaction to its last.
#[derive(Debug)]
pub(crate) struct Transaction {
    id: u64,
    user: String,
    owner: Owner,
    objects: Mutex<Objects>,
}

/// The step that the request is.
struct Bound {
    is_first: bool,
    /// A mutex, so that the setter of the phase and the task that gives `open` back agree on which was first.
    phase: Mutex<Phase>,
    open: tokio::sync::Mutex<Option<Open>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The request has succeeded. Calls that are under way are part of the step, nothing more begins.
    Committing,
    Committed,
    /// The next task that comes across the step drops it.
    Undone,
}

struct Open {
    step: Step<'static>,
    /// Its locks, also those that were there already.
    locked: Vec<OfflineLock>,
    released: Vec<NameBuf>,
}

/// The step in use. The end of the use leaves no step behind that was undone meanwhile.
struct InUse<'a> {
    open: tokio::sync::MutexGuard<'a, Option<Open>>,
    _leaves: Leaves<'a>,
}

/// Drops an undone step once it is not in use any more.
struct Leaves<'a>(&'a Bound);

/// An object of the identity map, under its lock.
#[derive(Debug)]
pub struct Loaded<T> {
    object: Arc<T>,
    lock: Option<OfflineLock>,
}

impl fmt::Debug for ApplicationSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transaction { id, user, owner, .. } = &*self.transaction;
        f.debug_struct("ApplicationSession")
            .field("id", id)
            .field("user", user)
            .field("owner", &owner.id())
            .finish_non_exhaustive()
    }
}

impl Transaction {
    pub(crate) fn new(id: u64, user: &str, owner: &Owner) -> Arc<Self> {
        Arc::new(Self { id, user: user.to_owned(), owner: owner.clone(), objects: Mutex::default() })
    }
}

impl ApplicationSession {
    /// The one that is bound to the present task.
    ///
    /// # Errors
    ///
    /// [`AccessError::Undeclared`] outside of a request whose route begins or continues a business
    /// transaction.
    pub fn current() -> Result<Self, AccessError> {
        CURRENT.try_with(Self::clone).map_err(|_| AccessError::Undeclared)
    }

    /// Counts the business transactions of the process; every step of one has the same.
    pub fn id(&self) -> u64 {
        self.transaction.id
    }

    /// The name of the user.
    pub fn user(&self) -> &str {
        &self.transaction.user
    }

    /// The owner of the locks, which is the web session.
    pub fn owner(&self) -> &Owner {
        &self.transaction.owner
    }

    /// Locks a record and then loads it, in this order, so that the loaded object is the newest and stays so.
    /// `load` gets the lock, with whose token it can pass the [fence](crate::fence). A record that this
    /// business transaction has loaded under the same lock is the same object again.
    ///
    /// A record of a kind whose readers take no lock is loaded without one, once per step.
    ///
    /// # Errors
    ///
    /// [`LoadError::Access`] if it cannot be locked: then `load` has not run. [`LoadError::Load`] with the
    /// error of `load`.
    ///
    /// # Cancel safety
    ///
    /// Its locks are taken back unless the step succeeds.
    pub async fn load<T: Send + Sync + 'static, E>(
        &self,
        wanted: Wanted,
        load: impl AsyncFnOnce(Option<OfflineLock>) -> Result<T, E>,
    ) -> Result<Loaded<T>, LoadError<E>> {
        let record = wanted.name().to_buf();
        self.load_as(record, wanted, load).await
    }

    /// As [`load`](Self::load), for a record that is locked together with the root of its aggregate.
    ///
    /// # Errors
    ///
    /// The errors of [`load`](Self::load).
    ///
    /// # Cancel safety
    ///
    /// As [`load`](Self::load).
    pub async fn load_under<T: Send + Sync + 'static, E>(
        &self,
        root: &Record,
        wanted: Wanted,
        load: impl AsyncFnOnce(Option<OfflineLock>) -> Result<T, E>,
    ) -> Result<Loaded<T>, LoadError<E>> {
        let record = wanted.name().to_buf();
        self.load_as(record, wanted.under(root), load).await
    }

    async fn load_as<T: Send + Sync + 'static, E>(
        &self,
        record: NameBuf,
        wanted: Wanted,
        load: impl AsyncFnOnce(Option<OfflineLock>) -> Result<T, E>,
    ) -> Result<Loaded<T>, LoadError<E>> {
        let lock = self.lock([wanted]).await?.pop();
        let objects = &self.transaction.objects;
        let known = objects.lock().guarded(&record, lock.as_ref());
        if let Some(object) = known {
            return Ok(Loaded { object, lock });
        }
        let value = load(lock.clone()).await.map_err(LoadError::Load)?;
        let mut objects = objects.lock();
        // Another task of this very request may have been quicker.
        let known = objects.guarded(&record, lock.as_ref());
        let guard = lock.as_ref().map(|lock| lock.name.clone());
        let object = known.unwrap_or_else(|| objects.put(record, guard, value));
        Ok(Loaded { object, lock })
    }

    /// Locks records, all of them or none, without loading them; repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`AccessError::Lock`] with their holders, [`AccessError::Unbound`].
    ///
    /// # Cancel safety
    ///
    /// As [`load`](Self::load).
    pub async fn lock(
        &self,
        wanted: impl IntoIterator<Item = Wanted>,
    ) -> Result<Vec<OfflineLock>, AccessError> {
        let mut bound = self.bound().await?;
        let Some(open) = bound.open.as_mut() else { return Err(AccessError::Unbound) };
        let locks = open.step.lock(wanted).await?;
        if *self.step.phase.lock() == Phase::Undone {
            // The request ended meanwhile, and could not wait for us.
            return Err(AccessError::Unbound);
        }
        open.locked.extend(locks.iter().cloned());
        open.released.retain(|released| !locks.iter().any(|lock| lock.name == *released));
        self.transaction.objects.lock().locked(&locks);
        Ok(locks)
    }

    /// The lock of a record that must be there already: for a step that works on records that an earlier one
    /// has locked, and takes no lock itself.
    ///
    /// The step succeeds only if the lock is still there at its end.
    ///
    /// # Errors
    ///
    /// [`AccessError::NotLocked`] if it is not there, or no more.
    pub async fn held(&self, record: &Record) -> Result<OfflineLock, AccessError> {
        let mut bound = self.bound().await?;
        let Some(open) = bound.open.as_mut() else { return Err(AccessError::Unbound) };
        let held = self.transaction.owner.has_lock(record.name()).await;
        let held = held.map_err(LockError::Store)?;
        let lock = held.ok_or_else(|| AccessError::NotLocked(record.name().to_buf()))?;
        open.step.rely_on(&lock);
        Ok(lock)
    }

    /// The object that this business transaction has of a record. After a restart it has none, while the
    /// locks are still there: [`load`](Self::load) finds either.
    pub fn get<T: Send + Sync + 'static>(&self, record: &Record) -> Option<Arc<T>> {
        self.transaction.objects.lock().get(&record.name().to_buf())
    }

    /// Puts an object that was created or changed in the place of this business transaction's object of the
    /// record, which must be locked.
    ///
    /// # Errors
    ///
    /// [`AccessError::NotLocked`].
    pub async fn put<T: Send + Sync + 'static>(
        &self,
        record: &Record,
        object: T,
    ) -> Result<Loaded<T>, AccessError> {
        let lock = self.held(record).await?;
        let object =
            self.transaction.objects.lock().put(record.name().to_buf(), Some(lock.name.clone()), object);
        Ok(Loaded { object, lock: Some(lock) })
    }

    /// Gives back the lock of a record once the step has succeeded. The session must have it then.
    ///
    /// # Errors
    ///
    /// [`AccessError::Unbound`].
    pub async fn release(&self, record: &Record) -> Result<(), AccessError> {
        let mut bound = self.bound().await?;
        let Some(open) = bound.open.as_mut() else { return Err(AccessError::Unbound) };
        open.step.release(record.name());
        open.released.push(record.name().to_buf());
        Ok(())
    }

    async fn bound(&self) -> Result<InUse<'_>, AccessError> {
        // The guard is made first, so that it looks even if the future is dropped during the wait.
        let leaves = Leaves(&self.step);
        let open = self.step.open.lock().await;
        let in_use = InUse { open, _leaves: leaves };
        let phase = *self.step.phase.lock();
        if phase == Phase::Open { Ok(in_use) } else { Err(AccessError::Unbound) }
    }
}

/// For the layer.
impl ApplicationSession {
    pub(crate) fn begin(transaction: Arc<Transaction>) -> Self {
        let step = BusinessTransaction::begin(&transaction.owner).into_step();
        Self::bind(transaction, step, true)
    }

    pub(crate) fn resume(transaction: Arc<Transaction>) -> Self {
        let step = BusinessTransaction::resume(&transaction.owner).into_step();
        Self::bind(transaction, step, false)
    }

    fn bind(transaction: Arc<Transaction>, step: Step<'static>, is_first: bool) -> Self {
        let open = Open { step, locked: Vec::new(), released: Vec::new() };
        let phase = Mutex::new(Phase::Open);
        let bound = Bound { is_first, phase, open: tokio::sync::Mutex::new(Some(open)) };
        Self { transaction, step: Arc::new(bound) }
    }

    /// Runs something to which this one is bound.
    pub(crate) async fn scope<F: Future>(&self, task: F) -> F::Output {
        CURRENT.scope(self.clone(), task).await
    }

    pub(crate) fn transaction(&self) -> &Arc<Transaction> {
        &self.transaction
    }

    /// The request has succeeded. Returns the error that makes its answer a lie; one that does not goes to
    /// `harmless`.
    pub(crate) async fn commit(&self, harmless: impl FnOnce(StoreError)) -> Result<(), Refusal> {
        *self.step.phase.lock() = Phase::Committing;
        // The commit waits for a task of the handler that is still at work: its locks are part of the step.
        let Some(Open { step, mut locked, released }) = self.step.open.lock().await.take() else {
            let why = "the step was undone before its end".to_owned();
            return Err(Refusal::Store(StoreError::OutcomeUnknown { why }));
        };
        locked.retain(|lock| !released.contains(&lock.name));
        let is_new = |lock: &OfflineLock| lock.how != Acquired::AlreadyHeld;
        let promises_more = self.step.is_first || locked.iter().any(is_new);
        let needed = step.needed();
        match step.commit().await {
            Ok(()) => self.transaction.objects.lock().settle(&released),
            // The locks may be gone by this very step.
            Err(LockError::Store(error @ StoreError::OutcomeUnknown { .. })) => {
                return Err(Refusal::Store(error));
            }
            Err(LockError::Store(error)) if !promises_more => {
                self.check_held(&needed).await?;
                harmless(error);
            }
            Err(error) => return Err(Refusal::of_commit(error)),
        }
        *self.step.phase.lock() = Phase::Committed;
        Ok(())
    }

    /// Whether the work of the step was done under its locks, although none of them can be given back now. A
    /// house that is closed grants them to no other owner.
    async fn check_held(&self, needed: &[NeededLock]) -> Result<(), Refusal> {
        let needed: Vec<_> = needed.iter().map(|(name, token)| (name.as_name(), *token)).collect();
        match self.transaction.owner.commit_step(&needed, None).await {
            Ok(_) | Err(LockError::Store(StoreError::Closed)) => Ok(()),
            Err(error) => Err(Refusal::of_commit(error)),
        }
    }

    /// The request has failed, or its client has gone.
    pub(crate) fn roll_back(&self) {
        {
            let mut phase = self.step.phase.lock();
            if *phase == Phase::Committed {
                return;
            }
            *phase = Phase::Undone;
        }
        self.transaction.objects.lock().undo();
        self.step.leave();
    }
}

impl Bound {
    /// Drops a step that was undone. If it is in use, in a task that outlives the request, that task drops it
    /// when it has finished.
    fn leave(&self) {
        if *self.phase.lock() == Phase::Undone
            && let Ok(mut open) = self.open.try_lock()
        {
            open.take();
        }
    }
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<T> Loaded<T> {
    /// The object itself.
    pub fn object(&self) -> &Arc<T> {
        &self.object
    }

    /// The object's lock; none if readers of its kind take none.
    pub fn lock(&self) -> Option<&OfflineLock> {
        self.lock.as_ref()
    }

    /// The fencing token of its lock.
    pub fn token(&self) -> Option<FencingToken> {
        self.lock.as_ref().map(|lock| lock.token)
    }
}

impl<T> Deref for Loaded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}
