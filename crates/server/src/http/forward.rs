//! A call whose bucket another node of the fleet has: it is handed on, and its answer is handed back.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, Method, Response as HttpResponse, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hyper::body::Incoming;
use lockhouse::House;
use lockhouse::fleet::BucketPlace;
use lockhouse::store::NodeRow;
use tokio::time::{Instant, timeout};
use tower_http::timeout::TimeoutBody;

use super::access::Caller;
use super::idempotency;
use super::problem::{Problem, advise_with_key};
use super::request::body::collect;
use super::request::headers::IDEMPOTENCY_KEY_HEADER;
use super::route::Route;
use crate::bounds::{HTTP_BODY_BYTES, MOVING_PATIENCE, STREAM_HEARTBEAT};
use crate::cluster::{Cluster, Forwarded, HopError, caller_of};
use crate::state::{AppState, Phase};

/// Headers that are about one connection only (RFC 9110, section 7.6.1), and the length, which is written
/// anew.
pub(super) const OF_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// The headers of an answer that are handed back. All others each node writes itself.
const OF_ANSWER: [HeaderName; 7] = [
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_TYPE,
    header::LOCATION,
    header::RETRY_AFTER,
    header::WWW_AUTHENTICATE,
    idempotency::REPLAYED,
];

/// Where a call is carried out.
pub(super) enum CarriedOut {
    /// Here, in this house.
    Here(Request, House),
    /// It was answered.
    Answered(Response),
}

/// Hands the call on, with the headers that it has come with, if its bucket is at another node. A bucket that
/// moves is waited for.
pub(super) async fn hand_on(
    state: &AppState,
    cluster: &Cluster,
    mut headers: HeaderMap,
    request: Request,
    route: &Route,
) -> CarriedOut {
    let key = request.extensions().get::<Caller>().and_then(|caller| caller.bucket.clone());
    let Some(key) = key else { return answered(Problem::moving()) };
    let is_forwarded = request.extensions().get::<Forwarded>().is_some();
    let until = Instant::now() + MOVING_PATIENCE;
    let mut place = cluster.node.find_in_time(&key, MOVING_PATIENCE).await;
    if let BucketPlace::Here(house) = place {
        return CarriedOut::Here(request, house);
    }
    if is_forwarded {
        // The node that has handed it on asks the next one.
        return CarriedOut::Answered(StatusCode::MISDIRECTED_REQUEST.into_response());
    }
    OF_CONNECTION.iter().for_each(|name| _ = headers.remove(name));
    let (parts, body) = request.into_parts();
    let body = match collect(body, HTTP_BODY_BYTES).await {
        Ok(body) => body,
        Err(problem) => return answered(problem),
    };
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let caller = caller_of(&parts.extensions);
    let call = Call { state, cluster, route, method: &parts.method, target: &target };
    loop {
        let node = match place {
            BucketPlace::Here(house) => {
                return CarriedOut::Here(Request::from_parts(parts, Body::from(body)), house);
            }
            BucketPlace::There(node) => node,
            BucketPlace::Moving => return answered(Problem::moving()),
        };
        let sending = cluster.client.send(
            &node,
            (parts.method.clone(), &target),
            headers.clone(),
            &caller,
            Body::from(body.clone()),
            cluster.node.is_gone(node.id),
        );
        if let Some(answer) = call.answer_of(&node, sending).await {
            return CarriedOut::Answered(if headers.contains_key(IDEMPOTENCY_KEY_HEADER) {
                advise_with_key(answer)
            } else {
                answer
            });
        }
        let left = until.saturating_duration_since(Instant::now());
        place = cluster.node.find_elsewhere(&key, node.id, left).await;
    }
}

fn answered(problem: Box<Problem>) -> CarriedOut {
    CarriedOut::Answered(problem.into_response())
}

/// A call that is handed on.
struct Call<'a> {
    state: &'a AppState,
    cluster: &'a Cluster,
    route: &'a Route,
    method: &'a Method,
    target: &'a str,
}

impl Call<'_> {
    /// The answer of that node; none if it has not carried the call out.
    async fn answer_of(
        &self,
        node: &NodeRow,
        sending: impl Future<Output = Result<HttpResponse<Incoming>, HopError>>,
    ) -> Option<Response> {
        // As long as the node itself may wait for the store.
        let patience = self.state.config.store_timeout + MOVING_PATIENCE;
        let late = || HopError::Lost(format!("no answer within {patience:?}"));
        let error = match timeout(patience, sending).await.unwrap_or_else(|_| Err(late())) {
            Ok(response) if response.status() == StatusCode::MISDIRECTED_REQUEST => return None,
            Ok(response) if self.route.is_stream && response.status().is_success() => {
                return Some(self.handed_on(response));
            }
            Ok(response) => return Some(handed_back(response, patience)),
            Err(error) => error,
        };
        tracing::debug!(
            node = &*node.label,
            own = self.cluster.node.label(),
            path = self.target,
            "a call was not handed on: {error}"
        );
        match error {
            HopError::Unreached(_) => None,
            HopError::Lost(_) if self.method.is_safe() => Some(Problem::moving().into_response()),
            HopError::Lost(why) => {
                let why = format!("the node {:?} has the bucket, but {why}", node.label);
                Some(Problem::answer_lost(&why, self.route.is_repeatable).into_response())
            }
        }
    }
}

impl Call<'_> {
    /// A stream, piece by piece, until this server stops. A node that says nothing for twice the time of a
    /// heartbeat is gone.
    fn handed_on(&self, response: HttpResponse<Incoming>) -> Response {
        let answer = handed_back(response, 2 * STREAM_HEARTBEAT);
        let mut phases = self.state.phases();
        let stops = async move { _ = phases.wait_for(|phase| *phase == Phase::Stopping).await };
        answer.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(stops))))
    }
}

/// The answer, of which no part may be longer in coming than that.
fn handed_back(response: HttpResponse<Incoming>, patience: Duration) -> Response {
    let (parts, body) = response.into_parts();
    let mut response = Response::new(Body::new(TimeoutBody::new(patience, body)));
    *response.status_mut() = parts.status;
    for name in OF_ANSWER {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}
