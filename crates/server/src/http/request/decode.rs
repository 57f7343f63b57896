//! Decoding a request, member by member, so that a problem can name the member, its value and the rule.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use lockhouse::NameBuf;
use lockhouse_wire::decode::{
    Field, FieldValue, NoText, Violation, digits, item_path, member_path, name_in_json, shorten, text_in_json,
};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::bounds::BODY_MEMBERS;
use crate::http::problem::{Code, Problem};

pub(crate) type ApiResult<T> = Result<T, Box<Problem>>;

/// The members of a JSON object; `null` counts as absent. What nothing looks at is no member of the request,
/// and refused.
pub(crate) struct Members<'a> {
    /// Where the object stands in the body, such as `locks[1]`; empty for the body itself.
    path: String,
    all: JsonObject<'a>,
}

/// A type that is made from the body of a request.
pub(crate) trait FromMembers: Sized {
    /// Looks at every member that the request knows.
    fn read(members: &Members<'_>) -> Result<Self, Violation>;

    /// Reads an object in which nothing else stands: a default in place of a misspelt member would be a
    /// surprise.
    fn read_all(members: &Members<'_>) -> Result<Self, Violation> {
        let read = Self::read(members)?;
        members.check_known()?;
        Ok(read)
    }
}

/// Reads the body of a request.
pub(crate) fn body<T: FromMembers>(bytes: &[u8]) -> ApiResult<T> {
    let bad = |why: &dyn fmt::Display| {
        Problem::new(Code::BadRequest, format!("the body must be a JSON object, but {why}"))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| bad(&error))?;
    if text.trim_ascii_start().starts_with('{') {
        let all = serde_json::from_str(text).map_err(|error| bad(&error))?;
        return Ok(T::read_all(&Members { path: String::new(), all })?);
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => Err(Violation::new("body", text.trim_ascii(), "a JSON object").into()),
        Err(error) => Err(bad(&error)),
    }
}

/// A value in a body.
#[derive(Clone, Copy)]
pub(crate) struct MemberValue<'a>(&'a RawValue);

impl<'a> FieldValue<'a> for MemberValue<'a> {
    fn shown(self) -> Cow<'a, str> {
        self.0.get().into()
    }

    fn text(self) -> Result<Cow<'a, str>, NoText> {
        text_in_json(self.0).ok_or(NoText { rule: None })
    }

    fn name(self) -> Option<NameBuf> {
        name_in_json(self.0)
    }

    /// `1.0` and `1e3` are integers of JSON, too.
    fn number(self) -> Option<u64> {
        digits(self.0.get()).or_else(|| whole_number(self.0.get()))
    }

    fn flag(self) -> Option<bool> {
        self.0.get().parse().ok()
    }
}

/// The integer that a number of JSON is, exactly.
fn whole_number(text: &str) -> Option<u64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let point = exponent.parse::<i64>().ok()?.checked_add(whole.len() as i64)?;
    let digits = [whole, fraction].concat();
    let (before, behind) = match usize::try_from(point) {
        // No number that is meant has more digits.
        Ok(point) if point > 400 => return None,
        Ok(point) => digits.split_at(point.min(digits.len())),
        Err(_) => ("", &*digits),
    };
    if behind.bytes().any(|digit| digit != b'0') {
        return None;
    }
    let zeros = usize::try_from(point).unwrap_or_default().saturating_sub(digits.len());
    format!("0{before}{}", "0".repeat(zeros)).parse().ok()
}

impl<'a> Members<'a> {
    /// The member of that name.
    pub(crate) fn field<'m>(&'m self, key: &'m str) -> Field<'m, MemberValue<'a>> {
        let member = self.all.0.iter().find(|member| member.key == key);
        let value = member.map(Member::look).filter(|raw| raw.get() != "null");
        Field::new(&self.path, key, value.map(MemberValue))
    }

    fn check_known(&self) -> Result<(), Violation> {
        match self.all.0.iter().find(|member| !member.is_known.get()) {
            Some(member) => {
                let path = member_path(&self.path, &shorten(&member.key));
                Err(Violation::new(path, "there", "left out: this request has no such member"))
            }
            None => Ok(()),
        }
    }

    /// Members that make no sense beside others.
    pub(crate) fn must_not_have(&self, keys: &[&str], rule: &'static str) -> Result<(), Violation> {
        match keys.iter().find(|key| self.field(key).is_there()) {
            Some(key) => Err(Violation::new(member_path(&self.path, key), "there", rule)),
            None => Ok(()),
        }
    }

    /// A list of objects with at least one and at most `most` of them.
    pub(crate) fn list<T: FromMembers>(&self, key: &str, most: usize) -> Result<Vec<T>, Violation> {
        let field = self.field(key);
        let items: Vec<&'a RawValue> = field.read(
            || format!("a list of 1 to {most} objects").into(),
            |MemberValue(raw)| {
                let items: Vec<_> = serde_json::from_str(raw.get()).ok()?;
                (1..=most).contains(&items.len()).then_some(items)
            },
        )?;
        let read = |(at, raw): (usize, &&'a RawValue)| {
            let path = item_path(&field.path(), at);
            match serde_json::from_str(raw.get()) {
                Ok(all) => T::read_all(&Members { path, all }),
                Err(_) if raw.get().starts_with('{') => {
                    Err(Violation::new(path, raw.get(), "an object that has no member twice"))
                }
                Err(_) => Err(Violation::new(path, raw.get(), "an object")),
            }
        };
        items.iter().enumerate().map(read).collect()
    }

    pub(crate) fn list_if_any<T: FromMembers>(
        &self,
        key: &str,
        most: usize,
    ) -> Result<Option<Vec<T>>, Violation> {
        self.field(key).if_any(|_| self.list(key, most))
    }
}

