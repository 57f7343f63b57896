//! A run of rings: where, with which log, until when, and what is printed of it.

use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::results::{RingResult, TestRun};
use super::schedule::{self, Demand};
use super::{Ring, server};
use crate::workspace::cargo::BUILD;
use crate::workspace::{scratch, setup, shell, tree};

/// A limit ends what hangs; a slow machine, or one with other work on it, stays far below.
pub(super) const HANG: u64 = 10;

/// One run of a ring: where, with which log, until when.
pub(crate) struct Run<'a> {
    pub(crate) root: &'a Path,
    pub(super) log: PathBuf,
    pub(super) deadline: Option<Instant>,
    /// Its programs run behind all others, as the tests beside it rely on being in time.
    pub(super) is_behind: bool,
}

/// For what must take the time that it takes: no build ends for its slowness.
pub(crate) const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);

impl<'a> Run<'a> {
    /// A step before the rings, without a time limit.
    pub(crate) fn preparing(root: &'a Path, name: &str) -> Result<Self> {
        Ok(Self { root, log: log_of(root, name)?, deadline: None, is_behind: false })
    }

    /// Runs a program with its output in the ring's log; an end other than success is reported, not judged.
    pub(crate) fn logged(&self, command: &mut Command) -> Result<shell::End> {
        let left =
            self.deadline.map_or(NO_LIMIT, |deadline| deadline.saturating_duration_since(Instant::now()));
        let mut log = fs::File::options().create(true).append(true).open(&self.log)?;
        writeln!(log, "$ {}", shell::line(command))?;
        if command.get_current_dir().is_none() {
            command.current_dir(self.root);
        }
        command.env(traces::FOLDER, tree::traces_folder(self.root)?);
        if let Some(folder) = scratch::folder(self.root).filter(|folder| folder.is_dir()) {
            command.env("TMPDIR", folder);
        }
        let started = Instant::now();
        let run = if self.is_behind { shell::run_logged_behind } else { shell::run_logged };
        let end = run(command, &self.log, left)?;
        writeln!(log, "$ # {end} after {:.1} s", started.elapsed().as_secs_f64())?;
        Ok(end)
    }

    /// Runs a program that must succeed for the ring to go on.
    pub(crate) fn must(&self, command: &mut Command) -> Result<()> {
        let end = self.logged(command)?;
        if !end.is_success() {
            bail!("{}: {end}", shell::line(command));
        }
        Ok(())
    }
}

/// Runs the chosen rings on the present tree, several at a time, and stores the results for `cargo xtask
/// requirements`.
pub(crate) fn run(rings: Vec<&Ring>, root: &Path, stamp: &str) -> Vec<RingResult> {
    schedule::run(rings, |ring| ring.demand, |ring| run_one(ring, root, stamp))
}

/// Runs `ring`, and reports its result in one piece, since another ring may be running.
fn run_one(ring: &Ring, root: &Path, stamp: &str) -> RingResult {
    println!("── {:<13} begins: {}", ring.name, ring.shows);
    let started = Instant::now();
    let mut log = PathBuf::new();
    let work = log_of(root, ring.name).and_then(|file| {
        log = file;
        let _ = fs::remove_file(&log);
        let deadline = ring.usual_s.map(|usual| started + Duration::from_secs(HANG * usual));
        let is_behind = ring.demand == Demand::Cores;
        let run = Run { root, log: log.clone(), deadline, is_behind };
        // A fault of the ring itself must not hide the others.
        catch_unwind(AssertUnwindSafe(|| (ring.work)(&run))).unwrap_or_else(|_| Err(anyhow!("it panicked")))
    });
    let (tests, failure) = judge(work);
    let seconds = started.elapsed().as_secs_f64();
    let mut result =
        RingResult { ring: ring.name.to_owned(), tree: stamp.to_owned(), seconds, tests, failure };
    if let Err(error) = result.save(root) {
        result.failure = Some(format!("{error:#}"));
    }
    print!("{}", report(&result, &log));
    result
}

/// The log of a ring, or of a step before the rings.
pub(crate) fn log_of(root: &Path, name: &str) -> Result<PathBuf> {
    Ok(tree::results_folder(root)?.join(format!("{name}.log")))
}

/// A ring fails as a whole if it could not be run, or ran nothing.
fn judge(work: Result<Vec<TestRun>>) -> (Vec<TestRun>, Option<String>) {
    match work {
        Ok(tests) if tests.is_empty() => (tests, Some("no test ran".to_owned())),
        Ok(tests) => (tests, None),
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    }
}

fn report(result: &RingResult, log: &Path) -> String {
    let (passed, failed) = (result.passed(), result.failed());
    let mut lines = Vec::new();
    if failed > 0 {
        lines.push(last_lines(log));
        let failed = result.tests.iter().filter(|test| !test.passed);
        lines.extend(failed.map(|test| format!("   failed: {}: {}", test.suite, test.name)));
        lines.extend(result.failure.iter().map(|failure| format!("   {} failed: {failure}", result.ring)));
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let (ring, seconds) = (&result.ring, result.seconds);
    lines.push(format!("── {ring:<13} {word}: {passed} passed, {failed} failed in {seconds:.0} s\n"));
    lines.join("\n")
}

/// The end of a log, with the place of the rest.
pub(crate) fn last_lines(log: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
    let mut end = shown.join("\n");
    if shown.len() < lines.len() {
        end += &format!("\n(the last {} of {} lines of {})", shown.len(), lines.len(), log.display());
    }
    end
}

/// How much of a failed ring's log is shown.
const LOG_LINES_SHOWN: usize = 400;

/// Installs what the tests need. A log is shown if that fails.
pub(crate) fn prepare(root: &Path) -> Result<()> {
    println!("── setup         Node, Debian's packages, npm packages, Python packages");
    let log = log_of(root, "setup")?;
    let _ = fs::remove_file(&log);
    let done = setup::run(root);
    if done.is_err() && log.is_file() {
        println!("{}", last_lines(&log));
    }
    done
}

/// Builds all tests and programs in one go, before the rings and without a limit; where nothing has changed
/// this takes no time.
pub(crate) fn build(root: &Path) -> Result<()> {
    println!("── build         tests and programs");
    let run = Run::preparing(root, "build")?;
    let _ = fs::remove_file(&run.log);
    // Cargo puts it back even if it is fresh; were it left, a build that fails would leave an old one to be
    // tested.
    let _ = fs::remove_file(server(root));
    // Cargo tells its times in target/cargo-timings.
    let built = run.must(Command::new("cargo").args(["build", "--bins", "--tests", "--timings"]).args(BUILD));
    if built.is_err() {
        println!("{}", last_lines(&run.log));
    }
    built
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_ran_nothing_failed() {
        let test = TestRun { suite: "core".into(), name: "t".into(), passed: true };
        assert_eq!(judge(Ok(vec![])).1.as_deref(), Some("no test ran"));
        assert_eq!(judge(Ok(vec![test.clone()])).1, None);
    }
}
