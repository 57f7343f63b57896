//! The errors of a store. Each message is one line that states the problem and the remedy.

use std::path::PathBuf;

use thiserror::Error;

use crate::Slot;

/// The reason why a store accepts no writes at the moment. The stored state stays, and the store may work
/// again later.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreUnavailable {
    /// The disk is full.
    #[error("no space left to write {place}; free some, and it goes on by itself")]
    NoSpace {
        /// The place that could not be written.
        place: Box<str>,
    },
    /// The place is read-only.
    #[error("{place} has become read-only; make it writable, and it goes on by itself")]
    ReadOnly {
        /// The place that could not be written.
        place: Box<str>,
    },
    /// The store cannot be reached.
    #[error("{place} cannot be reached ({why}); it is tried again")]
    Away {
        /// The place that could not be reached.
        place: Box<str>,
        /// The message of the system.
        why: Box<str>,
    },
    /// A batch came before one that goes ahead of it, or overlaps with one: a fault of the writer.
    #[error("the batch begins with write {found}, but the next one is {expected}; send that first")]
    OutOfOrder {
        /// The sequence number that the slot waits for.
        expected: u64,
        /// The one that came.
        found: u64,
    },
}

/// The store can no longer be trusted; the process must end, and the next one starts from the stored state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fatal {
    /// The system failed to read or write, such as after a fault of the disk.
    #[error("{place} cannot be written or read any more ({why}); check the disk, then start again")]
    Io {
        /// The place of the store.
        place: Box<str>,
        /// The message of the system.
        why: Box<str>,
    },
    /// The file was removed or replaced while it was open: what is written to it, no later start finds.
    #[error(
        "{file} was removed or replaced while it was in use; put the file back if it is to go on, then start again"
    )]
    Gone {
        /// The place of the store.
        place: Box<str>,
        /// The file that is not there any more: the store itself or its log.
        file: Box<str>,
    },
    /// The stored state contradicts itself.
    #[error("{place} is damaged ({why}); stop, and restore it from a backup")]
    Damaged {
        /// The place of the store.
        place: Box<str>,
        /// The contradiction that was found.
        why: Box<str>,
    },
    /// Pages of tables or indexes of a database cannot be read.
    #[error(
        "{place} is damaged ({why}); REINDEX SCHEMA mends an index; where that fails it is a table: restore it from a backup; `lockhouse doctor` says what is damaged"
    )]
    PagesDamaged {
        /// The place of the store.
        place: Box<str>,
        /// The message of the database.
        why: Box<str>,
    },
    /// [`close`](crate::Store::close) was called before.
    #[error("{place} was closed before")]
    Closed {
        /// The place of the store.
        place: Box<str>,
    },
}

/// The reason why a slot could not be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TakeError {
    /// The store does not have the slot.
    #[error("there is no slot {} in this store", .0.get())]
    NoSuchSlot(Slot),
    /// The slot is that of another node, which lives.
    #[error("slot {} is that of another node", .0.get())]
    OwnedElsewhere(Slot),
    /// The node was declared dead by another one, and every slot that it had is free.
    #[error("this node was declared dead; join the fleet again")]
    NodeGone,
    /// The slots are those of a fleet, which gives none to a process that is no node.
    #[error("the slots of this store are those of a fleet; join it")]
    IsOfFleet,
    /// The slot cannot be taken at the moment.
    #[error(transparent)]
    Unavailable(#[from] StoreUnavailable),
    /// The slot can never be taken again.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// The reason why the history was not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HistoryError {
    /// It cannot be read at the moment.
    #[error(transparent)]
    Unavailable(#[from] StoreUnavailable),
    /// A row of it cannot be read. What is held does not depend on it.
    #[error("a row of the history cannot be read: {0}")]
    Unreadable(Box<str>),
    /// The store itself is at its end.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// The reason why there is no backup.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackupError {
    /// The file exists already: a backup never overwrites a file.
    #[error("{} exists already; name a file that does not", .0.display())]
    Exists(PathBuf),
    /// There is no folder for it.
    #[error("{} cannot be written: its folder is not there", .0.display())]
    NoFolder(PathBuf),
    /// The store has no backup of its own.
    #[error("{0} has no backup of its own; {1}")]
    Unsupported(&'static str, &'static str),
    /// The new file could not be written.
    #[error("the backup {} could not be written ({why}); make room or name another file", .path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// The message of the system.
        why: Box<str>,
    },
    /// The store itself is at its end.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}
