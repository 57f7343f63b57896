//! The generation of a fleet: what a store knows of it as committed, by which each statement that writes
//! finds that the database has lost some of that. `schema/generation.sql` has the other half.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::PostgresStore;
use super::connection::Param;
use super::load::get;
use super::schema::call;
use crate::values::bits;
use crate::{CommitBatch, CommitOutcome, JoinError, Slot, WriterId};

/// A generation, with the server under which it was drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Generation {
    number: i64,
    pub(crate) system_id: i64,
    pub(crate) timeline: i64,
}

/// What a store knows.
#[derive(Debug)]
pub(crate) struct Knowledge {
    generation: Generation,
    slots: BTreeMap<Slot, KnownSlot>,
}

/// The last take of a slot, and the last write in its epoch that was confirmed.
#[derive(Clone, Copy, Debug)]
struct KnownSlot {
    epoch: u64,
    writer: WriterId,
    last_seq: u64,
}

/// What a store knows, as arguments of a statement.
#[derive(Debug, Default)]
pub(crate) struct Known {
    generation: Generation,
    slots: Vec<i32>,
    epochs: Vec<i64>,
    writers: Vec<i64>,
    last_seqs: Vec<i64>,
}

impl Generation {
    /// Reads the row of a statement that has learned it.
    pub(crate) fn of(row: &Row) -> Result<Self, String> {
        Ok(Self {
            number: get(row, "generation")?,
            system_id: get(row, "system_id")?,
            timeline: get(row, "timeline")?,
        })
    }

    /// The one of them on the newer timeline.
    pub(crate) fn newer(self, other: Self) -> Self {
        if other.timeline > self.timeline { other } else { self }
    }

    /// Asks for the generation, for the first time. The process may have seen a server of the fleet before.
    pub(crate) async fn ask(
        client: &Client,
        quoted: &str,
        lock_ms: i32,
        seen: Self,
    ) -> Result<Row, tokio_postgres::Error> {
        let known = Known { generation: seen, ..Known::default() };
        let sql = format!("SELECT * FROM {}", call(quoted, "learn", 1));
        client.query_typed_one(&sql, &known.params(&lock_ms, &[(&false, Type::BOOL)])).await
    }
}

impl Knowledge {
    pub(crate) fn new(generation: Generation) -> Self {
        Self { generation, slots: BTreeMap::new() }
    }

    pub(crate) fn learn(&mut self, generation: Generation) {
        self.generation = generation;
    }

    /// A server writes on that timeline. One on an older one is left from now on, whatever it answers.
    pub(crate) fn saw(&mut self, timeline: i64) {
        self.generation.timeline = self.generation.timeline.max(timeline);
    }

    /// The generation, with the newest timeline that was seen.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// A slot was taken. For a node the generation is the one in which it joined.
    pub(crate) fn took(&mut self, generation: Generation, slot: Slot, epoch: u64, writer: WriterId) {
        self.generation = generation;
        self.slots.insert(slot, KnownSlot { epoch, writer, last_seq: 0 });
    }

    pub(crate) fn confirm(&mut self, batches: &[Arc<CommitBatch>], outcomes: &[CommitOutcome]) {
        for (batch, outcome) in batches.iter().zip(outcomes) {
            if *outcome == CommitOutcome::Committed
                && let Some(known) = self.slots.get_mut(&batch.slot)
                && (known.epoch, known.writer) == (batch.epoch, batch.writer)
            {
                known.last_seq = known.last_seq.max(batch.last_seq());
            }
        }
    }

    /// What is known of all slots.
    pub(crate) fn of_all(&self) -> Known {
        self.of(self.slots.keys().copied())
    }

    /// What is known of the slots of a commit; of all slots if it has no batches. A commit is no place to
    /// look at all of hundreds: an idle node renews once a second.
    pub(crate) fn of_batches(&self, batches: &[Arc<CommitBatch>]) -> Known {
        if batches.is_empty() { self.of_all() } else { self.of(batches.iter().map(|batch| batch.slot)) }
    }

    fn of(&self, slots: impl Iterator<Item = Slot>) -> Known {
        let mut known = Known { generation: self.generation, ..Known::default() };
        for slot in slots {
            let Some(KnownSlot { epoch, writer, last_seq }) = self.slots.get(&slot) else { continue };
            known.slots.push(slot.get().into());
            known.epochs.push(bits(*epoch));
            known.writers.push(bits(writer.0));
            known.last_seqs.push(bits(*last_seq));
        }
        known
    }
}

impl Known {
    /// The arguments of a [`call`], with the further ones.
    pub(crate) fn params<'a>(&'a self, lock_ms: &'a i32, further: &[Param<'a>]) -> Vec<Param<'a>> {
        let Generation { number, system_id, timeline } = &self.generation;
        let mut params: Vec<Param<'a>> = vec![
            (lock_ms, Type::INT4),
            (number, Type::INT8),
            (system_id, Type::INT8),
            (timeline, Type::INT8),
            (&self.slots, Type::INT4_ARRAY),
            (&self.epochs, Type::INT8_ARRAY),
            (&self.writers, Type::INT8_ARRAY),
            (&self.last_seqs, Type::INT8_ARRAY),
        ];
        params.extend_from_slice(further);
        params
    }
}

impl PostgresStore {
    /// Declares that the database was put back to a former state by other tools, such as a copy of its files
    /// or a dump: what was granted after that state is unknown. What the store finds by itself needs no
    /// declaration: a promoted standby, a recovery to a point in time, another server, or a former state that
    /// is behind what a running process has had confirmed.
    ///
    /// This is as after the restore of a backup ([`Opened::restored`](crate::Opened::restored)): every slot
    /// is free, every node has to join again, every batch of before is [`CommitOutcome::Fenced`], and fencing
    /// tokens and epochs go on above all that can have been given
    /// ([`HighestNumbers::after_restore`](crate::HighestNumbers::after_restore), by the clock of the server).
    ///
    /// # Errors
    ///
    /// [`JoinError`]. It may have come about nevertheless. Another call of the same store then declares
    /// nothing further.
    ///
    /// # Cancel safety
    ///
    /// As if the answer were lost.
    pub async fn declare_restored(&self) -> Result<(), JoinError> {
        let generation = self.ask_generation(true).await?;
        self.known.lock().saw(generation.timeline);
        Ok(())
    }

    /// Learns the present generation, for a process that is no node: nothing of it rests on an earlier one.
    pub(crate) async fn learn(&self) -> Result<(), JoinError> {
        let generation = self.ask_generation(false).await?;
        self.known.lock().learn(generation);
        Ok(())
    }

    async fn ask_generation(&self, is_restored: bool) -> Result<Generation, JoinError> {
        self.check()?;
        let (lock_ms, known) = (self.lock_ms(), self.known.lock().of_all());
        let params = known.params(&lock_ms, &[(&is_restored, Type::BOOL)]);
        let rows = self.ask(&self.fleet.learn, &params).await?;
        let row = rows.first().ok_or_else(|| self.damaged("no answer about the generation".to_owned()))?;
        Ok(Generation::of(row).map_err(|why| self.damaged(why))?)
    }
}
