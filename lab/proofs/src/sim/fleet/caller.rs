//! Callers of what is durable: claims of seats that become assignments, and locks of owners on documents.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::{Bucket, BucketKey, Claim, Mode, NameBuf, Owner};
use parking_lot::Mutex;
use random::Random;

use super::judge::{Acknowledged, Judge, Thing};
use super::model::Database;
use super::process::Process;

/// A caller with one call under way at most.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) name: Arc<str>,
    pub(super) key: BucketKey,
    random: Random,
    state: State,
    answer: Arc<Mutex<Option<Answer>>>,
    waits_until_ms: Option<u64>,
    /// How many calls were answered.
    pub(super) answers: u64,
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    /// A claim that is to be made final.
    Claimed {
        seat: String,
        claim: Claim,
    },
    /// An owner, with the document that it has.
    Owner {
        owner: Owner,
        document: Option<String>,
    },
}

/// What a call has led to; nothing where it was refused or its outcome is unknown.
#[derive(Debug)]
enum Answer {
    Claimed { seat: String, claim: Claim },
    Assigned { seat: String, token: u64 },
    Opened(Owner),
    Locked { document: String, token: u64 },
    Nothing,
}

/// How long an answer is waited for.
const PATIENCE_MS: u64 = 1500;

/// Longer than any schedule.
const TTL: Duration = Duration::from_secs(600);

impl Caller {
    pub(super) fn new(number: usize, key: BucketKey, seed: u64) -> Self {
        Self {
            name: format!("caller-{number}").into(),
            key,
            random: Random::new(seed),
            state: State::Idle,
            answer: Arc::default(),
            waits_until_ms: None,
            answers: 0,
        }
    }

    /// Whether it has a call to make now.
    pub(super) fn wants_to_call(&mut self, now_ms: u64) -> bool {
        if self.waits_until_ms.is_some_and(|until| now_ms >= until) {
            // Whatever still comes of the call: its answer comes too late.
            self.waits_until_ms = None;
            self.answer = Arc::default();
        }
        self.waits_until_ms.is_none() && self.random.percent(3)
    }

    /// Takes note of an answer.
    pub(super) fn receive(&mut self, judge: &mut Judge, database: &Database) {
        let Some(answer) = self.answer.lock().take() else { return };
        self.waits_until_ms = None;
        let client = self.name.clone();
        match answer {
            Answer::Claimed { seat, claim } => {
                judge.count("claimed");
                let token = claim.fencing_token().get();
                let gain = Acknowledged { client, token, is_assigned: false };
                judge.acknowledged(Thing::Seat(seat.clone()), gain, database);
                self.state = State::Claimed { seat, claim };
            }
            Answer::Assigned { seat, token } => {
                judge.count("assigned");
                let gain = Acknowledged { client, token, is_assigned: true };
                judge.acknowledged(Thing::Seat(seat), gain, database);
                self.state = State::Idle;
            }
            Answer::Opened(owner) => self.state = State::Owner { owner, document: None },
            Answer::Locked { document: name, token } => {
                judge.count("locked by an owner");
                let gain = Acknowledged { client, token, is_assigned: false };
                judge.acknowledged(Thing::Document(name.clone()), gain, database);
                if let State::Owner { document, .. } = &mut self.state {
                    *document = Some(name);
                }
            }
            Answer::Nothing => {
                judge.count("refused or unknown");
                // What a failover has lost is not asked for without end.
                if self.random.percent(20) && !matches!(&self.state, State::Owner { document: Some(_), .. }) {
                    self.state = State::Idle;
                }
                return;
            }
        }
        self.answers += 1;
    }

    /// Calls that node.
    pub(super) fn call(&mut self, now_ms: u64, process: &mut Process, judge: &mut Judge) {
        judge.count("commands");
        self.waits_until_ms = Some(now_ms + PATIENCE_MS);
        let (answer, key) = (self.answer.clone(), self.key.clone());
        let hand_over = move |value: Answer| *answer.lock() = Some(value);
        let state = self.state.clone();
        match state {
            State::Idle if self.random.percent(40) => {
                let label = self.name.to_string();
                process.call(&key, move |bucket| open(bucket, label), hand_over);
            }
            State::Idle => {
                let seat = self.wanted("seat", now_ms);
                let claimant = self.name.to_string();
                process.call(&key, move |bucket| claim(bucket, seat, claimant), hand_over);
            }
            State::Claimed { seat, claim: known } => {
                process.call(&key, move |bucket| finalize(bucket, seat, known), hand_over);
            }
            State::Owner { owner, document: None } => {
                let name = self.wanted("document", now_ms);
                process.call(&key, move |bucket| lock(bucket, owner, name), hand_over);
            }
            State::Owner { owner, document: Some(name) } => {
                judge.given_back(&Thing::Document(name));
                self.state = State::Idle;
                process.call(&key, move |bucket| end(bucket, owner), hand_over);
            }
        }
    }

    /// Few enough, so that some want the same. What was left behind with an unknown outcome is wanted no
    /// more.
    fn wanted(&mut self, what: &str, now_ms: u64) -> String {
        format!("{} {what} {}", self.key.bucket, now_ms / 1500 + self.random.below(2) as u64)
    }
}

#[expect(clippy::unwrap_used, reason = "no name is too long")]
fn name_of(text: &str) -> NameBuf {
    NameBuf::new(text).unwrap()
}

async fn claim(bucket: Bucket, seat: String, claimant: String) -> Answer {
    match bucket.claims().claim(&*seat, claimant, TTL).await {
        Ok(claim) => Answer::Claimed { seat, claim },
        Err(_) => Answer::Nothing,
    }
}

async fn finalize(bucket: Bucket, seat: String, known: Claim) -> Answer {
    match bucket.claims().finalize(&*seat, known.token()).await {
        Ok(assignment) => Answer::Assigned { seat, token: assignment.fencing_token.get() },
        Err(_) => Answer::Nothing,
    }
}

async fn open(bucket: Bucket, label: String) -> Answer {
    bucket.owners().open(label, TTL).await.map_or(Answer::Nothing, Answer::Opened)
}

async fn lock(bucket: Bucket, owner: Owner, document: String) -> Answer {
    let name = name_of(&document);
    let Ok(owner) = bucket.owners().resume(owner.id(), owner.secret()).await else { return Answer::Nothing };
    let locked = owner.lock_names(&[(name.as_name(), Mode::Exclusive)], None).await;
    match locked.as_deref() {
        Ok([lock]) => Answer::Locked { document, token: lock.token.get() },
        _ => Answer::Nothing,
    }
}

async fn end(bucket: Bucket, owner: Owner) -> Answer {
    if let Ok(owner) = bucket.owners().resume(owner.id(), owner.secret()).await {
        // Unknown or not: it is not asked for any more.
        _ = owner.end().await;
    }
    Answer::Nothing
}
