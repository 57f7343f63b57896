//! The part of a house that all its handles share.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::fast::RandomState;
use lockhouse_core::{Command, Instant, LockManager};
use lockhouse_store::{RefusalRecord, Scope};

use crate::engine::bucket::retention::Housekeeping;
use crate::engine::bucket::shared::{Host, Shared};
use crate::engine::commit::pipeline::{Pipeline, Stop};
use crate::engine::environment::Environment;
use crate::engine::house::options::Options;
use crate::engine::house::past_events::PastEvents;
use crate::engine::house::registry::{Marks, Registry};
use crate::engine::house::restore::Restored;
use crate::engine::house::ticker::Ticking;
use crate::engine::key::BucketKey;
use crate::engine::sync::{AtomicBool, AtomicUsize, Mutex, yield_now};
use crate::loss::Loss;

/// Apart from [`Inner`], which the buckets keep alive.
#[derive(Debug, Default)]
pub(crate) struct Retained(Mutex<HashMap<BucketKey, Arc<Shared>, RandomState>>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) environment: Arc<Environment>,
    registry: Mutex<Registry>,
    pub(super) ticking: Mutex<Ticking>,
    /// The way to the store, if there is one.
    pipeline: Option<Arc<Pipeline>>,
    retained: Weak<Retained>,
    recovery: Recovery,
    is_closing: AtomicBool,
    /// What has happened in buckets that are not in use.
    pub(super) past_events: PastEvents,
}

/// The rest of the recovery from a crash.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// How many buckets recover; those that have no records in the store count as one.
    count: AtomicUsize,
    /// Until when buckets recover that have no records in the store.
    of_new_until: Option<Instant>,
}

impl Recovery {
    /// Of so many buckets, and of new ones until then.
    pub(crate) fn of(count: usize, of_new_until: Option<Instant>) -> Self {
        Self { count: (count + usize::from(of_new_until.is_some())).into(), of_new_until }
    }
}

impl Inner {
    pub(crate) fn new(
        environment: Environment,
        pipeline: Option<Arc<Pipeline>>,
        recovery: Recovery,
        marks: Marks,
        retained: Weak<Retained>,
    ) -> Self {
        Self {
            environment: Arc::new(environment),
            registry: Mutex::new(Registry::with(marks)),
            ticking: Mutex::default(),
            pipeline,
            retained,
            recovery,
            is_closing: AtomicBool::new(false),
            past_events: PastEvents::default(),
        }
    }

    pub(crate) fn pipeline(&self) -> Option<&Arc<Pipeline>> {
        self.pipeline.as_ref()
    }

    /// Has the house move on with the clock of these options, if they have one.
    pub(crate) fn live_by(self: &Arc<Self>, options: &Options) {
        if let Some(clock) = options.manual_clock() {
            let house: Weak<Self> = Arc::downgrade(self);
            clock.drives(house);
        }
    }

    /// The bucket with that key; none if it is not in use, and `most` others of its tenant are in use
    /// already.
    pub(crate) fn bucket(self: &Arc<Self>, key: BucketKey, most: usize) -> Option<Arc<Shared>> {
        loop {
            let mut registry = self.registry.lock();
            let Some(known) = registry.buckets.get(&key) else {
                if registry.count(key.tenant()) >= most {
                    return None;
                }
                let bucket = self.new_bucket(key.clone(), registry.marks.above(&key));
                registry.insert(key, &bucket);
                drop(registry);
                self.begin(&bucket);
                return Some(bucket);
            };
            if let Some(bucket) = known.upgrade() {
                return Some(bucket);
            }
            // The bucket's last user is just leaving, on another thread, and will hand in the token mark.
            drop(registry);
            yield_now();
        }
    }

    /// Until when buckets recover of which the store has no records; none if that is over.
    fn new_buckets_recover_until(&self) -> Option<Instant> {
        self.recovery.of_new_until.filter(|until| *until > self.environment.clock.now())
    }

    /// Whether holders may still come back for locks in buckets of which nothing is known.
    pub(crate) fn recovers_new_buckets(&self) -> bool {
        self.new_buckets_recover_until().is_some()
    }

