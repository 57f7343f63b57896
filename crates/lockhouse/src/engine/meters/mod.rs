//! What the houses of a process have done and have at the moment, counted for those that watch it.
//!
//! ```text
//!   bucket ─▶ counts of its lock manager, under its own mutex ─┐
//!                                                              ├─▶ read: one reading for each label
//!   bucket that was dropped ─▶ added to the sum of its label ──┘
//! ```
//!
//! Nothing else is written while locks come and go: a reading looks at each bucket for a moment.

mod reading;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse_core::{Histogram, Totals};

pub(crate) use self::reading::BucketReading;
pub use self::reading::{CommitReading, LabelReading, MeterReading};
use crate::engine::sync::{AtomicU64, Mutex};

/// Counts what the buckets of some houses do, and sums it up by labels. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lockhouse::{House, Meters, Options};
///
/// let meters = Meters::first(100);
/// let house = House::with_options(&Options::new().meters(&meters));
/// let agent = house.bucket("reports").agent("worker-1")?;
/// let lock = agent.locks().request("report").await?;
/// let reading = meters.read(&[house]);
/// assert_eq!((&*reading.labels[0].label, reading.labels[0].held[0]), ("reports", 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Meters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    labels: Labels,
    next: AtomicU64,
    /// Held while the meters are read.
    reading: Mutex<()>,
    sums: Mutex<Sums>,
}

/// Which buckets have a label of their own.
#[derive(Debug)]
enum Labels {
    /// Those of the first so many names.
    First(usize),
    /// Those of these names.
    These(BTreeSet<String>),
}

#[derive(Debug)]
struct Sums {
    /// By label: the totals of the buckets that were dropped.
    dropped: BTreeMap<Arc<str>, Totals>,
    /// The buckets that were not, as they were last seen.
    live: HashMap<u64, Seen>,
    commits: CommitReading,
    refusals_left_out: u64,
}

#[derive(Debug)]
struct Seen {
    label: Arc<str>,
    totals: Totals,
}

/// The entry of one bucket among the meters.
#[derive(Debug)]
pub(crate) struct Metered {
    meters: Meters,
    id: u64,
}

/// The highest duration of each range of commits, in microseconds.
const COMMIT_BOUNDS_US: &[u64] = &[
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000,
];

/// The highest count of writes of each range of commits.
const WRITE_BOUNDS: &[u64] = &[1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000];

impl Meters {
    /// The label of all buckets that have none of their own.
    pub const OTHER: &str = "other";

    /// The first buckets of so many names have a label each, which is the name, as long as the process lives.
    /// Buckets of one name in several partitions or tenants share it; all others share
    /// [`OTHER`](Self::OTHER).
    pub fn first(names: usize) -> Self {
        Self::of(Labels::First(names))
    }

    /// Only the buckets of these names have a label each.
    pub fn these(names: impl IntoIterator<Item = String>) -> Self {
        Self::of(Labels::These(names.into_iter().collect()))
    }

    fn of(labels: Labels) -> Self {
        let commits = CommitReading {
            durations_us: Histogram::new(COMMIT_BOUNDS_US),
            writes: Histogram::new(WRITE_BOUNDS),
        };
        let sums = Sums { dropped: BTreeMap::new(), live: HashMap::new(), commits, refusals_left_out: 0 };
        let (next, reading, sums) = (AtomicU64::new(0), Mutex::default(), Mutex::new(sums));
        Self(Arc::new(Inner { labels, next, reading, sums }))
    }

    /// A bucket of that name begins.
    pub(crate) fn enter(&self, bucket: &str) -> Metered {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let mut sums = self.0.sums.lock();
        let label = sums.label(&self.0.labels, bucket);
        sums.live.insert(id, Seen { label, totals: Totals::default() });
        Metered { meters: self.clone(), id }
    }

