//! The script of one tenant: a seeded mix of Web Locks, offline locks and claims, one step after another,
//! each with all answers and notices after it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lockhouse::core::{Acquire, Mode};
use random::Random;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::http::Http;
use super::transcript::Transcript;
use crate::ws::{Client, PATIENCE, Received};

/// Where the script is played, and as whom.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) address: SocketAddr,
    pub(super) key: String,
    /// The names of the tenants: the one of the script, and the one that must not appear in it.
    pub(super) tenant: &'static str,
    pub(super) other: &'static str,
}

/// The length of a script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    pub(super) steps: usize,
    pub(super) pairs: usize,
}

/// Between two steps, so that the script stays below the rate of a tenant.
const STEP: Duration = Duration::from_millis(6);

/// After this number of pairs the other clients read their frames, too, long before their lease ends.
const PAIRS_BETWEEN: usize = 256;

/// Names in each bucket; the neighbour uses the same ones.
const NAMES: usize = 8;

/// The most locks and requests that each client has.
const HELD: usize = 6;

/// The lock tables of the clients: bucket and partition.
const TABLES: [(&str, &str); 4] = [("b", ""), ("b", ""), ("c", ""), ("b", "top")];

/// More than any tenant can have of anything.
const ENOUGH: usize = 500;

/// Plays the script; returns the answers, and how long each pair of request and release took.
pub(super) async fn play(stage: &Stage, seed: u64, length: Length) -> (Transcript, Vec<Duration>) {
    let mut story = Story {
        stage,
        random: Random::new(seed),
        transcript: Transcript::default(),
        clients: Vec::new(),
        owners: Vec::new(),
        claims: Vec::new(),
        pairs: Vec::new(),
    };
    if let Err(error) = story.run(length).await {
        story.transcript.broke_off = Some(format!("{error:#}"));
    }
    (story.transcript, story.pairs)
}

struct Story<'a> {
    stage: &'a Stage,
    random: Random,
    transcript: Transcript,
    clients: Vec<Web>,
    /// Ids and secrets.
    owners: Vec<(String, String)>,
    claims: Vec<Claim>,
    pairs: Vec<Duration>,
}

struct Web {
    client: Client,
    table: (&'static str, &'static str),
    /// The requests that the client holds or waits for.
    own: Vec<u64>,
}

struct Claim {
    bucket: &'static str,
    resource: String,
    token: String,
}

