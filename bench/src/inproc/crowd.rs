//! Crowds: cancelling in the middle of a million waiters, and what a million of anything does to the rest.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use anyhow::{Result, ensure};

use super::peers::{DashMutex, DashRwLock, KeyedLocks, Lockable, Lockhouse, Locks};
use super::{Scatter, names};
use crate::cpu;
use crate::report::Better;
use crate::rounds::{Aside, Bench, Contender, Sample};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
/// The crowds of a curve of growth, and how the rows of each end.
pub const CROWDS: [(&str, usize); 4] =
    [("among-1000", FEW), ("among-10000", 10_000), ("among-100000", 100_000), ("among-1000000", MANY)];
/// How many leave from the middle of the queue.
const LEAVING: usize = 100_000;
/// A measurement covers at least so many operations, however small the crowd.
const LEAST: usize = 200_000;

static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| names(MANY));

/// 100,000 leave, in scattered order, from the middle of a million waiters for one name.
pub fn cancel() -> Bench<'static> {
    fn contender<L: Locks>() -> Contender<'static> {
        Contender::new(L::NAME, cancelled::<L>)
    }
    Bench {
        id: "cancel",
        unit: "CPU ns/cancel",
        better: Better::Lower,
        contenders: vec![
            contender::<Lockhouse>(),
            contender::<Lockable>().target(1.0),
            contender::<KeyedLocks>(),
            contender::<DashMutex>(),
            contender::<DashRwLock>(),
        ],
    }
}

/// Ours in a crowd of a million beside itself in a crowd of a thousand.
pub fn growth() -> [Bench<'static>; 4] {
    let bench = |peer, target, measure: fn(usize) -> Result<f64>| Bench {
        id: "growth",
        unit: "CPU ns each",
        better: Better::Lower,
        contenders: vec![
            Contender::new(Lockhouse::NAME, move || Ok(Sample::of(measure(MANY)?))),
            Contender::new(peer, move || Ok(Sample::of(measure(FEW)?))).target(target),
        ],
    };
    [
        bench("10^3 held: lock and unlock", 3.5, hold_all::<Lockhouse>),
        bench("10^3 names: lock and unlock", 3.2, take_each::<Lockhouse>),
        bench("10^3 waiting: queue", 3.2, queued::<Lockhouse>),
        bench("10^3 waiting: drain", 1.3, drained::<Lockhouse>),
    ]
}

/// The growth of ours beside that of the peers: what one operation costs in a crowd of a million, as a
/// multiple of what it costs in a crowd of a thousand.
pub fn growth_beside_peers() -> [Bench<'static>; 4] {
    fn contender<L: Locks>(measure: fn(usize) -> Result<f64>) -> Contender<'static> {
        Contender::new(L::NAME, move || {
            let costs: Vec<f64> = CROWDS.iter().map(|(_, crowd)| measure(*crowd)).collect::<Result<_>>()?;
            let growth = costs[costs.len() - 1] / costs[0];
            let aside = |((suffix, _), value): (&(&'static str, usize), f64)| Aside {
                suffix,
                unit: "CPU ns each",
                better: Better::Lower,
                value,
            };
            let asides = CROWDS.iter().zip(costs).map(aside);
            Ok(asides.fold(Sample::of(growth), Sample::with))
        })
    }
    let bench = |id, contenders: [Contender<'static>; 3]| {
        let [ours, lockable, keyed] = contenders;
        let contenders = vec![ours, lockable.target(1.0), keyed.target(1.0)];
        Bench { id, unit: "times", better: Better::Lower, contenders }
    };
    macro_rules! of_each {
        ($measure:ident) => {
            [
                contender::<Lockhouse>($measure::<Lockhouse>),
                contender::<Lockable>($measure::<Lockable>),
                contender::<KeyedLocks>($measure::<KeyedLocks>),
            ]
        };
    }
    [
        bench("growth-held", of_each!(hold_all)),
        bench("growth-names", of_each!(take_each)),
        bench("growth-queue", of_each!(queued)),
        bench("growth-drain", of_each!(drained)),
    ]
}

