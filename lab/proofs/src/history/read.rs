//! Reading the lines of a history. A line that is not as docs/histories.md says is refused with line, field,
//! value and rule.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::record::{Completion, Event, Found, Gain, Invocation, Mode, Reason, Thing, What};

/// Why a file is not a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub line: usize,
    pub field: String,
    /// As JSON, or a description.
    pub value: String,
    pub rule: String,
}

impl Malformed {
    pub fn new(line: usize, field: &str, value: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { line, field: field.to_owned(), value: value.into(), rule: rule.into() }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} is {}, but {}", self.line, self.field, self.value, self.rule)
    }
}

impl std::error::Error for Malformed {}

type Read<T> = Result<T, Malformed>;

/// The first number that is no fencing token.
const TOKEN_LIMIT: u64 = 1 << 53;

/// Reads one line, whose number is `line`.
pub fn event(line: usize, text: &str) -> Read<Event> {
    let object: Object<'_> = serde_json::from_str(text).map_err(|error| {
        Malformed::new(line, "the line", shortened(text), format!("must be one JSON object: {error}"))
    })?;
    let mut fields = Fields { line, object };
    let at = fields.number("at")?;
    let kind = fields.text("event")?;
    let what = match &*kind {
        "invoke" => What::Invoke {
            client: fields.text("client")?,
            op: fields.number("op")?,
            bucket: fields.text("bucket")?,
            call: call(&mut fields)?,
        },
        "answer" => What::Answer {
            client: fields.text("client")?,
            op: fields.number("op")?,
            answer: answer(&mut fields)?,
        },
        "lost" => What::Lost {
            client: fields.text("client")?,
            op: fields.number("op")?,
            deadline: fields.if_there("deadline", Fields::number)?,
        },
        "clientEnded" => What::ClientEnded { client: fields.text("client")? },
        "clientKilled" => What::ClientKilled { client: fields.text("client")? },
        "serverStarted" => What::ServerStarted { epoch: fields.text("epoch")? },
        "serverKilled" => What::ServerKilled,
        "restored" => What::Restored { above: fields.number("above")? },
        "failedOver" => {
            let (from, until, above) =
                (fields.number("from")?, fields.number("until")?, fields.number("above")?);
            for (field, value, is_wrong, rule) in [
                ("from", from, from > at, format!("must not be after at ({at})")),
                ("until", until, until < at, format!("must not be before at ({at})")),
            ] {
                if is_wrong {
                    return Err(Malformed::new(line, field, value.to_string(), rule));
                }
            }
            What::FailedOver { from, until, above }
        }
        "clocksShifted" => What::ClocksShifted {
            host: fields.text("host")?,
            wall_ms: fields.signed("wallMs")?,
            leap_ms: fields.number("leapMs")?,
        },
        "readout" => {
            let began = fields.number("began")?;
            if began > at {
                return Err(Malformed::new(
                    line,
                    "began",
                    began.to_string(),
                    format!("must not be after at ({at})"),
                ));
            }
            What::Readout { bucket: fields.text("bucket")?, began, found: fields.found()? }
        }
        _ => {
            return Err(fields.wrong("event", &kind, "must be invoke, answer, lost, clientEnded, clientKilled, serverStarted, serverKilled, restored, failedOver, clocksShifted or readout"));
        }
    };
    fields.finish()?;
    Ok(Event { at, what })
}

