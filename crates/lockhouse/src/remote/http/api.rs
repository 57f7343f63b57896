//! Calls that are sent until they are answered, and the cleanup after those that were abandoned.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::client::{Answer, Http, Unanswered};
use super::problem::Problem;
use super::views::{self, Unusable};
use crate::error::StoreError;
use crate::remote::session::backoff::Backoff;

/// When to look for a server again that could not be reached.
const AWAY: Duration = Duration::from_secs(1);

/// When to use a URL again that leads nowhere.
const NEVER: Duration = Duration::from_secs(3600);

/// The status of an answer without a body.
const NO_CONTENT: u16 = 204;

/// How often a call is sent at least before its time is over, if nothing at all comes back.
const ATTEMPTS: u32 = 3;

/// The owners and claims of a remote bucket, as its handles share it.
pub(crate) struct Api {
    /// Why there is none, if the URL leads to none.
    http: Result<Http, String>,
    timeout: Duration,
    runtime: Handle,
    /// How many abandoned calls there are whose traces are still to be removed.
    tidying: watch::Sender<usize>,
    closed: CancellationToken,
}

/// The answer to a call.
#[derive(Debug)]
pub(crate) struct Reply {
    answer: Answer,
    /// Whether an earlier attempt may have been carried out, and the answer is not that attempt's.
    pub(crate) is_repeated: bool,
    is_of_a_question: bool,
}

impl Reply {
    fn new(answer: Answer, call: &Call, is_repeated: bool) -> Self {
        let is_repeated = is_repeated && !answer.is_replayed;
        Self { answer, is_repeated, is_of_a_question: call.is_a_question() }
    }

    /// The body of a success.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, Box<Problem>> {
        self.check()?;
        let unusable = |error| self.about(Problem::unusable(&self.answer, &error));
        views::read(&self.answer.body).map_err(unusable)
    }

    /// As [`read`](Self::read), of an answer without a body.
    pub(crate) fn read_nothing(&self) -> Result<(), Box<Problem>> {
        self.check()?;
        let is_as_promised = self.answer.status == NO_CONTENT && self.answer.body.is_empty();
        let unusable = || self.about(Problem::unusable(&self.answer, &Unusable(None)));
        if is_as_promised { Ok(()) } else { Err(unusable()) }
    }

    fn check(&self) -> Result<(), Box<Problem>> {
        if self.answer.is_success() { Ok(()) } else { Err(self.about(Problem::of(&self.answer))) }
    }

    fn about(&self, mut problem: Box<Problem>) -> Box<Problem> {
        problem.is_of_a_question = self.is_of_a_question;
        problem
    }
}

/// The end of one attempt.
enum Attempt {
    /// The answer is the caller's.
    Answered(Answer),
    /// The server did not carry it out, but may do so later.
    NotNow(Answer),
    /// No server was reached.
    Unreached(String),
    /// The server may have carried it out, or not.
    Unknown { why: String, pause: Duration },
}

impl Api {
    /// Must be called in a runtime, on which the calls then live.
    pub(in crate::remote) fn new(http: Result<Http, String>, timeout: Duration) -> Arc<Self> {
        let (runtime, closed) = (Handle::current(), CancellationToken::new());
        Arc::new(Self { http, timeout, runtime, tidying: watch::Sender::new(0), closed })
    }

    /// Asks a question. Dropping the future changes nothing.
    pub(crate) async fn ask(self: &Arc<Self>, call: Call) -> Result<Reply, StoreError> {
        self.may_begin().await?;
        self.send(&call).await
    }

