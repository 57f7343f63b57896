//! The answers to a tenant, and how two runs of the same script differ in them.

use serde_json::Value;

/// A request and its answer, without the parts that differ from run to run anyway: instants and secrets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) asked: String,
    pub(super) value: Value,
}

/// All answers to a tenant in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Transcript {
    pub(super) answers: Vec<Answer>,
    /// Where the other tenant appeared in it.
    pub(super) leaks: Vec<String>,
    /// Why the script could not be played to its end.
    pub(super) broke_off: Option<String>,
    /// The first fencing token, or number of an owner, in it. They are compared by their distance from it, as
    /// those of a server begin at the clock of its start.
    first_token: Option<u64>,
}

/// Members that are secrets or change with the moment.
const DROPPED: [&str; 4] = ["ack", "ownerSecret", "retryAfterMs", "ticket"];

/// Members that are instants: their presence is compared, not their value.
const INSTANTS: [&str; 4] = ["assignedAt", "endsAt", "expiresAt", "since"];

/// How many digits a fencing token has, from 2001 to 2255.
const TOKEN_DIGITS: usize = 16;

/// The length up to which a leak is shown.
const SHOWN: usize = 200;

impl Transcript {
    /// Notes an answer in which nothing of `other` may be.
    pub(super) fn note(&mut self, asked: &str, text: &str, other: &str) {
        if text.contains(other) {
            let shown: String = text.chars().take(SHOWN).collect();
            self.leaks.push(format!("{asked}: {shown}"));
        }
        let asked = by_distance(asked, &mut self.first_token);
        let text = by_distance(text, &mut self.first_token);
        let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text));
        self.answers.push(Answer { asked, value: comparable(value) });
    }

    /// The differences between the answers beside a neighbour and those without, and how many answers were
    /// compared.
    pub(super) fn differences(&self, beside: &Self) -> (usize, Vec<String>) {
        let (here, there) = (&self.answers, &beside.answers);
        let pairs = here.iter().zip(there).enumerate();
        let mut differences: Vec<String> = pairs
            .filter(|(_, (alone, beside))| alone != beside)
            .map(|(number, (alone, beside))| {
                let Answer { asked, value } = alone;
                let Answer { asked: asked_there, value: value_there } = beside;
                let what = if asked == asked_there { String::new() } else { format!(" {asked_there}:") };
                format!(
                    "answer {number}, {asked}: {value} alone, but{what} {value_there} beside the neighbour"
                )
            })
            .collect();
        if let Some(why) = &beside.broke_off {
            differences.push(format!("broke off beside the neighbour: {why}"));
        } else if here.len() != there.len() {
            differences.push(format!("{} answers alone, but {} beside", here.len(), there.len()));
        }
        differences.extend(beside.leaks.iter().map(|leak| format!("the neighbour appears, {leak}")));
        (here.len().max(there.len()), differences)
    }
}

/// The text with the distance from the first one in place of each number of 16 digits. Only fencing tokens
/// and the numbers of owners are that long.
fn by_distance(text: &str, first_token: &mut Option<u64>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let length = rest[start..].bytes().take_while(u8::is_ascii_digit).count();
        let digits = &rest[start..start + length];
        out.push_str(&rest[..start]);
        match digits.parse::<u64>() {
            Ok(number) if length == TOKEN_DIGITS => {
                let first = *first_token.get_or_insert(number);
                out.push_str(&number.wrapping_sub(first).cast_signed().to_string());
            }
            _ => out.push_str(digits),
        }
        rest = &rest[start + length..];
    }
    out + rest
}

fn comparable(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(comparable).collect(),
        Value::Object(members) => {
            let compared = members.into_iter().filter(|(key, _)| !DROPPED.contains(&&**key));
            let compared = compared.map(|(key, value)| {
                let value = match value {
                    Value::Null => Value::Null,
                    _ if INSTANTS.contains(&&*key) => Value::from("an instant"),
                    Value::String(_) if key == "token" => Value::from("a secret"),
                    value => comparable(value),
                };
                (key, value)
            });
            Value::Object(compared.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(texts: &[&str]) -> Transcript {
        let mut transcript = Transcript::default();
        texts.iter().for_each(|text| transcript.note("x", text, "beryl"));
        transcript
    }

    #[test]
    fn instants_and_secrets_are_not_compared_and_all_else_is() {
        let one =
            transcript(&[r#"{"since":"2026-01-01T00:00:00.000Z","token":"a","fencingToken":1,"ack":4}"#]);
        let same =
            transcript(&[r#"{"since":"2026-01-01T00:00:07.000Z","token":"b","fencingToken":1,"ack":5}"#]);
        assert_eq!(one.differences(&same), (1, Vec::new()));
        for other in [
            r#"{"since":"2026-01-01T00:00:07.000Z","token":"b","fencingToken":2}"#,
            r#"{"since":null,"token":"b","fencingToken":1}"#,
            r#"{"token":"b","fencingToken":1}"#,
        ] {
            assert_eq!(one.differences(&transcript(&[other])).1.len(), 1, "{other}");
        }
    }

    #[test]
    fn fencing_tokens_are_compared_from_the_first_one_on() {
        let run = |first: u64, next: u64| {
            let begun = format!(r#"{{"owner":"{first}"}}"#);
            transcript(&[&begun, &format!(r#"[{{"token":{next}}},{{"why":"not {first}, 17"}}]"#)])
        };
        const FIRST: u64 = 1_882_965_585_971_644;
        assert_eq!(run(FIRST, FIRST + 2).differences(&run(FIRST + 70, FIRST + 72)), (2, Vec::new()));
        assert_eq!(run(FIRST, FIRST + 2).differences(&run(FIRST + 70, FIRST + 73)).1.len(), 1);
    }

    #[test]
    fn a_run_that_is_shorter_or_breaks_off_differs() {
        let two = transcript(&["1", "2"]);
        assert_eq!(two.differences(&transcript(&["1"])).1, ["2 answers alone, but 1 beside"]);
        let broken = Transcript { broke_off: Some("closed".to_owned()), ..two.clone() };
        assert_eq!(two.differences(&broken).1, ["broke off beside the neighbour: closed"]);
    }

    #[test]
    fn the_name_of_the_neighbour_is_a_leak_wherever_it_stands() {
        let leak = transcript(&[r#"{"holders":[{"clientId":"beryl 3"}]}"#]);
        assert_eq!(leak.differences(&leak).1.len(), 1);
    }
}
