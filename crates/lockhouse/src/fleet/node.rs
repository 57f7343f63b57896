//! A process as a node of a fleet, as the rest of the process sees it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse_store::{Fleet, FleetRows, JoinError, NodeId, NodeRow, Slot};
use tokio::sync::broadcast;
use tokio::time::timeout;

use super::life::Inner;
use super::options::NodeOptions;
use super::slots::SlotState;
use crate::engine::key::BucketKey;
use crate::{House, StoreState};

/// A process as a node of a fleet. Cheap to clone; every clone is the same node.
///
/// Its houses are for [ports](crate::Port): who hands on what they say has to ask the [`SlotLease`] of the
/// house ([`Bucket::slot_lease`](crate::Bucket::slot_lease)) first. Agents of the process itself have no
/// place in a fleet.
///
/// [`SlotLease`]: super::SlotLease
#[derive(Clone, Debug)]
pub struct FleetNode {
    pub(super) inner: Arc<Inner>,
}

/// The other nodes, as a node speaks to them.
pub trait Peers: Send + Sync + fmt::Debug {
    /// Asks a node to give a slot back ([`FleetNode::release`] there). Returns once it has, or says why it
    /// has not.
    fn ask<'a>(
        &'a self,
        node: &'a NodeRow,
        slot: Slot,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
}

/// Where a bucket is.
#[derive(Clone, Debug)]
pub enum BucketPlace {
    /// In this house.
    Here(House),
    /// At that node, as far as is known.
    There(NodeRow),
    /// Between two nodes, or at none: in a moment it is somewhere.
    Moving,
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePhase {
    /// It was declared dead, and joins anew.
    Joining,
    /// It is a node.
    Member,
    /// It gives its slots back.
    Leaving,
    /// It has left. It still knows where buckets are.
    Left,
    /// It cannot be a node any more, and its process should end.
    Failed(NodeError),
}

/// Why a process is no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// It could not join.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The nodes do not have the same secret.
    #[error(
        "the cluster secret is not that of the node {label:?} at {address:?}; give all nodes the same secret file"
    )]
    OtherSecret {
        /// The name of the other node.
        label: Box<str>,
        /// Its address.
        address: Box<str>,
    },
    /// Another node is reached at the same address.
    #[error(
        "the address {address:?} is that of the node {label:?}, which lives; give each node an address of its own"
    )]
    AddressInUse {
        /// The name of the other node.
        label: Box<str>,
        /// The address of both.
        address: Box<str>,
    },
}

/// Why a slot is not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReleased {
    /// This node does not serve it.
    #[error("the slot is not served here")]
    NotHere,
    /// Holders of before may still come back to it.
    #[error("the slot waits for its former holders")]
    Recovers,
    /// Its house was closed, and it is not known whether the store has that.
    #[error("the slot is closed, and the store has not confirmed it")]
    Unconfirmed,
}

/// What has happened to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeEvent {
    /// It has joined.
    Joined,
    /// It was declared dead by another one: it has lost all its slots.
    Dead,
    /// It has declared another one dead, of this name.
    Buried(Box<str>),
    /// It serves this slot.
    Taken {
        /// The slot.
        slot: Slot,
        /// Whether it may have to wait for former holders.
        recovers: bool,
    },
    /// It has given this slot back.
    Released(Slot),
    /// It serves this slot no more.
    Lost(Slot, StoreState),
    /// It could not take this slot.
    NotTaken(Slot, String),
    /// What is kept of this slot, which it has taken, cannot be read or written. It tries again later.
    Unservable(Slot, String),
    /// The history could not be written or pruned. What is held does not depend on it.
    HistoryFails(String),
    /// Its polls are not answered.
    StoreAway(String),
    /// Its polls are answered again.
    StoreBack,
}

/// A fleet as one node sees it.
#[derive(Clone, Debug)]
pub struct FleetView {
    /// The number of the node that looks; none if it is no node at the moment.
    pub own: Option<NodeId>,
    /// All rows, as the last poll has found them.
    pub rows: Arc<FleetRows>,
    /// The slots that this node serves, takes, or gives back.
    pub slots: Vec<SlotView>,
}

