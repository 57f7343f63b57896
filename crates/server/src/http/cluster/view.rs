//! A fleet as its operators see it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::body::Body;
use axum::http::Method;
use futures_util::future::join_all;
use lockhouse::fleet::{FleetNode, NodePhase};
use lockhouse::store::{FleetRows, NodeRow, SlotRow};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::bounds::{HTTP_BODY_BYTES, NODE_STATE_PATIENCE};
use crate::cluster::{Cluster, STATE};
use crate::http::request::body::collect;

/// How a node says that it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeState {
    pub(super) version: String,
    phase: String,
    /// Why it cannot be given clients, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_ready: Option<String>,
    /// For how long no commit of it has been confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    unconfirmed_ms: Option<u64>,
    /// The slots that it has to do with, each in one word.
    slots: BTreeMap<u16, String>,
}

impl NodeState {
    pub(super) fn of(node: &FleetNode) -> Self {
        let slots = node.view().slots.into_iter();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            phase: match node.phase() {
                NodePhase::Joining => "joining",
                NodePhase::Member => "member",
                NodePhase::Leaving => "leaving",
                NodePhase::Left => "left",
                NodePhase::Failed(_) => "failed",
            }
            .to_owned(),
            not_ready: node.why_not_ready(),
            unconfirmed_ms: node.unconfirmed_for().map(|length| length.as_millis() as u64),
            slots: slots.map(|slot| (slot.slot.get(), slot.state.to_owned())).collect(),
        }
    }
}

/// The answer of `GET /v1/cluster`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterView {
    /// The node that answers.
    node: String,
    nodes: Vec<NodeView>,
    slots: Vec<SlotState>,
    /// How many slots are being taken or given back.
    moving: usize,
}

impl ClusterView {
    /// Whether another node than this one says that it is a member.
    pub(super) fn has_member_beside(&self, label: &str) -> bool {
        let is_member = |node: &NodeView| node.state.as_ref().is_some_and(|state| state.phase == "member");
        self.nodes.iter().any(|node| node.node != label && is_member(node))
    }

    /// The other nodes that do not say how they are.
    pub(super) fn silent_beside(&self, label: &str) -> Vec<&str> {
        let silent = self.nodes.iter().filter(|node| node.node != label && node.state.is_none());
        silent.map(|node| &*node.node).collect()
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeView {
    node: String,
    address: String,
    /// How many slots it owns.
    owns: usize,
    #[serde(flatten)]
    state: Option<NodeState>,
    /// Why it does not say how it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SlotState {
    slot: u16,
    /// The node that owns it; none if it is free.
    node: Option<String>,
    epoch: u64,
    /// As its node says; `free`, or `unknown` where the node does not say.
    state: String,
}

/// Asks every node how it is.
pub(super) async fn view(cluster: &Cluster) -> ClusterView {
    let rows = cluster.node.view().rows;
    let states = join_all(rows.nodes.iter().map(|row| state_of(cluster, row))).await;
    let states: HashMap<_, _> = rows.nodes.iter().map(|row| row.id).zip(states).collect();
    let nodes = rows.nodes.iter().map(|row| {
        let (state, unreachable) = match states.get(&row.id) {
            Some(Ok(state)) => (Some(state.clone()), None),
            Some(Err(why)) => (None, Some(why.clone())),
            None => (None, None),
        };
        let owns = rows.slots.iter().filter(|slot| slot.owner == Some(row.id)).count();
        NodeView { node: row.label.to_string(), address: row.address.to_string(), owns, state, unreachable }
    });
    let slots: Vec<_> = rows.slots.iter().map(|slot| slot_state(slot, &rows, &states)).collect();
    let is_moving = |state: &&SlotState| matches!(&*state.state, "opening" | "closing");
    ClusterView {
        node: cluster.node.label().to_owned(),
        nodes: nodes.collect(),
        moving: slots.iter().filter(is_moving).count(),
        slots,
    }
}

type States = HashMap<lockhouse::store::NodeId, Result<NodeState, String>>;

fn slot_state(row: &SlotRow, rows: &Arc<FleetRows>, states: &States) -> SlotState {
    let owner = row.owner.and_then(|owner| rows.nodes.iter().find(|node| node.id == owner));
    let said = owner.and_then(|owner| states.get(&owner.id)?.as_ref().ok());
    let state = match (owner, said) {
        (None, _) => "free",
        (Some(_), Some(said)) => said.slots.get(&row.slot.get()).map_or("unknown", String::as_str),
        (Some(_), None) => "unknown",
    };
    SlotState {
        slot: row.slot.get(),
        node: owner.map(|owner| owner.label.to_string()),
        epoch: row.epoch,
        state: state.to_owned(),
    }
}

async fn state_of(cluster: &Cluster, row: &NodeRow) -> Result<NodeState, String> {
    if Some(row.id) == cluster.node.id() {
        return Ok(NodeState::of(&cluster.node));
    }
    let late = || format!("no answer within {NODE_STATE_PATIENCE:?}");
    timeout(NODE_STATE_PATIENCE, ask_state(cluster, row)).await.unwrap_or_else(|_| Err(late()))
}

async fn ask_state(cluster: &Cluster, row: &NodeRow) -> Result<NodeState, String> {
    let answer = cluster.client.call(row, Method::GET, STATE, NODE_STATE_PATIENCE).await;
    let answer = answer.map_err(|error| error.to_string())?;
    if !answer.status().is_success() {
        return Err(format!("it answers {}", answer.status()));
    }
    let body = collect(Body::new(answer.into_body()), HTTP_BODY_BYTES).await;
    let body = body.map_err(|problem| problem.detail.to_string())?;
    serde_json::from_slice(&body).map_err(|error| format!("its answer is strange: {error}"))
}
