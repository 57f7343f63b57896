//! A look at a database file that takes no lock, makes no file and writes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use percent_encoding::percent_encode;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::{
    ALL_BUT_PATHS, SqliteOpenError, beside, check_application, check_content, check_version, exists,
    identify, open_unlocked, pragma, resolve, schema,
};
use crate::values::number;

/// How many steps of SQLite's machine lie between two looks at the clock: some milliseconds.
const STEPS_BETWEEN: i32 = 10_000;

/// What a look at a database file has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqliteLook {
    /// No file is there. A server would make it.
    Absent {
        /// Its path, without links.
        path: PathBuf,
    },
    /// Another process uses the file, whose content was not read.
    InUse {
        /// Its path, without links.
        path: PathBuf,
        /// The process, if the system reports it.
        pid: Option<u32>,
    },
    /// The file can be used.
    Sound {
        /// Its path, without links.
        path: PathBuf,
        /// The version of its tables.
        version: i32,
        /// The version that this program takes it to.
        known: i32,
        /// Whether all of its content was looked at, and not only what the time allowed.
        is_checked: bool,
        /// The time of the last entry of its history.
        latest: Option<SystemTime>,
    },
}

/// Looks at a database file without a change of any kind: no lock, no file beside it, no write. For at most
/// `limit` its content is looked at, and every second `progress` gets the time since the beginning.
///
/// On Linux a file that another process uses is noticed, and not read. Elsewhere it is read nevertheless, and
/// may look damaged.
///
/// The process must not have the file open as a store: the look would end the store's lock of it.
///
/// # Errors
///
/// The reason why the file cannot be used.
pub fn look_at_sqlite(
    path: impl AsRef<Path>,
    limit: Duration,
    progress: fn(Duration),
) -> Result<SqliteLook, SqliteOpenError> {
    let given = path.as_ref();
    let path = resolve(given).map_err(|error| SqliteOpenError::io(given, &error))?;
    if !exists(&path)? {
        return Ok(SqliteLook::Absent { path });
    }
    let user = user_of(&path).map_err(|error| SqliteOpenError::io(&path, &error))?;
    if let Some(pid) = user {
        return Ok(SqliteLook::InUse { path, pid });
    }
    identify(&path, schema::STEPS)?;
    let of = |error: rusqlite::Error| SqliteOpenError::sqlite(&path, &error);
    let mut file = open_in_passing(&path).map_err(of)?;
    check_application(&file, &path)?;
    check_version(&file, &path, schema::STEPS)?;
    let version = pragma(&file, "user_version").map_err(of)?;
    let checked = check_within(&mut file, &path, limit, progress);
    // A server that began meanwhile writes, and what was read belongs to two moments.
    if let Ok(Some(pid)) = user_of(&path) {
        return Ok(SqliteLook::InUse { path, pid });
    }
    let is_checked = checked?;
    let last = "SELECT at FROM history ORDER BY seq DESC LIMIT 1";
    let latest = file.query_row(last, [], |row| row.get::<_, i64>(0)).optional().map_err(of)?;
    let latest = latest.map(|at| UNIX_EPOCH + Duration::from_millis(number(at)));
    drop(file);
    Ok(SqliteLook::Sound { path, version, known: schema::version_of(schema::STEPS), is_checked, latest })
}

/// Opens the file for reading. Where a log is left, half of the database may be in it: then SQLite reads
/// both, without locks and with its index of the log in memory.
fn open_in_passing(path: &Path) -> rusqlite::Result<Connection> {
    if fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len()) == 0 {
        return open_unlocked(path);
    }
    use std::os::unix::ffi::OsStrExt;
    let path = percent_encode(path.as_os_str().as_bytes(), &ALL_BUT_PATHS);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let file = Connection::open_with_flags(format!("file:{path}?mode=ro&vfs=unix-none"), flags)?;
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    file.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    pragma(&file, "application_id")?;
    Ok(file)
}

/// Whether all was looked at in that time.
fn check_within(
    file: &mut Connection,
    path: &Path,
    limit: Duration,
    progress: fn(Duration),
) -> Result<bool, SqliteOpenError> {
    let (begun, is_late) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let (mut reported, late) = (0, Arc::clone(&is_late));
    let look_at_clock = move || {
        let passed = begun.elapsed();
        if passed.as_secs() > reported {
            reported = passed.as_secs();
            progress(passed);
        }
        late.store(passed >= limit, Ordering::Relaxed);
        passed >= limit
    };
    let of = |error: rusqlite::Error| SqliteOpenError::sqlite(path, &error);
    file.progress_handler(STEPS_BETWEEN, Some(look_at_clock)).map_err(of)?;
    let checked = check_content(file, path);
    file.progress_handler(0, None::<fn() -> bool>).map_err(of)?;
    match checked {
        Err(_) if is_late.load(Ordering::Relaxed) => Ok(false),
        checked => checked.map(|()| true),
    }
}

/// The process that has a lock of SQLite on the file; `None` within if only its presence is known.
#[cfg(target_os = "linux")]
fn user_of(path: &Path) -> std::io::Result<Option<Option<u32>>> {
    use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

    let locks = super::super::error::LOCK_BYTES;
    let wanted = Flock {
        start: locks.start,
        length: locks.end - locks.start,
        pid: None,
        typ: FlockType::WriteLock,
        offset_type: FlockOffsetType::Set,
    };
    let found = fcntl_getlk(fs::File::open(path)?, &wanted)?;
    Ok(found.map(|lock| lock.pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())))
}

#[cfg(not(target_os = "linux"))]
fn user_of(_: &Path) -> std::io::Result<Option<Option<u32>>> {
    Ok(None)
}
