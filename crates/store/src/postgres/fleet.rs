//! The store as a node of a fleet has it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Param;
use super::error::{PostgresOpenError, Trouble};
use super::generation::Generation;
use super::load::{get, text};
use super::schema::call;
use super::{PostgresOptions, PostgresStore};
use crate::values::{bits, number};
use crate::{
    CommitBatch, CommitOutcome, Fatal, Fleet, FleetRows, FleetStore, HistoryFaults, JoinError, NewNode,
    NodeId, NodeRenewal, NodeRow, Slot, SlotRow, StoreFuture, StoreUnavailable,
};

/// The statements of nodes.
pub(crate) struct FleetStatements {
    join: String,
    leave: String,
    bury: String,
    pub(crate) learn: String,
    pub(crate) nodes: String,
    slots: String,
}

impl FleetStatements {
    pub(crate) fn of(quoted: &str) -> Self {
        Self {
            join: format!("SELECT * FROM {}", call(quoted, "join_fleet", 5)),
            leave: format!("SELECT {}", call(quoted, "leave", 1)),
            bury: format!("SELECT {}", call(quoted, "bury", 3)),
            learn: format!("SELECT * FROM {}", call(quoted, "learn", 1)),
            nodes: format!("SELECT * FROM {quoted}.nodes ORDER BY label"),
            slots: format!(
                "SELECT slot, epoch, owner, slot_lease_ms, clean FROM {quoted}.slots ORDER BY slot"
            ),
        }
    }
}

impl PostgresStore {
    /// Joins the fleet as a node: from now on only free slots are taken, and every commit renews.
    ///
    /// # Errors
    ///
    /// [`JoinError`]. If the answer was lost the label may be in use, by a node that does not live: it has to
    /// be declared dead like any other.
    ///
    /// # Cancel safety
    ///
    /// As if the answer were lost.
    pub async fn join(mut self, node: &NewNode) -> Result<Self, JoinError> {
        self.join_as(node).await?;
        Ok(self)
    }

    async fn join_as(&mut self, node: &NewNode) -> Result<(), JoinError> {
        node.check()?;
        self.check()?;
        let away = |why: String| StoreUnavailable::Away { place: self.place.clone(), why: why.into() };
        let id = getrandom::u64().map_err(|error| away(error.to_string()))?;
        let (lock_ms, incarnation) = (self.lock_ms(), bits(id));
        let (label, address) = (node.label.as_bytes(), node.address.as_bytes());
        let lease_ms = millis(node.slot_lease);
        let mark = &node.secret_mark[..];
        let further: [Param<'_>; 5] = [
            (&incarnation, Type::INT8),
            (&label, Type::BYTEA),
            (&address, Type::BYTEA),
            (&lease_ms, Type::INT8),
            (&mark, Type::BYTEA),
        ];
        let asked = self.known.lock().of_all();
        let rows = self.ask(&self.fleet.join, &asked.params(&lock_ms, &further)).await?;
        let row = rows.first().ok_or_else(|| away("no answer to a join".to_owned()))?;
        let known = node_row(row).map_err(|why| self.damaged(why))?;
        let generation = Generation::of(row).map_err(|why| self.damaged(why))?;
        self.known.lock().learn(generation);
        if known.id != NodeId(id) {
            return Err(JoinError::LabelInUse(known));
        }
        self.node = Some(NodeId(id));
        Ok(())
    }

    /// The node that this process is, if it has joined.
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// Renews as every commit does, without one. A process that has not joined is no node that lives.
    ///
    /// # Errors
    ///
    /// [`Fatal`].
    pub async fn renew(&self) -> Result<NodeRenewal, Fatal> {
        self.check()?;
        if self.node.is_none() {
            return Ok(NodeRenewal::Dead);
        }
        Ok(self.send(&[]).await?.1)
    }

    /// All nodes, by their labels, and all slots, in order.
    ///
    /// # Errors
    ///
    /// [`JoinError`]: the store cannot be read at the moment, or not any more.
    pub async fn look(&self) -> Result<FleetRows, JoinError> {
        self.check()?;
        // In this order, so that a node that joins and takes a slot in between has a row.
        let slots = self.ask(&self.fleet.slots, &[]).await?;
        let nodes = self.ask(&self.fleet.nodes, &[]).await?;
        let nodes: Result<_, String> = nodes.iter().map(node_row).collect();
        let slots: Result<_, String> = slots.iter().map(slot_row).collect();
        let (nodes, slots) =
            (nodes.map_err(|why| self.damaged(why))?, slots.map_err(|why| self.damaged(why))?);
        Ok(FleetRows { nodes, slots })
    }

