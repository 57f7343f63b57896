//! Reading what a request says, member by member, so that a problem can name the member, its value and the
//! rule.

use std::borrow::Cow;
use std::fmt;

use lockhouse::NameBuf;
use lockhouse_wire as wire;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::constraints::{Choice, Number, RESOURCE, Text};
use crate::bounds::BODY_MEMBERS;
use crate::http::problem::{Code, Problem};

pub(crate) type ApiResult<T> = Result<T, Box<Problem>>;

/// The members of a JSON object; `null` counts as absent, unknown members are ignored.
pub(crate) struct Members<'a> {
    /// Where the object stands in the body, such as `locks[1].`; empty for the body itself.
    path: String,
    all: JsonObject<'a>,
}

/// What a body of a request is made from.
pub(crate) trait FromMembers: Sized {
    fn read(members: &Members<'_>) -> ApiResult<Self>;
}

/// Reads the body of a request.
pub(crate) fn body<T: FromMembers>(bytes: &[u8]) -> ApiResult<T> {
    let bad = |why: &dyn fmt::Display| {
        Problem::new(Code::BadRequest, format!("the body must be a JSON object, but {why}"))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| bad(&error))?;
    if text.trim_ascii_start().starts_with('{') {
        let all = serde_json::from_str(text).map_err(|error| bad(&error))?;
        return T::read(&Members { path: String::new(), all });
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => Err(Problem::rule(Code::Invalid, "body", text.trim_ascii(), "a JSON object")),
        Err(error) => Err(bad(&error)),
    }
}

impl<'a> Members<'a> {
    pub(crate) fn text(&self, key: &str, rule: &Text) -> ApiResult<String> {
        self.need(
            key,
            || rule.words(),
            |raw| string(raw).filter(|text| rule.admits(text)).map(Cow::into_owned),
        )
    }

    pub(crate) fn text_if_any(&self, key: &str, rule: &Text) -> ApiResult<Option<String>> {
        self.get(key).map(|_| self.text(key, rule)).transpose()
    }

    /// As [`text`](Self::text), but never repeated in a problem.
    pub(crate) fn secret(&self, key: &str, rule: &Text) -> ApiResult<String> {
        self.text(key, rule).map_err(|_| Problem::field(Code::Invalid, self.named(key), rule.words()))
    }

    pub(crate) fn secret_if_any(&self, key: &str, rule: &Text) -> ApiResult<Option<String>> {
        self.get(key).map(|_| self.secret(key, rule)).transpose()
    }

    pub(crate) fn number(&self, key: &str, rule: &Number) -> ApiResult<u64> {
        self.need(key, || rule.words(), |raw| rule.parse_json(raw.get()))
    }

    pub(crate) fn number_if_any(&self, key: &str, rule: &Number) -> ApiResult<Option<u64>> {
        self.get(key).map(|_| self.number(key, rule)).transpose()
    }

    pub(crate) fn choice<T: Copy>(&self, key: &str, rule: &Choice<T>) -> ApiResult<T> {
        self.need(key, || rule.words(), |raw| rule.parse(&string(raw)?))
    }

    pub(crate) fn flag_if_any(&self, key: &str) -> ApiResult<Option<bool>> {
        let read = |raw: &RawValue| raw.get().parse().ok();
        self.get(key).map(|_| self.need(key, || "true or false".to_owned(), read)).transpose()
    }

    /// A resource name; it may have lone surrogates.
    pub(crate) fn resource(&self, key: &str) -> ApiResult<NameBuf> {
        self.need(
            key,
            || RESOURCE.words(),
            |raw| {
                let name = wire::name_from_json(raw.get()).ok()?;
                (name.as_name().unit_count() <= RESOURCE.most).then_some(name)
            },
        )
    }

    pub(crate) fn resource_if_any(&self, key: &str) -> ApiResult<Option<NameBuf>> {
        self.get(key).map(|_| self.resource(key)).transpose()
    }

