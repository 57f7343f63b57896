//! The entry that every call passes first.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use futures_util::poll;
use tokio::task::yield_now;
use tower::{Layer, Service};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::buckets::fleet::SentHeaders;
use super::forward::{CarriedOut, hand_on};
use super::problem::{Code, Problem, advise_with_key, is_refusal_of_all};
use super::request::body::{buffer_request, nothing_expected};
use super::request::headers::IDEMPOTENCY_KEY_HEADER;
use super::request::parameters::Parameters;
use super::request::request_id::REQUEST_ID;
use super::route::{Needs, Route};
use super::routes::RouteMatch;
use super::{access, idempotency};
use crate::access::check_origin;
use crate::bounds::MOVING_PATIENCE;
use crate::cluster::Cluster;
use crate::state::AppState;

/// Where every call comes in.
#[derive(Debug)]
pub(crate) struct ApiEntry {
    state: Arc<AppState>,
    cors: CorsLayer,
}

impl ApiEntry {
    pub(crate) fn new(state: &Arc<AppState>) -> Self {
        Self { state: state.clone(), cors: cors(state) }
    }

    /// Answers a request for a known path.
    pub(crate) async fn pass(&self, found: RouteMatch, request: Request) -> Response {
        let mut answering = pin!(buffer_request(&self.state, request, |request| self.admit(found, request)));
        let mut response = match poll!(answering.as_mut()) {
            Poll::Ready(response) => {
                // An immediate answer leaves together with the answers to all calls that have come meanwhile:
                // a client that reads answers is woken once for many, and does not take the CPU from the
                // server after each. Answers that waited for the store come from there together.
                yield_now().await;
                response
            }
            Poll::Pending => answering.await,
        };
        // The header keeps browsers from taking the answer for another type than its content type.
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    async fn admit(&self, found: RouteMatch, request: Request) -> Response {
        let headers = request.headers();
        if let Err(denied) = self.state.check_place(headers) {
            self.state.audit.deny_place(&request, &denied);
            return Problem::new(Code::Forbidden, denied.to_string()).into_response();
        }
        // Programs send no origin, and no cache stores the answer to their POST or DELETE for pages.
        let is_of_program = !headers.contains_key(header::ORIGIN);
        if is_of_program && matches!(*request.method(), Method::POST | Method::DELETE) {
            return self.answer(found, request).await;
        }
        // The box keeps the state that only pages need out of the future of every call.
        Box::pin(self.admit_page(found, request)).await
    }

    /// Admits the request as one of a page, which learns what it may send and see.
    async fn admit_page(&self, found: RouteMatch, request: Request) -> Response {
        let allow = (*request.method() == Method::OPTIONS).then(|| found.allow());
        let next = tower::service_fn(|request| async { Ok(self.answer(found.clone(), request).await) });
        let answer: Result<_, Infallible> = self.cors.layer(next).call(request).await;
        let mut response = match answer {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        response
    }

    async fn answer(&self, found: RouteMatch, mut request: Request) -> Response {
        let Some(route) = found.route(request.method()) else {
            return found.method_not_allowed(request.method());
        };
        let cluster = self.state.houses.cluster().filter(|_| matches!(route.needs, Needs::InBucket(_)));
        // The check takes a credential out, which the next node has to check as well.
        let headers = cluster.map(|_| request.headers().clone());
        if matches!(route.needs, Needs::Somewhere(_)) && self.state.houses.cluster().is_some() {
            let sent = SentHeaders(request.headers().clone());
            request.extensions_mut().insert(sent);
        }
        if let Err(problem) = access::admit(&self.state, &mut request, route, found.named) {
            return problem.into_response();
        }
        match cluster.zip(headers) {
            None => self.carry_out(request, route).await,
            Some((cluster, headers)) => Box::pin(self.place(cluster, headers, request, route)).await,
        }
    }

    /// Carries the call out at the node that has its bucket. Nothing is said by a node that has to be mute.
    async fn place(
        &self,
        cluster: &Cluster,
        headers: HeaderMap,
        request: Request,
        route: &'static Route,
    ) -> Response {
        let (is_change, has_key) =
            (!request.method().is_safe(), headers.contains_key(IDEMPOTENCY_KEY_HEADER));
        let (request, house) = match hand_on(&self.state, cluster, headers, request, route).await {
            CarriedOut::Here(request, house) => (request, house),
            CarriedOut::Answered(response) => return response,
        };
        let response = self.carry_out(request, route).await;
        if !house.slot_lease().is_some_and(|lease| lease.is_mute()) || is_refusal_of_all(&response) {
            return response;
        }
        let why = "no commit of the server was confirmed in time, and another one may have the bucket by now";
        if !is_change {
            return Problem::new(Code::Unavailable, why).retry_after(MOVING_PATIENCE).into_response();
        }
        let response = Problem::answer_lost(why, route.is_repeatable).into_response();
        if has_key { advise_with_key(response) } else { response }
    }

    async fn carry_out(&self, request: Request, route: &'static Route) -> Response {
        if route.needs != Needs::Nothing
            && request.uri().query().is_some()
            && let Err(violation) = Parameters::check_known(request.uri(), route.parameters)
                .and_then(|()| Parameters::parse(request.uri()).map(drop))
        {
            return Box::<Problem>::from(violation).into_response();
        }
        let changes = matches!(*request.method(), Method::POST | Method::DELETE);
        if !changes && request.body().size_hint().lower() > 0 {
            return nothing_expected().into_response();
        }
        if changes && request.headers().contains_key(IDEMPOTENCY_KEY_HEADER) {
            return Box::pin(idempotency::once(&self.state, request, route)).await;
        }
        route.answer(&self.state, request).await
    }
}

/// The requests that a page of another origin may send, and the answers that it may see. Whether the origin
/// is admitted at all, `check_place` decides, too.
fn cors(state: &Arc<AppState>) -> CorsLayer {
    let allowed = state.clone();
    let is_allowed = move |_: &HeaderValue, parts: &axum::http::request::Parts| {
        check_origin(&parts.headers, &allowed.config.allowed_origins).is_ok()
    };
    let sent: [HeaderName; 4] =
        [access::KEY, header::AUTHORIZATION, header::CONTENT_TYPE, IDEMPOTENCY_KEY_HEADER];
    let seen =
        [header::LOCATION, header::RETRY_AFTER, header::WWW_AUTHENTICATE, idempotency::REPLAYED, REQUEST_ID];
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(sent)
        .expose_headers(seen)
        .max_age(Duration::from_secs(600))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use axum::body::Body;
    use axum::http::StatusCode;
    use tower::ServiceExt;

    use super::*;
    use crate::Config;
    use crate::router::router;

    #[tokio::test]
    async fn what_is_answered_at_once_leaves_when_all_that_came_meanwhile_was_decided() {
        let state = AppState::empty(Config::default());
        let router = router(state.clone());
        let claim = |resource: &str| {
            let body = format!(r#"{{"resource":"{resource}","claimant":"Ada"}}"#);
            let request = Request::post("http://localhost/v1/buckets/default/claims")
                .header(header::HOST, "localhost")
                .header(header::CONTENT_TYPE, "application/json");
            Box::pin(router.clone().oneshot(request.body(Body::from(body)).unwrap()))
        };
        let (mut one, mut other) = (claim("one"), claim("other"));
        assert!(poll!(&mut one).is_pending() && poll!(&mut other).is_pending());
        assert_eq!(state.houses.all()[0].bucket("default").len(), 2, "both are decided");
        for answering in [one, other] {
            assert_eq!(answering.await.unwrap().status(), StatusCode::CREATED);
        }
    }
}
