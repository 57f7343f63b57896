//! What happens in a bucket, for those who look on: the latest events, each with a number, and the holds of
//! web locks that have ended.
//!
//! ```text
//!   lock manager ─▶ State::gather_events ─▶ (the store) ─▶ EventLog ─▶ Events, one for each reader
//!                                                              └─────▶ WebHistory
//! ```
//!
//! An event is in the log only once all that came before it in its bucket is durable, as a snapshot would be.

mod filter;
pub(crate) mod log;
pub(crate) mod reader;
mod web_history;

use std::time::Duration;

use lockhouse_core::RefusalCause;

pub use filter::EventFilter;
pub use log::{BucketEvent, EventPosition, InvalidPosition};
pub use reader::{EventItem, Events, EventsFrom, EventsLook};
pub use web_history::{WebHistoryEntry, WebHistoryPage, history_end};

/// How much of what happens a bucket remembers.
///
/// ```
/// use lockhouse::{EventBounds, House, Options};
///
/// let house = House::with_options(&Options::new().events(EventBounds::DEFAULT));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventBounds {
    /// The most events that are kept for readers.
    pub events: usize,
    /// The most bytes that those take.
    pub event_bytes: usize,
    /// The most holds of web locks, and waits and refusals, that are kept as history.
    pub web_entries: usize,
    /// The most bytes that those take.
    pub web_bytes: usize,
}

impl EventBounds {
    /// 16,384 events in 4 MiB, 1,000 entries of history in 512 KiB.
    pub const DEFAULT: Self =
        Self { events: 16_384, event_bytes: 4 << 20, web_entries: 1_000, web_bytes: 512 << 10 };

    /// So many bytes of events and history a bucket keeps, and so many of events that wait for the store,
    /// also once its tenant has half of its memory, until it has three quarters. They count in it.
    pub const FLOOR_BYTES: usize = 16 << 10;

    /// How much of its memory a tenant may have for a bucket to keep so many bytes more, in quarters.
    pub(crate) fn quarters_for(bytes: usize) -> usize {
        if bytes <= Self::FLOOR_BYTES { 3 } else { 2 }
    }

    /// The most refusals of offline locks and claims that a house writes into the history within
    /// [`REFUSALS_PERIOD`](Self::REFUSALS_PERIOD), its tenants in turn.
    pub const REFUSALS_WRITTEN: usize = 64;

    /// The time in which those are written.
    pub const REFUSALS_PERIOD: Duration = Duration::from_secs(4);

    /// For so long refusals wait for a commit that others make, until they have one of their own.
    pub const REFUSALS_PATIENCE: Duration = Duration::from_secs(10);

    /// The most bytes of refusals that wait in a house for their turn. Beyond them the tenant that has most
    /// has refusals left out of the history.
    pub const REFUSAL_BYTES: usize = 1 << 20;

    /// The most bytes of those of one tenant.
    pub const REFUSAL_BYTES_OF_TENANT: usize = 256 << 10;
}

/// Whether a refusal for that cause is in the history: another had the name, or a bound was reached. A table
/// that recovers or closes refuses everything.
pub(crate) fn is_kept_as_history(cause: RefusalCause) -> bool {
    !matches!(cause, RefusalCause::Recovering | RefusalCause::Closed)
}

impl Default for EventBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}
