//! `cargo xtask neighbours-crowd`: the process of the neighbour, which does as much as it is let, in the same
//! buckets and under the same names, and is refused or paced all the time. The process answers each line of
//! its input with the counts of its refusals, as a line of JSON.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lockhouse::core::{Acquire, Mode};
use random::Random;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use super::http::Http;
use crate::Verdict;
use crate::serving::{questions, send_report};
use crate::ws::{Client, Received};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    key: String,
    #[arg(long)]
    tenant: String,
    #[arg(long)]
    seed: u64,
}

/// The number of refusals by each bound, and the number of calls without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunTally {
    pub(super) done: u64,
    pub(super) rate: u64,
    pub(super) connections: u64,
    pub(super) buckets: u64,
    pub(super) names: u64,
    pub(super) owners: u64,
    pub(super) claims: u64,
    pub(super) frames: u64,
}

impl RunTally {
    /// The limits that refused the tenant, each with its count.
    pub(super) fn refusals(&self) -> [(&'static str, u64); 7] {
        [
            ("rate", self.rate),
            ("connections", self.connections),
            ("buckets", self.buckets),
            ("names", self.names),
            ("owners", self.owners),
            ("claims", self.claims),
            ("frames", self.frames),
        ]
    }

    /// Whether there is nothing that it was not refused yet.
    pub(super) fn is_at_its_limits(&self) -> bool {
        self.refusals().iter().all(|(_, count)| *count > 0)
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            done: self.done - before.done,
            rate: self.rate - before.rate,
            connections: self.connections - before.connections,
            buckets: self.buckets - before.buckets,
            names: self.names - before.names,
            owners: self.owners - before.owners,
            claims: self.claims - before.claims,
            frames: self.frames - before.frames,
        }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.done += more.done;
        self.rate += more.rate;
        self.connections += more.connections;
        self.buckets += more.buckets;
        self.names += more.names;
        self.owners += more.owners;
        self.claims += more.claims;
        self.frames += more.frames;
    }
}

/// The number of partitions that a tenant names, which it chooses freely.
const PARTITIONS: usize = 5;

/// 16-bit units of a name that is too long.
const TOO_LONG: usize = 5000;

/// Requests that each connection has under way.
const BATCH: usize = 16;

/// Callers over HTTP.
const CALLERS: u64 = 3;

/// Locks that a call of the dearest kind names, each of which counts in the rate: as many as there may be
/// names.
const LOCKS: u32 = 60;

/// Between two attempts of one that was refused.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone)]
struct Crowd {
    address: SocketAddr,
    key: Rc<str>,
    tenant: Rc<str>,
    tally: Rc<RefCell<RunTally>>,
    over: Rc<Cell<bool>>,
}

pub(crate) fn run(args: &Args) -> Verdict {
    give_way()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, crowd(args))?;
    Ok(true)
}

/// Runs only when no other process wants the processor, as if on a machine of its own. The measurement
/// concerns how the server treats the other tenant, not which of the two clients has its turn here.
fn give_way() -> Result<()> {
    let own = std::process::id().to_string();
    let chrt = Command::new("chrt").args(["--idle", "--pid", "0", &own]).status();
    ensure!(
        chrt.context("chrt of util-linux is needed")?.success(),
        "chrt cannot make this process an idle one"
    );
    Ok(())
}

async fn crowd(args: &Args) -> Result<()> {
    let crowd = Crowd {
        address: args.address,
        key: args.key.as_str().into(),
        tenant: args.tenant.as_str().into(),
        tally: Rc::default(),
        over: Rc::default(),
    };
    let random = |number: u64| Random::new(args.seed.wrapping_add(number));
    crowd.leave_a_trace().await?;
    spawn_local(crowd.clone().come(random(0)));
    for number in 1..=CALLERS {
        let http = Http::new(args.address, &args.key)?;
        spawn_local(crowd.clone().call(http, random(number)));
    }
    spawn_local(crowd.clone().spend(Http::new(args.address, &args.key)?));
    let mut asked = questions();
    while asked.recv().await.is_some() {
        send_report(&*crowd.tally.borrow())?;
    }
    crowd.over.set(true);
    let tally = crowd.tally.borrow().clone();
    send_report(&tally)
}

impl Crowd {
    fn count(&self, change: impl FnOnce(&mut RunTally)) {
        change(&mut self.tally.borrow_mut());
    }

    async fn connect(&self, number: usize, bucket: &str, partition: &str) -> Result<Client> {
        let query = format!("?bucket={bucket}&partition={partition}");
        // Machines are many: each has an address of its own.
        let from = Ipv4Addr::new(127, 0, 0, 2 + (number % 16) as u8);
        Client::begin_with(self.address, from, &query, &format!("{} {number}", self.tenant), Some(&self.key))
            .await
    }

    /// Uses a bucket and leaves it: what it has done there must not show either.
    async fn leave_a_trace(&self) -> Result<()> {
        let mut client = self.connect(0, "b", &format!("{}-before", self.tenant)).await?;
        for _ in 0..200 {
            client.request("name 0", Acquire::Wait(Mode::Exclusive)).await?;
            if let Received::Granted { id, .. } = client.receive().await? {
                client.release(id).await?;
                client.receive().await?;
            }
        }
        client.goodbye().await
    }

