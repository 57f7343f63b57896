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
mod claims;
mod clock;
mod error;
pub mod fence;
mod guard;
mod house;
#[cfg(feature = "tower")]
pub mod implicit;
mod kept;
mod key;
mod keyed;
mod kinds;
mod local;
mod locks;
mod open;
mod outbox;
mod owner;
mod pace;
mod pipeline;
mod place;
mod port;
mod recovery;
mod registry;
#[cfg(feature = "remote")]
pub mod remote;
mod request;
mod room;
mod secret;
mod snapshot;
mod ticket;
mod transaction;
mod waiters;

pub use agent::Agent;
pub use all::RequestAll;
pub use bucket::Bucket;
pub use claims::{Assignment, Claim, ClaimError, ClaimInfo, Claims, NewClaim};
pub use clock::ManualClock;
pub use error::{NotSupported, Quota, RequestError, Unavailable};
pub use guard::LockGuard;
pub use house::House;
pub use kept::{OwnerError, StoreError};
pub use key::BucketKey;
pub use kinds::{Intent, LockType, Record, RecordKind, Wanted};
pub use lockhouse_core as core;
pub use lockhouse_core::{FencingToken, HolderKind, InvalidName, Limits, Mode, Name, NameBuf, State};
pub use lockhouse_store as store;
pub use locks::{LockManager, NameArg};
pub use open::{OpenError, Options};
pub use owner::{Acquisition, Conflict, LockError, NewOwner, OfflineLock, Owner, OwnerInfo, Owners};
pub use pipeline::StoreState;
pub use port::{Notice, Overflowed, Port, Robbed};
pub use request::{Acquiring, Request};
pub use room::{NoRoom, Room, Rooms};
pub use secret::{MalformedSecret, Secret};
pub use snapshot::{Holder, LockInfo, Snapshot};
pub use transaction::{BusinessTransaction, Step};
pub use waiters::Loss;

// The examples of these pages are compiled and run with the others; some of them need a feature.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "remote"))]
#[doc = include_str!("../../../docs/rust.md")]
struct Rust;

#[cfg(all(doctest, feature = "fence-sqlite"))]
#[doc = include_str!("../../../docs/fence.md")]
struct Fence;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/offline-locks.md")]
struct OfflineLocks;
