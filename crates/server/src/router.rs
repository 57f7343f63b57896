//! All routes: the upgrade to a WebSocket, the HTTP API, health, and the dashboard.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use lockhouse_wire::PATH;
use serde::Serialize;
use serde_json::json;
use tower::{ServiceExt, service_fn};
use tracing::Instrument;

use crate::cluster::{Cluster, Forwarded, HOP};
use crate::http::{self, Answering, ApiEntry};
use crate::metrics;
use crate::page;
use crate::state::{AppState, Phase};
use crate::tls::{ClientCertificate, Tls};
use crate::upgrade::{refuse, upgrade};

/// The target of the spans of requests, for filters of the log. There are no lines of this target.
pub const REQUEST_TARGET: &str = "request";

/// All routes of a server.
pub(crate) fn router(state: Arc<AppState>) -> Router {
    let routes = Routes::new(state);
    Router::new().fallback_service(service_fn(move |request| {
        let answering = routes.answer(request);
        async { Ok::<_, Infallible>(answering.await) }
    }))
}

/// All routes of a server, as it calls them itself. Cheap to clone.
///
/// Calls of the API go past axum's router, whose layers took a twentieth of the CPU that they cost the
/// server.
#[derive(Clone, Debug)]
pub(crate) struct Routes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Arc<AppState>,
    tls: Option<Tls>,
    /// None on a listener for the metrics alone.
    api: Option<ApiEntry>,
    others: Router,
}

impl Routes {
    pub(crate) fn new(state: Arc<AppState>) -> Self {
        let (tls, api) = (state.config.tls.clone(), Some(ApiEntry::new(&state)));
        let others = Router::new()
            .route(PATH, get(upgrade))
            .route("/healthz", get(health))
            .route("/livez", get(health))
            .route("/readyz", get(readiness))
            .merge(page::routes())
            .merge(http::peer_routes())
            .fallback(nowhere)
            .layer(from_fn_with_state(state.clone(), guard_host))
            .with_state(state.clone());
        Self(Arc::new(Inner { state, tls, api, others }))
    }

    /// The metrics and the health alone, for every program that reaches the listener.
    pub(crate) fn of_metrics(state: Arc<AppState>) -> Self {
        let others = Router::new()
            .route(metrics::PATH, get(metrics))
            .route("/livez", get(health))
            .route("/readyz", get(readiness))
            .fallback(nowhere_beside_metrics)
            .with_state(state.clone());
        Self(Arc::new(Inner { state, tls: None, api: None, others }))
    }

    pub(crate) fn answer(&self, mut request: Request) -> Answering {
        let (inner, id) = (self.0.clone(), http::take_request_id(request.headers_mut()));
        // Its level and its target are those at which the log always has it.
        let span =
            tracing::error_span!(target: REQUEST_TARGET, "request", id = id.to_str().unwrap_or_default());
        let answering = async move {
            if let Some(cluster) = inner.state.houses.cluster().filter(|_| inner.api.is_some())
                && let Err(mut refusal) = take_hop(&inner.state, cluster, &mut request)
            {
                refusal.headers_mut().insert(http::REQUEST_ID, id);
                return *refusal;
            }
            let uri = request.uri().clone();
            let hsts = inner.tls.as_ref().and_then(|tls| tls.hsts(request.headers()));
            let api = inner.api.as_ref();
            let found = api.and_then(|api| Some((api, http::find(request.uri().path())?)));
            let mut response = match found {
                Some((api, found)) => api.pass(found, request).await,
                None => match inner.others.clone().oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                },
            };
            response = http::write_problem(response, uri.path());
            if http::is_api(&uri) {
                http::keep_out_of_caches(response.headers_mut());
            }
            if let Some(hsts) = hsts {
                response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, hsts);
            }
            response.headers_mut().insert(http::REQUEST_ID, id);
            response
        };
        Box::pin(answering.instrument(span))
    }
}