    /// Declares a node dead whose counter is still the one that was seen. False if it is not, or if this node
    /// was declared dead itself.
    ///
    /// # Errors
    ///
    /// [`JoinError`]. It may have come about nevertheless.
    pub async fn bury(&self, dead: NodeId, seen: u64) -> Result<bool, JoinError> {
        self.check()?;
        let (lock_ms, own) = (self.lock_ms(), self.node.map(|node| bits(node.0)));
        let (dead, seen) = (bits(dead.0), bits(seen));
        let further: [Param<'_>; 3] = [(&own, Type::INT8), (&dead, Type::INT8), (&seen, Type::INT8)];
        let known = self.known.lock().of_all();
        let rows = self.ask(&self.fleet.bury, &known.params(&lock_ms, &further)).await?;
        let row = rows.first().ok_or_else(|| self.damaged("no answer to a burial".to_owned()))?;
        Ok(row.try_get(0).map_err(|error| self.damaged(error.to_string()))?)
    }

    /// Leaves the fleet: every slot that the node still has is free. The caller has to have stopped granting
    /// before, and must not go on after an error either.
    ///
    /// # Errors
    ///
    /// [`JoinError`]. It may have come about nevertheless, or may yet.
    pub async fn leave(&self) -> Result<(), JoinError> {
        self.check()?;
        let Some(own) = self.node.map(|node| bits(node.0)) else { return Ok(()) };
        let (lock_ms, known) = (self.lock_ms(), self.known.lock().of_all());
        self.ask(&self.fleet.leave, &known.params(&lock_ms, &[(&own, Type::INT8)])).await.map(drop)
    }

    /// The rows of a statement over the connection for polls and the like.
    pub(crate) async fn ask(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, JoinError> {
        let away = |why| StoreUnavailable::Away { place: self.place.clone(), why };
        match self.connections.looks.lock().await.run(self.limit, sql, params).await {
            Ok(Some(rows)) => Ok(rows),
            Ok(None) => Err(away("the answer came with a warning".into()).into()),
            Err(Trouble::Undone(why)) => Err(why.into()),
            Err(Trouble::Unknown(why)) => Err(away(why).into()),
            // Once they are mended it goes on.
            Err(Trouble::Damaged(fatal)) => Err(away(fatal.to_string().into()).into()),
            Err(Trouble::Fatal(fatal)) => Err(fatal.into()),
        }
    }
}

impl FleetStore for PostgresStore {
    fn id(&self) -> NodeId {
        self.node.expect("only a store that has joined is given out as one of a node")
    }

    fn commit_and_renew(
        &self,
        batches: Vec<Arc<CommitBatch>>,
    ) -> StoreFuture<'_, Result<(Vec<CommitOutcome>, NodeRenewal), Fatal>> {
        Box::pin(self.commit_fairly(batches))
    }

    fn look(&self) -> StoreFuture<'_, Result<FleetRows, JoinError>> {
        Box::pin(Self::look(self))
    }

    fn bury(&self, dead: NodeId, seen: u64) -> StoreFuture<'_, Result<bool, JoinError>> {
        Box::pin(Self::bury(self, dead, seen))
    }

    fn leave(&self) -> StoreFuture<'_, Result<(), JoinError>> {
        Box::pin(Self::leave(self))
    }

    fn history_faults(&self) -> HistoryFaults {
        self.history.faults()
    }

    fn oldest_holder(&self) -> Option<(Box<str>, i64)> {
        self.history.oldest_holder()
    }
}

/// A fleet in a schema of PostgreSQL.
///
/// Each life of a node has a [`PostgresStore`] of its own, which refuses the servers that the one before has
/// seen replaced. All of them share the connections.
pub struct PostgresFleet {
    options: PostgresOptions,
    /// Opened, and not joined.
    outside: PostgresStore,
    /// As `outside`, for the first that joins: it was opened at the start, so that its faults show there.
    first: Mutex<Option<PostgresStore>>,
    /// The store of the last life.
    last: Mutex<Option<Arc<PostgresStore>>>,
}

