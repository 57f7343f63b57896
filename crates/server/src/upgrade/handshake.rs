//! The handshake of a WebSocket.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use lockhouse_wire::{PATH, SCOPE_BYTES, SUBPROTOCOL, percent_decode, shorten};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::forward::{NOT_HERE, UpgradeHead};
use super::hello::{ConnectionScope, Opened, read_hello};
use super::refuse::refuse;
use crate::access::{self, check_origin, is_list_of_origins};
use crate::auth;
use crate::bounds::{MOVING_PATIENCE, ORIGINS_BYTES, USER_AGENT_CHARS};
use crate::cluster::{Forwarded, caller_of};
use crate::limits::ConnectionPermit;
use crate::settings::LimitSettings;
use crate::state::{AppState, Phase};
use crate::websocket::WebSocketConnection;

/// About how many seconds a stopping server is away.
const RESTART_SECONDS: &str = "1";

/// `GET` of the WebSocket endpoint.
pub(crate) async fn upgrade(
    State(state): State<Arc<AppState>>,
    scope: Result<Query<ConnectionScope>, QueryRejection>,
    mut request: Request,
) -> Response {
    if let Err(denied) = check_origin(request.headers(), &state.config.allowed_origins) {
        state.audit.deny_place(&request, &denied);
        return refuse(StatusCode::FORBIDDEN, denied.to_string());
    }
    let key = match handshake(request.headers()) {
        Ok(key) => key,
        Err(refusal) => return *refusal,
    };
    if let Err(why) = check_parameters(request.uri().query().unwrap_or_default()) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    let scope = match scope {
        Ok(Query(scope)) if percent_decode(request.uri().query().unwrap_or_default()).is_some() => scope,
        Ok(_) => {
            return refuse(StatusCode::BAD_REQUEST, "the query must be percent-encoded UTF-8".to_owned());
        }
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error.body_text()),
    };
    let scope = match check_scope(scope) {
        Ok(scope) => scope,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why),
    };
    let forwarded = request.extensions().get::<Forwarded>().copied();
    if let Some((cluster, Forwarded { slot: Some(slot) })) = state.houses.cluster().zip(forwarded)
        && !cluster.node.serves_in_time(slot, MOVING_PATIENCE).await
    {
        return refuse(NOT_HERE, format!("slot {} is not here", slot.get()));
    }
    if state.phase() == Phase::Stopping {
        let refused = refuse(StatusCode::SERVICE_UNAVAILABLE, "no session can be begun now".to_owned());
        return ([(header::RETRY_AFTER, RESTART_SECONDS)], refused).into_response();
    }
    let initiator = state.initiator(request.headers());
    let certificate = auth::certificate(&initiator, request.extensions());
    let user_agent = user_agent(request.headers());
    let permit = request.extensions().get::<ConnectionPermit>().cloned();
    let head = (state.houses.cluster().is_some() && forwarded.is_none()).then(|| {
        let target = request.uri().path_and_query().map_or(PATH, |target| target.as_str()).to_owned();
        let caller = caller_of(request.extensions());
        UpgradeHead { target, headers: request.headers().clone(), caller }
    });
    let upgrading = hyper::upgrade::on(&mut request);
    let LimitSettings { hello_timeout, write_timeout, .. } = state.limiter.settings();
    state.clone().tasks.spawn(async move {
        match timeout(hello_timeout, upgrading).await {
            Ok(Ok(upgraded)) => {
                let io = TokioIo::new(upgraded);
                let connection = WebSocketConnection::new(io, head.is_some(), permit, write_timeout).await;
                let opened = Opened { scope, initiator, certificate, user_agent, head };
                read_hello(state, opened, connection, hello_timeout).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "an upgrade failed"),
            Err(_) => tracing::debug!("an upgrade took too long"),
        }
    });
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, key),
        (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL)),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
}

/// The words of the client about itself, as far as they are visible characters and not too many.
fn user_agent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::USER_AGENT)?.to_str().ok()?;
    Some(text.chars().take(USER_AGENT_CHARS).collect())
}

/// What is unknown may be a misspelt partition. Its value, which may be a secret, is not repeated.
fn check_parameters(query: &str) -> Result<(), String> {
    let keys = query.split('&').filter_map(|pair| pair.split('=').next());
    let keys = keys.filter(|key| !key.is_empty()).map(|key| percent_decode(key).unwrap_or_default());
    match keys.into_iter().find(|key| !["bucket", "partition"].contains(&&**key)) {
        Some(key) => {
            Err(format!("the query has {:?}, but must have bucket and partition only", shorten(&key)))
        }
        None => Ok(()),
    }
}

/// The scope with the partition that is meant; otherwise its fault.
fn check_scope(scope: ConnectionScope) -> Result<ConnectionScope, String> {
    let ConnectionScope { bucket, partition } = scope;
    let most = if is_list_of_origins(&partition) { ORIGINS_BYTES } else { SCOPE_BYTES };
    for (field, value, bounds) in [("bucket", &bucket, 1..=SCOPE_BYTES), ("partition", &partition, 0..=most)]
    {
        if !bounds.contains(&value.len()) {
            let (given, least, most) = (shorten(value), bounds.start(), bounds.end());
            return Err(format!("{field} is {given:?}, but must be {least} to {most} bytes of UTF-8"));
        }
    }
    let partition = access::partition(&partition).map_err(|error| error.to_string())?;
    Ok(ConnectionScope { bucket, partition })
}

/// The answer to the key of a WebSocket handshake for a version that we know.
fn handshake(headers: &HeaderMap) -> Result<HeaderValue, Box<Response>> {
    if !lists(headers, &header::UPGRADE, "websocket") || !lists(headers, &header::CONNECTION, "upgrade") {
        let why = format!("{PATH} is a WebSocket endpoint, subprotocol {SUBPROTOCOL}");
        let mut refusal = refuse(StatusCode::UPGRADE_REQUIRED, why);
        refusal.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        return Err(Box::new(refusal));
    }
    let bad = |why: String| Box::new(refuse(StatusCode::BAD_REQUEST, why));
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(bad("Sec-WebSocket-Version must be 13".to_owned()));
    }
    if !lists(headers, &header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        return Err(bad(format!("Sec-WebSocket-Protocol must offer {SUBPROTOCOL}")));
    }
    let key = headers
        .get(header::SEC_WEBSOCKET_KEY)
        .ok_or_else(|| bad("Sec-WebSocket-Key is absent".to_owned()))?;
    HeaderValue::try_from(derive_accept_key(key.as_bytes()))
        .map_err(|_| bad("Sec-WebSocket-Key is no key".to_owned()))
}

fn lists(headers: &HeaderMap, key: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(key).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(word))
}
