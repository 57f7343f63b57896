//! Requests of the HTTP API, through the router of a real server.
//!
//! An input is a script of requests as one would type them, a line `%%` between two of them, and in them
//! `$OWNER`, `$SECRET` and `$TOKEN` for the value in the last answer that had one:
//!
//! ```text
//! POST /v1/buckets/default/claims
//!
//! {"resource": "seat", "claimant": "Anna"}
//! %%
//! POST /v1/buckets/default/claims/finalize
//!
//! {"resource": "seat", "token": "$TOKEN"}
//! ```

use std::collections::HashMap;
use std::sync::OnceLock;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::BodyExt;
use lockhouse_server::{Config, Server, router};
use lockhouse_wire::name_from_json;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tower::ServiceExt;

use crate::promise;

/// More requests add nothing but time.
const REQUESTS: usize = 12;

/// The length of the longest problem, unless it lists other holders.
const PROBLEM_BYTES: usize = 4096;

/// Every answer is one that the API's own document knows, in bounds, and in the right form; nothing is a
/// fault of the server; a request that is sent again under its key is answered the same; and no problem
/// repeats a secret.
pub fn http(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime of one thread").block_on(play(data));
}

async fn play(data: &[u8]) {
    let mut script = Script { router: router(Server::new(Config::default())), answered: HashMap::new() };
    for request in split(data, b"\n%%\n").take(REQUESTS) {
        let Some(sent) = Sent::parse(&script.fill_in(request)) else { continue };
        let answer = script.send(&sent).await;
        check(&sent, &answer, &script.answered);
        if sent.is_repeatable() && answer.status.is_success() {
            let again = script.send(&sent).await;
            assert_eq!((again.status, &again.body), (answer.status, &answer.body), "{sent:?} sent again");
        }
        script.remember(&answer);
    }
}

struct Script {
    router: Router,
    /// The values of `$OWNER` and the others.
    answered: HashMap<&'static str, String>,
}

impl Script {
    fn fill_in(&self, request: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(request) else { return request.to_vec() };
        let filled =
            self.answered.iter().fold(text.to_owned(), |text, (key, value)| text.replace(key, value));
        filled.into_bytes()
    }

    async fn send(&self, sent: &Sent) -> Answer {
        let mut request = Request::new(Body::from(sent.body.clone()));
        *request.method_mut() = sent.method.clone();
        *request.uri_mut() = sent.uri.clone();
        *request.headers_mut() = sent.headers.clone();
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let is_stream = parts.headers.get(header::CONTENT_TYPE).is_some_and(|it| it == "text/event-stream");
        if is_stream {
            // It has no end, and its beginning is the same for all.
            return Answer { status: parts.status, headers: parts.headers, body: Vec::new() };
        }
        let body = body.collect().await.expect("a body that is whole").to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    fn remember(&mut self, answer: &Answer) {
        let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else { return };
        for (placeholder, member) in [("$OWNER", "owner"), ("$SECRET", "ownerSecret"), ("$TOKEN", "token")] {
            if let Some(value) = body[member].as_str() {
                self.answered.insert(placeholder, value.to_owned());
            }
        }
    }
}

#[derive(Debug)]
struct Sent {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Vec<u8>,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Sent {
    /// `None` if no HTTP server would take the bytes for a request. Headers that every client sends are added
    /// where they are missing.
    fn parse(request: &[u8]) -> Option<Self> {
        let mut parts = split(request, b"\n\n");
        let head = parts.next()?;
        let body = request.get(head.len() + 2..).unwrap_or_default().to_vec();
        let mut lines = split(head, b"\n");
        let mut first = split(lines.next()?, b" ");
        let method = Method::from_bytes(first.next()?).ok()?;
        let uri: Uri = first.next()?.try_into().ok()?;
        let mut headers = HeaderMap::new();
        for line in lines {
            let at = line.iter().position(|byte| *byte == b':')?;
            let name = HeaderName::from_bytes(&line[..at]).ok()?;
            headers.try_append(name, HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?).ok()?;
        }
        headers.entry(header::HOST).or_insert(HeaderValue::from_static("127.0.0.1:7420"));
        headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        Some(Self { method, uri, headers, body })
    }

