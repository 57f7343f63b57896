//! The reading of meters.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockhouse_core::Totals;

use crate::engine::bucket::Bucket;
use crate::engine::bucket::shared::Shared;
use crate::engine::house::House;
use crate::engine::meters::{LabelReading, MeterReading, Meters};

impl Meters {
    /// All that was counted, and what there is in these houses. Counts never fall from one reading to the
    /// next, whichever buckets and houses come and go.
    ///
    /// O(buckets): each is looked at once, under its mutex, in O(1). Another reading waits meanwhile, and
    /// nothing else does. It blocks the thread while a bucket is at work: async programs call it where that
    /// keeps no task from its thread.
    pub fn read(&self, houses: &[House]) -> MeterReading {
        let _one = self.begin_reading();
        let buckets: Vec<Bucket> = houses.iter().flat_map(House::buckets).collect();
        let mut labels = BTreeMap::new();
        buckets.iter().for_each(|Bucket(bucket)| self.read_bucket(bucket, &mut labels));
        self.sum_up(labels)
    }

    fn read_bucket(&self, bucket: &Shared, labels: &mut BTreeMap<Arc<str>, LabelReading>) {
        let Some(metered) = bucket.metered() else { return };
        let mut totals = Totals::default();
        // Without another mutex, as a large step of the bucket may take a while.
        let now = bucket.read_meters(&mut totals);
        let Some(label) = self.see(metered, totals) else { return };
        labels.entry(label.clone()).or_insert_with(|| LabelReading::new(&label)).add(&now);
    }
}
