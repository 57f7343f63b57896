//! Reading the query string.

use std::borrow::Cow;

use axum::http::Uri;
use lockhouse::{Name, NameBuf};
use lockhouse_wire as wire;
use percent_encoding::percent_decode_str;

use super::constraints::{Choice, Number, RESOURCE, Text};
use super::decode::ApiResult;
use super::path::owner_number;
use crate::http::problem::{Code, Problem};

/// The parameters of a query string, decoded; unknown ones are ignored.
#[derive(Debug)]
pub(crate) struct Parameters<'a>(Vec<Pair<'a>>);

#[derive(Debug)]
struct Pair<'a> {
    key: Cow<'a, str>,
    /// As it stands there.
    raw: &'a str,
    value: Cow<'a, str>,
}

impl<'a> Parameters<'a> {
    pub(crate) fn parse(uri: &'a Uri) -> ApiResult<Self> {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let parse = |pair: &'a str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, raw) = (decode(key)?, value);
            // Of a resource the bytes count, too, which have lone surrogates perhaps.
            let value = decode(raw)
                .or_else(|problem| if key == "resource" { Ok("".into()) } else { Err(problem) })?;
            Ok(Pair { key, raw, value })
        };
        pairs.map(parse).collect::<ApiResult<_>>().map(Self)
    }

    pub(crate) fn text(&self, key: &str, rule: &Text) -> ApiResult<Option<&str>> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        if rule.admits(value) { Ok(Some(value)) } else { Err(wrong(key, value, rule.words())) }
    }

    pub(crate) fn number(&self, key: &str, rule: &Number) -> ApiResult<Option<u64>> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        rule.parse(value).map(Some).ok_or_else(|| wrong(key, value, rule.words()))
    }

    pub(crate) fn choice<T: Copy>(&self, key: &str, rule: &Choice<T>) -> ApiResult<Option<T>> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        rule.parse(value).map(Some).ok_or_else(|| wrong(key, value, rule.words()))
    }

    pub(crate) fn owner(&self, key: &str) -> ApiResult<Option<u64>> {
        self.get(key)?.map(|value| owner_number(key, value)).transpose()
    }

    pub(crate) fn resource(&self, key: &str) -> ApiResult<NameBuf> {
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

    fn get(&self, key: &str) -> ApiResult<Option<&str>> {
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
fn decode(text: &str) -> ApiResult<Cow<'_, str>> {
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
    use crate::http::request::constraints::{PAGE, PREFIX};

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
}
