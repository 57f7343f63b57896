//! Events on their way to those who look on: each waits until all changes that came before it are durable, as
//! the answer to a snapshot would.

use std::collections::VecDeque;
use std::sync::Arc;

use lockhouse_core::{Discipline, EventKind, Instant, Name, Snapshot, TableEvent};
use lockhouse_store::{HistoryKind, RefusalRecord};

use crate::engine::bucket::durability::Durability;
use crate::engine::bucket::shared::Shared;
use crate::engine::bucket::state::State;
use crate::engine::clock::Clock;
use crate::engine::events::log::{EventLog, EventPosition};
use crate::engine::events::{EventBounds, is_kept_as_history};
use crate::engine::memory::MemoryReservation;
use crate::error::StoreError;

/// The events that wait for the store, and where they go then.
#[derive(Debug)]
pub(in crate::engine::bucket) struct EventQueue {
    log: Arc<EventLog>,
    waiting: VecDeque<Waiting>,
    /// How many events wait, and how many were lost before them.
    count: u64,
    bytes: usize,
    bounds: EventBounds,
    /// Where that has a bound, the memory of those that wait.
    memory: Option<MemoryReservation>,
    /// Refusals of offline locks and claims, for the history of the store.
    refused: Vec<RefusalRecord>,
    /// Whether there is a store for them.
    is_stored: bool,
}

/// What the end of a hold of the mutex has to pass on.
#[derive(Debug, Default)]
pub(in crate::engine::bucket) struct Gathered {
    /// The log whose readers are to be woken.
    pub(in crate::engine::bucket) log: Option<Arc<EventLog>>,
    pub(in crate::engine::bucket) refused: Vec<RefusalRecord>,
}

#[derive(Debug)]
struct Waiting {
    /// The latest group of changes when it happened.
    group: u64,
    /// So many that came before it are lost.
    lost: u64,
    event: TableEvent,
}

/// The refusal of an offline lock or a claim, in calendar time.
fn refusal_of(event: &TableEvent, wall_ms: &dyn Fn(Instant) -> u64) -> Option<RefusalRecord> {
    let kind = match event.discipline {
        _ if !matches!(event.kind, EventKind::Refused(cause) if is_kept_as_history(cause)) => return None,
        Discipline::Web => return None,
        Discipline::Offline => HistoryKind::Offline,
        Discipline::Claim => HistoryKind::Claim,
    };
    let at = Instant::from_millis(wall_ms(event.at));
    let (name, who) = (event.name.clone()?, event.who.clone());
    Some(RefusalRecord { kind, name, mode: event.mode, who, owner: event.owner, since: at, at, count: 1 })
}

impl EventQueue {
    /// The events that wait are bounded as those that are kept.
    fn push(&mut self, next: Waiting) {
        self.count += 1 + next.lost;
        self.bytes += next.event.bytes();
        self.waiting.push_back(next);
        while self.waiting.len() > self.bounds.events || self.bytes > self.bounds.event_bytes {
            if !self.drop_first() {
                return;
            }
        }
    }

    /// The oldest gives way; not the last one, whatever its size: it says how many are lost.
    fn drop_first(&mut self) -> bool {
        if self.waiting.len() < 2 {
            return false;
        }
        let first = self.waiting.pop_front();
        if let (Some(first), Some(next)) = (first, self.waiting.front_mut()) {
            self.bytes -= first.event.bytes();
            next.lost += first.lost + 1;
        }
        true
    }

    /// What waits gives way where its memory is needed for locks, as what is kept does.
    fn settle(&mut self) {
        let Some(mut memory) = self.memory.take() else { return };
        while memory.reserve_of_quarters(self.bytes, EventBounds::quarters_for(self.bytes)).is_err() {
            for _ in 0..=self.waiting.len() / 8 {
                self.drop_first();
            }
            if self.waiting.len() < 2 {
                break;
            }
        }
        memory.settle(self.bytes);
        self.memory = Some(memory);
    }
}

impl State {
    /// From now on what happens goes into that log.
    pub(in crate::engine::bucket) fn start_events(
        &mut self,
        log: Arc<EventLog>,
        bounds: EventBounds,
        memory: Option<MemoryReservation>,
    ) {
        self.manager.start_events(bounds.events);
        let (waiting, refused) = (VecDeque::new(), Vec::new());
        let is_stored = matches!(self.durability, Durability::Durable(_)) && bounds.web_entries > 0;
        let queue = EventQueue { log, waiting, count: 0, bytes: 0, bounds, memory, refused, is_stored };
        self.events = Some(Box::new(queue));
    }

