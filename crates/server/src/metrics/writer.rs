//! Families of metrics as OpenMetrics has them.

use std::fmt;

use lockhouse::core::Histogram;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The name of a metric without the suffix of its kind, and its meaning.
pub(super) type Named = (&'static str, &'static str);

/// The labels of one value.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Writes families.
pub(super) struct Writer<'e>(pub(super) DescriptorEncoder<'e>);

impl Writer<'_> {
    /// Values that only grow.
    pub(super) fn counters<'a>(
        &mut self,
        named: Named,
        values: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(named, MetricType::Counter)?;
        values.into_iter().try_for_each(|(labels, value)| {
            with_labels(&mut family, &labels, |metric| {
                metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
            })
        })
    }

    /// Values of the moment.
    pub(super) fn gauges<'a>(
        &mut self,
        named: Named,
        values: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) -> fmt::Result {
        let mut family = self.family(named, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(labels, value)| {
            with_labels(&mut family, &labels, |metric| metric.encode_gauge(&value))
        })
    }

    /// One value of the moment, without labels.
    pub(super) fn gauge(&mut self, named: Named, value: f64) -> fmt::Result {
        self.gauges(named, [(Labels::new(), value)])
    }

    /// Distributions, whose values are counted in such parts of the unit.
    pub(super) fn histograms<'a>(
        &mut self,
        named: Named,
        parts: f64,
        values: impl IntoIterator<Item = (Labels<'a>, &'a Histogram)>,
    ) -> fmt::Result {
        let mut family = self.family(named, MetricType::Histogram)?;
        values.into_iter().try_for_each(|(labels, histogram)| {
            let upper = |bound: Option<u64>| bound.map_or(f64::INFINITY, |bound| bound as f64 / parts);
            let ranges: Vec<(f64, u64)> =
                histogram.ranges().map(|(bound, count)| (upper(bound), count)).collect();
            let sum = histogram.sum() as f64 / parts;
            with_labels(&mut family, &labels, |metric| {
                metric.encode_histogram::<NoLabelSet>(sum, histogram.count(), &ranges, None)
            })
        })
    }

    fn family(&mut self, (name, help): Named, kind: MetricType) -> Result<MetricEncoder<'_>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, kind)
    }
}

fn with_labels(
    family: &mut MetricEncoder<'_>,
    labels: &Labels<'_>,
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() { write(family) } else { write(&mut family.encode_family(labels)?) }
}
