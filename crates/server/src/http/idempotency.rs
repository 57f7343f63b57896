//! `Idempotency-Key`: a POST or DELETE that is sent again, as its answer was lost, is answered again and not carried out again.
//!
//! What a key stands for is one request of one caller: tenant, bucket, caller, method, path and the owner's secret tell keys apart, and query string and
//! body must be the same.
//! Only successes are remembered. A refusal has changed nothing, so that the same request may be carried out anew, and be
//! told the truth of then.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockhouse::BucketKey;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::access::{Caller, charge_more};
use super::body::collect;
use super::problem::{Code, Problem};
use super::read::Read;
use super::rules::IDEMPOTENCY_KEY;
use crate::config::{HTTP_BODY_BYTES, IDEMPOTENCY_AGE, IDEMPOTENCY_KEYS, IDEMPOTENCY_KEYS_PER_BUCKET};
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

/// The value of the header, for a handler.
pub(super) struct GivenKey(pub(super) Option<String>);

impl FromRequestParts<Arc<Server>> for GivenKey {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Server>) -> Read<Self> {
        key(&parts.headers).map(|key| Self(key.map(str::to_owned)))
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
    let body = match collect(body, HTTP_BODY_BYTES).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    // What it costs to tell it from others: the frames of the WebSocket count by the KiB, too.
    if let Err(problem) = charge_more(server, bucket.tenant(), body.len() >> 10) {
        return problem.into_response();
    }
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
    /// In those of each tenant that has any.
    of_tenant: HashMap<String, Holding>,
    /// The tenants by how many they have.
    tenants: BTreeSet<(usize, String)>,
    swept: Option<Instant>,
}