    /// A commit of so many writes has taken so long, retries included.
    pub(crate) fn note_commit(&self, writes: usize, length: Duration) {
        let mut sums = self.0.sums.lock();
        sums.commits.durations_us.add(u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
        sums.commits.writes.add(writes as u64);
    }

    /// So many refusals more are in no history.
    pub(crate) fn note_left_out(&self, count: u64) {
        self.0.sums.lock().refusals_left_out += count;
    }

    /// Lets one reading go on at a time.
    pub(crate) fn begin_reading(&self) -> impl Sized {
        self.0.reading.lock()
    }

    /// Notes what a bucket has counted. Returns its label; none if it is counted elsewhere.
    pub(crate) fn see(&self, metered: &Metered, totals: Totals) -> Option<Arc<str>> {
        let mut sums = self.0.sums.lock();
        let is_here = Arc::ptr_eq(&metered.meters.0, &self.0);
        let seen = sums.live.get_mut(&metered.id).filter(|_| is_here)?;
        seen.totals = totals;
        Some(seen.label.clone())
    }

    /// Adds what was counted to what there is, by label.
    pub(crate) fn sum_up(&self, mut labels: BTreeMap<Arc<str>, LabelReading>) -> MeterReading {
        let sums = self.0.sums.lock();
        // A bucket that is just being dropped counts as it was last seen.
        let live = sums.live.values().map(|Seen { label, totals }| (label, totals));
        for (label, totals) in sums.dropped.iter().chain(live) {
            labels.entry(label.clone()).or_insert_with(|| LabelReading::new(label)).totals.merge(totals);
        }
        let Sums { commits, refusals_left_out, .. } = *sums;
        MeterReading { labels: labels.into_values().collect(), commits, refusals_left_out }
    }
}

impl Sums {
    /// The label of the buckets of that name. Once given it stays.
    fn label(&mut self, labels: &Labels, bucket: &str) -> Arc<str> {
        if let Some((label, _)) = self.dropped.get_key_value(bucket) {
            return label.clone();
        }
        let has_own = match labels {
            Labels::First(names) => {
                self.dropped.len() - usize::from(self.dropped.contains_key(Meters::OTHER)) < *names
            }
            Labels::These(names) => names.contains(bucket),
        };
        let label: Arc<str> = if has_own { bucket.into() } else { Meters::OTHER.into() };
        self.dropped.entry(label.clone()).or_default();
        label
    }
}

impl Metered {
    /// The bucket is dropped, with these counts.
    pub(crate) fn leave(&self, totals: &Totals) {
        let mut sums = self.meters.0.sums.lock();
        let Some(Seen { label, .. }) = sums.live.remove(&self.id) else { return };
        sums.dropped.entry(label).or_default().merge(totals);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{EventBounds, House, Options};

    fn requested(reading: &MeterReading) -> Vec<(&str, u64)> {
        reading.labels.iter().map(|label| (&*label.label, label.totals.requested[0])).collect()
    }

    async fn take(house: &House, bucket: &str) {
        let agent = house.bucket(bucket).agent("a").unwrap();
        drop(agent.locks().request("n").await.unwrap());
    }

    #[tokio::test]
    async fn the_first_names_have_labels_of_their_own_and_all_others_share_one() {
        let meters = Meters::first(2);
        let house = House::with_options(&Options::new().meters(&meters));
        for bucket in ["a", "b", "c", "d", "a", "other"] {
            take(&house, bucket).await;
        }
        assert_eq!(requested(&meters.read(&[house])), [("a", 2), ("b", 1), ("other", 3)]);
    }

    #[tokio::test]
    async fn only_the_names_of_a_list_have_labels_of_their_own() {
        let meters = Meters::these(["b".to_owned()]);
        let house = House::with_options(&Options::new().meters(&meters));
        for bucket in ["a", "b", "c"] {
            take(&house, bucket).await;
        }
        assert_eq!(requested(&meters.read(&[house])), [("b", 1), ("other", 2)]);
    }

    #[tokio::test]
    async fn a_house_without_meters_has_no_totals_though_it_keeps_events() {
        let options = Options::new().events(EventBounds::DEFAULT);
        for (options, is_counted) in [(options.clone(), false), (options.meters(&Meters::first(1)), true)] {
            let bucket = House::with_options(&options).bucket("a");
            drop(bucket.agent("a").unwrap().locks().request("n").await.unwrap());
            assert_eq!(bucket.overview().await.unwrap().totals.is_some(), is_counted);
        }
    }

    #[tokio::test]
    async fn counts_outlive_buckets_and_houses_and_gauges_do_not() {
        let meters = Meters::first(9);
        let house = House::with_options(&Options::new().meters(&meters));
        let agent = house.bucket("a").agent("a").unwrap();
        let held = agent.locks().request("n").await.unwrap();
        let reading = meters.read(std::slice::from_ref(&house));
        assert_eq!((reading.labels[0].totals.granted[0], reading.labels[0].held[0]), (1, 1));
        drop((held, agent));
        let reading = meters.read(std::slice::from_ref(&house));
        assert_eq!((reading.labels[0].totals.granted[0], reading.labels[0].held[0]), (1, 0));
        assert_eq!(reading.labels[0].totals.holds_ms[0].count(), 1);
        drop(house);
        assert_eq!(meters.read(&[]).labels[0].totals.granted[0], 1);
        assert!(meters.0.sums.lock().live.is_empty());
    }
}
