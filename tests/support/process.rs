//! Servers as processes of their own, which can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use traces::Kind;

use super::program;

/// `lockhouse serve`; killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    lease: &'static str,
    port: String,
    keeps: Keeps,
    /// The options that it was started with otherwise.
    options: Vec<String>,
}

/// The data that outlives it.
enum Keeps {
    /// Nothing, and nothing has to be waited for.
    Nothing,
    /// Nothing, and clients may hold locks of before.
    NothingKnown,
    InFile(Folder),
    /// The state, in a file of the test's own.
    InFileOf(PathBuf),
}

impl Keeps {
    fn file(&self) -> PathBuf {
        match self {
            Self::InFile(folder) => folder.file(),
            Self::InFileOf(file) => file.clone(),
            Self::Nothing | Self::NothingKnown => panic!("it has no file"),
        }
    }
}

/// A folder for one test, which goes with it.
struct Folder(PathBuf);

impl ServerProcess {
    /// One that keeps nothing, and knows of none before it.
    #[allow(dead_code, reason = "not every test that has a server lets it forget")]
    pub(crate) fn start(lease: &'static str) -> Self {
        Self::listen("0", lease, Keeps::Nothing, &[])
    }

    /// One that keeps its state in a new file, and does not drain for long.
    #[allow(dead_code, reason = "not every test that has a server restarts it")]
    pub(crate) fn with_file(lease: &'static str) -> Self {
        Self::listen("0", lease, Keeps::InFile(Folder::new()), &[])
    }

    /// One that keeps its state in a file of the test's own.
    #[allow(dead_code, reason = "not every test that has a server cares where its file is")]
    pub(crate) fn over_file(lease: &'static str, file: PathBuf) -> Self {
        Self::listen("0", lease, Keeps::InFileOf(file), &[])
    }

    /// As [`over_file`](Self::over_file), at this address of the loopback interface.
    #[allow(dead_code, reason = "not every test that has a server cares where it listens")]
    pub(crate) fn over_file_at(address: std::net::SocketAddr, lease: &'static str, file: PathBuf) -> Self {
        Self::listen(&address.port().to_string(), lease, Keeps::InFileOf(file), &[])
    }

    /// One that keeps nothing, and cannot know whether there was one before it.
    #[allow(dead_code, reason = "not every test that has a server restarts it")]
    pub(crate) fn forgetful(lease: &'static str) -> Self {
        Self::listen("0", lease, Keeps::NothingKnown, &[])
    }

    /// As [`start`](Self::start), with more options.
    #[allow(dead_code, reason = "not every test that has a server tells it more")]
    pub(crate) fn with_options(lease: &'static str, options: &[&str]) -> Self {
        Self::listen("0", lease, Keeps::Nothing, &options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>())
    }

    /// As [`over_file`](Self::over_file), with a disk that fails; the end of the process, if that comes
    /// before it listens.
    #[allow(dead_code, reason = "not every test that has a server has it fail")]
    pub(crate) fn over_failing(
        lease: &'static str,
        file: PathBuf,
        failure: &DiskFailure,
        options: &[&str],
    ) -> Result<Self, ExitStatus> {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        Self::try_listen(failure.command(), "0", lease, Keeps::InFileOf(file), &options)
    }

    /// As [`over_failing`](Self::over_failing), of a server that may never listen; its stderr.
    #[allow(dead_code, reason = "not every test that has a server has it hang")]
    pub(crate) fn hanging(
        lease: &'static str,
        file: PathBuf,
        failure: &DiskFailure,
        options: &[&str],
    ) -> (Self, ChildStderr) {
        let mut command = failure.command();
        command.args(["serve", "--lease", lease, "--listen", "127.0.0.1:0"]).args(options);
        over(&mut command, &file);
        command.env("RUST_LOG", "warn").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (port, keeps) = ("0".to_owned(), Keeps::InFileOf(file));
        (Self { child, lease, port, keeps, options: Vec::new() }, stderr)
    }

    fn listen(port: &str, lease: &'static str, keeps: Keeps, options: &[String]) -> Self {
        let command = Command::new(program::lockhouse());
        Self::try_listen(command, port, lease, keeps, options).unwrap_or_else(|end| panic!("it ended: {end}"))
    }

