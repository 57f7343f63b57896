//! The tables of the model database, and its statements: a transcription of `version_1.sql`, `version_2.sql`
//! and `generation.sql`, where a statement has all locks that it needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockhouse_store::{
    CommitBatch, CommitOutcome, Fatal, HeldList, HighestNumbers, NewNode, NodeId, NodeRow, Opened,
    RecoveredRow, SecretKey, Slot, SlotRow, StoredSlot, Write, WriterId, token_floor,
};
use random::Random;

use super::plant::Plant;

/// All rows.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    generation: u64,
    /// The timeline under which the generation was drawn.
    timeline: u64,
    pub(crate) nodes: Vec<NodeRow>,
    slots: Vec<Arc<SlotRecord>>,
}

/// The row of a slot, and the rows of its buckets.
#[derive(Clone, Debug, Default)]
struct SlotRecord {
    epoch: u64,
    /// 0 before the first.
    writer: u64,
    last_seq: u64,
    owner: Option<NodeId>,
    slot_lease: Duration,
    ended: bool,
    /// The list of the last stop, although it was used up: for the flaw that gives it out again.
    last_list: Option<HeldList>,
    stored: StoredSlot,
}

/// What a process knows as committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownCommits {
    pub(crate) generation: u64,
    /// The newest timeline that was seen.
    pub(crate) timeline: u64,
    pub(crate) slots: BTreeMap<Slot, KnownSlot>,
}

/// The last take of a slot, and the last write in its epoch that was confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownSlot {
    pub(crate) epoch: u64,
    pub(crate) writer: WriterId,
    pub(crate) last_seq: u64,
}

/// A statement under way, on one server.
pub(crate) struct Statement<'a> {
    pub(crate) tables: &'a mut Tables,
    /// The timeline on which the server writes.
    pub(crate) timeline: u64,
    pub(crate) now: SystemTime,
    pub(crate) random: &'a mut Random,
    pub(crate) plant: Option<Plant>,
    /// The slots of which a page cannot be read.
    pub(crate) damaged: &'a BTreeMap<Slot, u64>,
    pub(crate) kind: Option<StatementKind>,
    /// Whether it has written something, so that its commit waits for a synchronous standby.
    pub(crate) has_written: bool,
    /// Whether it has drawn a new generation.
    pub(crate) has_drawn: bool,
    /// The node that it has declared dead.
    pub(crate) buried: Option<NodeId>,
    /// The node that lives, and has lost a slot by it.
    pub(crate) takes_from: Option<NodeId>,
    /// The node that has renewed by it.
    pub(crate) renewed: Option<NodeId>,
    /// How many writes it was asked for.
    pub(crate) writes: u64,
}

/// What a statement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatementKind {
    Join,
    Leave,
    Bury,
    Commit,
    Poll,
    Take,
    /// The rows of a slot, which PostgreSQL gives in three: marks, state, and whether the slot is still held.
    Load,
}

/// The server writes on an older timeline than another one that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demoted;

/// The answer to a commit.
#[derive(Clone, Debug)]
pub(crate) enum Committed {
    /// The node was declared dead, or the generation is another one. With the timeline.
    Dead(u64),
    /// The outcomes, and the slots that the node owns.
    Outcomes(Vec<CommitOutcome>, Vec<Slot>),
}

/// The answer to a take.
#[derive(Clone, Debug)]
pub(crate) enum TakeAnswer {
    /// With the generation.
    Done(Box<Opened>, u64),
    NodeGone,
    OwnedElsewhere,
    /// The epoch is another one than was seen.
    Outrun,
}

/// The answer to a load.
#[derive(Clone, Debug)]
pub(crate) enum LoadAnswer {
    Rows(Vec<RecoveredRow>),
    /// The slot is not in that life any more.
    Gone,
    /// A page cannot be read.
    Damaged,
}

/// Why what is kept of a slot cannot be read.
pub(crate) fn pages_damaged() -> Fatal {
    Fatal::PagesDamaged { place: "the model database".into(), why: "by the seed".into() }
}

