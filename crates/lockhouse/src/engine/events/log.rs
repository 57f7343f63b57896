//! The latest events of a bucket, each with a number, bounded in count and in bytes.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::time::SystemTime;

use lockhouse_core::{
    Discipline, EndCause, EventKind, FencingToken, Instant, Mode, NameBuf, OwnerId, TableEvent,
};
use tokio::sync::watch;

use super::EventBounds;
use super::filter::EventFilter;
use super::web_history::{WebHistory, WebHistoryPage};
use crate::engine::memory::MemoryReservation;
use crate::engine::sync::Mutex;

/// Where an event stands among all of its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventPosition {
    /// Of which life of the bucket: a random number below 2^64.
    pub epoch: u64,
    /// Its number in this life; the first event has number 1.
    pub number: u64,
}

/// A text is no [`EventPosition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of an event is EPOCH.NUMBER, as 9f3a61c2.17")]
pub struct InvalidPosition;

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.epoch, self.number)
    }
}

impl FromStr for EventPosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let (epoch, number) = text.split_once('.').ok_or(InvalidPosition)?;
        let is_plain =
            |text: &str, digits: usize| (1..=digits).contains(&text.len()) && !text.starts_with('+');
        if !is_plain(epoch, 16) || !is_plain(number, 20) {
            return Err(InvalidPosition);
        }
        let epoch = u64::from_str_radix(epoch, 16).map_err(|_| InvalidPosition)?;
        Ok(Self { epoch, number: number.parse().map_err(|_| InvalidPosition)? })
    }
}

/// Something that has happened in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketEvent {
    /// Its place. Readers go on after it.
    pub position: EventPosition,
    /// When.
    pub at: SystemTime,
    /// What.
    pub kind: EventKind,
    /// Of which discipline; an owner is of offline locks.
    pub discipline: Discipline,
    /// The name; none of an owner.
    pub name: Option<NameBuf>,
    /// The mode; none of an owner or an assignment.
    pub mode: Option<Mode>,
    /// The client id of a web lock, the label of an owner, or the claimant.
    pub client_id: Box<str>,
    /// The owner, of an owner or an offline lock.
    pub owner: Option<OwnerId>,
    /// The fencing token of what is held or was held.
    pub fencing_token: Option<FencingToken>,
    /// Since when it waits or waited, of a wait and a grant; since when it was held, of its end.
    pub since: SystemTime,
}

/// The events of a bucket that are kept.
#[derive(Debug)]
pub(crate) struct EventLog {
    kept: Mutex<KeptEvents>,
    /// The number of the last event, for those who wait for more; [`OVER`](EventLog::OVER) at the end.
    last: watch::Sender<u64>,
}

#[derive(Debug)]
struct KeptEvents {
    bounds: EventBounds,
    epoch: u64,
    /// How many events there have been.
    last: u64,
    events: VecDeque<BucketEvent>,
    /// The memory of the events.
    bytes: usize,
    web: WebHistory,
    /// Where that has a bound, the memory of all of it.
    memory: Option<MemoryReservation>,
    /// No event will come any more.
    is_over: bool,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Read {
    /// Events, and the number up to which all were looked at.
    Events(Vec<BucketEvent>, u64),
    /// Events after that number are not kept any more.
    Gap,
    /// No event will come any more.
    Over,
}

/// So many events are kept of a bucket that is not in use.
const KEPT_UNUSED: usize = 256;

/// So many events are looked at in one hold of the mutex.
const LOOKED_AT: usize = 512;

impl EventLog {
    /// In place of the number of the last event, once no event will come any more.
    pub(crate) const OVER: u64 = u64::MAX;

    pub(crate) fn new(bounds: EventBounds, memory: Option<MemoryReservation>) -> Self {
        // Keys of the standard library are random: no two lives of a bucket have one epoch.
        let epoch = RandomState::new().hash_one(0);
        let (events, web) = (VecDeque::new(), WebHistory::new(bounds));
        let kept = KeptEvents { bounds, epoch, last: 0, events, bytes: 0, web, memory, is_over: false };
        Self { kept: Mutex::new(kept), last: watch::Sender::new(0) }
    }

    /// Adds events, of which so many that came before are lost. Their instants become calendar time.
    pub(crate) fn append(
        &self,
        events: impl Iterator<Item = (u64, TableEvent)>,
        wall: &dyn Fn(Instant) -> SystemTime,
    ) {
        let mut kept = self.kept.lock();
        for (lost, event) in events {
            kept.append(lost, event, wall);
        }
        kept.settle();
    }

    /// Wakes the readers.
    pub(crate) fn wake(&self) {
        if self.last.receiver_count() > 0 {
            let number = self.kept.lock().last;
            self.last.send_if_modified(|last| {
                let is_more = *last < number;
                *last = (*last).max(number);
                is_more
            });
        }
    }

