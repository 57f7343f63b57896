//! Small disks, and files that no process can write.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Folder;

/// A mount in a folder of its own; gone when the test ends. Needs root, as CI is.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// A disk of so many bytes.
    pub(crate) fn disk(folder: &Folder, bytes: usize) -> Self {
        let size = format!("size={bytes}");
        run(
            "mount",
            &["-t".as_ref(), "tmpfs".as_ref(), "-o".as_ref(), size.as_ref(), "tmpfs".as_ref(), folder.path()],
        );
        Self(folder.path().to_path_buf())
    }

    /// Makes a file or a folder read-only, also for root.
    pub(crate) fn read_only(path: &Path) -> Self {
        let mount = Self::same(path);
        run("mount", &["-o".as_ref(), "remount,ro,bind".as_ref(), path]);
        mount
    }

    /// Mounts a file or a folder in its own place, where it stays writable if the folder around it is
    /// read-only.
    pub(crate) fn same(path: &Path) -> Self {
        run("mount", &["--bind".as_ref(), path, path]);
        Self(path.to_path_buf())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A store that was dropped and not closed may still have a file there for a moment.
        let status = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(std::thread::panicking() || status.is_ok_and(|status| status.success()), "still mounted");
    }
}

fn run(program: &str, args: &[&Path]) {
    let status = Command::new(program).args(args).status().unwrap();
    assert!(status.success(), "{program} {args:?} failed: this test has to run as root");
}
