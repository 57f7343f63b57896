//! Callers with large calls in buckets of their own, both at one node, beside the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lockhouse::core::{Name, NameBuf};
use lockhouse::fleet::owner_of;
use lockhouse::remote::{Connection, connect};
use lockhouse::store::{Scope, Slot};
use lockhouse::{Mode, Owner};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Fault;
use crate::chaos::SLOT_LEASE;
use crate::chaos::network::NODES;
use crate::chaos::nodes::urls;
use crate::chaos::places::SLOTS;
use crate::chaos::storm::Storm;

/// The names of one call.
const NAMES: usize = 60;
/// The callers of each of the two buckets.
const CALLERS: usize = 40;
/// How long they call at least.
const LENGTH: Duration = Duration::from_secs(8);
/// The calls of one caller alone, to which those beside others are compared.
const ALONE: usize = 10;
/// A node is loaded if a call takes this many times as long as alone.
const LOADED: u32 = 4;
/// The longest that a call, or the end of a caller, may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Owners of callers that are gone end by themselves.
const TTL: Duration = Duration::from_secs(60);
/// A sleep on a machine that has time for its processes is not longer by more than this.
const LONGEST_STARVATION: Duration = Duration::from_millis(SLOT_LEASE.as_millis() as u64 / 3);

/// What the callers share.
#[derive(Default)]
struct Noise {
    is_over: AtomicBool,
    failures: AtomicUsize,
    times: Mutex<Vec<Duration>>,
}

/// A caller, which locks and unlocks many names without a pause.
struct NoisyCaller {
    connection: Connection,
    owner: Owner,
    names: Vec<NameBuf>,
}

impl NoisyCaller {
    async fn begin(node: usize, bucket: &str, key: &str, number: usize) -> Result<Self> {
        let url = urls().swap_remove(node);
        let connection = connect(url).bucket(bucket).key(key).timeout(PATIENCE).await?;
        let owner = connection.owners().open(format!("noise {number}"), TTL).await?;
        let names = (0..NAMES).map(|name| NameBuf::new(&format!("{number}/{name}")));
        Ok(Self { connection, owner, names: names.collect::<Result<_, _>>().context("the name is long")? })
    }

    /// How long it took to lock all of its names.
    async fn call(&self) -> Result<Duration> {
        let begun = Instant::now();
        let locks: Vec<(Name<'_>, Mode)> =
            self.names.iter().map(|name| (name.as_name(), Mode::Exclusive)).collect();
        self.owner.lock_names(&locks, None).await?;
        let took = begun.elapsed();
        self.owner.unlock_all().await?;
        Ok(took)
    }

    async fn run(self, noise: Arc<Noise>) {
        while !noise.is_over.load(Ordering::Relaxed) {
            match self.call().await {
                Ok(took) => noise.times.lock().push(took),
                Err(_) => {
                    noise.failures.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        // What is left ends by itself.
        _ = self.owner.end().await;
        _ = timeout(Duration::from_secs(1), self.connection.close()).await;
    }
}

impl Storm {
    /// All get on beside the noise, and no slot moves because of it.
    pub(in crate::chaos) fn be_noisy(&mut self) -> Result<Fault> {
        let before = self.come_to_rest()?;
        let node = self.random.below(NODES.len());
        let key = self.key.clone();
        let noise = Arc::new(Noise::default());
        let (alone, mut callers) = self.runtime.block_on(callers(node, &key, &noise))?;
        let starvation = Starvation::begin();
        let begun = Instant::now();
        let went_on = self.goes_on(begun)?;
        thread::sleep(LENGTH.saturating_sub(begun.elapsed()));
        let after = self.moves()?;
        let seconds = begun.elapsed().as_secs_f64();
        let starved = starvation.end();
        noise.is_over.store(true, Ordering::Relaxed);
        self.runtime.block_on(async {
            let all = async { while callers.join_next().await.is_some() {} };
            timeout(PATIENCE, all).await.context("noisy callers do not end")
        })?;
        let mut times = std::mem::take(&mut *noise.times.lock());
        let (calls, failures) = (times.len(), noise.failures.load(Ordering::Relaxed));
        let beside = median(&mut times);
        let text = format!(
            "{} callers load node {} with {:.0} locks/s, a call takes {} ms instead of {}, {failures} fail, the longest starvation is {} ms, and every slot grants after {went_on:.1} s",
            2 * CALLERS,
            NODES[node],
            (calls * NAMES) as f64 / seconds,
            beside.as_millis(),
            alone.as_millis(),
            starved.as_millis(),
        );
        let has_time = starved <= LONGEST_STARVATION;
        ensure!(!has_time || after == before, "{text}, but slots have moved: {before:?} became {after:?}");
        let is_loaded = calls > CALLERS && beside >= LOADED * alone;
        Ok(Fault { text, has_hit: Some(is_loaded && has_time) })
    }
}

/// How long a call takes alone; and the callers, which have begun by then.
async fn callers(node: usize, key: &str, noise: &Arc<Noise>) -> Result<(Duration, JoinSet<()>)> {
    let mut callers = Vec::new();
    for bucket in buckets(node) {
        for number in 0..CALLERS {
            callers.push(NoisyCaller::begin(node, &bucket, key, number).await?);
        }
    }
    let mut times = Vec::new();
    for _ in 0..ALONE {
        times.push(callers[0].call().await?);
    }
    let mut running = JoinSet::new();
    callers.into_iter().for_each(|caller| _ = running.spawn(caller.run(noise.clone())));
    Ok((median(&mut times), running))
}

/// Two buckets that the clients do not use, in different slots of that node.
fn buckets(node: usize) -> Vec<String> {
    let is_at = |slot: &u16| owner_of(Slot::new(*slot), &NODES) == Some(NODES[node]);
    let in_slot = |slot: u16| {
        let mut names = (0..).map(|number| format!("noise-{number}"));
        names.find(|name| Slot::of(&Scope::new("", name.as_str()), SLOTS).get() == slot)
    };
    (0..SLOTS).filter(is_at).filter_map(in_slot).take(2).collect()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A thread that does nothing but sleep shortly: how much too long it sleeps is not the fault of a node.
struct Starvation {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Duration>,
}

impl Starvation {
    fn begin() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            let (nap, mut longest) = (Duration::from_millis(20), Duration::ZERO);
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                thread::sleep(nap);
                longest = longest.max(begun.elapsed().saturating_sub(nap));
            }
            longest
        });
        Self { is_over, thread }
    }

    /// The longest that it slept too long.
    fn end(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(Duration::MAX)
    }
}
