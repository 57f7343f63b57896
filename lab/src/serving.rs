//! The real server in a process of its own, and crowds of clients in others, which report their work when
//! they are asked.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use xtask::workspace::{cargo, shell};

/// The server that is named, or else the one of this tree as CI builds it.
pub(crate) fn binary(named: Option<&Path>, root: &Path) -> Result<PathBuf> {
    if let Some(binary) = named {
        return Ok(binary.to_owned());
    }
    println!("building the server");
    cargo::program(root, "lockhouse").context("the server does not build")
}

/// The server, killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl ServerProcess {
    /// At a free port, with its database and its log in that folder.
    pub(crate) fn start(binary: &Path, folder: &Path, options: &[&str]) -> Result<Self> {
        // The server logs as much as it does in use, since it is measured.
        let log = match traces::log() {
            Some(log) => log,
            None => File::create(folder.join("server.log"))?,
        };
        let mut command = Command::new(binary);
        command.arg("serve").args(["--listen", "127.0.0.1:0", "--drain", "1s"]).args(options);
        command.arg("--store").arg(format!("sqlite:{}", folder.join("lockhouse.db").display()));
        command.env("RUST_LOG", "info").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child =
            command.process_group(0).spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        shell::end_group_with_us(child.id());
        let stdout = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let Some(Ok(address)) = line.trim().strip_prefix("listening http://").map(str::parse) else {
            // The process may have ended by itself.
            _ = child.kill();
            _ = child.wait();
            bail!("the server does not start, see {}", folder.join("server.log").display());
        };
        Ok(Self { child, address })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
        shell::group_has_ended(self.child.id());
    }
}

/// A process of clients, which answers each line with a `T` as a line of JSON, and ends with its input.
pub(crate) struct Crowd<T> {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    report: PhantomData<T>,
}

impl<T: DeserializeOwned> Crowd<T> {
    /// Runs that command of ours.
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the crowd has no output")?);
        Ok(Self { child, questions, answers, report: PhantomData })
    }

    /// The `T` with the work done so far.
    pub(crate) fn ask(&mut self) -> Result<T> {
        let questions = self.questions.as_mut().context("the crowd has gone")?;
        questions.write_all(b"\n")?;
        self.answer()
    }

    /// Has all of them go.
    pub(crate) fn end(mut self) -> Result<T> {
        drop(self.questions.take());
        let report = self.answer()?;
        ensure!(self.child.wait()?.success(), "the crowd fell over");
        Ok(report)
    }

    fn answer(&mut self) -> Result<T> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).context("the crowd fell over")
    }
}

impl<T> Drop for Crowd<T> {
    fn drop(&mut self) {
        // The process may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// In the process of a crowd: a question for each line of the input, until its end.
pub(crate) fn questions() -> mpsc::UnboundedReceiver<()> {
    let (ask, asked) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || ask.send(()).is_err() {
                return;
            }
        }
    });
    asked
}

/// In the process of a crowd: the answer.
pub(crate) fn send_report(report: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(report)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
