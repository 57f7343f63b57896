//! Who calls, and whether he may: one table says what each route needs.
//!
//! The credential is read from `Lockhouse-Key`, and where that is absent from `Authorization: Bearer`, which belongs to the owner's secret else.

use std::sync::Arc;

use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, MatchedPath, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, header};
use lockhouse::BucketKey;
use lockhouse::wire::{CREDENTIAL_BYTES, Credential};
use serde::Deserialize;

use super::parameters::{bad_path, bearer};
use super::problem::{Code, Problem};
use super::read::Read;
use super::rules::BUCKET;
use crate::access::Origin;
use crate::audit::{self, Deed};
use crate::auth::{Identity, Permission, Permissions, Unauthenticated};
use crate::server::Server;

/// The header that says who calls.
pub(super) const KEY: HeaderName = HeaderName::from_static("lockhouse-key");

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// No credential.
    Nothing,
    /// The permission in the bucket of the path.
    InBucket(Permission),
    /// The permission in all buckets.
    Everywhere(Permission),
}

const fn route(method: Method, path: &'static str, needs: Needs) -> (Method, &'static str, Needs) {
    (method, path, needs)
}

use Needs::{Everywhere, InBucket, Nothing};
use Permission::{Claim, Offline, Operate, Query};

/// What each route needs. A route that does not stand here answers nobody.
#[rustfmt::skip]
const ROUTES: [(Method, &str, Needs); 19] = [
    route(Method::GET, "/openapi.json", Nothing),
    route(Method::GET, "/problems/{code}", Nothing),
    route(Method::POST, "/v1/backup", Everywhere(Operate)),
    route(Method::POST, "/v1/buckets/{bucket}/owners", InBucket(Offline)),
    route(Method::GET, "/v1/buckets/{bucket}/owners/{owner}", InBucket(Offline)),
    route(Method::DELETE, "/v1/buckets/{bucket}/owners/{owner}", InBucket(Offline)),
    route(Method::POST, "/v1/buckets/{bucket}/owners/{owner}/heartbeat", InBucket(Offline)),
    route(Method::GET, "/v1/buckets/{bucket}/locks", InBucket(Query)),
    route(Method::POST, "/v1/buckets/{bucket}/locks", InBucket(Offline)),
    route(Method::POST, "/v1/buckets/{bucket}/locks/release", InBucket(Offline)),
    route(Method::POST, "/v1/buckets/{bucket}/locks/undo", InBucket(Offline)),
    route(Method::GET, "/v1/buckets/{bucket}/claims", InBucket(Query)),
    route(Method::POST, "/v1/buckets/{bucket}/claims", InBucket(Claim)),
    route(Method::POST, "/v1/buckets/{bucket}/claims/renew", InBucket(Claim)),
    route(Method::POST, "/v1/buckets/{bucket}/claims/release", InBucket(Claim)),
    route(Method::POST, "/v1/buckets/{bucket}/claims/finalize", InBucket(Claim)),
    route(Method::GET, "/v1/buckets/{bucket}/assignments", InBucket(Query)),
    route(Method::DELETE, "/v1/buckets/{bucket}/assignments", InBucket(Operate)),
    route(Method::GET, "/v1/buckets/{bucket}/query", InBucket(Query)),
];

/// What the route needs, by the path as the router has it.
pub(super) fn needs(method: &Method, path: &str) -> Option<Needs> {
    // The router answers HEAD as GET.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    ROUTES.iter().find(|(known, at, _)| known == method && *at == path).map(|(_, _, needs)| *needs)
}

/// Who calls. Without one no handler gets at a bucket.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) identity: Arc<Identity>,
    /// The bucket of the path.
    pub(super) bucket: Option<BucketKey>,
}

#[derive(Deserialize)]
struct PathMembers {
    bucket: String,
}

/// Finds out who calls, and leaves it with the request for those who handle it, unless he may not do what he asks.
pub(super) async fn admit(server: &Arc<Server>, request: Request) -> Read<Request> {
    let (mut parts, body) = request.into_parts();
    let path = parts.extensions.get::<MatchedPath>().cloned();
    if let Some(needs) = path.and_then(|path| needs(&parts.method, path.as_str())) {
        let caller = caller(server, &mut parts, needs).await?;
        parts.extensions.insert(caller);
    }
    Ok(Request::from_parts(parts, body))
}