    /// No event will come any more.
    pub(crate) fn end(&self) {
        self.kept.lock().is_over = true;
        self.last.send_replace(Self::OVER);
    }

    /// Whether nothing has happened yet, or the bucket has ended.
    pub(crate) fn is_unused(&self) -> bool {
        let kept = self.kept.lock();
        kept.last == 0 || kept.is_over
    }

    /// Keeps the history, and of the events only a few: the bucket is not in use.
    pub(crate) fn shrink(&self) {
        let mut kept = self.kept.lock();
        while kept.events.len() > KEPT_UNUSED {
            kept.drop_first();
        }
        kept.events.shrink_to_fit();
        kept.settle();
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The place of the last event.
    pub(crate) fn position(&self) -> EventPosition {
        let kept = self.kept.lock();
        EventPosition { epoch: kept.epoch, number: kept.last }
    }

    /// The next events after that place, at most so many, and no more once they take so many bytes.
    pub(crate) fn read(&self, after: EventPosition, filter: &EventFilter, most: (usize, usize)) -> Read {
        let mut after = after;
        loop {
            let kept = self.kept.lock();
            match kept.read(after, filter, most) {
                Read::Events(events, number) if events.is_empty() && number < kept.last => {
                    after.number = number;
                }
                read => return read,
            }
        }
    }

    /// The history of web locks, the latest entries first.
    pub(crate) fn web_history(
        &self,
        before: Option<EventPosition>,
        limit: usize,
        filter: &lockhouse_store::HistoryFilter,
    ) -> WebHistoryPage {
        let kept = self.kept.lock();
        let before = match before {
            // Everything that is kept now came after the life of which that was.
            Some(before) if before.epoch != kept.epoch => return WebHistoryPage::default(),
            before => before.map(|before| before.number),
        };
        kept.web.page(kept.epoch, before, limit, filter)
    }
}

impl KeptEvents {
    fn append(&mut self, lost: u64, event: TableEvent, wall: &dyn Fn(Instant) -> SystemTime) {
        self.last += lost + 1;
        self.web.note(&event, wall);
        let TableEvent { at, kind, discipline, name, mode, who, owner, token, since } = event;
        let event = BucketEvent {
            position: EventPosition { epoch: self.epoch, number: self.last },
            at: wall(at),
            kind,
            discipline,
            name,
            mode,
            client_id: who,
            owner,
            fencing_token: token,
            since: wall(since),
        };
        self.bytes += bytes_of(&event);
        self.events.push_back(event);
        while self.events.len() > self.bounds.events || self.bytes > self.bounds.event_bytes {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.events.pop_front() {
            self.bytes -= bytes_of(&first);
        }
    }

    /// What is kept gives way where its memory is needed for locks: half of the budget is left to those. A
    /// little stays, so that a reader that keeps up has no gap; a quarter is left to locks whatever stays.
    fn settle(&mut self) {
        let Some(memory) = &mut self.memory else { return };
        loop {
            let bytes = self.bytes + self.web.bytes();
            if memory.reserve_of_quarters(bytes, EventBounds::quarters_for(bytes)).is_ok() {
                memory.settle(bytes);
                return;
            }
            for _ in 0..=self.events.len() / 8 {
                if let Some(first) = self.events.pop_front() {
                    self.bytes -= bytes_of(&first);
                }
            }
            self.web.shrink();
        }
    }

    fn read(&self, after: EventPosition, filter: &EventFilter, most: (usize, usize)) -> Read {
        let first = self.events.front().map_or(self.last + 1, |event| event.position.number);
        if after.epoch != self.epoch || after.number > self.last || after.number + 1 < first {
            return if self.is_over { Read::Over } else { Read::Gap };
        }
        let begin = self.events.partition_point(|event| event.position.number <= after.number);
        let (mut found, mut bytes, mut number) = (Vec::new(), 0, after.number);
        for event in self.events.range(begin..).take(LOOKED_AT) {
            if event.position.number > number + 1 {
                // Those between were lost before they came here.
                if found.is_empty() {
                    return Read::Gap;
                }
                break;
            }
            number = event.position.number;
            if filter.admits(event) {
                bytes += bytes_of(event);
                found.push(event.clone());
                if found.len() == most.0 || bytes >= most.1 {
                    break;
                }
            }
        }
        if found.is_empty() && number == self.last && self.is_over {
            return Read::Over;
        }
        Read::Events(found, number)
    }
}

fn bytes_of(event: &BucketEvent) -> usize {
    let said = match &event.kind {
        EventKind::Ended(EndCause::Broken(by)) => {
            by.operator.len() + by.reason.as_ref().map_or(0, |reason| reason.len())
        }
        _ => 0,
    };
    let name = event.name.as_ref().map_or(0, |name| name.as_name().as_wtf8().len());
    size_of::<BucketEvent>() + name + event.client_id.len() + said
}
