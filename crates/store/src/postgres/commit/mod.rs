//! A commit: the batches as one statement, and its rows as their outcomes.

mod sections;

use std::fmt::Display;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Param;
use super::error::Trouble;
use super::generation::Knowledge;
use super::{PostgresStore, fleet, load};
use crate::values::bits;
use crate::{CommitBatch, CommitOutcome, Fatal, NodeRenewal, StoreUnavailable, WriterId};
use sections::Sections;

/// The batches of a slot that were sent, and of which it is not known whether the schema has them.
#[derive(Clone, Copy)]
pub(crate) struct Unsettled {
    epoch: u64,
    writer: WriterId,
    /// The sequence number of the last write of them.
    up_to: u64,
}

impl PostgresStore {
    /// The outcomes. A batch that an earlier sending may have brought into the schema is not refused.
    async fn commit_all(
        &self,
        batches: &[Arc<CommitBatch>],
    ) -> Result<(Vec<CommitOutcome>, NodeRenewal), Fatal> {
        // Noted before: the future may be dropped.
        let were_sent: Vec<bool> = batches.iter().map(|batch| self.note_sent(batch)).collect();
        let (mut outcomes, renewal) = self.send(batches).await?;
        // Those that stay unknown are noted again behind later ones of their slot.
        for ((batch, outcome), was_sent) in batches.iter().zip(&mut outcomes).zip(were_sent).rev() {
            if was_sent && is_undone(outcome) {
                *outcome = CommitOutcome::Unknown;
            }
            if *outcome == CommitOutcome::Unknown {
                self.note_sent(batch);
            } else {
                self.unsettled.lock().remove(&batch.slot);
            }
        }
        Ok((outcomes, renewal))
    }

    /// As [`commit_all`](Self::commit_all). Where the space suffices for no more than a part of the batches,
    /// or what is kept of some of their slots is damaged, each is tried alone, so that none decides about the
    /// others.
    pub(super) async fn commit_fairly(
        &self,
        batches: Vec<Arc<CommitBatch>>,
    ) -> Result<(Vec<CommitOutcome>, NodeRenewal), Fatal> {
        self.check()?;
        let (mut outcomes, mut renewal) = self.commit_all(&batches).await?;
        let is_damaged = matches!(outcomes.first(), Some(CommitOutcome::Damaged(_)));
        if is_damaged {
            // Nothing goes on without the rows that all have in common.
            renewal = self.send(&[]).await?.1;
        }
        let lacks_space = |outcome: &CommitOutcome| {
            matches!(outcome, CommitOutcome::Refused(StoreUnavailable::NoSpace { .. }))
        };
        if batches.len() < 2 || !is_damaged && !outcomes.iter().all(lacks_space) {
            return Ok((outcomes, renewal));
        }
        // Those whose turn does not come in time are refused, as the node has to renew.
        let until = Instant::now() + self.limit;
        for (batch, outcome) in batches.chunks(1).zip(&mut outcomes) {
            if Instant::now() < until {
                let (alone, renewed) = self.commit_all(batch).await?;
                *outcome = alone.into_iter().next().unwrap_or(CommitOutcome::Unknown);
                // What an earlier one said of the node stays true where the trouble is of one slot.
                if !matches!(renewed, NodeRenewal::Unknown(_)) {
                    renewal = renewed;
                }
            } else if let CommitOutcome::Damaged(fatal) = outcome {
                let (place, why) = (self.place.clone(), fatal.to_string().into());
                *outcome = CommitOutcome::Refused(StoreUnavailable::Away { place, why });
            }
        }
        Ok((outcomes, renewal))
    }

    /// Notes that the batch is sent. Returns whether it was before, and is not settled since.
    fn note_sent(&self, batch: &CommitBatch) -> bool {
        let (epoch, writer, up_to) = (batch.epoch, batch.writer, batch.last_seq());
        let mut unsettled = self.unsettled.lock();
        let before =
            unsettled.get(&batch.slot).filter(|it| (it.epoch, it.writer) == (epoch, writer)).copied();
        let up_to = before.map_or(up_to, |before| before.up_to.max(up_to));
        unsettled.insert(batch.slot, Unsettled { epoch, writer, up_to });
        before.is_some_and(|before| batch.last_seq() <= before.up_to)
    }