async fn caller(server: &Arc<Server>, parts: &mut Parts, needs: Needs) -> Read<Caller> {
    if needs == Nothing {
        return Ok(Caller { identity: Arc::new(Identity::anybody()), bucket: None });
    }
    let bucket = parts.extract::<Path<PathMembers>>().await;
    let named = bucket.as_ref().map_or("", |members| &members.bucket);
    let identity = identify(server, parts, named)?;
    let (allowed, permission) = match needs {
        Everywhere(permission) => (identity.grants.everywhere(), permission),
        InBucket(permission) => (identity.permissions(named), permission),
        Nothing => (Permissions::all(), Query),
    };
    if !allowed.has(permission) {
        let place =
            if let InBucket(_) = needs { format!("the bucket {named:?}") } else { "all buckets".to_owned() };
        let problem = Problem::forbidden(permission, &place);
        deny(Some(&identity), parts, named, &problem.detail);
        return Err(problem);
    }
    let bucket = match (needs, bucket) {
        (InBucket(_), Ok(members)) => Some(of_path(&identity, members.0)?),
        (InBucket(_), Err(rejection)) => return Err(bad_path(&rejection)),
        _ => None,
    };
    Ok(Caller { identity: Arc::new(identity), bucket })
}

fn of_path(identity: &Identity, members: PathMembers) -> Read<BucketKey> {
    if !BUCKET.admits(&members.bucket) {
        let given = format!("{:?}", members.bucket);
        return Err(Problem::rule(Code::Invalid, "bucket", &given, BUCKET.words()));
    }
    // Over HTTP there are no partitions.
    identity.bucket(members.bucket, "").map_err(|error| Problem::new(Code::Invalid, error.to_string()))
}

fn identify(server: &Server, parts: &mut Parts, bucket: &str) -> Read<Identity> {
    let authority = server.authority();
    if authority.is_open() {
        return Ok(Identity::anybody());
    }
    let denied = |parts: &Parts, why: &Unauthenticated| {
        deny(None, parts, bucket, why);
        Problem::unauthenticated(why)
    };
    let credential = credential(&mut parts.headers).map_err(|why| denied(parts, &why))?;
    let origin = origin(&parts.headers);
    authority.identify(credential.as_ref(), origin.as_deref()).map_err(|why| denied(parts, &why))
}

/// The credential of the request. What was read from `Authorization` is taken away, as it is no secret of an owner.
fn credential(headers: &mut HeaderMap) -> Result<Option<Credential<'static>>, Unauthenticated> {
    let mut values = headers.get_all(KEY).iter();
    if let Some(value) = values.next() {
        let text = value.to_str().ok().filter(|_| values.next().is_none());
        let credential = text.and_then(|text| Credential::new(text.to_owned()));
        return credential.map(Some).ok_or(Unauthenticated::NotAToken);
    }
    if !headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    let text = bearer(headers, |text| text.len() <= CREDENTIAL_BYTES);
    headers.remove(header::AUTHORIZATION);
    text.and_then(Credential::new).map(Some).ok_or(Unauthenticated::NotAToken)
}

/// The web origin of the caller, in the way in which browsers write it.
pub(crate) fn origin(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::ORIGIN)?.to_str().ok()?;
    text.parse().ok().map(|origin: Origin| origin.to_string())
}

fn deny(who: Option<&Identity>, parts: &Parts, bucket: &str, why: &dyn std::fmt::Display) {
    let what = format!("{} {}", parts.method, parts.uri.path());
    audit::note(&Deed { who, what: &what, bucket, name: None, denied: Some(why) });
}

impl FromRequestParts<Arc<Server>> for Caller {
    type Rejection = Box<Problem>;

    /// Fails for a route that nobody has said what it needs of.
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Server>) -> Read<Self> {
        let none = || Problem::new(Code::Internal, "nobody has said who may call this route");
        parts.extensions.get::<Self>().cloned().ok_or_else(none)
    }
}