fn call(fields: &mut Fields<'_>) -> Read<Invocation> {
    let name = |fields: &mut Fields<'_>| fields.text("name");
    let word = fields.text("do")?;
    Ok(match &*word {
        "request" => Invocation::Request {
            name: name(fields)?,
            mode: fields.mode()?,
            steal: fields.flag("steal")?,
            max_hold_ms: fields.if_there("maxHoldMs", Fields::number)?,
        },
        "release" => Invocation::Release { of: fields.number("of")? },
        "pass" => Invocation::Pass { of: fields.number("of")? },
        "openOwner" => Invocation::OpenOwner {
            ttl_ms: fields.number("ttlMs")?,
            max_ms: fields.if_there("maxMs", Fields::number)?,
        },
        "touch" => Invocation::Touch { owner: fields.text("owner")? },
        "endOwner" => Invocation::EndOwner { owner: fields.text("owner")? },
        "lock" => {
            Invocation::Lock { owner: fields.text("owner")?, name: name(fields)?, mode: fields.mode()? }
        }
        "unlock" => Invocation::Unlock { owner: fields.text("owner")?, name: name(fields)? },
        "unlockAll" => Invocation::UnlockAll { owner: fields.text("owner")? },
        "claim" => Invocation::Claim {
            name: name(fields)?,
            claimant: fields.text("claimant")?,
            ttl_ms: fields.number("ttlMs")?,
        },
        "renew" => Invocation::Renew { name: name(fields)?, claim: fields.text("claim")? },
        "releaseClaim" => Invocation::ReleaseClaim { name: name(fields)?, claim: fields.text("claim")? },
        "finalize" => Invocation::Finalize { name: name(fields)?, claim: fields.text("claim")? },
        "unassign" => Invocation::Unassign { name: name(fields)? },
        "break" => Invocation::Break { name: name(fields)?, token: fields.token("token")? },
        "look" => Invocation::Look { name: name(fields)? },
        _ => {
            return Err(fields.wrong("do", &word, "must be request, release, pass, openOwner, touch, endOwner, lock, unlock, unlockAll, claim, renew, releaseClaim, finalize, unassign, break or look"));
        }
    })
}

fn answer(fields: &mut Fields<'_>) -> Read<Completion> {
    let outcome = fields.text("outcome")?;
    Ok(match &*outcome {
        "ok" => Completion::Ok {
            durable: fields.flag("durable")?,
            gain: Gain {
                token: fields.if_there("token", Fields::token)?,
                again: fields.flag("again")?,
                owner: fields.if_there("owner", Fields::text)?,
                claim: fields.if_there("claim", Fields::text)?,
                claimant: fields.if_there("claimant", Fields::text)?,
                was: fields.has("was").then(|| fields.flag("was")).transpose()?,
                found: fields.has("found").then(|| fields.found()).transpose()?,
            },
        },
        "refused" => Completion::Refused {
            reason: reason(fields)?,
            token: fields.if_there("token", Fields::token)?,
            claimant: fields.if_there("claimant", Fields::text)?,
        },
        "unknown" => Completion::Unknown,
        _ => return Err(fields.wrong("outcome", &outcome, "must be ok, refused or unknown")),
    })
}

fn reason(fields: &mut Fields<'_>) -> Read<Reason> {
    let word = fields.text("reason")?;
    Ok(match &*word {
        "busy" => Reason::Busy,
        "claimed" => Reason::Claimed,
        "alreadyAssigned" => Reason::AlreadyAssigned,
        "claimExpired" => Reason::ClaimExpired,
        "claimLost" => Reason::ClaimLost,
        "ownerGone" => Reason::OwnerGone,
        "recovering" => Reason::Recovering,
        "unavailable" => Reason::Unavailable,
        "stale" => Reason::Stale,
        "other" => Reason::Other,
        _ => {
            return Err(fields.wrong("reason", &word, "must be busy, claimed, alreadyAssigned, claimExpired, claimLost, ownerGone, recovering, unavailable, stale or other"));
        }
    })
}

fn found(fields: &mut Fields<'_>) -> Read<Found> {
    let kind = fields.text("kind")?;
    let thing = match &*kind {
        "web" => Thing::Web { mode: fields.mode()? },
        "offline" => Thing::Offline { owner: fields.text("owner")?, mode: fields.mode()? },
        "claim" => Thing::Claim { claimant: fields.text("claimant")? },
        "assignment" => Thing::Assignment { claimant: fields.text("claimant")? },
        _ => return Err(fields.wrong("kind", &kind, "must be web, offline, claim or assignment")),
    };
    Ok(Found { name: fields.text("name")?, thing, token: fields.token("token")? })
}

/// The fields of one object that were not taken yet. A field that is left in the end does not belong there.
struct Fields<'a> {
    line: usize,
    object: Object<'a>,
}

impl<'a> Fields<'a> {
    fn has(&self, name: &str) -> bool {
        self.object.0.iter().any(|(field, _)| field == name)
    }

