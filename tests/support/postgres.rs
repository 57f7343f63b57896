//! A PostgreSQL of one's own, for the tests of several crates: in a folder for temporary files, reached by a
//! socket in it, gone with the test.

#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use tokio_postgres::{Client, NoTls};

/// A server, stopped when it is dropped.
pub(crate) struct Server {
    folder: PathBuf,
    settings: Vec<String>,
    /// Whether a Ctrl-C at the terminal is not for it.
    is_apart: bool,
    child: Child,
}

impl Server {
    /// Makes a cluster and starts it with these settings, such as `fsync=off`; returns once it takes
    /// connections.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::make(settings, false)
    }

    /// As [`start`](Self::start), for a program that ends it itself when Ctrl-C is pressed.
    pub(crate) fn start_apart(settings: &[&str]) -> Self {
        Self::make(settings, true)
    }

    fn make(settings: &[&str], is_apart: bool) -> Self {
        let (folder, account) = folder();
        Self::make_in(folder, account.as_ref(), settings, is_apart)
    }

    /// As [`start_apart`](Self::start_apart) in this folder, which is there and may be a disk of its own, for
    /// clients of these addresses.
    pub(crate) fn start_in(folder: &Path, settings: &[&str], clients: &str) -> Self {
        let account = Account::for_servers();
        account.iter().for_each(|account| account.owns(folder));
        let server = Self::make_in(folder.to_owned(), account.as_ref(), settings, true);
        let rules = ["all", "replication"].map(|what| format!("host {what} all {clients} trust\n"));
        let file = folder.join("data/pg_hba.conf");
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + &rules.concat()).unwrap();
        _ = Command::new("kill").args(["-HUP", &server.child.id().to_string()]).status();
        server
    }

    fn make_in(folder: PathBuf, account: Option<&Account>, settings: &[&str], is_apart: bool) -> Self {
        initialize(&folder, account);
        Self::run(folder, account, settings, is_apart, &[READY])
    }

    /// A standby of a running server: it follows until it is promoted.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let (folder, account) = folder();
        Self::copy_of(primary, folder, account.as_ref(), &[])
    }

    /// The same in this folder, which is there, with these settings.
    pub(crate) fn standby_in(folder: &Path, primary: &Self, settings: &[&str]) -> Self {
        let account = Account::for_servers();
        account.iter().for_each(|account| account.owns(folder));
        Self::copy_of(primary, folder.to_owned(), account.as_ref(), settings)
    }

    fn copy_of(primary: &Self, folder: PathBuf, account: Option<&Account>, settings: &[&str]) -> Self {
        let mut copy = command("pg_basebackup", account);
        copy.arg("-h")
            .arg(&primary.folder)
            .args(["-U", "postgres", "-c", "fast", "-X", "stream", "-R", "-D"]);
        copy.arg(folder.join("data"));
        done(copy.current_dir(&folder));
        // Else a primary that stops soon would not send it what was written last.
        let follows = &[READY, "started streaming WAL from primary"];
        Self::run(folder, account, settings, primary.is_apart, follows)
    }

    fn run(
        folder: PathBuf,
        account: Option<&Account>,
        settings: &[&str],
        is_apart: bool,
        until: &[&str],
    ) -> Self {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let child = start(&folder, account, &settings, is_apart, until);
        Self { folder, settings, is_apart, child }
    }

    /// Stops it, and leaves its files.
    pub(crate) fn stop(&mut self) {
        self.end("-INT");
    }

    /// Stops it as a fault does: what it has not written is left to the recovery at the next start.
    pub(crate) fn stop_at_once(&mut self) {
        self.end("-QUIT");
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn end(&mut self, signal: &str) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // SIGINT ends its sessions and then itself; SIGKILL would leave its children and its shared memory
        // behind.
        let pid = self.child.id().to_string();
        _ = Command::new("kill").args([signal, &pid]).status();
        _ = self.child.wait();
    }

    /// Starts it again after a stop, on the files that are there by then.
    pub(crate) fn start_again(&mut self) {
        self.child =
            start(&self.folder, Account::for_servers().as_ref(), &self.settings, self.is_apart, &[READY]);
    }

    /// Copies the files of a server that is stopped.
    pub(crate) fn copy_files(&self) {
        copy(&self.folder.join("data"), &self.folder.join("copy"));
    }

    /// Puts the copy in the place of the files.
    pub(crate) fn put_copy_back(&self) {
        std::fs::remove_dir_all(self.folder.join("data")).unwrap();
        copy(&self.folder.join("copy"), &self.folder.join("data"));
    }

    /// Makes the primary of a standby that follows one.
    pub(crate) async fn promote(&self) {
        self.connect().await.batch_execute("SELECT pg_promote()").await.unwrap();
    }

    /// The folder of its data and its socket.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it is, as clients have it.
    pub(crate) fn address(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.to_str().unwrap())
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.address(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Makes the files of a cluster in the folder `data`. The first cluster of a process is a copy of one that
/// all tests share, which takes a sixth of the time. Every other one gets an identity of its own.
fn initialize(folder: &Path, account: Option<&Account>) {
    static CLUSTERS: AtomicU32 = AtomicU32::new(0);
    let (data, shared) = (folder.join("data"), shared_cluster());
    let is_first = CLUSTERS.fetch_add(1, Ordering::Relaxed) == 0;
    if is_first && shared.is_dir() {
        return copy(&shared, &data);
    }
    let mut initdb = command("initdb", account);
    initdb.args(["--username=postgres", "--auth=trust", "--locale=C", "--encoding=UTF8", "--no-sync", "-D"]);
    done(initdb.arg(&data).current_dir(folder));
    if is_first {
        let new = shared.with_extension(std::process::id().to_string());
        copy(&data, &new);
        if std::fs::rename(&new, &shared).is_err() {
            // Another process was sooner.
            std::fs::remove_dir_all(new).unwrap();
        }
    }
}

/// The cluster that all tests share, as this version of initdb makes it: beside their programs.
fn shared_cluster() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let made = program_of_debian("initdb").metadata().and_then(|file| file.modified());
    let since = made.ok().and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok());
    program.with_file_name(format!("postgres-cluster-{}", since.unwrap_or_default().as_secs()))
}

