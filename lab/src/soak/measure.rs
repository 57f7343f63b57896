//! The resources of a process, as Linux reports them.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The resources of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) rss_kib: u64,
    pub(super) descriptors: usize,
}

/// The median of some looks within a second, as a single one may fall into a peak.
pub(super) fn sample(pid: u32) -> Result<Sample> {
    let mut looks = Vec::new();
    for _ in 0..9 {
        looks.push(rss_kib(pid)?);
        std::thread::sleep(Duration::from_millis(120));
    }
    looks.sort_unstable();
    Ok(Sample { rss_kib: looks[looks.len() / 2], descriptors: descriptors(pid)? })
}

fn rss_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the server has ended")?;
    rss_of(&status).context("no VmRSS in /proc/PID/status")
}

fn rss_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

pub(super) fn descriptors(pid: u32) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd")).context("the server has ended")?.count())
}

/// Raises the bound of open files as high as this process may.
pub(super) fn raise_open_files() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Whether a process may have this number of connections.
pub(super) fn check_open_files(connections: usize) -> Result<()> {
    let needed = connections as u64 + 256;
    let maximum = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    ensure!(
        maximum >= needed,
        "{connections} connections need {needed} open files, but only {maximum} are allowed: raise the hard limit (ulimit -Hn)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_measured_by_what_the_kernel_says() {
        assert_eq!(rss_of("VmPeak:\t  10 kB\nVmRSS:\t    1234 kB\n"), Some(1234));
        assert_eq!(rss_of("VmPeak:\t  10 kB\n"), None);
        assert!(descriptors(std::process::id()).unwrap() > 2);
    }
}
