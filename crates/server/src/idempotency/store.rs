//! The store of answers to requests with an `Idempotency-Key`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, header};
use axum::response::Response;
use lockhouse::BucketKey;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::answer::{RequestDigest, StoredAnswer};
use super::bucket_answers::{BucketAnswers, Load, Remembered};
use super::usage_index::UsageIndex;
use crate::bounds::{
    IDEMPOTENCY_AGE, IDEMPOTENCY_BYTES, IDEMPOTENCY_BYTES_PER_TENANT, IDEMPOTENCY_KEYS,
    IDEMPOTENCY_KEYS_PER_BUCKET,
};

/// The headers of an answer that are sent again, beside status and body.
const REPEATED: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::CACHE_CONTROL];

/// The answers of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyStore(Mutex<BucketMap>);

#[derive(Debug, Default)]
struct BucketMap {
    by_bucket: HashMap<BucketKey, BucketAnswers>,
    /// The number of requests of each bucket, under way or answered.
    counts: UsageIndex,
    /// The bytes of their answers.
    bytes: UsageIndex,
    swept: Option<Instant>,
}

/// The state of a request with a key.
pub(crate) enum Begin {
    /// The request is the first, and to be carried out.
    First(Pending),
    /// The request was answered before.
    Again(Arc<StoredAnswer>),
    /// Another request has the key.
    Mismatch,
    /// The first request is under way.
    InFlight,
    /// The store is full.
    Full,
}

impl IdempotencyStore {
    /// Begins a request of that bucket and with that key, unless it has begun before.
    pub(crate) fn begin(
        self: &Arc<Self>,
        bucket: &BucketKey,
        id: RequestDigest,
        content: RequestDigest,
    ) -> Begin {
        let now = Instant::now();
        let mut buckets = self.0.lock();
        buckets.sweep(now);
        if let Some(slot) =
            buckets.by_bucket.get(bucket).and_then(|answers_of_bucket| answers_of_bucket.slots.get(&id))
        {
            return match &slot.answer {
                _ if slot.content != content => Begin::Mismatch,
                Some(answer) => Begin::Again(answer.clone()),
                None => Begin::InFlight,
            };
        }
        if !buckets.evict_for_request(bucket) {
            return Begin::Full;
        }
        buckets.change(bucket, |answers_of_bucket| {
            answers_of_bucket.slots.insert(id, Remembered { content, since: now, answer: None });
            answers_of_bucket.order.push_back(id);
        });
        Begin::First(Pending { answers: self.clone(), bucket: bucket.clone(), id, kept: false })
    }
}

