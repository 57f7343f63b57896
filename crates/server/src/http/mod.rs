//! The HTTP API: offline locks, claims, assignments and queries for programs that speak JSON over HTTP.
//!
//! ```text
//!   request ─▶ routes ─▶ gate: host, origin ─▶ CORS ─▶ access ─▶ Idempotency-Key ─▶ handler (rules, read) ─▶ desk ─▶ lockhouse
//!                                   └────────────────────┴──────────────┴─────────────────┴──▶ Problem (RFC 9457)
//! ```
//!
//! What a request must look like stands once, in `rules`: requests are read by it, and the OpenAPI document tells it.

mod access;
mod backup;
mod body;
mod claims;
mod desk;
mod document;
mod entries;
mod gate;
mod idempotency;
mod locks;
mod looks;
mod owners;
mod parameters;
mod problem;
mod read;
mod routes;
mod rules;
mod views;

use std::time::Duration;

use axum::http::Uri;
use axum::response::{IntoResponse, Response};

pub(crate) use self::body::whole;
pub(crate) use self::gate::Gate;
use self::problem::{Code, Problem};
pub(crate) use self::routes::{Answering, find};
use crate::access::Denied;
use crate::limits::Refused;

/// Below this everything is told as JSON, problems included.
const BASE: &str = "/v1/buckets/{bucket}";

/// Whether what is at the path is told as JSON.
pub(crate) fn is_api(uri: &Uri) -> bool {
    uri.path().starts_with("/v1/")
}

/// The answer to a path of the API at which nothing is.
pub(crate) fn nowhere() -> Response {
    Problem::new(Code::NotFound, "nothing is at this path; /openapi.json lists what is").into_response()
}

/// The answer to a connection for which there is no room.
pub(crate) fn overloaded(why: Refused) -> Response {
    let why = format!("there are as many connections as are allowed: limits.{why}");
    Problem::new(Code::Overloaded, why).retry_after(Duration::from_secs(1)).into_response()
}

/// The answer to whoever is not admitted.
pub(crate) fn forbidden(denied: &Denied) -> Response {
    Problem::new(Code::Forbidden, denied.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fmt::Debug;
    use std::time::SystemTime;

    use lockhouse::NameBuf;

    use super::claims::{Claimed, NewClaim};
    use super::owners::OpenedOwner;
    use super::views::{At, JsonName};

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
