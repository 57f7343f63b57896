//! A hundred thousand leases that end at once: how long until all their names are free, and what clients
//! notice of it that take web locks meanwhile.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::caller::Caller;
use super::crowd::{self, End};
use super::sequence::{pairs, percentile};
use crate::report::{Better, Figure};
use crate::rounds::{Aside, Bench, Contender, Sample};
use crate::server as servers;
use crate::server::codec::Codec;
use crate::server::codec::lockhouse::Lockhouse;
use crate::server::codec::redis::Redis;

const LEASES: usize = 100_000;
/// From the first lease to the end of all of them.
const LIFE: Duration = Duration::from_secs(45);
/// How long the clients with web locks are watched before the end.
const QUIET: Duration = Duration::from_millis(1500);
/// How many of the names are asked for at the end, evenly spread.
const ASKED: usize = 100;
const LONGEST: Duration = Duration::from_secs(120);
/// Between two looks whether all are gone.
const PAUSE: Duration = Duration::from_millis(5);

pub(super) fn run(program: &Path, cpu: usize, rounds: u32) -> Result<Vec<Figure>> {
    let ours = servers::lockhouse(program, Some(cpu), servers::ON_DISK).start()?;
    let redis = servers::redis(cpu, servers::EVERY_WRITE)?.start()?;
    let contenders = vec![
        Contender::new("lockhouse", || {
            let end = End(Instant::now() + LIFE);
            crowd::lock_separately(ours.address, LEASES, end)?;
            watch::<Lockhouse, _>(ours.address, end, are_free)
        }),
        Contender::new("Redis 7, appendfsync always", || {
            let end = End(Instant::now() + LIFE);
            crowd::set(redis.address, LEASES, end)?;
            watch::<Redis, _>(redis.address, end, is_empty)
        }),
    ];
    // Each takes most of a minute.
    Bench { id: "expiry", unit: "ms", better: Better::Lower, contenders }.run(rounds.min(3))
}

/// From the end of the leases until `gone` has found that all are.
fn watch<C: Codec, F: Future<Output = Result<()>>>(
    address: SocketAddr,
    end: End,
    gone: impl Fn(SocketAddr) -> F,
) -> Result<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (took, before, meanwhile) = LocalSet::new().block_on(&runtime, async {
        ensure!(Instant::now() + 2 * QUIET < end.0, "filling took too long");
        sleep_until(end.0 - 2 * QUIET).await?;
        let before = at_work::<C>(address, "before", sleep_until(end.0 - QUIET)).await?;
        let all = async {
            sleep_until(end.0).await?;
            timeout(LONGEST, gone(address)).await.context("leases that are over stay")?
        };
        let meanwhile = at_work::<C>(address, "meanwhile", all).await?;
        anyhow::Ok((end.0.elapsed(), before, meanwhile))
    })?;
    let aside = |suffix, value| Aside { suffix, unit: "µs/pair", better: Better::Lower, value };
    Ok(Sample::of(took.as_secs_f64() * 1000.0)
        .with(aside("p50-before", percentile(&before, 0.5)))
        .with(aside("p50-meanwhile", percentile(&meanwhile, 0.5)))
        .with(aside("p99-before", percentile(&before, 0.99)))
        .with(aside("p99-meanwhile", percentile(&meanwhile, 0.99)))
        .with(aside("longest-meanwhile", percentile(&meanwhile, 1.0))))
}

/// How long the pairs took that were done on `name` until `done` was.
async fn at_work<C: Codec>(
    address: SocketAddr,
    name: &'static str,
    done: impl Future<Output = Result<()>>,
) -> Result<Vec<f64>> {
    let stop = Rc::new(Cell::new(false));
    let work = spawn_local(pairs::<C>(address, name, stop.clone()));
    done.await?;
    stop.set(true);
    work.await?
}

async fn sleep_until(then: Instant) -> Result<()> {
    sleep(then.saturating_duration_since(Instant::now())).await;
    Ok(())
}

/// Whether another owner can lock the names, which is answered once the store knows of the ends.
async fn are_free(address: SocketAddr) -> Result<()> {
    let mut caller = Caller::connect(address).await?;
    let owner = caller.open(|| 60_000).await?;
    for record in (0..LEASES).step_by(LEASES / ASKED).chain([LEASES - 1]) {
        while !caller.lock(&owner, [record]).await? {
            sleep(PAUSE).await;
        }
    }
    caller.unlock(&owner).await
}

/// Whether Redis has thrown the names away; a client that asked for one was given it before.
async fn is_empty(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    loop {
        stream.write_all(b"DBSIZE\r\n").await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n") {
            ensure!(stream.read_buf(&mut answer).await? > 0, "Redis hung up");
        }
        // The key of the pairs may be there.
        if matches!(&answer[..], b":0\r\n" | b":1\r\n") {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}
