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
use crate::error::StoreError;
use crate::remote::session::backoff::Backoff;

/// When to look for a server again that could not be reached.
const AWAY: Duration = Duration::from_secs(1);

/// When to use a URL again that leads nowhere.
const NEVER: Duration = Duration::from_secs(3600);

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
    /// Whether an earlier attempt may have been carried out.
    pub(crate) is_repeated: bool,
}

impl Reply {
    /// The body of a success.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, Box<Problem>> {
        if !self.answer.is_success() {
            return Err(Problem::of(&self.answer));
        }
        serde_json::from_slice(&self.answer.body).map_err(|_| Problem::not_lockhouse(&self.answer))
    }

    /// As [`read`](Self::read), of an answer that has nothing to say.
    pub(crate) fn check(&self) -> Result<(), Box<Problem>> {
        if self.answer.is_success() { Ok(()) } else { Err(Problem::of(&self.answer)) }
    }
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
        answer.map_err(|_| StoreError::Closed)
    }

    /// Removes traces in the background; all other calls wait until that is done.
    pub(crate) fn tidy(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let tidying = Tidying::begin(self);
        self.runtime.spawn(async move {
            work.await;
            drop(tidying);
        });
    }

    /// Sends a call until it is answered, or the time is over.
    pub(crate) async fn send(&self, call: &Call) -> Result<Reply, StoreError> {
        let http = self
            .http
            .as_ref()
            .map_err(|why| StoreError::Unavailable { why: why.clone(), retry_after: NEVER })?;
        let deadline = Instant::now() + self.timeout;
        let mut backoff = Backoff::default();
        let mut is_repeated = false;
        loop {
            let attempt_ends = deadline.min(Instant::now() + self.timeout / ATTEMPTS);
            let answer = timeout_at(attempt_ends, http.send(call)).await;
            let mut at_least = Duration::ZERO;
            let (why, refusal) = match answer {
                Ok(Ok(answer)) if !is_passing(&answer, is_repeated) => {
                    return Ok(Reply { answer, is_repeated });
                }
                Ok(Ok(answer)) => {
                    let problem = Problem::of(&answer);
                    at_least = problem.pause();
                    (problem.to_string(), Some(answer))
                }
                Ok(Err(Unanswered::Unreachable(why) | Unanswered::Untrusted(why))) => (why, None),
                Ok(Err(Unanswered::BrokenOff(why))) => {
                    is_repeated |= !call.is_a_question();
                    (why, None)
                }
                Err(_) => {
                    is_repeated |= !call.is_a_question();
                    ("it is silent".to_owned(), None)
                }
            };
            // Clients that were turned away together do not come back together.
            let next = Instant::now() + at_least + backoff.pause();
            if next >= deadline {
                return match refusal {
                    Some(answer) if !is_repeated => Ok(Reply { answer, is_repeated }),
                    _ => Err(away(http.origin(), &why, is_repeated)),
                };
            }
            sleep_until(next).await;
        }
    }

    /// No further calls are made. Returns once the traces of abandoned calls are removed.
    pub(in crate::remote) async fn close(&self) {
        self.closed.cancel();
        self.tidied().await;
    }

    async fn may_begin(&self) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.timeout;
        if timeout_at(deadline, self.tidied()).await.is_err() {
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
    if is_repeated { StoreError::Unknown(why) } else { StoreError::Unavailable { why, retry_after: AWAY } }
}

/// Whether to ask again soon. After a lost answer a temporary refusal says nothing about the first attempt.
fn is_passing(answer: &Answer, is_repeated: bool) -> bool {
    if answer.is_success() {
        return false;
    }
    match &*Problem::of(answer).code {
        "closing" | "conflict_in_flight" | "rate_limited" | "overloaded" => true,
        "recovering" | "unavailable" => is_repeated,
        _ => false,
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