    /// The bucket with that key, if it is in use.
    pub(super) fn in_use(&self, key: &BucketKey) -> Option<Arc<Shared>> {
        self.registry.lock().buckets.get(key).and_then(Weak::upgrade)
    }

    /// How many buckets of that tenant are in use.
    pub(crate) fn count_of(&self, tenant: &str) -> usize {
        self.registry.lock().count(tenant)
    }

    pub(crate) fn buckets(&self) -> Vec<Arc<Shared>> {
        self.registry.lock().buckets.values().filter_map(Weak::upgrade).collect()
    }

    /// Those in use in that partition.
    pub(crate) fn buckets_in(&self, partition: &str) -> Vec<Arc<Shared>> {
        let registry = self.registry.lock();
        let of_it = registry.buckets.iter().filter(|(key, _)| key.partition == partition);
        of_it.filter_map(|(_, bucket)| bucket.upgrade()).collect()
    }

    /// Called with the mutex of the registry, so that a house that begins to close either finds the bucket
    /// there, or is found closing.
    fn new_bucket(self: &Arc<Self>, key: BucketKey, token_mark: u64) -> Arc<Shared> {
        let mut manager = LockManager::with_limits(RandomState::default(), self.environment.bounds.limits);
        manager.continue_tokens_above(token_mark);
        if let Some(until) = self.new_buckets_recover_until() {
            manager.begin_recovery(until);
            self.recovery.count.fetch_add(1, Ordering::AcqRel);
        }
        if self.is_closing.load(Ordering::Acquire) {
            // The bucket is closed before it can be found: it is not among those that are closed, and its
            // grants would be held after a clean stop.
            manager.handle(self.environment.clock.now(), Command::Close);
        }
        let past = self.environment.bounds.events.and_then(|_| self.past_events.take(&key));
        Arc::new(Shared::new(key, self.environment.clone(), self.clone(), manager, past))
    }

    /// Gives a new bucket the notices that it has missed, without any mutex.
    fn begin(&self, bucket: &Arc<Shared>) {
        // A bucket that came too late for the notice of the end would wait for ever for what it asks.
        if self.environment.store_is_over() {
            bucket.is_over(self.loss().as_ref());
        }
        if self.pipeline.is_none() && self.is_closing() {
            bucket.end_events();
        }
        if self.recovery.of_new_until.is_some() {
            // The ticker learns the end of the recovery, during which the bucket must not be forgotten.
            bucket.with(|_| ());
            self.retain(bucket);
        }
    }

    /// Every bucket of the store is back.
    pub(crate) fn has_restored(&self) {
        if self.recovery.count.load(Ordering::Acquire) == 0 {
            self.recovery_completed();
        }
    }

    /// How long buckets still recover that have no records in the store; none if they never did.
    pub(crate) fn recovery_of_new(&self) -> Option<Duration> {
        let left_ms =
            |until: Instant| until.as_millis().saturating_sub(self.environment.clock.now().as_millis());
        self.recovery.of_new_until.map(|until| Duration::from_millis(left_ms(until)))
    }

    /// The recovery of that bucket is over.
    fn has_recovered(&self, bucket: &Arc<Shared>) {
        self.retain(bucket);
        self.one_has_recovered();
    }

