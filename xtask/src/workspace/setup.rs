//! What the tests need beyond cargo: programs, most of them packages of Debian, and packages of npm and PyPI.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::rings::{Run, dist, http};
use crate::workspace::{shell, tree};

/// The oldest Node that the client supports and the tests run on.
const NODE_MAJOR: u32 = 20;

/// A program, and the package of Debian that has it.
#[derive(Clone, Copy)]
struct Tool {
    program: &'static str,
    package: &'static str,
    /// For what it is needed.
    purpose: &'static str,
}

const fn tool(program: &'static str, package: &'static str, purpose: &'static str) -> Tool {
    Tool { program, package, purpose }
}

const BROWSER: [Tool; 2] = [
    tool("chromium", "chromium", "the browser tests need it"),
    tool("chromium-headless-shell", "chromium-headless-shell", "the browser tests need it"),
];

/// The tests start servers of their own; the ones that Debian sets up are not used.
const POSTGRES: [Tool; 3] = [
    tool("postgres", "postgresql-15", "the tests of the store and of the fence need it"),
    tool("initdb", "postgresql-15", "the tests of the store and of the fence need it"),
    tool("pgbouncer", "pgbouncer", "the tests of the store need it"),
];

const NAMESPACES: [Tool; 3] = [
    tool("ip", "iproute2", "the networks of a fleet whose parts fail need it"),
    tool("unshare", "util-linux", "the networks of a fleet whose parts fail need it"),
    tool("mount", "mount", "the networks of a fleet whose parts fail need it"),
];

const PROOFS: [Tool; 3] = [
    tool("strace", "strace", "the tests of failing disks need it"),
    tool("valgrind", "valgrind", "the guard of the hot paths needs it"),
    tool("promtool", "prometheus", "the tests of the alert rules need it"),
];

/// There are none of these but for Linux, and the tests that need them are for Linux.
const LINUX: [&str; 4] = ["ip", "unshare", "mount", "strace"];

/// Where Debian puts the programs of PostgreSQL; not on the path.
const POSTGRES_PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Installs all that the tests need and is missing, or says how to. The output goes to a log, as the build
/// runs beside it.
pub(crate) fn run(root: &Path) -> Result<()> {
    let run = Run::preparing(root, "setup")?;
    node()?;
    install(&run, &[&BROWSER[..], &POSTGRES, &NAMESPACES, &PROOFS].concat())?;
    dist::PROJECTS.iter().try_for_each(|project| npm_packages(&run, project))?;
    http::install(&run)
}

/// What the tests of the JavaScript client and of the dashboard need.
pub(crate) fn browser(root: &Path) -> Result<()> {
    let run = Run::preparing(root, "setup")?;
    node()?;
    install(&run, &BROWSER)?;
    dist::PROJECTS.iter().try_for_each(|project| npm_packages(&run, project))
}

/// The programs of PostgreSQL and PgBouncer.
///
/// # Errors
///
/// They are not there, and cannot be installed.
pub fn postgres() -> Result<()> {
    install(&Run::preparing(&tree::root()?, "setup")?, &POSTGRES)
}

/// The programs that make networks and mounts of their own.
///
/// # Errors
///
/// They are not there, and cannot be installed.
pub fn namespaces() -> Result<()> {
    install(&Run::preparing(&tree::root()?, "setup")?, &NAMESPACES)
}

fn node() -> Result<()> {
    let version =
        Command::new("node").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= NODE_MAJOR) {
        return Ok(());
    }
    let found = if version.is_empty() { "not found" } else { &version };
    bail!("node: {found}, but the client's tests need {NODE_MAJOR} or newer (https://nodejs.org)")
}

/// Installs what is missing in one step, if this is Debian and we may.
fn install(run: &Run<'_>, tools: &[Tool]) -> Result<()> {
    let is_missing = |tool: &&Tool| {
        let concerns_us = cfg!(target_os = "linux") || !LINUX.contains(&tool.program);
        concerns_us
            && !Path::new(POSTGRES_PROGRAMS).join(tool.program).is_file()
            && !shell::exists(tool.program)
    };
    let missing: Vec<&Tool> = tools.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let command = apt(&missing);
    let debian = Path::new("/etc/debian_version").exists() && shell::exists("apt-get");
    if !(debian && is_root()) {
        let reasons: Vec<String> =
            missing.iter().map(|tool| format!("{}: not found, but {}", tool.program, tool.purpose)).collect();
        bail!("{}. As root on Debian: {command}", reasons.join("; "));
    }
    println!("$ {command}");
    run.must(Command::new("sh").args(["-c", &command]).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The one command that installs the packages of these programs.
fn apt(missing: &[&Tool]) -> String {
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    format!("apt-get update && apt-get install -y --no-install-recommends {}", packages.join(" "))
}

/// `npm ci` in a folder of the project, unless the lock file is the one that was installed last.
pub(crate) fn npm_packages(run: &Run<'_>, folder: &str) -> Result<()> {
    let place = run.root.join(folder);
    let Ok(wanted) = fs::read(place.join("package-lock.json")) else {
        bail!("{folder}/package-lock.json is missing");
    };
    let installed = place.join("node_modules/.installed-lock.json");
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    run.must(
        Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--prefer-offline"]).current_dir(&place),
    )?;
    fs::write(installed, wanted)?;
    Ok(())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_installed_by_one_command() {
        let missing: Vec<&Tool> = POSTGRES.iter().chain(&BROWSER).collect();
        let command = apt(&missing);
        assert!(
            command.ends_with(
                "--no-install-recommends postgresql-15 pgbouncer chromium chromium-headless-shell"
            ),
            "{command}"
        );
    }
}
