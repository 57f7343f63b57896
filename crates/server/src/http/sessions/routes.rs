//! `GET sessions`: who is connected to a bucket, and who may come back to it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use lockhouse::Bucket;
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use crate::bounds::CLIENT_IDS_SHOWN;
use crate::http::calls::bucket;
use crate::http::dto::{At, JsonAnswer};
use crate::http::query::snapshot::{charge, json_answer};
use crate::http::request::constraints::{SESSION_CURSOR, SESSION_PAGE};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::path::InBucket;
use crate::http::request::schema::{RuleSchema, parameter};
use crate::http::route::BASE;
use crate::limits::price_of_query;
use crate::state::AppState;
use crate::websocket::{Peer, SessionView};

/// A session of Web Locks. What is not durable yet may be counted.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionEntry {
    /// The first client ids of its agents.
    #[schema(max_items = 10)]
    client_ids: Vec<String>,
    /// How many agents it has.
    agents: usize,
    /// When it began.
    since: At,
    /// The address that its last connection came from, or for IPv6 the network of 64 bits, if known.
    #[schema(example = "10.0.0.7")]
    address: Option<String>,
    /// The `User-Agent` of its last connection.
    user_agent: Option<String>,
    /// The origin of the page.
    #[schema(example = "https://app.example")]
    origin: Option<String>,
    /// The name of the credential: the id of the key, or the issuer and the subject of the token; never the
    /// credential itself.
    credential: String,
    /// How many locks its agents hold.
    held: usize,
    /// How many of their requests wait.
    waiting: usize,
    /// The bytes that its client has not taken or acknowledged.
    queued_bytes: usize,
    /// Whether it has a connection; otherwise its client may come back until the lease is over.
    connected: bool,
}

/// A page of sessions, the oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionPage {
    /// At most as many as asked for.
    #[schema(max_items = 200)]
    sessions: Vec<SessionEntry>,
    /// The `cursor` of the next page; `null` on the last.
    #[schema(example = "4711")]
    next: Option<String>,
}

struct SessionParameters;

impl IntoParams for SessionParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let limit = format!("How many sessions a page has at most; {} without it.", SESSION_PAGE.example);
        vec![
            parameter("limit", SESSION_PAGE.schema(), &limit),
            parameter("cursor", SESSION_CURSOR.schema(), "The `next` of the page before."),
        ]
    }
}

async fn entry(state: &AppState, bucket: &Bucket, view: &SessionView) -> ApiResult<SessionEntry> {
    let agents = view.agents();
    charge(state, bucket, price_of_query(agents.len()));
    let counts: Vec<_> = bucket.counts_of(&agents).await?.into_iter().flatten().collect();
    let Peer { credential, address, user_agent, origin } = view.peer();
    Ok(SessionEntry {
        agents: counts.len(),
        held: counts.iter().map(|(_, held, _)| held).sum(),
        waiting: counts.iter().map(|(.., waiting)| waiting).sum(),
        client_ids: counts.into_iter().take(CLIENT_IDS_SHOWN).map(|(client_id, ..)| client_id).collect(),
        since: At(view.since),
        address: address.map(|address| address.to_string()),
        user_agent,
        origin,
        credential,
        queued_bytes: view.queued_bytes(),
        connected: view.is_connected(),
    })
}

/// List the sessions of Web Locks
///
/// Those of the bucket at its server, the oldest first: connected ones, and those whose clients may come
/// back.
#[utoipa::path(
    get, context_path = BASE, path = "/sessions", tag = "query", operation_id = "sessions", params(SessionParameters),
    responses((status = 200, description = "A page of sessions, the oldest first.", body = SessionPage)),
)]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InBucket(key): InBucket,
    uri: Uri,
) -> ApiResult<JsonAnswer> {
    let parameters = Parameters::parse(&uri)?;
    let limit = parameters.field("limit")?.number_if_any(&SESSION_PAGE)?.unwrap_or(SESSION_PAGE.example);
    let after = parameters.field("cursor")?.number_if_any(&SESSION_CURSOR)?.unwrap_or_default();
    let bucket = bucket(&state, &key)?;
    let mut views = state.sessions.of_bucket(&key, after, limit as usize + 1);
    let has_more = views.len() > limit as usize;
    views.truncate(limit as usize);
    let next = views.last().filter(|_| has_more).map(|view| view.number.to_string());
    let mut sessions = Vec::with_capacity(views.len());
    for view in views {
        sessions.push(entry(&state, &bucket, &view).await?);
    }
    json_answer(&state, key.tenant(), &SessionPage { sessions, next })
}
