//! A look whether every slot grants: a web lock and a claim in each.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use lockhouse::remote::{Connect, connect};
use proofs::history::record::{Completion, Gain, Invocation, Mode, What};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::nodes::urls;
use super::places::BASES;
use crate::crash::http::{CallReply, HttpCaller, With};
use crate::crash::journal::HistoryWriter;
use crate::crash::recorder::{durable, now};

/// The longest that a slot may take to grant again: what takes as long has failed.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(3);

/// The probes of all slots.
pub(super) struct Probes {
    key: String,
    journal: Arc<HistoryWriter>,
    /// The number of the last operation of each.
    last: u64,
}

/// A probe, which writes down what it does as any client.
struct Probe {
    client: String,
    bucket: String,
    op: u64,
    key: String,
    journal: Arc<HistoryWriter>,
}

impl Probes {
    pub(super) fn new(key: String, journal: Arc<HistoryWriter>) -> Self {
        Self { key, journal, last: 0 }
    }

    /// Waits until each slot has granted a web lock and a claim.
    pub(super) async fn all_grant(&mut self) -> Result<()> {
        let mut probing = JoinSet::new();
        for (slot, bucket) in BASES.iter().enumerate() {
            let probe = self.probe(format!("probe-{slot}"), bucket);
            probing.spawn(async move {
                let granted = timeout(PATIENCE, probe.until_granted()).await;
                granted.unwrap_or_else(|_| {
                    Err(anyhow::anyhow!("slot {slot} does not grant again within {PATIENCE:?}"))
                })
            });
        }
        while let Some(probed) = probing.join_next().await {
            self.last = self.last.max(probed.context("a probe has panicked")??);
        }
        Ok(())
    }

    /// Waits until this bucket has granted both.
    pub(super) async fn grants_in(&mut self, bucket: &str) -> Result<()> {
        let probe = self.probe("probe".to_owned(), bucket);
        self.last = timeout(PATIENCE, probe.until_granted()).await.context("a bucket does not grant")??;
        Ok(())
    }

    fn probe(&self, client: String, bucket: &str) -> Probe {
        let (bucket, key, journal) = (bucket.to_owned(), self.key.clone(), self.journal.clone());
        Probe { client, bucket, op: self.last, key, journal }
    }
}

impl Probe {
    /// The number of its last operation.
    async fn until_granted(mut self) -> Result<u64> {
        while !(self.lock().await? && self.claim().await?) {
            sleep(Duration::from_millis(100)).await;
        }
        Ok(self.op)
    }

    async fn lock(&mut self) -> Result<bool> {
        let name = format!("probed/{}", self.op);
        let mut urls = urls().into_iter();
        let first = urls.next().context("there are nodes")?;
        let connecting = connect(first).bucket(&self.bucket).key(&self.key);
        let connecting = urls.fold(connecting, Connect::or);
        let Ok(Ok(connection)) = timeout(ATTEMPT, connecting).await else { return Ok(false) };
        let agent = connection.agent(&self.client)?;
        let call = Invocation::Request {
            name: name.clone(),
            mode: Mode::Exclusive,
            steal: false,
            max_hold_ms: None,
        };
        let op = self.invoke(call);
        let Ok(guard) = agent.locks().request(&name).timeout(ATTEMPT).await else {
            self.answer(op, Completion::Unknown);
            return Ok(false);
        };
        let gain = Gain { token: Some(guard.fencing_token().get()), ..Gain::default() };
        self.answer(op, Completion::Ok { durable: false, gain });
        let release = self.invoke(Invocation::Release { of: op });
        let _ = timeout(ATTEMPT, guard.release()).await;
        self.answer(release, Completion::Unknown);
        _ = timeout(ATTEMPT, connection.close()).await;
        Ok(true)
    }

    async fn claim(&mut self) -> Result<bool> {
        let http = HttpCaller::new(&urls(), Some(&self.key))?;
        let (name, ttl_ms) = (format!("probed/{}", self.op), 10_000);
        let body = json!({"resource": name, "claimant": self.client, "ttlMs": ttl_ms});
        let claimant = self.client.clone();
        let op = self.invoke(Invocation::Claim { name: name.clone(), claimant, ttl_ms });
        let with = With { body: Some(body), ..With::default() };
        let reply = http.post(&self.bucket, "claims", with).await;
        let CallReply::Done(claimed) = &reply else {
            self.answer(op, reply.failure());
            return Ok(false);
        };
        let claim = Some(format!("{}-{op}", self.client));
        self.answer(op, durable(Gain { token: claimed["fencingToken"].as_u64(), claim, ..Gain::default() }));
        Ok(true)
    }

    fn invoke(&mut self, call: Invocation) -> u64 {
        self.op += 1;
        let (client, op, bucket) = (self.client.clone(), self.op, self.bucket.clone());
        self.journal.write(now(), What::Invoke { client, op, bucket, call });
        op
    }

    fn answer(&self, op: u64, answer: Completion) {
        self.journal.write(now(), What::Answer { client: self.client.clone(), op, answer });
    }
}
