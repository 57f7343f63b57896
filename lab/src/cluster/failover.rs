//! `cargo xtask failover`: how soon a fleet goes on after one of its nodes is killed, and never too soon.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;
use lockhouse::fleet::owner_of;
use lockhouse::remote::{Connection, connect};
use lockhouse::store::{Scope, Slot};
use lockhouse::{Agent, LockGuard};
use proofs::evidence;
use random::Random;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};
use xtask::Verdict;
use xtask::workspace::{cargo, setup, tree};

use super::nodes::{NodeLine, Nodes};
use super::{away, drain, pause};

/// Kill the owner of some buckets again and again, and measure when others go on in its place
///
/// Each kill has a bucket in which no Web Lock was ever granted, whose claims have to go on; a holder that
/// comes back through another node, whose lock has to stay; and one that does not, whose lock has to be
/// granted to another one neither too late nor too soon. Then a node stands still in the midst of grants and
/// goes on, the store goes away and comes back, and at the end a node is drained while clients work.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// How many kills
    #[arg(long, value_name = "N", default_value_t = 10)]
    kills: u32,
    /// The slot lease in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1500)]
    slot_lease: u64,
    /// The lease of agents in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 4000)]
    lease: u64,
    /// How long a node stands still, and how long the store is away, in seconds
    #[arg(long, value_name = "S", default_value_t = 30)]
    outage: u64,
    /// Which node is killed each time
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) const SLOTS: u16 = 16;

/// How much later than the leases allow others may go on.
const TAKEOVER: Duration = Duration::from_secs(2);

/// Longer than whatever is waited for; what takes as long has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &Args) -> Verdict {
    setup::postgres()?;
    let program = cargo::program(&tree::root()?, "lockhouse")?;
    let nodes = Nodes::start(&program, SLOTS)?;
    let runtime = Runtime::new()?;
    let (sender, lines) = channel();
    let http = reqwest::Client::builder().timeout(PATIENCE).build()?;
    let mut fleet = Fleet { nodes, sender, http, slot_lease: args.slot_lease, lease: args.lease };
    let [slot_lease, lease] = [args.slot_lease, args.lease].map(Duration::from_millis);
    println!("slot lease {slot_lease:?}, lease {lease:?}, {} kills, seed {}", args.kills, args.seed);
    let mut random = Random::new(args.seed);
    let mut result = json!({
        "slotLeaseMs": args.slot_lease, "leaseMs": args.lease, "seed": args.seed, "kills": [],
    });
    runtime.block_on(async {
        for label in ["a", "b", "c"] {
            fleet.start(label)?;
        }
        for kill in 1..=args.kills {
            fleet.settled(3).await?;
            let label = ["a", "b", "c"][random.below(3)];
            let taken = fleet.kill(&format!("{kill}"), label).await?;
            println!(
                "kill {kill} of {label}: a claim after {:.2} s, a lock that is not reclaimed after {:.2} s \
                 ({:.2} s after the last confirmed commit)",
                taken.durable.as_secs_f64(),
                taken.left.as_secs_f64(),
                taken.since_confirmed.as_secs_f64(),
            );
            taken.check(slot_lease, lease)?;
            result["kills"].as_array_mut().context("it is an array")?.push(taken.json());
            fleet.start(label)?;
        }
        let outage = Duration::from_secs(args.outage);
        result["pause"] = pause::run(&fleet, outage).await?;
        result["storeAway"] = away::run(&mut fleet, outage, slot_lease).await?;
        fleet.settled(3).await?;
        result["drain"] = drain::run(&fleet).await?;
        anyhow::Ok(())
    })?;
    if let Some(path) = &args.json {
        evidence::write(path, result)?;
    }
    // The nodes may have said more than was looked at.
    drop(lines);
    println!("{} kills, 0 too late, 0 too soon, 0 locks lost", args.kills);
    Ok(true)
}

/// A fleet and what asks it.
pub(super) struct Fleet {
    pub(super) nodes: Nodes,
    sender: std::sync::mpsc::Sender<NodeLine>,
    pub(super) http: reqwest::Client,
    slot_lease: u64,
    lease: u64,
}

/// What came of one kill.
struct Taken {
    /// From the kill to a claim in a bucket without Web Locks.
    durable: Duration,
    /// From the kill to a lock whose holder does not return.
    left: Duration,
    /// From the sending of the last confirmed commit of the killed node to that lock.
    since_confirmed: Duration,
}

impl Taken {
    fn json(&self) -> Value {
        let Self { durable, left, since_confirmed } = *self;
        let [claim, lock, since_confirmed] = [durable, left, since_confirmed].map(millis);
        json!({"claimAfterMs": claim, "lockAfterMs": lock, "lockAfterLastCommitMs": since_confirmed})
    }

    fn check(&self, slot_lease: Duration, lease: Duration) -> Result<()> {
        let Self { durable, left, since_confirmed } = *self;
        ensure!(durable <= slot_lease + TAKEOVER, "the claim came too late");
        ensure!(left <= slot_lease + lease + TAKEOVER, "the lock came too late");
        ensure!(since_confirmed >= slot_lease + lease, "the lock came too soon");
        Ok(())
    }
}

impl Fleet {
    fn start(&mut self, label: &str) -> Result<()> {
        let [slot_lease, lease] = [self.slot_lease, self.lease].map(|ms| format!("{ms}ms"));
        let options = ["--slot-lease", &slot_lease, "--lease", &lease];
        self.nodes.start_node(label, &options, self.sender.clone()).map(drop)
    }

