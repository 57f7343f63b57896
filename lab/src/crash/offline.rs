//! A client of offline locks: owners one after the other, each with a few locks.

use proofs::history::record::{Completion, Found, Gain, Invocation, Mode, Reason, Thing};
use random::Random;
use serde_json::{Value, json};

use super::KIND;
use super::http::{CallReply, HttpCaller, With};
use super::recorder::{Recorder, durable, now, refusal};
use super::worker::Ground;

pub(crate) struct OfflineClient<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) http: HttpCaller,
    pub(crate) recorder: Recorder,
    pub(crate) random: Random,
}

/// An owner, as its client knows it.
struct Owner {
    bucket: String,
    id: String,
    secret: String,
    /// The locks that the owner should hold.
    held: Vec<usize>,
}

impl OfflineClient<'_> {
    pub(crate) async fn run(mut self) {
        let mut owner = None;
        while !self.ground.is_over() {
            let alive = match &mut owner {
                None => {
                    owner = self.open().await;
                    continue;
                }
                Some(owner) => self.act(owner).await,
            };
            if !alive {
                owner = None;
            }
        }
        self.recorder.ended();
    }

    async fn open(&mut self) -> Option<Owner> {
        let bucket = self.ground.bucket(&mut self.random);
        let (least, more) = self.ground.ways.owner_ttl_ms;
        let ttl_ms = least + self.random.below(more) as u64;
        let op = self.recorder.invoke(&bucket, Invocation::OpenOwner { ttl_ms, max_ms: None });
        let body = json!({"label": self.recorder.client(), "ttlMs": ttl_ms});
        let reply = self.http.post(&bucket, "owners", With { body: Some(body), ..With::default() }).await;
        if let CallReply::Done(opened) = &reply
            && let (Some(id), Some(secret)) = (opened["owner"].as_str(), opened["ownerSecret"].as_str())
        {
            let gain = Gain { owner: Some(id.to_owned()), ..Gain::default() };
            self.recorder.answer(op, durable(gain));
            return Some(Owner { bucket, id: id.to_owned(), secret: secret.to_owned(), held: Vec::new() });
        }
        self.recorder.answer(op, reply.failure());
        self.ground.pause_after(&reply).await;
        None
    }

    /// Does one thing as the owner; false once it is given up.
    async fn act(&mut self, owner: &mut Owner) -> bool {
        if self.random.below(1000) == 0 {
            // The owner is left to its TTL.
            return false;
        }
        let reply = match self.random.below(100) {
            0..45 if owner.held.len() < 2 => self.lock(owner).await,
            0..80 => self.unlock(owner).await,
            80..88 => self.unlock_all(owner).await,
            88..91 => self.touch(owner).await,
            91..94 => {
                let name = self.ground.name(&mut self.random);
                match self.ground.look(&self.http, &mut self.recorder, &owner.bucket, name).await {
                    Ok(found) if self.random.percent(50) => self.break_one(&owner.bucket, &found).await,
                    Ok(_) => CallReply::Done(Value::Null),
                    Err(reply) => reply,
                }
            }
            _ => {
                self.end(owner).await;
                return false;
            }
        };
        self.ground.pause_after(&reply).await;
        reply.reason() != Some(Reason::OwnerGone)
    }

    /// Locks one record or several, all or none.
    async fn lock(&mut self, owner: &mut Owner) -> CallReply {
        let first = self.ground.number(&mut self.random);
        let count = if self.random.percent(70) { 1 } else { 2 };
        let numbers: Vec<usize> = (0..count).map(|nth| self.ground.neighbour(first, nth)).collect();
        let modes: Vec<Mode> = numbers.iter().map(|_| self.mode()).collect();
        let (id, at) = (owner.id.clone(), now());
        let call = |(number, mode): (&usize, &Mode)| Invocation::Lock {
            owner: id.clone(),
            name: self.ground.name_of(*number),
            mode: *mode,
        };
        let calls: Vec<Invocation> = numbers.iter().zip(&modes).map(call).collect();
        let ops: Vec<u64> =
            calls.into_iter().map(|call| self.recorder.invoke_at(at, &owner.bucket, call)).collect();
        let wanted = |(number, mode): (&usize, &Mode)| {
            let intent = if *mode == Mode::Shared { "read" } else { "write" };
            json!({"kind": KIND, "id": number.to_string(), "intent": intent})
        };
        let locks: Vec<Value> = numbers.iter().zip(&modes).map(wanted).collect();
        let body = json!({"owner": owner.id, "locks": locks});
        let reply = self.post(owner, "locks", body).await;
        let at = now();
        for (nth, op) in ops.into_iter().enumerate() {
            self.recorder.answer_at(at, op, granted(&reply, nth));
        }
        if matches!(reply, CallReply::Done(_)) {
            owner.held.retain(|held| !numbers.contains(held));
            owner.held.extend(numbers);
        }
        reply
    }

    /// Releases something that is held, and now and then something that is not.
    async fn unlock(&mut self, owner: &mut Owner) -> CallReply {
        let held = (!owner.held.is_empty() && self.random.percent(95))
            .then(|| owner.held.swap_remove(self.random.below(owner.held.len())));
        let number = held.unwrap_or_else(|| self.ground.number(&mut self.random));
        let call = Invocation::Unlock { owner: owner.id.clone(), name: self.ground.name_of(number) };
        let op = self.recorder.invoke(&owner.bucket, call);
        let body = json!({"owner": owner.id, "locks": [{"kind": KIND, "id": number.to_string()}]});
        let reply = self.post(owner, "locks/release", body).await;
        self.recorder.answer(op, released(&reply));
        reply
    }

    async fn unlock_all(&mut self, owner: &mut Owner) -> CallReply {
        owner.held.clear();
        let op = self.recorder.invoke(&owner.bucket, Invocation::UnlockAll { owner: owner.id.clone() });
        let reply = self.post(owner, "locks/release", json!({"owner": owner.id, "all": true})).await;
        self.recorder.answer(op, released(&reply));
        reply
    }

    async fn touch(&mut self, owner: &Owner) -> CallReply {
        let op = self.recorder.invoke(&owner.bucket, Invocation::Touch { owner: owner.id.clone() });
        let path = format!("owners/{}/heartbeat", owner.id);
        let with = With { secret: Some(&owner.secret), ..With::default() };
        let reply = self.http.post(&owner.bucket, &path, with).await;
        // A sign of life is never written: it is done, and not promised to survive.
        let done = Completion::Ok { durable: false, gain: Gain::default() };
        self.recorder.answer(op, if matches!(reply, CallReply::Done(_)) { done } else { reply.failure() });
        reply
    }

    async fn end(&mut self, owner: &Owner) {
        let op = self.recorder.invoke(&owner.bucket, Invocation::EndOwner { owner: owner.id.clone() });
        let with = With { secret: Some(&owner.secret), ..With::default() };
        let reply = self.http.delete(&owner.bucket, &format!("owners/{}", owner.id), with).await;
        let done = durable(Gain::default());
        self.recorder.answer(op, if matches!(reply, CallReply::Done(_)) { done } else { reply.failure() });
        self.ground.pause_after(&reply).await;
    }

    /// As an operator: ends one of the holds that were found, whosever it is, if it is there still.
    async fn break_one(&mut self, bucket: &str, found: &[Found]) -> CallReply {
        let is_hold = |found: &&Found| !matches!(found.thing, Thing::Assignment { .. });
        let holds: Vec<&Found> = found.iter().filter(is_hold).collect();
        let Some(Found { name, thing, token }) = self.random.pick(&holds) else {
            return CallReply::Done(Value::Null);
        };
        let call = Invocation::Break { name: name.clone(), token: *token };
        let op = self.recorder.invoke(bucket, call);
        let body = json!({"holds": [{"name": name, "fencingToken": token}], "reason": "to see what follows"});
        let reply = self.http.post(bucket, "locks/break", With { body: Some(body), ..With::default() }).await;
        let answer = match &reply {
            CallReply::Done(broken) => {
                let was = broken["broken"].as_array().map(|broken| !broken.is_empty());
                // What becomes of a web lock is never written.
                let durable = !matches!(thing, Thing::Web { .. });
                Completion::Ok { durable, gain: Gain { was, ..Gain::default() } }
            }
            _ => reply.failure(),
        };
        self.recorder.answer(op, answer);
        reply
    }

    async fn post(&self, owner: &Owner, path: &str, body: Value) -> CallReply {
        let with = With { secret: Some(&owner.secret), body: Some(body), ..With::default() };
        self.http.post(&owner.bucket, path, with).await
    }

    fn mode(&mut self) -> Mode {
        if self.random.percent(40) { Mode::Shared } else { Mode::Exclusive }
    }
}

/// The outcome for the lock with that place in the call.
fn granted(reply: &CallReply, nth: usize) -> Completion {
    let CallReply::Done(locked) = reply else { return reply.failure() };
    let lock = &locked["locks"][nth];
    match lock["fencingToken"].as_u64() {
        Some(token) => {
            let again = lock["how"] == "alreadyHeld";
            durable(Gain { token: Some(token), again, ..Gain::default() })
        }
        None => refusal(Reason::Other),
    }
}

fn released(reply: &CallReply) -> Completion {
    match reply {
        CallReply::Done(body) => {
            let was = body["released"].as_u64().map(|count| count > 0);
            durable(Gain { was, ..Gain::default() })
        }
        _ => reply.failure(),
    }
}
