//! Clients that claim: each tries old tokens again and again, as late workers do.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::{ClaimError, Claims, Secret};
use random::Random;

use super::owner_client::Caller;
use crate::history::record::{Completion, Gain, Invocation, Reason};
use crate::sim::journal::Op;
use crate::sim::ledger::Sort;
use crate::sim::server::{NAMES, Place, ServerHandle, ServerLife, Started, WANTED};

/// A client of claims.
#[derive(Debug)]
pub(crate) struct ClaimClient {
    name: Arc<str>,
    place: Place,
    /// The claims that it was ever given, the latest last.
    claims: Vec<Known>,
    /// The number of claims that it has asked for with a key, and the last of them.
    keys: u64,
    last_key: Option<Keyed>,
    asked: Option<Started<Option<Known>>>,
    /// The token of the latest claim that was renewed shortly before its end.
    renewed: u64,
}

/// A claim that may be asked for again.
#[derive(Clone, Debug)]
struct Keyed {
    name: usize,
    ttl_ms: u64,
    key: Option<String>,
}

/// The state of a claim at its client.
#[derive(Clone, Debug)]
struct Known {
    id: String,
    name: usize,
    secret: Secret,
    token: u64,
    /// It is certain until then, however clocks differ.
    certain_until_ms: u64,
}

/// How long before the end of a claim its client renews it at the earliest.
const LAST_MOMENT_MS: u64 = 15;

impl ClaimClient {
    pub(crate) fn new(number: usize, place: Place) -> Self {
        let (claims, name) = (Vec::new(), format!("buyer-{number}").into());
        Self { name, place, claims, keys: 0, last_key: None, asked: None, renewed: 0 }
    }

    /// Asks for something, or gives up what was asked.
    pub(crate) fn act(&mut self, life: &ServerLife, random: &mut Random) {
        self.receive();
        if let Some(asked) = &self.asked {
            if random.percent(15) {
                life.server.journal.count("futures dropped");
                life.server.journal.gives_up(&self.name);
                asked.drop_future();
                self.asked = None;
            }
            return;
        }
        let caller = self.caller(&life.server);
        let known = self.some_claim(random);
        self.asked = Some(match (random.below(100), known) {
            (0..30, _) | (_, None) => {
                let (wanted, again) = self.new_claim(random);
                life.start(claim(caller, wanted, again))
            }
            (30..42, Some(known)) => life.start(renew(caller, known)),
            (42..54, Some(known)) => life.start(release(caller, known)),
            (54..78, Some(known)) => life.start(finalize(caller, known)),
            (78..92, Some(known)) => {
                let token = random.percent(50).then_some(known.token);
                life.start(unassign(caller, known.name, token))
            }
            (_, Some(known)) => life.start(wrong_token(caller, known)),
        });
    }

    /// Renews the latest claim, once and shortly before its end: a claim that ends early is noticed.
    pub(crate) fn time_has_passed(&mut self, life: &ServerLife) {
        let now_ms = life.server.journal.now_ms();
        let is_ending = |known: &&Known| (now_ms..now_ms + LAST_MOMENT_MS).contains(&known.certain_until_ms);
        let Some(known) = self.claims.last().filter(is_ending) else { return };
        if self.asked.is_some() || self.renewed == known.token {
            return;
        }
        life.server.journal.count("claim: renewed at the last moment");
        self.renewed = known.token;
        self.asked = Some(life.start(renew(self.caller(&life.server), known.clone())));
    }

    /// Takes note of an answer.
    pub(crate) fn receive(&mut self) {
        let Some(asked) = &self.asked else { return };
        match asked.take() {
            Some(Some(known)) => self.claims.push(known),
            Some(None) => {}
            None => return,
        }
        self.asked = None;
    }