    /// Takes as many connections as it can have, in as many tables as it can have.
    async fn come(self, mut random: Random) {
        let mut number = 0;
        while !self.over.get() {
            number += 1;
            let bucket = ["b", "c"][number % 2];
            let partition = match number / 2 % PARTITIONS {
                0 => String::new(),
                1 => "top".to_owned(),
                other => format!("{}-{other}", self.tenant),
            };
            match self.connect(number, bucket, &partition).await {
                Ok(client) => drop(spawn_local(self.clone().flood(client, Random::new(random.next_u64())))),
                Err(error) if format!("{error:#}").contains("buckets_per_tenant") => {
                    self.count(|tally| tally.buckets += 1);
                    sleep(PAUSE).await;
                }
                Err(_) => {
                    self.count(|tally| tally.connections += 1);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Sends as fast as it is read, and holds what it can.
    async fn flood(self, mut client: Client, mut random: Random) {
        let mut held = Vec::new();
        if client.watch().await.is_err() {
            return;
        }
        while !self.over.get() {
            // After any end of the connection, another one comes in its place.
            if self.batch(&mut client, &mut random, &mut held).await.is_err() {
                return;
            }
        }
    }

    async fn batch(&self, client: &mut Client, random: &mut Random, held: &mut Vec<u64>) -> Result<()> {
        let mut waited_for = Vec::new();
        for _ in 0..BATCH {
            // Half of them under the names of the neighbour.
            let name = if random.percent(50) {
                format!("name {}", random.below(8))
            } else {
                format!("{} {}", self.tenant, random.below(300))
            };
            let acquire =
                if random.percent(5) { Acquire::Steal } else { Acquire::IfAvailable(Mode::Exclusive) };
            waited_for.push(client.request(&name, acquire).await?);
        }
        waited_for.push(client.query(true).await?);
        match random.below(100) {
            0..5 => _ = client.request(&"n".repeat(TOO_LONG), Acquire::Wait(Mode::Exclusive)).await?,
            5..30 => client.send_unknown_type().await?,
            30 => bail!("the client breaks off"),
            _ => {}
        }
        if held.len() > 2 * BATCH {
            for id in held.drain(..BATCH) {
                client.release(id).await?;
            }
        }
        while !waited_for.is_empty() {
            let (id, is_refused) = match client.receive().await? {
                Received::Granted { id, .. } => {
                    held.push(id);
                    (id, false)
                }
                Received::Error { code: "unknown_type", .. } => {
                    self.count(|tally| tally.frames += 1);
                    continue;
                }
                Received::Error { id: Some(id), .. } => (id, true),
                Received::Refused { id } | Received::Snapshot { id, more: false } => (id, false),
                Received::Lost { id } => {
                    held.retain(|held| *held != id);
                    continue;
                }
                _ => continue,
            };
            // The watch has snapshots of its own.
            let Some(index) = waited_for.iter().position(|asked| *asked == id) else { continue };
            waited_for.swap_remove(index);
            self.count(|tally| if is_refused { tally.names += 1 } else { tally.done += 1 });
        }
        Ok(())
    }

    /// Calls as dearly as it can, one call after another. The cost of a call is judged before the caller.
    async fn spend(self, http: Http) {
        let lock = |id: u32| json!({"kind": "k", "id": id.to_string(), "intent": "write"});
        let dear = json!({"owner": "1", "locks": (0..LOCKS).map(lock).collect::<Value>()});
        while !self.over.get() {
            let answer = http.post("b", "locks", Some("no secret"), &dear).await;
            if answer.is_ok_and(|text| text.contains("rate_limited")) {
                self.count(|tally| tally.rate += 1);
                sleep(PAUSE).await;
            }
        }
    }

    /// Calls one after another, and retries when the answer says so.
    async fn call(self, http: Http, mut random: Random) {
        while !self.over.get() {
            let name = format!("{} {}", self.tenant, random.below(1000));
            let owner = json!({"label": name, "ttlMs": 3_600_000});
            let claim = json!({"resource": name, "claimant": name, "ttlMs": 3_600_000});
            let bucket = ["b", "c"][random.below(2)];
            let (path, answer) = match random.below(4) {
                0 => ("owners", http.post("b", "owners", None, &owner).await),
                1 => ("claims", http.post(bucket, "claims", None, &claim).await),
                2 => (
                    "claims",
                    http.post(&format!("{}-{}", self.tenant, random.below(50)), "claims", None, &claim).await,
                ),
                _ => ("query", http.get(bucket, "query", &[("limit", "1000")], None).await),
            };
            let problem: Value =
                answer.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            let code = problem["code"].as_str().unwrap_or_default();
            // A full bucket names the bound.
            let is_full = problem["value"].is_string();
            self.count(|tally| match (code, path) {
                ("rate_limited", _) => tally.rate += 1,
                ("quota_exceeded", "owners") if is_full => tally.owners += 1,
                ("quota_exceeded", "claims") if is_full => tally.claims += 1,
                ("quota_exceeded", _) => tally.buckets += 1,
                ("overloaded", _) => tally.connections += 1,
                _ => tally.done += 1,
            });
            let wait = Duration::from_millis(problem["retryAfterMs"].as_u64().unwrap_or_default());
            sleep(wait.clamp(Duration::from_millis(1), 4 * PAUSE)).await;
        }
    }
}
