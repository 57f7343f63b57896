//! `Idempotency-Key`: a POST or DELETE that is sent again, as its answer was lost, is answered again and not carried out again.
//!
//! What a key stands for is one request of one caller: tenant, bucket, caller, method, path and the owner's secret tell keys apart, and query string and
//! body must be the same.
//! Only successes are remembered. A refusal has changed nothing, so that the same request may be carried out anew, and be
//! told the truth of then.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockhouse::BucketKey;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::access::Caller;
use super::body::collect;
use super::problem::{Code, Problem};
use super::read::Read;
use super::rules::IDEMPOTENCY_KEY;
use crate::config::{IDEMPOTENCY_AGE, IDEMPOTENCY_KEYS, IDEMPOTENCY_KEYS_PER_BUCKET};
use crate::server::Server;

/// The header of a request.
pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The header of an answer that was given before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What is told again of an answer, beside status and body.
const REPEATED: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::CACHE_CONTROL];

/// The value of the header; `None` if there is none.
pub(super) fn key(headers: &HeaderMap) -> Read<Option<&str>> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| IDEMPOTENCY_KEY.admits(text) && values.next().is_none());
    match text {
        Some(text) => Ok(Some(text)),
        None => Err(Problem::field(Code::Invalid, "Idempotency-Key", IDEMPOTENCY_KEY.words())),
    }
}

/// Answers a POST or DELETE that has a key. What is wrong with a request is left to the handler to tell, in its order.
pub(super) async fn once(server: &Arc<Server>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, server).await;
    let (Ok(Caller { identity, bucket: Some(bucket) }), Ok(Some(key))) = (caller, key(&parts.headers)) else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    let key = key.to_owned();
    let body = match collect(body).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let (method, path) = (parts.method.as_str().as_bytes(), parts.uri.path().as_bytes());
    let secret = bytes_of(&parts.headers, &header::AUTHORIZATION);
    let id = digest(&[key.as_bytes(), identity.name.as_bytes(), method, path, secret]);
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let content = digest(&[query, &body, bytes_of(&parts.headers, &header::CONTENT_TYPE)]);
    match server.answers.begin(&bucket, id, content) {
        Begin::First(pending) => {
            let request = Request::from_parts(parts, Body::from(body));
            // To its end, even if the caller goes away meanwhile: it will come again and want the answer.
            let work = tokio::spawn(async move { pending.keep(next.run(request).await).await });
            work.await.unwrap_or_else(|error| {
                tracing::error!(%error, "a request failed");
                Problem::new(Code::Internal, "the server failed").into_response()
            })
        }
        Begin::Again(answer) => answer.response(),
        Begin::Refused(problem) => problem.into_response(),
    }
}

fn bytes_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h [u8] {
    headers.get(name).map_or(b"", HeaderValue::as_bytes)
}

type Id = [u8; 32];

fn digest(parts: &[&[u8]]) -> Id {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The answers of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    by_bucket: HashMap<BucketKey, Shelf>,
    /// In all shelves together.
    count: usize,
    swept: Option<Instant>,
}

/// The answers of one bucket.
#[derive(Debug, Default)]
struct Shelf {
    slots: HashMap<Id, Slot>,
    /// The same, oldest first.
    order: VecDeque<Id>,
}

#[derive(Debug)]
struct Slot {
    content: Id,
    since: Instant,
    /// `None` while the request is under way.
    answer: Option<Arc<Answer>>,
}

/// An answer that can be given again.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

enum Begin {
    First(Pending),
    Again(Arc<Answer>),
    Refused(Box<Problem>),
}

impl Answers {
    fn begin(self: &Arc<Self>, bucket: &BucketKey, id: Id, content: Id) -> Begin {
        let now = Instant::now();
        let mut shelves = self.0.lock();
        shelves.sweep(now);
        if let Some(slot) = shelves.by_bucket.get(bucket).and_then(|shelf| shelf.slots.get(&id)) {
            return match &slot.answer {
                _ if slot.content != content => {
                    let rule = "a new key for a request with another query or body";
                    Begin::Refused(Problem::field(Code::IdempotencyMismatch, "Idempotency-Key", rule))
                }
                Some(answer) => Begin::Again(answer.clone()),
                None => {
                    let why = "the request with the same Idempotency-Key has not been answered yet";
                    let pause = Duration::from_secs(1);
                    Begin::Refused(Problem::new(Code::ConflictInFlight, why).retry_after(pause))
                }
            };
        }
        if !shelves.make_room(bucket) {
            let why = "too many requests with an Idempotency-Key are remembered or under way";
            return Begin::Refused(
                Problem::new(Code::QuotaExceeded, why).retry_after(Duration::from_secs(1)),
            );
        }
        let shelf = shelves.by_bucket.entry(bucket.clone()).or_default();
        shelf.slots.insert(id, Slot { content, since: now, answer: None });
        shelf.order.push_back(id);
        shelves.count += 1;
        Begin::First(Pending { answers: self.clone(), bucket: bucket.clone(), id, kept: false })
    }
}

impl Shelves {
    /// Forgets what is too old, in all buckets, every now and then.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        for shelf in self.by_bucket.values_mut() {
            while shelf.oldest().is_some_and(|slot| now.duration_since(slot.since) > IDEMPOTENCY_AGE) {
                shelf.forget(0);
                self.count -= 1;
            }
        }
        self.by_bucket.retain(|_, shelf| !shelf.slots.is_empty());
    }

    /// Forgets the oldest answers of the bucket until there is room for one more; false if there is none.
    fn make_room(&mut self, bucket: &BucketKey) -> bool {
        let Some(shelf) = self.by_bucket.get_mut(bucket) else { return self.count < IDEMPOTENCY_KEYS };
        while shelf.slots.len() >= IDEMPOTENCY_KEYS_PER_BUCKET || self.count >= IDEMPOTENCY_KEYS {
            let Some(oldest) = shelf.order.iter().position(|id| shelf.slots[id].answer.is_some()) else {
                return false;
            };
            shelf.forget(oldest);
            self.count -= 1;
        }
        true
    }
}

