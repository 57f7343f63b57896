//! Problems: every answer that is no success, as RFC 9457 wants it.
//!
//! <https://www.rfc-editor.org/rfc/rfc9457>

use std::borrow::Cow;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use lockhouse::Quota;
use lockhouse_wire as wire;
use serde::Serialize;
use utoipa::ToSchema;

use super::claims::Assignment;
use super::views::{At, Conflict, Holder};
use crate::auth::Unauthenticated;
use crate::limits::{Refused, told_ms};
use crate::settings::Permission;

/// The media type of a problem.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// What kind of problem, as a word that programs can tell apart. The `type` of a problem leads to an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Code {
    BadRequest,
    Unauthenticated,
    Unauthorized,
    Forbidden,
    NotFound,
    UnknownOwner,
    MethodNotAllowed,
    ConflictInFlight,
    Claimed,
    Busy,
    AlreadyAssigned,
    ClaimLost,
    ClaimExpired,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    IdempotencyMismatch,
    Locked,
    QuotaExceeded,
    RateLimited,
    RequestTimeout,
    Overloaded,
    Internal,
    Recovering,
    Unavailable,
    Closing,
}

/// What is told of a code wherever it occurs: its word, its status, its title, and what to do about it.
struct Kind {
    code: Code,
    word: &'static str,
    status: StatusCode,
    title: &'static str,
    advice: &'static str,
}

impl Code {
    fn kind(self) -> &'static Kind {
        KINDS.iter().find(|kind| kind.code == self).expect("a test looks that every code has its kind")
    }

    pub(super) fn status(self) -> StatusCode {
        self.kind().status
    }

    /// What is counted of it.
    fn refused(self) -> Option<Refused> {
        match self {
            Self::QuotaExceeded => Some(Refused::Call),
            Self::RateLimited => Some(Refused::TenantRate),
            Self::TooLarge => Some(Refused::BodyBytes),
            Self::RequestTimeout => Some(Refused::BodyTimeout),
            // Of connections it is told before anything is read of them, and counted there.
            Self::Overloaded => Some(Refused::LateBody),
            _ => None,
        }
    }
}

/// A problem, as it is sent. Members that say nothing are left out.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(description = "What went wrong (RFC 9457). A member that does not apply is absent.")]
pub(super) struct Problem {
    /// Where the code is explained, relative to the server.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference", example = "/problems/locked")]
    kind: String,
    /// The same in a few words, equal for all problems of the code.
    #[schema(example = "Locked by somebody else")]
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599, example = 423)]
    status: u16,
    /// What is wrong this time, as a sentence.
    pub(super) detail: Cow<'static, str>,
    /// What kind of problem, for programs.
    pub(super) code: Code,
    /// The member, parameter or header that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "ttlMs")]
    field: Option<String>,
    /// What it was, at most 64 characters of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 64, example = "0")]
    value: Option<String>,
    /// What it must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "an integer from 1 to 2592000000")]
    rule: Option<Cow<'static, str>>,
    /// The permission that the credential has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "claim")]
    permission: Option<&'static str>,
    /// Who holds the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_items = 8)]
    holders: Option<Vec<Holder>>,
    /// How many requests wait for the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    queued: Option<u32>,
    /// The locks that could not be granted; none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_items = 60)]
    conflicts: Option<Vec<Conflict>>,
    /// To whom the resource belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Assignment)]
    assignment: Option<Assignment>,
    /// When what stands in the way ends unless it is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = At)]
    expires_at: Option<At>,
    /// After how many milliseconds it makes sense to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retry_after_ms: Option<u64>,
}

