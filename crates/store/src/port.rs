//! The port: what lockhouse asks of whatever keeps its state.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use crate::{
    BackupError, CommitBatch, CommitOutcome, Fatal, Opened, RecoveredRow, Slot, TakeError, WriterId,
};

/// A future of an answer, needing no particular runtime.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps durable state, one slot at a time.
///
/// The suite in `conformance` holds every store to what is written here.
pub trait Store: Send + Sync + fmt::Debug {
    /// Takes a slot for a writer, and tells `visit` everything that is kept in it.
    ///
    /// To ensure correctness:
    ///
    /// - The slot gets a new epoch, higher than every one before. It is durable before anything is told, and
    ///   from then on every batch of an earlier epoch is [`CommitOutcome::Fenced`].
    /// - What is told is what the committed batches amount to: neither more nor less, and nothing of it
    ///   changes any more except by batches of the new epoch.
    /// - The order is that of [`RecoveredRow`]. It can be told to a lock manager as it comes.
    ///
    /// # Errors
    ///
    /// [`TakeError`]. The epoch may have grown nevertheless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the slot taken by a writer that nobody is; take it again.
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>>;

    /// Keeps batches; one outcome for each, in their order.
    ///
    /// To ensure correctness:
    ///
    /// - A batch is kept whole or not at all, and stands or falls alone: no other batch of the same call
    ///   changes its outcome, except that those of one slot are kept in the order in which they are given.
    /// - [`CommitOutcome::Committed`] means that it survives whatever this store survives.
    /// - A batch whose last write the slot already has is `Committed` and changes nothing: sending one again
    ///   is harmless.
    /// - A batch whose epoch or writer is not the slot's is [`CommitOutcome::Fenced`], also one that was
    ///   committed before. It has changed nothing after the take that fenced it.
    ///
    /// A caller has one call for a slot under way at a time, and after [`CommitOutcome::Unknown`] sends the
    /// same batch again before any later one.
    ///
    /// # Errors
    ///
    /// [`Fatal`]: nothing is known of any batch, and the store must not be used any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the batches as if their outcome were `Unknown`.
    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>>;

    /// Writes all that is kept into a new file, as it was at one moment of the call, while other calls go on.
    ///
    /// # Errors
    ///
    /// [`BackupError`]; no file has come about then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future lets the backup go on, unheard.
    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>>;

    /// Ends the store once what is under way is done, and frees what it holds, such as its file. Later calls
    /// are [`Fatal`].
    ///
    /// Nothing is lost without it: it saves the next start some work, and answers when somebody else may open
    /// the store.
    ///
    /// # Errors
    ///
    /// [`Fatal`] if something went wrong at the end; what was committed is kept all the same.
    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>>;
}
