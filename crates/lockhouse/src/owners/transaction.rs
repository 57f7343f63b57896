//! Business transactions: steps that take locks at once, and give them back only when they succeed.

use lockhouse_core::{Acquired, FencingToken, Name, NameBuf, Unlock};

use crate::error::StoreError;
use crate::owners::error::LockError;
use crate::owners::kinds::{Wanted, needed_locks};
use crate::owners::lock::{Acquisition, OfflineLock};
use crate::owners::{Owner, Undo};

/// A business transaction of an owner: several steps, such as the requests of one user during an edit.
///
/// The locks of a step are taken at once, and taken back if the step fails. Locks that it gives back go when
/// it succeeds, all in one. So do those that an earlier transaction of the same owner left behind when a new
/// one [begins](Self::begin), sparing those that the first step locked again.
///
/// A step succeeds only if the owner lives, and still holds all that the step has locked or releases: a save
/// whose lock was stolen, or whose owner has ended, fails with its [`commit`](Step::commit).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// use lockhouse::{BusinessTransaction, House, LockType, RecordKind};
///
/// # let owners = House::new().bucket("crm").owners();
/// let customers = RecordKind::new("customer", LockType::ExclusiveWrite);
/// let session = owners.open("Ada", Duration::from_secs(1200)).await?;
///
/// // The edit page: lock, then load, then show the form.
/// let mut edit = BusinessTransaction::begin(&session);
/// let mut step = edit.step();
/// step.lock([customers.for_write(4711)]).await?;
/// step.commit().await?;
///
/// // The save, in a later request of the same session: the lock is still there, and goes once the update has
/// // succeeded.
/// let mut save = BusinessTransaction::resume(&session);
/// let mut step = save.step();
/// step.lock([customers.for_write(4711)]).await?;
/// step.release(customers.record(4711).name());
/// step.commit().await?;
/// assert!(session.locks().await?.is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct BusinessTransaction {
    owner: Owner,
    /// Whether no step has succeeded yet, so that earlier locks are still to be given back.
    is_new: bool,
}

/// One step. Dropping it takes back the locks that it has taken.
#[must_use = "a step that is dropped is undone"]
pub struct Step<'a> {
    /// The transaction that goes on after the step, if there is one.
    transaction: Option<&'a mut BusinessTransaction>,
    /// Whether the locks from before the transaction are to be given back.
    is_first: bool,
    /// The locks that it was granted, to be taken back unless the step succeeds.
    undo: Undo,
    /// The locks that it was told it has, under their tokens, each name once.
    relied: Vec<(NameBuf, FencingToken)>,
    releases: Vec<NeededLock>,
}

/// A lock that must be held for a step to succeed; under that token, where one is given.
pub(crate) type NeededLock = (NameBuf, Option<FencingToken>);

impl std::fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step")
            .field("owner", &self.undo.owner().id())
            .field("locked", &self.undo.acquired)
            .finish()
    }
}

impl BusinessTransaction {
    /// Begins a new one: once its first step succeeds, all locks that the owner has from before are given
    /// back, but for those that the step asked for again.
    pub fn begin(owner: &Owner) -> Self {
        Self { owner: owner.clone(), is_new: true }
    }

    /// Goes on with the present one: its locks stay.
    pub fn resume(owner: &Owner) -> Self {
        Self { owner: owner.clone(), is_new: false }
    }

    /// The owner of its locks.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Begins a step.
    pub fn step(&mut self) -> Step<'_> {
        let (undo, is_first) = (Undo::new(&self.owner), self.is_new);
        Step { transaction: Some(self), is_first, undo, relied: Vec::new(), releases: Vec::new() }
    }

    /// Becomes its next step, which can be stored anywhere; [`resume`](Self::resume) goes on after it.
    pub fn into_step(self) -> Step<'static> {
        let (undo, is_first) = (Undo::new(&self.owner), self.is_new);
        Step { transaction: None, is_first, undo, relied: Vec::new(), releases: Vec::new() }
    }

    /// Runs a task as one step: it succeeds if the task does, and is undone if the task fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lockhouse::{BusinessTransaction, House, LockError, LockType, RecordKind};
    /// # let owners = House::new().bucket("crm").owners();
    /// # let session = owners.open("Ada", std::time::Duration::from_secs(1200)).await?;
    /// # let customers = RecordKind::new("customer", LockType::ExclusiveWrite);
    /// let shown = BusinessTransaction::begin(&session)
    ///     .run(async |step| {
    ///         step.lock([customers.for_write(4711)]).await?;
    ///         Ok::<_, LockError>("the form")
    ///     })
    ///     .await?;
    /// # assert_eq!(shown, "the form");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The task's error, or that of [`Step::commit`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future undoes the step.
    pub async fn run<T, E: From<LockError>>(
        &mut self,
        task: impl AsyncFnOnce(&mut Step<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut step = self.step();
        let result = task(&mut step).await?;
        step.commit().await?;
        Ok(result)
    }
}

