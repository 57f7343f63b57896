//! The restore of a backup in the place of a database that is not in use.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use lockhouse_core::FencingToken;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use thiserror::Error;

use super::copy::copy;
use crate::sqlite::apply::{bits, number};
use crate::sqlite::error::{SqliteOpenError, one_line, said};
use crate::sqlite::file::{self, Draft, LOGS, beside, pragma};
use crate::sqlite::schema;

/// How far a restore raises the marks and the epoch: above all that were given after the backup.
const LEAP: u64 = 1 << 32;

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The present path of the former database, if there was one, or of its log if nothing else was left of
    /// it.
    pub kept_aside: Option<PathBuf>,
}

/// The reason why nothing was restored. The database is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The backup is of no use.
    #[error("{} cannot be restored: {why}; name another backup", .path.display())]
    Unusable {
        /// The backup.
        path: PathBuf,
        /// The problem of the backup.
        why: Box<str>,
    },
    /// Backup and database are one file.
    #[error("{} is the database itself; name a backup of it", .0.display())]
    Same(PathBuf),
    /// Another lockhouse has the database open.
    #[error("{} is in use by another lockhouse{}; stop it first", .path.display(), .pid.map_or(String::new(), |pid| format!(" (process {pid})")))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The process that has it, if the system reports it.
        pid: Option<u32>,
    },
    /// The file in the place of the database is no lockhouse database.
    #[error("{} is no lockhouse database ({what}); move it away first", .path.display())]
    Foreign {
        /// The file that is there.
        path: PathBuf,
        /// The apparent kind of the file.
        what: &'static str,
    },
    /// The database could not be written.
    #[error("{} could not be written ({why}); see that its folder is there, is writable and has room", .path.display())]
    NotWritten {
        /// The database.
        path: PathBuf,
        /// The message of the system.
        why: Box<str>,
    },
}

/// Puts the backup `from` in the place `to`, where no lockhouse may be running. The file that is there gets
/// another name.
///
/// As the tokens given after the backup are unknown, every mark of fencing tokens is raised to 2^32 above the
/// highest, the epoch leaps likewise, and at the next start every bucket recovers
/// ([`Opened::restored`](crate::Opened::restored)).
///
/// # Errors
///
/// [`RestoreError`].
pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Restored, RestoreError> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let not_written =
        |why: &dyn ToString| RestoreError::NotWritten { path: to.into(), why: why.to_string().into() };
    let to = &file::resolve(to).map_err(|error| not_written(&error))?;
    if same(from, to) {
        return Err(RestoreError::Same(to.clone()));
    }
    let former = Former::lock(to)?;
    let source = open_backup(from)?;
    let draft = Draft::new(to).map_err(|error| not_written(&error))?;
    copy(&source, draft.path(), || ()).map_err(|error| not_written(&said(&error)))?;
    let prepared = prepare(draft.path()).map_err(|error| said(&error)).and_then(|leap| match leap {
        Leap::Made => Ok(()),
        Leap::NoneLeft { highest } => {
            Err(format!("its fencing tokens are used up to {highest}, which leaves none for a leap").into())
        }
    });
    prepared.map_err(|why| RestoreError::Unusable { path: from.into(), why })?;
    let kept_aside = match &former {
        Some(former) => former.keep_aside(to).map(Some),
        None => keep_orphans_aside(to),
    };
    let kept_aside = kept_aside.map_err(|error| not_written(&error))?;
    // A log that stayed, or came back when the power is lost, would be taken for the new file's.
    file::sync_folder(to).map_err(|error| not_written(&error))?;
    draft.replace(to).map_err(|error| not_written(&error))?;
    // Only now may another process take the place.
    drop(former);
    Ok(Restored { kept_aside })
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Opens the backup, or the file of a lockhouse that is not running, and reads all of it once.
fn open_backup(path: &Path) -> Result<Connection, RestoreError> {
    let unusable = |why: Box<str>| RestoreError::Unusable { path: path.into(), why };
    if let Err(error) = fs::metadata(path) {
        return Err(unusable(error.to_string().into()));
    }
    if is_foreign(path).map_err(|error| unusable(said(&error)))? {
        return Err(unusable("it is no backup of lockhouse".into()));
    }
    // This time with locks, so that no running database can be copied half-way.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(path, flags).map_err(|error| unusable(said(&error)))?;
    let _ = file.busy_timeout(std::time::Duration::ZERO);
    let check = file.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    match check.map_err(|error| SqliteOpenError::sqlite(path, &error)) {
        Ok(verdict) if verdict == "ok" => {}
        Ok(verdict) => return Err(unusable(format!("it is damaged ({})", one_line(&verdict)).into())),
        Err(SqliteOpenError::InUse { .. }) => return Err(unusable("a lockhouse is running on it".into())),
        Err(SqliteOpenError::Damaged { why, .. }) => {
            return Err(unusable(format!("it is damaged ({why})").into()));
        }
        Err(error) => return Err(unusable(error.to_string().into())),
    }
    let (found, known) =
        (pragma(&file, "user_version").unwrap_or_default(), schema::version_of(schema::STEPS));
    if found > known {
        let why = format!("it has schema version {found}, but this lockhouse knows versions up to {known}");
        return Err(unusable(why.into()));
    }
    Ok(file)
}