    /// Moves what has happened on: into the log, as far as it rests on nothing uncommitted.
    pub(in crate::engine::bucket) fn gather_events(&mut self, clock: &Clock) -> Gathered {
        let wall = &|at| clock.wall(at);
        let Self { events, manager, outbox, .. } = self;
        let Some(queue) = events.as_deref_mut() else { return Gathered::default() };
        let is_due = |waiting: &Waiting| outbox.is_durable(waiting.group);
        let mut has_more = !queue.waiting.is_empty() && is_due(&queue.waiting[0]);
        if has_more {
            let due = queue.waiting.iter().take_while(|waiting| is_due(waiting)).count();
            let due = queue.waiting.drain(..due);
            let (count, bytes) = (&mut queue.count, &mut queue.bytes);
            let events = due.map(|Waiting { lost, event, .. }| {
                *count -= 1 + lost;
                *bytes -= event.bytes();
                (lost, event)
            });
            queue.log.append(events, wall);
            queue.settle();
        }
        if manager.has_events() {
            let mut lost = manager.dropped_events();
            match outbox.latest() {
                None => {
                    debug_assert!(
                        queue.waiting.is_empty(),
                        "what waits is durable where nothing is under way"
                    );
                    let EventQueue { refused, is_stored, .. } = queue;
                    let next = || {
                        let event = manager.poll_event()?;
                        if *is_stored {
                            refused.extend(refusal_of(&event, &|at| clock.wall_ms(at)));
                        }
                        Some((std::mem::take(&mut lost), event))
                    };
                    queue.log.append(std::iter::from_fn(next), wall);
                    has_more = true;
                }
                Some(group) => {
                    while let Some(event) = manager.poll_event() {
                        if queue.is_stored {
                            queue.refused.extend(refusal_of(&event, &|at| clock.wall_ms(at)));
                        }
                        queue.push(Waiting { group, lost: std::mem::take(&mut lost), event });
                    }
                    queue.settle();
                }
            }
        }
        Gathered { log: has_more.then(|| queue.log.clone()), refused: std::mem::take(&mut queue.refused) }
    }

    /// The place of the last event that has happened, whether or not it is in the log yet.
    pub(in crate::engine::bucket) fn event_position(&self) -> Option<EventPosition> {
        let queue = self.events.as_deref()?;
        let published = queue.log.position();
        Some(EventPosition { number: published.number + queue.count, ..published })
    }

    /// What waits for the store will never be durable, or may not be told: no event comes any more.
    pub(in crate::engine::bucket) fn end_events(&mut self) {
        if let Some(queue) = self.events.take() {
            queue.log.end();
            self.manager.stop_events();
        }
    }
}

impl Shared {
    /// Passes on what the end of a hold has left.
    #[cold]
    pub(in crate::engine::bucket) fn pass_on(&self, Gathered { log, refused }: Gathered) {
        if let Some(log) = log {
            log.wake();
        }
        refused.into_iter().for_each(|record| self.house.refused(self, record));
    }

    /// What happens in the bucket, from now on at the latest.
    pub(crate) fn events(&self) -> &Arc<EventLog> {
        self.events.get_or_init(|| {
            let bounds = EventBounds { web_entries: 0, ..EventBounds::DEFAULT };
            let memory = || self.environment.reservation_of(self.key().tenant());
            let log = Arc::new(EventLog::new(bounds, memory()));
            let mut state = self.state.lock();
            if state.is_over() {
                log.end();
            } else {
                state.start_events(log.clone(), bounds, memory());
            }
            log
        })
    }

    /// The house has ended, and no event comes any more: not for a reader that begins later, either.
    pub(crate) fn end_events(&self) {
        self.events.get_or_init(|| {
            let log = EventLog::new(EventBounds::DEFAULT, None);
            log.end();
            Arc::new(log)
        });
        self.state.lock().end_events();
    }

    /// What has happened in the bucket, if that is kept.
    pub(crate) fn events_if_kept(&self) -> Option<&Arc<EventLog>> {
        self.events.get()
    }

    /// What is held and pending, of one name or of all, and the place of the last event of which it has the
    /// outcome.
    pub(crate) async fn snapshot_at(
        self: &Arc<Self>,
        name: Option<Name<'_>>,
    ) -> Result<(Snapshot, Option<EventPosition>), StoreError> {
        if let Some(name) = name {
            // If a list says that it is held, the state shows that.
            let now = self.environment.clock.stamp();
            self.with(|state| state.name_comes_up(now, name));
        }
        self.read_state(|state| {
            let snapshot = match name {
                Some(name) => state.manager.snapshot_of(name),
                None => state.manager.snapshot(),
            };
            (snapshot, state.event_position())
        })
        .await
    }
}
