//! The port: what lockhouse asks of whatever keeps its state.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use crate::{BackupError, Fatal, Fate, Kept, Opened, Section, Slot, TakeError, WriterId};

/// A future of an answer, needing no particular runtime.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps durable state, one slot at a time.
///
/// The suite in `conformance` holds every store to what is written here.
pub trait Store: Send + Sync + fmt::Debug {
    /// Takes a slot for a writer, and tells `visit` everything that is kept in it.
    ///
    /// To ensure correctness:
    ///
    /// - The slot gets a new epoch, higher than every one before. It is durable before anything is told, and from then on
    ///   every section of an earlier epoch is [`Fate::Fenced`].
    /// - What is told is what the committed sections amount to: neither more nor less, and nothing of it changes any more
    ///   except by sections of the new epoch.
    /// - The order is that of [`Kept`]. It can be told to a lock manager as it comes.
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
        visit: &'a mut (dyn FnMut(Kept) + Send),
    ) -> Answer<'a, Result<Opened, TakeError>>;

    /// Keeps sections; one fate for each, in their order.
    ///
    /// To ensure correctness:
    ///
    /// - A section is kept whole or not at all, and stands or falls alone: no other section of the same call changes its
    ///   fate, except that those of one slot are kept in the order in which they are given.
    /// - [`Fate::Committed`] means that it survives whatever this store survives.
    /// - A section whose last write the slot already has is `Committed` and changes nothing: sending one again is harmless.
    /// - A section whose epoch or writer is not the slot's is [`Fate::Fenced`], also one that was committed before. It
    ///   has changed nothing after the take that fenced it.
    ///
    /// A caller has one call for a slot under way at a time, and after [`Fate::Unknown`] sends the same section again
    /// before any later one.
    ///
    /// # Errors
    ///
    /// [`Fatal`]: nothing is known of any section, and the store must not be used any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the sections as if their fate were `Unknown`.
    fn commit(&self, sections: Vec<Arc<Section>>) -> Answer<'_, Result<Vec<Fate>, Fatal>>;

    /// Writes all that is kept into a new file, as it was at one moment of the call, while other calls go on.
    ///
    /// # Errors
    ///
    /// [`BackupError`]; no file has come about then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future lets the backup go on, unheard.
    fn backup(&self, to: PathBuf) -> Answer<'_, Result<(), BackupError>>;

    /// Ends the store once what is under way is done, and frees what it holds, such as its file. Later calls are [`Fatal`].
    ///
    /// Nothing is lost without it: it saves the next start some work, and answers when somebody else may open the store.
    ///
    /// # Errors
    ///
    /// [`Fatal`] if something went wrong at the end; what was committed is kept all the same.
    fn close(&self) -> Answer<'_, Result<(), Fatal>>;
}
