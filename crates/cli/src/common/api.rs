//! The HTTP API as a command sees it: one call, one answer, one exit code. No change is ever repeated:
//! whether a repeat is right is for the script to say.

use std::fmt::Write as _;
use std::time::Duration;

pub use lockhouse::remote::http::Call;
use lockhouse::remote::http::{Answer, Http, Unanswered};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::print::visible;
use super::shape::{self, Promised, Shape};
use super::target::{DENIED, Target, untrusted};
use crate::exit::{FAILURE, Failure, LOST, NOT_GRANTED, UNKNOWN, UNREACHABLE, USAGE};
use crate::owner::SECRET_RULE;

/// How long an answer may take: longer than any disk.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The statuses of answers without a body: it is done, or is being done.
pub(crate) const NO_CONTENT: u16 = 204;
pub(crate) const ACCEPTED: u16 = 202;

/// The members of a page of a query.
pub const ENTRIES: Promised = &[
    ("entries", Shape::List(&[("name", Shape::Text), ("clientId", Shape::Text), ("since", Shape::Word)])),
    ("recoveringMs", Shape::Number),
];

/// The most characters of an answer that an error repeats.
const SHOWN_CHARS: usize = 200;

/// A bucket of a server.
#[derive(Debug)]
pub struct BucketClient {
    http: Http,
    timeout: Duration,
}

impl BucketClient {
    /// The bucket that is named; nothing is asked yet.
    ///
    /// # Errors
    ///
    /// The target cannot be used.
    pub fn new(target: &Target) -> Result<Self, Failure> {
        let http = target.connecting().http().map_err(|error| target.wrong(&error))?;
        Ok(Self { http, timeout: TIMEOUT })
    }

    /// The same, which waits no longer than that for an answer.
    pub(crate) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Where the server is.
    pub(crate) fn origin(&self) -> &str {
        self.http.origin()
    }

    /// The name of the bucket.
    pub(crate) fn bucket(&self) -> String {
        self.http.bucket()
    }

    /// Asks; the answer's body, an object that has these members. A call whose future is dropped may have
    /// been carried out.
    ///
    /// # Errors
    ///
    /// The server refuses, or cannot be reached, or does not answer as a lockhouse server, or whether it has
    /// acted is unknown.
    pub async fn call(&self, call: Call, members: Promised) -> Result<Value, Failure> {
        let is_a_question = call.is_a_question();
        let answer = self.send(&call).await?;
        match serde_json::from_slice(&answer.body) {
            Ok(body) if shape::has(&body, members) => Ok(body),
            _ => Err(self.strange(&answer, is_a_question)),
        }
    }

    /// Asks for what is answered with this status and no body.
    ///
    /// # Errors
    ///
    /// As those of [`call`](Self::call).
    pub(crate) async fn call_without_answer(&self, call: Call, status: u16) -> Result<(), Failure> {
        let answer = self.send(&call).await?;
        let is_as_promised = answer.status == status && answer.body.is_empty();
        if is_as_promised { Ok(()) } else { Err(self.strange(&answer, call.is_a_question())) }
    }