    fn try_listen(
        mut command: Command,
        port: &str,
        lease: &'static str,
        keeps: Keeps,
        options: &[String],
    ) -> Result<Self, ExitStatus> {
        command.args(["serve", "--lease", lease, "--listen", &format!("127.0.0.1:{port}")]).args(options);
        match &keeps {
            Keeps::InFile(folder) => over(&mut command, &folder.file()),
            Keeps::InFileOf(file) => over(&mut command, file),
            Keeps::Nothing => command.args(["--store", "memory:", "--fresh"]),
            Keeps::NothingKnown => command.args(["--store", "memory:"]),
        };
        command.env("RUST_LOG", "warn").stdout(Stdio::piped());
        traces::leave_log(&mut command);
        let mut child = command.spawn().unwrap();
        let mut first = String::new();
        if BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap() == 0 {
            return Err(child.wait().unwrap());
        }
        let port = first.trim().strip_prefix("listening http://127.0.0.1:").unwrap().to_owned();
        if let Keeps::InFile(_) | Keeps::InFileOf(_) = keeps {
            let operator = std::fs::read_to_string(operator_file(&keeps.file())).unwrap();
            traces::secret(Kind::OperatorSecret, &operator);
        }
        Ok(Self { child, lease, port, keeps, options: options.to_vec() })
    }

    /// The database file.
    #[allow(dead_code, reason = "not every test that has a server looks into its file")]
    pub(crate) fn file(&self) -> PathBuf {
        self.keeps.file()
    }

    /// The file beside the database that has the operator's secret.
    #[allow(dead_code, reason = "not every test that has a server is its operator")]
    pub(crate) fn operator_file(&self) -> PathBuf {
        operator_file(&self.file())
    }

    #[allow(dead_code, reason = "not every test that has a server needs its URL")]
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    #[allow(dead_code, reason = "not every test that has a server needs more than its URL")]
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        format!("127.0.0.1:{}", self.port).parse().unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    #[allow(dead_code, reason = "not every test that has a server waits for its end")]
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// SIGSTOP; returns when no thread runs any more.
    #[allow(dead_code, reason = "not every test that has a server stops it")]
    pub(crate) fn stop(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
        let threads = || std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        while !threads().all(is_stopped) {
            std::thread::yield_now();
        }
    }

    /// SIGCONT.
    #[allow(dead_code, reason = "not every test that has a server stops it")]
    pub(crate) fn go_on(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// SIGKILL, and another server at the same address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// SIGTERM; returns at once.
    #[allow(dead_code, reason = "not every test that has a server looks at its drain")]
    pub(crate) fn begin_to_end(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// SIGTERM; returns when it has ended, with whether it went well.
    #[allow(dead_code, reason = "not every test that has a server ends it")]
    pub(crate) fn terminate(&mut self) -> bool {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().success()
    }

    /// As [`terminate`](Self::terminate), of a server that strace has hang in a system call. strace does not
    /// let a thread go that hangs, though the process has ended.
    #[allow(dead_code, reason = "not every test that has a server has it hang")]
    pub(crate) fn terminate_hanging(&mut self) -> bool {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let process = format!("/proc/{}", self.child.id());
        let has_ended = || std::fs::read_to_string(format!("{process}/stat")).unwrap().contains(") Z ");
        let begun = Instant::now();
        while !has_ended() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server does not end");
            std::thread::yield_now();
        }
        for thread in std::fs::read_dir(format!("{process}/task")).unwrap() {
            // A thread may have gone meanwhile.
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
            let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
            let tracer = tracer.and_then(|pid| Pid::from_raw(pid.trim().parse().unwrap()));
            tracer.into_iter().for_each(|tracer| _ = kill_process(tracer, Signal::KILL));
        }
        self.child.wait().unwrap().success()
    }

    /// Another server at the same address, over the same file.
    pub(crate) fn start_again(&mut self) {
        let keeps = std::mem::replace(&mut self.keeps, Keeps::Nothing);
        *self = Self::listen(&self.port, self.lease, keeps, &self.options);
    }
}

/// The failure of one system call on one file, by strace.
#[allow(dead_code, reason = "not every test that has a server has it fail")]
pub(crate) struct DiskFailure {
    pub(crate) call: &'static str,
    pub(crate) file: PathBuf,
    /// The number of the call in its thread, from 1.
    pub(crate) nth: u32,
    /// How it fails, as strace has it.
    pub(crate) how: &'static str,
}

impl DiskFailure {
    fn command(&self) -> Command {
        let Self { call, file, nth, how } = self;
        let mut command = Command::new("strace");
        // The tracer is a grandchild, so that the server itself is the child that is killed and waited for.
        command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "signal=none", "-P"]).arg(file);
        command.arg(format!("--trace={call}")).arg(format!("--inject={call}:{how}:when={nth}"));
        command.arg(program::lockhouse());
        command
    }
}

fn over<'a>(command: &'a mut Command, file: &Path) -> &'a mut Command {
    command.arg("--store").arg(format!("sqlite:{}", file.display())).args(["--drain", "200ms"])
}

/// As the server names it.
fn operator_file(database: &Path) -> PathBuf {
    let mut file = database.as_os_str().to_owned();
    file.push(".operator");
    file.into()
}

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lockhouse-test-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("lockhouse.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have been killed before.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