/// Takes a request of another node for one of the caller that it names.
fn take_hop(state: &AppState, cluster: &Cluster, request: &mut Request) -> Result<(), Box<Response>> {
    if !request.headers().contains_key(HOP) {
        return Ok(());
    }
    let caller = cluster.take_hop(request);
    let caller = caller.map_err(|why| Box::new(refuse(StatusCode::MISDIRECTED_REQUEST, why.to_string())))?;
    let path = request.uri().path().to_owned();
    let extensions = request.extensions_mut();
    extensions.remove::<Arc<ClientCertificate>>();
    if let Some(from) = caller.from {
        let permit = state.limiter.admit_from(from);
        extensions.insert(permit.map_err(|why| Box::new(http::overloaded(why, &path)))?);
    }
    let certificate = state.config.tls.as_ref().zip(Some(&caller.certificate));
    let certificate = certificate.and_then(|(tls, chain)| ClientCertificate::seen_elsewhere(tls, chain));
    certificate.into_iter().for_each(|certificate| _ = extensions.insert(Arc::new(certificate)));
    extensions.insert(Forwarded { slot: caller.slot });
    Ok(())
}

/// The check that every request outside of the API passes first.
async fn guard_host(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    http::buffer_request(&state, request, |request| of_right_host(&state, request, next)).await
}

async fn of_right_host(state: &AppState, request: Request, next: Next) -> Response {
    let checked = state.check_host(request.headers());
    if let Err(denied) = &checked {
        state.audit.deny_place(&request, denied);
    }
    match checked {
        Ok(()) => next.run(request).await,
        Err(denied) if request.uri().path() != PATH && http::is_api(request.uri()) => {
            http::forbidden(&denied)
        }
        Err(denied) => refuse(StatusCode::FORBIDDEN, denied.to_string()),
    }
}

async fn nowhere(uri: Uri) -> Response {
    if http::is_api(&uri) {
        return http::nowhere();
    }
    let why = format!("nothing is here; the WebSocket endpoint is {PATH}, the dashboard is at /dashboard");
    refuse(StatusCode::NOT_FOUND, why)
}

async fn metrics(State(state): State<Arc<AppState>>) -> Response {
    let off = || refuse(StatusCode::NOT_FOUND, "nothing is counted here".to_owned());
    state.metrics.next(&state).await.map_or_else(off, metrics::answer)
}

async fn nowhere_beside_metrics() -> Response {
    refuse(StatusCode::NOT_FOUND, "nothing is here but /metrics, /livez and /readyz".to_owned())
}

/// The body of `/healthz`; its members are written in this order.
#[derive(Debug, Serialize)]
struct Health<'a> {
    status: &'static str,
    version: &'static str,
    epoch: &'a str,
}

async fn health(State(state): State<Arc<AppState>>) -> Response {
    let body = Health { status: "ok", version: env!("CARGO_PKG_VERSION"), epoch: &state.epoch };
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

async fn readiness(State(state): State<Arc<AppState>>) -> Response {
    let why_not = state.houses.cluster().and_then(|cluster| cluster.node.why_not_ready());
    let (status, body) = match (state.phase(), why_not) {
        (Phase::Running, None) => (StatusCode::OK, json!({"status": "ready"})),
        (Phase::Running, Some(why)) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "not ready", "reason": why}))
        }
        (Phase::Draining | Phase::Stopping, _) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "stopping"}))
        }
    };
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use axum::body::Body;
    use lockhouse_wire::SUBPROTOCOL;

    use super::*;
    use crate::Config;

    #[tokio::test]
    async fn a_websocket_that_comes_while_the_server_ends_gets_a_time_to_retry() {
        let state = AppState::empty(Config::default());
        state.stop_granting();
        state.close_connections();
        let request = Request::get(format!("http://localhost{PATH}"))
            .header(header::HOST, "localhost")
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
            .header(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
        let refused = router(state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    }
}
