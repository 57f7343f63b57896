//! Who calls, and whether he may: one table says what each route needs.
//!
//! The credential is read from `Lockhouse-Key`, and where that is absent from `Authorization: Bearer`, which belongs to the owner's secret else. Where
//! a client certificate stands for the caller, `Authorization` belongs to the secret of each route that needs one.

use std::fmt::Display;
use std::sync::{Arc, LazyLock};

use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, MatchedPath, Path, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, Method, header};
use lockhouse::BucketKey;
use lockhouse::wire::{CREDENTIAL_BYTES, Credential};
use serde::Deserialize;

use super::parameters::{bad_path, bearer};
use super::problem::{Code, Problem};
use super::read::Read;
use super::rules::BUCKET;
use crate::access::Initiator;
use crate::audit::Deed;
use crate::auth::{Identity, Permission, Permissions, Unauthenticated};
use crate::limits::Seat;
use crate::server::Server;
use crate::tls::{ClientCertificate, Shown};

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

/// One route.
struct Route {
    method: Method,
    path: &'static str,
    needs: Needs,
    /// Whether the secret of an owner, or of the operator, stands in `Authorization`.
    takes_secret: bool,
}

const fn route(method: Method, path: &'static str, needs: Needs) -> Route {
    Route { method, path, needs, takes_secret: false }
}

const fn secret(method: Method, path: &'static str, needs: Needs) -> Route {
    Route { method, path, needs, takes_secret: true }
}

use Needs::{Everywhere, InBucket, Nothing};
use Permission::{Claim, Offline, Operate, Query};

/// What each route needs. A route that does not stand here answers nobody.
#[rustfmt::skip]
static ROUTES: [Route; 19] = [
    route(Method::GET, "/openapi.json", Nothing),
    route(Method::GET, "/problems/{code}", Nothing),
    secret(Method::POST, "/v1/backup", Everywhere(Operate)),
    route(Method::POST, "/v1/buckets/{bucket}/owners", InBucket(Offline)),
    secret(Method::GET, "/v1/buckets/{bucket}/owners/{owner}", InBucket(Offline)),
    secret(Method::DELETE, "/v1/buckets/{bucket}/owners/{owner}", InBucket(Offline)),
    secret(Method::POST, "/v1/buckets/{bucket}/owners/{owner}/heartbeat", InBucket(Offline)),
    route(Method::GET, "/v1/buckets/{bucket}/locks", InBucket(Query)),
    secret(Method::POST, "/v1/buckets/{bucket}/locks", InBucket(Offline)),
    secret(Method::POST, "/v1/buckets/{bucket}/locks/release", InBucket(Offline)),
    secret(Method::POST, "/v1/buckets/{bucket}/locks/undo", InBucket(Offline)),
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
    find(method, path).map(|route| route.needs)
}

fn find(method: &Method, path: &str) -> Option<&'static Route> {
    // The router answers HEAD as GET.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    ROUTES.iter().find(|route| route.method == method && route.path == path)
}

/// Who calls. Without one no handler gets at a bucket.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) identity: Arc<Identity>,
    /// The bucket of the path.
    pub(super) bucket: Option<Arc<BucketKey>>,
}

/// Who calls an open server, made once.
static ANYBODY: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::anybody()));

#[derive(Deserialize)]
struct PathMembers {
    bucket: String,
}

/// Finds out who calls, and leaves it with the request for those who handle it, unless he may not do what he asks.
pub(super) async fn admit(server: &Arc<Server>, request: Request) -> Read<Request> {
    let (mut parts, body) = request.into_parts();
    let path = parts.extensions.get::<MatchedPath>().cloned();
    if let Some(route) = path.and_then(|path| find(&parts.method, path.as_str())) {
        let caller = caller(server, &mut parts, route).await?;
        if let Some(bucket) = &caller.bucket {
            charge(server, bucket.tenant())?;
        }
        parts.extensions.insert(caller);
    }
    Ok(Request::from_parts(parts, body))
}

/// A call costs one of the rate, whatever comes of it: whoever is over his is told so before the body of his call is parsed. What it costs beyond that is
/// charged where it shows.
fn charge(server: &Server, tenant: &str) -> Read<()> {
    let rate = server.bounds.settings().tenant_rate;
    server.bounds.paces.admit_call(tenant, rate).map_err(|wait| Problem::too_fast(rate, wait))
}

/// Charges for what a call is about to cost beyond its admission. Of those that were admitted together the first goes on, so that a tenant never owes more
/// than one of them costs.
pub(super) fn charge_more(server: &Server, tenant: &str, count: usize) -> Read<()> {
    let rate = server.bounds.settings().tenant_rate;
    let count = count.try_into().unwrap_or(u32::MAX);
    server.bounds.paces.admit_more(tenant, count, rate).map_err(|wait| Problem::too_fast(rate, wait))
}

