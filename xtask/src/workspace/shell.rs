//! Running other programs: visible, in a group of their own, with a log and a time limit.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group, setpriority_process, test_kill_process_group};

/// The process groups that run now. None of them may outlive us.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Exit(i32),
    Signal(i32),
    /// The process was still running when its time was up, and was killed.
    TimedOut(Duration),
}

impl End {
    pub(crate) fn is_success(self) -> bool {
        self == End::Exit(0)
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Exit(code) => write!(f, "exit {code}"),
            End::Signal(signal) => write!(f, "killed by signal {signal}"),
            End::TimedOut(limit) => write!(f, "not done after {} s", limit.as_secs()),
        }
    }
}

/// Where Ctrl-C and SIGTERM go instead of ending us.
static INTERRUPTS: OnceLock<Sender<()>> = OnceLock::new();

/// From now on Ctrl-C and SIGTERM come here, and end nothing by themselves.
pub fn interrupts() -> Receiver<()> {
    let (sender, interrupts) = channel();
    // One command calls it, once.
    _ = INTERRUPTS.set(sender);
    interrupts
}

/// Makes Ctrl-C and SIGTERM end the running programs' whole groups before they end us.
pub fn end_children_with_us() -> Result<()> {
    let handler = || {
        if INTERRUPTS.get().is_some_and(|interrupts| interrupts.send(()).is_ok()) {
            return;
        }
        end_groups(&running());
        std::process::exit(130);
    };
    ctrlc::set_handler(handler).context("cannot handle signals")
}

/// Ends this process group, which other code started, before Ctrl-C or SIGTERM ends us.
pub fn end_group_with_us(group: u32) {
    running().insert(group);
}

/// This process group has ended; its number may come to name another one.
pub fn group_has_ended(group: u32) {
    running().remove(&group);
}

fn running() -> std::sync::MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `command` without input and with its output in `log` (appended), killing its whole group when `limit`
/// has passed.
pub(crate) fn run_logged(command: &mut Command, log: &Path, limit: Duration) -> Result<End> {
    run_limited(with_log(command, log)?, limit, Priority::Usual)
}

/// As [`run_logged`], behind all other programs that want a processor.
pub(crate) fn run_logged_behind(command: &mut Command, log: &Path, limit: Duration) -> Result<End> {
    run_limited(with_log(command, log)?, limit, Priority::Behind)
}

/// The command without input and with its output in `log` (appended).
fn with_log<'c>(command: &'c mut Command, log: &Path) -> Result<&'c mut Command> {
    let file = File::options().create(true).append(true).open(log)?;
    Ok(command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file))
}

/// Prints `command`, then runs it on our own output.
pub(crate) fn run_shown(command: &mut Command) -> Result<End> {
    println!("$ {}", line(command));
    run_limited(command.stdin(Stdio::null()), Duration::from_secs(24 * 3600), Priority::Usual)
}

/// The command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let mut words: Vec<String> = Vec::new();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", key.to_string_lossy(), quote(&value.to_string_lossy())));
        }
    }
    words.push(command.get_program().to_string_lossy().into_owned());
    words.extend(command.get_args().map(|arg| quote(&arg.to_string_lossy())));
    words.join(" ")
}

