//! All routes: the upgrade to a WebSocket, the HTTP API, health, and the demo page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper_util::rt::TokioIo;
use lockhouse_wire::{
    BadClientFrame, ClientFrame, Credential, Envelope, FRAME_BYTES, FatalCode, PATH, Problem, SCOPE_BYTES,
    SUBPROTOCOL, close,
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tower::{ServiceExt, service_fn};

use crate::access::{Initiator, check_origin};
use crate::auth::Shown;
use crate::http::{Answering, Gate};
use crate::limits::{Refused, Seat};
use crate::server::{Phase, Server};
use crate::session::{self, Admission, Connection, Denial, Farewell, Incoming, Outbox, Presented, Reading};
use crate::settings::LimitSettings;
use crate::tls::Tls;
use crate::{http, page};

/// For how many seconds a server that stops is away, about.
const RESTART_SECONDS: &str = "1";

/// All routes of a server.
pub fn router(server: Arc<Server>) -> Router {
    let routes = Routes::new(server);
    Router::new().fallback_service(service_fn(move |request| {
        let answering = routes.answer(request);
        async { Ok::<_, Infallible>(answering.await) }
    }))
}

/// All routes of a server, as it calls them itself. Cheap to clone.
///
/// Calls of the API go past axum's router, whose layers took a twentieth of the CPU that they cost the server.
#[derive(Clone, Debug)]
pub(crate) struct Routes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tls: Option<Tls>,
    api: Gate,
    others: Router,
}

impl Routes {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        let (tls, api) = (server.config.tls.clone(), Gate::new(&server));
        let others = Router::new()
            .route(PATH, get(upgrade))
            .route("/healthz", get(health))
            .route("/readyz", get(readiness))
            .merge(page::routes())
            .fallback(nowhere)
            .layer(from_fn_with_state(server.clone(), guard_host))
            .with_state(server);
        Self(Arc::new(Inner { tls, api, others }))
    }

    pub(crate) fn answer(&self, request: Request) -> Answering {
        let inner = self.0.clone();
        Box::pin(async move {
            let hsts = inner.tls.as_ref().and_then(|tls| tls.hsts(request.headers()));
            let mut response = match http::find(request.uri().path()) {
                Some(found) => inner.api.pass(found, request).await,
                None => match inner.others.clone().oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                },
            };
            if let Some(hsts) = hsts {
                response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, hsts);
            }
            response
        })
    }
}

/// What everything outside of the API passes first.
async fn guard_host(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    http::whole(&server, request, |request| of_right_host(&server, request, next)).await
}

async fn of_right_host(server: &Server, request: Request, next: Next) -> Response {
    let checked = server.check_host(request.headers());
    if let Err(denied) = &checked {
        server.audit.deny_place(&request, denied);
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
    let why = format!("nothing is here; the WebSocket endpoint is {PATH}, a demo page is at /");
    refuse(StatusCode::NOT_FOUND, why)
}

/// The body of `/healthz`; its members are written in this order.
#[derive(Debug, Serialize)]
struct Health<'a> {
    status: &'static str,
    version: &'static str,
    epoch: &'a str,
}

