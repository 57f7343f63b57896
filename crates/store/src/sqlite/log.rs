//! The write-ahead log, whose pages are moved into the file when there are many.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode, MAIN_DB};

use super::file::pragma;

/// The most bytes of pages in the log before it is moved into the file.
const BYTES: c_int = 4 << 20;

pub(crate) struct Log {
    /// How many pages the log has, as SQLite reports with each commit.
    pages: Arc<AtomicI32>,
    /// How many pages it may have. Earlier databases have longer pages.
    most: c_int,
}

impl Log {
    pub(crate) fn watch(file: &mut Connection) -> rusqlite::Result<Self> {
        let most = BYTES / pragma(file, "page_size")?;
        let pages = Arc::new(AtomicI32::new(0));
        let reported = Arc::clone(&pages);
        // A failure here would fail the commit, which is durable already.
        file.wal_hook(Some(move |_: &mut Wal, pages| {
            reported.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, most })
    }

    /// Moves the pages into the file if there are many. SQLite could do this by itself, but does not report a
    /// failure of the disk.
    ///
    /// Committed batches stay durable whatever the result: the log is overwritten only when all of it is in
    /// the file and on the disk.
    pub(crate) fn shorten(&self, file: &Connection) -> rusqlite::Result<()> {
        // If the log cannot be moved now, the next commit reports again that it is too long.
        if self.pages.swap(0, Ordering::Relaxed) >= self.most {
            match file.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE) {
                // Another connection reads, such as a backup.
                Err(error) if is_busy(&error) => {}
                moved => _ = moved?,
            }
        }
        Ok(())
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
