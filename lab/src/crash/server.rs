//! The server: the real binary over one database file, started again at the same address after each kill.
//! strace lets the disk of some lives fail.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use random::Random;
use serde::Deserialize;
use xtask::workspace::shell;

use super::LEASE;

pub(super) struct Server {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
    /// The process; none while the server is dead.
    child: Option<Child>,
}

/// A failure of the disk: one call on one file of the database ends with EIO.
#[derive(Debug)]
pub(super) struct DiskFailure {
    pub(super) what: &'static str,
    call: &'static str,
    /// The end of the file's name.
    file: &'static str,
    /// The number of that call, from this one to that one. strace counts for each thread; that of the first
    /// start is another one.
    calls: (u32, u32),
}

/// One for each place at which a server at work writes or syncs.
pub(super) const DISK_FAILURES: [DiskFailure; 4] = [
    DiskFailure { what: "write", call: "pwrite64", file: "-wal", calls: (300, 1000) },
    DiskFailure { what: "sync", call: "fdatasync", file: "-wal", calls: (60, 200) },
    DiskFailure { what: "checkpoint's write", call: "pwrite64", file: "", calls: (2, 20) },
    DiskFailure { what: "checkpoint's sync", call: "fdatasync", file: "", calls: (1, 1) },
];

/// What `lockhouse restore` says.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Restored {
    /// The numbers above which the server goes on.
    pub(super) tokens_above: u64,
    pub(super) epochs_above: u64,
}

impl Server {
    /// Starts it at a free port, with its database and its log in that folder.
    pub(super) fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let mut server = Self { binary: binary.to_owned(), folder: folder.to_owned(), port: 0, child: None };
        server.start_again(None)?;
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns when it can be reached. Its disk may fail later.
    pub(super) fn start_again(&mut self, failing: Option<(&DiskFailure, &mut Random)>) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.folder.join("server.log"))?;
        let mut command = match failing {
            Some((failure, random)) => self.over_failing(failure, random),
            None => Command::new(&self.binary),
        };
        command.arg("serve").args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        command.arg("--store").arg(self.store());
        command.arg("--lease").arg(format!("{}ms", LEASE.as_millis())).env("RUST_LOG", "warn");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        traces::leave_log(&mut command);
        let mut child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        shell::end_group_with_us(child.id());
        let stdout = child.stdout.take();
        self.child = Some(child);
        let mut line = String::new();
        BufReader::new(stdout.context("the server has no output")?).read_line(&mut line)?;
        let port = line.trim().strip_prefix("listening http://127.0.0.1:").map(str::parse);
        let Some(Ok(port)) = port else {
            bail!("the server does not start, see {}", self.folder.join("server.log").display());
        };
        self.port = port;
        Ok(())
    }

    /// The server under strace.
    fn over_failing(&self, failure: &DiskFailure, random: &mut Random) -> Command {
        let DiskFailure { call, file, calls: (first, last), .. } = failure;
        let nth = *first as usize + random.below((last - first) as usize + 1);
        let mut command = Command::new("strace");
        // The tracer is a grandchild, so that the server itself is the child that is killed and waited for.
        command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "signal=none", "-P"]);
        command.arg(format!("{}{file}", self.database().display()));
        command.arg(format!("--trace={call}")).arg(format!("--inject={call}:error=EIO:when={nth}"));
        command.arg(&self.binary);
        command
    }

    /// Has the running server write a backup, as an operator would.
    pub(super) fn back_up(&self, to: &Path) -> Result<()> {
        self.operate("backup", to).map(drop)
    }

    /// Restores a backup while the server is dead.
    pub(super) fn restore(&self, from: &Path) -> Result<Restored> {
        ensure!(self.child.is_none(), "a backup is restored while the server runs");
        serde_json::from_slice(&self.operate("restore", from)?).context("restore says no JSON")
    }

    /// Runs a command on the database; its output.
    fn operate(&self, command: &str, file: &Path) -> Result<Vec<u8>> {
        let output = Command::new(&self.binary)
            .arg(command)
            .arg(file)
            .arg("--json")
            .env("LOCKHOUSE_STORE", self.store())
            .env("LOCKHOUSE_URL", self.url())
            .output()
            .with_context(|| format!("cannot run lockhouse {command}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "lockhouse {command} {}: {said}", file.display());
        Ok(output.stdout)
    }

    fn database(&self) -> PathBuf {
        self.folder.join("lockhouse.db")
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.database().display())
    }

    /// How it has ended by itself, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let child = self.child.as_mut().context("it is dead")?;
        let (id, status) = (child.id(), child.try_wait()?);
        if status.is_some() {
            self.child = None;
            shell::group_has_ended(id);
        }
        Ok(status)
    }

    /// SIGKILL; returns when it is dead.
    pub(super) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it is dead")?;
        let ended = child.try_wait()?;
        ensure!(ended.is_none(), "the server ended by itself: {ended:?}, see server.log");
        child.kill()?;
        child.wait()?;
        shell::group_has_ended(child.id());
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The process may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            shell::group_has_ended(child.id());
        }
    }
}
