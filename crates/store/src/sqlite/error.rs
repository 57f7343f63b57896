//! The errors of SQLite, in the terms of the port.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use thiserror::Error;

use crate::{Fatal, StoreUnavailable};

/// The reason why a database file could not be opened. Nothing on the disk was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SqliteOpenError {
    /// Another process has the file open, or this one already has.
    #[error("{} is in use by another lockhouse{}; stop it or name another file", .path.display(), known(*.pid))]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process that has it, if the system reports it.
        pid: Option<u32>,
    },
    /// The file is no lockhouse database.
    #[error("{} is no lockhouse database ({what}); name another file", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The apparent kind of the file.
        what: &'static str,
    },
    /// The file is a backup.
    #[error("{} is a backup; bring it back with `lockhouse restore`, or name another file", .path.display())]
    Backup {
        /// The file.
        path: PathBuf,
    },
    /// The content of the file contradicts itself.
    #[error("{} is damaged ({why}); restore it from a backup with `lockhouse restore`, or name another file", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The contradiction that was found.
        why: Box<str>,
    },
    /// A later lockhouse has written the file.
    #[error("{} has schema version {found}, but this lockhouse knows versions up to {known}; use a newer lockhouse or name another file", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: i32,
        /// The latest version that is known here.
        known: i32,
    },
    /// The file or its folder may not be written.
    #[error("{} cannot be written (the file or its folder is read-only, or belongs to somebody else); make both writable or name another file", .path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// There is no such folder.
    #[error("{} cannot be made, as its folder {} does not exist; make the folder or name another file", .path.display(), .folder.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
        /// The folder.
        folder: PathBuf,
    },
    /// The log of a database is there without the database.
    #[error("{} belongs to a database that is gone; put {} back, or move the log away", .log.display(), .path.display())]
    Orphan {
        /// The file that is not there.
        path: PathBuf,
        /// The file that is there.
        log: PathBuf,
    },
    /// The disk is full.
    #[error("no space left to write {}; free some or name another file", .path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
    },
    /// Another error of the system.
    #[error("{} cannot be opened ({why}); check the file and its folder, or name another file", .path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The message of the system.
        why: Box<str>,
    },
}

fn known(pid: Option<u32>) -> String {
    pid.map_or(String::new(), |pid| format!(" (process {pid})"))
}

impl SqliteOpenError {
    pub(crate) fn sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                let pid = holder(&path);
                Self::InUse { path, pid }
            }
            Some(ErrorCode::NotADatabase) => Self::Foreign { path, what: "not a database of SQLite at all" },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, why: said(error) },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path }
            }
            Some(ErrorCode::DiskFull) => Self::NoSpace { path },
            _ => Self::System { path, why: said(error) },
        }
    }

    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let path = path.to_path_buf();
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::NoSpace { path },
            ErrorKind::NotFound => Self::NoFolder { folder: super::file::folder(&path), path },
            _ => Self::System { path, why: error.to_string().into() },
        }
    }
}

/// The process that has a lock on the file, as reported by Linux. Opening the file to find out would drop the
/// locks that this process has on it.
#[cfg(target_os = "linux")]
fn holder(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(path).ok()?.ino().to_string();
    // The list is read in pieces, and one that changes meanwhile may lack a line.
    (0..4).find_map(|_| find_holder(&std::fs::read_to_string("/proc/locks").ok()?, &inode))
}

#[cfg(target_os = "linux")]
fn find_holder(locks: &str, inode: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        // 1: POSIX  ADVISORY  WRITE 4711 fe:01:270371 1073741825 1073742335
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX", _, _, pid, file, start, ..] = words[..] else { return None };
        let at_byte = start.parse().is_ok_and(|start: u64| LOCK_BYTES.contains(&start));
        (at_byte && file.rsplit(':').next() == Some(inode)).then(|| pid.parse().ok()).flatten()
    })
}

/// The offsets at which SQLite puts its locks. <https://sqlite.org/fileformat2.html#the_lock_byte_page>
#[cfg(target_os = "linux")]
pub(crate) const LOCK_BYTES: std::ops::Range<u64> = (1 << 30)..(1 << 30) + 512;

#[cfg(not(target_os = "linux"))]
fn holder(_: &Path) -> Option<u32> {
    None
}

/// The kind of an error while the store is running.
pub(crate) enum Trouble {
    /// The error may pass.
    Unavailable(StoreUnavailable),
    /// The error will not pass.
    Fatal(Fatal),
}

impl Trouble {
    pub(crate) fn new(place: &str, error: &rusqlite::Error) -> Self {
        let place = place.into();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Unavailable(StoreUnavailable::NoSpace { place }),
            Some(ErrorCode::ReadOnly) => Self::Unavailable(StoreUnavailable::ReadOnly { place }),
            // An error that does not come from SQLite comes from a row that cannot be as it was written.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => {
                Self::Fatal(Fatal::Damaged { place, why: said(error) })
            }
            _ => Self::Fatal(Fatal::Io { place, why: said(error) }),
        }
    }
}

/// The message in one line, with the number by which SQLite's documentation knows it.
pub(crate) fn said(error: &rusqlite::Error) -> Box<str> {
    let message = match error {
        // The full message would repeat the whole statement, which has many lines.
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        error => error.to_string(),
    };
    let message = one_line(&message);
    match error.sqlite_extended_error_code() {
        Some(code) => format!("{message}, SQLite's {code}").into(),
        None => message,
    }
}

/// Messages of SQLite repeat content of the file, which may be anything at any length.
pub(crate) fn one_line(message: &str) -> Box<str> {
    let words = message.split(|char: char| char.is_control() || char.is_whitespace());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]).into(),
        None => line.into(),
    }
}

/// Enough for every message of SQLite's own words.
const MESSAGE_CHARS: usize = 400;
