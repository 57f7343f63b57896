//! Memory: what a held name and a waiter cost, by the growth of the resident set, which counts what the
//! allocator wastes too.
//!
//! Each sample is taken in a process of its own, so that nothing freed before is used again.

use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};

use super::crowd::{granted, waiting};
use super::names;
use super::peers::{BlockingLockMap, DashMutex, DashRwLock, KeyedLocks, Lockable, Lockhouse, Locks};
use crate::report::Better;
use crate::rounds::{Bench, Contender, Sample};

const MILLION: usize = 1_000_000;

static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| names(MILLION));

/// All benches of memory.
pub fn benches() -> [Bench<'static>; 2] {
    fn contender<L: Locks>(what: &'static str) -> Contender<'static> {
        Contender::new(L::NAME, move || in_a_child(what, L::NAME))
    }
    let bench = |id, unit, contenders| Bench { id, unit, better: Better::Lower, contenders };
    [
        bench(
            "mem-held",
            "bytes/held name",
            vec![
                contender::<Lockhouse>("held"),
                contender::<Lockable>("held").target(0.55),
                contender::<KeyedLocks>("held"),
                contender::<DashMutex>("held"),
                contender::<DashRwLock>("held"),
                contender::<BlockingLockMap>("held"),
            ],
        ),
        bench(
            "mem-waiter",
            "bytes/waiter",
            vec![
                contender::<Lockhouse>("waiting"),
                contender::<Lockable>("waiting").target(0.3),
                contender::<KeyedLocks>("waiting"),
                contender::<DashMutex>("waiting"),
                contender::<DashRwLock>("waiting"),
            ],
        ),
    ]
}

/// The work of the process for one sample: bytes for each of a million.
pub fn measure(what: &str, contender: &str) -> Result<f64> {
    match contender {
        Lockhouse::NAME => count::<Lockhouse>(what),
        Lockable::NAME => count::<Lockable>(what),
        KeyedLocks::NAME => count::<KeyedLocks>(what),
        DashMutex::NAME => count::<DashMutex>(what),
        DashRwLock::NAME => count::<DashRwLock>(what),
        BlockingLockMap::NAME => count::<BlockingLockMap>(what),
        unknown => bail!("contender: {unknown:?}, but it must be one of the table's"),
    }
}

fn count<L: Locks>(what: &str) -> Result<f64> {
    LazyLock::force(&NAMES);
    let locks = L::default();
    let bytes = match what {
        "held" => {
            let mut held = touched(MILLION);
            let before = resident()?;
            for (place, name) in held.iter_mut().zip(NAMES.iter()) {
                *place = Some(granted(locks.lock(name))?);
            }
            resident()? - before
        }
        "waiting" => {
            let holder = granted(locks.lock(&NAMES[0]))?;
            let mut waiters = touched(MILLION);
            let before = resident()?;
            waiters.iter_mut().for_each(|place| *place = Some(waiting(locks.lock(&NAMES[0]))));
            let bytes = resident()? - before;
            drop(holder);
            bytes
        }
        unknown => bail!("what: {unknown:?}, but it must be held or waiting"),
    };
    Ok(bytes as f64 / MILLION as f64)
}

/// Memory for so many, all of it resident, so that the place of the test's guards does not count.
fn touched<T>(count: usize) -> Vec<Option<T>> {
    (0..count).map(|_| None).collect()
}

/// Bytes of this process that are in memory.
fn resident() -> Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = statm.split(' ').nth(1).context("/proc/self/statm has no second field")?.parse()?;
    Ok(pages * rustix::param::page_size())
}

fn in_a_child(what: &str, contender: &str) -> Result<Sample> {
    let output =
        Command::new(std::env::current_exe()?).args(["--measure-memory", what, contender]).output()?;
    if !output.status.success() {
        bail!("measuring memory failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(Sample::of(text.trim().parse().with_context(|| format!("{text:?} is no number"))?))
}
