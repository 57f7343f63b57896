//! All routes of the API in one table: the permission and the handler of each.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use lockhouse_wire::percent_decode;
use matchit::{Params, Router};

use super::problem::{self, Code, Problem};
use super::route::{Answering, Needs, PathParameters, Route};
use super::{
    assignments, backup, buckets, claims, cluster, document, events, history, holds, locks, metrics, owners,
    query, sessions, views,
};
use crate::settings::Permission;
use crate::state::AppState;

fn run<T>(
    handler: impl Handler<T, Arc<AppState>, Future = Answering>,
    request: Request,
    state: Arc<AppState>,
) -> Answering {
    handler.call(request, state)
}

/// A route that takes no secret.
macro_rules! route {
    ($method:ident $path:literal, $needs:expr, $handler:path) => {
        Route {
            method: Method::$method,
            path: $path,
            needs: $needs,
            takes_secret: false,
            is_repeatable: true,
            is_stream: false,
            parameters: &[],
            handler: |request, state| run($handler, request, state),
        }
    };
}

/// A route that takes a secret.
macro_rules! secret {
    ($($route:tt)*) => {
        Route { takes_secret: true, ..route!($($route)*) }
    };
}

/// A route of which a repeat may do something else.
macro_rules! once {
    ($kind:ident!($($route:tt)*)) => {
        Route { is_repeatable: false, ..$kind!($($route)*) }
    };
}

/// A route whose answer lasts.
macro_rules! stream {
    ($kind:ident!($($route:tt)*)) => {
        Route { is_stream: true, ..$kind!($($route)*) }
    };
}

/// A route that knows parameters of a query.
macro_rules! query {
    ([$($known:literal),*] $($route:tt)*) => {
        Route { parameters: &[$($known),*], ..route!($($route)*) }
    };
}

use Needs::{Everywhere, InBucket, Nothing, Somewhere};
use Permission::{Claim, Offline, Operate, Query};

/// Routes with the same path stand together.
#[rustfmt::skip]
static ROUTES: [Route; 30] = [
    route!(GET "/openapi.json", Nothing, document),
    route!(GET "/problems/{code}", Nothing, problem::explain),
    route!(GET "/metrics", Everywhere(Operate), metrics::show),
    secret!(POST "/v1/backup", Everywhere(Operate), backup::backup),
    route!(GET "/v1/cluster", Everywhere(Operate), cluster::show),
    route!(POST "/v1/cluster/drain", Everywhere(Operate), cluster::drain),
    query!(["prefix", "limit", "cursor"] GET "/v1/buckets", Somewhere(Query), buckets::routes::list),
    route!(POST "/v1/buckets/{bucket}/owners", InBucket(Offline), owners::routes::open),
    query!(["label", "limit", "cursor"] GET "/v1/buckets/{bucket}/owners", InBucket(Query), owners::routes::list),
    secret!(GET "/v1/buckets/{bucket}/owners/{owner}", InBucket(Offline), owners::routes::show),
    secret!(DELETE "/v1/buckets/{bucket}/owners/{owner}", InBucket(Offline), owners::routes::end),
    secret!(POST "/v1/buckets/{bucket}/owners/{owner}/heartbeat", InBucket(Offline), owners::routes::heartbeat),
    query!(["owner", "kind", "prefix", "limit", "cursor"] GET "/v1/buckets/{bucket}/locks", InBucket(Query), locks::routes::list),
    secret!(POST "/v1/buckets/{bucket}/locks", InBucket(Offline), locks::routes::lock),
    once!(secret!(POST "/v1/buckets/{bucket}/locks/release", InBucket(Offline), locks::routes::release)),
    secret!(POST "/v1/buckets/{bucket}/locks/undo", InBucket(Offline), locks::routes::undo),
    route!(POST "/v1/buckets/{bucket}/locks/break", InBucket(Operate), holds::routes::break_holds),
    query!(["resource"] GET "/v1/buckets/{bucket}/claims", InBucket(Query), claims::routes::show),
    route!(POST "/v1/buckets/{bucket}/claims", InBucket(Claim), claims::routes::claim),
    route!(POST "/v1/buckets/{bucket}/claims/renew", InBucket(Claim), claims::routes::renew),
    route!(POST "/v1/buckets/{bucket}/claims/release", InBucket(Claim), claims::routes::release),
    route!(POST "/v1/buckets/{bucket}/claims/finalize", InBucket(Claim), claims::routes::finalize),
    query!(["resource"] GET "/v1/buckets/{bucket}/assignments", InBucket(Query), assignments::routes::show),
    once!(query!(["resource", "fencingToken", "reason"] DELETE "/v1/buckets/{bucket}/assignments", InBucket(Operate), assignments::routes::unassign)),
    query!(["name", "prefix", "kind", "client", "owner", "state", "fencingToken", "olderThanMs", "sort", "limit", "cursor"] GET "/v1/buckets/{bucket}/query", InBucket(Query), query::routes::query),
    route!(GET "/v1/buckets/{bucket}/overview", InBucket(Query), views::overview::show),
    route!(GET "/v1/buckets/{bucket}/waits", InBucket(Query), views::waits::show),
    stream!(query!(["name", "prefix", "kind", "state", "lastEventId"] GET "/v1/buckets/{bucket}/events", InBucket(Query), events::routes::events)),
    query!(["name", "prefix", "kind", "end", "owner", "label", "fencingToken", "from", "to", "limit", "cursor"] GET "/v1/buckets/{bucket}/history", InBucket(Query), history::routes::history),
    query!(["limit", "cursor"] GET "/v1/buckets/{bucket}/sessions", InBucket(Operate), sessions::routes::list),
];