    /// Does some work to its end. If the caller has gone by then, `tidy` is given the result, and all other
    /// calls wait until that is done.
    pub(crate) async fn carry_out<T, W, U>(
        self: &Arc<Self>,
        work: W,
        tidy: impl FnOnce(T) -> U + Clone + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
        U: Future<Output = ()> + Send + 'static,
    {
        self.may_begin().await?;
        let (to, answer) = oneshot::channel();
        let left = Arc::new(Mutex::new(None));
        let (tidy_late, left_behind) = (tidy.clone(), left.clone());
        self.runtime.spawn(async move {
            if let Err(undelivered) = to.send(work.await) {
                tidy_late(undelivered).await;
            }
            // A caller that has left has put this there before the answer could fail to reach it.
            drop(left_behind.lock().take());
        });
        let mut waiting = Waiting { api: self, answer, left, tidy: Some(tidy) };
        let answer = (&mut waiting.answer).await;
        waiting.tidy = None;
        // The runtime has ended, and the work with it, wherever it stood.
        let why = "the runtime of the connection ended before the answer came".to_owned();
        answer.map_err(|_| StoreError::OutcomeUnknown { why })
    }

    /// Removes traces in the background; all other calls wait until that is done.
    pub(crate) fn tidy(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let tidying = Tidying::begin(self);
        self.runtime.spawn(async move {
            work.await;
            drop(tidying);
        });
    }

    /// Sends a call until it is answered, or the time is over, by the rules of `docs/http.md`. A call that
    /// may have been carried out is sent again only if that does no harm.
    pub(crate) async fn send(&self, call: &Call) -> Result<Reply, StoreError> {
        let http = self
            .http
            .as_ref()
            .map_err(|why| StoreError::Unavailable { why: why.clone(), retry_after: NEVER })?;
        let deadline = after(self.timeout);
        let mut backoff = Backoff::default();
        let mut is_repeated = false;
        loop {
            let mut at_least = Duration::ZERO;
            let (why, refusal) = match self.attempt(http, call, deadline, is_repeated).await {
                Attempt::Answered(answer) => return Ok(Reply::new(answer, call, is_repeated)),
                Attempt::NotNow(answer) => {
                    let problem = Problem::of(&answer);
                    at_least = problem.pause();
                    (problem.to_string(), Some(answer))
                }
                Attempt::Unreached(why) => (why, None),
                Attempt::Unknown { why, pause } => {
                    at_least = pause;
                    is_repeated |= !call.is_a_question();
                    (why, None)
                }
            };
            // Clients that were turned away together do not come back together.
            let next = after(at_least.saturating_add(backoff.pause()));
            if next >= deadline || (is_repeated && !call.is_idempotent()) {
                return match refusal {
                    Some(answer) if !is_repeated => Ok(Reply::new(answer, call, is_repeated)),
                    _ => Err(away(http.origin(), &why, is_repeated)),
                };
            }
            sleep_until(next).await;
        }
    }

    /// Sends a call once; of several endpoints to each, until one takes it.
    async fn attempt(&self, http: &Http, call: &Call, deadline: Instant, is_repeated: bool) -> Attempt {
        let ends = deadline.min(after(self.timeout / ATTEMPTS));
        match http.send_until(call, Some(ends)).await {
            Ok(answer) => judge(answer, is_repeated),
            Err(Unanswered::Unreachable(why) | Unanswered::Untrusted(why)) => Attempt::Unreached(why),
            Err(Unanswered::BrokenOff(why)) => Attempt::Unknown { why, pause: Duration::ZERO },
        }
    }

    /// No further calls are made. Returns once the traces of abandoned calls are removed.
    pub(in crate::remote) async fn close(&self) {
        self.closed.cancel();
        self.tidied().await;
    }

    async fn may_begin(&self) -> Result<(), StoreError> {
        if timeout_at(after(self.timeout), self.tidied()).await.is_err() {
            let origin = self.http.as_ref().map_or("the server", Http::origin);
            return Err(away(origin, "earlier calls are still under way", false));
        }
        if self.closed.is_cancelled() { Err(StoreError::Closed) } else { Ok(()) }
    }

    async fn tidied(&self) {
        // The wait fails only without the sender, which is here.
        _ = self.tidying.subscribe().wait_for(|count| *count == 0).await;
    }
}

fn away(origin: &str, why: &str, is_repeated: bool) -> StoreError {
    let why = format!("{origin} gives no answer: {why}");
    if is_repeated {
        StoreError::OutcomeUnknown { why }
    } else {
        StoreError::Unavailable { why, retry_after: AWAY }
    }
}

/// The instant after that time, or one so late that no caller waits for it.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + FAR)
}

/// Longer than any process lives, and short enough for every clock.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// What an answer means. Once an earlier attempt may have been carried out, a refusal that does not speak of
/// what is held says nothing of that attempt.
fn judge(answer: Answer, is_repeated: bool) -> Attempt {
    if answer.is_success() {
        return Attempt::Answered(answer);
    }
    let problem = Problem::of(&answer);
    let unknown = |pause| Attempt::Unknown { why: problem.to_string(), pause };
    match &*problem.code {
        "locked" | "claimed" | "busy" | "already_assigned" | "claim_lost" | "claim_expired"
        | "unknown_owner" | "unauthorized" | "not_found" => Attempt::Answered(answer),
        "closing" | "moving" | "conflict_in_flight" | "rate_limited" | "overloaded" => {
            Attempt::NotNow(answer)
        }
        "recovering" | "unavailable" | "quota_exceeded" | "request_timeout" if is_repeated => {
            Attempt::NotNow(answer)
        }
        "outcome_unknown" => unknown(problem.pause()),
        // A proxy speaks, which does not know what has become of the call.
        "" if matches!(answer.status, 502..=504) => unknown(Duration::ZERO),
        // No repeat would be answered otherwise.
        _ if is_repeated => unknown(Duration::MAX),
        _ => Attempt::Answered(answer),
    }
}

/// A caller that waits for the answer to a call.
struct Waiting<'a, T, F, U>
where
    T: Send + 'static,
    F: FnOnce(T) -> U,
    U: Future<Output = ()> + Send + 'static,
{
    api: &'a Arc<Api>,
    answer: oneshot::Receiver<T>,
    /// The guard that the call drops at its end once its caller has gone.
    left: Arc<Mutex<Option<Tidying>>>,
    tidy: Option<F>,
}

impl<T, F, U> Drop for Waiting<'_, T, F, U>
where
    T: Send + 'static,
    F: FnOnce(T) -> U,
    U: Future<Output = ()> + Send + 'static,
{
    fn drop(&mut self) {
        let Some(tidy) = self.tidy.take() else { return };
        // No other call gets in between while the one is handed over to the other.
        let _until_then = Tidying::begin(self.api);
        *self.left.lock() = Some(Tidying::begin(self.api));
        self.answer.close();
        if let Ok(undelivered) = self.answer.try_recv() {
            self.api.tidy(tidy(undelivered));
            // The call is over, and looks no more.
            self.left.lock().take();
        }
    }
}

/// Others wait while this lives.
struct Tidying(Arc<Api>);

impl Tidying {
    fn begin(api: &Arc<Api>) -> Self {
        api.tidying.send_modify(|count| *count += 1);
        Self(api.clone())
    }
}

impl Drop for Tidying {
    fn drop(&mut self) {
        self.0.tidying.send_modify(|count| *count -= 1);
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("http", &self.http)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
