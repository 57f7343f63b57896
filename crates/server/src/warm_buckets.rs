//! Buckets that calls have asked for lately.
//!
//! A bucket without any state is forgotten with its last user, and the store has to note that. A caller of
//! one call after another would have the bucket forgotten and begun anew with each of them, at the price of a
//! commit. So the bucket stays in use for a while.

use std::collections::HashMap;
use std::convert::Infallible;

use foldhash::fast::RandomState;
use lockhouse::{Bucket, BucketKey, House};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::bounds::{WARM_BUCKETS, WARM_FOR};
use crate::limits::{Permit, Quotas};

/// Keeps buckets in use for a while after a call.
#[derive(Debug, Default)]
pub(crate) struct WarmBuckets(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    present: Generation,
    past: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    buckets: HashMap<BucketKey, (Bucket, Permit<String>), RandomState>,
    tenants: Quotas<String>,
}

impl Generation {
    /// The bucket stays, if its tenant may have one more.
    fn keep(&mut self, bucket: &Bucket) {
        if let Ok(permit) = self.tenants.take(bucket.key().tenant().to_owned(), WARM_BUCKETS, WARM_BUCKETS) {
            self.buckets.insert(bucket.key().clone(), (bucket.clone(), permit));
        }
    }
}

impl WarmBuckets {
    /// The bucket with that key in this house; the one that `make` gives if it is not kept.
    pub(crate) fn bucket(
        &self,
        house: &House,
        key: &BucketKey,
        make: impl FnOnce() -> Option<Bucket>,
    ) -> Option<Bucket> {
        // One that is kept may be of a house that has ended.
        let is_present = |kept: &(Bucket, Permit<String>)| house.has(&kept.0);
        let past = {
            let mut generations = self.0.lock();
            if let Some((bucket, _)) = generations.present.buckets.get(key).filter(|kept| is_present(kept)) {
                return Some(bucket.clone());
            }
            generations.past.buckets.remove(key)
        };
        let bucket = match past.filter(is_present) {
            Some((bucket, _)) => bucket,
            None => make()?,
        };
        self.0.lock().present.keep(&bucket);
        Some(bucket)
    }

    /// Lets buckets go that no call has asked for.
    pub(crate) async fn forget_in_time(&self) -> Infallible {
        loop {
            sleep(WARM_FOR).await;
            self.turn();
        }
    }

    /// Lets all of them go.
    pub(crate) fn forget_all(&self) {
        self.turn();
        self.turn();
    }

    fn turn(&self) {
        let mut generations = self.0.lock();
        let present = std::mem::take(&mut generations.present);
        let past = std::mem::replace(&mut generations.past, present);
        drop(generations);
        // The end of a bucket takes time, and other mutexes.
        drop(past);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_of_a_house_that_has_ended_is_not_given() {
        let (before, after, warm) = (House::new(), House::new(), WarmBuckets::default());
        let key = BucketKey::from("b");
        let ask = |house: &House| warm.bucket(house, &key, || Some(house.bucket("b"))).expect("it is made");
        assert!(before.has(&ask(&before)));
        warm.turn();
        assert!(after.has(&ask(&after)) && after.has(&ask(&after)));
        warm.turn();
        assert!(after.has(&ask(&after)), "of the generation before");
    }

    #[test]
    fn a_bucket_stays_in_use_until_it_is_unused_for_two_turns() {
        let (house, warm) = (House::new(), WarmBuckets::default());
        let ask = || drop(warm.bucket(&house, &BucketKey::from("b"), || Some(house.bucket("b"))));
        ask();
        warm.turn();
        assert_eq!(house.buckets().len(), 1);
        ask();
        warm.turn();
        assert_eq!(house.buckets().len(), 1, "it was asked for since");
        warm.turn();
        assert!(house.buckets().is_empty());
    }

    #[test]
    fn so_many_buckets_of_a_tenant_stay_in_use_and_others_have_theirs() {
        let (house, warm) = (House::new(), WarmBuckets::default());
        let ask = |tenant: &str, number: usize| {
            // In partitions of their own: a tenant may name any number.
            let partition = format!("\u{1f}{tenant}\u{1f}\u{1f}\u{1f}{number}");
            let key = BucketKey { bucket: "b".to_owned(), partition };
            let bucket = warm.bucket(&house, &key, || Some(house.bucket(key.clone())));
            assert_eq!(bucket.expect("there is room").key(), &key);
        };
        (0..2 * WARM_BUCKETS).for_each(|number| ask("loud", number));
        assert_eq!(house.buckets().len(), WARM_BUCKETS / 4 * 3);
        ask("quiet", 0);
        assert_eq!(house.buckets().len(), WARM_BUCKETS / 4 * 3 + 1);
        warm.forget_all();
        assert!(house.buckets().is_empty());
    }
}