    /// The outcomes, and what the commit says of the node. Where a page cannot be read, it is tried without
    /// the history.
    pub(super) async fn send(
        &self,
        batches: &[Arc<CommitBatch>],
    ) -> Result<(Vec<CommitOutcome>, NodeRenewal), Fatal> {
        let away = |why| StoreUnavailable::Away { place: self.place.clone(), why };
        let all = |outcome: CommitOutcome, why: &dyn Display| {
            Ok((vec![outcome; batches.len()], NodeRenewal::Unknown(why.to_string().into())))
        };
        let mut rows = self.history.rows();
        let mut run = self.run_commit(batches, rows).await;
        if let Err(Trouble::Damaged(fatal)) = &run
            && rows > 0
        {
            let without = self.run_commit(batches, 0).await;
            if without.is_ok() {
                self.history.is_damaged(fatal);
            }
            (run, rows) = (without, 0);
        }
        match run {
            Ok(Some(answer)) => {
                let mut known = self.known.lock();
                let (outcomes, renewal) =
                    outcomes(&answer, batches, &mut known).map_err(|why| self.damaged(why))?;
                known.confirm(batches, &outcomes);
                self.history.after_commit(batches, rows);
                Ok((outcomes, renewal))
            }
            Ok(None) => {
                let why = "a commit was answered with a warning, as where no standby has it";
                all(CommitOutcome::Unknown, &away(why.into()))
            }
            Err(Trouble::Unknown(why)) => all(CommitOutcome::Unknown, &away(why)),
            Err(Trouble::Undone(why)) => all(CommitOutcome::Refused(why.clone()), &why),
            Err(Trouble::Damaged(fatal)) if !batches.is_empty() => {
                all(CommitOutcome::Damaged(fatal.clone()), &fatal)
            }
            Err(Trouble::Damaged(fatal) | Trouble::Fatal(fatal)) => Err(fatal),
        }
    }

    /// The answer to the statement of a commit, with so many rows of history.
    async fn run_commit(
        &self,
        batches: &[Arc<CommitBatch>],
        history_rows: u32,
    ) -> Result<Option<Vec<Row>>, Trouble> {
        let (sections, lock_ms) = (Sections::of(batches), self.lock_ms());
        let history_rows = i64::from(history_rows);
        let node = self.node.map(|node| bits(node.0));
        let mut further: Vec<Param<'_>> = vec![(&history_rows, Type::INT8), (&node, Type::INT8)];
        further.extend(sections.params());
        let known = self.known.lock().of_batches(batches);
        let params = known.params(&lock_ms, &further);
        self.connections.commits.lock().await.run(self.limit, &self.sql.commit, &params).await
    }
}

/// Whether the batch was refused for the moment.
fn is_undone(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Refused(why) if !matches!(why, StoreUnavailable::OutOfOrder { .. }))
}

/// The rows of a commit: one for each batch, then one with the slots of the node.
fn outcomes(
    rows: &[Row],
    batches: &[Arc<CommitBatch>],
    known: &mut Knowledge,
) -> Result<(Vec<CommitOutcome>, NodeRenewal), String> {
    let verdict = |row: &Row| row.try_get::<_, i32>(0).map_err(|error| error.to_string());
    if let [row] = rows
        && verdict(row)? == 4
    {
        known.saw(load::get(row, "expected")?);
        return Ok((vec![CommitOutcome::Fenced; batches.len()], NodeRenewal::Dead));
    }
    let [of_batches @ .., of_node] = rows else { return Err("a commit has no outcome".to_owned()) };
    if of_batches.len() != batches.len() || verdict(of_node)? != 3 {
        return Err(format!("{} batches have {} outcomes", batches.len(), of_batches.len()));
    }
    let outcome = |(row, batch): (&Row, &Arc<CommitBatch>)| match verdict(row)? {
        0 => Ok(CommitOutcome::Committed),
        1 => Ok(CommitOutcome::Fenced),
        2 => {
            let expected = load::get(row, "expected").map(crate::values::number)?;
            let found = batch.first_seq;
            Ok(CommitOutcome::Refused(StoreUnavailable::OutOfOrder { expected, found }))
        }
        other => Err(format!("{other} is no outcome of a batch")),
    };
    let owned: Vec<i32> = load::get(of_node, "owned")?;
    let owned = owned.into_iter().map(fleet::slot);
    let outcomes: Result<_, _> = of_batches.iter().zip(batches).map(outcome).collect();
    let renewal = NodeRenewal::Owns(owned.collect::<Result<_, _>>()?);
    Ok((outcomes?, renewal))
}
