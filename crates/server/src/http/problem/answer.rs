//! A problem, as it is sent: every answer that is no success, as RFC 9457 wants it.
//!
//! <https://www.rfc-editor.org/rfc/rfc9457>

use std::borrow::Cow;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use lockhouse::Quota;
use lockhouse_wire::decode::Violation;
use serde::Serialize;
use utoipa::ToSchema;

use super::code::{Code, CodeInfo};
use crate::auth::Unauthenticated;
use crate::http::dto::{Assignment, At, Conflict, Holder, LostLock};
use crate::limits::announced_ms;
use crate::settings::Permission;

/// The media type of a problem.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// A problem, as it is sent. Members that say nothing are left out.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(description = "What went wrong (RFC 9457). A member that does not apply is absent.")]
pub(crate) struct Problem {
    /// Where the code is explained, relative to the URL of the request.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference", example = "../../../../problems/locked")]
    kind: String,
    /// The same in a few words, equal for all problems of the code.
    #[schema(example = "Locked by somebody else")]
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599, example = 423)]
    status: u16,
    /// What is wrong this time, as a sentence.
    pub(crate) detail: Cow<'static, str>,
    /// What kind of problem, for programs.
    pub(crate) code: Code,
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
    /// The locks that the owner was to hold and does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_items = 1000)]
    lost: Option<Vec<LostLock>>,
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
    /// After how long a request with an `Idempotency-Key` may be sent again; all others may not.
    #[serde(skip)]
    with_key: Option<Duration>,
}

/// The problem of a response that has no body yet, as an extension of the response.
#[derive(Clone)]
struct Unwritten(Box<Problem>);

/// The same problem, for a request that has an `Idempotency-Key`: if that makes it harmless to send the
/// request again, the problem says when.
pub(crate) fn advise_with_key(response: Response) -> Response {
    let unwritten = response.extensions().get::<Unwritten>();
    match unwritten.and_then(|Unwritten(problem)| Some((problem.clone(), problem.with_key?))) {
        Some((problem, pause)) => problem.retry_after(pause).into_response(),
        None => response,
    }
}

/// Whether the response says that nothing has happened, as the store or the server does nothing at the
/// moment: it says so of nothing that another server may have.
pub(crate) fn is_refusal_of_all(response: &Response) -> bool {
    let unwritten = response.extensions().get::<Unwritten>();
    unwritten.is_some_and(|Unwritten(problem)| matches!(problem.code, Code::Unavailable | Code::Closing))
}

/// Writes the body of a problem that answers a request for this path. The `type` is relative to it, so that
/// the reference leads to the explanation also behind a proxy that adds a prefix to all paths.
pub(crate) fn write_problem(mut response: Response, path: &str) -> Response {
    let Some(Unwritten(mut problem)) = response.extensions_mut().remove() else {
        return response;
    };
    let word = problem.code.kind().word;
    problem.kind = match path.bytes().filter(|byte| *byte == b'/').count() {
        // No route is as deep; a reference to the root of so many levels would make answers long.
        levels if levels > MAX_LEVELS => format!("/problems/{word}"),
        levels => "../".repeat(levels.saturating_sub(1)) + "problems/" + word,
    };
    let body = serde_json::to_vec(&problem).expect("a problem has nothing that JSON cannot hold");
    // axum notes the length of the empty body.
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response.map(|_| body.into())
}