async fn caller(server: &Arc<Server>, parts: &mut Parts, route: &Route) -> Read<Caller> {
    let needs = route.needs;
    if needs == Nothing {
        return Ok(Caller { identity: ANYBODY.clone(), bucket: None });
    }
    let bucket = parts.extract::<Path<PathMembers>>().await;
    let named = bucket.as_ref().map_or("", |members| &members.bucket);
    let identity = identify(server, parts, route, named)?;
    // First, as whatever is told of it would be as long as the path.
    let bucket = match (needs, bucket) {
        (InBucket(_), Ok(members)) => Some(Arc::new(of_path(&identity, members.0)?)),
        (InBucket(_), Err(rejection)) => return Err(bad_path(&rejection)),
        _ => None,
    };
    let named = bucket.as_ref().map_or("", |key| &key.bucket);
    let (allowed, permission) = match needs {
        Everywhere(permission) => (identity.grants.everywhere(), permission),
        InBucket(permission) => (identity.permissions(named), permission),
        Nothing => (Permissions::all(), Query),
    };
    if !allowed.has(permission) {
        let place =
            if let InBucket(_) = needs { format!("the bucket {named:?}") } else { "all buckets".to_owned() };
        let problem = Problem::forbidden(permission, &place);
        deny(server, Some(&identity), parts, named, &problem.detail);
        return Err(problem);
    }
    Ok(Caller { identity, bucket })
}

fn of_path(identity: &Identity, members: PathMembers) -> Read<BucketKey> {
    if !BUCKET.admits(&members.bucket) {
        let given = format!("{:?}", members.bucket);
        return Err(Problem::rule(Code::Invalid, "bucket", &given, BUCKET.words()));
    }
    // Over HTTP there are no partitions.
    identity.bucket(members.bucket, "").map_err(|error| Problem::new(Code::Invalid, error.to_string()))
}

fn identify(server: &Server, parts: &mut Parts, route: &Route, bucket: &str) -> Read<Arc<Identity>> {
    let authority = server.authority();
    if authority.is_open() {
        return Ok(ANYBODY.clone());
    }
    let denied = |parts: &Parts, why: &Unauthenticated| {
        deny(server, None, parts, bucket, why);
        Problem::unauthenticated(why)
    };
    let initiator = server.initiator(&parts.headers);
    let certificate = certificate(&initiator, &parts.extensions);
    let is_secret = route.takes_secret && certificate.is_ok() && authority.knows_certificates();
    let credential = credential(&mut parts.headers, is_secret).map_err(|why| denied(parts, &why))?;
    let identity = authority.identify(credential.as_ref(), &certificate, &initiator);
    identity.map(Arc::new).map_err(|why| denied(parts, &why))
}

/// The credential of the request. What was read from `Authorization` is taken away, as it is no secret of an owner; unless it is known to be one.
fn credential(
    headers: &mut HeaderMap,
    is_secret: bool,
) -> Result<Option<Credential<'static>>, Unauthenticated> {
    let mut values = headers.get_all(KEY).iter();
    if let Some(value) = values.next() {
        let text = value.to_str().ok().filter(|_| values.next().is_none());
        let credential = text.and_then(|text| Credential::new(text.to_owned()));
        return credential.map(Some).ok_or(Unauthenticated::NotAToken);
    }
    if is_secret || !headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    let text = bearer(headers, |text| text.len() <= CREDENTIAL_BYTES);
    headers.remove(header::AUTHORIZATION);
    text.and_then(Credential::new).map(Some).ok_or(Unauthenticated::NotAToken)
}

/// What stands for a caller without a credential: the certificate of the connection. A browser shows that for whatever page asks, so that it does not speak for
/// pages.
pub(crate) fn certificate(initiator: &Initiator, extensions: &Extensions) -> Shown {
    let certificate = extensions.get::<Arc<ClientCertificate>>().ok_or(Unauthenticated::Absent)?;
    if *initiator == Initiator::Program { Ok(certificate.clone()) } else { Err(Unauthenticated::Page) }
}

/// What is noted is the route, not the path, which can be as long as one likes.
fn deny(server: &Server, who: Option<&Identity>, parts: &Parts, bucket: &str, why: &dyn Display) {
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let what = format!("{} {route}", parts.method);
    let from = parts.extensions.get::<Seat>().map(|seat| seat.from);
    server.audit.deny(from, &Deed { who, what: &what, bucket, name: None }, why);
}

impl FromRequestParts<Arc<Server>> for Caller {
    type Rejection = Box<Problem>;

    /// Fails for a route that nobody has said what it needs of.
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Server>) -> Read<Self> {
        let none = || Problem::new(Code::Internal, "nobody has said who may call this route");
        parts.extensions.get::<Self>().cloned().ok_or_else(none)
    }
}