/// Whether a program of this name can be started.
pub(crate) fn exists(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    !matches!(command.status(), Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Which programs get a processor first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Priority {
    Usual,
    Behind,
}

/// The niceness of programs that run behind the others: these get about nine tenths of a processor.
const BEHIND: i32 = 10;

fn run_limited(command: &mut Command, limit: Duration, priority: Priority) -> Result<End> {
    // A group of its own: what it starts in turn is ended with it.
    let mut child =
        command.process_group(0).spawn().with_context(|| format!("cannot start {}", line(command)))?;
    end_group_with_us(child.id());
    if priority == Priority::Behind {
        // What it starts in turn inherits the niceness. The process may have ended by itself.
        _ = setpriority_process(Pid::from_raw(child.id() as i32), BEHIND);
    }
    let status = wait_until(&mut child, Instant::now() + limit);
    end_groups(&BTreeSet::from([child.id()]));
    group_has_ended(child.id());
    match status? {
        Some(status) => {
            Ok(status.code().map_or_else(|| End::Signal(status.signal().unwrap_or(0)), End::Exit))
        }
        None => {
            child.wait()?;
            Ok(End::TimedOut(limit))
        }
    }
}

/// Polls, since the standard library has no wait with a limit; a ring takes seconds, so 20 ms are nothing.
fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(None)
}

/// How long a process has to end what it has started in groups of its own, as our own commands do.
const FOR_THEIR_END: Duration = Duration::from_secs(3);

/// Ends the rest of process groups, by SIGTERM and then by SIGKILL; usually nothing is left.
fn end_groups(groups: &BTreeSet<u32>) {
    let groups: Vec<Pid> = groups.iter().filter_map(|group| Pid::from_raw(*group as i32)).collect();
    // A group that is not there any more is no fault.
    let signal = |signal| groups.iter().for_each(|group| _ = kill_process_group(*group, signal));
    signal(Signal::TERM);
    let deadline = Instant::now() + FOR_THEIR_END;
    while Instant::now() < deadline && groups.iter().any(|group| test_kill_process_group(*group).is_ok()) {
        thread::sleep(Duration::from_millis(20));
    }
    signal(Signal::KILL);
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> End {
        let log = std::env::temp_dir().join(format!("xtask-shell-{}.log", std::process::id()));
        run_logged(Command::new("sh").args(["-c", script]), &log, limit).unwrap()
    }

    #[test]
    fn a_program_that_ends_by_itself_reports_its_code_or_signal() {
        let limit = Duration::from_secs(20);
        assert_eq!(sh("exit 7", limit), End::Exit(7));
        assert_eq!(sh("kill -TERM $$", limit), End::Signal(15));
    }

    #[test]
    fn a_program_past_its_limit_is_killed_with_its_children() {
        let started = Instant::now();
        let limit = Duration::from_millis(100);
        assert_eq!(sh("sleep 60 & wait", limit), End::TimedOut(limit));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_program_past_its_limit_ends_what_it_started_in_groups_of_its_own() {
        let name = |what: &str| std::env::temp_dir().join(format!("xtask-{what}-{}", std::process::id()));
        let (script, pid) = (name("group.sh"), name("group.pid"));
        let lines = "set -m\nsleep 300 &\ntrap 'kill $!; exit' TERM\necho $! > \"$1\"\nwait\n";
        std::fs::write(&script, lines).unwrap();
        let mut command = Command::new("sh");
        let limit = Duration::from_secs(1);
        let end = run_logged(command.arg(&script).arg(&pid), &name("group.log"), limit).unwrap();
        assert_eq!(end, End::TimedOut(limit));
        let sleeper = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        // Its parent does not wait for it, so that its entry may take a moment to go.
        let deadline = Instant::now() + Duration::from_secs(20);
        while rustix::process::test_kill_process(Pid::from_raw(sleeper).unwrap()).is_ok() {
            assert!(Instant::now() < deadline, "the sleeper goes on");
            thread::yield_now();
        }
    }

    #[test]
    fn a_program_behind_the_others_is_nice() {
        let log = std::env::temp_dir().join(format!("xtask-nice-{}.log", std::process::id()));
        // The niceness is set soon after the start.
        let script = "until [ \"$(nice)\" = 10 ]; do :; done";
        let mut command = Command::new("sh");
        let end = run_logged_behind(command.args(["-c", script]), &log, Duration::from_secs(20)).unwrap();
        assert_eq!(end, End::Exit(0));
    }

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("cargo");
        command.env("A", "x y").args(["test", "it's"]);
        assert_eq!(line(&command), r"A='x y' cargo test 'it'\''s'");
    }
}