/// The deepest path from which a problem refers upwards.
const MAX_LEVELS: usize = 16;

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Box<Self> {
        let CodeInfo { status, title, .. } = code.kind();
        Box::new(Self {
            kind: String::new(),
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
            lost: None,
            assignment: None,
            expires_at: None,
            retry_after_ms: None,
            with_key: None,
        })
    }

    /// A value that breaks a rule; reported as "`field` is `value`, but must be `rule`".
    pub(crate) fn rule(
        code: Code,
        field: impl Into<String>,
        value: &str,
        rule: impl Into<Cow<'static, str>>,
    ) -> Box<Self> {
        Self::violation(code, Violation::new(field, value, rule))
    }

    /// As [`rule`](Self::rule), for a value that is absent, or must not be repeated.
    pub(crate) fn field(
        code: Code,
        field: impl Into<String>,
        rule: impl Into<Cow<'static, str>>,
    ) -> Box<Self> {
        Self::violation(code, Violation::withheld(field, rule))
    }

    fn violation(code: Code, violation: Violation) -> Box<Self> {
        let mut problem = Self::new(code, violation.to_string());
        let Violation { field, value, rule } = violation;
        (problem.field, problem.value, problem.rule) = (Some(field), value, Some(rule));
        problem
    }

    /// A name in a path that is no UTF-8.
    pub(crate) fn bad_path(field: &str) -> Box<Self> {
        Self::field(Code::BadRequest, field, "percent-encoded UTF-8")
    }

    /// The owner's secret is absent or wrong.
    pub(crate) fn unauthorized() -> Box<Self> {
        Self::field(Code::Unauthorized, "Authorization", "\"Bearer \" and the secret of the owner")
    }

    /// The credential is not taken.
    pub(crate) fn unauthenticated(why: &Unauthenticated) -> Box<Self> {
        let rule = "an API key, or a token of an issuer that the server knows";
        let mut problem = Self::field(Code::Unauthenticated, "Lockhouse-Key", rule);
        problem.detail = format!("Lockhouse-Key must be {rule}: {why}").into();
        problem
    }

    /// The tenant does more than `tenant_rate`.
    pub(crate) fn too_fast(rate: u32, wait: Duration) -> Box<Self> {
        let why = format!("the tenant makes more than {rate} calls and frames in a second");
        Self::new(Code::RateLimited, why).retry_after(wait)
    }

    /// The credential is taken, but has not the permission there.
    pub(crate) fn forbidden(permission: Permission, place: &str) -> Box<Self> {
        let word = permission.word();
        let mut problem =
            Self::new(Code::Forbidden, format!("the credential has no permission \"{word}\" in {place}"));
        problem.permission = Some(word);
        problem
    }

    pub(crate) fn holders(mut self: Box<Self>, holders: Vec<Holder>, queued: u32) -> Box<Self> {
        (self.holders, self.queued) = (Some(holders), Some(queued));
        self
    }

    pub(crate) fn conflicts(mut self: Box<Self>, conflicts: Vec<Conflict>) -> Box<Self> {
        self.conflicts = Some(conflicts);
        self
    }

    pub(crate) fn lost(mut self: Box<Self>, lost: Vec<LostLock>) -> Box<Self> {
        self.lost = Some(lost);
        self
    }

    /// As [`rule`](Self::rule), of a bound, reported as the library does.
    pub(crate) fn bound(code: Code, quota: &Quota) -> Box<Self> {
        let rule = quota.rule.clone();
        let mut problem = Self::violation(code, Violation::new(quota.field.clone(), &quota.value, rule));
        problem.detail = quota.to_string().into();
        problem
    }

    pub(crate) fn assignment(mut self: Box<Self>, assignment: Assignment) -> Box<Self> {
        self.assignment = Some(assignment);
        self
    }

    pub(crate) fn expires_at(mut self: Box<Self>, at: Option<At>) -> Box<Self> {
        self.expires_at = at;
        self
    }

    pub(crate) fn retry_after(mut self: Box<Self>, pause: Duration) -> Box<Self> {
        self.retry_after_ms = Some(announced_ms(pause));
        self
    }

    /// As [`retry_after`](Self::retry_after), for requests that have an `Idempotency-Key` alone.
    pub(crate) fn retry_with_key(mut self: Box<Self>, pause: Duration) -> Box<Self> {
        self.with_key = Some(pause);
        self
    }

    /// Whatever the request has, to send it again may do something else.
    pub(crate) fn never_again(mut self: Box<Self>) -> Box<Self> {
        self.with_key = None;
        self
    }
}

impl From<Violation> for Box<Problem> {
    fn from(violation: Violation) -> Self {
        Problem::violation(Code::Invalid, violation)
    }
}

/// Without the body, which `write_problem` writes where the path of the request is known.
impl IntoResponse for Box<Problem> {
    fn into_response(self) -> Response {
        let status = self.code.status();
        // The caller's value is not repeated: it may be a secret in the wrong place.
        let detail = status.is_server_error().then_some(&*self.detail);
        tracing::debug!(%status, title = self.title, field = self.field, detail, "a request is answered with a problem");
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)]).into_response();
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
        response.extensions_mut().insert(Unwritten(self));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::KINDS;
    use super::*;

    #[test]
    fn every_kind_is_named_by_the_word_of_its_code() {
        for kind in KINDS {
            assert_eq!(serde_json::to_value(kind.code).unwrap(), kind.word);
            assert_eq!(kind.code.kind().word, kind.word, "one kind for each code");
        }
        let schema = serde_json::to_value(<Code as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!(schema["enum"].as_array().unwrap().len(), KINDS.len(), "a kind for every code");
    }

    #[test]
    fn an_unknown_outcome_may_be_asked_again_with_a_key_alone_and_not_where_that_may_do_something_else() {
        use axum::http::StatusCode;
        use lockhouse::StoreError;

        let unknown = || Box::<Problem>::from(StoreError::OutcomeUnknown { why: "fenced".to_owned() });
        let retry = |response: &Response| response.headers().get(header::RETRY_AFTER).cloned();
        let without = unknown().into_response();
        assert_eq!((without.status(), retry(&without)), (StatusCode::GATEWAY_TIMEOUT, None));
        let with = advise_with_key(without);
        assert_eq!(with.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(retry(&with).unwrap(), "1");
        assert_eq!(retry(&advise_with_key(unknown().never_again().into_response())), None);
        let refused = Box::<Problem>::from(StoreError::Fenced).into_response();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "nothing has happened");
    }

    #[tokio::test]
    async fn the_type_leads_from_every_path_to_the_explanation_behind_a_prefix_too() {
        let deep = format!("/v1/{}", "x/".repeat(40));
        for (path, expected) in [
            ("/v1/buckets/default/claims", "../../../problems/busy"),
            ("/v1/buckets/default/owners/7/locks", "../../../../../problems/busy"),
            ("/openapi.json", "problems/busy"),
            ("*", "problems/busy"),
            (&*deep, "/problems/busy"),
        ] {
            let response = write_problem(Problem::new(Code::Busy, "").into_response(), path);
            let body = axum::body::to_bytes(response.into_body(), 1024).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["type"], expected, "{path}");
        }
    }

    #[test]
    fn no_client_is_asked_to_retry_too_early() {
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
