//! `GET overview`: a bucket in a few figures.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use lockhouse::core::Discipline;
use lockhouse::{Bucket, MemoryReservation, Overview};
use serde::Serialize;
use utoipa::ToSchema;

use super::figures::{ContendedAnswer, Durations, OfEach, TotalsAnswer};
use crate::bounds::OVERVIEW_BYTES;
use crate::http::calls::bucket;
use crate::http::dto::{At, JsonAnswer, JsonName};
use crate::http::query::entry::Entry;
use crate::http::query::snapshot::{charge, json_answer, reserve};
use crate::http::request::decode::ApiResult;
use crate::http::request::path::InBucket;
use crate::http::route::BASE;
use crate::limits::price_of_query;
use crate::state::AppState;

/// A bucket in a few figures, up to a second old.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverviewAnswer {
    /// When the figures were taken.
    at: At,
    /// How many locks and claims are held.
    held: OfEach<usize>,
    /// How many requests wait.
    waiting: usize,
    /// How many assignments stand.
    assigned: usize,
    /// How many owners live.
    owners: usize,
    /// How many agents of web locks live.
    agents: usize,
    /// The request that waits for longest.
    longest_wait: Option<Entry>,
    /// The lock or claim that is held for longest.
    oldest: Option<Entry>,
    /// The names for which most requests wait, the most first.
    #[schema(max_items = 10)]
    contended: Vec<ContendedAnswer>,
    /// For how long, at most, the bucket still waits for holders from before a restart, whose locks are
    /// missing until they are back; 0 if it does not.
    recovering_ms: u64,
    /// What has happened; `null`, as `waits` and `holds`, where the server counts nothing
    /// (`metrics.enabled`).
    totals: Option<TotalsAnswer>,
    /// How long the requests of web locks waited that were granted.
    waits: Option<Durations>,
    /// How long locks and claims were held that have ended.
    holds: Option<OfEach<Durations>>,
    #[serde(skip)]
    #[expect(dead_code, reason = "kept for its end")]
    memory: Arc<MemoryReservation>,
}

impl OverviewAnswer {
    fn new(
        it: Overview,
        (sessions, recovers_for): (usize, Duration),
        memory: Arc<MemoryReservation>,
    ) -> Self {
        let totals = it.totals.as_ref();
        let contended = it.contended.into_iter().map(|it| ContendedAnswer {
            name: JsonName(it.name),
            waiting: it.waiting,
            held: it.held,
            longest_wait_ms: it.longest_wait.as_millis() as u64,
        });
        Self {
            at: At(it.at),
            held: OfEach::new(it.held),
            waiting: it.waiting,
            assigned: it.assigned,
            owners: it.parties[Discipline::Offline as usize],
            // Each session has a lease of its own beside its agents.
            agents: it.parties[Discipline::Web as usize].saturating_sub(sessions),
            longest_wait: it.longest_wait.map(Entry::from),
            oldest: it.oldest.map(Entry::from),
            contended: contended.collect(),
            recovering_ms: recovers_for.as_millis() as u64,
            totals: totals.map(|(since, totals)| TotalsAnswer::new(At(*since), totals)),
            waits: totals.map(|(_, totals)| Durations::from(&totals.waits_ms)),
            holds: totals.map(|(_, totals)| OfEach::new(totals.holds_ms.each_ref().map(Durations::from))),
            memory,
        }
    }
}

async fn make(state: &AppState, bucket: &Bucket) -> ApiResult<OverviewAnswer> {
    let memory = reserve(state, bucket, OVERVIEW_BYTES)?;
    charge(state, bucket, price_of_query(bucket.len()));
    // What comes back after this is in the figures, or was missing while this was said.
    let recovers_for = bucket.recovers_for().unwrap_or_default();
    let overview = bucket.overview().await?;
    let sessions = state.sessions.len_of_bucket(bucket.key());
    Ok(OverviewAnswer::new(overview, (sessions, recovers_for), memory))
}

/// Show a bucket in a few figures
///
/// What is held and who waits, in numbers; the names that are most in demand; and what has happened since
/// the bucket was put to use in this server. The figures are up to a second old, so that many may ask. Rates
/// are the differences of two answers whose `totals.since` is the same.
#[utoipa::path(
    get, context_path = BASE, path = "/overview", tag = "query", operation_id = "overview",
    responses((status = 200, description = "The figures.", body = OverviewAnswer)),
)]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InBucket(key): InBucket,
) -> ApiResult<JsonAnswer> {
    let bucket = bucket(&state, &key)?;
    let overview = state.recent_views.get(&key, make(&state, &bucket)).await?;
    json_answer(&state, key.tenant(), &*overview)
}
