//! The end of an owner with very many locks in one tenant, beside the web locks and the claims of another.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lockhouse::core::{Acquire, Mode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::http::Http;
use super::{micros, p50, p99, ratio};
use crate::ws::{Client, Received};

/// What the end of one owner cost the other tenant.
#[derive(Debug, Default)]
pub(super) struct LargeEnd {
    /// The times of the other tenant beside the owner and its locks, and while they end.
    pub(super) alone: Times,
    pub(super) beside: Times,
    /// How long the answer to the end took, and until the last lock had ended.
    pub(super) answers: Vec<Duration>,
    pub(super) sweeps: Vec<Duration>,
}

/// How long each took.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// Request and release of a web lock, which waits for no commit.
    pub(super) pairs: Vec<Duration>,
    /// Claim and release, each of which waits for a commit.
    pub(super) claims: Vec<Duration>,
}

/// How long the other tenant is measured before the end of the owner.
const MEASURED: Duration = Duration::from_secs(5);

/// The longest time that a sweep may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most locks of one call.
const PER_CALL: u32 = 60;

const BUCKET: &str = "b";

impl LargeEnd {
    pub(super) fn add(&mut self, more: Self) {
        self.alone.add(more.alone);
        self.beside.add(more.beside);
        self.answers.extend(more.answers);
        self.sweeps.extend(more.sweeps);
    }

    pub(super) fn sort(&mut self) {
        for times in [&mut self.alone, &mut self.beside] {
            times.pairs.sort_unstable();
            times.claims.sort_unstable();
        }
    }

    /// The larger of the 99th percentiles beside, each measured by the one alone.
    pub(super) fn ratio(&self) -> f64 {
        let Self { alone, beside, .. } = self;
        ratio(&alone.pairs, &beside.pairs).max(ratio(&alone.claims, &beside.claims))
    }

    pub(super) fn summary(&self, locks: u32) -> String {
        let longest = |times: &[Duration]| micros(times.iter().max().copied().unwrap_or_default()) / 1e3;
        let times = |alone: &[Duration], beside: &[Duration]| {
            format!(
                "p50 {:.0} µs alone, {:.0} µs beside, p99 {:.0} µs alone, {:.0} µs beside",
                micros(p50(alone)),
                micros(p50(beside)),
                micros(p99(alone)),
                micros(p99(beside))
            )
        };
        format!(
            "the end of an owner with {locks} locks was answered in {:.0} ms at most, and all had ended after {:.0} ms; meanwhile web locks {}; claims {}",
            longest(&self.answers),
            longest(&self.sweeps),
            times(&self.alone.pairs, &self.beside.pairs),
            times(&self.alone.claims, &self.beside.claims),
        )
    }

    pub(super) fn json(&self, locks: u32) -> Value {
        let Self { alone, beside, answers, sweeps } = self;
        let millis = |times: &[Duration]| -> Vec<f64> {
            times.iter().map(|time| (micros(*time) / 1e3).round()).collect()
        };
        let times = |alone: &[Duration], beside: &[Duration]| {
            json!({
                "count": { "alone": alone.len(), "beside": beside.len() },
                "p50Micros": { "alone": micros(p50(alone)), "beside": micros(p50(beside)) },
                "p99Micros": { "alone": micros(p99(alone)), "beside": micros(p99(beside)) },
                "p99Ratio": (ratio(alone, beside) * 100.0).round() / 100.0,
            })
        };
        json!({
            "locks": locks,
            "webLocks": times(&alone.pairs, &beside.pairs),
            "claims": times(&alone.claims, &beside.claims),
            "answerMillis": millis(answers),
            "sweepMillis": millis(sweeps),
        })
    }
}

impl Times {
    fn add(&mut self, more: Self) {
        self.pairs.extend(more.pairs);
        self.claims.extend(more.claims);
    }
}