/// A slot, as the node sees it that has to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// The slot.
    pub slot: Slot,
    /// One word.
    pub state: &'static str,
}

impl FleetNode {
    /// Joins a fleet, and goes on in tasks of its own.
    ///
    /// # Errors
    ///
    /// [`NodeError`]. A former life of the same name is waited for until it is declared dead.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled, which then has to live as long as the node.
    ///
    /// # Cancel safety
    ///
    /// As if it had died.
    pub async fn start(
        fleet: Arc<dyn Fleet>,
        peers: Arc<dyn Peers>,
        options: NodeOptions,
    ) -> Result<Self, NodeError> {
        let inner = Inner::start(fleet, peers, options).await?;
        Ok(Self { inner })
    }

    /// Where that bucket is.
    pub fn find(&self, key: &BucketKey) -> BucketPlace {
        self.place_of(self.slot_of(key))
    }

    /// As [`find`](Self::find), once it is somewhere, or after this time.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn find_in_time(&self, key: &BucketKey, patience: Duration) -> BucketPlace {
        let is_settled = |place: &BucketPlace| !matches!(place, BucketPlace::Moving);
        self.find_slot(self.slot_of(key), patience, is_settled).await
    }

    /// As [`find_in_time`](Self::find_in_time), once it is not at that node, which has said so or could not
    /// be reached.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn find_elsewhere(&self, key: &BucketKey, than: NodeId, patience: Duration) -> BucketPlace {
        let is_elsewhere = |place: &BucketPlace| match place {
            BucketPlace::Here(_) => true,
            BucketPlace::There(node) => node.id != than,
            BucketPlace::Moving => false,
        };
        self.find_slot(self.slot_of(key), patience, is_elsewhere).await
    }

    /// Whether this node serves the slot; one that is about to come or go is waited for, for this time.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn serves_in_time(&self, slot: Slot, patience: Duration) -> bool {
        let is_settled = |place: &BucketPlace| !matches!(place, BucketPlace::Moving);
        matches!(self.find_slot(slot, patience, is_settled).await, BucketPlace::Here(_))
    }

    /// Waits until that node has left or was declared dead, as the polls have it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn is_gone(&self, node: NodeId) {
        let mut rows = self.inner.rows.subscribe();
        // The sender is here.
        _ = rows.wait_for(|rows| rows.nodes.iter().all(|row| row.id != node)).await;
    }

    async fn find_slot(
        &self,
        slot: Slot,
        patience: Duration,
        is_found: impl Fn(&BucketPlace) -> bool,
    ) -> BucketPlace {
        let mut changes = self.inner.table.changes();
        let found = async {
            loop {
                changes.mark_unchanged();
                let place = self.place_of(slot);
                if is_found(&place) {
                    return place;
                }
                // The sender is here.
                _ = changes.changed().await;
            }
        };
        timeout(patience, found).await.unwrap_or(BucketPlace::Moving)
    }

    /// The slot of that bucket.
    pub fn slot_of(&self, key: &BucketKey) -> Slot {
        Slot::of(&key.scope(), self.inner.fleet.slots())
    }

    fn place_of(&self, slot: Slot) -> BucketPlace {
        match self.inner.table.get(slot) {
            SlotState::Serving(house, _) => BucketPlace::Here(house),
            SlotState::Opening | SlotState::Closing(_) => BucketPlace::Moving,
            // Another node may serve meanwhile what this one could not.
            SlotState::Away | SlotState::Unservable(_) => {
                let rows = self.inner.rows.borrow().clone();
                let owner = rows.slots.get(usize::from(slot.get())).and_then(|row| row.owner);
                let other = owner.filter(|owner| Some(*owner) != self.id());
                let node = other.and_then(|owner| rows.nodes.iter().find(|node| node.id == owner));
                node.map_or(BucketPlace::Moving, |node| BucketPlace::There(node.clone()))
            }
        }
    }

    /// The number of this life; none while it is no node.
    pub fn id(&self) -> Option<NodeId> {
        self.inner.life().map(|life| life.store.id())
    }

    /// The name of the node.
    pub fn label(&self) -> &str {
        &self.inner.options.label
    }

    /// The houses of all slots that it serves.
    pub fn houses(&self) -> Vec<House> {
        self.inner.table.houses().into_iter().map(|(_, house)| house).collect()
    }

    /// The fleet as this node sees it.
    pub fn view(&self) -> FleetView {
        FleetView { own: self.id(), rows: self.inner.rows.borrow().clone(), slots: self.inner.table.view() }
    }

    /// For how long no commit of this life has been confirmed; none if none ever was.
    pub fn unconfirmed_for(&self) -> Option<Duration> {
        self.inner.life()?.lease.unconfirmed_for()
    }

    /// Waits until a commit is confirmed. Returns how long ago the last one that is confirmed was sent.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn renewed(&self) -> Duration {
        let mut phases = self.inner.phase.subscribe();
        loop {
            let life = self.inner.life();
            let confirmed = async {
                match &life {
                    Some(life) => life.lease.confirmed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = confirmed => {}
                // Another life has begun, or will. The sender is here.
                _ = phases.changed() => continue,
            }
            if let Some(sent) = life.and_then(|life| life.lease.unconfirmed_for()) {
                return sent;
            }
        }
    }

    /// Who has kept old versions of rows alive in the database for longest, and for how many transactions, by
    /// a look of the last minute; none before the first one.
    pub fn oldest_holder(&self) -> Option<(Box<str>, i64)> {
        self.inner.life()?.store.oldest_holder()
    }

    /// How far it is.
    pub fn phase(&self) -> NodePhase {
        self.inner.phase.borrow().clone()
    }

    /// Waits until it cannot be a node any more, and says why.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn failed(&self) -> NodeError {
        let mut phases = self.inner.phase.subscribe();
        loop {
            if let NodePhase::Failed(why) = &*phases.borrow_and_update() {
                return why.clone();
            }
            // The sender is here.
            _ = phases.changed().await;
        }
    }

    /// Why it cannot be given clients at the moment; none if it can.
    pub fn why_not_ready(&self) -> Option<String> {
        match self.phase() {
            NodePhase::Member => {}
            NodePhase::Joining => {
                let why = self.inner.store_away().map_or_else(String::new, |why| format!(": {why}"));
                return Some(format!("the node was declared dead, and joins anew{why}"));
            }
            NodePhase::Leaving | NodePhase::Left => return Some("the node leaves the fleet".to_owned()),
            NodePhase::Failed(why) => return Some(why.to_string()),
        }
        let Some(life) = self.inner.life() else { return Some("the node joins".to_owned()) };
        let away = self.inner.store_away();
        if life.lease.is_mute() {
            let why = away.map_or_else(String::new, |why| format!("; the store is away: {why}"));
            return Some(format!("the node is silent, as no commit of it was confirmed in time{why}"));
        }
        if let Some(why) = away {
            return Some(format!("the store is away: {why}"));
        }
        if !life.has_share.load(Ordering::Acquire) {
            return Some("the node is new, and has not got its share of the slots yet".to_owned());
        }
        let moving = self.inner.table.moving();
        (moving > 0).then(|| format!("{moving} slots are being taken or given back"))
    }

    /// What has happened since. A receiver that is too slow misses the oldest of it.
    pub fn events(&self) -> broadcast::Receiver<NodeEvent> {
        self.inner.events.subscribe()
    }

    /// Gives a slot back: its house grants nothing any more, whatever comes of it, leaves a list of the web
    /// locks that are held, and ends. The slot is free then.
    ///
    /// # Errors
    ///
    /// [`NotReleased`].
    ///
    /// # Cancel safety
    ///
    /// It goes on nevertheless.
    pub async fn release(&self, slot: Slot) -> Result<(), NotReleased> {
        self.inner.release(slot).await
    }

    /// Gives all slots back, and leaves the fleet. The node goes on to know where buckets are.
    ///
    /// # Cancel safety
    ///
    /// It goes on nevertheless.
    pub async fn leave(&self) {
        self.inner.begin_to_leave();
        let mut phases = self.inner.phase.subscribe();
        let has_left = |phase: &NodePhase| matches!(phase, NodePhase::Left | NodePhase::Failed(_));
        // The sender is here.
        _ = phases.wait_for(has_left).await;
    }
}
