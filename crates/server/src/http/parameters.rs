//! Reading the parts of a request that are no body: the bucket in the path, the query string, the secret.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Uri, header};
use lockhouse::{BucketKey, Name, NameBuf};
use lockhouse_wire as wire;
use percent_encoding::percent_decode_str;

use super::access::Caller;
use super::idempotency;
use super::problem::{Code, Problem};
use super::read::Read;
use super::rules::{Choice, Number, OWNER, RESOURCE, SECRET, Text};
use crate::audit::Deed;
use crate::limits::{Network, Seat};
use crate::state::AppState;

/// The bucket of the path.
#[derive(Clone, Debug)]
pub(super) struct InBucket(pub(super) Arc<BucketKey>);

/// The owner of the path, in its bucket.
#[derive(Clone, Debug)]
pub(super) struct OfOwner {
    pub(super) bucket: Arc<BucketKey>,
    pub(super) owner: u64,
}

impl FromRequestParts<Arc<AppState>> for InBucket {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> Read<Self> {
        let caller = Caller::of(parts)?;
        idempotency::key(&parts.headers)?;
        let none = || Problem::new(Code::Internal, "the path names no bucket");
        caller.bucket.clone().map(Self).ok_or_else(none)
    }
}

impl FromRequestParts<Arc<AppState>> for OfOwner {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> Read<Self> {
        let InBucket(bucket) = InBucket::from_request_parts(parts, state).await?;
        let owner = Caller::of(parts)?.owner.as_deref().ok_or_else(|| bad_path("owner"))?;
        Ok(Self { bucket, owner: owner_number("owner", owner)? })
    }
}

/// What a path names is no UTF-8.
pub(super) fn bad_path(field: &str) -> Box<Problem> {
    Problem::field(Code::BadRequest, field, "percent-encoded UTF-8")
}

/// Reads the id of an owner.
pub(super) fn owner_number(field: &str, text: &str) -> Read<u64> {
    let number = text.parse().ok().filter(|_| OWNER.admits(text));
    number.ok_or_else(|| Problem::rule(Code::Invalid, field, &format!("{text:?}"), OWNER.words()))
}

/// Who shows a secret or a token, and for what: what is noted if it is wrong.
pub(super) struct Asker {
    pub(super) caller: Caller,
    pub(super) from: Option<Network>,
    method: Method,
}

impl Asker {
    /// Notes that what he shows is wrong.
    pub(super) fn deny(&self, state: &AppState, name: &dyn Display, why: &dyn Display) {
        let deed = Deed {
            who: Some(&self.caller.identity),
            what: &format!("{} {}", self.method, self.caller.route.path),
            bucket: self.caller.bucket.as_ref().map_or("*", |key| &key.bucket),
            name: Some(name),
        };
        state.audit.deny(self.from, &deed, why);
    }
}

impl FromRequestParts<Arc<AppState>> for Asker {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> Read<Self> {
        let caller = Caller::of(parts)?.clone();
        let from = parts.extensions.get::<Seat>().map(|seat| seat.from);
        Ok(Self { caller, from, method: parts.method.clone() })
    }
}

/// A secret that is not compared yet, and who shows it.
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) asker: Asker,
}

/// The secret of an owner, as `Authorization: Bearer …`.
pub(super) struct Bearer(pub(super) Shown);

impl FromRequestParts<Arc<AppState>> for Bearer {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> Read<Self> {
        let asker = Asker::from_request_parts(parts, state).await?;
        let Some(text) = bearer(&parts.headers, |secret| SECRET.admits(secret)) else {
            asker.deny(state, &"", &"no secret");
            return Err(unauthorized());
        };
        Ok(Self(Shown { text, asker }))
    }
}

/// What stands behind `Bearer` in the one `Authorization` header.
pub(super) fn bearer(headers: &HeaderMap, is_usable: impl Fn(&str) -> bool) -> Option<String> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (scheme, secret) = values.next()?.to_str().ok()?.split_once(' ')?;
    let secret = secret.trim();
    let is_one = scheme.eq_ignore_ascii_case("bearer") && is_usable(secret) && values.next().is_none();
    is_one.then(|| secret.to_owned())
}

/// The owner's secret is absent or wrong.
pub(super) fn unauthorized() -> Box<Problem> {
    Problem::field(Code::Unauthorized, "Authorization", "\"Bearer \" and the secret of the owner")
}

/// The parameters of a query string, decoded; unknown ones are ignored.
#[derive(Debug)]
pub(super) struct Parameters<'a>(Vec<Parameter<'a>>);

#[derive(Debug)]
struct Parameter<'a> {
    key: Cow<'a, str>,
    /// As it stands there.
    raw: &'a str,
    value: Cow<'a, str>,
}

