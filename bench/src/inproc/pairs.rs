//! Pairs of lock and unlock: alone, over many names, by many tasks, and from hand to hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Waker};
use std::time::Instant;

use anyhow::Result;
use tokio::runtime::{Builder, Runtime};

use super::peers::{BlockingLockMap, DashMutex, DashRwLock, KeyedLocks, Lockable, Lockhouse, Locks, Unkeyed};
use super::{Scatter, names};
use crate::cpu;
use crate::report::Better;
use crate::rounds::{Bench, Contender, Sample};

const PAIRS: usize = 1_000_000;
const TASKS: usize = 64;

static ONE: LazyLock<Vec<String>> = LazyLock::new(|| names(1));
static THOUSAND: LazyLock<Vec<String>> = LazyLock::new(|| names(1000));
static HUNDRED_THOUSAND: LazyLock<Vec<String>> = LazyLock::new(|| names(100_000));

/// Uncontended, always the same name.
pub fn one_name() -> Bench<'static> {
    fn contender<L: Locks>() -> Contender<'static> {
        Contender::new(L::NAME, || uncontended::<L>(&ONE))
    }
    Bench {
        id: "inproc-one",
        unit: "pairs/CPU s",
        better: Better::Higher,
        contenders: vec![
            contender::<Lockhouse>(),
            contender::<Lockable>().target(1.9),
            contender::<KeyedLocks>(),
            contender::<DashRwLock>().target(1.6),
            contender::<DashMutex>(),
            contender::<BlockingLockMap>(),
            contender::<Unkeyed>(),
        ],
    }
}

/// Uncontended, over 100,000 names in scattered order.
pub fn many_names() -> Bench<'static> {
    fn contender<L: Locks>() -> Contender<'static> {
        Contender::new(L::NAME, || uncontended::<L>(&HUNDRED_THOUSAND))
    }
    Bench {
        id: "inproc-100k",
        unit: "pairs/CPU s",
        better: Better::Higher,
        contenders: vec![
            contender::<Lockhouse>(),
            contender::<Lockable>().target(1.9),
            contender::<KeyedLocks>(),
            contender::<DashRwLock>().target(1.6),
            contender::<DashMutex>(),
            contender::<BlockingLockMap>(),
        ],
    }
}

/// 64 tasks on 2 workers, each taking one of 1000 names after another.
pub fn two_workers() -> Bench<'static> {
    fn contender<L: Locks>() -> Contender<'static> {
        Contender::new(L::NAME, || crowded::<L>(2))
    }
    Bench {
        id: "inproc-2w",
        unit: "pairs/s",
        better: Better::Higher,
        contenders: vec![
            contender::<Lockhouse>(),
            contender::<DashMutex>().target(1.0),
            contender::<DashRwLock>(),
            contender::<Lockable>(),
            contender::<KeyedLocks>(),
            contender::<BlockingLockMap>(),
        ],
    }
}

/// 64 tasks wait for one name; every unlock wakes the next.
pub fn hand_off(workers: usize) -> Bench<'static> {
    fn contender<L: Locks>(workers: usize) -> Contender<'static> {
        Contender::new(L::NAME, move || handed_on::<L>(workers))
    }
    Bench {
        id: if workers == 1 { "inproc-handoff" } else { "inproc-handoff-2w" },
        unit: "hand-offs/s",
        better: Better::Higher,
        contenders: vec![
            contender::<Lockhouse>(workers),
            contender::<Lockable>(workers).target(1.2),
            contender::<Unkeyed>(workers),
            contender::<KeyedLocks>(workers),
            contender::<DashMutex>(workers),
            contender::<DashRwLock>(workers),
        ],
    }
}

fn uncontended<L: Locks>(names: &[String]) -> Result<Sample> {
    let locks = L::default();
    let take_all = async |pairs: usize| {
        let mut next = names.iter().cycle();
        for _ in 0..pairs {
            // The list is not empty, so the cycle never ends.
            if let Some(name) = next.next() {
                drop(locks.lock(name).await);
            }
        }
    };
    let runtime = Builder::new_current_thread().build()?;
    runtime.block_on(take_all((PAIRS / 10).max(names.len())));
    let start = cpu::thread_ns();
    runtime.block_on(take_all(PAIRS));
    Ok(per_second(PAIRS, cpu::thread_ns() - start))
}

fn crowded<L: Locks>(workers: usize) -> Result<Sample> {
    let locks: &'static L = Box::leak(Box::default());
    let runtime = multi_thread(workers)?;
    let round = |pairs_each: usize| {
        let tasks = (0..TASKS as u64).map(|task| {
            runtime.spawn(async move {
                let mut scatter = Scatter::new(task);
                for _ in 0..pairs_each {
                    drop(locks.lock(&THOUSAND[scatter.below(THOUSAND.len())]).await);
                }
            })
        });
        join(&runtime, tasks.collect())
    };
    timed(PAIRS, |pairs| round(pairs / TASKS))
}

fn handed_on<L: Locks>(workers: usize) -> Result<Sample> {
    let locks: &'static L = Box::leak(Box::default());
    let runtime = multi_thread(workers)?;
    timed(PAIRS / 4, |pairs| {
        let holder = runtime.block_on(locks.lock(&ONE[0]));
        // All queue before the first is granted; from then on the queue is never empty, so that every unlock
        // is a hand-off.
        let tasks: Vec<_> = (0..TASKS).map(|_| queued(locks)).collect();
        let tasks = tasks.into_iter().map(|first| {
            runtime.spawn(async move {
                drop(first.await);
                for _ in 1..pairs / TASKS {
                    drop(locks.lock(&ONE[0]).await);
                }
            })
        });
        let tasks = tasks.collect();
        drop(holder);
        join(&runtime, tasks)
    })
}

/// A request that stands in the queue already.
fn queued<L: Locks>(locks: &'static L) -> Pin<Box<impl Future<Output = L::Held<'static>> + Send>> {
    let mut request = Box::pin(locks.lock(&ONE[0]));
    let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "{} granted a name twice", L::NAME);
    request
}

/// A warm-up of a tenth, then the slice itself.
fn timed(pairs: usize, mut run: impl FnMut(usize) -> Result<()>) -> Result<Sample> {
    run(pairs / 10)?;
    let (start, cpu) = (Instant::now(), cpu::process_ns());
    run(pairs)?;
    let (wall, cpu) = (start.elapsed(), cpu::process_ns() - cpu);
    Ok(Sample::of(pairs as f64 / wall.as_secs_f64()).with_cpu(cpu as f64 / pairs as f64))
}

fn per_second(pairs: usize, ns: u64) -> Sample {
    Sample::of(pairs as f64 * 1e9 / ns as f64).with_cpu(ns as f64 / pairs as f64)
}

fn multi_thread(workers: usize) -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(workers).build()?)
}

fn join(runtime: &Runtime, tasks: Vec<tokio::task::JoinHandle<()>>) -> Result<()> {
    runtime.block_on(async {
        for task in tasks {
            task.await?;
        }
        Ok(())
    })
}
