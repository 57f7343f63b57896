//! The metrics of a server: what its lock tables, sessions and store do, as text in the OpenMetrics format.
//!
//! ```text
//!   GET /metrics ─▶ Scrape::of: all values at one moment ─▶ families: each metric with its labels ─▶ text
//! ```
//!
//! What happens is counted where it happens anyway ([`lockhouse::Meters`]); all else is looked up at a
//! scrape. One text answers all that have asked by then, and the next comes a second later ([`texts`]).

mod families;
mod scrape;
mod texts;
mod writer;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use lockhouse::Meters;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use self::scrape::Scrape;
pub(crate) use self::texts::Texts;
use crate::bounds::METRIC_LABELS;
use crate::settings::MetricsSettings;
use crate::state::AppState;

/// The path of the metrics.
pub(crate) const PATH: &str = "/metrics";

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where what happens is counted; none if nothing is to be counted.
pub(crate) fn meters(settings: &MetricsSettings) -> Option<Meters> {
    let MetricsSettings { enabled, buckets, .. } = settings;
    enabled.then(|| match &**buckets {
        [] => Meters::first(METRIC_LABELS),
        names => Meters::these(names.iter().cloned()),
    })
}

/// The answer to a scrape.
pub(crate) fn answer(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")], text).into_response()
}

/// The values of now; none if nothing is counted. It may wait for buckets that are at work.
fn text(state: &AppState) -> Option<Bytes> {
    let scrape = Scrape::of(state)?;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a text takes whatever is written to it");
    Some(text.into())
}
