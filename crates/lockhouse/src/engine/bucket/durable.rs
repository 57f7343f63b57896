//! Commands whose outcome is kept, and why it sometimes cannot be.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use foldhash::fast::RandomState;
use lockhouse_core::{Command, Instant, LockManager, Outcome, Refusal};
use tokio::sync::oneshot;

use crate::engine::bucket::{Asked, Shared};
use crate::engine::commit::pipeline::StoreState;
use crate::engine::house::Inner;
use crate::engine::memory::Room;
use crate::error::Quota;
use crate::keyed_hash::KeyedHash;
use crate::owners::no_randomness;

/// Why something cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store keeps nothing at the moment; nothing has happened.
    #[error("unavailable: {why}")]
    Unavailable {
        /// One line that says what is wrong and what to do.
        why: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// Somebody else writes to the store now. What was under way may have happened or not.
    #[error("another process has taken the store over")]
    Fenced,
    /// The store can no longer be trusted. What was under way may have happened or not.
    #[error("the store has failed: {0}")]
    Failed(String),
    /// The house is closed; far away, the connection is, or the server stops.
    #[error("the house is closed")]
    Closed,
    /// A server far away takes no such key, or the key has not the permission; nothing has happened.
    #[error("access is denied: {0}")]
    Denied(String),
    /// A server far away was asked and gave no answer that can be relied on. What was under way may have happened or not; asking again is right.
    #[error("nobody knows whether it happened: {0}")]
    Unknown(String),
}

/// Why an owner could not begin, or be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// There is no such owner, or it has ended.
    #[error("there is no such owner, or it has ended")]
    Unknown,
    /// The secret is not that of the owner.
    #[error("the secret is not that of the owner")]
    WrongSecret,
    /// Nothing is granted any more.
    #[error("the bucket is closed")]
    Closed,
    /// A bound was exceeded.
    #[error(transparent)]
    Quota(Quota),
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for OwnerError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Closed => Self::Closed,
            refusal => Quota::of(&refusal).map_or(Self::Unknown, Self::Quota),
        }
    }
}

impl Inner {
    /// Whether something new can be kept.
    fn check_store(&self) -> Result<(), StoreError> {
        let Some(pipeline) = self.pipeline() else { return Ok(()) };
        match &*pipeline.state().borrow() {
            StoreState::Serving => Ok(()),
            state => Err(StoreError::from(state)),
        }
    }

    fn store_is_over(&self) -> bool {
        self.pipeline().is_some_and(|pipeline| pipeline.state().borrow().is_over())
    }

    /// Why an answer never came.
    fn why_unanswered(&self) -> StoreError {
        self.check_store().err().unwrap_or(StoreError::Closed)
    }
}

impl From<&StoreState> for StoreError {
    fn from(state: &StoreState) -> Self {
        match state {
            StoreState::Unavailable { why, retry_after } => {
                Self::Unavailable { why: why.clone(), retry_after: *retry_after }
            }
            StoreState::Fenced => Self::Fenced,
            StoreState::Failed(fatal) => Self::Failed(fatal.to_string()),
            StoreState::Serving | StoreState::Closed { .. } => Self::Closed,
        }
    }
}

impl Shared {
    /// Carries out a command at once, and answers once its outcome is kept. `look` sees the outcome before that, so that the caller can take
    /// it back should nobody wait for the answer any more.
    pub(crate) async fn keep(
        self: &Arc<Self>,
        command: Command<'_>,
        look: impl FnOnce(&Outcome),
    ) -> Result<Outcome, StoreError> {
        self.house.check_store()?;
        self.check_backlog()?;
        self.house.remember_runtime();
        match self.ask(command, None, look) {
            Asked::Answered(outcome) => Ok(outcome),
            Asked::Waits(answer) => answer.await.map_err(|_| self.house.why_unanswered()),
        }
    }

    /// As [`keep`](Self::keep), for what is never written: it goes on while nothing can be kept, unless its answer rests on what could
    /// not be kept. An answer that waits takes that room.
    pub(crate) async fn keep_nothing(
        self: &Arc<Self>,
        command: Command<'_>,
        room: Option<Arc<Room>>,
    ) -> Result<Outcome, StoreError> {
        if self.house.store_is_over() {
            return Err(self.house.why_unanswered());
        }
        self.house.remember_runtime();
        match self.ask(command, room, |_| {}) {
            Asked::Answered(outcome) => Ok(outcome),
            Asked::Waits(answer) => self.while_kept(answer).await,
        }
    }

    /// The key that secrets are derived from.
    pub(crate) fn secret_key(&self) -> Result<&KeyedHash, StoreError> {
        self.house.key().map_err(|error| no_randomness(&error))
    }

    /// Reads what is kept, and answers once all of it is.
    pub(crate) async fn read<T>(
        self: &Arc<Self>,
        read: impl FnOnce(&LockManager<RandomState>) -> T,
    ) -> Result<T, StoreError> {
        let (value, settled) = self.with(|state| (read(state.manager()), state.settled()));
        if let Some(settled) = settled {
            self.while_kept(settled).await?;
        }
        Ok(value)
    }

    /// The answer to a question, or why there is none for the time being: whoever asks is not left waiting for a store that is away.
    async fn while_kept<T>(&self, answer: oneshot::Receiver<T>) -> Result<T, StoreError> {
        let mut answer = pin!(answer);
        let Some(pipeline) = self.house.pipeline() else {
            return answer.await.map_err(|_| self.house.why_unanswered());
        };
        let mut away = pin!(pipeline.not_serving());
        poll_fn(|context| match answer.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(answer.map_err(|_| self.house.why_unanswered())),
            Poll::Pending => away.as_mut().poll(context).map(|state| Err(StoreError::from(&state))),
        })
        .await
    }

    /// Bounded, as a store may take long to answer.
    fn check_backlog(self: &Arc<Self>) -> Result<(), StoreError> {
        const GROUPS: usize = 100_000;
        if self.with(|state| state.backlog()) < GROUPS {
            return Ok(());
        }
        let why = format!("{GROUPS} commands of this bucket wait for the store already");
        Err(StoreError::Unavailable { why, retry_after: Duration::from_secs(1) })
    }

    /// How long until then, for those who are to come back.
    pub(crate) fn until(&self, at: Instant) -> Duration {
        Duration::from_millis(at.as_millis().saturating_sub(self.house.clock.now().as_millis()))
    }
}
