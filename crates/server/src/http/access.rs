//! The identity of a caller, and the permission that its route needs.
//!
//! The credential is read from `Lockhouse-Key`, and where that is absent from `Authorization: Bearer`, which
//! otherwise belongs to the owner's secret. Where a client certificate stands for the caller, `Authorization`
//! belongs to the secret of each route that needs one.

use std::fmt::Display;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, header};
use lockhouse::BucketKey;
use lockhouse_wire::{CREDENTIAL_BYTES, Credential};
use parking_lot::Mutex;

use super::problem::{Code, Problem};
use super::request::constraints::BUCKET;
use super::request::decode::ApiResult;
use super::request::headers::bearer;
use super::route::{Needs, PathParameters, Route};
use crate::audit::AuditEvent;
use crate::auth::{self, Identity, Permissions, Unauthenticated};
use crate::limits::ConnectionPermit;
use crate::settings::Permission;
use crate::state::AppState;
use crate::tls::ClientCertificate;
use crate::websocket::{Admission, Presented};

/// The header with the caller's credential.
pub(super) const KEY: HeaderName = HeaderName::from_static("lockhouse-key");

/// The caller. Without one no handler gets at a bucket.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) identity: Arc<Identity>,
    /// The route that is called.
    pub(super) route: &'static Route,
    /// The bucket of the path.
    pub(super) bucket: Option<Arc<BucketKey>>,
    /// The owner of the path.
    pub(super) owner: Option<Arc<str>>,
}

/// A name for any bucket of a tenant, where none is meant.
const ANY_BUCKET: &str = "*";

/// The caller of an open server, made once.
static ANONYMOUS: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::anonymous()));

/// Identifies the caller, and leaves it with the request for the handlers, unless it lacks the permission for
/// the call.
pub(super) fn admit(
    state: &AppState,
    request: &mut Request,
    route: &'static Route,
    named: PathParameters,
) -> ApiResult<()> {
    // The credential is taken from the request before it comes to the handler.
    let headers = route.is_stream.then(|| request.headers().clone());
    let caller = caller(state, request, route, named)?;
    if let (Some(mut headers), Some(bucket)) = (headers, &caller.bucket) {
        match admit_stream(state, request, &mut headers, &bucket.bucket) {
            Some(admission) => _ = request.extensions_mut().insert(admission),
            None if state.authority().is_open() => {}
            // The credential was deleted just now.
            None => return Err(Problem::unauthenticated(&Unauthenticated::Key)),
        }
    }
    match route.needs {
        Needs::InBucket(_) => caller.bucket.as_ref().map_or(Ok(()), |key| charge(state, key.tenant()))?,
        Needs::Somewhere(_) => charge(state, of_path(&caller.identity, ANY_BUCKET.to_owned())?.tenant())?,
        Needs::Everywhere(_) | Needs::Nothing => {}
    }
    request.extensions_mut().insert(caller);
    Ok(())
}

/// The admission of a reader, which is looked at again as long as its stream lasts.
#[derive(Clone, Debug)]
struct StreamAdmission(Arc<Mutex<Option<Admission>>>);

/// Of a caller that was admitted, with the headers as they came.
fn admit_stream(
    state: &AppState,
    request: &Request,
    headers: &mut HeaderMap,
    bucket: &str,
) -> Option<StreamAdmission> {
    let initiator = state.initiator(headers);
    let presented = Presented {
        credential: credential(headers, false).ok()?,
        certificate: auth::certificate(&initiator, request.extensions()),
        from: request.extensions().get::<ConnectionPermit>().map(|permit| permit.from),
        initiator,
        bucket: bucket.to_owned(),
        partition: String::new(),
        user_agent: None,
    };
    let admission = Admission::new(state.authorities(), &state.audit, presented).ok()?;
    Some(StreamAdmission(Arc::new(Mutex::new(Some(admission)))))
}

/// The admission of a reader, and the end of its certificate.
pub(super) fn admission_of(extensions: &Extensions) -> (Option<Admission>, Option<SystemTime>) {
    let admission = extensions.get::<StreamAdmission>().and_then(|admission| admission.0.lock().take());
    let certificate = extensions.get::<Arc<ClientCertificate>>();
    (admission, certificate.map(|certificate| certificate.expires_at))
}

/// A call costs one of the rate, whatever comes of it: a caller over its rate is refused before the body of
/// its call is parsed. The cost beyond that is charged where it shows.
fn charge(state: &AppState, tenant: &str) -> ApiResult<()> {
    let rate = state.limiter.settings().tenant_rate;
    state.limiter.rate_limiters.admit_call(tenant, rate).map_err(|wait| Problem::too_fast(rate, wait))
}

