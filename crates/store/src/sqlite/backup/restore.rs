//! The restore of a backup in the place of a database that is not in use.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[cfg(feature = "postgres")]
use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use thiserror::Error;

use super::copy::copy;
use crate::sqlite::error::{SqliteOpenError, one_line, said};
use crate::sqlite::file::{self, Draft, LOGS, beside, pragma};
use crate::sqlite::schema;
use crate::values::{bits, number};
use crate::{HighestNumbers, NoNumberLeft};

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The present path of the former database, if there was one, or of its log if nothing else was left of
    /// it.
    pub kept_aside: Option<PathBuf>,
    /// The numbers above which the restored database goes on.
    pub above: HighestNumbers,
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
    /// No fencing token would be left.
    #[error("{} cannot be restored: {why}; set the clock of this machine if it is wrong, or begin with a new database", .path.display())]
    NoNumberLeft {
        /// The backup.
        path: PathBuf,
        /// The number that was reached.
        why: NoNumberLeft,
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
/// As the grants after the backup are unknown, fencing tokens and epoch go on above all that can have been
/// given ([`HighestNumbers::after_restore`]), and at the next start every bucket recovers
/// ([`Opened::restored`](crate::Opened::restored)).
///
/// # Errors
///
/// [`RestoreError`].
pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Restored, RestoreError> {
    restore_at(from.as_ref(), to.as_ref(), SystemTime::now())
}

pub(crate) fn restore_at(from: &Path, to: &Path, now: SystemTime) -> Result<Restored, RestoreError> {
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
    let replaced = former.as_ref().and_then(Former::highest_numbers);
    let leap = |backup| HighestNumbers::after_restore(backup, replaced, now);
    let prepared = prepare(draft.path(), leap)
        .map_err(|error| RestoreError::Unusable { path: from.into(), why: said(&error) })?;
    let above = prepared.map_err(|why| RestoreError::NoNumberLeft { path: from.into(), why })?;
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
    Ok(Restored { kept_aside, above })
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

/// A private copy of a backup with the present tables, which is gone once it is closed; and its highest
/// numbers.
#[cfg(feature = "postgres")]
pub(crate) fn private_copy(from: &Path) -> Result<(Connection, HighestNumbers), RestoreError> {
    let copied = |source: &Connection| {
        let mut copy = Connection::open("")?;
        Backup::new(source, &mut copy)?.run_to_completion(1000, std::time::Duration::ZERO, None)?;
        schema::migrate(&mut copy, schema::STEPS)?;
        let numbers = highest_numbers(&copy)?;
        Ok((copy, numbers))
    };
    let source = open_backup(from)?;
    copied(&source).map_err(|error| RestoreError::Unusable { path: from.into(), why: said(&error) })
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

/// Makes a database of a copy of the backup, which goes on above the numbers to which `leap` leads. Changes
/// nothing if no number is left.
fn prepare(
    path: &Path,
    leap: impl FnOnce(HighestNumbers) -> Result<HighestNumbers, NoNumberLeft>,
) -> rusqlite::Result<Result<HighestNumbers, NoNumberLeft>> {
    let mut file = Connection::open(path)?;
    schema::migrate(&mut file, schema::STEPS)?;
    let above = match leap(highest_numbers(&file)?) {
        Ok(above) => above,
        none => return Ok(none),
    };
    let transaction = file.transaction()?;
    transaction.execute(
        "UPDATE slots SET token_floor = ?1, epoch = ?2, longest_lease_before_ms = ?3, writer = 0, clean = 0,
                          restored = 1, held = NULL",
        [bits(above.mark), bits(above.epoch), bits(above.longest_lease_ms)],
    )?;
    // The floor is as high for everybody.
    transaction.execute_batch("DELETE FROM tenants; DELETE FROM floors")?;
    // A bucket may have begun anew after the backup, above the mark of another, so all buckets get the
    // highest.
    transaction
        .execute("UPDATE buckets SET mark = ?1, told_in = ?2", [bits(above.mark), bits(above.epoch)])?;
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.commit()?;
    file.close().map_err(|(_, error)| error)?;
    Ok(Ok(above))
}

fn highest_numbers(file: &Connection) -> rusqlite::Result<HighestNumbers> {
    let first = "SELECT max(mark) FROM (SELECT mark FROM buckets UNION ALL SELECT mark FROM tenants
                                        UNION ALL SELECT token_floor FROM slots)";
    let mut mark = number(file.query_row(first, [], |row| row.get(0))?);
    // The second version of the schema has made the table.
    if pragma(file, "user_version")? >= 2 {
        let sql = "SELECT coalesce(max(mark), 0) FROM floors";
        mark = mark.max(number(file.query_row(sql, [], |row| row.get(0))?));
    }
    let sql = "SELECT max(epoch), max(max(longest_lease_ms, longest_lease_before_ms)) FROM slots";
    let (epoch, longest) = file.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(HighestNumbers { mark, epoch: number(epoch), longest_lease_ms: number(longest) })
}

/// The database that is there.
struct Former {
    /// The database, locked unless it is too broken for that.
    file: Option<Connection>,
    /// Whether all of it can be read.
    is_whole: bool,
}

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
            Ok(file) => {
                let is_whole = file::check_content(&file, path).is_ok();
                Ok(Some(Self { file: Some(file), is_whole }))
            }
            Err(SqliteOpenError::InUse { path, pid }) => Err(RestoreError::InUse { path, pid }),
            Err(_) => Ok(Some(Self { file: None, is_whole: false })),
        }
    }

    fn whole(&self) -> Option<&Connection> {
        self.file.as_ref().filter(|_| self.is_whole)
    }

    /// The highest numbers of the database. One that is damaged must not decide: its numbers may be anything.
    fn highest_numbers(&self) -> Option<HighestNumbers> {
        self.whole().and_then(|file| highest_numbers(file).ok())
    }

    /// Gives the database another name beside the one that it has.
    fn keep_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let is_one_file = self.whole().is_some_and(|file| make_one_file(file, path));
        let kept = link_aside(path)?;
        if !is_one_file {
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

/// Moves the log into the database.
fn make_one_file(file: &Connection, path: &Path) -> bool {
    file.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).is_ok()
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