    fn take(&mut self, name: &str, rule: &str) -> Read<Value<'a>> {
        match self.object.0.iter().position(|(field, _)| field == name) {
            Some(at) => Ok(self.object.0.swap_remove(at).1),
            None => Err(Malformed::new(self.line, name, "missing", rule)),
        }
    }

    fn if_there<T>(&mut self, name: &str, read: impl FnOnce(&mut Self, &str) -> Read<T>) -> Read<Option<T>> {
        if self.has(name) { read(self, name).map(Some) } else { Ok(None) }
    }

    fn text(&mut self, name: &str) -> Read<String> {
        let rule = "must be a string";
        match self.take(name, rule)? {
            Value::Text(text) => Ok(text.into_owned()),
            other => Err(Malformed::new(self.line, name, other.to_string(), rule)),
        }
    }

    fn number(&mut self, name: &str) -> Read<u64> {
        let rule = "must be a whole number from 0 to 2^64 - 1";
        match self.take(name, rule)? {
            Value::Number(number) => Ok(number),
            other => Err(Malformed::new(self.line, name, other.to_string(), rule)),
        }
    }

    fn signed(&mut self, name: &str) -> Read<i64> {
        let rule = "must be a whole number from -2^63 to 2^63 - 1";
        let value = self.take(name, rule)?;
        let wrong = |value: String| Malformed::new(self.line, name, value, rule);
        match value {
            Value::Number(number) => i64::try_from(number).map_err(|_| wrong(number.to_string())),
            Value::Negative(number) => Ok(number),
            other => Err(wrong(other.to_string())),
        }
    }

    fn token(&mut self, name: &str) -> Read<u64> {
        match self.number(name)? {
            token if (1..TOKEN_LIMIT).contains(&token) => Ok(token),
            other => Err(Malformed::new(self.line, name, other.to_string(), "must be from 1 to 2^53 - 1")),
        }
    }

    /// Absent is false.
    fn flag(&mut self, name: &str) -> Read<bool> {
        let rule = "must be true or false";
        match self.has(name).then(|| self.take(name, rule)).transpose()? {
            None => Ok(false),
            Some(Value::Flag(flag)) => Ok(flag),
            Some(other) => Err(Malformed::new(self.line, name, other.to_string(), rule)),
        }
    }

    fn mode(&mut self) -> Read<Mode> {
        match &*self.text("mode")? {
            "exclusive" => Ok(Mode::Exclusive),
            "shared" => Ok(Mode::Shared),
            other => Err(self.wrong("mode", other, "must be exclusive or shared")),
        }
    }

    fn found(&mut self) -> Read<Vec<Found>> {
        let rule = "must be a list of objects";
        let line = self.line;
        let list = match self.take("found", rule)? {
            Value::List(list) => list,
            other => return Err(Malformed::new(line, "found", other.to_string(), rule)),
        };
        let read = |object| {
            let mut fields = Fields { line, object };
            let found = found(&mut fields)?;
            fields.finish()?;
            Ok(found)
        };
        list.into_iter().map(read).collect()
    }

    fn wrong(&self, field: &str, value: &str, rule: &str) -> Malformed {
        Malformed::new(self.line, field, format!("{value:?}"), rule)
    }

    fn finish(&self) -> Read<()> {
        match self.object.0.first() {
            None => Ok(()),
            Some((field, value)) => Err(Malformed::new(
                self.line,
                field,
                value.to_string(),
                "has no place in an event of this kind",
            )),
        }
    }
}

/// A JSON object as its fields stand, so that one that stands twice is seen. `Cow` saves copying what has no
/// escapes.
struct Object<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

enum Value<'a> {
    Number(u64),
    Negative(i64),
    Text(Cow<'a, str>),
    Flag(bool),
    List(Vec<Object<'a>>),
    /// A value that no field may have, in words.
    Other(String),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Negative(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{:?}", shortened(text)),
            Self::Flag(flag) => flag.fmt(f),
            Self::List(list) => write!(f, "a list of {}", list.len()),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, Value<'de>)> = Vec::with_capacity(10);
                while let Some((Text(field), value)) = map.next_entry::<Text<'de>, Value<'de>>()? {
                    if fields.iter().any(|(known, _)| *known == field) {
                        return Err(A::Error::custom(format!("the field {field:?} stands twice")));
                    }
                    fields.push((field, value));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A string, borrowed where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a whole number, true, false or a list of objects")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
                Ok(Value::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
                Ok(Value::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
                Ok(Value::Number(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
                Ok(Value::Negative(number))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Value<'de>, E> {
                Ok(Value::Other(number.to_string()))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Value<'de>, E> {
                Ok(Value::Flag(flag))
            }

            fn visit_unit<E>(self) -> Result<Value<'de>, E> {
                Ok(Value::Other("null".to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
                let mut list = Vec::new();
                while let Some(object) = seq.next_element()? {
                    list.push(object);
                }
                Ok(Value::List(list))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Enough of a text to find it again.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
