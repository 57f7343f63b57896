//! What meters show at one moment.

use std::sync::Arc;

use lockhouse_core::{Discipline, Gauges, Histogram, Totals};

/// What some houses have done, and what there is in them.
#[derive(Clone, Debug)]
pub struct MeterReading {
    /// The buckets of each label together, in the order of the labels.
    pub labels: Vec<LabelReading>,
    /// What was committed to the store.
    pub commits: CommitReading,
    /// How many refusals of offline locks and claims are in no history, as too many came at once.
    pub refusals_left_out: u64,
}

/// What the buckets of one label have done, and what there is in them.
#[derive(Clone, Debug)]
pub struct LabelReading {
    /// The label.
    pub label: Arc<str>,
    /// What they have done since they were first used in this process.
    pub totals: Totals,
    /// How many locks and claims are held, by [`Discipline`].
    pub held: [usize; Discipline::ALL.len()],
    /// How many requests wait.
    pub waiting: usize,
    /// For how long the oldest of them waits, in milliseconds: up to a second more than it does; 0 if none
    /// waits.
    pub longest_wait_ms: u64,
    /// How many agents, owners and claims there are.
    pub parties: [usize; Discipline::ALL.len()],
    /// How many buckets are in use.
    pub buckets: usize,
    /// How many of them recover, or wait for holders that may come back.
    pub recovering: usize,
}

/// The commits of all houses, each as its house waits for it.
#[derive(Clone, Copy, Debug)]
pub struct CommitReading {
    /// How long they took, in microseconds, retries included.
    pub durations_us: Histogram,
    /// How many writes they had.
    pub writes: Histogram,
}

/// What there is in one bucket.
#[derive(Debug)]
pub(crate) struct BucketReading {
    pub(crate) gauges: Gauges,
    pub(crate) longest_wait_ms: u64,
    pub(crate) is_recovering: bool,
}

impl LabelReading {
    pub(crate) fn new(label: &Arc<str>) -> Self {
        Self {
            label: label.clone(),
            totals: Totals::default(),
            held: [0; 3],
            waiting: 0,
            longest_wait_ms: 0,
            parties: [0; 3],
            buckets: 0,
            recovering: 0,
        }
    }

    pub(crate) fn add(&mut self, bucket: &BucketReading) {
        let BucketReading { gauges, longest_wait_ms, is_recovering } = bucket;
        self.held.iter_mut().zip(gauges.held).for_each(|(count, more)| *count += more);
        self.parties.iter_mut().zip(gauges.parties).for_each(|(count, more)| *count += more);
        self.waiting += gauges.waiting;
        self.longest_wait_ms = self.longest_wait_ms.max(*longest_wait_ms);
        self.buckets += 1;
        self.recovering += usize::from(*is_recovering);
    }
}
