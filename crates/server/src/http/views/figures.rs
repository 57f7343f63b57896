//! The figures of an overview, as they are sent.

use std::collections::BTreeMap;

use lockhouse::core::{Discipline, Histogram, LossCause, RefusalCause, Totals};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::dto::{At, JsonName};

/// A figure for each discipline.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfEach<T> {
    /// Web locks.
    web: T,
    /// Offline locks.
    offline: T,
    /// Claims.
    claim: T,
}

/// A name for which requests wait.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContendedAnswer {
    /// The resource name.
    pub(crate) name: JsonName,
    /// How many requests wait.
    pub(crate) waiting: u32,
    /// How many locks and claims hold it.
    pub(crate) held: usize,
    /// For how long the first of the queue waits.
    pub(crate) longest_wait_ms: u64,
}

/// What has happened in the bucket since it was put to use in this server.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TotalsAnswer {
    /// Since when it is counted. Two answers with the same instant can be compared.
    since: At,
    /// Locks and claims that were granted.
    granted: OfEach<u64>,
    /// Commands that were refused, by cause.
    #[schema(value_type = BTreeMap<String, u64>, example = json!({"taken": 4, "quota": 0}))]
    refused: BTreeMap<&'static str, u64>,
    /// Locks and claims that their holders have lost, by cause.
    #[schema(value_type = BTreeMap<String, u64>, example = json!({"stolen": 1, "ttl": 2}))]
    lost: BTreeMap<&'static str, u64>,
}

/// How long something took.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Durations {
    /// How many there were.
    count: u64,
    /// Half of them took no longer, about: a value within its range; `null` if there were none.
    p50_ms: Option<u64>,
    /// Nine of ten took no longer, about.
    p90_ms: Option<u64>,
    /// Of a hundred 99 took no longer, about.
    p99_ms: Option<u64>,
    /// The ranges, in order; each begins above the one before.
    #[schema(max_items = 16)]
    buckets: Vec<DurationRange>,
}

/// How many took so long.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DurationRange {
    /// The longest of the range; `null` if it has no end.
    le_ms: Option<u64>,
    /// How many lie in it.
    count: u64,
}

impl<T> OfEach<T> {
    /// Of figures in the order of [`Discipline::ALL`], by which they are counted.
    pub(crate) fn new([web, offline, claim]: [T; Discipline::ALL.len()]) -> Self {
        Self { web, offline, claim }
    }
}

impl TotalsAnswer {
    pub(crate) fn new(since: At, totals: &Totals) -> Self {
        let sum = |counts: &dyn Fn(usize) -> u64| (0..Discipline::ALL.len()).map(counts).sum();
        let refused = |cause: &RefusalCause| (cause.word(), sum(&|of| totals.refused[of][*cause as usize]));
        let lost = |cause: &LossCause| (cause.word(), sum(&|of| totals.lost[of][*cause as usize]));
        Self {
            since,
            granted: OfEach::new(totals.granted),
            refused: RefusalCause::ALL.iter().map(refused).collect(),
            lost: LossCause::ALL.iter().map(lost).collect(),
        }
    }
}

impl From<&Histogram> for Durations {
    fn from(histogram: &Histogram) -> Self {
        let buckets = histogram.ranges().map(|(le_ms, count)| DurationRange { le_ms, count }).collect();
        Self {
            count: histogram.count(),
            p50_ms: percentile(histogram, 50),
            p90_ms: percentile(histogram, 90),
            p99_ms: percentile(histogram, 99),
            buckets,
        }
    }
}

/// The value that so many of a hundred do not exceed, as if the values of a range lay evenly in it. In the
/// range without an end it is where that begins.
fn percentile(histogram: &Histogram, percent: u64) -> Option<u64> {
    let rank = (histogram.count() * percent).div_ceil(100);
    let (mut begin, mut before) = (0, 0);
    for (end, count) in histogram.ranges().filter(|_| rank > 0) {
        if before + count >= rank {
            let length = end.map_or(0, |end| end - begin);
            // Of at most 2^64 values and milliseconds.
            let share = u128::from(length) * u128::from(rank - before) / u128::from(count);
            return Some(begin + share as u64);
        }
        (begin, before) = (end.unwrap_or(begin), before + count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_in_the_range_of_its_value() {
        let mut histogram = Histogram::new(&[0, 100, 1_000]);
        assert_eq!(percentile(&histogram, 50), None);
        histogram.add(0);
        assert_eq!(percentile(&histogram, 99), Some(0));
        (0..8).for_each(|_| histogram.add(70));
        histogram.add(900);
        let percentiles = [10, 50, 90, 91, 99].map(|percent| percentile(&histogram, percent));
        assert_eq!(percentiles, [Some(0), Some(50), Some(100), Some(1_000), Some(1_000)]);
        (0..90).for_each(|_| histogram.add(5_000));
        assert_eq!(percentile(&histogram, 50), Some(1_000), "the last range has no end");
    }
}