impl Step<'_> {
    /// Locks records at once, all of them or none, as [`Owner::lock`].
    ///
    /// # Errors
    ///
    /// [`LockError`]. Locks that the step has taken before stay until it is dropped.
    ///
    /// # Cancel safety
    ///
    /// The locks of the call are taken back together with the step. Over the network, a lock that the step
    /// has taken before and a future that is dropped asks for again may stay the owner's: whether the step
    /// was answered so is not known then.
    pub async fn lock(
        &mut self,
        wanted: impl IntoIterator<Item = Wanted>,
    ) -> Result<Vec<OfflineLock>, LockError> {
        let needed = needed_locks(wanted).map_err(LockError::Quota)?;
        let names: Vec<_> = needed.iter().map(|(wanted, mode)| (wanted.name(), *mode)).collect();
        let undo = &mut self.undo;
        let owner = undo.owner().clone();
        let locks = owner.lock_noting(&names, None, |granted| undo.note(granted)).await?;
        self.releases.retain(|(released, _)| !locks.iter().any(|lock| lock.name == *released));
        locks.iter().for_each(|lock| self.rely_on(lock));
        Ok(locks)
    }

    /// The step succeeds only if the owner still has that lock.
    ///
    /// Only an upgrade replaces an earlier token of the name: under any other token the lock is a new one,
    /// and the one that the step relied on is lost.
    pub(crate) fn rely_on(&mut self, lock: &OfflineLock) {
        match self.relied.iter_mut().find(|(name, _)| *name == lock.name) {
            None => self.relied.push((lock.name.clone(), lock.token)),
            Some((_, token)) if lock.how == Acquired::Upgraded => *token = lock.token,
            Some(_) => {}
        }
    }

    /// Gives back the lock of that name once the step succeeds. The owner must have it then.
    pub fn release(&mut self, name: Name<'_>) {
        self.release_token(name, None);
    }

    /// The same, of the lock with that token, where one is given.
    pub fn release_token(&mut self, name: Name<'_>, token: Option<FencingToken>) {
        self.releases.push((name.to_buf(), token));
    }

    /// The step has succeeded: gives back the locks that it released, and in a new transaction the earlier
    /// ones, all in one.
    ///
    /// The owner must live and hold every lock that the step was told it has, or releases. That is checked
    /// together with the release, so that nothing comes in between. A step that has neither locked nor
    /// released anything, and begins no transaction, relies on nothing.
    ///
    /// # Errors
    ///
    /// [`LockError::OwnerEnded`], [`LockError::Lost`] with the locks that are gone, or a
    /// [`LockError::Store`]: the step is undone. The exception is [`StoreError::OutcomeUnknown`]: the step
    /// may have succeeded, so that the locks that it has taken stay the owner's, and those that it gives back
    /// may be gone.
    ///
    /// # Cancel safety
    ///
    /// Locks that are given back by the time the future is dropped stay so; the rest of the step is undone.
    pub async fn commit(mut self) -> Result<(), LockError> {
        let ended = self.end().await;
        if matches!(ended, Ok(()) | Err(LockError::Store(StoreError::OutcomeUnknown { .. }))) {
            if let Some(transaction) = &mut self.transaction {
                transaction.is_new = false;
            }
            self.undo.acquired.clear();
        }
        ended
    }

    async fn end(&self) -> Result<(), LockError> {
        let owner = self.undo.owner();
        let needed = self.needed();
        let needed: Vec<_> = needed.iter().map(|(name, token)| (name.as_name(), *token)).collect();
        if self.is_first {
            let released = |name: &NameBuf| self.releases.iter().any(|(released, _)| released == name);
            let acquired = self.undo.acquired.iter().map(|Acquisition { lock, .. }| &lock.name);
            let spared: Vec<_> = acquired.filter(|name| !released(name)).map(NameBuf::as_name).collect();
            owner.commit_step(&needed, Some(Unlock::AllBut(&spared))).await?;
        } else if !needed.is_empty() {
            let releases: Vec<_> =
                self.releases.iter().map(|(name, token)| (name.as_name(), *token)).collect();
            let release = (!releases.is_empty()).then_some(Unlock::These(&releases));
            owner.commit_step(&needed, release).await?;
        }
        Ok(())
    }

    /// The locks without which it does not succeed.
    pub(crate) fn needed(&self) -> Vec<NeededLock> {
        let relied = self.relied.iter().map(|(name, token)| (name.clone(), Some(*token)));
        let mut needed: Vec<NeededLock> = relied.collect();
        for (name, token) in &self.releases {
            let is_it = |(other, known): &NeededLock| other == name && (token.is_none() || token == known);
            if !needed.iter().any(is_it) {
                needed.push((name.clone(), *token));
            }
        }
        needed
    }

    /// Undoes the step; the same as dropping it.
    pub fn roll_back(self) {}
}