impl BucketMap {
    /// Forgets requests that are too old, in all buckets, at intervals.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        let mut thinned = Vec::new();
        for (bucket, answers_of_bucket) in &mut self.by_bucket {
            let before = answers_of_bucket.load();
            while answers_of_bucket
                .oldest()
                .is_some_and(|slot| now.duration_since(slot.since) > IDEMPOTENCY_AGE)
            {
                answers_of_bucket.forget(0);
            }
            if answers_of_bucket.load() != before {
                thinned.push((bucket.clone(), before));
            }
        }
        thinned.iter().for_each(|(bucket, before)| self.rank(bucket, *before));
        self.by_bucket.retain(|_, answers_of_bucket| !answers_of_bucket.slots.is_empty());
    }

    /// Forgets the oldest answers until one more request of that bucket fits: answers of the bucket, if it is
    /// full; if the whole store is full, answers of the tenant that has most, and there of the bucket that
    /// has most. False if there is none to forget.
    fn evict_for_request(&mut self, bucket: &BucketKey) -> bool {
        while self
            .by_bucket
            .get(bucket)
            .is_some_and(|answers_of_bucket| answers_of_bucket.slots.len() >= IDEMPOTENCY_KEYS_PER_BUCKET)
        {
            if !self.forget_oldest(bucket) {
                return false;
            }
        }
        while self.counts.all() >= IDEMPOTENCY_KEYS {
            let hog = self.counts.fullest().filter(|hog| self.forget_oldest(hog));
            if hog.is_none() && !self.forget_oldest(bucket) {
                return false;
            }
        }
        true
    }

    /// Stores the answer, unless its request has been forgotten.
    fn remember(&mut self, bucket: &BucketKey, id: &RequestDigest, answer: StoredAnswer) {
        if !self
            .by_bucket
            .get(bucket)
            .is_some_and(|answers_of_bucket| answers_of_bucket.slots.contains_key(id))
        {
            return;
        }
        self.evict_for_bytes(bucket.tenant(), answer.bytes());
        self.change(bucket, |answers_of_bucket| answers_of_bucket.put(id, answer));
    }

    /// Forgets the oldest answers until so many bytes more fit: answers of the tenant, if it has all that it
    /// may have; if all memory is taken, answers of the tenant that takes most; and there of the bucket that
    /// takes most. Only answered requests take any, so that the bucket that takes most has an answer to
    /// forget.
    fn evict_for_bytes(&mut self, tenant: &str, more: usize) {
        loop {
            let hog = if self.bytes.of(tenant) + more > IDEMPOTENCY_BYTES_PER_TENANT {
                self.bytes.fullest_of(tenant)
            } else if self.bytes.all() + more > IDEMPOTENCY_BYTES {
                self.bytes.fullest()
            } else {
                return;
            };
            if !hog.is_some_and(|hog| self.forget_oldest(&hog)) {
                return;
            }
        }
    }

    /// Forgets the oldest answer of the bucket; false if there is none.
    fn forget_oldest(&mut self, bucket: &BucketKey) -> bool {
        let Some(answers_of_bucket) = self.by_bucket.get(bucket) else { return false };
        let Some(place) =
            answers_of_bucket.order.iter().position(|id| answers_of_bucket.slots[id].answer.is_some())
        else {
            return false;
        };
        self.change(bucket, |answers_of_bucket| answers_of_bucket.forget(place));
        true
    }

    /// Changes the answers of a bucket, and its amounts with them.
    fn change(&mut self, bucket: &BucketKey, change: impl FnOnce(&mut BucketAnswers)) {
        let answers_of_bucket = self.by_bucket.entry(bucket.clone()).or_default();
        let before = answers_of_bucket.load();
        change(answers_of_bucket);
        self.rank(bucket, before);
    }

    /// Notes the amounts of a bucket that had `before`.
    fn rank(&mut self, bucket: &BucketKey, before: Load) {
        let now = self.by_bucket.get(bucket).map_or(Load::default(), BucketAnswers::load);
        self.counts.change(bucket, before.count, now.count);
        self.bytes.change(bucket, before.bytes, now.bytes);
    }
}

/// Answers older than [`IDEMPOTENCY_AGE`] stay at most this much longer.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// A request under way; dropped without an answer, the key is free again.
pub(crate) struct Pending {
    answers: Arc<IdempotencyStore>,
    bucket: BucketKey,
    id: RequestDigest,
    kept: bool,
}

