//! Buckets that calls have asked for lately.
//!
//! A bucket without any state is forgotten with its last user, and the store has to be told of that. Who makes one call after another would
//! have it forgotten and begun anew with each of them, at the price of a commit. So it stays in use for a while.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use lockhouse::{Bucket, BucketKey, House};
use parking_lot::Mutex;
use tokio::time::sleep;

/// How long a bucket stays in use after a call at least; at most twice as long.
pub(crate) const STAY: Duration = Duration::from_secs(10);

/// How many may stay, of each of the two generations; others are in use only during their calls.
const MOST: usize = 1024;

/// Keeps buckets in use for a while after a call.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    present: HashMap<BucketKey, Bucket>,
    past: HashMap<BucketKey, Bucket>,
}

impl Recent {
    /// The bucket with that key; none if it is not in use, and its tenant has `most` in use already.
    pub(crate) fn bucket(&self, house: &House, key: BucketKey, most: usize) -> Option<Bucket> {
        let past = {
            let mut generations = self.0.lock();
            if let Some(bucket) = generations.present.get(&key) {
                return Some(bucket.clone());
            }
            generations.past.remove(&key)
        };
        let bucket = match past {
            Some(bucket) => bucket,
            None => house.bucket_if_room(key.clone(), most)?,
        };
        let mut generations = self.0.lock();
        if generations.present.len() < MOST {
            generations.present.insert(key, bucket.clone());
        }
        Some(bucket)
    }

    /// Lets buckets go that nobody has asked for.
    pub(crate) async fn forget_in_time(&self) -> Infallible {
        loop {
            sleep(STAY).await;
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
    fn a_bucket_stays_in_use_until_nobody_has_asked_for_it_for_two_turns() {
        let (house, recent) = (House::new(), Recent::default());
        let ask = || drop(recent.bucket(&house, BucketKey::from("b"), MOST));
        ask();
        recent.turn();
        assert_eq!(house.buckets().len(), 1);
        ask();
        recent.turn();
        assert_eq!(house.buckets().len(), 1, "it was asked for since");
        recent.turn();
        assert!(house.buckets().is_empty());
    }

    #[test]
    fn so_many_buckets_stay_in_use_and_no_more() {
        let (house, recent) = (House::new(), Recent::default());
        for number in 0..=MOST {
            let key = BucketKey::from(&*number.to_string());
            let bucket = recent.bucket(&house, key.clone(), 2 * MOST);
            assert_eq!(bucket.expect("there is room").key(), &key);
        }
        assert_eq!(house.buckets().len(), MOST);
        recent.forget_all();
        assert!(house.buckets().is_empty());
    }
}
