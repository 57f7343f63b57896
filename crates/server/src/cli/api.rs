//! The HTTP API as a command sees it: one call, one answer, one exit code.

use std::fmt::Write as _;
use std::time::Duration;

pub(super) use lockhouse::remote::http::Call;
use lockhouse::remote::http::{Http, Unanswered};
use serde_json::Value;
use tokio::time::timeout;

use super::target::Target;
use super::{FAILURE, Failure, LOST, NOT_GRANTED, UNREACHABLE, USAGE};

/// How long an answer may take: longer than any disk.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A bucket of a server.
pub(super) struct Api(Http);

impl Api {
    pub(super) fn new(target: &Target) -> Result<Self, Failure> {
        target.connecting().http().map(Self).map_err(|error| Failure::new(USAGE, error))
    }

    /// Asks; the answer's body, `null` if it has none.
    pub(super) async fn call(&self, call: Call) -> Result<Value, Failure> {
        let answer = match timeout(TIMEOUT, self.0.send(&call)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(Unanswered::Unreachable(why) | Unanswered::BrokenOff(why))) => {
                return Err(self.unreachable(&why));
            }
            Err(_) => return Err(self.unreachable("no answer within 60 s")),
        };
        let body: Value = if answer.body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&answer.body).map_err(|_| {
                let why =
                    format!("{} is no lockhouse server: it answered {}", self.0.origin(), answer.status);
                Failure::new(FAILURE, why)
            })?
        };
        if answer.is_success() { Ok(body) } else { Err(failure(&body)) }
    }

    /// All pages of a list.
    pub(super) async fn all(
        &self,
        path: &[&str],
        list: &str,
        filters: &[(&str, &str)],
    ) -> Result<Vec<Value>, Failure> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let mut call = Call::get(path).with("limit", "1000");
            for (key, value) in filters {
                call = call.with(key, value);
            }
            if let Some(cursor) = &cursor {
                call = call.with("cursor", cursor);
            }
            let mut page = self.call(call).await?;
            if let Value::Array(entries) = page[list].take() {
                all.extend(entries);
            }
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(all),
            }
        }
    }

    fn unreachable(&self, why: &str) -> Failure {
        let advice = "start one with \"lockhouse serve\", or name another with --url or LOCKHOUSE_URL";
        Failure::new(UNREACHABLE, format_args!("cannot reach {}: {why} ({advice})", self.0.origin()))
    }
}

/// What a problem means to whoever called the command.
fn failure(problem: &Value) -> Failure {
    let code = problem["code"].as_str().unwrap_or_default();
    let exit = match code {
        "locked" | "claimed" | "busy" | "already_assigned" | "conflict_in_flight" | "quota_exceeded"
        | "recovering" | "unavailable" | "closing" => NOT_GRANTED,
        "claim_lost" | "claim_expired" | "unknown_owner" => LOST,
        "bad_request" | "invalid" | "idempotency_mismatch" => USAGE,
        _ => FAILURE,
    };
    let mut message = problem["detail"].as_str().unwrap_or("the server gives no reason").to_owned();
    for conflict in problem["conflicts"].as_array().into_iter().flatten() {
        for holder in conflict["holders"].as_array().into_iter().flatten() {
            let [kind, id] = ["kind", "id"].map(|key| conflict[key].as_str().unwrap_or_default());
            let [label, since] = ["label", "since"].map(|key| holder[key].as_str().unwrap_or_default());
            // Writing to a string never fails.
            _ = write!(message, "\n  {kind}/{id}: {} since {since}", label.escape_debug());
        }
    }
    if let Some(expires) = problem["expiresAt"].as_str() {
        message.push_str(&format!(", until {expires} unless it is renewed"));
    }
    if let Some(ms) = problem["retryAfterMs"].as_u64() {
        message.push_str(&format!("; try again in {ms} ms"));
    }
    Failure::new(exit, message)
}