/// Whether the header says that it is a database of another program.
fn is_foreign(path: &Path) -> rusqlite::Result<bool> {
    match file::open_unlocked(path).and_then(|file| pragma(&file, "application_id")) {
        Ok(application) => Ok(![schema::APPLICATION_ID, schema::BACKUP_ID].contains(&application)),
        // Half of the database may be in its log, which may only be read under a lock.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => Ok(false),
        Err(error) => Err(error),
    }
}

enum Leap {
    Made,
    NoneLeft { highest: u64 },
}

/// Makes a database of a copy of the backup.
fn prepare(path: &Path) -> rusqlite::Result<Leap> {
    let mut file = Connection::open(path)?;
    schema::migrate(&mut file, schema::STEPS)?;
    let marks = "SELECT max(mark) FROM (SELECT mark FROM buckets UNION ALL SELECT mark FROM tenants
                                        UNION ALL SELECT token_floor FROM slots)";
    let highest = number(file.query_row(marks, [], |row| row.get(0))?);
    let floor = highest + LEAP;
    if floor >= FencingToken::LIMIT {
        return Ok(Leap::NoneLeft { highest });
    }
    let transaction = file.transaction()?;
    // A bucket may have begun anew after the backup, above the mark of another, so all buckets get the
    // highest.
    transaction.execute("UPDATE slots SET token_floor = ?1", [bits(floor)])?;
    transaction.execute("UPDATE tenants SET mark = ?1", [bits(floor)])?;
    transaction
        .execute("UPDATE slots SET epoch = epoch + ?1, writer = 0, clean = 0, restored = 1", [bits(LEAP)])?;
    transaction
        .execute("UPDATE buckets SET mark = ?1, told_in = (SELECT epoch FROM slots)", [bits(floor)])?;
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.commit()?;
    file.close().map_err(|(_, error)| error)?;
    Ok(Leap::Made)
}

/// The database that is there, locked unless it is too broken for that.
struct Former(Option<Connection>);

impl Former {
    fn lock(path: &Path) -> Result<Option<Self>, RestoreError> {
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let foreign = |what| RestoreError::Foreign { path: path.into(), what };
        if !path.is_file() {
            return Err(foreign("not a file"));
        }
        match is_foreign(path) {
            Ok(true) => return Err(foreign("a database of another program")),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                return Err(foreign("not a database of SQLite at all"));
            }
            Ok(false) | Err(_) => {}
        }
        let locked = file::open_untouched(path).and_then(|file| file::lock(&file).map(|()| file));
        match locked.map_err(|error| SqliteOpenError::sqlite(path, &error)) {
            Ok(file) => Ok(Some(Self(Some(file)))),
            Err(SqliteOpenError::InUse { path, pid }) => Err(RestoreError::InUse { path, pid }),
            Err(_) => Ok(Some(Self(None))),
        }
    }

    /// Gives the database another name beside the one that it has.
    fn keep_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let whole = self.0.as_ref().is_some_and(|file| make_one_file(file, path));
        let kept = link_aside(path)?;
        if !whole {
            move_logs(path, &kept)?;
        }
        Ok(kept)
    }
}

/// Moves the logs of a database that is gone, and says where one is now, if there was any.
fn keep_orphans_aside(path: &Path) -> io::Result<Option<PathBuf>> {
    if file::logs(path).next().is_none() {
        return Ok(None);
    }
    let kept = free_name(path)?;
    move_logs(path, &kept)?;
    Ok(file::logs(&kept).next())
}

/// Renames the logs of a database to names beside its new one.
fn move_logs(path: &Path, kept: &Path) -> io::Result<()> {
    LOGS.into_iter()
        .map(|suffix| (beside(path, suffix), beside(kept, suffix)))
        .filter(|(log, _)| log.exists())
        .try_for_each(|(log, kept)| fs::rename(log, kept))
}

/// Moves the log into the database, unless the database is damaged.
fn make_one_file(file: &Connection, path: &Path) -> bool {
    file::check_content(file, path).is_ok()
        && file.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).is_ok()
        && !beside(path, "-wal").exists()
}

fn link_aside(path: &Path) -> io::Result<PathBuf> {
    let kept = free_name(path)?;
    fs::hard_link(path, &kept).map(|()| kept)
}

/// A free name for a file that is moved aside, with not even the log of another database beside it.
fn free_name(path: &Path) -> io::Result<PathBuf> {
    let mut names = (1..1_000_000).map(|count| beside(path, &format!(".before-restore-{count}")));
    let is_free = |name: &PathBuf| name.symlink_metadata().is_err() && file::logs(name).next().is_none();
    names.find(is_free).ok_or_else(|| ErrorKind::AlreadyExists.into())
}