    fn is_repeatable(&self) -> bool {
        matches!(self.method, Method::POST | Method::DELETE) && self.headers.contains_key("idempotency-key")
    }
}

fn check(sent: &Sent, answer: &Answer, answered: &HashMap<&'static str, String>) {
    let Answer { status, headers, body } = answer;
    let text = String::from_utf8_lossy(body);
    promise!(*status != StatusCode::INTERNAL_SERVER_ERROR, "{sent:?} is a fault of the server: {text}");
    let path = sent.uri.path();
    if let Some(known) = documented(&sent.method, path) {
        promise!(
            known.contains(&status.as_u16()),
            "{sent:?} is answered by {status}, which no document knows"
        );
        promise!(headers[header::X_CONTENT_TYPE_OPTIONS] == "nosniff", "{sent:?}: {headers:?}");
        if status.is_success() {
            check_name(sent, body);
        }
    }
    if status.as_u16() >= 400 && path.starts_with("/v1/buckets/") && sent.method != Method::HEAD {
        problem(sent, answer);
        for secret in ["$SECRET", "$TOKEN"].iter().filter_map(|key| answered.get(key)) {
            promise!(!text.contains(secret) || shows(sent, secret), "{sent:?} is told a secret: {text}");
        }
    }
}

/// <https://www.rfc-editor.org/rfc/rfc9457>
fn problem(sent: &Sent, answer: &Answer) {
    let Answer { status, headers, body } = answer;
    assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json", "{sent:?}");
    let problem: Value = serde_json::from_slice(body).expect("a problem is JSON");
    let word = problem["code"].as_str().expect("a problem has its code");
    assert_eq!(problem["status"], status.as_u16(), "{sent:?}: {problem}");
    let levels = sent.uri.path().matches('/').count();
    let root = if levels > 16 { "/".to_owned() } else { "../".repeat(levels - 1) };
    assert_eq!(problem["type"], format!("{root}problems/{word}"), "{sent:?}: {problem}");
    for member in ["title", "detail"] {
        promise!(
            problem[member].as_str().is_some_and(|it| !it.is_empty()),
            "{sent:?}: {problem} lacks {member}"
        );
    }
    if *status == StatusCode::UNPROCESSABLE_ENTITY {
        promise!(
            problem["field"].is_string() && problem["rule"].is_string(),
            "{sent:?}: {problem} names no field"
        );
    }
    let value = problem["value"].as_str().unwrap_or_default();
    promise!(value.chars().count() <= 64, "{sent:?}: {problem} repeats too much");
    let of_others = ["holders", "conflicts", "assignment"].iter().any(|member| !problem[*member].is_null());
    promise!(
        of_others || body.len() <= PROBLEM_BYTES,
        "{sent:?}: a problem of {} bytes: {problem}",
        body.len()
    );
    promise!(!headers.contains_key(header::RETRY_AFTER) || problem["retryAfterMs"].is_u64(), "{problem}");
}

/// The name in the answer is the one of the request, unit by unit.
fn check_name(sent: &Sent, body: &[u8]) {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        resource: Option<&'a RawValue>,
    }
    let name = |json: &[u8]| {
        let named: Named<'_> = serde_json::from_slice(json).ok()?;
        name_from_json(named.resource?.get()).ok()
    };
    if let (Some(asked), Some(answered)) = (name(&sent.body), name(body)) {
        assert_eq!(answered, asked, "{sent:?}");
    }
}

/// Whether the request itself shows the secret where it is taken for something else.
fn shows(sent: &Sent, secret: &str) -> bool {
    let mut body: Value = match serde_json::from_slice(&sent.body) {
        Ok(body) => body,
        Err(_) => return String::from_utf8_lossy(&sent.body).contains(secret),
    };
    if let Some(members) = body.as_object_mut() {
        members.remove("token");
    }
    body.to_string().contains(secret) || sent.uri.to_string().contains(secret)
}

/// By the template of a path and by the method, the statuses that are known.
type Document = Vec<(String, HashMap<String, Vec<u16>>)>;

/// The statuses that the OpenAPI document lists for this path, if it lists the path.
fn documented(method: &Method, path: &str) -> Option<&'static Vec<u16>> {
    static DOCUMENT: OnceLock<Document> = OnceLock::new();
    let (_, methods) =
        DOCUMENT.get_or_init(read_document).iter().find(|(template, _)| fits(template, path))?;
    // `PoST` is another method than `POST`.
    methods.get(method.as_str())
}

fn fits(template: &str, path: &str) -> bool {
    let (mut known, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (known.next(), given.next()) {
            (None, None) => return true,
            (Some(known), Some(given)) if known == given || (known.starts_with('{') && !given.is_empty()) => {
            }
            _ => return false,
        }
    }
}

/// Asks a server of its own: this one is asked from within another runtime.
fn read_document() -> Document {
    let asked = std::thread::spawn(|| {
        let router = router(Server::new(Config::default()));
        let request =
            Request::get("/openapi.json").header(header::HOST, "127.0.0.1:7420").body(Body::empty());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let Ok(response) = router.oneshot(request.expect("a plain request")).await;
            response.into_body().collect().await.expect("a document").to_bytes()
        })
    });
    let document: Value =
        serde_json::from_slice(&asked.join().expect("a document")).expect("the document is JSON");
    let paths = document["paths"].as_object().expect("the document has paths");
    let statuses = |operation: &Value| -> Vec<u16> {
        let responses = operation["responses"].as_object().into_iter().flatten();
        responses.filter_map(|(status, _)| status.parse().ok()).collect()
    };
    let methods = |path: &Value| {
        let operations = path.as_object().into_iter().flatten();
        operations.map(|(method, operation)| (method.to_ascii_uppercase(), statuses(operation))).collect()
    };
    let mut all: Document = paths.iter().map(|(template, path)| (template.clone(), methods(path))).collect();
    // A path that is written out goes before one with a place for anything.
    all.sort_by_key(|(template, _)| template.matches('{').count());
    all
}

fn split<'a>(bytes: &'a [u8], by: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest?;
        match bytes.windows(by.len()).position(|window| window == by) {
            Some(at) => {
                rest = Some(&bytes[at + by.len()..]);
                Some(&bytes[..at])
            }
            None => rest.take(),
        }
    })
}
