//! Commands that are answered once their outcome is durable, and the errors if it cannot be.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use foldhash::fast::RandomState;
use lockhouse_core::{Acquire, Command, Instant, LockManager, Outcome};
use tokio::sync::oneshot;

use crate::engine::bucket::Bucket;
use crate::engine::bucket::results::{NotAsked, Reply};
use crate::engine::bucket::shared::Shared;
use crate::engine::bucket::state::State;
use crate::engine::memory::MemoryReservation;
use crate::error::StoreError;
use crate::keyed_hash::KeyedHash;

impl Shared {
    /// Carries out a command at once, and answers once its outcome is durable. `look` sees the outcome before
    /// that, so that the caller can undo it if it does not wait for the answer any more.
    ///
    /// A command that was refused before it was carried out has changed nothing. One that was carried out and
    /// is never answered is [`StoreError::OutcomeUnknown`].
    pub(crate) async fn execute_durable(
        self: &Arc<Self>,
        command: Command<'_>,
        look: impl FnOnce(&Outcome),
    ) -> Result<Outcome, StoreError> {
        self.environment.check_store()?;
        self.remember_runtime();
        let reply = self.ask(command, true, None, look);
        self.await_reply(reply, true).await
    }

    /// As [`execute_durable`](Self::execute_durable), for commands that are never written. Such commands go
    /// on while the store cannot write, unless their answer depends on a change that could not be written. An
    /// answer that waits holds that memory.
    pub(crate) async fn execute_volatile(
        self: &Arc<Self>,
        command: Command<'_>,
        memory: Option<Arc<MemoryReservation>>,
    ) -> Result<Outcome, StoreError> {
        self.remember_runtime();
        let reply = self.ask(command, false, memory, |_| {});
        self.await_reply(reply, false).await
    }

    /// The outcome once it may be told. The caller of a command that is written waits for a store that is
    /// away, for a while.
    pub(crate) async fn await_reply(
        &self,
        reply: Result<Reply, NotAsked>,
        is_written: bool,
    ) -> Result<Outcome, StoreError> {
        match reply.map_err(|why| self.not_asked(why))? {
            Reply::Answered(outcome) => Ok(outcome),
            Reply::Waits(answer) if is_written => self.until_given_up(answer).await,
            Reply::Waits(answer) => self.while_serving(answer).await,
        }
    }

    /// The key that secrets are derived from.
    pub(crate) fn secret_key(&self) -> Result<&KeyedHash, StoreError> {
        self.environment.secret_key()
    }

    /// Reads durable state, and answers once all of it is durable.
    pub(crate) async fn execute_read<T>(
        self: &Arc<Self>,
        read: impl FnOnce(&LockManager<RandomState>) -> T,
    ) -> Result<T, StoreError> {
        self.read_state(|state| read(state.manager())).await
    }

    /// As [`execute_read`](Self::execute_read).
    pub(in crate::engine::bucket) async fn read_state<T>(
        self: &Arc<Self>,
        read: impl FnOnce(&State) -> T,
    ) -> Result<T, StoreError> {
        let value = self.with(|state| {
            if state.is_over() {
                return Err(NotAsked::IsOver);
            }
            Ok((read(state), state.settled()?))
        });
        match value.map_err(|why| self.not_asked(why))? {
            (value, None) => Ok(value),
            (value, Some(settled)) => self.while_serving(settled).await.map(|_| value),
        }
    }

    /// Reads state that may not be durable yet.
    pub(crate) fn look_at<T>(
        self: &Arc<Self>,
        read: impl FnOnce(&LockManager<RandomState>) -> T,
    ) -> Result<T, StoreError> {
        let seen = self.with(|state| if state.is_over() { None } else { Some(read(state.manager())) });
        seen.ok_or_else(|| self.environment.why_unanswered())
    }

    /// The answer to a command. A store that cannot write for long is not waited for: what becomes of the
    /// command is unknown then.
    async fn until_given_up(&self, answer: oneshot::Receiver<Outcome>) -> Result<Outcome, StoreError> {
        let unknown = || self.environment.outcome_unknown();
        let Some(store) = &self.environment.store else { return answer.await.map_err(|_| unknown()) };
        match first(answer, store.given_up()).await {
            Ok(answer) => answer.map_err(|_| unknown()),
            Err(()) => Err(unknown()),
        }
    }

    /// The answer to a question, or why there is none for the time being: the caller does not have to wait
    /// for a store that is away.
    async fn while_serving<T>(&self, answer: oneshot::Receiver<T>) -> Result<T, StoreError> {
        let unanswered = || self.environment.why_unanswered();
        let Some(store) = &self.environment.store else { return answer.await.map_err(|_| unanswered()) };
        match first(answer, store.not_serving()).await {
            Ok(answer) => answer.map_err(|_| unanswered()),
            Err(state) => Err(StoreError::from(&state)),
        }
    }

    /// Comes once the store cannot write, with the reason why an answer that rests on it has to wait: with
    /// `recovers_first` only after the bucket has recovered. None without a store.
    pub(crate) fn store_is_away(
        self: &Arc<Self>,
        recovers_first: bool,
    ) -> Option<impl Future<Output = StoreError> + Send + use<>> {
        let store = self.environment.store.clone()?;
        let bucket = recovers_first.then(|| Bucket(self.clone()));
        Some(async move {
            if let Some(bucket) = bucket {
                bucket.recovered().await;
            }
            StoreError::from(&store.not_serving().await)
        })
    }

    pub(super) fn not_asked(&self, why: NotAsked) -> StoreError {
        match why {
            NotAsked::IsOver => self.environment.why_unanswered(),
            NotAsked::TooMuchWaits => {
                let why = "too much of this bucket waits for the store already".to_owned();
                StoreError::Unavailable { why, retry_after: Duration::from_secs(1) }
            }
        }
    }

    /// The time until then, for callers that have to come back.
    pub(crate) fn until(&self, at: Instant) -> Duration {
        Duration::from_millis(at.as_millis().saturating_sub(self.environment.clock.now().as_millis()))
    }
}

/// The answer, unless the other comes first.
pub(crate) async fn first<A, B>(
    answer: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> Result<A, B> {
    let (mut answer, mut other) = (pin!(answer), pin!(other));
    poll_fn(|context| match answer.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Ok(answer)),
        Poll::Pending => other.as_mut().poll(context).map(Err),
    })
    .await
}

/// Whether the command may end so much that its step is large.
pub(super) fn may_be_large(command: &Command<'_>) -> bool {
    match command {
        Command::End { .. } | Command::Release { .. } | Command::Abort { .. } => true,
        Command::Request(request) => request.acquire == Acquire::Steal,
        _ => false,
    }
}

/// Whether something may end by itself that the command begins.
pub(super) fn may_bring_a_deadline(command: &Command<'_>) -> bool {
    match command {
        Command::Join(agent) => agent.lease_ms.is_some(),
        Command::Request(request) => request.max_hold_ms.is_some(),
        Command::Reclaim(reclaim) => reclaim.max_hold_ms.is_some(),
        _ => false,
    }
}
