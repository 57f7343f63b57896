//! The servers: found or installed, started on a free port, pinned to one CPU, ended by their process id.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// A running server, ended with this.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
    folder: PathBuf,
    stop_signal: Signal,
}

/// How to start one.
pub(crate) struct Recipe<'a> {
    /// As a folder may be called.
    pub(crate) name: &'a str,
    pub(crate) program: PathBuf,
    /// What `{port}`, `{other-port}` and `{folder}` stand in for.
    pub(crate) args: &'a [&'a str],
    /// The account to run as, if not this one.
    pub(crate) user: Option<&'a str>,
    /// Run in the folder before the start, with the same stand-ins.
    pub(crate) prepare: Option<(PathBuf, &'a [&'a str])>,
    /// The CPU to stay on.
    pub(crate) cpu: Option<usize>,
    pub(crate) stop_signal: Signal,
}

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(30);

impl Server {
    /// Starts it and waits until it listens.
    pub(crate) fn start(recipe: &Recipe<'_>) -> Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("lockhouse-bench-{}-{}", recipe.name, std::process::id()));
        fs::create_dir_all(&folder)?;
        if let Some(user) = recipe.user {
            run(Command::new("chown").arg(user).arg(&folder))?;
        }
        let (port, other_port) = (free_port()?, free_port()?);
        let fill = |arg: &&str| {
            arg.replace("{port}", &port.to_string())
                .replace("{other-port}", &other_port.to_string())
                .replace("{folder}", &folder.to_string_lossy())
        };
        if let Some((program, args)) = &recipe.prepare {
            run(command(recipe, program, args.iter().map(fill)).current_dir(&folder).stdout(Stdio::null()))?;
        }
        let mut command = command(recipe, &recipe.program, recipe.args.iter().map(fill));
        let log = folder.join("log");
        command
            .current_dir(&folder)
            .stdout(fs::File::create(&log)?)
            .stderr(fs::File::create(folder.join("errors"))?);
        show(&command);
        let child = command.spawn().with_context(|| format!("cannot start {}", recipe.name))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Self { address, child, folder, stop_signal: recipe.stop_signal };
        server.wait_until_it_listens(recipe.name)?;
        Ok(server)
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

    fn output(&self) -> String {
        let read = |file| fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        read("log") + &read("errors")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself; then there is nothing to stop.
            _ = kill_process(pid, self.stop_signal);
        }
        _ = self.child.wait();
        _ = fs::remove_dir_all(&self.folder);
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

/// Prints what is about to run.
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

/// As the recipe has it: pinned, and as its user.
fn command(recipe: &Recipe<'_>, program: &Path, args: impl Iterator<Item = String>) -> Command {
    let mut words: Vec<String> = Vec::new();
    if let Some(cpu) = recipe.cpu {
        words.extend(["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]);
    }
    if let Some(user) = recipe.user {
        words.extend(
            ["setpriv", &format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]
                .map(str::to_owned),
        );
    }
    words.push(program.to_string_lossy().into_owned());
    words.extend(args);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn search(name: &str, folders: &[&str]) -> Option<PathBuf> {
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
