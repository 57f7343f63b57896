//! All values at one moment.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse::fleet::NodePhase;
use lockhouse::{House, MeterReading, StoreState};

use crate::limits::Refused;
use crate::settings::LimitSettings;
use crate::state::{AppState, Phase};

/// All values at one moment.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) reading: MeterReading,
    pub(super) is_ready: bool,
    /// How many houses have a store in that state.
    pub(super) stores: [(&'static str, usize); 5],
    pub(super) sessions: usize,
    pub(super) connections: usize,
    /// Refusals and cut-offs, by kind.
    pub(super) refused: Vec<(&'static str, u64)>,
    /// The lines of the log that were dropped.
    pub(super) dropped_lines: u64,
    /// The memory of the lock tables.
    pub(super) tables: Memory,
    /// The frames that clients have not taken yet.
    pub(super) unread: Memory,
    pub(super) limits: LimitSettings,
    /// Of a node of a fleet.
    pub(super) node: Option<NodeValues>,
}

/// Memory that tenants take, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) all: usize,
    /// Of the tenant that has most.
    pub(super) most: usize,
    /// How much each may have.
    pub(super) each: usize,
}

/// The values of a node of a fleet.
#[derive(Debug)]
pub(super) struct NodeValues {
    pub(super) phases: [(&'static str, usize); 5],
    /// How many slots the node has to do with in that state.
    pub(super) slots: BTreeMap<&'static str, usize>,
    pub(super) unconfirmed: Option<Duration>,
    pub(super) slot_lease: Duration,
    /// Who has kept old versions of rows alive for longest, and for how many transactions.
    pub(super) oldest_holder: (Box<str>, i64),
}

/// The states of a slot, as `SlotView` has them.
const SLOT_STATES: [&str; 5] = ["opening", "recovering", "serving", "closing", "unservable"];

impl Scrape {
    /// The values of now; none if nothing is counted.
    pub(super) fn of(state: &AppState) -> Option<Self> {
        let houses = state.houses.all();
        let reading = state.houses.meters()?.read(&houses);
        let limits = state.limiter.settings();
        let tables = state.houses.memory_budget().map_or((0, 0), lockhouse::MemoryBudget::taken_by_all);
        let unread = state.limiter.unread.taken_by_all();
        let node = NodeValues::of(state);
        let is_ready = state.phase() == Phase::Running
            && state.houses.cluster().is_none_or(|cluster| cluster.node.why_not_ready().is_none());
        Some(Self {
            reading,
            is_ready,
            stores: stores(&houses),
            sessions: state.sessions.len(),
            connections: state.limiter.connections(),
            refused: Refused::ALL
                .iter()
                .map(|kind| (kind.word(), state.limiter.refusals.of(*kind)))
                .collect(),
            dropped_lines: state.config.dropped_lines.count(),
            tables: Memory { all: tables.0, most: tables.1, each: limits.table_bytes() },
            unread: Memory { all: unread.0, most: unread.1, each: limits.unread_bytes() },
            limits,
            node,
        })
    }
}

impl NodeValues {
    fn of(state: &AppState) -> Option<Self> {
        let node = &state.houses.cluster()?.node;
        let mut slots: BTreeMap<_, _> = SLOT_STATES.iter().map(|word| (*word, 0)).collect();
        node.view().slots.iter().for_each(|slot| *slots.entry(slot.state).or_default() += 1);
        let phase = node.phase();
        let is = |known: NodePhase| usize::from(phase == known);
        Some(Self {
            phases: [
                ("joining", is(NodePhase::Joining)),
                ("member", is(NodePhase::Member)),
                ("leaving", is(NodePhase::Leaving)),
                ("left", is(NodePhase::Left)),
                ("failed", usize::from(matches!(phase, NodePhase::Failed(_)))),
            ],
            slots,
            unconfirmed: node.unconfirmed_for(),
            slot_lease: state.config.cluster.slot_lease,
            oldest_holder: node.oldest_holder().unwrap_or_default(),
        })
    }
}

fn stores(houses: &[House]) -> [(&'static str, usize); 5] {
    let mut stores = [("serving", 0), ("unavailable", 0), ("fenced", 0), ("failed", 0), ("closed", 0)];
    for house in houses {
        let at = match house.store_state() {
            StoreState::Serving => 0,
            StoreState::Unavailable { .. } => 1,
            StoreState::Fenced => 2,
            StoreState::Failed(_) => 3,
            _ => 4,
        };
        stores[at].1 += 1;
    }
    stores
}