/// The answers of one tenant.
#[derive(Debug, Default)]
struct Holding {
    count: usize,
    /// Its buckets by how many they have.
    buckets: BTreeSet<(usize, BucketKey)>,
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
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Without the body, in which the secret of an owner or a claim may be.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
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
        shelves.has_one_more(bucket);
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
        let mut forgotten = Vec::new();
        for (bucket, shelf) in &mut self.by_bucket {
            while shelf.oldest().is_some_and(|slot| now.duration_since(slot.since) > IDEMPOTENCY_AGE) {
                shelf.forget(0);
                forgotten.push((bucket.clone(), shelf.slots.len()));
            }
        }
        self.by_bucket.retain(|_, shelf| !shelf.slots.is_empty());
        forgotten.iter().for_each(|(bucket, left)| self.has_one_less(bucket, *left));
    }

    /// Forgets the oldest answers until there is room for one more in that bucket: of the bucket, if it is full; if all are, of the tenant that has
    /// most, and there of the bucket that has most. False if there is none.
    fn make_room(&mut self, bucket: &BucketKey) -> bool {
        while self.by_bucket.get(bucket).is_some_and(|shelf| shelf.slots.len() >= IDEMPOTENCY_KEYS_PER_BUCKET)
        {
            if !self.forget_oldest(bucket) {
                return false;
            }
        }
        while self.count >= IDEMPOTENCY_KEYS {
            let hog = self.fullest().filter(|hog| self.forget_oldest(hog));
            if hog.is_none() && !self.forget_oldest(bucket) {
                return false;
            }
        }
        true
    }

    /// The bucket that has most, of the tenant that has most.
    fn fullest(&self) -> Option<BucketKey> {
        let (_, hog) = self.tenants.last()?;
        self.of_tenant[hog].buckets.last().map(|(_, bucket)| bucket.clone())
    }

    /// Forgets the oldest answer of the bucket; false if there is none.
    fn forget_oldest(&mut self, bucket: &BucketKey) -> bool {
        let Some(shelf) = self.by_bucket.get_mut(bucket) else { return false };
        let Some(place) = shelf.order.iter().position(|id| shelf.slots[id].answer.is_some()) else {
            return false;
        };
        shelf.forget(place);
        let left = shelf.slots.len();
        self.has_one_less(bucket, left);
        true
    }

    /// The bucket has got one.
    fn has_one_more(&mut self, bucket: &BucketKey) {
        let now = self.by_bucket.get(bucket).map_or(0, |shelf| shelf.slots.len());
        self.count += 1;
        self.move_up(bucket, now - 1, now);
    }

    /// The bucket has lost one, and has so many left.
    fn has_one_less(&mut self, bucket: &BucketKey, left: usize) {
        self.count -= 1;
        self.move_up(bucket, left + 1, left);
    }

    /// Puts bucket and tenant where they belong, as the count of the bucket has changed by one.
    fn move_up(&mut self, bucket: &BucketKey, before: usize, now: usize) {
        let tenant = bucket.tenant();
        let mut holding = self.of_tenant.remove(tenant).unwrap_or_default();
        self.tenants.remove(&(holding.count, tenant.to_owned()));
        holding.buckets.remove(&(before, bucket.clone()));
        holding.count = holding.count + now - before;
        if now > 0 {
            holding.buckets.insert((now, bucket.clone()));
        }
        if holding.count > 0 {
            self.tenants.insert((holding.count, tenant.to_owned()));
            self.of_tenant.insert(tenant.to_owned(), holding);
        }
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
            let left = shelf.slots.len();
            shelves.has_one_less(&self.bucket, left);
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

    /// A bucket of that tenant.
    fn of_tenant(tenant: &str, bucket: usize) -> BucketKey {
        // Each bucket in a partition of its own, as whoever may choose both does.
        let partition = format!("\u{1f}{tenant}\u{1f}\u{1f}\u{1f}{bucket}");
        BucketKey { bucket: bucket.to_string(), partition }
    }

    async fn answer_in(answers: &Arc<Answers>, bucket: &BucketKey, number: usize) -> bool {
        match answers.begin(bucket, id(number), id(0)) {
            Begin::First(pending) => {
                pending.keep((StatusCode::OK, "told").into_response()).await;
                true
            }
            Begin::Again(_) => true,
            Begin::Refused(_) => false,
        }
    }

    #[tokio::test]
    async fn a_tenant_that_fills_all_shelves_takes_no_room_from_another() {
        let answers = Arc::new(Answers::default());
        let quiet = of_tenant("quiet", 0);
        assert!(answer_in(&answers, &quiet, 0).await);
        for bucket in 0..=IDEMPOTENCY_KEYS / IDEMPOTENCY_KEYS_PER_BUCKET {
            for number in 0..IDEMPOTENCY_KEYS_PER_BUCKET {
                assert!(answer_in(&answers, &of_tenant("loud", bucket), number).await);
            }
        }
        assert_eq!(answers.0.lock().count, IDEMPOTENCY_KEYS);
        for number in 1..100 {
            assert!(answer_in(&answers, &quiet, number).await, "there is no room for {number}");
            assert!(
                answer_in(&answers, &of_tenant("new", 0), number).await,
                "there is no room for somebody new"
            );
        }
        let shelves = answers.0.lock();
        assert_eq!((shelves.count, shelves.by_bucket[&quiet].slots.len()), (IDEMPOTENCY_KEYS, 100));
        assert_eq!(shelves.of_tenant.values().map(|holding| holding.count).sum::<usize>(), IDEMPOTENCY_KEYS);
        shelves.check();
    }

    impl Shelves {
        /// Whether the order is that of what there is.
        fn check(&self) {
            let mut of_tenant: HashMap<&str, usize> = HashMap::new();
            for (bucket, shelf) in self.by_bucket.iter().filter(|(_, shelf)| !shelf.slots.is_empty()) {
                *of_tenant.entry(bucket.tenant()).or_default() += shelf.slots.len();
                assert!(
                    self.of_tenant[bucket.tenant()].buckets.contains(&(shelf.slots.len(), bucket.clone()))
                );
            }
            let counts: Vec<_> =
                self.of_tenant.iter().map(|(tenant, holding)| (&**tenant, holding.count)).collect();
            assert_eq!(counts.into_iter().collect::<HashMap<_, _>>(), of_tenant);
            let ranked: HashMap<_, _> =
                self.tenants.iter().map(|(count, tenant)| (&**tenant, *count)).collect();
            assert_eq!((ranked.len(), ranked), (self.tenants.len(), of_tenant));
            let buckets: usize = self.of_tenant.values().map(|holding| holding.buckets.len()).sum();
            assert_eq!(buckets, self.by_bucket.values().filter(|shelf| !shelf.slots.is_empty()).count());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whose_answers_go_first_is_known_whatever_came_and_went() {
        let answers = Arc::new(Answers::default());
        for number in 0..300 {
            let bucket = of_tenant(["a", "b", "c"][number % 3], number % 7);
            match answers.begin(&bucket, id(number), id(0)) {
                Begin::First(pending) if number % 5 > 0 => {
                    pending.keep((StatusCode::OK, "told").into_response()).await;
                }
                // Others are dropped.
                _ => {}
            }
            if number % 11 == 0 {
                answers.0.lock().forget_oldest(&bucket);
            }
            if number % 50 == 49 {
                tokio::time::advance(IDEMPOTENCY_AGE / 3).await;
            }
            answers.0.lock().check();
        }
    }

    /// Each of a hundred thousand buckets has one answer: who looked at all of them for each call would look at four billion.
    #[tokio::test]
    async fn a_call_costs_little_however_many_buckets_have_answers() {
        let answers = Arc::new(Answers::default());
        for bucket in 0..IDEMPOTENCY_KEYS {
            assert!(answer_in(&answers, &of_tenant("loud", bucket), 0).await);
        }
        let begun = std::time::Instant::now();
        for number in 0..40_000 {
            assert!(answer_in(&answers, &of_tenant("quiet", 0), number).await);
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        answers.0.lock().check();
    }
}
