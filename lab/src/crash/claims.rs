//! A client of claims: claim, prepare, make final; now and then too late, twice, or not at all.

use std::time::Duration;

use proofs::history::record::{Completion, Gain, Invocation, Reason};
use random::Random;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::http::{CallReply, HttpCaller, With};
use super::recorder::{Recorder, durable};
use super::worker::{Ground, fail};

/// The number of attempts at a call whose outcome is unknown, or for which the server is not ready.
const ATTEMPTS: usize = 100;

pub(crate) struct ClaimsClient<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) http: HttpCaller,
    pub(crate) recorder: Recorder,
    pub(crate) random: Random,
}

/// A claim, as its claimant knows it.
struct Claim {
    bucket: String,
    name: String,
    token: String,
    /// The claim's name in the history.
    id: String,
    ttl: Duration,
    key: String,
}

impl ClaimsClient<'_> {
    pub(crate) async fn run(mut self) {
        while !self.ground.is_over() {
            let bucket = self.ground.bucket(&mut self.random);
            let name = self.ground.name(&mut self.random);
            if let Some(claim) = self.claim(&bucket, &name).await {
                self.use_up(&claim).await;
            }
        }
        self.recorder.ended();
    }

    /// Claims, with the same key until it is known what became of that.
    async fn claim(&mut self, bucket: &str, name: &str) -> Option<Claim> {
        let (least, more) = self.ground.ways.claim_ttl_ms;
        let ttl_ms = least + self.random.below(more) as u64;
        let key = format!("{}-{:016x}", self.recorder.client(), self.random.next_u64());
        let claim = Claim {
            bucket: bucket.to_owned(),
            name: name.to_owned(),
            token: String::new(),
            id: String::new(),
            ttl: Duration::from_millis(ttl_ms),
            key,
        };
        let mut again = false;
        for _ in 0..ATTEMPTS {
            match self.ask(&claim, again).await {
                Ok(claim) => return Some(claim),
                Err(reply) if reply.reason() == Some(Reason::AlreadyAssigned) => {
                    if self.random.percent(50) {
                        self.unassign(bucket, name).await;
                    }
                    return None;
                }
                Err(reply) if reply.is_unknown() => again = true,
                // Unless an earlier attempt may have succeeded, it need not be this name.
                Err(_) if !again => return None,
                Err(_) => {}
            }
            if self.ground.is_over() {
                return None;
            }
        }
        None
    }

    /// Claims once. `again` says that an attempt before may have succeeded, whose claim then is the answer.
    async fn ask(&mut self, claim: &Claim, again: bool) -> Result<Claim, CallReply> {
        let ttl_ms = claim.ttl.as_millis() as u64;
        let claimant = self.recorder.client().to_owned();
        let body = json!({"resource": claim.name, "claimant": claimant, "ttlMs": ttl_ms});
        let call = Invocation::Claim { name: claim.name.clone(), claimant, ttl_ms };
        let op = self.recorder.invoke(&claim.bucket, call);
        let with = With { key: Some(&claim.key), body: Some(body), ..With::default() };
        let reply = self.http.post(&claim.bucket, "claims", with).await;
        if let CallReply::Done(claimed) | CallReply::Replayed(claimed) = &reply
            && let (Some(secret), token @ Some(_)) =
                (claimed["token"].as_str(), claimed["fencingToken"].as_u64())
        {
            let id = id_of(secret);
            if !claim.id.is_empty() && matches!(reply, CallReply::Replayed(_)) {
                // A replayed answer shows the past, not the present.
                if id != claim.id {
                    fail(format_args!("a key stands for two claims: {} and {id}", claim.id));
                }
                self.recorder.refused(op, Reason::Other);
                return Err(reply);
            }
            let gain = Gain { token, claim: Some(id.clone()), again, ..Gain::default() };
            self.recorder.answer(op, durable(gain));
            let Claim { bucket, name, ttl, key, .. } = claim;
            let (bucket, name, key) = (bucket.clone(), name.clone(), key.clone());
            return Ok(Claim { bucket, name, token: secret.to_owned(), id, ttl: *ttl, key });
        }
        self.recorder.answer(op, reply.failure());
        self.ground.pause_after(&reply).await;
        Err(reply)
    }

    async fn use_up(&mut self, claim: &Claim) {
        if self.ground.ways.gives_up_claims && self.random.percent(8) {
            let part = self.random.below(130) as u32;
            // Up to a third too late.
            tokio::time::sleep(claim.ttl * part / 100).await;
        }
        if self.random.percent(20) {
            // The client acts as if the answer had been lost: the server answers with the same claim again.
            let _ = self.ask(claim, true).await;
        }
        if self.random.percent(30) {
            let call = Invocation::Renew { name: claim.name.clone(), claim: claim.id.clone() };
            self.present(claim, "claims/renew", call).await;
        }
        match self.random.below(100) {
            0..50 => self.finalize(claim).await,
            50..98 => self.release(claim).await,
            _ if !self.ground.ways.gives_up_claims => self.release(claim).await,
            // The claim is left to its TTL.
            _ => {}
        }
    }

    async fn release(&mut self, claim: &Claim) {
        let call = Invocation::ReleaseClaim { name: claim.name.clone(), claim: claim.id.clone() };
        self.present(claim, "claims/release", call).await;
    }

    async fn finalize(&mut self, claim: &Claim) {
        let call = || Invocation::Finalize { name: claim.name.clone(), claim: claim.id.clone() };
        let mut reply = self.present(claim, "claims/finalize", call()).await;
        for _ in 0..ATTEMPTS {
            if !reply.is_unknown() || self.ground.is_over() {
                break;
            }
            reply = self.present(claim, "claims/finalize", call()).await;
        }
        if !matches!(reply, CallReply::Done(_)) {
            return;
        }
        if self.random.percent(20) {
            self.present(claim, "claims/finalize", call()).await;
        }
        if self.random.percent(20) {
            let name = claim.name.clone();
            let _ = self.ground.look(&self.http, &mut self.recorder, &claim.bucket, name).await;
        }
        if self.random.percent(70) {
            self.unassign(&claim.bucket, &claim.name).await;
        }
    }

    /// A call whose credential is the claim's token.
    async fn present(&mut self, claim: &Claim, path: &str, call: Invocation) -> CallReply {
        let op = self.recorder.invoke(&claim.bucket, call);
        let body = json!({"resource": claim.name, "token": claim.token});
        let reply = self.http.post(&claim.bucket, path, With { body: Some(body), ..With::default() }).await;
        let answer = match &reply {
            // Renewals are never written, so that none is promised to survive.
            CallReply::Done(_) if path == "claims/renew" => {
                Completion::Ok { durable: false, gain: Gain::default() }
            }
            CallReply::Done(body) => durable(Gain {
                token: body["fencingToken"].as_u64(),
                claimant: body["claimant"].as_str().map(str::to_owned),
                ..Gain::default()
            }),
            other => other.failure(),
        };
        self.recorder.answer(op, answer);
        self.ground.pause_after(&reply).await;
        reply
    }

    async fn unassign(&mut self, bucket: &str, name: &str) {
        let op = self.recorder.invoke(bucket, Invocation::Unassign { name: name.to_owned() });
        let query = [("resource", name)];
        let with = With { query: &query, ..With::default() };
        let reply = self.http.delete(bucket, "assignments", with).await;
        let done = durable(Gain::default());
        self.recorder.answer(op, if matches!(reply, CallReply::Done(_)) { done } else { reply.failure() });
        self.ground.pause_after(&reply).await;
    }
}

/// A hash, as the token itself is a secret.
fn id_of(secret: &str) -> String {
    let hash = Sha256::digest(secret.as_bytes());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