impl<'a> Parameters<'a> {
    pub(super) fn parse(uri: &'a Uri) -> Read<Self> {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let parse = |pair: &'a str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, raw) = (decode(key)?, value);
            // Of a resource the bytes count, too, which have lone surrogates perhaps.
            let value = decode(raw)
                .or_else(|problem| if key == "resource" { Ok("".into()) } else { Err(problem) })?;
            Ok(Parameter { key, raw, value })
        };
        pairs.map(parse).collect::<Read<_>>().map(Self)
    }

    pub(super) fn text(&self, key: &str, rule: &Text) -> Read<Option<&str>> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        if rule.admits(value) { Ok(Some(value)) } else { Err(wrong(key, value, rule.words())) }
    }

    pub(super) fn number(&self, key: &str, rule: &Number) -> Read<Option<u64>> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        rule.parse(value).map(Some).ok_or_else(|| wrong(key, value, rule.words()))
    }

    pub(super) fn choice<T: Copy>(&self, key: &str, rule: &Choice<T>) -> Read<Option<T>> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        rule.parse(value).map(Some).ok_or_else(|| wrong(key, value, rule.words()))
    }

    pub(super) fn owner(&self, key: &str) -> Read<Option<u64>> {
        self.get(key)?.map(|value| owner_number(key, value)).transpose()
    }

    pub(super) fn resource(&self, key: &str) -> Read<NameBuf> {
        if self.get(key)?.is_none() {
            return Err(Problem::rule(Code::Invalid, key, "absent", RESOURCE.words()));
        }
        let raw = self.0.iter().find(|parameter| parameter.key == key).map_or("", |parameter| parameter.raw);
        let name = Name::from_wtf8(&decoded(raw)).map(Name::to_buf).ok();
        let name = name.filter(|name| name.as_name().unit_count() <= RESOURCE.most);
        name.ok_or_else(|| {
            let text = String::from_utf8_lossy(&decoded(raw)).into_owned();
            wrong(key, &text, RESOURCE.words())
        })
    }

    fn get(&self, key: &str) -> Read<Option<&str>> {
        let mut values = self.0.iter().filter(|it| it.key == key).map(|it| &*it.value);
        let value = values.next();
        match values.next() {
            None => Ok(value),
            Some(_) => Err(Problem::rule(Code::Invalid, key, "there twice", "there at most once")),
        }
    }
}

fn wrong(key: &str, value: &str, rule: String) -> Box<Problem> {
    Problem::rule(Code::Invalid, key, &format!("{value:?}"), rule)
}

/// The bytes, where `+` stands for a space.
fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

/// Percent-encoded UTF-8, in which `+` stands for a space.
fn decode(text: &str) -> Read<Cow<'_, str>> {
    let spaced = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    match percent_decode_str(&spaced).decode_utf8() {
        Ok(decoded) => Ok(Cow::Owned(decoded.into_owned())),
        Err(_) => {
            let rule = "percent-encoded UTF-8";
            Err(Problem::rule(Code::Invalid, "the query string", &wire::shorten(text), rule))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::rules::{PAGE, PREFIX};

    fn parameters(uri: &Uri) -> Parameters<'_> {
        Parameters::parse(uri).unwrap()
    }

    #[test]
    fn parameters_are_percent_encoded_utf8_and_stand_there_once() {
        let uri: Uri = "/?prefix=a%2Fb+%C3%A9&limit=7&unknown=1&&x".parse().unwrap();
        let read = parameters(&uri);
        assert_eq!(read.text("prefix", &PREFIX).unwrap(), Some("a/b é"));
        assert_eq!(read.number("limit", &PAGE).unwrap(), Some(7));
        assert_eq!(read.text("cursor", &PREFIX).unwrap(), None);

        let uri: Uri = "/?limit=1&limit=1&prefix=1&owner=01&resource=-x".parse().unwrap();
        let read = parameters(&uri);
        let told = |problem: Box<Problem>| serde_json::to_value(problem).unwrap()["detail"].clone();
        assert_eq!(
            told(read.number("limit", &PAGE).unwrap_err()),
            "limit is there twice, but must be there at most once"
        );
        assert!(read.owner("owner").is_err());
        assert!(
            told(read.resource("resource").unwrap_err())
                .as_str()
                .unwrap()
                .starts_with("resource is \"-x\", but")
        );
        assert!(Parameters::parse(&"/?prefix=%FF".parse().unwrap()).is_err());
    }

    #[test]
    fn a_number_out_of_bounds_is_refused_with_the_rule() {
        for limit in ["0", "1001", "-1", "+1", "1.0", "x", "", "1e2"] {
            let uri: Uri = format!("/?limit={}", limit.replace('+', "%2B")).parse().unwrap();
            let problem = serde_json::to_value(parameters(&uri).number("limit", &PAGE).unwrap_err()).unwrap();
            assert_eq!(problem["rule"], "an integer from 1 to 1000", "{limit}");
        }
    }

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
