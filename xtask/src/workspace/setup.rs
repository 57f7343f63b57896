//! The tools that the tests need beyond cargo: Node, the client's packages, Chromium, PostgreSQL, PgBouncer,
//! strace, valgrind, promtool, iproute2, util-linux.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::rings::dist;
use crate::workspace::shell;

/// The oldest Node that the client supports and the tests run on.
const NODE_MAJOR: u32 = 20;

/// Installs missing tools, or says how to.
pub(crate) fn run(root: &Path) -> Result<()> {
    println!(
        "── setup    Node, Chromium, PostgreSQL, PgBouncer, strace, valgrind, promtool, iproute2, util-linux, npm packages"
    );
    browser(root)?;
    postgres()?;
    strace()?;
    valgrind()?;
    promtool()?;
    namespaces()
}

/// What the tests of the JavaScript client and of the dashboard need.
pub(crate) fn browser(root: &Path) -> Result<()> {
    node()?;
    chromium()?;
    dist::PROJECTS.iter().try_for_each(|project| packages(root, project))
}

fn node() -> Result<()> {
    let version =
        Command::new("node").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(major) if major >= NODE_MAJOR => Ok(()),
        Some(_) => {
            bail!("node: {version}, but the client's tests need {NODE_MAJOR} or newer (https://nodejs.org)")
        }
        None => {
            bail!("node: not found, but the client's tests need {NODE_MAJOR} or newer (https://nodejs.org)")
        }
    }
}

fn chromium() -> Result<()> {
    if shell::exists("chromium") {
        return Ok(());
    }
    install("chromium", "the browser tests need it", "chromium")
}

/// The tests start servers of their own; the ones that Debian sets up are not used.
///
/// # Errors
///
/// They are not there, and cannot be installed.
pub fn postgres() -> Result<()> {
    let debian = Path::new(POSTGRES_PROGRAMS);
    let there = |program: &str| debian.join(program).is_file() || shell::exists(program);
    if !there("postgres") || !there("initdb") {
        install("postgres", "the tests of the store and of the fence need it", "postgresql-15")?;
    }
    if shell::exists("pgbouncer") {
        return Ok(());
    }
    install("pgbouncer", "the tests of the store need it", "pgbouncer")
}

/// Where Debian puts what a server needs; not on the path.
const POSTGRES_PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Lets writes and syncs of a server fail. There is none but for Linux, and the tests that need it are for
/// Linux.
fn strace() -> Result<()> {
    if !cfg!(target_os = "linux") || shell::exists("strace") {
        return Ok(());
    }
    install("strace", "the tests of failing disks need it", "strace")
}

/// Counts the instructions of the hot paths.
fn valgrind() -> Result<()> {
    if shell::exists("valgrind") {
        return Ok(());
    }
    install("valgrind", "the guard of the hot paths needs it", "valgrind")
}

/// Checks and tests the alert rules.
fn promtool() -> Result<()> {
    if shell::exists("promtool") {
        return Ok(());
    }
    install("promtool", "the tests of the alert rules need it", "prometheus")
}

/// Makes networks and mounts of its own for a fleet whose parts fail. There are none but for Linux.
///
/// # Errors
///
/// They are not there, and cannot be installed.
pub fn namespaces() -> Result<()> {
    for (program, package) in [("ip", "iproute2"), ("unshare", "util-linux"), ("mount", "mount")] {
        if cfg!(target_os = "linux") && !shell::exists(program) {
            install(program, "the networks of a fleet whose parts fail need it", package)?;
        }
    }
    Ok(())
}

/// Installs a package of Debian, if this is Debian and we may.
fn install(program: &str, why: &str, package: &str) -> Result<()> {
    let install = format!("apt-get update && apt-get install -y --no-install-recommends {package}");
    let debian = Path::new("/etc/debian_version").exists() && shell::exists("apt-get");
    if !(debian && is_root()) {
        bail!("{program}: not found, but {why}. As root on Debian: {install}");
    }
    let mut command = Command::new("sh");
    command.args(["-c", &install]).env("DEBIAN_FRONTEND", "noninteractive");
    let end = shell::run_shown(&mut command)?;
    if !end.is_success() {
        bail!("{install}: {end}");
    }
    Ok(())
}

/// `npm ci` in a folder of the project, unless the lock file is the one that was installed last.
pub(crate) fn packages(root: &Path, folder: &str) -> Result<()> {
    let place = root.join(folder);
    let Ok(wanted) = fs::read(place.join("package-lock.json")) else {
        bail!("{folder}/package-lock.json is missing");
    };
    let installed = place.join("node_modules/.installed-lock.json");
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let mut command = Command::new("npm");
    let end = shell::run_shown(command.args(["ci", "--no-audit", "--no-fund"]).current_dir(&place))?;
    if !end.is_success() {
        bail!("npm ci in {folder}: {end}");
    }
    fs::write(installed, wanted)?;
    Ok(())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