impl Problem {
    pub(super) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Box<Self> {
        let Kind { word, status, title, .. } = code.kind();
        Box::new(Self {
            kind: format!("/problems/{word}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            code,
            field: None,
            value: None,
            rule: None,
            permission: None,
            holders: None,
            queued: None,
            conflicts: None,
            assignment: None,
            expires_at: None,
            retry_after_ms: None,
        })
    }

    /// A value that breaks a rule; told as "`field` is `value`, but must be `rule`".
    pub(super) fn rule(
        code: Code,
        field: impl Into<String>,
        value: &str,
        rule: impl Into<String>,
    ) -> Box<Self> {
        let (field, rule, value) = (field.into(), rule.into(), wire::shorten(value));
        let mut problem = Self::new(code, format!("{field} is {value}, but must be {rule}"));
        (problem.field, problem.value, problem.rule) = (Some(field), Some(value), Some(rule.into()));
        problem
    }

    /// As [`rule`](Self::rule), for what is not there, or must not be repeated.
    pub(super) fn field(code: Code, field: impl Into<String>, rule: impl Into<String>) -> Box<Self> {
        let (field, rule) = (field.into(), rule.into());
        let mut problem = Self::new(code, format!("{field} must be {rule}"));
        (problem.field, problem.rule) = (Some(field), Some(rule.into()));
        problem
    }

    /// The credential is not taken.
    pub(super) fn unauthenticated(why: &Unauthenticated) -> Box<Self> {
        let rule = "an API key, or a token of an issuer that the server knows";
        let mut problem = Self::field(Code::Unauthenticated, "Lockhouse-Key", rule);
        problem.detail = format!("Lockhouse-Key must be {rule}: {why}").into();
        problem
    }

    /// The tenant does more than `tenant_rate`.
    pub(super) fn too_fast(rate: u32, wait: Duration) -> Box<Self> {
        let why = format!("the tenant makes more than {rate} calls and frames in a second");
        Self::new(Code::RateLimited, why).retry_after(wait)
    }

    /// The credential is taken, but has not the permission there.
    pub(super) fn forbidden(permission: Permission, place: &str) -> Box<Self> {
        let word = permission.word();
        let mut problem =
            Self::new(Code::Forbidden, format!("the credential has no permission \"{word}\" in {place}"));
        problem.permission = Some(word);
        problem
    }

    pub(super) fn holders(mut self: Box<Self>, holders: Vec<Holder>, queued: u32) -> Box<Self> {
        (self.holders, self.queued) = (Some(holders), Some(queued));
        self
    }

    pub(super) fn conflicts(mut self: Box<Self>, conflicts: Vec<Conflict>) -> Box<Self> {
        self.conflicts = Some(conflicts);
        self
    }

    /// As [`rule`](Self::rule), of a bound, told as the library does.
    pub(super) fn bound(code: Code, quota: &Quota) -> Box<Self> {
        let mut problem = Self::new(code, quota.to_string());
        problem.field = Some(quota.field.clone());
        problem.value = Some(wire::shorten(&quota.value));
        problem.rule = Some(quota.rule.clone().into());
        problem
    }

    pub(super) fn assignment(mut self: Box<Self>, assignment: Assignment) -> Box<Self> {
        self.assignment = Some(assignment);
        self
    }

    pub(super) fn expires_at(mut self: Box<Self>, at: Option<At>) -> Box<Self> {
        self.expires_at = at;
        self
    }

    pub(super) fn retry_after(mut self: Box<Self>, pause: Duration) -> Box<Self> {
        self.retry_after_ms = Some(told_ms(pause));
        self
    }
}

impl IntoResponse for Box<Problem> {
    fn into_response(self) -> Response {
        let status = self.code.status();
        // What the caller sent is not repeated: it may be a secret in the wrong place.
        let detail = status.is_server_error().then_some(&*self.detail);
        tracing::debug!(%status, title = self.title, field = self.field, detail, "a request is answered with a problem");
        let body = serde_json::to_vec(&self).expect("a problem has nothing that JSON cannot hold");
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(ms) = self.retry_after_ms {
            // In whole seconds, rounded up once more.
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
        }
        let realm = match self.code {
            Code::Unauthenticated => Some("Bearer realm=\"lockhouse\""),
            Code::Unauthorized => Some("Bearer realm=\"owner\""),
            _ => None,
        };
        if let Some(realm) = realm {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(realm));
        }
        if let Some(refused) = self.code.refused() {
            response.extensions_mut().insert(refused);
        }
        response
    }
}

