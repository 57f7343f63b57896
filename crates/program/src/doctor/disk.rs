//! The database file, and the disk that it is on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lockhouse::store::{SqliteLook, SqliteOpenError, look_at_sqlite};
use lockhouse_cli::exit::complain;
use rustix::fs::{Access, access, statvfs};

use super::diagnosis::Diagnosis;
use super::{PATIENCE, clock, within};

const FOLDER: &str = "folder";
const SPACE: &str = "disk space";
const KIND: &str = "file system";
const FILE: &str = "database file";
const LOG: &str = "database log";
const CONTENT: &str = "database";

const MIB: u64 = 1 << 20;

/// Less free space than this is a fault, in bytes.
const LEAST_SPACE: u64 = 100 * MIB;

/// Less free space than this is a warning, in bytes.
const LITTLE_SPACE: u64 = 1024 * MIB;

/// A longer log is a warning, in bytes: the server cuts it to a quarter of this after a burst.
const LONG_LOG: u64 = 256 * MIB;

/// Checks the database file at `path`, whose content is looked at for at most `read_for`.
pub(super) async fn check(path: PathBuf, read_for: Duration, diagnosis: &mut Diagnosis) {
    let given = path.clone();
    let look = within(read_for + PATIENCE, move || look_at_sqlite(given, read_for, report_progress)).await;
    let Some(look) = look else {
        let shown = path.display();
        let found = format!("{shown} was not read within {:?}", read_for + PATIENCE);
        return diagnosis.fault(CONTENT, found, "see whether the disk answers at all");
    };
    let file = match &look {
        Ok(SqliteLook::Absent { path } | SqliteLook::InUse { path, .. } | SqliteLook::Sound { path, .. }) => {
            path.clone()
        }
        _ => std::path::absolute(&path).unwrap_or(path),
    };
    let of_disk = {
        let file = file.clone();
        within(PATIENCE, move || {
            let mut diagnosis = Diagnosis::default();
            check_place(&file, &mut diagnosis);
            diagnosis
        })
    };
    match of_disk.await {
        Some(found) => diagnosis.append(found),
        None => diagnosis.fault(FOLDER, "the disk does not answer", "see whether it is there"),
    }
    check_content(look, diagnosis);
}

fn report_progress(passed: Duration) {
    complain(format_args!("the database is read since {} s", passed.as_secs()));
}

/// The folder, its disk, and the attributes of the files.
fn check_place(file: &Path, diagnosis: &mut Diagnosis) {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let shown = folder.display();
    if !folder.is_dir() {
        let found = format!("{shown} does not exist, or is no folder");
        return diagnosis.fault(FOLDER, found, "make the folder, or name another file with --store");
    }
    match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => diagnosis.ok(FOLDER, format!("{shown} is writable")),
        Err(why) => diagnosis.fault(
            FOLDER,
            format!("{shown} is not writable ({why})"),
            "give it to the user of the server: SQLite has its log beside the database",
        ),
    }
    check_space(folder, diagnosis);
    check_kind(folder, diagnosis);
    check_files(file, diagnosis);
}

fn check_space(folder: &Path, diagnosis: &mut Diagnosis) {
    let disk = match statvfs(folder) {
        Ok(disk) => disk,
        Err(why) => {
            return diagnosis.warn(SPACE, format!("unknown ({why})"), "see with df how much is free");
        }
    };
    let [free, all] = [disk.f_bavail, disk.f_blocks].map(|blocks| blocks.saturating_mul(disk.f_frsize));
    let found = format!("{} MiB of {} MiB are free for {}", free / MIB, all / MIB, folder.display());
    let advice = "free some, or move the database: without space nothing can be kept";
    if free < LEAST_SPACE {
        diagnosis.fault(SPACE, found, advice);
    } else if free < LITTLE_SPACE || free < all / 20 {
        diagnosis.warn(SPACE, found, advice);
    } else {
        diagnosis.ok(SPACE, found);
    }
}

/// File systems of other machines, by the numbers that Linux has for them.
#[cfg(target_os = "linux")]
const OF_NETWORK: [(u32, &str); 9] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x4750_4653, "GPFS"),
];