fn copy(from: &Path, to: &Path) {
    done(Command::new("cp").arg("-a").args([from, to]));
}

/// What a server says once it takes connections.
const READY: &str = "ready to accept";

/// Starts a server on its files; returns once it has said all of that.
fn start(
    folder: &Path,
    account: Option<&Account>,
    settings: &[String],
    is_apart: bool,
    until: &[&str],
) -> Child {
    let mut postgres = command("postgres", account);
    if is_apart {
        postgres.process_group(0);
    }
    postgres.arg("-D").arg(folder.join("data")).arg("-k").arg(folder).args(["-c", "listen_addresses="]);
    settings.iter().for_each(|setting| _ = postgres.args(["-c", setting]));
    let mut child =
        postgres.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // What it says is read to its end, so that it never blocks on that.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = String::new();
    while !until.iter().all(|words| said.contains(words)) {
        match lines.next() {
            Some(line) => said += &(line.unwrap() + "\n"),
            None => panic!("postgres did not start: {said}"),
        }
    }
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// A new folder for a server, and the account that it is of.
fn folder() -> (PathBuf, Option<Account>) {
    static SERVERS: AtomicU32 = AtomicU32::new(0);
    let nth = SERVERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("lockhouse-pg-{}-{nth}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let account = Account::for_servers();
    if let Some(account) = &account {
        account.owns(&folder);
    }
    (folder, account)
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An account to run as: PostgreSQL refuses to run as root.
pub(crate) struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// The file becomes that of the account.
    pub(crate) fn owns(&self, path: &Path) {
        std::os::unix::fs::chown(path, Some(self.user), Some(self.group)).unwrap();
    }

    pub(crate) fn for_servers() -> Option<Self> {
        let id = |args: &[&str]| {
            let output = Command::new("id").args(args).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().ok()
        };
        (id(&["-u"]) == Some(0)).then(|| {
            let (user, group) = (id(&["-u", "postgres"]), id(&["-g", "postgres"]));
            let (user, group) = user.zip(group).expect("Debian's postgresql-15 makes the account postgres");
            Self { user, group }
        })
    }
}

/// The place of that program on Debian, which is not on the path.
fn program_of_debian(program: &str) -> PathBuf {
    Path::new("/usr/lib/postgresql/15/bin").join(program)
}

pub(crate) fn command(program: &str, account: Option<&Account>) -> Command {
    let debian = program_of_debian(program);
    let mut command = if debian.is_file() { Command::new(debian) } else { Command::new(program) };
    command.env("LC_ALL", "C");
    if let Some(account) = account {
        command.uid(account.user).gid(account.group);
    }
    command
}