impl PostgresFleet {
    /// Opens the fleet at an address, as [`PostgresStore::open`] does.
    ///
    /// # Errors
    ///
    /// As those of [`PostgresStore::open`].
    ///
    /// # Panics
    ///
    /// As [`PostgresStore::open`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn open(address: &str, options: PostgresOptions) -> Result<Self, PostgresOpenError> {
        let outside = PostgresStore::open(address, options.clone()).await?;
        let (connections, seen) = (outside.connections.clone(), outside.known.lock().generation());
        let first = PostgresStore::open_over(connections, options.clone(), seen).await?;
        Ok(Self { options, outside, first: Mutex::new(Some(first)), last: Mutex::default() })
    }

    /// As [`PostgresStore::waits_for_standby`].
    pub fn waits_for_standby(&self) -> bool {
        self.outside.waits_for_standby()
    }

    /// At the first server that confirms it: a former primary whose standby is gone answers what is asked,
    /// and confirms nothing.
    async fn join(&self, node: &NewNode) -> Result<Arc<dyn FleetStore>, JoinError> {
        let mut left = self.outside.connections.looks.lock().await.servers();
        loop {
            left -= 1;
            let mut store = match self.next_store().await {
                Ok(store) => store,
                Err(JoinError::Unavailable(_)) if left > 0 => continue,
                Err(error) => return Err(error),
            };
            let joined = store.join_as(node).await;
            self.saw(store.known.lock().generation());
            match joined {
                Err(JoinError::Unavailable(_)) if left > 0 => {}
                Err(JoinError::LabelInUse(former)) => {
                    // This process has to declare the other one dead, at the same server, and perhaps in a
                    // later generation than that in which it was opened.
                    let seen = store.known.lock().generation();
                    self.learn_of(seen).await?;
                    return Err(JoinError::LabelInUse(former));
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    store.connections.follow_looks().await;
                    let store = Arc::new(store);
                    *self.last.lock() = Some(store.clone());
                    return Ok(store);
                }
            }
        }
    }

    /// A store for the next life, at a server that no other one has replaced which this process has seen.
    async fn next_store(&self) -> Result<PostgresStore, JoinError> {
        if let Some(first) = self.first.lock().take() {
            return Ok(first);
        }
        let connections = self.outside.connections.clone();
        let opened = PostgresStore::open_over(connections, self.options.clone(), self.seen()).await;
        opened.map_err(|error| self.not_opened(error))
    }

    /// The newest server that is known to this process.
    fn seen(&self) -> Generation {
        let outside = self.outside.known.lock().generation();
        match self.last.lock().as_ref().map(|last| last.known.lock().generation()) {
            // Another system has taken the place of all that was seen before.
            Some(last) if last.system_id != outside.system_id => last,
            Some(last) => last.newer(outside),
            None => outside,
        }
    }

    fn saw(&self, generation: Generation) {
        let mut outside = self.outside.known.lock();
        if outside.generation().system_id == generation.system_id {
            outside.saw(generation.timeline);
        }
    }

    /// Learns the present generation outside, at a server that the one of this generation has not replaced.
    async fn learn_of(&self, seen: Generation) -> Result<(), JoinError> {
        self.saw(seen);
        let mut left = self.outside.connections.looks.lock().await.servers();
        loop {
            left -= 1;
            match self.outside.learn().await {
                Err(JoinError::Unavailable(_)) if left > 0 => {}
                learned => return learned,
            }
        }
    }

    /// Why a node cannot join whose process could open the store before: for good only if the tables are for
    /// others by now.
    fn not_opened(&self, error: PostgresOpenError) -> JoinError {
        match error {
            PostgresOpenError::Newer { .. }
            | PostgresOpenError::OtherSlots { .. }
            | PostgresOpenError::NotOurs { .. } => JoinError::NotOpened(error.to_string().into()),
            PostgresOpenError::Away { place, why } | PostgresOpenError::Demoted { place, why } => {
                StoreUnavailable::Away { place, why }.into()
            }
            error => {
                let (place, why) = (self.outside.place.clone(), error.to_string().into());
                StoreUnavailable::Away { place, why }.into()
            }
        }
    }
}

impl Fleet for PostgresFleet {
    fn slots(&self) -> u16 {
        self.options.slots
    }

    fn look(&self) -> StoreFuture<'_, Result<FleetRows, JoinError>> {
        Box::pin(self.outside.look())
    }

    fn bury(&self, dead: NodeId, seen: u64) -> StoreFuture<'_, Result<bool, JoinError>> {
        Box::pin(self.outside.bury(dead, seen))
    }

    fn join<'a>(&'a self, node: &'a NewNode) -> StoreFuture<'a, Result<Arc<dyn FleetStore>, JoinError>> {
        Box::pin(self.join(node))
    }
}

impl fmt::Debug for PostgresFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresFleet").field("outside", &self.outside).finish_non_exhaustive()
    }
}

fn mark(bytes: &[u8]) -> Result<[u8; 32], String> {
    bytes.try_into().map_err(|_| format!("a mark of {} bytes, not 32", bytes.len()))
}

pub(crate) fn node_row(row: &Row) -> Result<NodeRow, String> {
    Ok(NodeRow {
        id: NodeId(number(get(row, "incarnation")?)),
        label: text(row, "label")?,
        address: text(row, "address")?,
        slot_lease: Duration::from_millis(number(get(row, "slot_lease_ms")?)),
        secret_mark: mark(get(row, "secret_mark")?)?,
        counter: number(get(row, "counter")?),
    })
}

fn slot_row(row: &Row) -> Result<SlotRow, String> {
    Ok(SlotRow {
        slot: slot(get(row, "slot")?)?,
        epoch: number(get(row, "epoch")?),
        owner: get::<Option<i64>>(row, "owner")?.map(|owner| NodeId(number(owner))),
        slot_lease: Duration::from_millis(number(get(row, "slot_lease_ms")?)),
        clean: get(row, "clean")?,
    })
}

pub(crate) fn slot(number: i32) -> Result<Slot, String> {
    u16::try_from(number).map(Slot::new).map_err(|_| format!("{number} is no slot"))
}

fn millis(length: Duration) -> i64 {
    // Ten minutes at most, as the node is checked.
    length.as_millis() as i64
}
