//! The HTTP API, as a client of docs/http.md uses it.

use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;

use crate::history::record::{Completion, Found, Mode, Reason, Thing};

use super::recorder::refusal;
use super::worker::fail;

/// Longer than any answer takes, a server that is started anew included.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client with one connection.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    url: String,
}

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum Reply {
    /// The call was executed; the body of the answer.
    Done(Value),
    /// The call had been executed before, with this answer.
    Replayed(Value),
    /// Not, and never will be.
    Refused(Reason),
    /// The outcome is unknown.
    Unknown,
}

/// The parts of a call beside its path.
#[derive(Debug, Default)]
pub(super) struct With<'a> {
    pub(super) secret: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) body: Option<Value>,
    pub(super) query: &'a [(&'a str, &'a str)],
}

impl Http {
    pub(super) fn new(url: &str) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(PATIENCE).pool_max_idle_per_host(1).no_proxy();
        Ok(Self { client: client.build().context("cannot make an HTTP client")?, url: url.to_owned() })
    }

    pub(super) async fn post(&self, bucket: &str, path: &str, with: With<'_>) -> Reply {
        self.call(Method::POST, bucket, path, with).await
    }

    pub(super) async fn delete(&self, bucket: &str, path: &str, with: With<'_>) -> Reply {
        self.call(Method::DELETE, bucket, path, with).await
    }

    /// All that is held or assigned in the bucket, under names with that prefix.
    pub(super) async fn look(&self, bucket: &str, prefix: &str) -> Result<Vec<Found>, Reply> {
        let query = [("prefix", prefix), ("limit", "1000")];
        match self.call(Method::GET, bucket, "query", With { query: &query, ..With::default() }).await {
            Reply::Done(page) => Ok(found(&page)),
            other => Err(other),
        }
    }

    async fn call(&self, method: Method, bucket: &str, path: &str, with: With<'_>) -> Reply {
        let url = format!("{}/v1/buckets/{bucket}/{path}", self.url);
        let mut request = self.client.request(method, url).query(with.query);
        if let Some(secret) = with.secret {
            request = request.bearer_auth(secret);
        }
        if let Some(key) = with.key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = with.body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        match answer(request).await {
            Ok((status, true, body)) if status.is_success() => Reply::Replayed(body),
            Ok((status, false, body)) if status.is_success() => Reply::Done(body),
            Ok((_, _, problem)) if problem["code"] == "outcome_unknown" => Reply::Unknown,
            Ok((_, _, problem)) => match reason(&problem) {
                Some(reason) => Reply::Refused(reason),
                None => fail(format_args!("{path} in bucket {bucket:?} was answered with {problem}")),
            },
            // The request was not even sent.
            Err(error) if error.is_connect() => Reply::Refused(Reason::Other),
            Err(_) => Reply::Unknown,
        }
    }
}

/// The status, whether the answer is a replay, and the body.
async fn answer(request: RequestBuilder) -> reqwest::Result<(StatusCode, bool, Value)> {
    let response = request.send().await?;
    let (status, replayed) = (response.status(), response.headers().contains_key("idempotency-replayed"));
    let body = response.bytes().await?;
    traces::answer(&String::from_utf8_lossy(&body));
    // An answer without a body has no more information.
    Ok((status, replayed, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

impl Reply {
    /// The record of a call that was not certainly executed.
    pub(super) fn failure(&self) -> Completion {
        match self {
            Self::Refused(reason) => refusal(*reason),
            Self::Done(_) | Self::Replayed(_) | Self::Unknown => Completion::Unknown,
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    pub(super) fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(reason) => Some(*reason),
            Self::Done(_) | Self::Replayed(_) | Self::Unknown => None,
        }
    }
}

/// The reason; none if these clients cannot have caused the problem, such as `unauthorized` or `internal`.
fn reason(problem: &Value) -> Option<Reason> {
    Some(match problem["code"].as_str()? {
        "locked" | "busy" => Reason::Busy,
        "claimed" => Reason::Claimed,
        "already_assigned" => Reason::AlreadyAssigned,
        "claim_expired" => Reason::ClaimExpired,
        "claim_lost" => Reason::ClaimLost,
        "unknown_owner" => Reason::OwnerGone,
        "recovering" => Reason::Recovering,
        "unavailable" => Reason::Unavailable,
        "conflict_in_flight" => Reason::Other,
        _ => return None,
    })
}

fn found(page: &Value) -> Vec<Found> {
    page["entries"].as_array().into_iter().flatten().filter_map(thing).collect()
}

/// The thing that an entry shows; none for a request that waits.
fn thing(entry: &Value) -> Option<Found> {
    let text = |key: &str| entry[key].as_str().map(str::to_owned);
    let mode = if entry["mode"] == "shared" { Mode::Shared } else { Mode::Exclusive };
    let thing = match entry["kind"].as_str()? {
        "web" => Thing::Web { mode },
        "offline" => Thing::Offline { owner: text("owner")?, mode },
        "claim" => Thing::Claim { claimant: text("clientId")? },
        _ => Thing::Assignment { claimant: text("clientId")? },
    };
    Some(Found { name: text("name")?, thing, token: entry["fencingToken"].as_u64()? })
}
