//! Reading the headers of a request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};

use super::constraints::IDEMPOTENCY_KEY;
use super::decode::ApiResult;
use crate::http::problem::{Code, Problem};
use crate::state::AppState;

/// The header that names a request that may be sent again.
pub(crate) const IDEMPOTENCY_KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The value of the header; `None` if there is none.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> ApiResult<Option<&str>> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| IDEMPOTENCY_KEY.admits(text) && values.next().is_none());
    match text {
        Some(text) => Ok(Some(text)),
        None => Err(Problem::field(Code::Invalid, "Idempotency-Key", IDEMPOTENCY_KEY.words())),
    }
}

/// The value of the header, for a handler.
pub(crate) struct GivenKey(pub(crate) Option<String>);

impl FromRequestParts<Arc<AppState>> for GivenKey {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> ApiResult<Self> {
        idempotency_key(&parts.headers).map(|key| Self(key.map(str::to_owned)))
    }
}

/// The text behind `Bearer` in the one `Authorization` header.
pub(crate) fn bearer(headers: &HeaderMap, is_usable: impl Fn(&str) -> bool) -> Option<String> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (scheme, secret) = values.next()?.to_str().ok()?.split_once(' ')?;
    let secret = secret.trim();
    let is_one = scheme.eq_ignore_ascii_case("bearer") && is_usable(secret) && values.next().is_none();
    is_one.then(|| secret.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::constraints::SECRET;

    #[test]
    fn only_one_bearer_secret_is_read() {
        let headers = |values: &[&str]| -> HeaderMap {
            values.iter().map(|value| (header::AUTHORIZATION, value.parse().unwrap())).collect()
        };
        let bearer = |headers: &HeaderMap| bearer(headers, |secret| SECRET.admits(secret));
        assert_eq!(bearer(&headers(&["Bearer abc"])).as_deref(), Some("abc"));
        assert_eq!(bearer(&headers(&["bearer  abc"])).as_deref(), Some("abc"));
        for wrong in [&["Basic abc"][..], &["Bearer"], &["Bearer "], &["abc"], &["Bearer a", "Bearer a"], &[]]
        {
            assert_eq!(bearer(&headers(wrong)), None, "{wrong:?}");
        }
    }
}
