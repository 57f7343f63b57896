//! The port: the interface of a store of lockhouse's state.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use crate::{
    BackupError, CommitBatch, CommitOutcome, Fatal, HistoryError, HistoryPage, HistoryQuery, Opened,
    RecoveredRow, Slot, TakeError, WriterId,
};

/// A future of an answer, needing no particular runtime.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The usual bound of the [cost](Store::batch_cost) of a batch.
pub const BATCH_COST: usize = 4096;

/// A store of durable state, one slot at a time.
///
/// The suite in `conformance` checks every store against this contract.
pub trait Store: Send + Sync + fmt::Debug {
    /// Takes a slot for a writer, and passes its whole stored state to `visit`.
    ///
    /// To ensure correctness:
    ///
    /// - The slot gets a new epoch, higher than every one before. The epoch is durable before the first row
    ///   is passed, and from then on every batch of an earlier epoch is [`CommitOutcome::Fenced`].
    /// - The rows are the result of the committed batches: neither more nor less. Afterwards only batches of
    ///   the new epoch change that state.
    /// - The order is that of [`RecoveredRow`]. A lock manager can replay the rows as they come.
    ///
    /// # Errors
    ///
    /// [`TakeError`]. The epoch may have grown nevertheless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the slot taken by a writer that does not exist; take it again.
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>>;

    /// Stores batches; returns one outcome for each, in their order.
    ///
    /// To ensure correctness:
    ///
    /// - A batch is stored as a whole or not at all, and stands or falls alone: no other batch of the same
    ///   call changes its outcome, except that batches of one slot are stored in the order in which they are
    ///   given.
    /// - [`CommitOutcome::Committed`] means that the batch survives all failures that this store survives.
    /// - A batch whose last write the slot already has is `Committed` and changes nothing: sending one again
    ///   is harmless.
    /// - A batch whose epoch or writer is not the slot's is [`CommitOutcome::Fenced`], also if it was
    ///   committed before. The batch has changed nothing after the take that fenced it.
    ///
    /// A caller has one call for a slot under way at a time, and after [`CommitOutcome::Unknown`] sends the
    /// same batch again before any later one.
    ///
    /// # Errors
    ///
    /// [`Fatal`]: the outcome of every batch is unknown, and the store must not be used any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the batches as if their outcome were `Unknown`.
    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>>;

    /// The cost that a batch should have at most now: 1 for each row, and 1 for each KiB in the rows. A
    /// larger batch is stored all the same.
    fn batch_cost(&self) -> usize {
        BATCH_COST
    }

    /// A page of the history, whose rows were written by commits. A store need not have a history: then every
    /// page is empty.
    ///
    /// A page costs the store no more than a look at so many rows, of whichever bucket:
    /// [`HISTORY_ROWS_LOOKED_AT`](crate::HISTORY_ROWS_LOOKED_AT). It may have fewer entries than the limit
    /// therefore, or none, and still have a [`next`](HistoryPage::next).
    ///
    /// # Errors
    ///
    /// [`HistoryError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    fn history(&self, query: HistoryQuery) -> StoreFuture<'_, Result<HistoryPage, HistoryError>> {
        drop(query);
        Box::pin(async { Ok(HistoryPage::default()) })
    }

    /// Writes the whole stored state into a new file, as it was at one moment of the call, while other calls
    /// go on.
    ///
    /// # Errors
    ///
    /// [`BackupError`]; no file exists then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the backup goes on and its result is lost.
    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>>;

    /// Ends the store once the calls under way are done, and frees its resources, such as its file. Later
    /// calls are [`Fatal`].
    ///
    /// The call saves the next start some work, and returns once another process may open the store. Without
    /// it nothing is lost.
    ///
    /// # Errors
    ///
    /// [`Fatal`] if something went wrong at the end; committed batches stay durable nevertheless.
    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>>;
}
