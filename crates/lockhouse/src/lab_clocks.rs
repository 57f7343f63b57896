//! Wrong clocks, to see what becomes of locks (`cargo xtask chaos`). Only builds with the feature `lab`,
//! which no release has, read the file that says by how much they are wrong.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// The variable that names the file. It has two numbers of milliseconds: how far the wall clock is ahead, or
/// behind if negative, and how far the clocks that never go back have leapt. Once these are in force, a file
/// beside it, whose name ends in `.applied`, has them as well.
const VARIABLE: &str = "LAB_CLOCKS";

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(5);

static CLOCKS: Clocks = Clocks { wall_ms: AtomicI64::new(0), leap_ms: AtomicU64::new(0) };
static BEGUN: Once = Once::new();

/// How wrong the clocks are.
struct Clocks {
    wall_ms: AtomicI64,
    leap_ms: AtomicU64,
}

/// How far the wall clock is ahead, in milliseconds.
pub(crate) fn wall_ms() -> i64 {
    BEGUN.call_once(begin);
    CLOCKS.wall_ms.load(Ordering::Acquire)
}

/// How far the clocks that never go back have leapt.
pub(crate) fn leap() -> Duration {
    BEGUN.call_once(begin);
    Duration::from_millis(CLOCKS.leap_ms.load(Ordering::Acquire))
}

fn begin() {
    let Some(file) = std::env::var_os(VARIABLE).map(PathBuf::from) else { return };
    let mut applied = String::new();
    CLOCKS.look(&file, &mut applied);
    spawn(move || {
        loop {
            sleep(LOOK);
            CLOCKS.look(&file, &mut applied);
        }
    });
}

impl Clocks {
    /// Applies what the file says, if it says something new.
    fn look(&self, file: &Path, applied: &mut String) {
        let Ok(text) = std::fs::read_to_string(file) else { return };
        if text == *applied {
            return;
        }
        let Some((wall_ms, leap_ms)) = parsed(&text) else { return };
        self.wall_ms.store(wall_ms, Ordering::Release);
        self.leap_ms.fetch_max(leap_ms, Ordering::AcqRel);
        let mut beside = file.as_os_str().to_owned();
        beside.push(".applied");
        // A file that is missing shows where it is waited for.
        _ = std::fs::write(beside, &text);
        *applied = text;
    }
}

fn parsed(text: &str) -> Option<(i64, u64)> {
    let (wall_ms, leap_ms) = text.trim().split_once(' ')?;
    Some((wall_ms.parse().ok()?, leap_ms.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_the_clocks_and_takes_no_leap_back() {
        let folder = tempfile::tempdir().unwrap();
        let (file, beside) = (folder.path().join("clocks"), folder.path().join("clocks.applied"));
        let clocks = Clocks { wall_ms: AtomicI64::new(0), leap_ms: AtomicU64::new(0) };
        let mut applied = String::new();
        let mut set = |text: &str| {
            std::fs::write(&file, text).unwrap();
            clocks.look(&file, &mut applied);
            (clocks.wall_ms.load(Ordering::Acquire), clocks.leap_ms.load(Ordering::Acquire))
        };
        assert_eq!(set("-7 3600000\n"), (-7, 3_600_000));
        assert_eq!(std::fs::read_to_string(&beside).unwrap(), "-7 3600000\n");
        assert_eq!(set("0 5\n"), (0, 3_600_000));
        assert_eq!(set("no numbers"), (0, 3_600_000));
        assert_eq!(std::fs::read_to_string(&beside).unwrap(), "0 5\n");
    }
}