impl Story<'_> {
    async fn run(&mut self, length: Length) -> Result<()> {
        let http = Http::new(self.stage.address, &self.stage.key)?;
        for (number, table) in TABLES.into_iter().enumerate() {
            let client = self.connect(table, &format!("{} {number}", self.stage.tenant)).await?;
            self.clients.push(Web { client, table, own: Vec::new() });
        }
        for number in 0..2 {
            let label = format!("{} {number}", self.stage.tenant);
            let opened = self.call(&http, "b", "owners", None, json!({"label": label})).await?;
            let text = |member: &str| opened[member].as_str().map(str::to_owned);
            self.owners.push(text("owner").zip(text("ownerSecret")).context("no owner was opened")?);
        }
        let mut steps = interval(STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..length.steps {
            steps.tick().await;
            match self.random.below(10) {
                0..6 => self.web().await?,
                6..8 => self.claim(&http).await?,
                _ => self.lock(&http).await?,
            }
        }
        for pair in 0..length.pairs {
            self.pair().await?;
            sleep(Duration::from_millis(1)).await;
            if pair % PAIRS_BETWEEN == 0 {
                for at in 0..self.clients.len() {
                    self.see(at).await?;
                }
            }
        }
        self.bounds(&http).await
    }

    async fn connect(&self, (bucket, partition): (&str, &str), name: &str) -> Result<Client> {
        let query = format!("?bucket={bucket}&partition={partition}");
        Client::begin_with(self.stage.address, Ipv4Addr::LOCALHOST, &query, name, Some(&self.stage.key)).await
    }

    fn name(&mut self) -> String {
        format!("name {}", self.random.below(NAMES))
    }

    /// A client asks for a lock, or lets one go.
    async fn web(&mut self) -> Result<()> {
        let at = self.random.below(self.clients.len());
        let count = self.clients[at].own.len();
        if count >= HELD || (count > 0 && self.random.percent(30)) {
            let place = self.random.below(count);
            let web = &mut self.clients[at];
            let id = web.own.remove(place);
            web.client.abort(id).await?;
            web.client.release(id).await?;
            self.receive_until(
                at,
                |received| matches!(received, Received::Released { id: released, .. } if *released == id),
            )
            .await?;
        } else {
            let name = self.name();
            let acquire = match self.random.below(10) {
                0..4 => Acquire::Wait(Mode::Exclusive),
                4..6 => Acquire::Wait(Mode::Shared),
                6..8 => Acquire::IfAvailable(Mode::Exclusive),
                8 => Acquire::IfAvailable(Mode::Shared),
                _ => Acquire::Steal,
            };
            let web = &mut self.clients[at];
            let id = web.client.request(&name, acquire).await?;
            web.own.push(id);
            if matches!(acquire, Acquire::Wait(_)) {
                // No answer shows that the request has arrived; a look before that would not see it.
                self.see(at).await?;
            } else {
                self.receive_until(at, |received| received.answers(id)).await?;
            }
        }
        self.look(self.clients[at].table).await
    }

    /// The tenant makes a claim, or goes on with one.
    async fn claim(&mut self, http: &Http) -> Result<()> {
        let bucket = if self.random.percent(70) { "b" } else { "c" };
        let resource = self.name();
        let what = self.random.below(10);
        if let 4..7 = what
            && !self.claims.is_empty()
        {
            let place = self.random.below(self.claims.len());
            let Claim { bucket, resource, token } = &self.claims[place];
            let (bucket, body) = (*bucket, json!({"resource": resource, "token": token}));
            let path = ["claims/renew", "claims/release", "claims/finalize"][what - 4];
            self.call(http, bucket, path, None, body).await?;
            return self.look((bucket, "")).await;
        }
        match what {
            7 => self.get(http, bucket, "claims", &[("resource", &resource)]).await?,
            8 => {
                let text = http.delete(bucket, "assignments", &[("resource", &resource)]).await?;
                self.note(&format!("unassign {resource} in {bucket}"), &text);
            }
            9 => self.get(http, bucket, "query", &[("limit", "1000")]).await?,
            _ => {
                let claimant = format!("{} {}", self.stage.tenant, self.random.below(3));
                let body = json!({"resource": resource, "claimant": claimant, "ttlMs": 3_600_000});
                let claimed = self.call(http, bucket, "claims", None, body).await?;
                if let Some(token) = claimed["token"].as_str() {
                    self.claims.push(Claim { bucket, resource, token: token.to_owned() });
                }
            }
        }
        self.look((bucket, "")).await
    }

    /// An owner locks, releases, or is looked at.
    async fn lock(&mut self, http: &Http) -> Result<()> {
        let place = self.random.below(self.owners.len());
        let (owner, secret) = self.owners[place].clone();
        let what = self.random.below(10);
        let wanted = 1 + self.random.below(3);
        let mut locks = Vec::new();
        for _ in 0..wanted {
            let (name, mode) = (self.name(), if self.random.percent(50) { "exclusive" } else { "shared" });
            let lock = if what < 5 { json!({"name": name, "mode": mode}) } else { json!({"name": name}) };
            if !locks.contains(&lock) {
                locks.push(lock);
            }
        }
        let body = json!({"owner": owner, "locks": locks});
        match what {
            0..5 => _ = self.call(http, "b", "locks", Some(&secret), body).await?,
            5..8 => _ = self.call(http, "b", "locks/release", Some(&secret), body).await?,
            8 => {
                _ = self
                    .call(http, "b", &format!("owners/{owner}/heartbeat"), Some(&secret), Value::Null)
                    .await?;
            }
            _ => {
                let text = http.get("b", &format!("owners/{owner}"), &[], Some(&secret)).await?;
                self.note(&format!("owner {owner}"), &text);
            }
        }
        self.look(("b", "")).await
    }

    /// Takes a free lock and lets it go.
    async fn pair(&mut self) -> Result<()> {
        let at = 2;
        let start = Instant::now();
        let id = self.clients[at].client.request("pair", Acquire::Wait(Mode::Exclusive)).await?;
        self.receive_until(at, |received| received.answers(id)).await?;
        self.clients[at].client.release(id).await?;
        self.receive_until(at, |received| matches!(received, Received::Released { .. })).await?;
        self.pairs.push(start.elapsed());
        Ok(())
    }

    /// Takes as much as the tenant may have of each thing, to the last.
    async fn bounds(&mut self, http: &Http) -> Result<()> {
        for number in 0..ENOUGH {
            let name = format!("{} {number}", self.stage.tenant);
            let id = self.clients[0].client.request(&name, Acquire::IfAvailable(Mode::Exclusive)).await?;
            if let Received::Error { .. } = self.receive_until(0, |received| received.answers(id)).await? {
                break;
            }
        }
        let tenant = self.stage.tenant;
        let owner = |name| json!({"label": name, "ttlMs": 3_600_000});
        self.fill(http, "owners", |number| ("c".to_owned(), owner(format!("{tenant} {number}")))).await?;
        let claim = |name| json!({"resource": name, "claimant": name, "ttlMs": 3_600_000});
        self.fill(http, "claims", |number| ("c".to_owned(), claim(format!("{tenant} {number}")))).await?;
        self.fill(http, "claims", |number| (format!("{tenant}-{number}"), claim("r".to_owned()))).await?;
        let mut connections = Vec::new();
        while connections.len() < ENOUGH {
            match self.connect(TABLES[0], self.stage.tenant).await {
                Ok(client) => connections.push(client),
                Err(error) => {
                    self.note(&format!("{} connections more", connections.len()), &format!("{error:#}"));
                    return Ok(());
                }
            }
        }
        bail!("there is no end of connections");
    }

    /// Makes calls, each with its bucket and its body, until there is too much of it.
    async fn fill(&mut self, http: &Http, path: &str, call: impl Fn(usize) -> (String, Value)) -> Result<()> {
        for number in 0..ENOUGH {
            let (bucket, body) = call(number);
            let answer = self.call(http, &bucket, path, None, body).await?;
            if answer["status"].is_number() {
                ensure!(answer["code"] == "quota_exceeded", "{path} number {number}: {answer}");
                return Ok(());
            }
        }
        bail!("there is no end of {path}");
    }

    /// The notices and the snapshots of all clients of that table.
    async fn look(&mut self, table: (&str, &str)) -> Result<()> {
        for at in 0..self.clients.len() {
            if self.clients[at].table == table {
                self.see(at).await?;
            }
        }
        Ok(())
    }

    /// The notices and the snapshot of that client.
    async fn see(&mut self, at: usize) -> Result<()> {
        let asked = self.clients[at].client.query(true).await?;
        let is_end =
            |received: &Received| matches!(received, Received::Snapshot { id, more: false } if *id == asked);
        self.receive_until(at, is_end).await?;
        Ok(())
    }

    /// Notes all frames that the client receives up to the expected one.
    async fn receive_until(&mut self, at: usize, is_it: impl Fn(&Received) -> bool) -> Result<Received> {
        loop {
            let web = &mut self.clients[at];
            let receiving = timeout(PATIENCE, web.client.receive_in_full()).await;
            let (text, received) = receiving.context("nothing more is told")??;
            if let Received::Refused { id } | Received::Lost { id } | Received::Error { id: Some(id), .. } =
                &received
            {
                web.own.retain(|own| own != id);
            }
            let text = if let Received::Snapshot { .. } = received { sorted(&text)? } else { text };
            self.note(&format!("client {at}"), &text);
            if is_it(&received) {
                return Ok(received);
            }
        }
    }

    async fn call(
        &mut self,
        http: &Http,
        bucket: &str,
        path: &str,
        secret: Option<&str>,
        body: Value,
    ) -> Result<Value> {
        let text = http.post(bucket, path, secret, &body).await?;
        let value = serde_json::from_str(&text).unwrap_or(Value::Null);
        self.note(&format!("{path} in {bucket}"), &text);
        Ok(value)
    }

    async fn get(&mut self, http: &Http, bucket: &str, path: &str, query: &[(&str, &str)]) -> Result<()> {
        let text = http.get(bucket, path, query, None).await?;
        self.note(&format!("{path} in {bucket}"), &text);
        Ok(())
    }

    fn note(&mut self, asked: &str, text: &str) {
        self.transcript.note(asked, text, self.stage.other);
    }
}

impl Received {
    /// Whether it is the answer to that request.
    pub(super) fn answers(&self, request: u64) -> bool {
        match self {
            Self::Granted { id, .. } | Self::Refused { id } | Self::Error { id: Some(id), .. } => {
                *id == request
            }
            _ => false,
        }
    }
}

/// A snapshot promises an order only of what waits for one name.
fn sorted(snapshot: &str) -> Result<String> {
    let mut snapshot: Value = serde_json::from_str(snapshot)?;
    if let Some(held) = snapshot["held"].as_array_mut() {
        held.sort_by_cached_key(|entry| (entry["name"].to_string(), entry["clientId"].to_string()));
    }
    if let Some(pending) = snapshot["pending"].as_array_mut() {
        pending.sort_by_cached_key(|entry| entry["name"].to_string());
    }
    Ok(snapshot.to_string())
}