/// The key of the store.
const KEY: [u8; 32] = [7; 32];

impl Tables {
    pub(crate) fn new(slots: u16) -> Self {
        let slots = (0..slots).map(|_| Arc::default()).collect();
        Self { generation: 1, timeline: 1, nodes: Vec::new(), slots }
    }

    fn node_rows(&self) -> Vec<NodeRow> {
        let mut nodes = self.nodes.clone();
        nodes.sort_by(|one, other| one.label.cmp(&other.label));
        nodes
    }

    fn slot_rows(&self) -> Vec<SlotRow> {
        let row = |(slot, record): (u16, &Arc<SlotRecord>)| SlotRow {
            slot: Slot::new(slot),
            epoch: record.epoch,
            owner: record.owner,
            slot_lease: record.slot_lease,
            clean: true,
        };
        (0..).zip(&self.slots).map(row).collect()
    }

    /// Everything that is stored, of all slots.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(RecoveredRow)) {
        self.slots.iter().for_each(|record| record.stored.visit(visit));
    }

    fn slot(&mut self, slot: Slot) -> &mut SlotRecord {
        Arc::make_mut(&mut self.slots[usize::from(slot.get())])
    }

    /// The label of the node that has the slot.
    pub(crate) fn owner(&self, slot: Slot) -> Option<Box<str>> {
        let owner = self.slots[usize::from(slot.get())].owner?;
        self.nodes.iter().find(|row| row.id == owner).map(|row| row.label.clone())
    }

    /// The epoch of the slot, which grows with each move.
    pub(crate) fn epoch(&self, slot: Slot) -> u64 {
        self.slots[usize::from(slot.get())].epoch
    }

    fn lives(&self, node: NodeId) -> bool {
        self.nodes.iter().any(|row| row.id == node)
    }

    /// Whether a row of a slot is behind what was confirmed.
    fn is_behind(&self, known: &KnownCommits) -> bool {
        known.slots.iter().any(|(slot, known)| {
            let row = &self.slots[usize::from(slot.get())];
            row.epoch < known.epoch
                || row.epoch == known.epoch && (row.writer != known.writer.0 || row.last_seq < known.last_seq)
        })
    }
}

/// How far the numbers of a new generation are ahead of the clock at least (`generation.sql`).
const AHEAD: Duration = Duration::from_secs(60);

