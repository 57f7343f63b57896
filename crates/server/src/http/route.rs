//! One route of the API.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::response::Response;

use crate::settings::Permission;
use crate::state::AppState;

/// Below this every answer is JSON, problems included.
pub(crate) const BASE: &str = "/v1/buckets/{bucket}";

/// Whether the answer at the path is JSON.
pub(crate) fn is_api(uri: &Uri) -> bool {
    uri.path().starts_with("/v1/")
}

/// An answer under way.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The needs of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No credential.
    Nothing,
    /// The permission in the bucket of the path.
    InBucket(Permission),
    /// The permission in any bucket; the answer shows no other ones.
    Somewhere(Permission),
    /// The permission in all buckets.
    Everywhere(Permission),
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// As `matchit` has it, and for buckets the OpenAPI document.
    pub(crate) path: &'static str,
    pub(crate) needs: Needs,
    /// Whether the secret of an owner, or of the operator, stands in `Authorization`.
    pub(crate) takes_secret: bool,
    /// Whether to send a request again with its `Idempotency-Key` does what the first one meant, at a server
    /// that does not know the key, too.
    pub(crate) is_repeatable: bool,
    /// Whether the answer lasts, and comes piece by piece.
    pub(crate) is_stream: bool,
    /// The parameters of the query that it knows.
    pub(crate) parameters: &'static [&'static str],
    pub(crate) handler: fn(Request, Arc<AppState>) -> Answering,
}

impl Route {
    /// Answers a request that was admitted.
    pub(crate) fn answer(&self, state: &Arc<AppState>, request: Request) -> Answering {
        (self.handler)(request, state.clone())
    }
}

/// The names in a path, percent-decoded; none where the path has none of that kind, or it is no UTF-8.
#[derive(Clone, Debug)]
pub(crate) struct PathParameters {
    pub(crate) bucket: Option<String>,
    pub(crate) owner: Option<String>,
}
