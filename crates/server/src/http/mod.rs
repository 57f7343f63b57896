//! The HTTP API: offline locks, claims, assignments and queries for programs that speak JSON over HTTP.
//!
//! ```text
//!   request ─▶ routes ─▶ entry: host, origin ─▶ CORS ─▶ access ─▶ Idempotency-Key ─▶ handler ─▶ calls
//!                                   │                      │            │               │        │ │
//!   Problem (RFC 9457) ◀────────────┴──────────────────────┴────────────┴───────────────┴────────┘ ▼
//!                                                                                              lockhouse
//! ```
//!
//! Each resource has a folder: `routes` are its handlers, `bodies` the contents of requests and answers,
//! `calls` the calls to the lock tables. The constraints of requests stand once, in `request::constraints`,
//! for the reading of requests and for the OpenAPI document.

mod access;
mod assignments;
mod backup;
mod buckets;
mod calls;
mod claims;
mod cluster;
mod document;
mod dto;
mod entry;
mod events;
mod forward;
pub(crate) mod history;
mod holds;
mod idempotency;
mod locks;
mod metrics;
mod owners;
mod problem;
mod query;
mod request;
mod route;
mod routes;
mod sessions;
pub(crate) mod views;

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

pub(crate) use self::cluster::peer_routes;
pub(crate) use self::entry::ApiEntry;
pub(crate) use self::problem::write_problem;
use self::problem::{Code, Problem};
pub(crate) use self::request::body::buffer_request;
pub(crate) use self::request::request_id::{REQUEST_ID, take_request_id};
pub(crate) use self::route::{Answering, is_api};
pub(crate) use self::routes::find;
use crate::access::Denied;
use crate::limits::Refused;

/// The answer to a path of the API at which nothing is.
pub(crate) fn nowhere() -> Response {
    Problem::new(Code::NotFound, "nothing is at this path; /openapi.json lists what is").into_response()
}

/// What is answered to one caller is for no other, whatever their credentials are.
pub(crate) fn keep_out_of_caches(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.append(header::VARY, HeaderValue::from_static("authorization, lockhouse-key"));
}

/// The answer to a request for this path on a connection beyond a bound.
pub(crate) fn overloaded(why: Refused, path: &str) -> Response {
    let why = format!("there are as many connections as are allowed: limits.{why}");
    let problem = Problem::new(Code::Overloaded, why).retry_after(Duration::from_secs(1));
    write_problem(problem.into_response(), path)
}

/// The answer to a client that is not admitted.
pub(crate) fn forbidden(denied: &Denied) -> Response {
    Problem::new(Code::Forbidden, denied.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fmt::Debug;
    use std::time::SystemTime;

    use lockhouse::NameBuf;

    use super::claims::bodies::{Claimed, NewClaim};
    use super::dto::{At, JsonName};
    use super::owners::bodies::OpenedOwner;

    #[test]
    fn no_secret_of_an_answer_or_a_body_is_shown() {
        const SECRET: &str = "q7mC";
        let (at, resource) = (At(SystemTime::UNIX_EPOCH), NameBuf::new("seat").unwrap());
        let owner = OpenedOwner {
            owner: "17".to_owned(),
            owner_secret: SECRET.to_owned(),
            label: "Ada".to_owned(),
            ttl_ms: 1,
            expires_at: at,
            ends_at: None,
        };
        let claimed = Claimed {
            resource: JsonName(resource.clone()),
            claimant: "Ada".to_owned(),
            token: SECRET.to_owned(),
            expires_at: at,
            fencing_token: 1,
        };
        let key = Some(SECRET.to_owned());
        let new = NewClaim { resource, claimant: "Ada".to_owned(), ttl_ms: 1, metadata: None, key };
        let shown: [&dyn Debug; 3] = [&owner, &claimed, &new];
        for shown in shown.map(|shown| format!("{shown:?}")) {
            assert!(!shown.contains(SECRET), "{shown}");
        }
    }
}
