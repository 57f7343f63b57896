//! Readers of events.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::filter::EventFilter;
use super::log::{BucketEvent, EventLog, EventPosition, Read};
use crate::engine::bucket::Bucket;
use crate::error::StoreError;
use crate::snapshot::Snapshot;

/// Where a reader begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventsFrom {
    /// With what happens from now on.
    #[default]
    Now,
    /// With the present state, and then what happens from then on.
    State,
    /// After that event. If what came after it is not kept any more, a gap comes first.
    After(EventPosition),
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventItem {
    /// Something has happened.
    Event(BucketEvent),
    /// Events are missing here: the bucket is another one than that of the position, or the reader was too
    /// slow. The present state comes next.
    Gap,
    /// All that is held and pending, of what the reader asks for; later events come after that position.
    State(EventPosition, Snapshot),
}

/// The events of a bucket, one after the other. The bucket stays in use as long as there is a reader.
#[derive(Debug)]
pub struct Events {
    bucket: Bucket,
    log: Arc<EventLog>,
    filter: EventFilter,
    /// The events up to here are read.
    position: EventPosition,
    found: VecDeque<BucketEvent>,
    changes: watch::Receiver<u64>,
    needs_state: bool,
}

/// What one look at the log of a bucket has found.
#[derive(Debug)]
pub enum EventsLook {
    /// The next event, or a gap.
    Found(EventItem),
    /// Nothing for this reader has happened since the last look.
    Nothing,
    /// The bucket is served here no more.
    Over,
}

/// So many events are taken from the log at a time, and no more once they take so many bytes.
const AT_ONCE: (usize, usize) = (64, 32 << 10);

impl Events {
    pub(crate) fn new(bucket: Bucket, log: Arc<EventLog>, from: EventsFrom, filter: EventFilter) -> Self {
        let changes = log.changes();
        let position = match from {
            EventsFrom::Now | EventsFrom::State => log.position(),
            EventsFrom::After(position) => position,
        };
        let needs_state = from == EventsFrom::State;
        Self { bucket, log, filter, position, found: VecDeque::new(), changes, needs_state }
    }

    /// The next event, as soon as all that came before it in the bucket is durable; or a gap, after which the
    /// present state comes. None once the bucket is served here no more: its house has ended, or has lost its
    /// store or its slot.
    ///
    /// Each change in the bucket costs a look at what is new, also where the filter admits none of it. A
    /// program with many readers of few names looks less often: it [waits](Self::changed), and
    /// [looks](Self::look) when it likes.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the present state rests on changes that the store cannot write for the time being.
    /// The next call tries again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Result<EventItem, StoreError>> {
        loop {
            if self.needs_state {
                return Some(self.state().await);
            }
            match self.look() {
                EventsLook::Found(item) => return Some(Ok(item)),
                EventsLook::Nothing => self.changed().await,
                EventsLook::Over => return None,
            }
        }
    }

    /// Looks once at what has happened, and does not wait. Where the [present state](Self::needs_state) comes
    /// next, nothing is found. A reader that has [waited](Self::changed) may so choose when it looks: each
    /// look costs O(events since the last one), whether or not the filter admits them.
    pub fn look(&mut self) -> EventsLook {
        if let Some(event) = self.take_found() {
            return EventsLook::Found(EventItem::Event(event));
        }
        if self.needs_state {
            return EventsLook::Nothing;
        }
        match self.log.read(self.position, &self.filter, AT_ONCE) {
            Read::Events(found, number) => {
                self.position.number = number;
                self.found = found.into();
                self.take_found()
                    .map_or(EventsLook::Nothing, |event| EventsLook::Found(EventItem::Event(event)))
            }
            Read::Gap => {
                self.needs_state = true;
                EventsLook::Found(EventItem::Gap)
            }
            Read::Over => EventsLook::Over,
        }
    }

    /// Waits until something has happened in the bucket since the last call, or the bucket is served here no
    /// more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what has happened is found by the next [look](Self::look).
    pub async fn changed(&mut self) {
        // The sender is in the log, which this reader keeps.
        _ = self.changes.changed().await;
    }

    /// Waits until the bucket is served here no more: no event and no state comes any more that this reader
    /// has not been told of.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.changes.clone();
        async move { _ = changes.wait_for(|last| *last == EventLog::OVER).await }
    }

    /// Whether the present state comes next.
    pub fn needs_state(&self) -> bool {
        self.needs_state
    }

    /// The events that are there already; none if the next step may have to wait.
    pub fn take_found(&mut self) -> Option<BucketEvent> {
        self.found.pop_front()
    }

    /// Where the reader goes on: all events up to there that it asks for were given.
    pub fn position(&self) -> EventPosition {
        match self.found.front() {
            Some(next) => EventPosition { number: next.position.number - 1, ..self.position },
            None => self.position,
        }
    }

    /// The same as a stream, which ends with the bucket.
    ///
    /// ```
    /// use futures_util::{StreamExt, pin_mut};
    /// use lockhouse::{EventFilter, EventItem, EventsFrom, House};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let bucket = House::new().bucket("default");
    /// let events = bucket.events(EventsFrom::Now, EventFilter::default()).into_stream();
    /// pin_mut!(events);
    /// let agent = bucket.agent("worker-1")?;
    /// let lock = agent.locks().request("report").await?;
    /// let Some(Ok(EventItem::Event(event))) = events.next().await else { panic!() };
    /// assert_eq!((&*event.client_id, event.fencing_token), ("worker-1", Some(lock.fencing_token())));
    /// # Ok(()) }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<EventItem, StoreError>> + Send {
        unfold(self, |mut events| async move { Some((events.next().await?, events)) })
    }

    async fn state(&mut self) -> Result<EventItem, StoreError> {
        let (snapshot, position) = self.bucket.snapshot_at(&self.filter).await?;
        self.position = position;
        self.needs_state = false;
        Ok(EventItem::State(position, snapshot))
    }
}
