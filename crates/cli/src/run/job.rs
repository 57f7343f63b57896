//! The command: a process group of its own.
//!
//! A signal to the group reaches every process that the command has started and that has stayed in it, each
//! once, and also what was started in the background. This process is no part of it, so that a signal to its
//! own group (one that is typed, or `kill -- -PGID`) comes to the command only as it is passed on.
//!
//! The terminal stays with our group until the command reads it or changes its settings: other processes of a
//! pipeline may need it. Then the system stops the command, as one in the background, and it is continued and
//! given the terminal. From then on a shell could not stop us by what is typed: when the command stops,
//! we stop, too, with our whole group, and the shell takes the terminal back.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpgrp, getpid, kill_current_process_group,
    kill_process, kill_process_group, test_kill_process_group, waitid,
};
use tokio::net::unix::pipe;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::sleep;

use super::terminal::Terminal;

/// The interval at which the group is looked at once the command itself has ended: the system does not tell
/// of the end of a group.
const LOOK: Duration = Duration::from_millis(20);

/// The shell that runs a script without an interpreter line, as execvp(3) has it.
const SHELL: &str = "/bin/sh";

pub(super) struct Job {
    child: Child,
    /// The number of the command and of its group. Until the child is waited for, no other can have it.
    group: Pid,
    /// Comes with the end of a child, and when one stops.
    changes: unix::Signal,
    terminal: Option<Terminal>,
    wants_terminal: bool,
    /// Ends when all descendants have closed the other end, which they inherit.
    descendants: Option<pipe::Receiver>,
    /// How the child ended, once it was waited for.
    status: Option<ExitStatus>,
}

impl Job {
    /// Starts the command, with what `prepare` adds.
    pub(super) fn start(
        program: &OsStr,
        arguments: &[OsString],
        waits_for_children: bool,
        prepare: impl Fn(&mut Command),
    ) -> io::Result<Self> {
        // Where SIGCHLD is ignored, the system forgets how children end; a listener ends that.
        let changes = unix::signal(SignalKind::child())?;
        let pipe = waits_for_children.then(inherited_pipe).transpose()?;
        let child = start(program, arguments, &prepare)?;
        let group = Pid::from_child(&child);
        let descendants = pipe.map(|(read, _write)| pipe::Receiver::from_owned_fd(read)).transpose()?;
        let terminal = Terminal::open();
        Ok(Self { child, group, changes, terminal, wants_terminal: false, descendants, status: None })
    }

    /// Sends a signal to the command and all in its group.
    pub(super) fn send(&self, signal: Signal) {
        // They may have ended just now.
        _ = kill_process_group(self.group, signal);
    }

    /// Passes a signal on that came to this process.
    pub(super) fn pass_on(&mut self, signal: Signal) {
        match signal {
            Signal::TSTP => {
                self.send(signal);
                // What stops by itself still stops without a terminal, and is continued with it.
                _ = kill_process(getpid(), Signal::STOP);
            }
            Signal::CONT => self.go_on(),
            _ => self.send(signal),
        }
    }

    /// Waits until the command has ended, and with `--wait-children` every descendant that has kept the
    /// inherited pipe.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn ended(&mut self) -> io::Result<()> {
        self.command_ended().await?;
        let Some(descendants) = &self.descendants else { return Ok(()) };
        loop {
            descendants.readable().await?;
            match descendants.try_read(&mut [0; 64]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the command and its whole group have ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn group_ended(&mut self) -> io::Result<()> {
        self.command_ended().await?;
        // A command that has ended counts among its group until it is waited for.
        self.status()?;
        while test_kill_process_group(self.group) != Err(Errno::SRCH) {
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// How the command ended, which has ended.
    pub(super) fn status(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }

    /// Waits until the command itself has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn command_ended(&mut self) -> io::Result<()> {
        // The status stays until the child is waited for.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while self.status.is_none() && waitid(WaitId::Pid(self.group), ended)?.is_none() {
            match stop_of(self.group)? {
                Some(status) => self.stopped(status.stopping_signal()),
                None => _ = self.changes.recv().await,
            }
        }
        Ok(())
    }

    /// The command has been stopped.
    fn stopped(&mut self, by: Option<i32>) {
        let Some(terminal) = &self.terminal else { return };
        match by.and_then(Signal::from_named_raw) {
            Some(Signal::TTIN | Signal::TTOU) => {
                self.wants_terminal = true;
                if terminal.is_ours() || terminal.is_of(self.group) {
                    // First it is continued: the system forgets a stop that is typed at a stopped group
                    // when it continues that group. A command that is faster than the terminal stops once
                    // more, and is continued again.
                    self.send(Signal::CONT);
                    self.hand_terminal();
                } else {
                    stop_with_our_group();
                }
            }
            Some(Signal::TSTP) if terminal.is_of(self.group) => stop_with_our_group(),
            _ => {}
        }
    }

    /// Continues the command as a shell does. It has the terminal first: a program that ignores the stop of
    /// one in the background would fail to read it.
    fn go_on(&self) {
        self.hand_terminal();
        self.send(Signal::CONT);
    }

    /// Gives the command the terminal if it has asked for it and the terminal is ours to give.
    fn hand_terminal(&self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_ours())
            && self.wants_terminal
        {
            terminal.give_to(self.group);
        }
    }
}

impl Drop for Job {
    /// Takes the terminal back for the program that comes after this process, such as the rest of a script.
    fn drop(&mut self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_of(self.group)) {
            terminal.give_to(getpgrp());
        }
    }
}

/// How that child has been stopped, if it has and this is not known yet.
fn stop_of(child: Pid) -> io::Result<Option<WaitIdStatus>> {
    match waitid(WaitId::Pid(child), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG) {
        // It has ended just now: to the system, it is then no child that can stop.
        Err(Errno::CHILD) => Ok(None),
        done => Ok(done?),
    }
}

/// As if the terminal had stopped us, too: the shell takes it back then.
fn stop_with_our_group() {
    _ = kill_current_process_group(Signal::STOP);
}

/// A pipe whose end for writing every descendant inherits, as it inherits its standard streams.
fn inherited_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe()?;
    fcntl_setfd(&read, FdFlags::CLOEXEC)?;
    Ok((read, write))
}

/// Starts the program. A script without an interpreter line is one for the shell.
fn start(program: &OsStr, arguments: &[OsString], prepare: &impl Fn(&mut Command)) -> io::Result<Child> {
    let spawn = |mut command: Command| {
        prepare(&mut command);
        command.args(arguments).process_group(0).spawn()
    };
    match spawn(Command::new(program)) {
        Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            let mut shell = Command::new(SHELL);
            shell.arg(path_of(program));
            spawn(shell)
        }
        started => started,
    }
}

/// The file that the system finds for a program.
fn path_of(program: &OsStr) -> PathBuf {
    let is_executable = |file: &Path| {
        file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    let search = || {
        let path = std::env::var_os("PATH")?;
        // An empty part means the current folder.
        let files = std::env::split_paths(&path).map(|folder| Path::new(".").join(folder).join(program));
        files.into_iter().find(|file| is_executable(file))
    };
    let is_path = program.as_encoded_bytes().contains(&b'/');
    if is_path { program.into() } else { search().unwrap_or_else(|| program.into()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use super::*;

    #[test]
    fn a_command_that_ends_while_its_stop_is_looked_for_is_no_fault() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(stop_of(pid).unwrap().is_none());
        assert!(child.wait().unwrap().success());
    }
}