    /// Members that make no sense beside others.
    pub(crate) fn must_not_have(&self, keys: &[&str], rule: &str) -> ApiResult<()> {
        match keys.iter().find(|key| self.get(key).is_some()) {
            Some(key) => Err(Problem::rule(Code::Invalid, self.named(key), "there", rule)),
            None => Ok(()),
        }
    }

    /// A list of objects with at least one and at most `most` of them.
    pub(crate) fn list<T: FromMembers>(&self, key: &str, most: usize) -> ApiResult<Vec<T>> {
        let rule = || format!("a list of 1 to {most} objects");
        let items: Vec<&'a RawValue> = self.need(key, rule, |raw| {
            serde_json::from_str(raw.get()).ok().filter(|items: &Vec<_>| (1..=most).contains(&items.len()))
        })?;
        let read = |(at, raw): (usize, &&'a RawValue)| {
            let path = format!("{}[{at}]", self.named(key));
            let all = serde_json::from_str(raw.get())
                .map_err(|_| Problem::rule(Code::Invalid, &path, raw.get(), "an object"))?;
            T::read(&Members { path: path + ".", all })
        };
        items.iter().enumerate().map(read).collect()
    }

    pub(crate) fn list_if_any<T: FromMembers>(&self, key: &str, most: usize) -> ApiResult<Option<Vec<T>>> {
        self.get(key).map(|_| self.list(key, most)).transpose()
    }

    /// Where the member stands.
    pub(crate) fn named(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }

    fn get(&self, key: &str) -> Option<&'a RawValue> {
        let member = self.all.0.iter().find(|(known, _)| known == key);
        member.map(|(_, raw)| *raw).filter(|raw| raw.get() != "null")
    }

    /// `rule` in words, for a problem.
    fn need<T>(
        &self,
        key: &str,
        rule: impl FnOnce() -> String,
        read: impl FnOnce(&'a RawValue) -> Option<T>,
    ) -> ApiResult<T> {
        let Some(raw) = self.get(key) else {
            return Err(Problem::rule(Code::Invalid, self.named(key), "absent", rule()));
        };
        read(raw).ok_or_else(|| Problem::rule(Code::Invalid, self.named(key), raw.get(), rule()))
    }
}

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// The members in the order in which they came. Few enough that a search is no slower than a map.
struct JsonObject<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for JsonObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = JsonObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject<'de>, A::Error> {
        use serde::de::Error;
        let mut all: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
        while let Some(key) = map.next_key::<MemberKey<'de>>()? {
            let value = map.next_value()?;
            if all.iter().any(|(known, _)| *known == key.0) {
                return Err(A::Error::custom(format_args!("{:?} stands there twice", wire::shorten(&key.0))));
            }
            if all.len() == BODY_MEMBERS {
                return Err(A::Error::custom(format_args!("it has more than {BODY_MEMBERS} members")));
            }
            all.push((key.0, value));
        }
        Ok(JsonObject(all))
    }
}

