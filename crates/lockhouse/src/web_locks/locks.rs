//! The handle of an agent: requests and queries. In process and over the network it is the same type.

use std::sync::Arc;
use std::time::SystemTime;

use lockhouse_core::{Command, InvalidName, Name, NameBuf, Outcome};

use crate::engine::bucket::Asked;
use crate::error::RequestError;
use crate::snapshot::Snapshot;
use crate::web_locks::agent::LocalAgent;
use crate::web_locks::all::RequestAll;
use crate::web_locks::guard::LockGuard;
use crate::web_locks::request::Request;

/// Makes requests and asks for state, for one agent. <https://w3c.github.io/web-locks/#api-lock-manager>
///
/// # No re-entrancy, no upgrade
///
/// A task that waits for a name which its own agent holds waits like anybody else, and so does one that asks for exclusive
/// under its own shared lock.
#[derive(Clone, Debug)]
pub struct LockManager {
    pub(crate) backend: Backend,
}

#[derive(Clone, Debug)]
pub(crate) enum Backend {
    Local(Arc<LocalAgent>),
    #[cfg(feature = "remote")]
    Remote(crate::remote::RemoteAgent),
}

impl LockManager {
    /// Begins a request: await it for the guard, or configure it first. It is made when it is first polled.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let house = lockhouse::House::new();
    /// # let agent = house.bucket("default").agent("worker-1")?;
    /// let lock = agent.locks().request("report").await?;
    /// let reader = agent.locks().request("catalogue").shared().await?;
    /// let refused = agent.locks().request("report").if_available().await.unwrap_err();
    /// assert_eq!(refused.to_string(), "not available: held by \"worker-1\", 0 waiting");
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn request<'a>(&self, name: impl Into<NameArg<'a>>) -> Request<'a> {
        Request::new(self.clone(), name.into())
    }

    /// Runs the task while holding the name exclusively: the callback form of the specification.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let house = lockhouse::House::new();
    /// # let agent = house.bucket("default").agent("worker-1")?;
    /// let sum = agent.locks().with("counter", async |lock| 40 + lock.fencing_token().get()).await?;
    /// assert_eq!(sum, 41);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Request`], and [`RequestError::Lost`] if the lock was lost while the task ran. The task is not stopped then, and
    /// should watch [`LockGuard::lost`] if it can stop.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the task, and releases the lock.
    pub async fn with<'a, T>(
        &self,
        name: impl Into<NameArg<'a>>,
        task: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<T, RequestError> {
        self.request(name).run(task).await
    }

    /// Begins a request for several names, which are taken one after another in one strict order, so that those who take
    /// several names this way cannot deadlock. It is no cure-all: others may take locks behind one's back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let house = lockhouse::House::new();
    /// # let agent = house.bucket("default").agent("worker-1")?;
    /// let both = agent.locks().request_all(["b", "a"]).shared("c").await?;
    /// assert_eq!(both.len(), 3);
    /// # Ok(()) }
    /// ```
    pub fn request_all<'a, N: Into<NameArg<'a>>>(&self, names: impl IntoIterator<Item = N>) -> RequestAll {
        RequestAll::new(self.clone(), names)
    }

    /// A snapshot of everything that is held and pending in the bucket, of all agents.
    ///
    /// It sees every request that this agent made before, and may be out of date by the time it is read.
    ///
    /// # Errors
    ///
    /// [`RequestError::AgentEnded`].
    pub async fn query(&self) -> Result<Snapshot, RequestError> {
        match &self.backend {
            Backend::Local(agent) => agent.query().await,
            #[cfg(feature = "remote")]
            Backend::Remote(agent) => agent.query().await,
        }
    }
}

impl Backend {
    /// Terminates the agent.
    pub(crate) fn end(&self) {
        match self {
            Self::Local(agent) => agent.bucket.end(agent.id),
            #[cfg(feature = "remote")]
            Self::Remote(agent) => agent.end(),
        }
    }
}

impl LocalAgent {
    async fn query(&self) -> Result<Snapshot, RequestError> {
        if !self.bucket.with(|state| state.is_alive(self.id)) {
            return Err(RequestError::AgentEnded);
        }
        let outcome = match self.bucket.ask(Command::Snapshot, None, |_| {}) {
            Asked::Answered(outcome) => outcome,
            Asked::Waits(answer) => answer
                .await
                .map_err(|_| self.bucket.why_over().map_or(RequestError::Closed, RequestError::NoStore))?,
        };
        let Outcome::Snapshot(snapshot) = outcome else {
            unreachable!("a snapshot is answered with one");
        };
        Ok(Snapshot::from_core(snapshot, &|at| self.wall(at)))
    }

    pub(crate) fn wall(&self, at: lockhouse_core::Instant) -> SystemTime {
        self.bucket.wall(at)
    }
}

/// Anything that can be a resource name. Whether it is one is found out by the request.
#[derive(Clone, Copy, Debug)]
pub struct NameArg<'a>(Result<Name<'a>, InvalidName>);

impl<'a> NameArg<'a> {
    #[inline]
    pub(crate) fn get(self) -> Result<Name<'a>, InvalidName> {
        self.0
    }
}

impl<'a> From<&'a str> for NameArg<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self(Name::new(text))
    }
}

impl<'a> From<&'a String> for NameArg<'a> {
    fn from(text: &'a String) -> Self {
        Self(Name::new(text))
    }
}

impl<'a> From<Name<'a>> for NameArg<'a> {
    fn from(name: Name<'a>) -> Self {
        Self(Ok(name))
    }
}

impl<'a> From<&'a NameBuf> for NameArg<'a> {
    fn from(name: &'a NameBuf) -> Self {
        Self(Ok(name.as_name()))
    }
}