#[cfg(target_os = "linux")]
fn check_kind(folder: &Path, diagnosis: &mut Diagnosis) {
    /// A program of the machine serves it, perhaps from another one.
    const FUSE: u32 = 0x6573_5546;

    let Ok(disk) = rustix::fs::statfs(folder) else { return };
    let magic = disk.f_type as u32;
    let shown = folder.display();
    let advice = "use a disk of this machine: SQLite's log needs memory and locks that all its users share";
    if let Some((_, kind)) = OF_NETWORK.iter().find(|(number, _)| *number == magic) {
        diagnosis.fault(KIND, format!("{shown} is on {kind}, a file system of the network"), advice);
    } else if magic == FUSE {
        diagnosis.warn(KIND, format!("{shown} is on FUSE, which may be of the network"), advice);
    } else {
        diagnosis.ok(KIND, format!("{shown} is on no network file system that is known"));
    }
}

#[cfg(not(target_os = "linux"))]
fn check_kind(_: &Path, _: &mut Diagnosis) {}

/// Mode and owner of the file, and the length of its log.
fn check_files(file: &Path, diagnosis: &mut Diagnosis) {
    let Ok(metadata) = fs::metadata(file) else { return };
    let shown = file.display();
    if let Err(why) = access(file, Access::READ_OK | Access::WRITE_OK) {
        let advice = "give it to the user of the server";
        diagnosis.fault(FILE, format!("{shown} cannot be read and written ({why})"), advice);
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        let found = format!("{shown} has mode {mode:03o}, and a key in it");
        diagnosis.warn(FILE, found, format!("chmod 600 {shown}"));
    }
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != own {
        let found = format!("{shown} belongs to user {owner}, and this is user {own}");
        diagnosis.warn(FILE, found, "run doctor and the server as the user that the file belongs to");
    }
    diagnosis.ok_unless_found(FILE, format!("{shown} has mode {mode:03o} and belongs to user {owner}"));
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let log = fs::metadata(log).ok();
    let length = log.as_ref().map_or(0, fs::Metadata::len);
    if length > LONG_LOG {
        let advice = "see whether another program reads the file all the time, and restart the server";
        diagnosis.warn(LOG, format!("the log beside it has {} MiB", length / MIB), advice);
    } else {
        diagnosis.ok(LOG, format!("the log beside it has {length} bytes"));
    }
    let times = [Some(&metadata), log.as_ref()].into_iter().flatten();
    let newest: Option<SystemTime> = times.filter_map(|file| file.modified().ok()).max();
    if let Some(newest) = newest {
        clock::check_latest(newest, "the last write of the database file", diagnosis);
    }
}

fn check_content(look: Result<SqliteLook, SqliteOpenError>, diagnosis: &mut Diagnosis) {
    let look = match look {
        Ok(look) => look,
        // Each error says what to do.
        Err(SqliteOpenError::NoFolder { .. }) => return,
        Err(error) => return diagnosis.fault(CONTENT, error.to_string(), "see docs/sqlite.md"),
    };
    match look {
        SqliteLook::Absent { path } => {
            diagnosis.ok(CONTENT, format!("{} is not there; the first start makes it", path.display()));
        }
        SqliteLook::InUse { path, pid } => {
            let pid = pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
            let path = path.display();
            diagnosis.ok(
                CONTENT,
                format!("{path} is in use by a running server{pid}, and so its content was not read"),
            );
        }
        SqliteLook::Sound { path, version, known, is_checked, latest } => {
            let path = path.display();
            let later = if version < known {
                format!("; the next start takes it to version {known}")
            } else {
                String::new()
            };
            if is_checked {
                diagnosis.ok(CONTENT, format!("{path} is whole, version {version}{later}"));
            } else {
                diagnosis.warn(
                    CONTENT,
                    format!("{path} was not read to its end in time, version {version}{later}"),
                    "give it more time with --read-for",
                );
            }
            if let Some(latest) = latest {
                clock::check_latest(latest, "the last entry of the history", diagnosis);
            }
        }
        look => diagnosis.warn(CONTENT, format!("{look:?}"), "see docs/sqlite.md"),
    }
}
