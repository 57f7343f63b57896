//! The database file: its identification, its creation, and its opening for this process alone.

mod identity;
mod look;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use self::identity::DatabaseFile;
pub use self::look::{SqliteLook, look_at_sqlite};
use super::error::{SqliteOpenError, one_line, said};
use super::schema;
use crate::SecretKey;

/// The length of a page in bytes: as short as still holds a few rows. A commit of a single row writes whole
/// pages, and computes a checksum of each.
const PAGE_BYTES: i32 = 1024;
/// The initial length of the log, in bytes: the pages that it may have, each with its frame header, and the
/// pages that the last commit adds.
const LOG_BYTES_AT_FIRST: u64 = 5 << 20;
/// Memory for pages, in KiB: with a million locks most of the written pages are in it.
const CACHE_KIB: i32 = 32_000;
/// The length to which the log is cut after a burst, in bytes.
const LOG_BYTES: i32 = 64 << 20;

/// The suffixes of the names of the logs that SQLite has beside a database.
pub(crate) const LOGS: [&str; 2] = ["-wal", "-journal"];

/// The most links that may lead one to another to a file that is not there.
const LINKS: usize = 40;

/// The path of the file itself, to which `path` may be a link, whether or not the file is there: its log lies
/// beside the file, and not beside the link.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..LINKS {
        if let Ok(file) = path.canonicalize() {
            return Ok(file);
        }
        let Ok(next) = fs::read_link(&path) else { break };
        path.pop();
        path.push(next);
    }
    Ok(path)
}

/// Opens a database file, or makes it, for this process alone.
pub(crate) fn open(path: &Path, steps: &[&str]) -> Result<Connection, SqliteOpenError> {
    if exists(path)? {
        identify(path, steps)?;
    } else {
        make(path)?;
    }
    open_existing(path, steps)
}

/// Whether the file is there; no file may be made where only a log is left.
fn exists(path: &Path) -> Result<bool, SqliteOpenError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(SqliteOpenError::Foreign { path: path.to_path_buf(), what: "a folder" })
        }
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => match logs(path).next() {
            Some(log) => Err(SqliteOpenError::Orphan { path: path.to_path_buf(), log }),
            None => Ok(false),
        },
        Err(error) => Err(SqliteOpenError::io(path, &error)),
    }
}

/// Checks by the header alone whether the file is a lockhouse database. Takes no lock and changes nothing,
/// not even in another program's database.
fn identify(path: &Path, steps: &[&str]) -> Result<(), SqliteOpenError> {
    match open_unlocked(path) {
        Ok(file) => {
            check_application(&file, path)?;
            check_version(&file, path, steps)
        }
        // Half of the database may be in its log, which may only be read under a lock.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => Ok(()),
        Err(error) => Err(SqliteOpenError::sqlite(path, &error)),
    }
}

fn check_application(file: &Connection, path: &Path) -> Result<(), SqliteOpenError> {
    let of = |error: rusqlite::Error| SqliteOpenError::sqlite(path, &error);
    let application = pragma(file, "application_id").map_err(of)?;
    let pages = pragma(file, "page_count").map_err(of)?;
    let path = path.to_path_buf();
    match application {
        schema::APPLICATION_ID => Ok(()),
        schema::BACKUP_ID => Err(SqliteOpenError::Backup { path }),
        _ if pages == 0 => {
            Err(SqliteOpenError::Foreign { path, what: "empty; remove it to have one made there" })
        }
        _ => Err(SqliteOpenError::Foreign { path, what: "a database of another program" }),
    }
}

fn check_version(file: &Connection, path: &Path, steps: &[&str]) -> Result<(), SqliteOpenError> {
    let known = schema::version_of(steps);
    let found = pragma(file, "user_version").map_err(|error| SqliteOpenError::sqlite(path, &error))?;
    if found > known {
        return Err(SqliteOpenError::Newer { path: path.to_path_buf(), found, known });
    }
    Ok(())
}

pub(crate) fn pragma(file: &Connection, name: &str) -> rusqlite::Result<i32> {
    file.pragma_query_value(None, name, |row| row.get(0))
}

/// The characters that are escaped in a URI that names a file.
const ALL_BUT_PATHS: AsciiSet = NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'_').remove(b'-');