/// One tenant has an owner with so many locks, which ends; the other is measured, before and meanwhile.
pub(super) async fn measure(address: SocketAddr, keys: &[String; 2], locks: u32) -> Result<LargeEnd> {
    let http = Http::new(address, &keys[1])?;
    let opened = call(&http, "owners", None, &json!({"label": "large", "ttlMs": 3_600_000})).await?;
    let (owner, secret) = (text(&opened, "owner")?, text(&opened, "ownerSecret")?);
    for first in (0..locks).step_by(PER_CALL as usize) {
        let names = first..locks.min(first + PER_CALL);
        let wanted: Vec<Value> =
            names.map(|number| json!({"name": format!("n/{number}"), "mode": "exclusive"})).collect();
        call(&http, "locks", Some(&secret), &json!({"owner": owner, "locks": wanted})).await?;
    }
    // The locks end in the order in which they were taken, so the grant of the last name is the end of all.
    let mut waiting = connect(address, &keys[1]).await?;
    let last = waiting.request(&format!("n/{}", locks - 1), Acquire::Wait(Mode::Exclusive)).await?;
    let mut other = Other { web: connect(address, &keys[0]).await?, http: Http::new(address, &keys[0])? };
    let alone = other.times(sleep(MEASURED)).await?;
    let begun = Instant::now();
    let end = async {
        http.delete_with(BUCKET, &format!("owners/{owner}"), &secret).await?;
        let answered = begun.elapsed();
        let granted = async {
            while !matches!(waiting.receive().await?, Received::Granted { id, .. } if id == last) {}
            anyhow::Ok(())
        };
        timeout(PATIENCE, granted).await.context("the last lock does not end")??;
        anyhow::Ok((answered, begun.elapsed()))
    };
    let mut ended = None;
    let beside = other.times(async { ended = Some(end.await) }).await?;
    let (answered, swept) = ended.context("the other outlasts the end")??;
    Ok(LargeEnd { alone, beside, answers: vec![answered], sweeps: vec![swept] })
}

async fn connect(address: SocketAddr, key: &str) -> Result<Client> {
    let query = format!("?bucket={BUCKET}&partition=");
    Client::begin_with(address, Ipv4Addr::LOCALHOST, &query, "pairs", Some(key)).await
}

/// The other tenant.
struct Other {
    web: Client,
    http: Http,
}

impl Other {
    /// Requests and releases, claims and gives back, by turns until that is over.
    async fn times(&mut self, until: impl Future<Output = ()>) -> Result<Times> {
        let mut times = Times::default();
        let mut until = std::pin::pin!(until);
        loop {
            let turn = self.turn();
            tokio::pin!(turn);
            let (is_over, (pair, claim)) = tokio::select! {
                biased;
                // The turn under way comes to its end, so that the client can go on.
                () = &mut until => (true, turn.await?),
                done = &mut turn => (false, done?),
            };
            times.pairs.push(pair);
            times.claims.push(claim);
            if is_over {
                return Ok(times);
            }
        }
    }

    async fn turn(&mut self) -> Result<(Duration, Duration)> {
        let start = Instant::now();
        let id = self.web.request("pair", Acquire::Wait(Mode::Exclusive)).await?;
        while !matches!(self.web.receive().await?, Received::Granted { id: granted, .. } if granted == id) {}
        self.web.release(id).await?;
        while !matches!(self.web.receive().await?, Received::Released { .. }) {}
        let pair = start.elapsed();
        let start = Instant::now();
        let claimed =
            call(&self.http, "claims", None, &json!({"resource": "seat", "claimant": "other"})).await?;
        let back = json!({"resource": "seat", "token": text(&claimed, "token")?});
        call(&self.http, "claims/release", None, &back).await?;
        Ok((pair, start.elapsed()))
    }
}

async fn call(http: &Http, path: &str, secret: Option<&str>, body: &Value) -> Result<Value> {
    let answer = http.post(BUCKET, path, secret, body).await?;
    let answer: Value = serde_json::from_str(&answer).with_context(|| format!("{path}: {answer:?}"))?;
    ensure!(answer["code"].is_null(), "{path} is refused: {answer}");
    Ok(answer)
}

fn text(answer: &Value, field: &str) -> Result<String> {
    answer[field].as_str().map(str::to_owned).with_context(|| format!("no {field} in {answer}"))
}
