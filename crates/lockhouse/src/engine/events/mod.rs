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
}

impl Default for EventBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}
