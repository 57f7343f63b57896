//! The HTTP API, as a client of docs/http.md uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use proofs::history::record::{Completion, Found, Mode, Reason, Thing};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;

use super::recorder::refusal;
use super::worker::fail;

/// Longer than any answer takes, a server that is started anew included.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client with one connection to one of several servers.
#[derive(Clone, Debug)]
pub(crate) struct HttpCaller {
    client: reqwest::Client,
    urls: Arc<[String]>,
    /// The key that the servers want.
    key: Option<String>,
    /// Which of the servers: after a call without an answer the next one.
    current: Arc<AtomicUsize>,
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum CallReply {
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
pub(crate) struct With<'a> {
    pub(crate) secret: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) body: Option<Value>,
    pub(crate) query: &'a [(&'a str, &'a str)],
}

impl HttpCaller {
    pub(crate) fn new(urls: &[String], key: Option<&str>) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(PATIENCE).pool_max_idle_per_host(1).no_proxy();
        Ok(Self {
            client: client.build().context("cannot make an HTTP client")?,
            urls: urls.into(),
            key: key.map(str::to_owned),
            current: Arc::default(),
        })
    }

    /// Begins with that one of the servers.
    pub(crate) fn at(self, server: usize) -> Self {
        self.current.store(server, Ordering::Relaxed);
        self
    }

    pub(crate) async fn post(&self, bucket: &str, path: &str, with: With<'_>) -> CallReply {
        self.call(Method::POST, bucket, path, with).await
    }

    pub(crate) async fn delete(&self, bucket: &str, path: &str, with: With<'_>) -> CallReply {
        self.call(Method::DELETE, bucket, path, with).await
    }

    /// All that is held or assigned in the bucket, under names with that prefix.
    pub(crate) async fn look(&self, bucket: &str, prefix: &str) -> Result<Vec<Found>, CallReply> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let mut query = vec![("prefix", prefix), ("limit", "1000")];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            match self.call(Method::GET, bucket, "query", With { query: &query, ..With::default() }).await {
                CallReply::Done(page) => {
                    all.extend(found(&page));
                    cursor = page["next"].as_str().map(str::to_owned);
                }
                other => return Err(other),
            }
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn call(&self, method: Method, bucket: &str, path: &str, with: With<'_>) -> CallReply {
        let current = self.current.load(Ordering::Relaxed);
        let url = &self.urls[current % self.urls.len()];
        let url = format!("{url}/v1/buckets/{bucket}/{path}");
        let mut request = self.client.request(method, url).query(with.query);
        if let Some(key) = &self.key {
            request = request.header("Lockhouse-Key", key);
        }
        if let Some(secret) = with.secret {
            request = request.bearer_auth(secret);
        }
        if let Some(key) = with.key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = with.body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let answer = answer(request).await;
        if answer.is_err() {
            self.current.store(current + 1, Ordering::Relaxed);
        }
        match answer {
            Ok((status, true, body)) if status.is_success() => CallReply::Replayed(body),
            Ok((status, false, body)) if status.is_success() => CallReply::Done(body),
            Ok((_, _, problem)) if problem["code"] == "outcome_unknown" => CallReply::Unknown,
            Ok((_, _, problem)) => match reason(&problem) {
                Some(reason) => CallReply::Refused(reason),
                None => fail(format_args!("{path} in bucket {bucket:?} was answered with {problem}")),
            },
            // The request was not even sent.
            Err(error) if error.is_connect() => CallReply::Refused(Reason::Other),
            Err(_) => CallReply::Unknown,
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

impl CallReply {
    /// The record of a call that was not certainly executed.
    pub(crate) fn failure(&self) -> Completion {
        match self {
            Self::Refused(reason) => refusal(*reason),
            Self::Done(_) | Self::Replayed(_) | Self::Unknown => Completion::Unknown,
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
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
        "conflict_in_flight" | "moving" | "closing" => Reason::Other,
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
