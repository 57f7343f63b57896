//! The handle of an agent: requests and queries. In process and over the network it is the same type.

use crate::error::RequestError;
use crate::name_arg::NameArg;
use crate::snapshot::Snapshot;
use crate::web_locks::all::RequestAll;
use crate::web_locks::backend::Backend;
use crate::web_locks::guard::LockGuard;
use crate::web_locks::request::Request;

/// Makes requests and asks for state, for one agent. <https://w3c.github.io/web-locks/#api-lock-manager>
///
/// # No re-entrancy, no upgrade
///
/// A task that waits for a name which its own agent holds waits like any other, and so does one that asks for
/// exclusive under its own shared lock.
#[derive(Clone, Debug)]
pub struct LockManager {
    pub(crate) backend: Backend,
}

impl LockManager {
    /// Begins a request: await it for the guard, or configure it first. The request is made when it is first
    /// polled.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
        Request::new(self.backend.clone(), name.into())
    }

    /// Runs the task while holding the name exclusively: the callback form of the specification.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let house = lockhouse::House::new();
    /// # let agent = house.bucket("default").agent("worker-1")?;
    /// let sum = agent.locks().with("counter", async |_lock| 40 + 1).await?;
    /// assert_eq!(sum, 41);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Request`], and [`RequestError::Lost`] if the lock was lost while the task ran. The task is not
    /// stopped then, and should watch [`LockGuard::lost`] if it can stop.
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

    /// Begins a request for several names, which are taken one after another in one strict order, so that
    /// tasks that take several names this way cannot deadlock. The order is no cure-all: others may take
    /// locks behind one's back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let house = lockhouse::House::new();
    /// # let agent = house.bucket("default").agent("worker-1")?;
    /// let both = agent.locks().request_all(["b", "a"]).shared("c").await?;
    /// assert_eq!(both.len(), 3);
    /// # Ok(()) }
    /// ```
    pub fn request_all<'a, N: Into<NameArg<'a>>>(&self, names: impl IntoIterator<Item = N>) -> RequestAll {
        RequestAll::new(self.backend.clone(), names)
    }

    /// A snapshot of everything that is held and pending in the bucket, of all agents.
    ///
    /// The snapshot sees every request that this agent made before, and may be out of date by the time it is
    /// read. It shows nothing that is not durable and would have to be: while a change of the bucket is on
    /// its way to the store, the snapshot waits for it. Without any it comes at once, whatever the store
    /// does.
    ///
    /// # Errors
    ///
    /// [`RequestError::AgentEnded`]; [`RequestError::StoreUnavailable`] if such a change cannot become
    /// durable at the moment.
    pub async fn query(&self) -> Result<Snapshot, RequestError> {
        match &self.backend {
            Backend::Local(agent) => agent.query().await,
            #[cfg(feature = "remote")]
            Backend::Remote(agent) => agent.query().await,
        }
    }
}