    /// One of those that count has recovered.
    pub(crate) fn one_has_recovered(&self) {
        if self.recovery.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.recovery_completed();
        }
    }

    fn recovery_completed(&self) {
        if let Some(pipeline) = &self.pipeline {
            pipeline.recovery_completed();
        }
    }

    /// Keeps the bucket as long as it must not be forgotten.
    fn retain(&self, bucket: &Arc<Shared>) {
        let Some(retained) = self.retained.upgrade() else { return };
        let mut buckets = retained.0.lock();
        let displaced = match bucket.settle_retention() {
            true if buckets.contains_key(bucket.key()) => None,
            true => buckets.insert(bucket.key().clone(), bucket.clone()),
            false => buckets.remove(bucket.key()),
        };
        drop(buckets);
        drop(displaced);
    }

    /// From now on new buckets grant nothing.
    pub(crate) fn begin_to_close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    /// Whether it has begun to close, or has ended.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// A bucket that was restored.
    pub(super) fn add(self: &Arc<Self>, bucket: Restored) {
        let (key, environment) = (BucketKey::from(&*bucket.scope), self.environment.clone());
        let Restored { manager, absence, facts, .. } = bucket;
        let shared =
            Arc::new(Shared::restored(key, environment, self.clone(), manager, absence, facts, true));
        self.registry.lock().insert(shared.key().clone(), &shared);
        self.retain(&shared);
        // The ticker learns the deadlines of the bucket, if there are any.
        shared.with(|_| ());
    }

    /// Notifies all buckets that the pipeline has ended.
    pub(crate) fn is_over(&self) {
        let why = self.loss();
        self.begin_to_close();
        self.buckets_in_order().iter().for_each(|bucket| bucket.is_over(why.as_ref()));
    }

    /// All buckets, in the order of their keys: the end of a house is the same each time.
    pub(crate) fn buckets_in_order(&self) -> Vec<Arc<Shared>> {
        let mut buckets = self.buckets();
        buckets.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        buckets
    }

    /// Why every lock is lost, if the store is.
    fn loss(&self) -> Option<Loss> {
        self.environment.store.as_ref().and_then(|store| store.loss())
    }
}

impl Host for Inner {
    fn watch_deadlines(self: Arc<Self>, bucket: &Arc<Shared>) {
        self.watch(bucket);
    }

    fn remember_runtime(&self) {
        Self::remember_runtime(self);
    }

    #[cold]
    fn enqueue(&self, bucket: &Arc<Shared>, is_first: bool, more: usize) {
        let Some(pipeline) = &self.pipeline else { return };
        if is_first {
            pipeline.enqueue(bucket.clone());
        }
        pipeline.has_more(more);
    }

    fn refused(&self, bucket: &Shared, record: RefusalRecord) {
        if let Some(pipeline) = &self.pipeline {
            pipeline.refused(bucket.shared_scope(), bucket.key().tenant(), record);
        }
    }

    fn keep_house(&self, bucket: &Arc<Shared>, what: Housekeeping) {
        match what {
            Housekeeping::EndRecovery => self.has_recovered(bucket),
            Housekeeping::SettleRetention => self.retain(bucket),
        }
    }

    fn forget(&self, bucket: &Shared, last_token: u64, forgotten: Option<Arc<Scope>>) {
        if let Some(log) = bucket.events_if_kept().filter(|_| self.environment.bounds.events.is_some()) {
            self.past_events.keep(bucket.key(), log);
        }
        let mut registry = self.registry.lock();
        let was_known = registry.remove(bucket.key(), bucket);
        match (&self.pipeline, forgotten) {
            (None, _) => _ = registry.marks.raise(bucket.key(), last_token),
            (Some(pipeline), Some(scope)) if was_known => {
                let mark = registry.marks.raise(bucket.key(), last_token);
                pipeline.bucket_dropped(scope, mark);
            }
            // The store has the mark with the bucket itself, or with that which has taken its place.
            (Some(_), _) => {}
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(pipeline) = &self.pipeline {
            pipeline.stop(Stop::Abandoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::key::BucketKey;
    use crate::{House, engine::bucket::shared::Shared};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_late_drop_removes_neither_the_successor_nor_its_count() {
        let house = House::new();
        let key = BucketKey::from("b");
        let bucket = || house.inner.bucket(key.clone(), 1).unwrap();
        let count = || house.inner.registry.lock().count(key.tenant());
        let first = bucket();
        let successor: Arc<Shared> = house.inner.new_bucket(key.clone(), 0);
        house.inner.registry.lock().insert(key.clone(), &successor);
        assert_eq!(count(), 1);
        drop(first);
        assert!(Arc::ptr_eq(&bucket(), &successor));
        assert_eq!(count(), 1);
        drop(successor);
        assert_eq!((count(), house.inner.buckets().len()), (0, 0));
    }
}
