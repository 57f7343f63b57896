//! The lock manager of one storage bucket as a pure state machine.
//!
//! ```text
//!   Command ──▶ handle(now, …) ──▶ Outcome     the answer to the caller, inline
//!                    │
//!                    └──▶ poll_effect() ──▶ Effect   what concerns others, in order
//!
//!   next_timeout() ──▶ handle_timeout(now)     leases and longest holds
//! ```
//!
//! The lock manager never calls out, never reads a clock, never draws a random number and does not depend on
//! hash order: the same commands at the same instants give the same outcomes and effects. Time is a number of
//! milliseconds that the caller passes in and that never runs backwards ([`Instant`]).
//!
//! The algorithms are those of the W3C [Web Locks API](https://w3c.github.io/web-locks/), each in one method
//! that bears the specification's name.
//!
//! ```
//! use lockhouse_core::{Acquire, Command, Instant, LockManager, Mode, Name, NewAgent, NewRequest, Outcome};
//!
//! let mut manager = LockManager::new(foldhash::fast::FixedState::default());
//! let now = Instant::from_millis(0);
//! let Outcome::Joined(agent) = manager.handle(now, Command::Join(NewAgent::new("shell"))) else { panic!() };
//! let name = Name::new("report").unwrap();
//! let ask = NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive));
//! let Outcome::Granted(grant) = manager.handle(now, Command::Request(ask)) else { panic!() };
//! let released = manager.handle(now, Command::Release { request: grant.request });
//! assert_eq!(released, Outcome::Released { held: true });
//! ```

mod change;
mod command;
mod event;
mod id;
mod limits;
mod manager;
mod name;
mod outcome;
mod refusal;
mod snapshot;
mod tally;

pub use change::{
    AssignmentRecord, BrokenBy, Change, ClaimEnd, ClaimRecord, LockEnd, LockRecord, OwnerEnd, OwnerRecord,
    VoidLocks,
};
pub use command::{
    Acquire, Command, GrantToUndo, HoldToBreak, Mode, NewAgent, NewClaim, NewLocks, NewOwner, NewReclaim,
    NewRequest, Unlock,
};
pub use event::{EndCause, EventKind, TableEvent};
pub use id::{AgentId, FencingToken, Instant, Now, OwnerId, RequestId, SecretSeed};
pub use limits::{CLIENT_ID_BYTES, Limits};
pub use manager::{
    ContendedName, LockManager, QueueEntry, QueueView, ReplayError, RequestStatus, Survey, Surveyed,
};
pub use name::{InvalidName, Name, NameBuf};
pub use outcome::{Acquired, ClaimGrant, Effect, EndReason, Grant, LockLoss, LossReason, Outcome, OwnedLock};
pub use refusal::{Conflict, Holder, HolderKind, Party, Refusal};
pub use snapshot::{AssignmentView, ClaimView, LockState, OwnerView, Snapshot, SnapshotEntry, WebLockView};
pub use tally::{Discipline, Gauges, Histogram, LossCause, RefusalCause, Totals};
