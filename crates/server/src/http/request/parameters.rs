//! Reading the query string.

use std::borrow::Cow;

use axum::http::Uri;
use lockhouse::{Name, NameBuf};
use lockhouse_wire::decode::{Field, FieldValue, NoText, Violation, digits};
use lockhouse_wire::{has_whole_escapes, percent_decode};
use percent_encoding::percent_decode_str;

/// The parameters of a query string, decoded.
#[derive(Debug)]
pub(crate) struct Parameters<'a>(Vec<Pair<'a>>);

#[derive(Debug)]
struct Pair<'a> {
    key: Cow<'a, str>,
    /// As it stands there.
    raw: &'a str,
    value: Cow<'a, str>,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParameterValue<'a> {
    raw: &'a str,
    value: &'a str,
}

impl<'a> FieldValue<'a> for ParameterValue<'a> {
    fn shown(self) -> Cow<'a, str> {
        format!("{:?}", self.value).into()
    }

    fn text(self) -> Result<Cow<'a, str>, NoText> {
        Ok(self.value.into())
    }

    fn name(self) -> Option<NameBuf> {
        Name::from_wtf8(&decoded(self.raw)).map(Name::to_buf).ok()
    }

    fn number(self) -> Option<u64> {
        digits(self.value)
    }

    fn flag(self) -> Option<bool> {
        self.value.parse().ok()
    }
}

impl<'a> Parameters<'a> {
    pub(crate) fn parse(uri: &'a Uri) -> Result<Self, Violation> {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let parse = |pair: &'a str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, raw) = (decode("the query string", key)?, value);
            // For a resource the bytes count, too, which may have lone surrogates.
            let lossy = || String::from_utf8_lossy(&decoded(raw)).into_owned().into();
            let is_whole = has_whole_escapes(raw);
            let value = decode(&key, raw).or_else(|violation| {
                if matches!(&*key, "resource" | "name") && is_whole { Ok(lossy()) } else { Err(violation) }
            })?;
            Ok(Pair { key, raw, value })
        };
        pairs.map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Refuses parameters that a call does not know: one that is misspelt may be the guard of a deletion. The
    /// values, which may be secrets, are not looked at.
    pub(crate) fn check_known(uri: &Uri, known: &[&str]) -> Result<(), Violation> {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        for pair in pairs {
            let key = decode("the query string", pair.split('=').next().unwrap_or_default())?;
            if !known.contains(&&*key) {
                let rule = match known {
                    [] => "absent, as this call has none".to_owned(),
                    known => format!("one of {}", known.join(", ")),
                };
                return Err(Violation::new("parameter", &format!("{key:?}"), rule));
            }
        }
        Ok(())
    }

    /// The parameter of that name, which stands there at most once.
    pub(crate) fn field<'p>(&'p self, key: &'p str) -> Result<Field<'p, ParameterValue<'p>>, Violation> {
        let mut pairs = self.0.iter().filter(|pair| pair.key == key);
        let value = pairs.next().map(|Pair { raw, value, .. }| ParameterValue { raw, value });
        match pairs.next() {
            None => Ok(Field::new("", key, value)),
            Some(_) => Err(Violation::new(key, "there twice", "there at most once")),
        }
    }
}

/// The bytes, where `+` stands for a space.
fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

/// Percent-encoded UTF-8, in which `+` stands for a space.
fn decode<'t>(field: &str, text: &'t str) -> Result<Cow<'t, str>, Violation> {
    let spaced = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    match percent_decode(&spaced) {
        Some(decoded) => Ok(Cow::Owned(decoded.into_owned())),
        None => Err(Violation::new(field.to_owned(), text, "percent-encoded UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problem::Problem;
    use crate::http::request::constraints::{PAGE, PREFIX, RESOURCE};
    use crate::http::request::path::owner;

    const KNOWN: [&str; 5] = ["prefix", "limit", "cursor", "owner", "resource"];

    fn parameters(uri: &Uri) -> Parameters<'_> {
        Parameters::parse(uri).unwrap()
    }

    #[test]
    fn parameters_are_percent_encoded_utf8_and_stand_there_once() {
        let uri: Uri = "/?prefix=a%2Fb+%C3%A9&limit=7&&".parse().unwrap();
        let read = parameters(&uri);
        let text = |key| read.field(key).unwrap().text_if_any(&PREFIX).unwrap();
        assert_eq!(text("prefix").as_deref(), Some("a/b é"));
        assert_eq!(read.field("limit").unwrap().number_if_any(&PAGE).unwrap(), Some(7));
        assert_eq!(text("cursor"), None);

        let uri: Uri = "/?limit=1&limit=1&prefix=1&owner=01&resource=-x".parse().unwrap();
        let read = parameters(&uri);
        let detail = |violation: Violation| {
            serde_json::to_value(Box::<Problem>::from(violation)).unwrap()["detail"].clone()
        };
        assert_eq!(
            detail(read.field("limit").unwrap_err()),
            "limit is there twice, but must be there at most once"
        );
        assert!(owner(read.field("owner").unwrap()).is_err());
        assert!(
            detail(read.field("resource").unwrap().name(&RESOURCE).unwrap_err())
                .as_str()
                .unwrap()
                .starts_with("resource is \"-x\", but")
        );
        for (query, expected) in [
            ("prefix=%FF", "prefix is %FF, but must be percent-encoded UTF-8"),
            ("prefix=%zz", "prefix is %zz, but must be percent-encoded UTF-8"),
            ("resource=%4", "resource is %4, but must be percent-encoded UTF-8"),
            (
                "token=geheim%zz",
                "parameter is \"token\", but must be one of prefix, limit, cursor, owner, resource",
            ),
            ("Limit=1", "parameter is \"Limit\", but must be one of prefix, limit, cursor, owner, resource"),
        ] {
            let uri = format!("/?{query}").parse().unwrap();
            let read = Parameters::check_known(&uri, &KNOWN).and_then(|()| Parameters::parse(&uri).map(drop));
            assert_eq!(detail(read.unwrap_err()), expected);
        }
    }

    #[test]
    fn a_name_may_have_a_lone_surrogate() {
        for key in ["resource", "name"] {
            let uri: Uri = format!("/?{key}=a%ED%A0%80").parse().unwrap();
            let name = parameters(&uri).field(key).unwrap().name(&RESOURCE).unwrap();
            assert_eq!(name.as_name().as_wtf8(), b"a\xed\xa0\x80");
            let uri: Uri = format!("/?{key}=a%FF").parse().unwrap();
            assert!(parameters(&uri).field(key).unwrap().name(&RESOURCE).is_err());
        }
    }

    #[test]
    fn a_number_out_of_bounds_is_refused_with_the_rule() {
        for limit in ["0", "1001", "-1", "+1", "1.0", "x", "", "1e2"] {
            let uri: Uri = format!("/?limit={}", limit.replace('+', "%2B")).parse().unwrap();
            let read = parameters(&uri);
            let violation = read.field("limit").unwrap().number_if_any(&PAGE).unwrap_err();
            let problem = serde_json::to_value(Box::<Problem>::from(violation)).unwrap();
            assert_eq!(problem["rule"], "an integer from 1 to 1000", "{limit}");
        }
    }
}