    /// Whether an answer is still to come from that life of the server.
    pub(crate) fn waits_for(&self, life: u64) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.life == life)
    }

    /// When the question was asked whose answer is still to come from that life of the server.
    pub(crate) fn asked_ms(&self, life: u64) -> Option<u64> {
        self.asked.as_ref().filter(|asked| asked.life == life && !asked.is_over()).map(|asked| asked.asked_ms)
    }

    /// Notes that this life of the server is over, and its answers with it.
    pub(crate) fn life_is_over(&mut self, life: u64) {
        self.receive();
        if self.waits_for(life) {
            self.asked = None;
        }
    }

    /// After a restart: is the claim still there? Its TTL runs anew.
    pub(crate) fn look_again(&mut self, life: &ServerLife) {
        let Some(known) = self.claims.last() else { return };
        let claims = life.server.bucket(&self.place).claims();
        let current = life.block_on(claims.get(NAMES[known.name]));
        if let Ok(Some(info)) = current
            && info.fencing_token.get() == known.token
        {
            let call = Invocation::Renew { name: NAMES[known.name].to_owned(), claim: known.id.clone() };
            let op = self.caller(&life.server).ask(call);
            life.server.journal.ok(op, false, Gain::default());
        }
    }

    /// Waits for the last answer; claims end by themselves.
    pub(crate) fn leave(&mut self, _: &ServerLife) {
        self.receive();
    }

    pub(crate) fn has_left(&self) -> bool {
        self.asked.is_none()
    }

    fn caller(&self, server: &ServerHandle) -> Caller {
        Caller { server: server.clone(), client: self.name.clone(), place: self.place.clone() }
    }

    /// Mostly the latest.
    fn some_claim(&self, random: &mut Random) -> Option<Known> {
        if random.percent(70) { self.claims.last().cloned() } else { random.pick(&self.claims).cloned() }
    }

    /// A claim to make, and whether it was requested before.
    fn new_claim(&mut self, random: &mut Random) -> (Keyed, bool) {
        if let Some(last) = self.last_key.clone().filter(|_| random.percent(25)) {
            return (last, true);
        }
        let (name, ttl_ms) = (random.below(WANTED), 150 + random.below(1200) as u64);
        if !random.percent(30) {
            return (Keyed { name, ttl_ms, key: None }, false);
        }
        self.keys += 1;
        let key = Some(format!("key {} of {}", self.keys, self.name));
        let keyed = Keyed { name, ttl_ms, key };
        self.last_key = Some(keyed.clone());
        (keyed, false)
    }
}

impl Caller {
    fn claims(&self) -> Claims {
        self.server.bucket(&self.place).claims()
    }

    fn not_claimed(&self, op: Op, error: &ClaimError) {
        let (reason, class) = match error {
            ClaimError::Claimed { .. } => (Reason::Claimed, "claim: claimed by another"),
            ClaimError::Busy { .. } => (Reason::Busy, "claim: busy"),
            ClaimError::ClaimExpired => (Reason::ClaimExpired, "claim: expired"),
            ClaimError::ClaimLost { .. } => (Reason::ClaimLost, "claim: lost"),
            ClaimError::Recovering { .. } => (Reason::Recovering, "refused: recovering"),
            ClaimError::Closed => (Reason::Other, "refused: closed"),
            ClaimError::AlreadyAssigned(assignment) => {
                self.server.journal.count("claim: already assigned");
                let token = assignment.fencing_token.get();
                self.server.check_durable(&self.place, Sort::Assignment, token);
                let (reason, claimant) = (Reason::AlreadyAssigned, Some(assignment.claimant.clone()));
                if let Some(op) = op {
                    self.server
                        .journal
                        .answer(op, Completion::Refused { reason, token: Some(token), claimant });
                }
                return;
            }
            ClaimError::Store(error) => return self.server.failed(op, error),
            error => return self.server.strange(error),
        };
        self.server.journal.count(class);
        self.server.journal.refused(op, reason);
    }

    fn call(&self, known: &Known, call: impl FnOnce(String, String) -> Invocation) -> Op {
        self.ask(call(NAMES[known.name].to_owned(), known.id.clone()))
    }
}