async fn health(State(server): State<Arc<Server>>) -> Response {
    let body = Health { status: "ok", version: env!("CARGO_PKG_VERSION"), epoch: &server.epoch };
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

async fn readiness(State(server): State<Arc<Server>>) -> Response {
    let (status, word) = match server.phase() {
        Phase::Running => (StatusCode::OK, "ready"),
        Phase::Draining | Phase::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    (status, [(header::CACHE_CONTROL, "no-store")], Json(serde_json::json!({"status": word}))).into_response()
}

/// What a connection speaks about.
#[derive(Debug, Deserialize)]
struct Scope {
    #[serde(default = "default_bucket")]
    bucket: String,
    #[serde(default)]
    partition: String,
}

fn default_bucket() -> String {
    "default".to_owned()
}

async fn upgrade(
    State(server): State<Arc<Server>>,
    scope: Result<Query<Scope>, axum::extract::rejection::QueryRejection>,
    mut request: Request,
) -> Response {
    if let Err(denied) = check_origin(request.headers(), &server.config.allowed_origins) {
        server.audit.deny_place(&request, &denied);
        return refuse(StatusCode::FORBIDDEN, denied.to_string());
    }
    let key = match handshake(request.headers()) {
        Ok(key) => key,
        Err(refusal) => return *refusal,
    };
    let scope = match scope {
        Ok(Query(scope)) => scope,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error.body_text()),
    };
    for (field, value) in [("bucket", &scope.bucket), ("partition", &scope.partition)] {
        if value.len() > SCOPE_BYTES {
            let why = format!("{field} is {} bytes, but must be at most {SCOPE_BYTES} bytes", value.len());
            return refuse(StatusCode::BAD_REQUEST, why);
        }
    }
    if server.phase() == Phase::Stopping {
        let refused = refuse(StatusCode::SERVICE_UNAVAILABLE, "no session can be begun now".to_owned());
        return ([(header::RETRY_AFTER, RESTART_SECONDS)], refused).into_response();
    }
    let initiator = server.initiator(request.headers());
    let certificate = http::certificate(&initiator, request.extensions());
    let seat = request.extensions().get::<Seat>().cloned();
    let upgrading = hyper::upgrade::on(&mut request);
    let LimitSettings { hello_timeout, write_timeout, .. } = server.bounds.settings();
    server.clone().tasks.spawn(async move {
        match timeout(hello_timeout, upgrading).await {
            Ok(Ok(upgraded)) => {
                let connection = Connection::new(TokioIo::new(upgraded), seat, write_timeout).await;
                greet(server, scope, initiator, certificate, connection, hello_timeout).await;
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

/// What to answer to the key of a WebSocket handshake for a version that we know.
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

fn refuse(status: StatusCode, why: String) -> Response {
    tracing::debug!(%status, why, "a request is refused");
    let headers =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, why + "\n").into_response()
}

/// Reads the `hello`, then runs the session that it begins or goes on with.
async fn greet(
    server: Arc<Server>,
    scope: Scope,
    initiator: Initiator,
    certificate: Shown,
    mut connection: Connection,
    patience: Duration,
) {
    let nothing = &mut Outbox::default();
    let first = async {
        loop {
            match connection.next(nothing, Reading::All).await {
                Incoming::Control => {}
                first => return first,
            }
        }
    };
    let first = timeout(patience, first).await;
    let farewell = match first {
        Ok(Incoming::Text(text)) => match Envelope::<ClientFrame<'_>>::parse(&text) {
            Ok(Envelope { frame: ClientFrame::Hello(mut hello), .. }) => {
                tracing::debug!(client = hello.client.as_deref(), bucket = scope.bucket, "hello");
                let credential = hello.credential.take().map(Credential::into_owned);
                let Scope { bucket, partition } = scope;
                let from = connection.from();
                let presented = Presented { credential, certificate, from, initiator, bucket, partition };
                match Admission::new(&server, presented) {
                    Ok(admission) => match server.bounds.admit_tenant(admission.scope.tenant()) {
                        Ok(seat) => {
                            connection.take_place(seat);
                            return session::run(server, admission, hello, connection).await;
                        }
                        Err(why) => session::busy(why.word()),
                    },
                    Err(Denial { code, problem }) => fatal(code, problem),
                }
            }
            Err(BadClientFrame::Fatal(problem)) => fatal(FatalCode::BadFrame, problem),
            Ok(_) | Err(BadClientFrame::Answered { .. }) => no_hello(patience),
        },
        Ok(Incoming::Control) => no_hello(patience),
        Ok(Incoming::TooLarge) => {
            server.bounds.refuse(Refused::FrameBytes);
            let problem = Problem::with_message(format!("a frame has at most {FRAME_BYTES} bytes"));
            fatal(FatalCode::TooLarge, problem)
        }
        Ok(Incoming::Malformed(why)) => fatal(FatalCode::BadFrame, Problem::with_message(why)),
        Ok(Incoming::Binary) => Farewell::new(Outbox::default(), close::UNSUPPORTED, "binary message"),
        Ok(Incoming::Closed(_)) => return connection.answer_close().await,
        Ok(Incoming::Lost) => return,
        Err(_) => {
            server.bounds.refuse(Refused::HelloTimeout);
            no_hello(patience)
        }
    };
    connection.part(farewell).await;
}

fn fatal(code: FatalCode, problem: Problem<'_>) -> Farewell {
    Farewell::fatal(Outbox::default(), code, problem)
}

fn no_hello(patience: Duration) -> Farewell {
    let rule = format!("\"hello\" in the first frame, within {}", humantime::format_duration(patience));
    fatal(FatalCode::BadFrame, Problem::with_field("type", rule))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use super::*;
    use crate::Config;

    #[tokio::test]
    async fn a_websocket_that_comes_while_the_server_ends_is_told_when_to_come_again() {
        let server = Server::new(Config::default());
        server.stop_granting();
        server.close_connections();
        let request = Request::get(format!("http://localhost{PATH}"))
            .header(header::HOST, "localhost")
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
            .header(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
        let refused = router(server).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], RESTART_SECONDS);
    }
}
