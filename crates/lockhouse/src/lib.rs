//! Named locks for async Rust: the semantics of the W3C [Web Locks API](https://w3c.github.io/web-locks/), in one process or,
//! with the feature `remote`, over a lockhouse server.
//!
//! ```
//! use std::time::Duration;
//! use lockhouse::House;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let house = House::new();
//! let agent = house.bucket("default").agent("worker-1")?;
//! let lock = agent.locks().request("report").timeout(Duration::from_secs(10)).await?;
//! println!("{} is held with token {}", lock.name().display(), lock.fencing_token());
//! drop(lock); // the next in the queue gets it
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!   House ──▶ Bucket ──▶ Agent ──▶ LockManager ──request(name)──▶ Request ──await──▶ LockGuard
//!                 └────▶ Port       (for servers: one inbox for many agents)
//! ```

mod agent;
mod all;
mod bucket;
mod clock;
mod error;
pub mod fence;
mod guard;
mod house;
mod local;
mod locks;
mod port;
#[cfg(feature = "remote")]
pub mod remote;
mod request;
mod snapshot;
mod waiters;
pub mod wire;

pub use agent::Agent;
pub use all::RequestAll;
pub use bucket::Bucket;
pub use error::{NotSupported, Quota, RequestError, Unavailable};
pub use guard::LockGuard;
pub use house::{BucketKey, House};
pub use lockhouse_core as core;
pub use lockhouse_core::{FencingToken, InvalidName, Limits, Mode, Name, NameBuf, State};
pub use locks::{LockManager, NameArg};
pub use port::{Notice, Overflowed, Port};
pub use request::{Acquiring, Request};
pub use snapshot::{Holder, LockInfo, Snapshot};
pub use waiters::Loss;

// The examples of the README are compiled with the others; one of them needs the feature.
#[cfg(all(doctest, feature = "remote"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "fence-sqlite"))]
#[doc = include_str!("../../../docs/fence.md")]
struct Fence;
