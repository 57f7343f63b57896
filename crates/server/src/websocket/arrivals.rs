//! The order in which input arrives at the connections of a bucket.
//!
//! A runtime with several workers polls tasks that were woken together in any order, mostly the last one
//! first. So each connection takes a place in its bucket's order at the moment of its wake-up, which the
//! system reports in the order of arrival, and what it has read is carried out once the places before are
//! gone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use lockhouse::BucketKey;
use parking_lot::Mutex;

/// The orders of all buckets. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArrivalOrders(Arc<Mutex<HashMap<BucketKey, Entry>>>);

#[derive(Debug, Default)]
struct Entry {
    order: Arc<Order>,
    /// The sessions that share it.
    sessions: usize,
}

/// The order of one bucket, as a session has it; forgotten with the last session.
#[derive(Debug)]
pub(crate) struct ArrivalOrder {
    orders: ArrivalOrders,
    key: BucketKey,
    order: Arc<Order>,
}

/// The places of an order by number, each with the task that waits for its turn.
#[derive(Debug, Default)]
struct Order(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    last: u64,
    waiting: BTreeMap<u64, Option<Waker>>,
}

/// A place in an order; dropping it lets the next one have its turn.
#[derive(Debug)]
struct Place {
    order: Arc<Order>,
    number: u64,
}

/// The place of one connection, from its wake-up to the time when its input has been carried out.
#[derive(Debug, Default)]
pub(super) struct Arrival(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The task that reads.
    reader: AtomicWaker,
    state: Mutex<ArrivalState>,
}

#[derive(Debug, Default)]
struct ArrivalState {
    /// Unset before the bucket of the connection is known, and once nothing is carried out any more.
    order: Option<Arc<Order>>,
    place: Option<Place>,
}

impl ArrivalOrders {
    /// The order of that bucket.
    pub(crate) fn of(&self, key: &BucketKey) -> ArrivalOrder {
        let mut entries = self.0.lock();
        let entry = entries.entry(key.clone()).or_default();
        entry.sessions += 1;
        ArrivalOrder { orders: self.clone(), key: key.clone(), order: entry.order.clone() }
    }
}

impl Drop for ArrivalOrder {
    fn drop(&mut self) {
        let mut entries = self.orders.0.lock();
        let Some(entry) = entries.get_mut(&self.key) else { return };
        entry.sessions -= 1;
        if entry.sessions == 0 {
            entries.remove(&self.key);
        }
    }
}

impl Order {
    fn arrive(self: &Arc<Self>) -> Place {
        let mut places = self.0.lock();
        places.last += 1;
        let number = places.last;
        places.waiting.insert(number, None);
        Place { order: self.clone(), number }
    }
}

impl Place {
    fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        let mut places = self.order.0.lock();
        if places.waiting.first_key_value().is_none_or(|(first, _)| *first == self.number) {
            return Poll::Ready(());
        }
        places.waiting.insert(self.number, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = {
            let mut places = self.order.0.lock();
            let was_first = places.waiting.first_key_value().is_some_and(|(first, _)| *first == self.number);
            places.waiting.remove(&self.number);
            // The waker runs without the mutex.
            places.waiting.first_entry().filter(|_| was_first).and_then(|mut next| next.get_mut().take())
        };
        next.into_iter().for_each(Waker::wake);
    }
}

impl Arrival {
    /// The connection belongs to a session of that bucket.
    pub(super) fn enter(&self, order: &ArrivalOrder) {
        self.0.state.lock().order = Some(order.order.clone());
    }

    /// Reads, and is woken in order. Without input the place is given up.
    pub(super) fn poll_read<T>(
        &self,
        context: &Context<'_>,
        read: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.0.reader.register(context.waker());
        let place = self.0.state.lock().place.take();
        let waker = Waker::from(self.0.clone());
        let input = read(&mut Context::from_waker(&waker));
        if input.is_ready() && place.is_some() {
            // The place that a wake-up took meanwhile is a later one.
            let later = std::mem::replace(&mut self.0.state.lock().place, place);
            drop(later);
        }
        input
    }

    /// Waits for the turn of input that has been read, which keeps its place until it [passes](Self::pass).
    pub(super) fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        match &mut *self.0.state.lock() {
            ArrivalState { order: Some(order), place } => {
                place.get_or_insert_with(|| order.arrive()).poll_turn(context)
            }
            ArrivalState { order: None, .. } => Poll::Ready(()),
        }
    }

    /// All that has arrived is carried out, or cannot be now.
    pub(super) fn pass(&self) {
        let place = self.0.state.lock().place.take();
        drop(place);
    }

    /// Nothing that arrives is carried out any more.
    pub(super) fn end(&self) {
        let ended = std::mem::take(&mut *self.0.state.lock());
        drop(ended);
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.end();
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let ArrivalState { order: Some(order), place } = &mut *self.state.lock() {
            place.get_or_insert_with(|| order.arrive());
        }
        self.reader.wake();
    }
}
