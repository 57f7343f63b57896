//! `lockhouse run` with short commands, again and again during all faults: its exit codes, and whether the
//! commands ran under their locks.
//!
//! The commands write to a file when they begin and end. A `run` that exits with the code of its command held
//! the lock until the command ended: no other command of the same name began meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use parking_lot::Mutex;
use random::Random;

use super::nodes::{key_file, urls};
use super::{FOLDER, LEASE};

/// Those that run at a time.
const RUNNERS: usize = 4;
/// The names that they want, each in a bucket of its own.
const NAMES: usize = 2;
/// The code of some commands, which no `run` has by itself.
const OWN: i32 = 7;
/// The least runs with the codes of their commands that prove something.
const LEAST: usize = 10;
/// Longer than any fault, and than any slot takes to grant again.
const PATIENCE: &str = "100s";
/// What takes longer has failed.
const LONGEST: Duration = Duration::from_secs(150);

/// How often each exit code occurred, by the options of the runs.
pub(super) type ExitCodes = BTreeMap<&'static str, BTreeMap<i32, usize>>;

/// The threads that run it.
pub(super) struct Runs {
    shared: Arc<RunsShared>,
    threads: Vec<JoinHandle<Result<()>>>,
}

struct RunsShared {
    program: PathBuf,
    is_over: AtomicBool,
    /// Odd while all goes on and nothing fails.
    phase: AtomicUsize,
    /// By the number of the run.
    ended: Mutex<BTreeMap<usize, EndedRun>>,
    last: AtomicUsize,
}

/// A run that has ended.
struct EndedRun {
    way: Way,
    name: usize,
    code: i32,
    /// The code of its command.
    own: i32,
    was_quiet: bool,
    said: String,
    is_checked: bool,
}

/// How long a run waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// For node and lock, longer than any fault lasts.
    Patient,
    /// For the lock alone.
    Plain,
    /// For both, but shortly.
    Hasty,
    /// For neither.
    IfAvailable,
}

impl Way {
    const ALL: [Self; 4] = [Self::Patient, Self::Plain, Self::Hasty, Self::IfAvailable];

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Patient => &["--wait-for-server", "--timeout", PATIENCE],
            Self::Plain => &[],
            Self::Hasty => &["--timeout", "2s"],
            Self::IfAvailable => &["--if-available"],
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Patient => "patient",
            Self::Plain => "plain",
            Self::Hasty => "hasty",
            Self::IfAvailable => "if available",
        }
    }

    /// The codes that may come besides that of the command.
    fn others(self, was_quiet: bool) -> &'static [i32] {
        match (self, was_quiet) {
            (Self::Patient | Self::Plain, true) => &[],
            (Self::Hasty | Self::IfAvailable, true) => &[NOT_GRANTED],
            (Self::Patient, false) => &[LOST],
            (Self::Plain, false) => &[UNREACHABLE, LOST],
            (Self::Hasty | Self::IfAvailable, false) => &[UNREACHABLE, NOT_GRANTED, LOST],
        }
    }
}

/// The codes that `lockhouse run --help` promises.
const UNREACHABLE: i32 = 69;
const NOT_GRANTED: i32 = 75;
const LOST: i32 = 76;

impl Runs {
    pub(super) fn begin(program: &Path, seed: u64) -> Self {
        let shared = Arc::new(RunsShared {
            program: program.to_owned(),
            is_over: AtomicBool::new(false),
            phase: AtomicUsize::new(0),
            ended: Mutex::default(),
            last: AtomicUsize::new(0),
        });
        let runner = |nth: usize| {
            let (shared, random) = (shared.clone(), Random::new(seed.wrapping_add(1000 + nth as u64)));
            thread::spawn(move || shared.run_again_and_again(random))
        };
        let threads = (0..RUNNERS).map(runner).collect();
        Self { shared, threads }
    }

    /// From now on all goes on and nothing fails, or no more.
    pub(super) fn is_quiet(&self, is_quiet: bool) {
        let phase = self.shared.phase.load(Ordering::SeqCst);
        self.shared.phase.store(phase + usize::from(is_quiet != (phase % 2 == 1)), Ordering::SeqCst);
    }