async fn claim(caller: Caller, wanted: Keyed, again: bool) -> Option<Known> {
    let Keyed { name, ttl_ms, key } = wanted;
    let claimant = caller.client.to_string();
    let certain_until_ms = caller.server.journal.now_ms() + ttl_ms * 9 / 10;
    let op =
        caller.ask(Invocation::Claim { name: NAMES[name].to_owned(), claimant: claimant.clone(), ttl_ms });
    let mut new = caller.claims().claim(NAMES[name], claimant, Duration::from_millis(ttl_ms));
    if let Some(key) = key {
        new = new.idempotency_key(key);
    }
    match new.await {
        Ok(claim) => {
            let (secret, token) = (claim.token().clone(), claim.fencing_token());
            caller.server.check_durable(&caller.place, Sort::Claim, token.get());
            let (id, is_new) = caller.server.journal.id_of_claim(&secret);
            if !again {
                caller.server.check_token(&caller.place, token);
            }
            caller.server.journal.count(if is_new { "claim: claimed" } else { "claim: told again" });
            let (token, claim) = (token.get(), Some(id.clone()));
            let gain = Gain { token: Some(token), again, claim, ..Gain::default() };
            // A client that has given up does not get the answer.
            caller.server.journal.ok(op, true, gain).then_some(Known {
                id,
                name,
                secret,
                token,
                certain_until_ms,
            })
        }
        Err(error) => {
            caller.not_claimed(op, &error);
            None
        }
    }
}

async fn renew(caller: Caller, known: Known) -> Option<Known> {
    let op = caller.call(&known, |name, claim| Invocation::Renew { name, claim });
    match caller.claims().renew(NAMES[known.name], &known.secret).await {
        Ok(_) => {
            caller.server.journal.count("claim: renewed");
            caller.server.journal.ok(op, false, Gain::default());
        }
        Err(error) => caller.not_claimed(op, &error),
    }
    None
}

async fn release(caller: Caller, known: Known) -> Option<Known> {
    let op = caller.call(&known, |name, claim| Invocation::ReleaseClaim { name, claim });
    match caller.claims().release(NAMES[known.name], &known.secret).await {
        Ok(()) => {
            caller.server.check_durable(&caller.place, Sort::Unclaimed, known.token);
            caller.server.journal.count("claim: released");
            caller.server.journal.ok(op, true, Gain::default());
        }
        Err(error) => caller.not_claimed(op, &error),
    }
    None
}

async fn finalize(caller: Caller, known: Known) -> Option<Known> {
    let op = caller.call(&known, |name, claim| Invocation::Finalize { name, claim });
    match caller.claims().finalize(NAMES[known.name], &known.secret).await {
        Ok(assignment) => {
            let token = assignment.fencing_token.get();
            caller.server.check_durable(&caller.place, Sort::Assignment, token);
            caller.server.journal.count("claim: finalized");
            let claimant = Some(assignment.claimant);
            caller.server.journal.ok(op, true, Gain { token: Some(token), claimant, ..Gain::default() });
        }
        Err(error) => caller.not_claimed(op, &error),
    }
    None
}

async fn unassign(caller: Caller, name: usize, token: Option<u64>) -> Option<Known> {
    let op = caller.ask(Invocation::Unassign { name: NAMES[name].to_owned() });
    let fencing = token.map(lockhouse::FencingToken::new);
    match caller.claims().unassign(NAMES[name], fencing).await {
        Ok(was) => {
            if let Some(token) = token.filter(|_| was) {
                caller.server.check_durable(&caller.place, Sort::Unassigned, token);
            }
            caller.server.journal.count(if was { "claim: unassigned" } else { "claim: nothing to unassign" });
            if token.is_some() && !was {
                // Another assignment may stand.
                caller.server.journal.refused(op, Reason::Other);
            } else {
                caller.server.journal.ok(op, true, Gain { was: Some(was), ..Gain::default() });
            }
        }
        Err(error) => caller.not_claimed(op, &error),
    }
    None
}

/// A token that belongs to no claim gives no right to anything.
async fn wrong_token(caller: Caller, known: Known) -> Option<Known> {
    let wrong: Result<Secret, _> = "00".repeat(20).parse();
    if let Ok(wrong) = wrong
        && caller.claims().finalize(NAMES[known.name], &wrong).await.is_ok()
    {
        caller.server.strange(format!("{} was made final with a token that is nobody's", NAMES[known.name]));
    }
    None
}
