//! Keyed locks in one process behind one face. Each implementation is what a careful user of that crate would
//! write.

use std::future::Future;
use std::sync::Arc;

use dashmap::DashMap;
use keyed_lock::r#async::KeyedLock;
use lockable::LockPool;
use lockmap::LockMap;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockWriteGuard, RwLock};

/// Something that locks names.
pub trait Locks: Default + Send + Sync + 'static {
    /// As the table calls it.
    const NAME: &'static str;
    /// The guard of a lock: it holds the lock until it is dropped.
    type Held<'a>;

    /// Waits for the name.
    fn lock<'a>(&'a self, name: &'a str) -> impl Future<Output = Self::Held<'a>> + Send + 'a;

    /// Whether the lock is held; where a lock cannot be refused, it is.
    fn is_granted(_: &Self::Held<'_>) -> bool {
        true
    }

    /// How many names are still in memory, where one can know.
    fn left_behind(&self) -> Option<usize>;
}

/// Ours: one agent, as a program has one.
pub struct Lockhouse {
    agent: lockhouse::Agent,
    bucket: lockhouse::Bucket,
}

impl Default for Lockhouse {
    fn default() -> Self {
        let bucket = lockhouse::House::new().bucket("bench");
        let agent = bucket.agent("bench").expect("a new bucket takes an agent");
        Self { agent, bucket }
    }
}

impl Locks for Lockhouse {
    const NAME: &'static str = "lockhouse";
    type Held<'a> = Result<lockhouse::LockGuard, lockhouse::RequestError>;

    fn lock<'a>(&'a self, name: &'a str) -> impl Future<Output = Self::Held<'a>> + Send + 'a {
        self.agent.locks().request(name).into_future()
    }

    fn is_granted(held: &Self::Held<'_>) -> bool {
        held.is_ok()
    }

    fn left_behind(&self) -> Option<usize> {
        Some(self.bucket.len())
    }
}

/// The lockable crate.
#[derive(Default)]
pub struct Lockable(LockPool<String>);

impl Locks for Lockable {
    const NAME: &'static str = "lockable 0.2 LockPool";
    type Held<'a> = <LockPool<String> as lockable::Lockable<String, ()>>::Guard<'a>;

    fn lock<'a>(&'a self, name: &'a str) -> impl Future<Output = Self::Held<'a>> + Send + 'a {
        self.0.async_lock(name.to_owned())
    }

    fn left_behind(&self) -> Option<usize> {
        Some(self.0.num_locked())
    }
}

/// The keyed-lock crate.
pub struct KeyedLocks(KeyedLock<String>);

impl Default for KeyedLocks {
    fn default() -> Self {
        Self(KeyedLock::new())
    }
}

impl Locks for KeyedLocks {
    const NAME: &'static str = "keyed-lock 0.2";
    type Held<'a> = keyed_lock::r#async::Guard<'a, String>;

    fn lock<'a>(&'a self, name: &'a str) -> impl Future<Output = Self::Held<'a>> + Send + 'a {
        self.0.lock(name.to_owned())
    }

    fn left_behind(&self) -> Option<usize> {
        None
    }
}

/// The usual code by hand: a concurrent map of tokio mutexes, whose entries go with the last user.
#[derive(Default)]
pub struct DashMutex(DashMap<String, Arc<Mutex<()>>>);

/// Holds a name of [`DashMutex`].
pub struct DashMutexHeld<'a> {
    locks: &'a DashMutex,
    name: &'a str,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Locks for DashMutex {
    const NAME: &'static str = "DashMap + tokio Mutex";
    type Held<'a> = DashMutexHeld<'a>;

    fn lock<'a>(&'a self, name: &'a str) -> impl Future<Output = Self::Held<'a>> + Send + 'a {
        let lock = self.0.entry(name.to_owned()).or_default().clone();
        async move { DashMutexHeld { locks: self, name, guard: Some(lock.lock_owned().await) } }
    }

    fn left_behind(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

impl Drop for DashMutexHeld<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        self.locks.0.remove_if(self.name, |_, lock| Arc::strong_count(lock) == 1);
    }
}

/// The same with tokio's read-write lock, which has shared holders as ours has.
#[derive(Default)]
pub struct DashRwLock(DashMap<String, Arc<RwLock<()>>>);

/// Holds a name of [`DashRwLock`].
pub struct DashRwLockHeld<'a> {
    locks: &'a DashRwLock,
    name: &'a str,
    guard: Option<OwnedRwLockWriteGuard<()>>,
}

impl Locks for DashRwLock {
    const NAME: &'static str = "DashMap + tokio RwLock";
    type Held<'a> = DashRwLockHeld<'a>;

    fn lock<'a>(&'a self, name: &'a str) -> impl Future<Output = Self::Held<'a>> + Send + 'a {
        let lock = self.0.entry(name.to_owned()).or_default().clone();
        async move { DashRwLockHeld { locks: self, name, guard: Some(lock.write_owned().await) } }
    }

    fn left_behind(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

impl Drop for DashRwLockHeld<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        self.locks.0.remove_if(self.name, |_, lock| Arc::strong_count(lock) == 1);
    }
}

/// The lockmap crate, which blocks the thread instead of waiting: comparable only where no task holds a lock
/// over an await.
#[derive(Default)]
pub struct BlockingLockMap(LockMap<String, ()>);

impl Locks for BlockingLockMap {
    const NAME: &'static str = "lockmap 0.2 (blocking)";
    type Held<'a> = lockmap::Entry<'a, String, ()>;

    async fn lock<'a>(&'a self, name: &'a str) -> Self::Held<'a> {
        self.0.entry_by_ref(name)
    }

    fn left_behind(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// One tokio mutex without any name: the floor of what waiting costs.
#[derive(Default)]
pub struct Unkeyed(Mutex<()>);

impl Locks for Unkeyed {
    const NAME: &'static str = "tokio Mutex (no names)";
    type Held<'a> = tokio::sync::MutexGuard<'a, ()>;

    fn lock<'a>(&'a self, _: &'a str) -> impl Future<Output = Self::Held<'a>> + Send + 'a {
        self.0.lock()
    }

    fn left_behind(&self) -> Option<usize> {
        None
    }
}