    /// Asks, and reads the answer's body.
    pub(crate) async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        let answer = self.send(&call).await?;
        serde_json::from_slice(&answer.body).map_err(|_| self.strange(&answer, call.is_a_question()))
    }

    /// The answer of a success.
    async fn send(&self, call: &Call) -> Result<Answer, Failure> {
        let is_a_question = call.is_a_question();
        let answer = match timeout(self.timeout, self.http.send(call)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return Err(self.failed(why, is_a_question)),
            Err(_) => {
                let seconds = self.timeout.as_secs_f64();
                let what = format_args!("did not answer within {seconds} s");
                return Err(self.unanswered(what, is_a_question));
            }
        };
        if answer.is_success() { Ok(answer) } else { Err(self.refused_call(&answer, is_a_question)) }
    }

    /// The server itself, for what is no single answer.
    pub(crate) fn http(&self) -> &Http {
        &self.http
    }

    /// The failure of a question without an answer, or of a change.
    pub(crate) fn failed(&self, why: Unanswered, is_a_question: bool) -> Failure {
        match why {
            Unanswered::Unreachable(why) => self.unreachable(&why),
            Unanswered::Untrusted(why) => {
                untrusted(format!("cannot speak TLS with {}: {why}", self.http.origin()))
            }
            Unanswered::BrokenOff(why) => {
                self.unanswered(format_args!("broke off before it answered: {why}"), is_a_question)
            }
        }
    }

    /// The failure of a question whose answer is no success.
    pub(crate) fn refused(&self, answer: &Answer) -> Failure {
        self.refused_call(answer, true)
    }

    fn refused_call(&self, answer: &Answer, is_a_question: bool) -> Failure {
        match serde_json::from_slice::<Value>(&answer.body) {
            Ok(problem) if !answer.is_success() && problem["code"].is_string() => {
                failure(&problem, is_a_question)
            }
            _ => self.strange(answer, is_a_question),
        }
    }

    /// All pages of a query.
    pub(crate) async fn all(&self, filters: &[(&str, &str)]) -> Result<Vec<Value>, Failure> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let mut call = Call::get(&["query"]).with("limit", "1000");
            for (key, value) in filters {
                call = call.with(key, value);
            }
            if let Some(cursor) = &cursor {
                call = call.with("cursor", cursor);
            }
            let mut page = self.call(call, ENTRIES).await?;
            all.extend(take_list(&mut page, "entries"));
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(all),
            }
        }
    }

    /// The failure of a change with an answer that does not fit the call.
    pub(crate) fn strange_change(&self, why: &str) -> Failure {
        let what = format_args!("does not answer as a lockhouse server: {why}");
        self.unanswered(what, false)
    }

    /// The failure of events that no lockhouse server sends.
    pub(crate) fn strange_events(&self) -> Failure {
        self.unanswered(format_args!("does not answer as a lockhouse server: its events are none"), true)
    }

    fn unreachable(&self, why: &str) -> Failure {
        let advice = "start one with \"lockhouse serve\", or name another with --url or LOCKHOUSE_URL";
        Failure::new(UNREACHABLE, format_args!("cannot reach {}: {why} ({advice})", self.http.origin()))
    }

    /// The failure of a server that was reached: the advice to start one or to name another would be wrong.
    fn unanswered(&self, what: std::fmt::Arguments<'_>, is_a_question: bool) -> Failure {
        let origin = self.http.origin();
        if is_a_question {
            return Failure::new(UNREACHABLE, format_args!("{origin} {what}"));
        }
        Failure::new(UNKNOWN, format_args!("{origin} {what}; it may have done what it was asked"))
    }

    /// The failure of an answer that no lockhouse server gives: none was reached. One of a proxy, and the
    /// fault of another program, do not tell what has become of the call.
    fn strange(&self, answer: &Answer, is_a_question: bool) -> Failure {
        let status = answer.status;
        if matches!(status, 502..=504) {
            return self
                .unanswered(format_args!("was not reached by its proxy: status {status}"), is_a_question);
        }
        // What stands between may have replaced the answer to a change that was made.
        let is_unknown = !is_a_question && !matches!(status, 300..=499);
        let exit = if is_unknown { UNKNOWN } else { UNREACHABLE };
        let outcome = if is_unknown { "; it may have done what it was asked" } else { "" };
        let origin = self.http.origin();
        if let Some(location) = &answer.location {
            let why = format!("{origin} leads to {location:?} (status {status}); name that place with --url");
            return Failure::new(exit, why);
        }
        let body = String::from_utf8_lossy(&answer.body);
        let first = body.lines().next().unwrap_or_default().trim();
        // An answer that only lacks something may have a secret.
        let is_json = first.starts_with(['{', '[', '"']);
        let said: String = if is_json {
            "JSON that is no answer to this".to_owned()
        } else {
            first.chars().take(SHOWN_CHARS).collect()
        };
        let colon = if said.is_empty() { "" } else { ": " };
        Failure::new(
            exit,
            format!("{origin} does not answer as a lockhouse server: status {status}{colon}{said}{outcome}"),
        )
    }
}

/// Takes a list out of an answer, in which it was found before.
pub(crate) fn take_list(answer: &mut Value, name: &str) -> Vec<Value> {
    match answer[name].take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

/// Whether the secret that is refused is that of an owner, and not that of the server's operator.
fn is_of_owner(problem: &Value) -> bool {
    problem["rule"].as_str().is_some_and(|rule| rule.contains("owner"))
}

/// The option or argument behind a member of the body, where its name is another one.
fn option(field: &str) -> Option<&'static str> {
    match field {
        "ttlMs" => Some("--ttl"),
        "maxMs" => Some("--max"),
        "fencingToken" => Some("--token"),
        "olderThanMs" => Some("--older-than"),
        "client" => Some("--client"),
        _ => None,
    }
}

