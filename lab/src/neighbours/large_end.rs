//! The end of an owner with very many locks in one tenant, beside the pairs of another.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lockhouse::core::{Acquire, Mode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::http::Http;
use crate::ws::{Client, Received};

/// What the end of one owner cost the other tenant.
#[derive(Debug, Default)]
pub(super) struct LargeEnd {
    /// The times of the pairs beside the owner and its locks, and while they end.
    pub(super) alone: Vec<Duration>,
    pub(super) beside: Vec<Duration>,
    /// How long the answer to the end took, and until the last lock had ended.
    pub(super) answers: Vec<Duration>,
    pub(super) sweeps: Vec<Duration>,
}

/// How long pairs are measured before the end of the owner.
const MEASURED: Duration = Duration::from_secs(3);

/// The longest time that a sweep may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most locks of one call.
const PER_CALL: u32 = 60;

const BUCKET: &str = "b";

impl LargeEnd {
    pub(super) fn add(&mut self, more: Self) {
        self.alone.extend(more.alone);
        self.beside.extend(more.beside);
        self.answers.extend(more.answers);
        self.sweeps.extend(more.sweeps);
    }
}

/// One tenant has an owner with so many locks, which ends; the other makes pairs, before and meanwhile.
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
    let mut other = connect(address, &keys[0]).await?;
    let alone = pairs(&mut other, sleep(MEASURED)).await?;
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
    let beside = pairs(&mut other, async { ended = Some(end.await) }).await?;
    let (answered, swept) = ended.context("the pairs outlast the end")??;
    Ok(LargeEnd { alone, beside, answers: vec![answered], sweeps: vec![swept] })
}

async fn connect(address: SocketAddr, key: &str) -> Result<Client> {
    let query = format!("?bucket={BUCKET}&partition=");
    Client::begin_with(address, Ipv4Addr::LOCALHOST, &query, "pairs", Some(key)).await
}

/// Makes pairs until that is over.
async fn pairs(client: &mut Client, until: impl Future<Output = ()>) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut until = std::pin::pin!(until);
    loop {
        let pair = pair(client);
        tokio::pin!(pair);
        tokio::select! {
            biased;
            () = &mut until => {
                // The pair under way comes to its end, so that the client can go on.
                times.push(pair.await?);
                return Ok(times);
            }
            time = &mut pair => times.push(time?),
        }
    }
}

async fn pair(client: &mut Client) -> Result<Duration> {
    let start = Instant::now();
    let id = client.request("pair", Acquire::Wait(Mode::Exclusive)).await?;
    while !matches!(client.receive().await?, Received::Granted { id: granted, .. } if granted == id) {}
    client.release(id).await?;
    while !matches!(client.receive().await?, Received::Released { .. }) {}
    Ok(start.elapsed())
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
