//! `GET /v1/buckets`: the buckets that the caller may look at.

use std::sync::Arc;

use axum::extract::{Request, State};
use lockhouse::BucketKey;
use lockhouse::core::{Discipline, Gauges};
use serde::{Deserialize, Serialize};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use super::fleet::gather;
use crate::auth::Identity;
use crate::cluster::Forwarded;
use crate::http::access::Caller;
use crate::http::dto::JsonAnswer;
use crate::http::problem::{Code, Problem};
use crate::http::query::snapshot::json_answer;
use crate::http::request::constraints::{BUCKET, BUCKET_PREFIX, PAGE};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::schema::{RuleSchema, parameter};
use crate::limits::price_of_query;
use crate::settings::Permission;
use crate::state::AppState;

/// A bucket, in numbers. What is not durable yet may be counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedBucket {
    /// Its name.
    pub(super) bucket: String,
    /// How many locks and claims are held.
    held: usize,
    /// How many requests wait.
    waiting: usize,
    /// How many owners live.
    owners: usize,
    /// How many assignments stand.
    assigned: usize,
}

/// A page of buckets, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedBuckets {
    /// At most as many as asked for.
    #[schema(max_items = 1000)]
    pub(super) buckets: Vec<ListedBucket>,
    /// The `cursor` of the next page; `null` on the last.
    pub(super) next: Option<String>,
    /// The nodes of the fleet that did not answer in time or must be silent, whose buckets are missing.
    #[serde(default)]
    pub(super) missing: Vec<String>,
}

/// Which buckets.
#[derive(Clone, Debug)]
pub(super) struct BucketsQuestion {
    prefix: String,
    pub(super) limit: usize,
    /// The last name of the page before.
    after: Option<String>,
}

struct BucketsParameters;

impl IntoParams for BucketsParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let limit = format!("How many buckets a page has at most; {} without it.", PAGE.example);
        vec![
            parameter("prefix", BUCKET_PREFIX.schema(), "Only names that begin with this."),
            parameter("limit", PAGE.schema(), &limit),
            parameter("cursor", BUCKET.schema(), "The `next` of the page before; absent for the first page."),
        ]
    }
}

impl BucketsQuestion {
    fn read(parameters: &Parameters<'_>) -> ApiResult<Self> {
        let limit = parameters.field("limit")?.number_if_any(&PAGE)?.unwrap_or(PAGE.example);
        Ok(Self {
            prefix: parameters.field("prefix")?.string_if_any(&BUCKET_PREFIX)?.unwrap_or_default(),
            limit: limit as usize,
            after: parameters.field("cursor")?.string_if_any(&BUCKET)?,
        })
    }

    fn admits(&self, name: &str, identity: &Identity) -> bool {
        name.starts_with(&self.prefix)
            && self.after.as_ref().is_none_or(|after| name > after.as_str())
            && identity.permissions(name).has(Permission::Query)
    }
}

impl ListedBuckets {
    /// The first of these buckets, in the order of their names.
    pub(super) fn first(mut buckets: Vec<ListedBucket>, limit: usize) -> Self {
        buckets.sort_by(|one, other| one.bucket.cmp(&other.bucket));
        // While a bucket moves, two nodes may have it.
        buckets.dedup_by(|one, other| one.bucket == other.bucket);
        let has_more = buckets.len() > limit;
        buckets.truncate(limit);
        let next = buckets.last().filter(|_| has_more).map(|last| last.bucket.clone());
        Self { buckets, next, missing: Vec::new() }
    }
}

/// The buckets of this server alone. A node of a fleet that must be silent tells only that.
pub(super) fn here(
    state: &AppState,
    identity: &Identity,
    asked: &BucketsQuestion,
) -> ApiResult<ListedBuckets> {
    let partition = partition(identity)?;
    let (mut looked_at, mut found, mut is_mute) = (0, Vec::new(), false);
    for house in state.houses.all() {
        let before = found.len();
        for bucket in house.buckets_in(&partition.partition) {
            looked_at += 1;
            let name = &bucket.key().bucket;
            if !asked.admits(name, identity) {
                continue;
            }
            let (Gauges { held, waiting, parties, .. }, assigned) = bucket.gauges();
            let held: usize = held.iter().sum();
            let owners = parties[Discipline::Offline as usize];
            if held + waiting + owners + assigned > 0 {
                found.push(ListedBucket { bucket: name.clone(), held, waiting, owners, assigned });
            }
        }
        if house.slot_lease().is_some_and(|lease| lease.is_mute()) {
            // Another node may have its buckets by now.
            found.truncate(before);
            is_mute = true;
        }
    }
    state.limiter.charge_call(partition.tenant(), price_of_query(looked_at));
    let mut listed = ListedBuckets::first(found, asked.limit);
    let own = state.houses.cluster().filter(|_| is_mute);
    listed.missing.extend(own.map(|cluster| cluster.node.label().to_owned()));
    Ok(listed)
}

/// The partition that all buckets of the caller are in.
pub(super) fn partition(identity: &Identity) -> ApiResult<BucketKey> {
    identity.bucket(String::new(), "").map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

/// List the buckets
///
/// Those of the caller's tenant that it may look at (`query`) and in which there is anything, in the order of
/// their names; on a fleet those of all nodes. A node that does not answer in time, or must be silent, is
/// named in `missing`.
#[utoipa::path(
    get, path = "/v1/buckets", tag = "query", operation_id = "listBuckets", params(BucketsParameters),
    responses((status = 200, description = "A page of buckets.", body = ListedBuckets)),
)]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    request: Request,
) -> ApiResult<JsonAnswer> {
    let (parts, _) = request.into_parts();
    let asked = BucketsQuestion::read(&Parameters::parse(&parts.uri)?)?;
    let own = || here(&state, &caller.identity, &asked);
    let is_forwarded = parts.extensions.get::<Forwarded>().is_some();
    let all = match state.houses.cluster().filter(|_| !is_forwarded) {
        Some(cluster) => gather(cluster, &parts, own, asked.limit).await?,
        None => own()?,
    };
    json_answer(&state, partition(&caller.identity)?.tenant(), &all)
}
