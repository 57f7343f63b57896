//! The suite `server`: the server beside lock services over loopback, and the JavaScript client beside the
//! browser's own locks.

mod browser;
pub(crate) mod codec;
pub(crate) mod load;
pub(crate) mod process;
mod watched;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use self::codec::Codec;
use self::codec::echo::Echo;
use self::codec::etcd::Etcd;
use self::codec::lockhouse::Lockhouse;
use self::codec::postgres::Postgres;
use self::codec::redis::Redis;
use self::load::{Plan, Retry, slice};
use self::process::{Recipe, Server, program, show};
use crate::report::{Better, Figure};
use crate::rounds::{Bench, Contender};

/// Runs the benches whose ids begin with `only`, of that program or one that is built first.
pub fn run(program: Option<&Path>, rounds: u32, only: &str) -> Result<Vec<Figure>> {
    let wanted = |id: &str| id.starts_with(only);
    let program = program_of(program)?;
    let mut figures = Vec::new();
    if ["js-seq", "js-1000", "js-1000-one"].into_iter().any(wanted) {
        let ours = lockhouse(&program, None, IN_MEMORY).start()?;
        let echo = floor(None, &[])?.start()?;
        figures.extend(browser::run(&ours, &echo, rounds)?.into_iter().filter(|figure| wanted(figure.id())));
    }
    if ["ws-64", "ws-64-oneway", "ws-mux", "server-handoff"].into_iter().any(wanted) {
        let servers = Servers::start(&program, pin()?)?;
        for bench in servers.benches().into_iter().filter(|bench| wanted(bench.id)) {
            figures.extend(bench.run(rounds)?);
        }
    }
    if wanted("watched") {
        let watched = watched::Watched::start(&program, pin()?)?;
        figures.extend(watched.bench().run(rounds)?);
    }
    Ok(figures)
}

/// The servers that the load generator measures.
struct Servers {
    ours: Server,
    redis: Server,
    postgres: Server,
    etcd: Server,
    echo: Server,
}

impl Servers {
    fn start(ours: &Path, cpu: usize) -> Result<Self> {
        Ok(Self {
            ours: lockhouse(ours, Some(cpu), IN_MEMORY).start()?,
            redis: redis(cpu, FORGETFUL)?.start()?,
            postgres: postgres(cpu)?.start()?,
            etcd: etcd(cpu)?.start()?,
            echo: floor(Some(cpu), &[])?.start()?,
        })
    }

    fn benches(&self) -> [Bench<'_>; 4] {
        let Self { ours, redis, postgres, etcd, echo } = self;
        let bench = |id, contenders| {
            let unit = if id == "server-handoff" { "hand-offs/s" } else { "pairs/CPU s" };
            Bench { id, unit, better: Better::Higher, contenders }
        };
        let separate = Plan::SEPARATE;
        let oneway = Plan { unlock_answered: false, ..separate };
        let one_connection = Plan { connections: 1, clients_each: 64, ..separate };
        let one_name = Plan { one_name: true, ..separate };
        let back_off = Plan { retry: Retry::BackOff, ..one_name };
        [
            bench(
                "ws-64",
                vec![
                    contender::<Lockhouse>("lockhouse", ours, separate),
                    contender::<Redis>("Redis 7, 64 connections", redis, separate).target(1.3),
                    contender::<Postgres>("PostgreSQL advisory locks", postgres, separate),
                    contender::<Etcd>("etcd v3lock", etcd, separate),
                    contender::<Echo>("bare WebSocket echo", echo, separate),
                ],
            ),
            bench(
                "ws-64-oneway",
                vec![
                    contender::<Lockhouse>("lockhouse", ours, oneway),
                    contender::<Redis>("Redis 7, 64 connections", redis, separate).target(2.2),
                    contender::<Redis>("Redis 7, 64 connections, unlock not awaited", redis, oneway),
                ],
            ),
            bench(
                "ws-mux",
                vec![
                    contender::<Lockhouse>("lockhouse", ours, one_connection),
                    contender::<Redis>("Redis 7, one connection", redis, one_connection).target(1.8),
                ],
            ),
            bench(
                "server-handoff",
                vec![
                    contender::<Lockhouse>("lockhouse", ours, one_name),
                    contender::<Postgres>("PostgreSQL advisory locks", postgres, one_name).target(2.5),
                    contender::<Redis>("Redis 7, polling with back-off", redis, back_off).target(30.0),
                    contender::<Etcd>("etcd v3lock", etcd, one_name).target(60.0),
                    contender::<Redis>("Redis 7, polling at once", redis, one_name),
                ],
            ),
        ]
    }
}

pub(crate) fn contender<'a, C: Codec>(name: &'static str, server: &'a Server, plan: Plan) -> Contender<'a> {
    let measured = server.into();
    Contender::new(name, move || slice::<C>(&measured, plan))
}

/// The given program, or the one that is built.
pub(crate) fn program_of(program: Option<&Path>) -> Result<PathBuf> {
    program.map_or_else(build, |program| Ok(std::path::absolute(program)?))
}

