//! The servers: found or installed, started on a free port, pinned to one CPU, ended by their process id.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// A running server, ended with this.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
    folder: Rc<Folder>,
    stop_signal: Signal,
}

/// Where a server keeps its data; gone with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// An empty one among the temporary files (`TMPDIR`).
    pub(crate) fn new(name: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("lockhouse-bench-{name}-{process}-{count}"));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// How to start one.
pub(crate) struct Recipe {
    /// As a folder may be called.
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    /// The arguments, with `{port}`, `{other-port}` and `{folder}` in place of the real ones.
    pub(crate) args: Vec<&'static str>,
    /// The account to run as, if not this one.
    pub(crate) user: Option<&'static str>,
    /// Run in the folder before the start; `{folder}` stands in for it.
    pub(crate) prepare: Option<(PathBuf, Vec<&'static str>)>,
    /// The CPU to stay on.
    pub(crate) cpu: Option<usize>,
    /// The wrapper of the program: none, or one that makes its disk slower.
    pub(crate) under: Vec<String>,
    pub(crate) stop_signal: Signal,
}

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(30);

impl Recipe {
    /// The same on a disk that takes so much longer to have written everything: each sync of a file ends so
    /// much later, and the CPU is free meanwhile.
    pub(crate) fn with_slow_syncs(mut self, longer: Option<Duration>) -> Result<Self> {
        let Some(longer) = longer else { return Ok(self) };
        let strace = program("strace", &[], "strace")?.to_string_lossy().into_owned();
        let inject = format!("inject=fsync,fdatasync:delay_exit={}us", longer.as_micros());
        // As a grandchild of its own (-D): the child is the server itself, and the tracer's CPU time is not
        // the server's.
        self.under =
            [&strace, "-D", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null"].map(str::to_owned).to_vec();
        self.under.extend(["-e", "trace=fsync,fdatasync", "-e", &inject].map(str::to_owned));
        Ok(self)
    }

    /// Starts it in a folder of its own and waits until it listens.
    pub(crate) fn start(&self) -> Result<Server> {
        let folder = Folder::new(self.name)?;
        if let Some(user) = self.user {
            run(Command::new("chown").arg(user).arg(folder.path()))?;
        }
        if let Some((program, args)) = &self.prepare {
            let args = args.iter().map(|arg| arg.replace("{folder}", &folder.path().to_string_lossy()));
            run(self.command(&[], program, args).current_dir(folder.path()).stdout(Stdio::null()))?;
        }
        let mut server = self.spawn(Rc::new(folder))?;
        server.wait_until_it_listens(self.name)?;
        Ok(server)
    }

    /// Starts it in that folder and does not wait.
    pub(crate) fn spawn(&self, folder: Rc<Folder>) -> Result<Server> {
        let (port, other_port) = (free_port()?, free_port()?);
        let fill = |arg: &&str| {
            arg.replace("{port}", &port.to_string())
                .replace("{other-port}", &other_port.to_string())
                .replace("{folder}", &folder.path().to_string_lossy())
        };
        let mut command = self.command(&self.under, &self.program, self.args.iter().map(fill));
        command
            .current_dir(folder.path())
            .stdout(fs::File::create(folder.path().join("log"))?)
            .stderr(fs::File::create(folder.path().join("errors"))?);
        show(&command);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.name))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Server { address, child, folder, stop_signal: self.stop_signal })
    }

    /// Pinned, and as its user.
    fn command(&self, under: &[String], program: &Path, args: impl Iterator<Item = String>) -> Command {
        let mut words: Vec<String> = Vec::new();
        if let Some(cpu) = self.cpu {
            words.extend(["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]);
        }
        if let Some(user) = self.user {
            words.extend(
                ["setpriv", &format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]
                    .map(str::to_owned),
            );
        }
        words.extend(under.iter().cloned());
        words.push(program.to_string_lossy().into_owned());
        words.extend(args);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }
}

impl Server {
    /// Ends it as a crash would.
    pub(crate) fn kill(mut self) {
        self.stop_signal = Signal::KILL;
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }

    /// CPU time of the server and its children so far.
    pub(crate) fn cpu_ns(&self) -> Result<u64> {
        let own = self.child.id();
        let mut sum = cpu_ns_of(own)?;
        for child in children_of(own)? {
            // One that has just ended counts as nothing.
            sum += cpu_ns_of(child).unwrap_or(0);
        }
        Ok(sum)
    }

    fn wait_until_it_listens(&mut self, name: &str) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none() && start.elapsed() < START, "{name} did not start: {}", self.output());
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The output so far.
    pub(crate) fn output(&self) -> String {
        let read = |file| fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        read("log") + &read("errors")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The process may have ended by itself; then there is nothing to stop.
            _ = kill_process(pid, self.stop_signal);
        }
        _ = self.child.wait();
    }
}

/// The program, from the path or one of the folders; installed by apt if it is Debian's and we may.
pub(crate) fn program(name: &str, folders: &[&str], package: &str) -> Result<PathBuf> {
    if let Some(found) = search(name, folders) {
        return Ok(found);
    }
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "--no-install-recommends", package]);
    ensure!(
        rustix::process::getuid().is_root() && Path::new("/etc/debian_version").exists(),
        "{name} is missing; on Debian, install it as root with: apt-get install {package}"
    );
    show(&install);
    run(install.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null()))?;
    search(name, folders).with_context(|| format!("{package} brought no {name}"))
}

/// Prints the command that is about to run.
pub(crate) fn show(command: &Command) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    eprintln!("$ {}", words.join(" "));
}

/// Runs a command that has to succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(status.success(), "{} ended with {status}", command.get_program().display());
    Ok(())
}

/// Where a program is: in these folders, or in the path.
pub(crate) fn search(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Time on the CPU of all threads that live.
fn cpu_ns_of(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let first = stat.split(' ').next().unwrap_or_default();
        sum += first.parse::<u64>().with_context(|| format!("schedstat says {stat:?}"))?;
    }
    Ok(sum)
}

fn children_of(pid: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(list) = fs::read_to_string(thread?.path().join("children")) else { continue };
        for child in list.split_whitespace() {
            match child.parse() {
                Ok(child) => children.push(child),
                Err(_) => bail!("/proc lists {child:?} as a child"),
            }
        }
    }
    Ok(children)
}