/// The members in the order in which they came. Few enough that a search is no slower than a map.
struct JsonObject<'a>(Vec<Member<'a>>);

struct Member<'a> {
    key: Cow<'a, str>,
    value: &'a RawValue,
    /// Set once the request has looked for a member of this key.
    is_known: Cell<bool>,
}

impl<'a> Member<'a> {
    fn look(&self) -> &'a RawValue {
        self.is_known.set(true);
        self.value
    }
}

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
        let mut all: Vec<Member<'de>> = Vec::new();
        while let Some(key) = map.next_key::<MemberKey<'de>>()? {
            let value = map.next_value()?;
            if all.iter().any(|member| member.key == key.0) {
                return Err(A::Error::custom(format_args!("{:?} stands there twice", shorten(&key.0))));
            }
            if all.len() == BODY_MEMBERS {
                return Err(A::Error::custom(format_args!("it has more than {BODY_MEMBERS} members")));
            }
            all.push(Member { key: key.0, value, is_known: Cell::new(false) });
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
    use crate::http::request::constraints::{CLAIM_TTL_MS, LABEL, RESOURCE};

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
        fn read(members: &Members<'_>) -> Result<Self, Violation> {
            Ok(Self {
                label: members.field("label").string(&LABEL)?,
                ttl_ms: members.field("ttlMs").number_if_any(&CLAIM_TTL_MS)?,
                resource: members.field("resource").if_any(|name| name.name(&RESOURCE))?,
                parts: members.list_if_any("parts", 2)?,
                flag: members.field("flag").if_any(Field::flag)?,
            })
        }
    }

    impl FromMembers for Part {
        fn read(members: &Members<'_>) -> Result<Self, Violation> {
            members.field("n").number(&CLAIM_TTL_MS).map(Part)
        }
    }

    fn problem(text: &str) -> serde_json::Value {
        serde_json::to_value(body::<Sample>(text.as_bytes()).unwrap_err()).unwrap()
    }

    #[test]
    fn null_counts_as_absent() {
        let sample: Sample = body(r#" {"label":"a\u00e9","ttlMs":null,"flag":false}"#.as_bytes()).unwrap();
        let expected =
            Sample { label: "aé".into(), ttl_ms: None, resource: None, parts: None, flag: Some(false) };
        assert_eq!(sample, expected);
    }

    #[test]
    fn an_integer_is_one_however_it_is_written() {
        for (text, expected) in [
            ("5", 5),
            ("5.0", 5),
            ("5e3", 5000),
            ("50E-1", 5),
            ("2592000000.0000000000", 2_592_000_000),
            ("25.92E+8", 2_592_000_000),
            ("50000e-3", 50),
        ] {
            let sample: Sample = body(format!(r#"{{"label":"a","ttlMs":{text}}}"#).as_bytes()).unwrap();
            assert_eq!(sample.ttl_ms, Some(expected), "{text}");
        }
        for text in [
            "2592000001",
            "2592000000.5",
            "1e300",
            "-1.0",
            "-0.0",
            "0.5",
            "0.9999999999999999999999",
            "2592000000.0000000001",
            "1000.00000000000000001",
        ] {
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
    fn a_violation_is_reported_with_member_value_and_rule() {
        let violation = |text: &str| {
            let problem = problem(text);
            assert_eq!((&problem["code"], &problem["status"]), (&"invalid".into(), &422.into()), "{problem}");
            ["field", "value", "rule"].map(|key| problem[key].as_str().unwrap_or("-").to_owned())
        };
        let label = "a string of 1 to 256 bytes of UTF-8";
        let ttl = "an integer from 1 to 2592000000";
        assert_eq!(violation("{}"), ["label", "absent", label]);
        assert_eq!(violation(r#"{"label":""}"#), ["label", "\"\"", label]);
        assert_eq!(violation(r#"{"label":"\ud800"}"#), ["label", r#""\ud800""#, label]);
        assert_eq!(violation(r#"{"label":{"a":1}}"#), ["label", r#"{"a":1}"#, label]);
        assert_eq!(violation(r#"{"label":"a","ttlMs":0}"#), ["ttlMs", "0", ttl]);
        assert_eq!(violation(r#"{"label":"a","ttlMs":1.5}"#), ["ttlMs", "1.5", ttl]);
        assert_eq!(violation(r#"{"label":"a","ttlMs":"1"}"#), ["ttlMs", "\"1\"", ttl]);
        assert_eq!(violation(r#"{"label":"a","flag":1}"#), ["flag", "1", "true or false"]);
        assert_eq!(violation(r#"{"label":"a","parts":[]}"#), ["parts", "[]", "a list of 1 to 2 objects"]);
        assert_eq!(violation(r#"{"label":"a","parts":[{"n":1},5]}"#), ["parts[1]", "5", "an object"]);
        assert_eq!(violation(r#"{"label":"a","parts":[{"n":1},{"n":-1}]}"#), ["parts[1].n", "-1", ttl]);
        assert_eq!(violation("[]"), ["body", "[]", "a JSON object"]);
        let unknown = "left out: this request has no such member";
        assert_eq!(violation(r#"{"label":"a","ttlms":5}"#), ["ttlms", "there", unknown]);
        assert_eq!(violation(r#"{"label":"a","later":null}"#), ["later", "there", unknown]);
        assert_eq!(
            violation(r#"{"label":"a","parts":[{"n":1},{"n":1,"N":{}}]}"#),
            ["parts[1].N", "there", unknown]
        );
        let long = violation(&format!(r#"{{"label":"{}"}}"#, "x".repeat(300)));
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
