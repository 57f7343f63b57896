//! `GET waits`: who waits for whom.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use lockhouse::core::{AgentId, Party, QueueEntry, QueueView, RequestId};
use lockhouse::{Bucket, Holder, MemoryReservation, Name, NameBuf};
use serde::Serialize;
use utoipa::ToSchema;

use super::graph::{self, Clients, Wait, Waits};
use crate::bounds::WAIT_EDGES;
use crate::http::calls::bucket;
use crate::http::dto::{HoldKind, JsonAnswer, JsonName, ModeWord};
use crate::http::query::snapshot::{charge, json_answer, reserve};
use crate::http::request::decode::ApiResult;
use crate::http::request::path::InBucket;
use crate::http::route::BASE;
use crate::limits::{block_in_place_if_large, price_of_query};
use crate::state::AppState;

/// Who waits for whom, up to a second old.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitsAnswer {
    /// All that edges begin or end at.
    nodes: Vec<WaitNode>,
    /// Each request with each holder and each request before it that it waits for: those of cycles first,
    /// then those of the requests that wait for longest.
    #[schema(max_items = 500)]
    edges: Vec<WaitEdge>,
    /// The ids of nodes that wait for each other: each for the next, and the last one for the first. One
    /// cycle of each group is shown.
    #[schema(value_type = Vec<Vec<String>>)]
    cycles: Vec<Vec<JsonName>>,
    /// There are more edges than are shown.
    truncated: bool,
    #[serde(skip)]
    #[expect(dead_code, reason = "kept for its end")]
    memory: Arc<MemoryReservation>,
}

/// An agent, an owner or a claim.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitNode {
    /// Which one it is: `w:` and the client id, `o:` and the id of an owner, or `c:` and the name of a claim.
    /// Agents with the same client id are one node.
    #[schema(example = "w:worker-7")]
    id: JsonName,
    /// An agent of web locks, an owner, or a claim.
    kind: HoldKind,
    /// The client id, the label of the owner, or the claimant.
    client_id: String,
}

/// A request that waits for a holder, or for a request before it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitEdge {
    /// The id of the node whose request waits.
    #[schema(example = "w:worker-7")]
    from: JsonName,
    /// The id of the node that it waits for.
    #[schema(example = "o:17")]
    to: JsonName,
    /// The resource name.
    name: JsonName,
    /// The mode of the request.
    mode: ModeWord,
    /// For how long it has waited.
    since_ms: u64,
    /// Whether `to` holds the name; otherwise its own request is before.
    held: bool,
}

/// The id of the node of that party. Agents with the same client id are one node.
fn id(party: Party, client_id: &str, name: &NameBuf) -> JsonName {
    let id = match party {
        Party::Agent(agent) if client_id.is_empty() => format!("w:#{}", agent.serial()).into_bytes(),
        Party::Agent(_) => format!("w:{client_id}").into_bytes(),
        Party::Owner(owner) => format!("o:{owner}").into_bytes(),
        Party::Claimant => [b"c:", name.as_name().as_wtf8()].concat(),
    };
    // A letter and a colon before WTF-8 leave it WTF-8.
    JsonName(Name::from_wtf8(&id).map(Name::to_buf).unwrap_or_else(|_| name.clone()))
}

/// What is known of the entries at the end.
struct Standings(HashMap<RequestId, (Holder, bool)>);

impl Standings {
    async fn look(bucket: &Bucket, waits: &Waits) -> ApiResult<Self> {
        let all = waits.cycles.iter().flatten().chain(&waits.others);
        let mut entries: Vec<_> = all.flat_map(|wait| [wait.request.entry, wait.blocker.entry]).collect();
        entries.sort_unstable();
        entries.dedup();
        let found = bucket.standings(&entries).await?;
        let there = entries.into_iter().zip(found).filter_map(|(entry, found)| Some((entry, found?)));
        Ok(Self(there.collect()))
    }

    /// Whether the request still waits and what it waits for is still there: as queues keep their order, it
    /// still waits for that.
    fn stands(&self, wait: &Wait) -> bool {
        let waits = self.0.get(&wait.request.entry).is_some_and(|(_, waits)| *waits);
        waits && self.0.contains_key(&wait.blocker.entry)
    }

    fn node(&self, of: &QueueEntry, name: &NameBuf) -> Option<WaitNode> {
        let (holder, _) = self.0.get(&of.entry)?;
        let (kind, _) = HoldKind::of(holder.kind);
        let id = id(of.party, &holder.client_id, name);
        Some(WaitNode { id, kind, client_id: holder.client_id.clone() })
    }