static PATHS: LazyLock<Router<&'static [Route]>> = LazyLock::new(|| {
    let mut paths = Router::new();
    for routes in ROUTES.chunk_by(|one, next| one.path == next.path) {
        paths.insert(routes[0].path, routes).expect("no two paths of the table stand for the same");
    }
    paths
});

/// The needs of the route, by its path in the table.
fn needs(method: &Method, path: &str) -> Option<Needs> {
    ROUTES.iter().find(|route| route.method == method && route.path == path).map(|route| route.needs)
}

/// `GET /openapi.json`.
async fn document() -> ([(HeaderName, &'static str); 1], &'static str) {
    /// The text, made once.
    static TEXT: LazyLock<String> = LazyLock::new(|| document::text(needs));
    ([(header::CONTENT_TYPE, "application/json")], &TEXT)
}

/// The routes at a path.
#[derive(Clone, Debug)]
pub(crate) struct RouteMatch {
    routes: &'static [Route],
    pub(super) named: PathParameters,
}

/// The routes of the API at that path.
pub(crate) fn find(path: &str) -> Option<RouteMatch> {
    let found = PATHS.at(path).ok()?;
    let named =
        PathParameters { bucket: decode(&found.params, "bucket"), owner: decode(&found.params, "owner") };
    Some(RouteMatch { routes: found.value, named })
}

fn decode(params: &Params<'_, '_>, name: &str) -> Option<String> {
    params.get(name).and_then(percent_decode).map(Cow::into_owned)
}

impl RouteMatch {
    /// The route of that method.
    pub(super) fn route(&self, method: &Method) -> Option<&'static Route> {
        // HEAD gets the answer of GET; HTTP leaves the body out.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.routes.iter().find(|route| route.method == method)
    }

    /// The answer to another method.
    pub(super) fn method_not_allowed(&self, method: &Method) -> Response {
        let allowed = self.allow();
        let known = allowed.to_str().unwrap_or_default().replace(',', ", ");
        let why = format!("{method} is none of the methods that this path knows: {known}");
        let mut response = Problem::new(Code::MethodNotAllowed, why).into_response();
        response.headers_mut().insert(header::ALLOW, allowed);
        response
    }

    /// The methods that the path knows.
    pub(super) fn allow(&self) -> HeaderValue {
        let word = |route: &Route| {
            if route.method == Method::GET { "GET,HEAD" } else { route.method.as_str() }.to_owned()
        };
        let words: Vec<String> = self.routes.iter().map(word).collect();
        HeaderValue::try_from(words.join(",")).expect("methods are visible ASCII")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;

    #[tokio::test]
    async fn every_route_of_a_bucket_stands_in_the_document_and_no_other() {
        let (_, text) = document().await;
        let document: serde_json::Value = serde_json::from_str(text).unwrap();
        let documented: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                let methods = ["get", "post", "delete", "put", "patch"].into_iter();
                let methods = methods.filter(|method| item.get(method).is_some());
                methods.map(|method| (path.clone(), method.to_uppercase()))
            })
            .collect();
        let routes = ROUTES.iter().filter(|route| route.path.starts_with("/v1/buckets"));
        let known = routes.map(|route| (route.path.to_owned(), route.method.to_string())).collect();
        assert_eq!(documented, known);
    }

    #[test]
    fn where_a_repeat_may_do_something_else_a_lost_answer_advises_no_client_to_send_it() {
        let advised = ROUTES.iter().filter(|route| !route.method.is_safe()).filter(|route| {
            let lost = Problem::answer_lost("cut off", route.is_repeatable).into_response();
            problem::advise_with_key(lost).headers().contains_key(header::RETRY_AFTER)
        });
        let never = ["/v1/buckets/{bucket}/locks/release", "/v1/buckets/{bucket}/assignments"];
        let advised: Vec<_> = advised.map(|route| route.path).collect();
        assert!(advised.contains(&"/v1/buckets/{bucket}/claims"));
        assert!(never.iter().all(|path| !advised.contains(path)), "{advised:?}");
    }

    #[test]
    fn a_path_is_found_with_what_it_names() {
        let found = find("/v1/buckets/a%2Fb/owners/%C3%A9").unwrap();
        assert_eq!(found.named.bucket.as_deref(), Some("a/b"));
        assert_eq!(found.named.owner.as_deref(), Some("\u{e9}"));
        assert_eq!(found.route(&Method::HEAD).unwrap().method, Method::GET);
        assert!(found.route(&Method::POST).is_none());
        assert_eq!(found.allow(), "GET,HEAD,DELETE");
        assert!(find("/v1/buckets/%FF/locks").unwrap().named.bucket.is_none());
        for path in ["/", "/v1/buckets/b", "/v1/buckets/b/locks/", "/v1/buckets/b/nothing", "/healthz"] {
            assert!(find(path).is_none(), "{path}");
        }
    }
}