    /// Whether all have ended as they may, so far.
    pub(super) fn check(&self) -> Result<()> {
        let mut ended = self.shared.ended.lock();
        let written: Vec<String> =
            (0..NAMES).map(|name| fs::read_to_string(file(name)).unwrap_or_default()).collect();
        let lines: BTreeSet<(usize, &str)> = (0..)
            .zip(&written)
            .flat_map(|(name, text)| text.lines().map(move |line| (name, begin(line))))
            .collect();
        for (number, run) in ended.iter_mut().filter(|(_, run)| !run.is_checked) {
            run.check(*number, |line| lines.contains(&(run.name, line)))?;
            run.is_checked = true;
        }
        Ok(())
    }

    /// Waits until the last ones have ended, and judges all.
    pub(super) fn end(&mut self) -> Result<ExitCodes> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| anyhow!("a runner has panicked"))??;
        }
        self.check()?;
        let ended = self.shared.ended.lock();
        for name in 0..NAMES {
            let text = fs::read_to_string(file(name)).unwrap_or_default();
            judge(&text, |number| ended.get(&number).is_some_and(EndedRun::has_own_code))?;
        }
        let done = ended.values().filter(|run| run.has_own_code()).count();
        ensure!(done >= LEAST, "this run did too little to prove anything: {done} commands of lockhouse run");
        let mut codes = ExitCodes::new();
        for (number, run) in &*ended {
            if [UNREACHABLE, LOST].contains(&run.code) {
                println!("run {number} ({}) exited with {}: {}", run.way.text(), run.code, run.said);
            }
            // Those of all commands are counted as one.
            let code = if run.has_own_code() { 0 } else { run.code };
            *codes.entry(run.way.text()).or_default().entry(code).or_default() += 1;
        }
        Ok(codes)
    }
}

/// All of them in words.
pub(super) fn summary(codes: &ExitCodes) -> String {
    let count = |wanted: i32| -> usize { codes.values().filter_map(|of| of.get(&wanted)).sum() };
    let all: usize = codes.values().flat_map(BTreeMap::values).sum();
    format!(
        "{all} times lockhouse run: {} with the code of the command, {} lost, {} not granted, {} unreachable",
        count(0),
        count(LOST),
        count(NOT_GRANTED),
        count(UNREACHABLE),
    )
}

/// Where the commands of a name write that they begin and end.
fn file(name: usize) -> PathBuf {
    PathBuf::from(FOLDER).join(format!("runs-{name}"))
}

impl RunsShared {
    fn run_again_and_again(&self, mut random: Random) -> Result<()> {
        while !self.is_over.load(Ordering::SeqCst) {
            let number = self.last.fetch_add(1, Ordering::SeqCst);
            let run = self.run(number, &mut random)?;
            self.ended.lock().insert(number, run);
            thread::sleep(Duration::from_millis(50 + random.below(300) as u64));
        }
        Ok(())
    }