fn cancelled<L: Locks>() -> Result<Sample> {
    let locks = L::default();
    let name = &NAMES[0];
    let holder = granted(locks.lock(name))?;
    let mut waiters: Vec<_> = (0..MANY).map(|_| Some(waiting(locks.lock(name)))).collect();
    let mut leaving: Vec<usize> = (0..LEAVING).map(|n| (MANY - LEAVING) / 2 + n).collect();
    Scatter::new(1).shuffle(&mut leaving);
    let start = cpu::thread_ns();
    leaving.iter().for_each(|&at| waiters[at] = None);
    let ns = cpu::thread_ns() - start;
    drop((holder, waiters));
    let sample = Sample::of(ns as f64 / LEAVING as f64);
    Ok(match left_behind::<L>()? {
        Some(names) => sample.with(Aside {
            suffix: "left-behind",
            unit: "names",
            better: Better::Lower,
            value: names as f64,
        }),
        None => sample,
    })
}

/// How many names stay in memory for ever if the last user of each gave up, once before and once after its
/// grant.
fn left_behind<L: Locks>() -> Result<Option<usize>> {
    let locks = L::default();
    let (one, other) = (granted(locks.lock(&NAMES[0]))?, granted(locks.lock(&NAMES[1]))?);
    let (before, after) = (waiting(locks.lock(&NAMES[0])), waiting(locks.lock(&NAMES[1])));
    drop(before);
    drop((one, other));
    drop(after);
    Ok(locks.left_behind())
}

/// All names are locked, then all are unlocked in another order.
fn hold_all<L: Locks>(crowd: usize) -> Result<f64> {
    let locks = L::default();
    let mut order: Vec<usize> = (0..crowd).collect();
    Scatter::new(2).shuffle(&mut order);
    let mut held: Vec<_> = (0..crowd).map(|_| None).collect();
    each(crowd, || {
        for (place, name) in held.iter_mut().zip(NAMES.iter()) {
            *place = Some(granted(locks.lock(name))?);
        }
        order.iter().for_each(|&at| held[at] = None);
        Ok(())
    })
}

/// Each name is locked and unlocked, one after another.
fn take_each<L: Locks>(crowd: usize) -> Result<f64> {
    let locks = L::default();
    each(crowd, || NAMES[..crowd].iter().try_for_each(|name| granted(locks.lock(name)).map(drop)))
}

fn queued<L: Locks>(crowd: usize) -> Result<f64> {
    queue_and_drain::<L>(crowd).map(|(queued, _)| queued)
}

fn drained<L: Locks>(crowd: usize) -> Result<f64> {
    queue_and_drain::<L>(crowd).map(|(_, drained)| drained)
}

/// All queue for one name; then each in turn is granted it and unlocks. CPU time of both, for each waiter.
fn queue_and_drain<L: Locks>(crowd: usize) -> Result<(f64, f64)> {
    let name = &NAMES[0];
    let (mut queued_ns, mut drained_ns) = (0, 0);
    let repeats = (LEAST / crowd).max(1);
    let locks = L::default();
    for _ in 0..repeats {
        let holder = granted(locks.lock(name))?;
        let mut waiters = Vec::with_capacity(crowd);
        let start = cpu::thread_ns();
        waiters.extend((0..crowd).map(|_| waiting(locks.lock(name))));
        let queued = cpu::thread_ns();
        drop(holder);
        for mut waiter in waiters {
            let polled = waiter.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let is_granted = matches!(&polled, Poll::Ready(held) if L::is_granted(held));
            ensure!(is_granted, "a waiter was not granted in its turn");
        }
        queued_ns += queued - start;
        drained_ns += cpu::thread_ns() - queued;
    }
    let waiters = (repeats * crowd) as f64;
    Ok((queued_ns as f64 / waiters, drained_ns as f64 / waiters))
}

/// CPU time for each of a crowd, after one round of warm-up.
fn each(crowd: usize, mut all: impl FnMut() -> Result<()>) -> Result<f64> {
    let repeats = (LEAST / crowd).max(1);
    all()?;
    let start = cpu::thread_ns();
    for _ in 0..repeats {
        all()?;
    }
    Ok((cpu::thread_ns() - start) as f64 / (repeats * crowd) as f64)
}

/// The result of a request that need not wait.
pub(super) fn granted<T>(request: impl Future<Output = T>) -> Result<T> {
    match std::pin::pin!(request).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(held) => Ok(held),
        Poll::Pending => anyhow::bail!("a free name was not granted at once"),
    }
}

/// A request that has to wait and stands in the queue.
pub(super) fn waiting<F: Future>(request: F) -> Pin<Box<F>> {
    let mut request = Box::pin(request);
    let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "a name that is held was granted again");
    request
}
