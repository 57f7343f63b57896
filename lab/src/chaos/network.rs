//! The network: a namespace for each node, each server of the database and each worker, all at one bridge.
//!
//! ```text
//!   a  b  c   db-1  db-2   w1 w2 w3 w4   we
//!   └──┴──┴─────┴─────┴────┴──┴──┴──┴─── bridge
//! ```
//!
//! The command is alone in namespaces of its own, of networks, mounts and processes: with its end all of it
//! is gone, whatever the end.

use std::fs::{File, create_dir_all};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// What has an address.
pub(super) const NODES: [&str; 3] = ["a", "b", "c"];
pub(super) const DATABASES: [&str; 2] = ["db-1", "db-2"];
pub(super) const WORKERS: [&str; 4] = ["w1", "w2", "w3", "w4"];

/// The namespace of the bridge.
const BRIDGE: &str = "bridge";

/// All addresses.
pub(super) const ADDRESSES: &str = "10.77.0.0/24";

/// The address of a namespace.
pub(super) fn address(host: &str) -> String {
    let place = |hosts: &[&str], first: usize| hosts.iter().position(|it| *it == host).map(|at| first + at);
    let last = place(&NODES, 11).or_else(|| place(&DATABASES, 21)).or_else(|| place(&WORKERS, 31));
    format!("10.77.0.{}", last.unwrap_or(1))
}

/// Makes all namespaces and connects them.
pub(super) fn make() -> Result<()> {
    create_dir_all("/run/netns")?;
    ip(&["netns", "add", BRIDGE])?;
    ip(&["-n", BRIDGE, "link", "add", "bridge", "type", "bridge"])?;
    ip(&["-n", BRIDGE, "link", "set", "bridge", "up"])?;
    for host in NODES.iter().chain(&DATABASES).chain(&WORKERS) {
        ip(&["netns", "add", host])?;
        connect(&["-n", host], host, &address(host))?;
    }
    connect(&[], "we", &address("we"))
}

/// Connects a namespace, to which these arguments lead, with the bridge.
fn connect(at: &[&str], host: &str, address: &str) -> Result<()> {
    let port = format!("to-{host}");
    let here = |arguments: &[&str]| ip(&[at, arguments].concat());
    here(&["link", "add", "net", "type", "veth", "peer", "name", &port, "netns", BRIDGE])?;
    here(&["address", "add", &format!("{address}/24"), "dev", "net"])?;
    here(&["link", "set", "net", "up"])?;
    here(&["link", "set", "lo", "up"])?;
    ip(&["-n", BRIDGE, "link", "set", &port, "master", "bridge", "up"])
}

/// Runs `work` in that namespace, so that what it starts lives there.
pub(super) fn within<T: Send>(host: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let namespace = File::open(format!("/run/netns/{host}")).context("a namespace is gone")?;
    let enter = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    };
    let done = thread::scope(|scope| scope.spawn(enter).join());
    done.unwrap_or_else(|_| Err(anyhow!("what was to run at {host} has panicked")))
}

/// What keeps packets from their way.
#[derive(Debug)]
pub(super) enum Cut {
    /// All packets from and to one host.
    Off(&'static str),
    /// Those that the first sends to the second.
    OneWay(&'static str, &'static str),
}

impl Cut {
    /// Whether it is about that host.
    pub(super) fn is_of(&self, host: &str) -> bool {
        matches!(self, Self::Off(it) if *it == host)
            || matches!(self, Self::OneWay(one, two) if [one, two].contains(&&host))
    }

    pub(super) fn begin(&self) -> Result<()> {
        match self {
            Self::Off(host) => ip(&["-n", BRIDGE, "link", "set", &format!("to-{host}"), "down"]),
            Self::OneWay(from, to) => ip(&["-n", from, "route", "add", "blackhole", &address(to)]),
        }
    }

    pub(super) fn end(&self) -> Result<()> {
        match self {
            Self::Off(host) => ip(&["-n", BRIDGE, "link", "set", &format!("to-{host}"), "up"]),
            Self::OneWay(from, to) => ip(&["-n", from, "route", "del", "blackhole", &address(to)]),
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    run("ip", arguments)
}

/// Runs a program to its end.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", arguments.join(" "), said.trim());
    Ok(())
}