    fn run(&self, number: usize, random: &mut Random) -> Result<EndedRun> {
        let (way, name) = (Way::ALL[random.below(4)], random.below(NAMES));
        let own = if random.percent(30) { OWN } else { 0 };
        // Some outlast the lease.
        let ms = if random.percent(5) { LEASE.as_millis() as u64 + 2000 } else { random.below(300) as u64 };
        let phase = self.phase.load(Ordering::SeqCst);
        let mut command = Command::new(&self.program);
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.args(["run", "job", "--bucket", &format!("runs-{name}"), "--key-file"]).arg(key_file());
        let mut urls = urls();
        let first = random.below(urls.len());
        urls.rotate_left(first);
        urls.iter().for_each(|url| _ = command.args(["--url", url]));
        command.args(way.options()).args(["--", "sh", "-c", SCRIPT, "sh", &number.to_string()]);
        command.arg(file(name)).args([format!("{:.3}", ms as f64 / 1000.0), own.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let began = Instant::now();
        let child = command.spawn().context("cannot start lockhouse run")?;
        let output = child.wait_with_output()?;
        ensure!(began.elapsed() < LONGEST, "lockhouse run ({}) took {:?}", way.text(), began.elapsed());
        let was_quiet = phase % 2 == 1 && self.phase.load(Ordering::SeqCst) == phase;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let Some(code) = output.status.code() else {
            bail!("lockhouse run ended by {}: {said}", output.status)
        };
        Ok(EndedRun { way, name, code, own, was_quiet, said, is_checked: false })
    }
}

/// Writes that it begins and ends, and waits in between.
const SCRIPT: &str =
    r#"echo "begin $1 $LOCKHOUSE_FENCING_TOKEN" >> "$2"; sleep "$3"; echo "end $1" >> "$2"; exit "$4""#;

impl EndedRun {
    fn has_own_code(&self) -> bool {
        self.code == self.own
    }

    /// Whether it has a code that it may have, and the command has written or not what that code says.
    fn check(&self, number: usize, has_written: impl Fn(&str) -> bool) -> Result<()> {
        let Self { way, code, own, was_quiet, said, .. } = self;
        let when = if *was_quiet { "while nothing failed" } else { "during a fault" };
        let text =
            || format!("run {number} ({}) {when} exited with {code}, its command with {own}", way.text());
        ensure!(code == own || way.others(*was_quiet).contains(code), "{}: {said}", text());
        if *code == LOST {
            return Ok(());
        }
        let has_begun = has_written(&format!("begin {number}"));
        let has_ended = has_written(&format!("end {number}"));
        let has_run = code == own;
        ensure!(
            has_begun == has_run && has_ended == has_run,
            "{}, but the command has begun: {has_begun}, and ended: {has_ended}: {said}",
            text()
        );
        Ok(())
    }
}

/// A line of a command without the token.
fn begin(line: &str) -> &str {
    line.match_indices(' ').nth(1).map_or(line, |(at, _)| &line[..at])
}

/// No command begins while another one holds the lock, and tokens grow.
fn judge(text: &str, held_to_its_end: impl Fn(usize) -> bool) -> Result<()> {
    let (mut holder, mut highest) = (None, 0);
    for line in text.lines() {
        let mut words = line.split(' ');
        let (what, number) = (words.next(), words.next().context("a line has a number")?.parse()?);
        if what == Some("end") {
            holder = holder.filter(|holder| *holder != number);
            continue;
        }
        if let Some(holder) = holder {
            bail!("run {number} began its command without the lock, which run {holder} had");
        }
        if held_to_its_end(number) {
            let token: u64 = words.next().context("a line has a token")?.parse()?;
            ensure!(token > highest, "run {number} has token {token}, and one before it {highest}");
            (holder, highest) = (Some(number), token);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_overlap_only_if_the_first_one_has_lost_its_lock() {
        let text = "begin 1 5\nbegin 2 6\nend 1\nend 2\n";
        assert!(judge(text, |number| number == 2).is_ok());
        assert!(judge(text, |_| true).unwrap_err().to_string().contains("run 2 began"));
    }

    #[test]
    fn a_run_has_a_code_that_says_whether_its_command_has_run() {
        let of = |way, code, was_quiet| EndedRun {
            way,
            name: 0,
            code,
            own: 0,
            was_quiet,
            said: String::new(),
            is_checked: false,
        };
        let (ran, did_not) = (|_: &str| true, |_: &str| false);
        assert!(of(Way::Plain, 0, true).check(1, ran).is_ok());
        assert!(of(Way::Plain, 0, true).check(1, did_not).is_err());
        assert!(of(Way::Plain, 69, false).check(1, did_not).is_ok());
        assert!(of(Way::Plain, 69, false).check(1, ran).is_err());
        assert!(of(Way::Plain, 69, true).check(1, did_not).is_err());
        assert!(of(Way::Patient, 69, false).check(1, did_not).is_err());
        assert!(of(Way::Patient, 1, false).check(1, did_not).is_err());
    }

    #[test]
    fn tokens_of_commands_grow() {
        let text = "begin 1 5\nend 1\nbegin 2 5\nend 2\n";
        assert!(judge(text, |_| true).unwrap_err().to_string().contains("token 5"));
    }
}
