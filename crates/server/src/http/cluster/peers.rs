//! What nodes ask of each other. Such a request has the proof of a hop; one of a client finds nothing here.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use lockhouse::store::Slot;
use serde::Deserialize;

use super::view::NodeState;
use crate::cluster::{Cluster, DRAIN, Forwarded, RELEASE, STATE};
use crate::state::AppState;

/// The routes of the paths that nodes call.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route(RELEASE, post(release)).route(STATE, get(state)).route(DRAIN, post(drain))
}

/// The fleet, for a request of another node.
struct OfNode(Arc<Cluster>);

impl FromRequestParts<Arc<AppState>> for OfNode {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> Result<Self, StatusCode> {
        let is_of_node = parts.extensions.get::<Forwarded>().is_some();
        let cluster = state.houses.cluster().filter(|_| is_of_node);
        cluster.cloned().map(Self).ok_or(StatusCode::NOT_FOUND)
    }
}

#[derive(Debug, Deserialize)]
struct OfSlot {
    slot: u16,
}

/// Gives a slot back.
async fn release(OfNode(cluster): OfNode, Query(OfSlot { slot }): Query<OfSlot>) -> Response {
    match cluster.node.release(Slot::new(slot)).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(why) => (StatusCode::CONFLICT, why.to_string()).into_response(),
    }
}

async fn state(OfNode(cluster): OfNode) -> Json<NodeState> {
    Json(NodeState::of(&cluster.node))
}

/// Gives all slots back. The node goes on to hand on what comes to it.
async fn drain(OfNode(cluster): OfNode) -> StatusCode {
    begin_to_drain(&cluster);
    StatusCode::ACCEPTED
}

/// The caller does not wait for it: `cluster` shows how far it is.
pub(super) fn begin_to_drain(cluster: &Cluster) {
    let node = cluster.node.clone();
    tracing::info!("all slots are given to other nodes, as an operator wants it");
    tokio::spawn(async move { node.leave().await });
}
