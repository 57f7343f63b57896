//! `[metrics]`

use super::text;
use crate::bounds::METRIC_LABELS;
use crate::settings::decode::{Table, flag};
use crate::settings::key::Key;

/// The settings of the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Whether what happens is counted, and shown at `/metrics`.
    pub enabled: bool,
    /// An address to listen on, `HOST:PORT`, for `/metrics` and health alone, without authentication.
    pub listen: Option<String>,
    /// The names of the buckets that have a label of their own; none: the first ones.
    pub buckets: Vec<String>,
}

/// The keys of `[metrics]`.
pub(crate) fn keys() -> Vec<Key> {
    vec![
        Key::new("metrics.enabled", "true"),
        Key::unset("metrics.listen").flag("--metrics-listen"),
        Key::new("metrics.buckets", "[]"),
    ]
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { enabled: true, listen: None, buckets: Vec::new() }
    }
}

impl MetricsSettings {
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        let buckets = table.optional("buckets", |value| {
            let names = value.list(text::string)?;
            if names.len() > METRIC_LABELS {
                return Err(value.wrong(format!("has {} names, but may have {METRIC_LABELS}", names.len())));
            }
            Ok(names)
        });
        Some(Self {
            enabled: table.required("enabled", flag)?,
            listen: table.optional("listen", text::listen),
            buckets: buckets.unwrap_or_default(),
        })
    }

    pub(in crate::settings) fn check(&self, wrong: &mut impl FnMut(&str, &[&str], &str)) {
        if self.listen.is_some() && !self.enabled {
            wrong("metrics.listen", &["metrics.enabled"], "only with metrics.enabled = true");
        }
    }
}