    /// The fleet as one of its nodes shows it.
    pub(super) async fn view(&self) -> Result<Value> {
        let node = self.nodes.nodes().next().context("there is no node")?;
        let answer = self.http.get(format!("{}/v1/cluster", node.url)).send().await?.text().await?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Waits until so many nodes share the slots, and none waits for holders or moves.
    pub(super) async fn settled(&self, count: usize) -> Result<()> {
        let settled = async {
            loop {
                let view = self.view().await?;
                let nodes = view["nodes"].as_array().context("it has nodes")?;
                let slots = view["slots"].as_array().context("it has slots")?;
                let labels: Vec<&str> = nodes.iter().filter_map(|node| node["node"].as_str()).collect();
                let is_at_home = |slot: &Value| {
                    let number = slot["slot"].as_u64().and_then(|number| number.try_into().ok());
                    let home = number.and_then(|number| owner_of(Slot::new(number), &labels));
                    slot["state"] == "serving" && slot["node"].as_str() == home
                };
                if labels.len() == count && slots.iter().all(is_at_home) {
                    return Ok(());
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, settled).await.context("the slots do not settle")?
    }

    /// So many buckets that the node has, whose names begin so.
    pub(super) async fn buckets(&self, prefix: &str, label: &str, count: usize) -> Result<Vec<String>> {
        let view = self.view().await?;
        let is_at = |name: &String| {
            let slot = Slot::of(&Scope::new("", name.as_str()), SLOTS);
            view["slots"][usize::from(slot.get())]["node"] == label
        };
        let names = (0..10_000).map(|number| format!("{prefix}-{number}"));
        let found: Vec<_> = names.filter(is_at).take(count).collect();
        ensure!(found.len() == count, "the node {label} has too few slots");
        Ok(found)
    }

    async fn kill(&mut self, kill: &str, label: &str) -> Result<Taken> {
        let buckets = self.buckets(&format!("kill-{kill}"), label, 3).await?;
        let [claims, kept, left] = &buckets[..] else { bail!("three buckets") };
        let victim = self.nodes.take(label).context("it runs")?;
        let others: Vec<String> = self.nodes.nodes().map(|node| node.url.clone()).collect();
        // One comes back through another node, and one cannot.
        let (_keeper, keeper) = holder(connect(&*victim.url).or(&*others[0]).bucket(kept)).await?;
        let held = keeper.locks().request("n").await?;
        let token = held.fencing_token();
        let gone = Runtime::new()?;
        let url = victim.url.clone();
        let bucket = left.clone();
        gone.spawn(async move {
            let (_connection, agent) = holder(connect(url).bucket(bucket)).await?;
            let lock = agent.locks().request("n").await?;
            // It is held to the end of this runtime.
            std::future::pending::<()>().await;
            drop(lock);
            anyhow::Ok(())
        });
        let (watching, waiter) = holder(connect(&*others[0]).bucket(left)).await?;
        until_held(&watching).await?;
        let waiting = waiter.locks().clone();
        let waiting =
            tokio::spawn(async move { waiting.request("n").await.map(|lock| (lock, SystemTime::now())) });
        gone.shutdown_background();
        let killed = (Instant::now(), SystemTime::now());
        let confirmed = victim.kill().context("its log says nothing of commits")?;
        let durable = self.claimed(&others[1], claims, killed.0).await?;
        let (lock, at) = timeout(PATIENCE, waiting).await.context("the lock is not granted")???;
        let since = |instant: SystemTime| at.duration_since(instant).context("the clock was set back");
        let taken = Taken { durable, left: since(killed.1)?, since_confirmed: since(confirmed)? };
        drop(lock);
        is_kept(&held, token.get())?;
        let (_other, other) = holder(connect(&*others[1]).bucket(kept)).await?;
        ensure!(other.locks().request("n").if_available().await.is_err(), "a lock is held twice");
        held.release().await.map_err(|loss| anyhow::anyhow!("the lock was lost: {loss:?}"))?;
        Ok(taken)
    }

    /// Claims until that works; how long after `since` it did.
    async fn claimed(&self, url: &str, bucket: &str, since: Instant) -> Result<Duration> {
        let url = format!("{url}/v1/buckets/{bucket}/claims");
        loop {
            let body = json!({"resource": "r", "claimant": "failover"}).to_string();
            let claim = self.http.post(&url).header("content-type", "application/json").body(body);
            let answer = claim.send().await?;
            match answer.status().as_u16() {
                201 => return Ok(since.elapsed()),
                503 | 504 => {}
                status => bail!("a claim is answered {status}: {}", answer.text().await?),
            }
            ensure!(since.elapsed() < PATIENCE, "nothing can be claimed");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(super) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

async fn holder(connecting: lockhouse::remote::Connect) -> Result<(Connection, Agent)> {
    let connection = connecting.await?;
    let agent = connection.agent("failover")?;
    Ok((connection, agent))
}

/// Waits until a lock of the bucket is held.
async fn until_held(connection: &Connection) -> Result<()> {
    let held = async {
        while connection.query(None).await?.held.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, held).await.context("nothing is held")?
}

pub(super) fn is_kept(lock: &LockGuard, token: u64) -> Result<()> {
    let (loss, now) = (lock.loss(), lock.fencing_token().get());
    ensure!(loss.is_none() && now == token, "a lock was lost: {loss:?}, token {now} after {token}");
    Ok(())
}