/// A key; borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct MemberKey<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::constraints::{CLAIM_TTL_MS, LABEL};

    #[derive(Debug, PartialEq)]
    struct Sample {
        label: String,
        ttl_ms: Option<u64>,
        resource: Option<NameBuf>,
        parts: Option<Vec<Part>>,
        flag: Option<bool>,
    }

    #[derive(Debug, PartialEq)]
    struct Part(u64);

    impl FromMembers for Sample {
        fn read(members: &Members<'_>) -> ApiResult<Self> {
            Ok(Self {
                label: members.text("label", &LABEL)?,
                ttl_ms: members.number_if_any("ttlMs", &CLAIM_TTL_MS)?,
                resource: members.get("resource").map(|_| members.resource("resource")).transpose()?,
                parts: members.list_if_any("parts", 2)?,
                flag: members.flag_if_any("flag")?,
            })
        }
    }

    impl FromMembers for Part {
        fn read(members: &Members<'_>) -> ApiResult<Self> {
            members.number("n", &CLAIM_TTL_MS).map(Part)
        }
    }

    fn problem(text: &str) -> serde_json::Value {
        serde_json::to_value(body::<Sample>(text.as_bytes()).unwrap_err()).unwrap()
    }

    #[test]
    fn null_counts_as_absent_and_unknown_members_are_ignored() {
        let sample: Sample =
            body(r#" {"label":"a\u00e9","ttlMs":null,"later":{"x":[1]},"flag":false}"#.as_bytes()).unwrap();
        let expected =
            Sample { label: "aé".into(), ttl_ms: None, resource: None, parts: None, flag: Some(false) };
        assert_eq!(sample, expected);
    }

    #[test]
    fn an_integer_is_one_however_it_is_written() {
        for (text, expected) in
            [("5", 5), ("5.0", 5), ("5e3", 5000), ("50E-1", 5), ("2592000000.000", 2_592_000_000)]
        {
            let sample: Sample = body(format!(r#"{{"label":"a","ttlMs":{text}}}"#).as_bytes()).unwrap();
            assert_eq!(sample.ttl_ms, Some(expected), "{text}");
        }
        for text in ["2592000001", "2592000000.5", "1e300", "-1.0", "-0.0", "0.5"] {
            assert!(
                body::<Sample>(format!(r#"{{"label":"a","ttlMs":{text}}}"#).as_bytes()).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_resource_keeps_its_lone_surrogates() {
        let sample: Sample = body(br#"{"label":"a","resource":"\ud800x"}"#).unwrap();
        assert_eq!(sample.resource, Some(NameBuf::from_units(&[0xD800, 0x78]).unwrap()));
    }

    #[test]
    fn a_broken_rule_is_told_with_member_value_and_rule() {
        let told = |text: &str| {
            let problem = problem(text);
            assert_eq!((&problem["code"], &problem["status"]), (&"invalid".into(), &422.into()), "{problem}");
            ["field", "value", "rule"].map(|key| problem[key].as_str().unwrap_or("-").to_owned())
        };
        let label = "a string of 1 to 256 bytes of UTF-8";
        let ttl = "an integer from 1 to 2592000000";
        assert_eq!(told("{}"), ["label", "absent", label]);
        assert_eq!(told(r#"{"label":""}"#), ["label", "\"\"", label]);
        assert_eq!(told(r#"{"label":"\ud800"}"#), ["label", r#""\ud800""#, label]);
        assert_eq!(told(r#"{"label":{"a":1}}"#), ["label", r#"{"a":1}"#, label]);
        assert_eq!(told(r#"{"label":"a","ttlMs":0}"#), ["ttlMs", "0", ttl]);
        assert_eq!(told(r#"{"label":"a","ttlMs":1.5}"#), ["ttlMs", "1.5", ttl]);
        assert_eq!(told(r#"{"label":"a","ttlMs":"1"}"#), ["ttlMs", "\"1\"", ttl]);
        assert_eq!(told(r#"{"label":"a","flag":1}"#), ["flag", "1", "true or false"]);
        assert_eq!(told(r#"{"label":"a","parts":[]}"#), ["parts", "[]", "a list of 1 to 2 objects"]);
        assert_eq!(told(r#"{"label":"a","parts":[{"n":1},5]}"#), ["parts[1]", "5", "an object"]);
        assert_eq!(told(r#"{"label":"a","parts":[{"n":1},{"n":-1}]}"#), ["parts[1].n", "-1", ttl]);
        assert_eq!(told("[]"), ["body", "[]", "a JSON object"]);
        let long = told(&format!(r#"{{"label":"{}"}}"#, "x".repeat(300)));
        assert_eq!(long[1].chars().count(), 64);
    }

    #[test]
    fn what_is_no_json_is_a_bad_request() {
        for text in ["", "{", "{\"label\":\"a\"} x", "{\"a\":1,\"a\":2}", "nonsense", "{\"\\ud800\":1}"] {
            assert_eq!(problem(text)["code"], "bad_request", "{text}");
        }
        assert_eq!(body::<Sample>(b"{\"label\":\"\xFF\"}").unwrap_err().code, Code::BadRequest);
    }
}
