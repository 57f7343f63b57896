//! The identity of the files of an open database: whether they are still in their places.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::fs::{AtFlags, StatxFlags};

use super::beside;
use crate::Fatal;

/// An open database file and its log, by the numbers that the system has given them.
///
/// If one of them is removed or replaced, the store is left with a file that no later start will find.
#[derive(Clone, Debug)]
pub struct DatabaseFile {
    place: Box<str>,
    files: Vec<(PathBuf, Inode)>,
}

/// The number of a file, and that of its device.
type Inode = (u64, u64);

impl DatabaseFile {
    /// The file that `path` leads to, resolved to `file`; it is open and locked.
    pub(crate) fn new(path: &Path, file: &Path) -> io::Result<Self> {
        // The path as it was given may be a link that leads elsewhere later.
        let path = std::path::absolute(path)?;
        let mut files = vec![(path.clone(), inode(&path)?)];
        let log = beside(file, "-wal");
        files.extend(inode(&log).ok().map(|inode| (log, inode)));
        Ok(Self { place: file.display().to_string().into(), files })
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Checks that the database and its log are in their places.
    ///
    /// # Errors
    ///
    /// [`Fatal::Gone`]. An error of the system is none: it says nothing about the file.
    pub fn check(&self) -> Result<(), Fatal> {
        let is_gone = |(path, opened): &(PathBuf, Inode)| match inode(path) {
            Ok(found) => found != *opened,
            Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        match self.files.iter().find(|file| is_gone(file)) {
            Some((path, _)) => {
                let file = path.display().to_string().into();
                Err(Fatal::Gone { place: self.place.clone(), file })
            }
            None => Ok(()),
        }
    }
}

/// A file whose times were asked for has them written anew with its next write (multigrain timestamps, since
/// Linux 6.13), which makes each commit a third slower: only the number is asked for.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn inode(path: &Path) -> io::Result<Inode> {
    let found = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::INO)?;
    Ok((rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn inode(path: &Path) -> io::Result<Inode> {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}