impl Pending {
    /// Remembers the answer if it is a success, and gives it back.
    ///
    /// # Errors
    ///
    /// The body broke off.
    pub(crate) async fn keep(mut self, response: Response) -> Result<Response, axum::Error> {
        if !response.status().is_success() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        // Answers to a POST or DELETE are small and whole.
        let body = axum::body::to_bytes(body, usize::MAX).await?;
        let repeated =
            REPEATED.into_iter().filter_map(|name| Some((name.clone(), parts.headers.get(name)?.clone())));
        // A body written piece by piece may have twice its size in capacity; the stored copy has not.
        let kept = Bytes::copy_from_slice(&body);
        let answer = StoredAnswer { status: parts.status, headers: repeated.collect(), body: kept };
        self.answers.0.lock().remember(&self.bucket, &self.id, answer);
        self.kept = true;
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut buckets = self.answers.0.lock();
        let Some(answers_of_bucket) = buckets.by_bucket.get(&self.bucket) else { return };
        // The request came lately, if it has not been forgotten.
        if let Some(place) = answers_of_bucket.order.iter().rposition(|id| *id == self.id) {
            buckets.change(&self.bucket, |answers_of_bucket| answers_of_bucket.forget(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, StatusCode};
    use axum::response::IntoResponse;

    use super::super::answer::{ANSWER_BYTES, digest};
    use super::*;

    fn id(number: usize) -> RequestDigest {
        digest(&[&number.to_le_bytes()])
    }

    async fn answer(answers: &Arc<IdempotencyStore>, bucket: &str, number: usize, status: StatusCode) {
        let Begin::First(pending) = answers.begin(&bucket.into(), id(number), id(0)) else {
            panic!("{number} is not new");
        };
        pending.keep((status, "told").into_response()).await.unwrap();
    }

    fn is_known(answers: &Arc<IdempotencyStore>, bucket: &str, number: usize) -> bool {
        match answers.begin(&bucket.into(), id(number), id(0)) {
            Begin::Again(_) => true,
            Begin::First(_) => false,
            Begin::Mismatch | Begin::InFlight | Begin::Full => panic!("{number} is refused"),
        }
    }

    #[tokio::test]
    async fn a_success_is_answered_again_and_a_refusal_is_not() {
        let answers = Arc::new(IdempotencyStore::default());
        answer(&answers, "b", 1, StatusCode::CREATED).await;
        answer(&answers, "b", 2, StatusCode::LOCKED).await;
        assert!(is_known(&answers, "b", 1));
        assert!(!is_known(&answers, "b", 2));
        assert!(!is_known(&answers, "other", 1), "each bucket has keys of its own");
        assert_eq!(answers.0.lock().counts.all(), 1);
    }

    #[tokio::test]
    async fn a_request_under_way_is_a_conflict_until_it_is_answered_or_dropped() {
        let answers = Arc::new(IdempotencyStore::default());
        let Begin::First(pending) = answers.begin(&"b".into(), id(1), id(0)) else { panic!() };
        assert!(matches!(answers.begin(&"b".into(), id(1), id(0)), Begin::InFlight));
        assert!(matches!(answers.begin(&"b".into(), id(1), id(7)), Begin::Mismatch));
        drop(pending);
        assert!(!is_known(&answers, "b", 1));
        assert_eq!(answers.0.lock().counts.all(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_forgotten_after_its_age_in_every_bucket() {
        let answers = Arc::new(IdempotencyStore::default());
        answer(&answers, "a", 1, StatusCode::OK).await;
        tokio::time::advance(IDEMPOTENCY_AGE).await;
        assert!(is_known(&answers, "a", 1));
        tokio::time::advance(2 * SWEEP_EVERY).await;
        assert!(!is_known(&answers, "b", 1));
        let buckets = answers.0.lock();
        assert_eq!((buckets.counts.all(), buckets.bytes.all(), buckets.by_bucket.len()), (0, 0, 1));
        assert!(buckets.by_bucket[&"b".into()].slots.is_empty());
    }

    #[tokio::test]
    async fn a_full_bucket_forgets_its_oldest_answer_and_no_other_buckets() {
        let answers = Arc::new(IdempotencyStore::default());
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
        // Each bucket in a partition of its own, as of a client that may choose both.
        let partition = format!("\u{1f}{tenant}\u{1f}\u{1f}\u{1f}{bucket}");
        BucketKey { bucket: bucket.to_string(), partition }
    }

    async fn answer_in(answers: &Arc<IdempotencyStore>, bucket: &BucketKey, number: usize) -> bool {
        match answers.begin(bucket, id(number), id(0)) {
            Begin::First(pending) => {
                pending.keep((StatusCode::OK, "told").into_response()).await.unwrap();
                true
            }
            Begin::Again(_) => true,
            Begin::Mismatch | Begin::InFlight | Begin::Full => false,
        }
    }

    #[tokio::test]
    async fn a_tenant_that_fills_the_store_takes_no_answers_from_another() {
        let answers = Arc::new(IdempotencyStore::default());
        let quiet = of_tenant("quiet", 0);
        assert!(answer_in(&answers, &quiet, 0).await);
        for bucket in 0..=IDEMPOTENCY_KEYS / IDEMPOTENCY_KEYS_PER_BUCKET {
            for number in 0..IDEMPOTENCY_KEYS_PER_BUCKET {
                assert!(answer_in(&answers, &of_tenant("loud", bucket), number).await);
            }
        }
        assert_eq!(answers.0.lock().counts.all(), IDEMPOTENCY_KEYS);
        for number in 1..100 {
            assert!(answer_in(&answers, &quiet, number).await, "there is no room for {number}");
            assert!(
                answer_in(&answers, &of_tenant("new", 0), number).await,
                "there is no room for somebody new"
            );
        }
        let buckets = answers.0.lock();
        assert_eq!((buckets.counts.all(), buckets.by_bucket[&quiet].slots.len()), (IDEMPOTENCY_KEYS, 100));
        buckets.check();
    }

    /// Remembers an answer whose body is that long, without the memory for it.
    fn answer_with(answers: &Arc<IdempotencyStore>, bucket: &BucketKey, number: usize, body: &Bytes) {
        let Begin::First(mut pending) = answers.begin(bucket, id(number), id(0)) else {
            panic!("{number} is not new")
        };
        let answer = StoredAnswer { status: StatusCode::OK, headers: HeaderMap::new(), body: body.clone() };
        answers.0.lock().remember(bucket, &id(number), answer);
        pending.kept = true;
    }

    /// The number of these answers of the bucket that are remembered.
    fn remembered(
        answers: &Arc<IdempotencyStore>,
        bucket: &BucketKey,
        numbers: std::ops::Range<usize>,
    ) -> usize {
        let buckets = answers.0.lock();
        let Some(answers_of_bucket) = buckets.by_bucket.get(bucket) else { return 0 };
        numbers
            .filter(|number| {
                answers_of_bucket.slots.get(&id(*number)).is_some_and(|slot| slot.answer.is_some())
            })
            .count()
    }

    #[tokio::test]
    async fn a_tenant_with_long_answers_loses_its_oldest_and_no_other_tenant_any() {
        let answers = Arc::new(IdempotencyStore::default());
        let (quiet, apart, loud) = (of_tenant("quiet", 0), of_tenant("loud", 1), of_tenant("loud", 0));
        let (short, long) = (Bytes::from(vec![0; 300]), Bytes::from(vec![0; 240_000]));
        for number in 0..100 {
            answer_with(&answers, &quiet, number, &short);
            answer_with(&answers, &apart, number, &short);
        }
        let fit = IDEMPOTENCY_BYTES_PER_TENANT / (240_000 + ANSWER_BYTES);
        for number in 0..2 * fit {
            answer_with(&answers, &loud, number, &long);
            assert!(answers.0.lock().bytes.of("loud") <= IDEMPOTENCY_BYTES_PER_TENANT);
        }
        assert_eq!(remembered(&answers, &loud, 0..fit), 0);
        assert!(remembered(&answers, &loud, fit..2 * fit) >= fit - 1, "newer ones are forgotten");
        assert_eq!(remembered(&answers, &apart, 0..100), 100, "another bucket of it takes less");
        assert_eq!(remembered(&answers, &quiet, 0..100), 100);
        answers.0.lock().check();
    }

    #[tokio::test]
    async fn if_the_answers_of_all_take_what_they_may_who_takes_most_loses_his_oldest() {
        let answers = Arc::new(IdempotencyStore::default());
        let long = Bytes::from(vec![0; 240_000]);
        let quiet = of_tenant("quiet", 0);
        answer_with(&answers, &quiet, 0, &long);
        for number in 0..600 {
            for tenant in ["a", "b", "c", "d", "e", "f"] {
                answer_with(&answers, &of_tenant(tenant, number % 3), number, &long);
            }
            assert!(answers.0.lock().bytes.all() <= IDEMPOTENCY_BYTES);
        }
        assert_eq!(remembered(&answers, &quiet, 0..1), 1);
        let buckets = answers.0.lock();
        assert!(buckets.bytes.all() > IDEMPOTENCY_BYTES - 250_000, "more is forgotten than has to be");
        assert!(buckets.bytes.of("a") < IDEMPOTENCY_BYTES / 5, "each has a share");
        buckets.check();
    }

    impl BucketMap {
        /// Checks that the order is that of the entries.
        fn check(&self) {
            let of = |measure: fn(&BucketAnswers) -> usize| {
                self.by_bucket
                    .iter()
                    .map(|(bucket, answers_of_bucket)| (bucket.clone(), measure(answers_of_bucket)))
                    .collect()
            };
            self.counts.check(&of(|answers_of_bucket| answers_of_bucket.slots.len()));
            self.bytes.check(&of(|answers_of_bucket| {
                let answers = answers_of_bucket.slots.values().flat_map(|slot| &slot.answer);
                answers.map(|answer| answer.bytes()).sum()
            }));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whose_answers_go_first_is_known_whatever_came_and_went() {
        let answers = Arc::new(IdempotencyStore::default());
        for number in 0..300 {
            let bucket = of_tenant(["a", "b", "c"][number % 3], number % 7);
            match answers.begin(&bucket, id(number), id(0)) {
                Begin::First(pending) if number % 5 > 0 => {
                    pending.keep((StatusCode::OK, "told").into_response()).await.unwrap();
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

    /// Each of a hundred thousand buckets has one answer: a look at all of them for each call would be four
    /// billion looks.
    #[tokio::test]
    async fn a_call_costs_little_however_many_buckets_have_answers() {
        let answers = Arc::new(IdempotencyStore::default());
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