impl Statement<'_> {
    /// What every statement that writes begins with: the generation, after a new one was drawn if need be.
    fn begin(&mut self, known: &KnownCommits) -> Result<u64, Demoted> {
        if self.plant == Some(Plant::NoGeneration) {
            return Ok(self.tables.generation);
        }
        if self.timeline < known.timeline {
            return Err(Demoted);
        }
        if self.timeline != self.tables.timeline || self.tables.is_behind(known) {
            self.draw_generation();
        }
        Ok(self.tables.generation)
    }

    /// All of this is as after the restore of a backup; besides, every slot is free.
    fn draw_generation(&mut self) {
        let each = self.tables.slots.iter().map(|record| record.stored.highest_numbers());
        let highest = each.fold(HighestNumbers::default(), |all, of| HighestNumbers {
            mark: all.mark.max(of.mark),
            epoch: all.epoch.max(of.epoch),
            longest_lease_ms: all.longest_lease_ms.max(of.longest_lease_ms),
        });
        let by_chance = Duration::from_micros(self.random.next_u64() % 125_000);
        let above = HighestNumbers::after_restore(highest, None, self.now + AHEAD + by_chance);
        let Ok(mut above) = above else { unreachable!("a schedule is too short to use the numbers up") };
        if self.plant == Some(Plant::NoLeap) {
            above.mark = highest.mark;
        }
        for slot in 0..self.tables.slots.len() {
            let record = self.tables.slot(Slot::new(slot as u16));
            record.stored.go_on_above(above);
            (record.epoch, record.last_seq, record.owner, record.ended) = (above.epoch, 0, None, false);
            record.last_list = None;
            if self.plant == Some(Plant::ShortRecovery) {
                record.slot_lease = Duration::ZERO;
            }
        }
        self.tables.nodes.clear();
        self.tables.generation = self.random.next_u64();
        self.tables.timeline = self.timeline;
        (self.has_written, self.has_drawn) = (true, true);
    }

    /// Adds to the counter of a node. False if it was declared dead.
    fn renew(&mut self, node: NodeId) -> bool {
        let row = self.tables.nodes.iter_mut().find(|row| row.id == node);
        let Some(row) = row else { return false };
        row.counter += 1;
        self.has_written = true;
        self.renewed = Some(node);
        true
    }

    /// The row with the label, which is another node's if the label is in use; and the generation.
    pub(crate) fn join(
        &mut self,
        known: &KnownCommits,
        id: NodeId,
        new: &NewNode,
    ) -> Result<(NodeRow, u64), Demoted> {
        self.kind = Some(StatementKind::Join);
        let generation = self.begin(known)?;
        let former = self.tables.nodes.iter().find(|row| row.label == new.label);
        if let Some(former) = former {
            return Ok((former.clone(), generation));
        }
        let NewNode { label, address, slot_lease, secret_mark } = new.clone();
        let row = NodeRow { id, label, address, slot_lease, secret_mark, counter: 1 };
        self.tables.nodes.push(row.clone());
        (self.has_written, self.renewed) = (true, Some(id));
        Ok((row, generation))
    }

    pub(crate) fn leave(&mut self, known: &KnownCommits, node: NodeId) -> Result<(), Demoted> {
        self.kind = Some(StatementKind::Leave);
        self.begin(known)?;
        self.delete(node);
        Ok(())
    }

    /// Deletes the row of a node.
    pub(crate) fn delete(&mut self, node: NodeId) {
        self.tables.nodes.retain(|row| row.id != node);
        self.has_written = true;
    }

    pub(crate) fn bury(
        &mut self,
        known: &KnownCommits,
        own: Option<NodeId>,
        dead: NodeId,
        seen: u64,
    ) -> Result<bool, Demoted> {
        self.kind = Some(StatementKind::Bury);
        if self.begin(known)? != known.generation || own.is_some_and(|own| !self.renew(own)) {
            return Ok(false);
        }
        let is_blind = self.plant == Some(Plant::BlindBury);
        let is_seen = |row: &NodeRow| row.id == dead && (is_blind || row.counter == seen);
        if !self.tables.nodes.iter().any(is_seen) {
            return Ok(false);
        }
        self.delete(dead);
        self.buried = Some(dead);
        Ok(true)
    }

    /// The nodes, by their labels.
    pub(crate) fn node_rows(&mut self) -> Vec<NodeRow> {
        self.kind = Some(StatementKind::Poll);
        self.tables.node_rows()
    }

    pub(crate) fn slot_rows(&mut self) -> Vec<SlotRow> {
        self.kind = Some(StatementKind::Poll);
        self.tables.slot_rows()
    }

    pub(crate) fn epoch_of(&mut self, slot: Slot) -> u64 {
        self.kind = Some(StatementKind::Take);
        self.tables.slots[usize::from(slot.get())].epoch
    }

    pub(crate) fn take(
        &mut self,
        known: &KnownCommits,
        slot: Slot,
        writer: WriterId,
        node: NodeId,
        seen_epoch: u64,
    ) -> Result<TakeAnswer, Demoted> {
        self.kind = Some(StatementKind::Take);
        let generation = self.begin(known)?;
        if generation != known.generation || !self.renew(node) {
            return Ok(TakeAnswer::NodeGone);
        }
        let (owner, epoch) = {
            let row = &self.tables.slots[usize::from(slot.get())];
            (row.owner, row.epoch)
        };
        if self.plant != Some(Plant::BlindTake) {
            if owner.is_some_and(|owner| owner != node && self.tables.lives(owner)) {
                return Ok(TakeAnswer::OwnedElsewhere);
            }
            if epoch != seen_epoch {
                return Ok(TakeAnswer::Outrun);
            }
        }
        self.takes_from = owner.filter(|owner| *owner != node && self.tables.lives(*owner));
        let slot_lease = self.tables.nodes.iter().find(|row| row.id == node).map(|row| row.slot_lease);
        let record = self.tables.slot(slot);
        let mut opened = record.stored.take(writer, SecretKey::new(KEY));
        if self.plant != Some(Plant::NoLeap) {
            opened.token_floor = opened.token_floor.max(token_floor(self.now));
        }
        if self.plant == Some(Plant::ListServesTwice) {
            opened.held = record.last_list.clone();
        }
        // If this take comes to nothing, the next one has to wait for the owners before it.
        let of_before = if record.ended && !opened.restored { Duration::ZERO } else { record.slot_lease };
        record.slot_lease = of_before.max(slot_lease.unwrap_or_default());
        (record.epoch, record.writer, record.owner) = (opened.epoch, writer.0, Some(node));
        (record.last_seq, record.ended) = (0, false);
        self.has_written = true;
        Ok(TakeAnswer::Done(Box::new(opened), generation))
    }

    /// The rows of a slot in that life.
    pub(crate) fn load(&mut self, slot: Slot, epoch: u64, writer: WriterId) -> LoadAnswer {
        self.kind = Some(StatementKind::Load);
        let row = &self.tables.slots[usize::from(slot.get())];
        if (row.epoch, row.writer) != (epoch, writer.0) {
            return LoadAnswer::Gone;
        }
        if self.damaged.contains_key(&slot) {
            return LoadAnswer::Damaged;
        }
        let mut rows = Vec::new();
        row.stored.visit(&mut |row| rows.push(row));
        LoadAnswer::Rows(rows)
    }

    pub(crate) fn commit(
        &mut self,
        known: &KnownCommits,
        node: NodeId,
        batches: &[Arc<CommitBatch>],
    ) -> Result<Committed, Demoted> {
        self.kind = Some(StatementKind::Commit);
        self.writes = batches.iter().map(|batch| batch.writes.len() as u64).sum();
        if self.begin(known)? != known.generation {
            return Ok(Committed::Dead(self.timeline));
        }
        let is_repeat = |batch: &Arc<CommitBatch>| {
            let row = &self.tables.slots[usize::from(batch.slot.get())];
            (row.epoch, row.writer) == (batch.epoch, batch.writer.0) && batch.last_seq() <= row.last_seq
        };
        let only_reads =
            self.plant == Some(Plant::ReadOnlyReplay) && !batches.is_empty() && batches.iter().all(is_repeat);
        if only_reads {
            if !self.tables.lives(node) {
                return Ok(Committed::Dead(self.timeline));
            }
        } else if !self.renew(node) {
            return Ok(Committed::Dead(self.timeline));
        }
        let outcomes = batches.iter().map(|batch| self.commit_batch(node, batch)).collect();
        let owned = self.tables.slot_rows().into_iter().filter(|row| row.owner == Some(node));
        Ok(Committed::Outcomes(outcomes, owned.map(|row| row.slot).collect()))
    }

    fn commit_batch(&mut self, node: NodeId, batch: &CommitBatch) -> CommitOutcome {
        let row = &self.tables.slots[usize::from(batch.slot.get())];
        let is_of_this_life = row.owner == Some(node) || row.ended;
        if row.epoch == 0 || (row.epoch, row.writer) != (batch.epoch, batch.writer.0) || !is_of_this_life {
            return CommitOutcome::Fenced;
        }
        if batch.last_seq() <= row.last_seq {
            return CommitOutcome::Committed;
        }
        if self.damaged.contains_key(&batch.slot) {
            return CommitOutcome::Damaged(pages_damaged());
        }
        let record = self.tables.slot(batch.slot);
        let outcome = record.stored.commit(batch);
        if outcome == CommitOutcome::Committed {
            record.last_seq = batch.last_seq();
            for write in &batch.writes {
                match write {
                    Write::StoppedClean => (record.ended, record.owner) = (true, None),
                    Write::StoppedHolding { held } => {
                        (record.ended, record.owner) = (true, None);
                        record.last_list = held.clone();
                    }
                    _ => {}
                }
            }
        }
        outcome
    }
}
