//! The slots of a fleet, as one node serves them.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_store::Slot;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::node::SlotView;
use crate::House;

/// What a node has to do with each slot.
#[derive(Debug)]
pub(super) struct SlotTable {
    slots: Mutex<Vec<Entry>>,
    /// Marked as changed with every state.
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct Entry {
    state: SlotState,
    /// When the state began.
    since: Duration,
}

/// What a node has to do with a slot.
#[derive(Clone, Debug)]
pub(super) enum SlotState {
    /// Nothing: it is another node's, or free.
    Away,
    /// It is being taken.
    Opening,
    /// It is served. With the number of commits that were sent before it was taken.
    Serving(House, u64),
    /// It is being given back.
    Closing(House),
    /// What is kept of it cannot be served. It is not taken again before that instant.
    Unservable(Duration),
}

impl SlotTable {
    pub(super) fn new(count: u16) -> Self {
        let entry = || Entry { state: SlotState::Away, since: Duration::ZERO };
        let slots = std::iter::repeat_with(entry).take(count.into()).collect();
        Self { slots: Mutex::new(slots), changes: watch::Sender::new(()) }
    }

    pub(super) fn get(&self, slot: Slot) -> SlotState {
        let slots = self.slots.lock();
        slots.get(usize::from(slot.get())).map_or(SlotState::Away, |entry| entry.state.clone())
    }

    /// Whether the slot is served or about to be, or was at that instant.
    pub(super) fn is_or_was_served(&self, slot: Slot, at: Duration) -> bool {
        let slots = self.slots.lock();
        let entry = slots.get(usize::from(slot.get()));
        entry.is_some_and(|entry| entry.since >= at || !entry.state.may_be_opened(at))
    }

    /// Goes on to another state, if the present one is as it has to be. Returns whether it was.
    pub(super) fn change(
        &self,
        slot: Slot,
        now: Duration,
        from: impl FnOnce(&SlotState) -> bool,
        to: SlotState,
    ) -> bool {
        let former = {
            let mut slots = self.slots.lock();
            let Some(entry) = slots.get_mut(usize::from(slot.get())) else { return false };
            if !from(&entry.state) {
                return false;
            }
            entry.since = now;
            std::mem::replace(&mut entry.state, to)
        };
        self.changes.send_replace(());
        // The end of a house takes other mutexes.
        drop(former);
        true
    }

    /// The houses of all slots that are served or being given back.
    pub(super) fn houses(&self) -> Vec<(Slot, House)> {
        let slots = self.slots.lock();
        let house = |(number, entry): (usize, &Entry)| match &entry.state {
            SlotState::Serving(house, _) | SlotState::Closing(house) => {
                Some((Slot::new(number as u16), house.clone()))
            }
            SlotState::Away | SlotState::Opening | SlotState::Unservable(_) => None,
        };
        slots.iter().enumerate().filter_map(house).collect()
    }

    /// The slots that were served before the commit of this number was sent, so that it knows of them.
    pub(super) fn served_before(&self, commit: u64) -> Vec<(Slot, House)> {
        let slots = self.slots.lock();
        let house = |(number, entry): (usize, &Entry)| match &entry.state {
            SlotState::Serving(house, sent) if *sent < commit => {
                Some((Slot::new(number as u16), house.clone()))
            }
            _ => None,
        };
        slots.iter().enumerate().filter_map(house).collect()
    }

    /// The end of a life: it has nothing to do with any slot that it does not serve, or give back.
    pub(super) fn forget(&self, now: Duration) {
        for entry in self.slots.lock().iter_mut() {
            if matches!(entry.state, SlotState::Unservable(_)) {
                *entry = Entry { state: SlotState::Away, since: now };
            }
        }
        self.changes.send_replace(());
    }

    /// Marked as changed with every state.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Those who wait for a change look again: what is known of other nodes has changed.
    pub(super) fn notify(&self) {
        self.changes.send_replace(());
    }

    /// What this node has to do with slots, for people.
    pub(super) fn view(&self) -> Vec<SlotView> {
        let states: Vec<SlotState> = self.slots.lock().iter().map(|entry| entry.state.clone()).collect();
        // Houses are looked at without the mutex.
        let view = |(number, state): (usize, &SlotState)| {
            let state = match state {
                SlotState::Away => return None,
                SlotState::Opening => "opening",
                SlotState::Serving(house, _) if house.waits_for_holders() => "recovering",
                SlotState::Serving(..) => "serving",
                SlotState::Closing(_) => "closing",
                SlotState::Unservable(_) => "unservable",
            };
            Some(SlotView { slot: Slot::new(number as u16), state })
        };
        states.iter().enumerate().filter_map(view).collect()
    }

    /// How many slots are being taken or given back.
    pub(super) fn moving(&self) -> usize {
        let slots = self.slots.lock();
        let is_moving = |entry: &&Entry| matches!(entry.state, SlotState::Opening | SlotState::Closing(_));
        slots.iter().filter(is_moving).count()
    }
}

impl SlotState {
    /// Whether the slot may be taken at that instant.
    pub(super) fn may_be_opened(&self, at: Duration) -> bool {
        match self {
            Self::Away => true,
            Self::Unservable(until) => at >= *until,
            Self::Opening | Self::Serving(..) | Self::Closing(_) => false,
        }
    }

    /// Whether that is the house that serves the slot, or gives it back.
    pub(super) fn is_of(&self, house: &House) -> bool {
        match self {
            Self::Serving(known, _) | Self::Closing(known) => Arc::ptr_eq(&known.inner, &house.inner),
            Self::Away | Self::Opening | Self::Unservable(_) => false,
        }
    }
}
