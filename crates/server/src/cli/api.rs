//! The HTTP API as a command sees it: one call, one answer, one exit code.

use std::fmt::Write as _;
use std::time::Duration;

use reqwest::{Client, Method, Url};
use serde_json::{Map, Value};

use super::target::Target;
use super::{FAILURE, Failure, LOST, NOT_GRANTED, UNREACHABLE, USAGE};

/// How long an answer may take: longer than any disk.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A bucket of a server.
pub(super) struct Api {
    client: Client,
    bucket: Url,
}

/// What to ask.
pub(super) struct Call<'a> {
    method: Method,
    path: &'a [&'a str],
    query: Vec<(&'a str, String)>,
    secret: Option<&'a str>,
    body: Option<Value>,
    /// Below the server itself instead of the bucket.
    of_server: bool,
}

impl<'a> Call<'a> {
    /// `path` is what stands below the bucket, in its segments.
    pub(super) fn get(path: &'a [&'a str]) -> Self {
        Self { method: Method::GET, path, query: Vec::new(), secret: None, body: None, of_server: false }
    }

    pub(super) fn post(path: &'a [&'a str]) -> Self {
        Self { method: Method::POST, ..Self::get(path) }
    }

    pub(super) fn delete(path: &'a [&'a str]) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    /// A parameter of the query string.
    pub(super) fn with(mut self, key: &'a str, value: &impl ToString) -> Self {
        self.query.push((key, value.to_string()));
        self
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// What is asked is no matter of a bucket.
    pub(super) fn of_server(mut self) -> Self {
        self.of_server = true;
        self
    }

    /// The secret of the owner who asks.
    pub(super) fn secret(mut self, secret: &'a str) -> Self {
        self.secret = Some(secret);
        self
    }
}

impl Api {
    pub(super) fn new(target: &Target) -> Result<Self, Failure> {
        let usage = |why: &str| Failure::new(USAGE, format_args!("url: {:?}, but {why}", target.url));
        let mut url: Url = target.url.parse().map_err(|_| usage("it must be like http://127.0.0.1:7420"))?;
        match url.scheme() {
            "http" => {}
            "https" => return Err(usage("it must begin with http://, as TLS is not supported yet")),
            _ => return Err(usage("it must begin with http://")),
        }
        let named = url.query_pairs().find(|(key, _)| key == "bucket").map(|(_, bucket)| bucket.into_owned());
        // An unset variable of a script must not choose a bucket of its own, in which nobody else locks.
        let chosen = target.bucket.clone().filter(|bucket| !bucket.is_empty());
        let bucket = chosen.or(named).unwrap_or_else(|| "default".to_owned());
        url.set_path("");
        url.set_query(None);
        let segments = url.path_segments_mut().map(|mut path| _ = path.extend(["v1", "buckets", &bucket]));
        segments.map_err(|()| usage("it must be like http://127.0.0.1:7420"))?;
        let builder = Client::builder().timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT).no_proxy();
        let client = builder.user_agent(concat!("lockhouse-cli/", env!("CARGO_PKG_VERSION"))).build();
        let client = client.map_err(|error| Failure::new(FAILURE, error))?;
        Ok(Self { client, bucket: url })
    }

    /// Asks; the answer's body, `null` if it has none.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Value, Failure> {
        let mut url = self.bucket.clone();
        if call.of_server {
            url.set_path("/v1");
        }
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(call.path);
        }
        let mut request = self.client.request(call.method, url);
        if !call.query.is_empty() {
            request = request.query(&call.query);
        }
        if let Some(secret) = call.secret {
            request = request.bearer_auth(secret);
        }
        if let Some(body) = call.body {
            request = request.header("content-type", "application/json").body(without_null(body).to_string());
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        let body: Value = if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).map_err(|_| {
                let why = format!("{} is no lockhouse server: it answered {status}", self.origin());
                Failure::new(FAILURE, why)
            })?
        };
        if status.is_success() { Ok(body) } else { Err(failure(&body)) }
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
            let mut call = Call::get(path).with("limit", &1000);
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

    fn origin(&self) -> String {
        self.bucket.origin().ascii_serialization()
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut why: &dyn std::error::Error = error;
        while let Some(source) = why.source() {
            why = source;
        }
        let advice = "start one with \"lockhouse serve\", or name another with --url or LOCKHOUSE_URL";
        Failure::new(UNREACHABLE, format_args!("cannot reach {}: {why} ({advice})", self.origin()))
    }
}

/// What was not said is left out.
fn without_null(body: Value) -> Value {
    match body {
        Value::Object(members) => {
            Value::Object(members.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        body => body,
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