/// The meaning of a problem for the caller of the command.
fn failure(problem: &Value, is_a_question: bool) -> Failure {
    let code = problem["code"].as_str().unwrap_or_default();
    let exit = match code {
        "locked" | "claimed" | "busy" | "already_assigned" | "conflict_in_flight" | "quota_exceeded"
        | "rate_limited" | "recovering" | "unavailable" | "overloaded" | "closing" | "moving" => NOT_GRANTED,
        "claim_lost" | "claim_expired" | "unknown_owner" => LOST,
        "bad_request" | "invalid" | "idempotency_mismatch" => USAGE,
        "unauthorized" if is_of_owner(problem) => return Failure::new(USAGE, SECRET_RULE),
        "outcome_unknown" | "internal" if !is_a_question => UNKNOWN,
        _ => FAILURE,
    };
    let mut message = problem["detail"].as_str().unwrap_or("the server gives no reason").to_owned();
    if let Some(option) = problem["field"].as_str().and_then(option) {
        message = format!("{option}: {message}");
    }
    for conflict in problem["conflicts"].as_array().into_iter().flatten() {
        for holder in conflict["holders"].as_array().into_iter().flatten() {
            let [kind, id] = ["kind", "id"].map(|key| conflict[key].as_str().unwrap_or_default());
            let [label, since] = ["label", "since"].map(|key| holder[key].as_str().unwrap_or_default());
            // Writing to a string never fails.
            _ = write!(message, "\n  {kind}/{id}: {} since {since}", visible(label));
        }
    }
    // If an action is forbidden for another reason than a permission, no other credential permits it.
    if code == "unauthenticated" || problem["permission"].is_string() {
        message.push_str(&format!(" ({DENIED})"));
    }
    if let Some(expires) = problem["expiresAt"].as_str() {
        message.push_str(&format!(", until {expires} unless it is renewed"));
    }
    if let Some(ms) = problem["retryAfterMs"].as_u64() {
        message.push_str(&format!("; try again in {ms} ms"));
    }
    Failure::new(exit, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_credential_is_advised_only_where_one_would_help() {
        let is_advised = |problem: Value| failure(&problem, false).message.contains(DENIED);
        assert!(is_advised(json!({"code": "unauthenticated", "detail": "no such key"})));
        assert!(is_advised(json!({"code": "forbidden", "detail": "may not", "permission": "claim"})));
        assert!(!is_advised(json!({"code": "forbidden", "detail": "not the secret of this owner"})));
        assert!(!is_advised(json!({"code": "locked", "detail": "locked"})));
    }

    #[test]
    fn a_wrong_secret_and_a_wrong_duration_are_reported_by_the_options_that_give_them() {
        let rule = "\"Bearer \" and the secret of the owner";
        let wrong =
            failure(&json!({"code": "unauthorized", "detail": "Authorization must be", "rule": rule}), false);
        assert_eq!((wrong.code, &*wrong.message), (USAGE, SECRET_RULE));
        let operator =
            json!({"code": "unauthorized", "detail": "Authorization must be", "rule": "the operator's"});
        assert_eq!(failure(&operator, false).code, FAILURE);
        let wrong =
            failure(&json!({"code": "invalid", "field": "ttlMs", "detail": "ttlMs must be 1"}), false);
        assert_eq!((wrong.code, &*wrong.message), (USAGE, "--ttl: ttlMs must be 1"));
    }

    #[tokio::test]
    async fn the_answer_of_another_program_is_that_no_server_was_reached() {
        let http = lockhouse::remote::connect("http://127.0.0.1:9").http().unwrap();
        let api = BucketClient { http, timeout: TIMEOUT };
        let answer = |status, location: Option<&str>| {
            let location = location.map(str::to_owned);
            Answer { status, is_replayed: false, location, body: Vec::new() }
        };
        for (status, location) in [(301, Some("https://a.example")), (404, None), (405, None)] {
            for is_a_question in [true, false] {
                assert_eq!(
                    api.strange(&answer(status, location), is_a_question).code,
                    UNREACHABLE,
                    "{status}"
                );
            }
        }
        for status in [200, 500, 502] {
            assert_eq!(api.strange(&answer(status, None), false).code, UNKNOWN, "{status}");
            assert_eq!(api.strange(&answer(status, None), true).code, UNREACHABLE, "{status}");
        }
    }

    #[test]
    fn an_unknown_outcome_has_an_exit_code_of_its_own_and_a_question_has_none() {
        let code = |code: &str, is_a_question| failure(&json!({"code": code}), is_a_question).code;
        for unknown in ["outcome_unknown", "internal"] {
            assert_eq!((code(unknown, false), code(unknown, true)), (UNKNOWN, FAILURE), "{unknown}");
        }
        assert_eq!(code("unavailable", false), NOT_GRANTED, "nothing has happened");
    }

    #[tokio::test]
    async fn a_server_that_is_silent_or_breaks_off_is_not_reported_as_absent() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let http = lockhouse::remote::connect(&url).http().unwrap();
        let api = BucketClient { http, timeout: Duration::from_millis(100) };
        // The kernel accepts the connection, and no process answers.
        let silent = api.call(Call::post(&["claims"]), &[]).await.unwrap_err();
        let message = format!("{url} did not answer within 0.1 s; it may have done what it was asked");
        assert_eq!((silent.code, silent.message), (UNKNOWN, message));
        let silent = api.call(Call::get(&["claims"]), &[]).await.unwrap_err();
        let message = format!("{url} did not answer within 0.1 s");
        assert_eq!((silent.code, silent.message), (UNREACHABLE, message), "a question changes nothing");

        let api = BucketClient { timeout: TIMEOUT, ..api };
        let breaks_off = async {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                // The request is read, so that the end of the connection is no refusal.
                _ = tokio::io::AsyncReadExt::read(&mut connection, &mut [0; 4096]).await;
            }
        };
        let call = api.call(Call::post(&["claims"]), &[]);
        let broken = tokio::select! {
            answer = call => answer.unwrap_err(),
            () = breaks_off => unreachable!("it goes on for ever"),
        };
        assert_eq!(broken.code, UNKNOWN);
        assert!(
            broken.message.starts_with(&format!("{url} broke off before it answered: ")),
            "{}",
            broken.message
        );
    }
}