    fn edge(&self, wait: &Wait, name: &NameBuf, now: SystemTime) -> Option<WaitEdge> {
        let (asker, _) = self.0.get(&wait.request.entry)?;
        let (_, waits) = self.0.get(&wait.blocker.entry)?;
        Some(WaitEdge {
            from: self.node(&wait.request, name)?.id,
            to: self.node(&wait.blocker, name)?.id,
            name: JsonName(name.clone()),
            mode: wait.request.mode.into(),
            since_ms: now.duration_since(asker.since).unwrap_or_default().as_millis() as u64,
            held: !waits,
        })
    }
}

async fn make(state: &AppState, bucket: &Bucket) -> ApiResult<WaitsAnswer> {
    let count = bucket.len();
    let copy = reserve(state, bucket, bucket.bytes_of_snapshot())?;
    charge(state, bucket, price_of_query(count));
    let queues = bucket.queues().await?;
    let clients = clients(bucket, &queues).await?;
    let mut waits = block_in_place_if_large(count, || graph::waits(&queues, &clients, WAIT_EDGES));
    let standings = Standings::look(bucket, &waits).await?;
    // What was seen in two parts may never have been there at once.
    waits.cycles.retain(|cycle| cycle.iter().all(|wait| standings.stands(wait)));
    waits.others.retain(|wait| standings.stands(wait));
    drop(copy);
    answer(state, bucket, &queues, &waits, &standings)
}

/// The agents of the queues that share their client id with others.
async fn clients(bucket: &Bucket, queues: &[QueueView]) -> ApiResult<Clients> {
    let all = queues.iter().flat_map(|queue| queue.held.iter().chain(&queue.queue));
    let agent = |standing: &QueueEntry| match standing.party {
        Party::Agent(agent) => Some(agent),
        _ => None,
    };
    let mut agents: Vec<AgentId> = all.filter_map(agent).collect();
    agents.sort_unstable();
    agents.dedup();
    let mut by_name: HashMap<String, Vec<AgentId>> = HashMap::new();
    for (agent, client_id) in agents.iter().zip(bucket.client_ids(&agents).await?) {
        if let Some(client_id) = client_id.filter(|it| !it.is_empty()) {
            by_name.entry(client_id).or_default().push(*agent);
        }
    }
    let several = by_name.into_values().filter(|agents| agents.len() > 1);
    let numbered = |agents: Vec<AgentId>| {
        let number = agents[0].serial();
        agents.into_iter().map(move |agent| (agent, number))
    };
    Ok(several.flat_map(numbered).collect())
}

fn answer(
    state: &AppState,
    bucket: &Bucket,
    queues: &[QueueView],
    waits: &Waits,
    standings: &Standings,
) -> ApiResult<WaitsAnswer> {
    let now = bucket.wall(bucket.now());
    let (mut nodes, mut edges) = (HashMap::new(), Vec::new());
    for wait in waits.cycles.iter().flatten().chain(&waits.others) {
        let name = &queues[wait.queue].name;
        edges.extend(standings.edge(wait, name, now));
        for standing in [&wait.request, &wait.blocker] {
            let node = standings.node(standing, name);
            nodes.extend(node.map(|node| (node.id.0.clone(), node)));
        }
    }
    let mut nodes: Vec<WaitNode> = nodes.into_values().collect();
    nodes.sort_by(|one, other| one.id.0.cmp(&other.id.0));
    let cycle = |cycle: &Vec<Wait>| {
        let node = |wait: &Wait| standings.node(&wait.request, &queues[wait.queue].name);
        cycle.iter().filter_map(|wait| Some(node(wait)?.id)).collect()
    };
    let length = |name: &JsonName| name.0.as_name().as_wtf8().len();
    let bytes = nodes.iter().map(|node| size_of::<WaitNode>() + length(&node.id) + node.client_id.len());
    let of_edges = edges.iter().map(|edge| size_of::<WaitEdge>() + length(&edge.name) + length(&edge.to));
    Ok(WaitsAnswer {
        memory: reserve(state, bucket, bytes.chain(of_edges).sum())?,
        cycles: waits.cycles.iter().map(cycle).collect(),
        nodes,
        edges,
        truncated: waits.is_truncated,
    })
}

/// Show who waits for whom
///
/// A request for a web lock waits for the holders of its name, and for the requests before it, if the one or
/// the other excludes it. Agents that wait for each other are found and shown as cycles: as long as each of
/// them waits for all that it asks for before it gives anything back, none of them goes on. Agents with the
/// same client id count as one. A client that waits for itself is an edge, and no cycle. The answer is up to
/// a second old.
#[utoipa::path(
    get, context_path = BASE, path = "/waits", tag = "query", operation_id = "waits",
    responses((status = 200, description = "The graph.", body = WaitsAnswer)),
)]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InBucket(key): InBucket,
) -> ApiResult<JsonAnswer> {
    let bucket = bucket(&state, &key)?;
    let waits = state.recent_views.get(&key, make(&state, &bucket)).await?;
    json_answer(&state, key.tenant(), &*waits)
}