/// What is older than [`IDEMPOTENCY_AGE`] stays at most this much longer.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

impl Shelf {
    fn oldest(&self) -> Option<&Slot> {
        self.order.front().map(|id| &self.slots[id])
    }

    fn forget(&mut self, place: usize) {
        let forgotten = self.order.remove(place);
        forgotten.map(|id| self.slots.remove(&id));
    }
}

/// A request under way; dropped without an answer, the key is free again.
struct Pending {
    answers: Arc<Answers>,
    bucket: BucketKey,
    id: Id,
    kept: bool,
}

impl Pending {
    async fn keep(mut self, response: Response) -> Response {
        if !response.status().is_success() {
            return response;
        }
        let (parts, body) = response.into_parts();
        // Answers to a POST or DELETE are small and whole.
        let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
            return Problem::new(Code::Internal, "the answer broke off").into_response();
        };
        let repeated =
            REPEATED.into_iter().filter_map(|name| Some((name.clone(), parts.headers.get(name)?.clone())));
        let answer = Answer { status: parts.status, headers: repeated.collect(), body: body.clone() };
        if let Some(slot) = self.slot(&mut self.answers.0.lock()) {
            slot.answer = Some(Arc::new(answer));
        }
        self.kept = true;
        Response::from_parts(parts, Body::from(body))
    }

    fn slot<'s>(&self, shelves: &'s mut Shelves) -> Option<&'s mut Slot> {
        shelves.by_bucket.get_mut(&self.bucket)?.slots.get_mut(&self.id)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut shelves = self.answers.0.lock();
        let Some(shelf) = shelves.by_bucket.get_mut(&self.bucket) else { return };
        // It came lately, if it has not been forgotten.
        if let Some(place) = shelf.order.iter().rposition(|id| *id == self.id) {
            shelf.forget(place);
            shelves.count -= 1;
        }
    }
}

impl Answer {
    fn response(&self) -> Response {
        let mut response = (self.status, self.headers.clone(), self.body.clone()).into_response();
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> Id {
        digest(&[&number.to_le_bytes()])
    }

    async fn answer(answers: &Arc<Answers>, bucket: &str, number: usize, status: StatusCode) {
        let Begin::First(pending) = answers.begin(&bucket.into(), id(number), id(0)) else {
            panic!("{number} is not new");
        };
        pending.keep((status, "told").into_response()).await;
    }

    fn is_known(answers: &Arc<Answers>, bucket: &str, number: usize) -> bool {
        match answers.begin(&bucket.into(), id(number), id(0)) {
            Begin::Again(_) => true,
            Begin::First(_) => false,
            Begin::Refused(problem) => panic!("{problem:?}"),
        }
    }

    #[tokio::test]
    async fn a_success_is_told_again_and_a_refusal_is_not() {
        let answers = Arc::new(Answers::default());
        answer(&answers, "b", 1, StatusCode::CREATED).await;
        answer(&answers, "b", 2, StatusCode::LOCKED).await;
        assert!(is_known(&answers, "b", 1));
        assert!(!is_known(&answers, "b", 2));
        assert!(!is_known(&answers, "other", 1), "each bucket has keys of its own");
        assert_eq!(answers.0.lock().count, 1);
    }

    #[tokio::test]
    async fn a_request_under_way_is_a_conflict_until_it_is_answered_or_dropped() {
        let answers = Arc::new(Answers::default());
        let Begin::First(pending) = answers.begin(&"b".into(), id(1), id(0)) else { panic!() };
        let Begin::Refused(problem) = answers.begin(&"b".into(), id(1), id(0)) else { panic!() };
        assert_eq!(problem.code, Code::ConflictInFlight);
        let Begin::Refused(problem) = answers.begin(&"b".into(), id(1), id(7)) else { panic!() };
        assert_eq!(problem.code, Code::IdempotencyMismatch);
        drop(pending);
        assert!(!is_known(&answers, "b", 1));
        assert_eq!(answers.0.lock().count, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_forgotten_after_its_age_in_every_bucket() {
        let answers = Arc::new(Answers::default());
        answer(&answers, "a", 1, StatusCode::OK).await;
        tokio::time::advance(IDEMPOTENCY_AGE).await;
        assert!(is_known(&answers, "a", 1));
        tokio::time::advance(2 * SWEEP_EVERY).await;
        assert!(!is_known(&answers, "b", 1));
        let shelves = answers.0.lock();
        assert_eq!((shelves.count, shelves.by_bucket.len()), (0, 1));
        assert!(shelves.by_bucket[&"b".into()].slots.is_empty());
    }

    #[tokio::test]
    async fn a_full_bucket_forgets_its_oldest_answer_and_no_other_buckets() {
        let answers = Arc::new(Answers::default());
        answer(&answers, "other", 0, StatusCode::OK).await;
        for number in 0..=IDEMPOTENCY_KEYS_PER_BUCKET {
            answer(&answers, "b", number, StatusCode::OK).await;
        }
        assert!(is_known(&answers, "other", 0));
        assert!(is_known(&answers, "b", 1));
        assert!(!is_known(&answers, "b", 0));
    }
}
