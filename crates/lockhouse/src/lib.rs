//! Named locks for async Rust: the semantics of the W3C [Web Locks API](https://w3c.github.io/web-locks/), in
//! one process or, with the feature `remote`, over a lockhouse server.
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

mod claims;
mod engine;
mod error;
pub mod fence;
pub mod fleet;
#[cfg(feature = "tower")]
pub mod implicit;
mod keyed_hash;
#[cfg(feature = "lab")]
mod lab_clocks;
mod location;
mod loss;
mod moment;
mod name_arg;
mod owners;
#[cfg(feature = "remote")]
pub mod remote;
mod secret;
mod snapshot;
mod views;
mod web_locks;
mod whole_millis;

pub use claims::error::ClaimError;
pub use claims::info::{Assignment, ClaimInfo};
pub use claims::{Claim, Claims, NewClaim};
pub use engine::bucket::Bucket;
pub use engine::clock::ManualClock;
pub use engine::commit::store_state::{Left, StoreState};
pub use engine::events::{
    BucketEvent, EventBounds, EventFilter, EventItem, EventPosition, Events, EventsFrom, EventsLook,
    InvalidPosition, WebHistoryEntry, WebHistoryPage, history_end,
};
pub use engine::house::House;
pub use engine::house::open::OpenError;
pub use engine::house::options::Options;
pub use engine::inbox::{Notice, Overflowed};
pub use engine::key::BucketKey;
pub use engine::memory::{BudgetExceeded, MemoryBudget, MemoryReservation};
pub use engine::meters::{CommitReading, LabelReading, MeterReading, Meters};
pub use engine::port::{Port, Stolen};
pub use error::{BreakError, NotSupported, Quota, RequestError, StoreError, Unavailable};
pub use lockhouse_core as core;
pub use lockhouse_core::{FencingToken, HolderKind, InvalidName, Limits, LockState, Mode, Name, NameBuf};
pub use lockhouse_store as store;
pub use loss::Loss;
pub use name_arg::NameArg;
pub use owners::error::{Conflict, LockError, OwnerError};
pub use owners::kinds::{Intent, LockType, Record, RecordKind, Wanted};
pub use owners::lock::{Acquisition, OfflineLock, OwnerInfo};
pub use owners::transaction::{BusinessTransaction, Step};
pub use owners::{NewOwner, Owner, Owners};
pub use secret::{MalformedSecret, Secret};
pub use snapshot::{Holder, LockInfo, Snapshot};
pub use views::{AssignmentPart, AssignmentQuestion, Contended, Overview, OwnerEntry, OwnerPart};
pub use web_locks::agent::Agent;
pub use web_locks::all::RequestAll;
pub use web_locks::guard::LockGuard;
pub use web_locks::locks::LockManager;
pub use web_locks::request::{Acquiring, Request};

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

#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../store/src/postgres/embedded.md")]
struct Embedded;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/offline-locks.md")]
struct OfflineLocks;
