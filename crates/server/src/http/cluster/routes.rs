//! `GET /v1/cluster` and `POST /v1/cluster/drain`, for operators.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use lockhouse_wire::decode::{Text, Violation};

use super::peers::begin_to_drain;
use super::view::{ClusterView, view};
use crate::audit::{self, AuditEvent};
use crate::bounds::NODE_STATE_PATIENCE;
use crate::cluster::{Cluster, DRAIN};
use crate::http::access::Caller;
use crate::http::problem::{Code, Problem};
use crate::http::request::asker::Asker;
use crate::http::request::body::JsonBody;
use crate::http::request::decode::{ApiResult, FromMembers, Members};
use crate::state::AppState;

/// The node that is to give its slots back; the one that is asked if none is named.
pub(crate) struct NodeToDrain(Option<String>);

impl FromMembers for NodeToDrain {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        members.field("node").string_if_any(&Text::ANY).map(Self)
    }
}

fn cluster(state: &AppState) -> ApiResult<&Arc<Cluster>> {
    let alone = "this server is no node of a fleet: its store is not postgres://";
    state.houses.cluster().ok_or_else(|| Problem::new(Code::NotFound, alone))
}

/// The fleet: its nodes and slots.
pub(crate) async fn show(State(state): State<Arc<AppState>>, _: Caller) -> ApiResult<Json<ClusterView>> {
    Ok(Json(view(cluster(&state)?).await))
}

/// No other member could take the slots of the node, as far as is known; `silent` have not said.
fn not_drained(label: &str, silent: &[&str]) -> Box<Problem> {
    if silent.is_empty() {
        let rule = "one of several members: no other node could take its slots";
        return Problem::rule(Code::Invalid, "node", &format!("{label:?}"), rule);
    }
    let why = format!(
        "no other node says that it could take the slots of {label:?}; without an answer: {}",
        silent.join(", ")
    );
    Problem::new(Code::Unavailable, why).retry_after(NODE_STATE_PATIENCE)
}

/// Begins to give all slots of a node to others.
pub(crate) async fn drain(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    JsonBody(NodeToDrain(node)): JsonBody<NodeToDrain>,
) -> ApiResult<StatusCode> {
    let cluster = cluster(&state)?;
    let label = node.as_deref().unwrap_or(cluster.node.label());
    let rows = cluster.node.view().rows;
    let is_there = rows.nodes.iter().any(|row| *row.label == *label);
    if is_there {
        let fleet = view(cluster).await;
        if !fleet.has_member_beside(label) {
            return Err(not_drained(label, &fleet.silent_beside(label)));
        }
    }
    if label == cluster.node.label() {
        begin_to_drain(cluster);
    } else {
        let Some(row) = rows.nodes.iter().find(|row| *row.label == *label) else {
            let known: Vec<_> = rows.nodes.iter().map(|row| format!("{:?}", row.label)).collect();
            let rule = format!("the label of a node: {}", known.join(", "));
            return Err(Problem::rule(Code::Invalid, "node", &format!("{label:?}"), rule));
        };
        let asked = cluster.client.call(row, Method::POST, DRAIN, NODE_STATE_PATIENCE).await;
        match asked {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => {
                let why = format!("the node {label:?} answers {}", answer.status());
                return Err(Problem::new(Code::Unavailable, why).retry_after(NODE_STATE_PATIENCE));
            }
            Err(why) => {
                let why = format!("the node {label:?} was not asked: {why}");
                return Err(Problem::new(Code::Unavailable, why).retry_after(NODE_STATE_PATIENCE));
            }
        }
    }
    let who = Some(&*asker.caller.identity);
    let event = AuditEvent { who, what: "drain", bucket: "*", name: Some(&label) };
    audit::note(asker.from, &event, None, None);
    Ok(StatusCode::ACCEPTED)
}