/// Charges for what a call is about to cost beyond its admission. Of those that were admitted together the
/// first goes on, so that a tenant never owes more than one of them costs.
pub(super) fn charge_more(state: &AppState, tenant: &str, count: usize) -> ApiResult<()> {
    let rate = state.limiter.settings().tenant_rate;
    let count = count.try_into().unwrap_or(u32::MAX);
    state.limiter.rate_limiters.admit_more(tenant, count, rate).map_err(|wait| Problem::too_fast(rate, wait))
}

fn caller(
    state: &AppState,
    request: &mut Request,
    route: &'static Route,
    named: PathParameters,
) -> ApiResult<Caller> {
    let needs = route.needs;
    if needs == Needs::Nothing {
        return Ok(Caller { identity: ANONYMOUS.clone(), route, bucket: None, owner: None });
    }
    let PathParameters { bucket, owner } = named;
    let identity = identify(state, request, route, bucket.as_deref().unwrap_or_default())?;
    // The name is checked first, as an answer or a log line with it would be as long as the path.
    let bucket = match needs {
        Needs::InBucket(_) => {
            Some(Arc::new(of_path(&identity, bucket.ok_or_else(|| Problem::bad_path("bucket"))?)?))
        }
        Needs::Somewhere(_) | Needs::Everywhere(_) | Needs::Nothing => None,
    };
    let named = bucket.as_ref().map_or("", |key| &key.bucket);
    let (allowed, permission) = match needs {
        Needs::Somewhere(permission) => (identity.grants.somewhere(), permission),
        Needs::Everywhere(permission) => (identity.grants.everywhere(), permission),
        Needs::InBucket(permission) => (identity.permissions(named), permission),
        Needs::Nothing => (Permissions::all(), Permission::Query),
    };
    if !allowed.has(permission) {
        let place = match needs {
            Needs::InBucket(_) => format!("the bucket {named:?}"),
            Needs::Everywhere(_) | Needs::Nothing => "all buckets".to_owned(),
            Needs::Somewhere(_) => "any bucket".to_owned(),
        };
        let problem = Problem::forbidden(permission, &place);
        deny(state, Some(&identity), request, route, named, &problem.detail);
        return Err(problem);
    }
    Ok(Caller { identity, route, bucket, owner: owner.map(Arc::from) })
}

fn of_path(identity: &Identity, bucket: String) -> ApiResult<BucketKey> {
    if !BUCKET.admits(&bucket) {
        let given = format!("{bucket:?}");
        return Err(Problem::rule(Code::Invalid, "bucket", &given, BUCKET.words()));
    }
    // Over HTTP there are no partitions.
    identity.bucket(bucket, "").map_err(|error| Problem::new(Code::Invalid, error.to_string()))
}

fn identify(
    state: &AppState,
    request: &mut Request,
    route: &Route,
    bucket: &str,
) -> ApiResult<Arc<Identity>> {
    let authority = state.authority();
    if authority.is_open() {
        return Ok(ANONYMOUS.clone());
    }
    let denied = |request: &Request, why: &Unauthenticated| {
        deny(state, None, request, route, bucket, why);
        Problem::unauthenticated(why)
    };
    let initiator = state.initiator(request.headers());
    let certificate = auth::certificate(&initiator, request.extensions());
    let is_secret = route.takes_secret && certificate.is_ok() && authority.knows_certificates();
    let credential = credential(request.headers_mut(), is_secret).map_err(|why| denied(request, &why))?;
    let identity = authority.identify(credential.as_ref(), &certificate, &initiator);
    identity.map(Arc::new).map_err(|why| denied(request, &why))
}

/// The credential of the request. A credential in `Authorization` is taken away, as it is no secret of an
/// owner; unless it is known to be one.
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

/// The route is noted, not the path, which can be as long as one likes.
fn deny(
    state: &AppState,
    who: Option<&Identity>,
    request: &Request,
    route: &Route,
    bucket: &str,
    why: &dyn Display,
) {
    let what = format!("{} {}", request.method(), route.path);
    let from = request.extensions().get::<ConnectionPermit>().map(|permit| permit.from);
    state.audit.deny(from, &AuditEvent { who, what: &what, bucket, name: None }, why);
}

impl Caller {
    /// Fails for a route whose needs are not given.
    pub(super) fn of(request: &Parts) -> ApiResult<&Self> {
        let none = || Problem::new(Code::Internal, "nobody has said who may call this route");
        request.extensions.get::<Self>().ok_or_else(none)
    }
}

impl FromRequestParts<Arc<AppState>> for Caller {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> ApiResult<Self> {
        Self::of(parts).cloned()
    }
}
