//! Temporary files in memory. On a disk, a PostgreSQL of a test's own takes a second of a processor to make,
//! a profile of a browser as long, and there are hundreds of both.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Where Linux has files in memory.
const MEMORY: &str = "/dev/shm";

/// The least free space there, in bytes: the rings take a few hundred MB.
const FREE: u64 = 4 << 30;

/// The folder for temporary files of the rings of this project. `None`: the machine has no space for one in
/// memory, and the usual place has to do.
pub(crate) fn folder(root: &Path) -> Option<PathBuf> {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let disk = rustix::fs::statvfs(MEMORY).ok()?;
    (disk.f_bavail * disk.f_frsize >= FREE).then(|| Path::new(MEMORY).join(format!("lockhouse-{name}")))
}

/// Makes the folder, without what a run left that was killed.
pub(crate) fn begin(root: &Path) -> Result<()> {
    end(root)?;
    let Some(folder) = folder(root) else { return Ok(()) };
    let made = fs::create_dir(&folder);
    // As `/tmp`: PostgreSQL runs as an account of its own where we are root.
    made.and_then(|()| fs::set_permissions(&folder, Permissions::from_mode(0o1777)))
        .with_context(|| format!("cannot make {}", folder.display()))
}

/// Removes the folder.
pub(crate) fn end(root: &Path) -> Result<()> {
    let Some(folder) = folder(root) else { return Ok(()) };
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
