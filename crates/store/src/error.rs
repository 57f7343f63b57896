//! What may go wrong with a store. Each message is one line that says what is wrong and what to do.

use std::path::PathBuf;

use thiserror::Error;

use crate::Slot;

/// Why a store keeps nothing at the moment. What was kept before stays, and later it may work again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreUnavailable {
    /// The disk is full.
    #[error("no space left to write {place}; free some, and it goes on by itself")]
    NoSpace {
        /// What could not be written.
        place: Box<str>,
    },
    /// It may be read only.
    #[error("{place} has become read-only; make it writable, and it goes on by itself")]
    ReadOnly {
        /// What could not be written.
        place: Box<str>,
    },
    /// It cannot be reached.
    #[error("{place} cannot be reached ({why}); it is tried again")]
    Away {
        /// What could not be reached.
        place: Box<str>,
        /// What the system said.
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

/// The store can no longer be trusted; the process must end, and the next one starts from what was kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fatal {
    /// The system could not read or write what it should have, such as after a fault of the disk.
    #[error("{place} cannot be written or read any more ({why}); check the disk, then start again")]
    Io {
        /// What.
        place: Box<str>,
        /// What the system said.
        why: Box<str>,
    },
    /// What is kept contradicts itself.
    #[error("{place} is damaged ({why}); stop, and restore it from a backup")]
    Damaged {
        /// What.
        place: Box<str>,
        /// How.
        why: Box<str>,
    },
    /// [`close`](crate::Store::close) was called before.
    #[error("{place} was closed before")]
    Closed {
        /// What.
        place: Box<str>,
    },
}

/// Why a slot could not be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TakeError {
    /// The store does not have it.
    #[error("there is no slot {} in this store", .0.get())]
    NoSuchSlot(Slot),
    /// Not at the moment.
    #[error(transparent)]
    Unavailable(#[from] StoreUnavailable),
    /// Never again.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// Why there is no backup.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackupError {
    /// A backup never writes over anything.
    #[error("{} exists already; name a file that does not", .0.display())]
    Exists(PathBuf),
    /// There is no folder for it.
    #[error("{} cannot be written: its folder is not there", .0.display())]
    NoFolder(PathBuf),
    /// The store has none.
    #[error("{0} has no backup of its own; {1}")]
    Unsupported(&'static str, &'static str),
    /// The new file could not be written.
    #[error("the backup {} could not be written ({why}); make room or name another file", .path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: Box<str>,
    },
    /// The store itself is at its end.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}
