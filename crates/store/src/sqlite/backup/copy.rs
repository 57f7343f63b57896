//! A copy of the running database in a new file.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::BackupError;
use crate::sqlite::error::said;
use crate::sqlite::file::{Draft, pragma};
use crate::sqlite::schema;

/// How much is copied before other work is done, in bytes of pages.
const BYTES_AT_ONCE: i32 = 1 << 20;

/// Writes the backup, and calls `between` for other work now and then. Batches that are committed meanwhile
/// are in the backup, too.
pub(crate) fn write(from: &Connection, to: &Path, between: impl Fn()) -> Result<(), BackupError> {
    let not_written = |why: String| BackupError::NotWritten { path: to.to_path_buf(), why: why.into() };
    if to.symlink_metadata().is_ok() {
        return Err(BackupError::Exists(to.to_path_buf()));
    }
    let draft = Draft::new(to).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => BackupError::NoFolder(to.to_path_buf()),
        _ => not_written(error.to_string()),
    })?;
    copy(from, draft.path(), between).map_err(|error| not_written(said(&error).into()))?;
    draft.publish(to).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => BackupError::Exists(to.to_path_buf()),
        _ => not_written(error.to_string()),
    })
}

/// Copies the database into an empty file and makes it a single file without a log, marked as a backup.
pub(crate) fn copy(from: &Connection, to: &Path, between: impl Fn()) -> rusqlite::Result<()> {
    let pages_at_once = BYTES_AT_ONCE / pragma(from, "page_size")?;
    let mut copy = Connection::open(to)?;
    let backup = Backup::new(from, &mut copy)?;
    while backup.step(pages_at_once)? != StepResult::Done {
        between();
    }
    drop(backup);
    copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    copy.pragma_update(None, "application_id", schema::BACKUP_ID)?;
    copy.close().map_err(|(_, error)| error)
}
