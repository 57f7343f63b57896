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
    /// The first fencing token in it. Tokens are compared by their distance from it, as those of a server
    /// begin at the clock of its start.
    first_token: Option<i64>,
}

/// Members that are secrets or change with the moment.
const DROPPED: [&str; 4] = ["ack", "ownerSecret", "retryAfterMs", "ticket"];

/// Members that are instants: their presence is compared, not their value.
const INSTANTS: [&str; 4] = ["assignedAt", "endsAt", "expiresAt", "since"];

/// The length up to which a leak is shown.
const SHOWN: usize = 200;

impl Transcript {
    /// Notes an answer in which nothing of `other` may be.
    pub(super) fn note(&mut self, asked: String, text: &str, other: &str) {
        if text.contains(other) {
            let shown: String = text.chars().take(SHOWN).collect();
            self.leaks.push(format!("{asked}: {shown}"));
        }
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let value = comparable(value, &mut self.first_token);
        self.answers.push(Answer { asked, value });
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

fn comparable(value: Value, first_token: &mut Option<i64>) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|item| comparable(item, first_token)).collect(),
        Value::Object(members) => {
            let compared = members.into_iter().filter(|(key, _)| !DROPPED.contains(&&**key));
            let compared = compared.map(|(key, value)| {
                let value = match value {
                    Value::Null => Value::Null,
                    _ if INSTANTS.contains(&&*key) => Value::from("an instant"),
                    Value::String(_) if key == "token" => Value::from("a secret"),
                    Value::Number(number) if key == "token" || key == "fencingToken" => {
                        let token = number.as_i64().unwrap_or_default();
                        Value::from(token - *first_token.get_or_insert(token))
                    }
                    value => comparable(value, first_token),
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
        texts.iter().for_each(|text| transcript.note("x".to_owned(), text, "beryl"));
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
            r#"{"since":"2026-01-01T00:00:07.000Z","token":"b","fencingToken":"1"}"#,
            r#"{"since":null,"token":"b","fencingToken":1}"#,
            r#"{"token":"b","fencingToken":1}"#,
        ] {
            assert_eq!(one.differences(&transcript(&[other])).1.len(), 1, "{other}");
        }
    }

    #[test]
    fn fencing_tokens_are_compared_from_the_first_one_on() {
        let one = transcript(&[r#"{"fencingToken":7}"#, r#"[{"token":9},{"fencingToken":7}]"#]);
        let same = transcript(&[r#"{"fencingToken":70}"#, r#"[{"token":72},{"fencingToken":70}]"#]);
        assert_eq!(one.differences(&same), (2, Vec::new()));
        let other = transcript(&[r#"{"fencingToken":70}"#, r#"[{"token":73},{"fencingToken":70}]"#]);
        assert_eq!(one.differences(&other).1.len(), 1);
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
