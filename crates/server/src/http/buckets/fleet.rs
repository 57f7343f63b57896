//! The buckets of the other nodes of a fleet: each of them is asked once, in the name of the caller.

use std::future::pending;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use futures_util::future::join_all;
use lockhouse::store::NodeRow;
use tokio::time::timeout;

use super::routes::ListedBuckets;
use crate::bounds::{BUCKETS_BYTES, NODE_STATE_PATIENCE};
use crate::cluster::{Cluster, HopCaller, caller_of};
use crate::http::forward::OF_CONNECTION;
use crate::http::request::body::collect;
use crate::http::request::decode::ApiResult;

/// The headers with which a call has come, its credential included: kept for calls that other nodes are asked
/// as well.
#[derive(Clone)]
pub(crate) struct SentHeaders(pub(crate) HeaderMap);

/// The page of the buckets of all nodes. The own ones are looked at before all others and after them: one
/// that moves meanwhile is on one of the lists, and a node that has fallen silent meanwhile tells nothing of
/// its own.
pub(super) async fn gather(
    cluster: &Cluster,
    request: &Parts,
    own: impl Fn() -> ApiResult<ListedBuckets>,
    limit: usize,
) -> ApiResult<ListedBuckets> {
    let rows = cluster.node.view().rows;
    let mut headers = request.extensions.get::<SentHeaders>().map(|sent| sent.0.clone()).unwrap_or_default();
    OF_CONNECTION.iter().for_each(|name| _ = headers.remove(name));
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    let caller = caller_of(&request.extensions);
    let others: Vec<&NodeRow> = rows.nodes.iter().filter(|row| Some(row.id) != cluster.node.id()).collect();
    let asked = others.iter().map(|row| ask(cluster, row, target, headers.clone(), &caller));
    let before = own()?;
    let answers = join_all(asked).await;
    let own = own()?;
    let mut has_more = before.next.is_some() || own.next.is_some();
    let (mut buckets, mut missing) = (own.buckets, own.missing);
    if missing.is_empty() {
        buckets.extend(before.buckets);
    }
    for (row, answer) in others.iter().zip(answers) {
        match answer {
            Ok(answer) => {
                has_more |= answer.next.is_some();
                buckets.extend(answer.buckets);
                missing.extend(answer.missing);
            }
            Err(why) => {
                tracing::debug!(node = &*row.label, "its buckets are not known: {why}");
                missing.push(row.label.to_string());
            }
        }
    }
    // Of each node the first ones of its names are there, so that no name before the last of them is missing.
    let mut all = ListedBuckets::first(buckets, limit);
    if has_more && all.next.is_none() {
        all.next = all.buckets.last().map(|last| last.bucket.clone());
    }
    all.missing = missing;
    Ok(all)
}

async fn ask(
    cluster: &Cluster,
    row: &NodeRow,
    target: &str,
    headers: HeaderMap,
    caller: &HopCaller,
) -> Result<ListedBuckets, String> {
    let answer = async {
        let sending =
            cluster.client.send(row, (Method::GET, target), headers, caller, Body::empty(), pending());
        let answer = sending.await.map_err(|error| error.to_string())?;
        if !answer.status().is_success() {
            return Err(format!("it answers {}", answer.status()));
        }
        let body = collect(Body::new(answer.into_body()), BUCKETS_BYTES).await;
        let body = body.map_err(|problem| problem.detail.to_string())?;
        serde_json::from_slice(&body).map_err(|error| format!("its answer is strange: {error}"))
    };
    let late = || Err(format!("no answer within {NODE_STATE_PATIENCE:?}"));
    timeout(NODE_STATE_PATIENCE, answer).await.unwrap_or_else(|_| late())
}