/// Opens the file as immutable: no locks, no log, no traces. The header is read, and nothing else.
pub(crate) fn open_unlocked(path: &Path) -> rusqlite::Result<Connection> {
    let path = percent_encode(path.as_os_str().as_bytes(), &ALL_BUT_PATHS);
    let uri = format!("file:{path}?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let file = Connection::open_with_flags(uri, flags)?;
    pragma(&file, "application_id")?;
    Ok(file)
}

/// Makes the database beside its place and moves it there when it is complete, so that no process ever finds
/// half of a database.
fn make(path: &Path) -> Result<(), SqliteOpenError> {
    let draft = Draft::new(path).map_err(|error| SqliteOpenError::io(path, &error))?;
    let key = SecretKey::random().map_err(|error| SqliteOpenError::System {
        path: path.to_path_buf(),
        why: error.to_string().into(),
    })?;
    let created = Connection::open(draft.path()).and_then(|mut file| {
        file.pragma_update(None, "page_size", PAGE_BYTES)?;
        schema::create(&mut file, &key)?;
        file.close().map_err(|(_, error)| error)
    });
    created.map_err(|error| SqliteOpenError::sqlite(path, &error))?;
    match draft.publish(path) {
        // Another process was faster: its file serves as well.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(|error| SqliteOpenError::io(path, &error)),
    }
}

fn open_existing(path: &Path, steps: &[&str]) -> Result<Connection, SqliteOpenError> {
    let of = |error: rusqlite::Error| SqliteOpenError::sqlite(path, &error);
    let mut file = open_untouched(path).map_err(of)?;
    if file.is_readonly(rusqlite::MAIN_DB).map_err(of)? {
        return Err(SqliteOpenError::ReadOnly { path: path.to_path_buf() });
    }
    lock(&file).map_err(of)?;
    check_application(&file, path)?;
    check_version(&file, path, steps)?;
    check_content(&file, path)?;
    file.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(of)?;
    schema::migrate(&mut file, steps).map_err(of)?;
    extend_log(path);
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(of)?;
    Ok(file)
}

/// Gives the log its size before it is used. Where a file grows, each sync waits for the file system's own
/// log as well; SQLite writes its log over and over, so that it grows only at first. SQLite reads nothing
/// behind the last committed frame.
///
/// Without space for that, the log grows as it is used.
fn extend_log(path: &Path) {
    let extend = |log: &mut File, from: u64| {
        log.seek(io::SeekFrom::End(0))?;
        io::copy(&mut io::Read::take(io::repeat(0), LOG_BYTES_AT_FIRST.saturating_sub(from)), log)?;
        log.sync_data()
    };
    let Ok(mut log) = OpenOptions::new().write(true).open(beside(path, "-wal")) else { return };
    let Ok(length) = log.metadata().map(|metadata| metadata.len()) else { return };
    if extend(&mut log, length).is_err() {
        // The log gets its former length back; a failure of that does no harm.
        let _ = log.set_len(length);
    }
}

/// Opens the file so that closing it leaves even the log of a crash where it is.
pub(crate) fn open_untouched(path: &Path) -> rusqlite::Result<Connection> {
    let has_log = beside(path, "-wal").exists();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(path, flags)?;
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
    Ok(file)
}

/// Locks the file for this process alone, and sets how SQLite writes it.
pub(crate) fn lock(file: &Connection) -> rusqlite::Result<()> {
    file.busy_timeout(std::time::Duration::ZERO)?;
    file.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    file.pragma_update(None, "temp_store", "MEMORY")?;
    file.pragma_update(None, "cache_size", -CACHE_KIB)?;
    file.pragma_update(None, "synchronous", "FULL")?;
    // On macOS only such a sync reaches the disk itself; elsewhere there is no other.
    file.pragma_update(None, "fullfsync", true)?;
    file.pragma_update(None, "checkpoint_fullfsync", true)?;
    file.pragma_update(None, "trusted_schema", false)?;
    file.pragma_update(None, "foreign_keys", false)?;
    // `Log` moves the pages, and checks the result.
    file.pragma_update(None, "wal_autocheckpoint", 0)?;
    file.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
    // The first access takes the lock and keeps it.
    file.execute_batch("BEGIN EXCLUSIVE; COMMIT")
}

/// Reads every page once.
pub(crate) fn check_content(file: &Connection, path: &Path) -> Result<(), SqliteOpenError> {
    let check = file.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    let why = match check {
        Ok(verdict) if verdict == "ok" => return Ok(()),
        Ok(verdict) => one_line(&verdict),
        Err(error) => match SqliteOpenError::sqlite(path, &error) {
            SqliteOpenError::Foreign { .. } => said(&error),
            other => return Err(other),
        },
    };
    Err(SqliteOpenError::Damaged { path: path.to_path_buf(), why })
}

/// A file in the making beside the place where it will stand; gone if it is dropped before.
#[derive(Debug)]
pub(crate) struct Draft(PathBuf);

impl Draft {
    /// An empty file that only its owner may read or write.
    pub(crate) fn new(place: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = beside(place, &format!(".new-{}-{count}", std::process::id()));
        // A file in this place was left by an ended process that had the same number.
        let _ = fs::remove_file(&path);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Puts the file in its place, where nothing may stand, once it is on the disk.
    pub(crate) fn publish(self, place: &Path) -> io::Result<()> {
        File::open(&self.0)?.sync_all()?;
        fs::hard_link(&self.0, place)?;
        drop(self);
        sync_folder(place)
    }

    /// Puts the file in its place, and replaces the file that is there.
    pub(crate) fn replace(self, place: &Path) -> io::Result<()> {
        File::open(&self.0)?.sync_all()?;
        fs::rename(&self.0, place)?;
        sync_folder(place)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let _ = fs::remove_file(beside(&self.0, suffix));
        }
    }
}

/// The folder in which a file stands.
pub(crate) fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// The file whose name continues with `suffix`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The logs of a database that are there.
pub(crate) fn logs(path: &Path) -> impl Iterator<Item = PathBuf> {
    LOGS.into_iter().map(|suffix| beside(path, suffix)).filter(|log| log.exists())
}

pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}