/// `GET /problems/{code}`: what a `type` refers to.
pub(super) async fn explain(uri: Uri) -> Response {
    let word = uri.path().strip_prefix("/problems/");
    let Some(kind) = KINDS.iter().find(|kind| word == Some(kind.word)) else {
        let words: Vec<&str> = KINDS.iter().map(|kind| kind.word).collect();
        return Problem::new(Code::NotFound, format!("the codes are {}", words.join(", "))).into_response();
    };
    let Kind { word, status, title, advice, .. } = kind;
    let page = format!("# {title}\n\nCode `{word}`, status {}.\n\n{advice}\n", status.as_u16());
    ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response()
}

const fn kind(
    code: Code,
    word: &'static str,
    status: StatusCode,
    title: &'static str,
    advice: &'static str,
) -> Kind {
    Kind { code, word, status, title, advice }
}

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind(Code::BadRequest, "bad_request", StatusCode::BAD_REQUEST, "Not a usable request",
        "The body is no JSON object, or the request cannot be read for another reason. Sending it again will not help."),
    kind(Code::Unauthenticated, "unauthenticated", StatusCode::UNAUTHORIZED, "No credential that is taken",
        "The server wants to know who calls: send an API key or a token as `Lockhouse-Key`, or as `Authorization: Bearer` where no owner's secret is \
         needed, or come with a client certificate that the server's settings name. A token that has expired must be replaced by a newer one; with the same credential, sending the request again will not help."),
    kind(Code::Unauthorized, "unauthorized", StatusCode::UNAUTHORIZED, "Not the owner's secret",
        "What an owner does needs its secret, as `Authorization: Bearer SECRET`. It was told once, when the owner began."),
    kind(Code::Forbidden, "forbidden", StatusCode::FORBIDDEN, "Not allowed",
        "With `permission`: the credential does not give it in this bucket; whoever gives out credentials has to. Without: the host or the origin is not \
         admitted. Only pages of this machine may connect, and of the origins that `serve --allow-origin` names, and without authentication only programs of \
         this machine."),
    kind(Code::NotFound, "not_found", StatusCode::NOT_FOUND, "Nothing is here",
        "There is no such path, or no such assignment. `/openapi.json` lists the paths."),
    kind(Code::UnknownOwner, "unknown_owner", StatusCode::NOT_FOUND, "No such owner",
        "The owner has ended, because it was told to, because nothing was heard of it for its TTL, or because its longest life was \
         over. All its locks are free. Begin with a new owner, and load anew what it is to edit."),
    kind(Code::MethodNotAllowed, "method_not_allowed", StatusCode::METHOD_NOT_ALLOWED, "Not with this method",
        "The `Allow` header names the methods that the path knows."),
    kind(Code::ConflictInFlight, "conflict_in_flight", StatusCode::CONFLICT, "The first request is still under way",
        "A request with the same `Idempotency-Key` has not been answered yet. Ask again in a moment; you will get its answer."),
    kind(Code::Claimed, "claimed", StatusCode::CONFLICT, "Claimed by somebody else",
        "`holders` tells who claims the resource, `expiresAt` until when, unless the claim is renewed."),
    kind(Code::Busy, "busy", StatusCode::CONFLICT, "Held or waited for in another way",
        "A web lock or an offline lock stands on the name, or somebody waits for it. `holders` tells who."),
    kind(Code::AlreadyAssigned, "already_assigned", StatusCode::CONFLICT, "Assigned for good",
        "A claim of the resource was made final. It can be claimed again once the assignment is deleted."),
    kind(Code::ClaimLost, "claim_lost", StatusCode::CONFLICT, "Somebody else has a newer claim",
        "The claim ended, and another one stands, which is not touched. Whatever was prepared must not be used."),
    kind(Code::ClaimExpired, "claim_expired", StatusCode::GONE, "No claim stands any more",
        "The claim's TTL is over, or it was released. Nobody else has the resource: claim it again, and check what was prepared."),
    kind(Code::TooLarge, "too_large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large",
        "A body has at most 256 KiB."),
    kind(Code::UnsupportedMediaType, "unsupported_media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "Not JSON",
        "A body is sent as `Content-Type: application/json`."),
    kind(Code::Invalid, "invalid", StatusCode::UNPROCESSABLE_ENTITY, "A member or parameter breaks a rule",
        "`field` tells which, `value` what it was, and `rule` what it must be."),
    kind(Code::IdempotencyMismatch, "idempotency_mismatch", StatusCode::UNPROCESSABLE_ENTITY, "The key belongs to another request",
        "The `Idempotency-Key` was used for a request with another query or body. Take a new key for each new request."),
    kind(Code::Locked, "locked", StatusCode::LOCKED, "Locked by somebody else",
        "None of the locks asked for was granted. `conflicts` names those that stand in the way, with their holders. Nothing waits: \
         tell the user who edits, and since when."),
    kind(Code::QuotaExceeded, "quota_exceeded", StatusCode::TOO_MANY_REQUESTS, "A bound of the server is reached",
        "There are as many owners, locks or claims as the server takes on. Some have to end first."),
    kind(Code::RateLimited, "rate_limited", StatusCode::TOO_MANY_REQUESTS, "Too much in too short a time",
        "All that uses the same tenant does more in a second than the operator has set. Nothing was carried out; try again after `Retry-After`."),
    kind(Code::RequestTimeout, "request_timeout", StatusCode::REQUEST_TIMEOUT, "The body did not come in time",
        "The body of a request has to follow its head within a time that the operator has set, 10 s unless told otherwise."),
    kind(Code::Overloaded, "overloaded", StatusCode::SERVICE_UNAVAILABLE, "Too many connections",
        "There are as many connections as the server takes on, in all, from one address or of one tenant. Try again after `Retry-After`, and close \
         what is not used."),
    kind(Code::Internal, "internal", StatusCode::INTERNAL_SERVER_ERROR, "The server failed",
        "This is a fault of the server. It says nothing about the lock table."),
    kind(Code::Recovering, "recovering", StatusCode::SERVICE_UNAVAILABLE, "Recovering from a restart",
        "Those who held web locks before the restart are bringing them back, so that no name gets two holders. Try again after \
         `Retry-After`. Releasing, renewing and finalizing work meanwhile."),
    kind(Code::Unavailable, "unavailable", StatusCode::SERVICE_UNAVAILABLE, "The store refuses",
        "What is to be durable cannot be kept now, such as on a full disk. Nothing is lost; try again after `Retry-After`."),
    kind(Code::Closing, "closing", StatusCode::SERVICE_UNAVAILABLE, "The server stops",
        "Nothing new is granted any more. Try again in a moment, with the server that comes after it."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_told_by_the_word_of_its_code() {
        for kind in KINDS {
            assert_eq!(serde_json::to_value(kind.code).unwrap(), kind.word);
            assert_eq!(kind.code.kind().word, kind.word, "one kind for each code");
        }
        let schema = serde_json::to_value(<Code as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!(schema["enum"].as_array().unwrap().len(), KINDS.len(), "a kind for every code");
    }

    #[test]
    fn nobody_is_told_to_come_before_it_is_time() {
        let pauses = [
            (0, 1, "1"),
            (1, 1, "1"),
            (1_000_000, 1, "1"),
            (1_000_001, 2, "1"),
            (1_000_000_000, 1_000, "1"),
            (1_000_000_001, 1_001, "2"),
            (u64::MAX, u64::MAX / 1_000_000 + 1, "18446744074"),
        ];
        for (ns, ms, seconds) in pauses {
            let problem = Problem::new(Code::Recovering, "").retry_after(Duration::from_nanos(ns));
            assert_eq!(problem.retry_after_ms, Some(ms), "{ns} ns");
            assert_eq!(problem.into_response().headers()[header::RETRY_AFTER], seconds, "{ns} ns");
        }
    }
}