/// The real program, built with the optimisation that the library is measured with.
fn build() -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/server");
    let mut build = Command::new("cargo");
    build
        .args(["build", "--release", "-p", "lockhouse-program", "--bin", "lockhouse", "--target-dir"])
        .arg(&target);
    build
        .current_dir(root())
        .envs([("CARGO_PROFILE_RELEASE_LTO", "fat"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")]);
    show(&build);
    process::run(&mut build)?;
    Ok(target.join("release/lockhouse"))
}

/// Ours without a file, beside servers that keep nothing either.
pub(crate) const IN_MEMORY: &[&str] = &["--store", "memory:", "--fresh"];
/// Ours with a file.
pub(crate) const ON_DISK: &[&str] = &["--store", "sqlite:{folder}/lockhouse.db"];

pub(crate) fn lockhouse(program: &Path, cpu: Option<usize>, store: &[&'static str]) -> Recipe {
    Recipe {
        name: "lockhouse",
        program: program.to_owned(),
        args: [&["serve", "--listen", "127.0.0.1:{port}", "--drain", "0s"], store].concat(),
        user: None,
        prepare: None,
        cpu,
        under: Vec::new(),
        stop_signal: Signal::TERM,
    }
}

/// The least of servers that speak as ours does; the arguments choose its work.
pub(crate) fn floor(cpu: Option<usize>, doing: &[&'static str]) -> Result<Recipe> {
    Ok(Recipe {
        name: "floor",
        program: std::env::current_exe()?,
        args: [&["--floor", "{port}"], doing].concat(),
        user: None,
        prepare: None,
        cpu,
        under: Vec::new(),
        stop_signal: Signal::TERM,
    })
}

/// Redis that forgets everything with its end.
pub(crate) const FORGETFUL: &[&str] = &["--appendonly", "no"];
/// Redis that answers nothing before it is on the disk.
pub(crate) const EVERY_WRITE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

pub(crate) fn redis(cpu: usize, keeping: &[&'static str]) -> Result<Recipe> {
    let args = ["--bind", "127.0.0.1", "--port", "{port}", "--save", "", "--dir", "{folder}"];
    Ok(Recipe {
        name: "redis",
        program: program("redis-server", &[], "redis-server")?,
        args: [&args, keeping].concat(),
        user: None,
        prepare: None,
        cpu: Some(cpu),
        under: Vec::new(),
        stop_signal: Signal::TERM,
    })
}

/// Where Debian has the programs of PostgreSQL, which are not in the path.
pub(crate) const POSTGRES_FOLDER: &str = "/usr/lib/postgresql/15/bin";

/// With its defaults, which keep every commit before it is answered.
pub(crate) fn postgres(cpu: usize) -> Result<Recipe> {
    let folders = [POSTGRES_FOLDER];
    let postgres = program("postgres", &folders, "postgresql-15")?;
    let initdb = program("initdb", &folders, "postgresql-15")?;
    Ok(Recipe {
        name: "postgres",
        program: postgres,
        args: vec![
            "-D",
            "{folder}/data",
            "-p",
            "{port}",
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "max_connections=1100",
            "-c",
            "unix_socket_directories=",
        ],
        // PostgreSQL refuses to run as root.
        user: rustix::process::getuid().is_root().then_some("postgres"),
        prepare: Some((initdb, vec!["-D", "{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync"])),
        cpu: Some(cpu),
        under: Vec::new(),
        stop_signal: Signal::INT,
    })
}

/// The file keeps everything before it is answered.
pub(crate) fn etcd(cpu: usize) -> Result<Recipe> {
    Ok(Recipe {
        name: "etcd",
        program: program("etcd", &[], "etcd-server")?,
        args: vec![
            "--data-dir",
            "{folder}/data",
            "--log-level",
            "error",
            "--listen-client-urls",
            "http://127.0.0.1:{port}",
            "--advertise-client-urls",
            "http://127.0.0.1:{port}",
            "--listen-peer-urls",
            "http://127.0.0.1:{other-port}",
            "--initial-advertise-peer-urls",
            "http://127.0.0.1:{other-port}",
            "--initial-cluster",
            "default=http://127.0.0.1:{other-port}",
        ],
        user: None,
        prepare: None,
        cpu: Some(cpu),
        under: Vec::new(),
        stop_signal: Signal::TERM,
    })
}

/// A file system in memory would make nonsense of what is measured on a disk.
pub(crate) fn on_a_disk(folder: &Path) -> Result<()> {
    const TMPFS: i64 = 0x0102_1994;
    let kind = rustix::fs::statfs(folder)?.f_type;
    ensure!(kind != TMPFS, "{} is in memory: set TMPDIR to a folder on a disk", folder.display());
    Ok(())
}

/// Where the project is.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Puts this thread, which is the load generator, on one CPU, on which the servers will stay too: a wake-up
/// across CPUs costs more than the work, and the figures would depend on the scheduler's placement.
pub(crate) fn pin() -> Result<usize> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let cpu =
        (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)).context("no CPU")?;
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one)?;
    eprintln!("load generator and servers run on CPU {cpu}");
    Ok(cpu)
}
