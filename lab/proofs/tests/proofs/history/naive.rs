//! A lock table that is too simple to be wrong, with clients that hammer it while it is killed and started
//! again, and lose connections. Time is a number, and every choice comes from the seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use random::Random;

use proofs::history::record::{Completion, Event, Found, Gain, Invocation, Mode, Reason, Thing, What};

const MS: u64 = 1_000_000;

/// The parameters of a run.
pub(crate) struct Plan {
    pub(crate) clients: usize,
    pub(crate) names: usize,
    pub(crate) kills: usize,
    /// The time for which the clients go on, in milliseconds.
    pub(crate) length_ms: u64,
}

/// A history of a run, in the order of time.
pub(crate) fn history(seed: u64, plan: &Plan) -> Vec<Event> {
    let mut run = Run::new(seed, plan);
    run.go();
    run.events.sort_by_key(|event| event.at);
    run.events
}

enum Task {
    Next(usize),
    Done(usize),
    Answer(usize),
    Kill,
    Start,
}

struct Hold {
    thing: Thing,
    token: u64,
    /// The claim's id, or the web lock's operation.
    id: String,
    ttl_ms: u64,
    ends: u64,
}

struct Doing {
    client: usize,
    number: u64,
    call: Invocation,
    answer: Option<Completion>,
    /// The connection is lost: the client never receives the answer, and perhaps the server never receives
    /// the request.
    deaf: bool,
    mute: bool,
    life: u64,
}

#[derive(Default)]
struct Client {
    ops: u64,
    owner: Option<String>,
    claims: Vec<(String, String)>,
    web: Vec<u64>,
}

struct Run {
    random: Random,
    now: u64,
    end: u64,
    names: usize,
    tasks: BinaryHeap<Reverse<(u64, u64, usize)>>,
    queued: Vec<Task>,
    doing: Vec<Doing>,
    clients: Vec<Client>,
    events: Vec<Event>,
    /// Counts the lives of the server; odd while it runs.
    life: u64,
    token: u64,
    owners: BTreeMap<String, (u64, u64)>,
    table: BTreeMap<String, Vec<Hold>>,
    assigned: BTreeMap<String, (String, String, u64)>,
}

impl Run {
    fn new(seed: u64, plan: &Plan) -> Self {
        let mut run = Self {
            random: Random::new(seed),
            now: 0,
            end: plan.length_ms * MS,
            names: plan.names,
            tasks: BinaryHeap::new(),
            queued: Vec::new(),
            doing: Vec::new(),
            clients: (0..plan.clients).map(|_| Client::default()).collect(),
            events: Vec::new(),
            life: 1,
            token: 0,
            owners: BTreeMap::new(),
            table: BTreeMap::new(),
            assigned: BTreeMap::new(),
        };
        run.write(What::ServerStarted { epoch: "1".to_owned() });
        for client in 0..plan.clients {
            run.later(1, 2 * MS, Task::Next(client));
        }
        for kill in 0..plan.kills {
            let at = run.end / (plan.kills as u64 + 1) * (kill as u64 + 1);
            run.later(at, at + MS, Task::Kill);
        }
        run
    }

    fn go(&mut self) {
        while let Some(Reverse((at, _, task))) = self.tasks.pop() {
            self.now = at;
            match std::mem::replace(&mut self.queued[task], Task::Start) {
                Task::Next(client) => self.next(client),
                Task::Done(op) => self.done(op),
                Task::Answer(op) => self.answer(op),
                Task::Kill => self.kill(),
                Task::Start => self.start(),
            }
        }
        for client in 0..self.clients.len() {
            self.now += 1;
            self.write(What::ClientEnded { client: name_of(client) });
        }
        self.now += 1;
        self.expire();
        let found = self.shown(None);
        self.write(What::Readout { bucket: "b".to_owned(), began: self.now, found });
    }

    fn later(&mut self, from: u64, to: u64, task: Task) {
        let at = self.now + from + self.random.next_u64() % (to - from);
        self.tasks.push(Reverse((at, self.queued.len() as u64, self.queued.len())));
        self.queued.push(task);
    }

    fn write(&mut self, what: What) {
        self.events.push(Event { at: self.now, what });
    }

    fn runs(&self) -> bool {
        self.life % 2 == 1
    }

    fn kill(&mut self) {
        if !self.runs() {
            return;
        }
        self.life += 1;
        self.write(What::ServerKilled);
        // The holders of web locks learn of their loss before another client can get them.
        let holds =
            self.table.values_mut().flat_map(|holds| holds.extract_if(.., |hold| is_web(&hold.thing)));
        let lost: Vec<String> = holds.map(|hold| hold.id).collect();
        for id in lost {
            let (client, op) = id.split_once('/').unwrap();
            let (index, op) = (client.parse::<usize>().unwrap(), op.parse::<u64>().unwrap());
            if self.clients[index].web.contains(&op) {
                self.clients[index].web.retain(|held| *held != op);
                self.write(What::Lost { client: name_of(index), op, deadline: Some(self.now) });
            }
        }
        self.later(MS, 4 * MS, Task::Start);
    }

    fn start(&mut self) {
        self.life += 1;
        self.write(What::ServerStarted { epoch: self.life.to_string() });
        self.token += 1000;
        let now = self.now;
        self.owners.values_mut().for_each(|(ttl, ends)| *ends = now + *ttl * MS);
        for hold in self.table.values_mut().flatten().filter(|hold| matches!(hold.thing, Thing::Claim { .. }))
        {
            hold.ends = now + hold.ttl_ms * MS;
        }
    }

    fn next(&mut self, index: usize) {
        if self.now >= self.end {
            return;
        }
        let call = self.choose(index);
        let client = &mut self.clients[index];
        client.ops += 1;
        let number = client.ops;
        if let Invocation::Release { of } = call {
            client.web.retain(|held| *held != of);
        }
        self.write(What::Invoke {
            client: name_of(index),
            op: number,
            bucket: "b".to_owned(),
            call: call.clone(),
        });
        let (deaf, mute) = (self.random.percent(4), self.random.percent(4));
        let op =
            Doing { client: index, number, call, answer: None, deaf: deaf || mute, mute, life: self.life };
        self.doing.push(op);
        let op = self.doing.len() - 1;
        self.later(1, MS, Task::Done(op));
        self.later(MS, 2 * MS, Task::Answer(op));
    }

    fn choose(&mut self, index: usize) -> Invocation {
        let name = format!("n{}", self.random.below(self.names));
        let mode = if self.random.percent(50) { Mode::Exclusive } else { Mode::Shared };
        let client = &self.clients[index];
        let claim = self.random.pick(&client.claims).cloned();
        let Some(owner) = client.owner.clone() else {
            // Some owners live long, some are forgotten soon.
            let ttl_ms = if self.random.percent(50) { 60_000 } else { 20 };
            return Invocation::OpenOwner { ttl_ms, max_ms: None };
        };
        match (self.random.below(16), claim) {
            (0, _) => Invocation::Touch { owner },
            (1, _) if self.random.percent(20) => Invocation::EndOwner { owner },
            (2, _) if self.random.percent(20) => Invocation::UnlockAll { owner },
            (3..5, _) => Invocation::Unlock { owner, name },
            (5..7, _) => Invocation::Lock { owner, name, mode },
            (7, Some((name, claim))) => Invocation::Renew { name, claim },
            (8, Some((name, claim))) if self.random.percent(30) => Invocation::ReleaseClaim { name, claim },
            (9..11, Some((name, claim))) => Invocation::Finalize { name, claim },
            (11, _) => Invocation::Unassign { name },
            (12, _) => Invocation::Look { name },
            (14, _) if self.random.percent(30) => {
                let held = self.table.get(&name).and_then(|holds| holds.first()).map(|hold| hold.token);
                Invocation::Break { name, token: held.unwrap_or(self.token + 1) }
            }
            (13, _) => match self.random.pick(&self.clients[index].web) {
                Some(of) => Invocation::Release { of: *of },
                None => {
                    // Only some names are ever stolen, so that on the others nothing excuses a loss.
                    let steal = name == "n0" && self.random.percent(30);
                    let mode = if steal { Mode::Exclusive } else { mode };
                    Invocation::Request { name, mode, steal, max_hold_ms: None }
                }
            },
            _ => {
                let ttl_ms = if self.random.percent(50) { 60_000 } else { 15 };
                Invocation::Claim { name, claimant: name_of(index), ttl_ms }
            }
        }
    }

    /// The server does it, if it is the one that was asked and still runs.
    fn done(&mut self, op: usize) {
        let doing = &self.doing[op];
        if doing.mute || !self.runs() || doing.life != self.life {
            return;
        }
        let (call, id) = (doing.call.clone(), format!("{}/{}", doing.client, doing.number));
        self.expire();
        self.doing[op].answer = Some(self.table_does(&call, id));
    }

    fn answer(&mut self, op: usize) {
        let doing = &self.doing[op];
        let index = doing.client;
        let gone = doing.deaf || doing.life != self.life;
        let answer = doing.answer.clone().filter(|_| !gone).unwrap_or(Completion::Unknown);
        let (number, call) = (doing.number, doing.call.clone());
        let client = &mut self.clients[index];
        match (&call, &answer) {
            (Invocation::OpenOwner { .. }, Completion::Ok { gain, .. }) => {
                client.owner.clone_from(&gain.owner);
            }
            (Invocation::EndOwner { .. }, _) | (_, Completion::Refused { reason: Reason::OwnerGone, .. }) => {
                client.owner = None;
            }
            (Invocation::Claim { name, .. }, Completion::Ok { gain, .. }) => {
                client.claims.extend(gain.claim.iter().map(|claim| (name.clone(), claim.clone())));
            }
            (Invocation::Request { .. }, Completion::Ok { .. }) => client.web.push(number),
            // No client would ever release the lock: its session ends.
            (Invocation::Request { .. }, Completion::Unknown) => {
                let id = format!("{index}/{number}");
                self.table.values_mut().for_each(|holds| holds.retain(|hold| hold.id != id));
            }
            _ => {}
        }
        self.write(What::Answer { client: name_of(index), op: number, answer });
        self.later(1, 3 * MS, Task::Next(index));
    }

    fn expire(&mut self) {
        let now = self.now;
        self.owners.retain(|_, (_, ends)| *ends > now);
        for holds in self.table.values_mut() {
            holds.retain(|hold| match &hold.thing {
                Thing::Offline { owner, .. } => self.owners.contains_key(owner),
                Thing::Claim { .. } => hold.ends > now,
                _ => true,
            });
        }
    }

    fn table_does(&mut self, call: &Invocation, id: String) -> Completion {
        if let Some(owner) = call.owner() {
            match self.owners.get_mut(owner) {
                Some((ttl, ends)) => *ends = self.now + *ttl * MS,
                None => return refused(Reason::OwnerGone),
            }
        }
        match call {
            Invocation::Request { name, mode, steal, .. } => {
                let thing = Thing::Web { mode: *mode };
                if *steal {
                    self.steal(name);
                }
                self.grant(name, thing, id, 0, false)
            }
            Invocation::Release { of } => {
                let held = format!("{}/{of}", id.split_once('/').unwrap().0);
                done(self.end(|hold| is_web(&hold.thing) && hold.id == held), false)
            }
            // No resource of this table checks tokens.
            Invocation::Pass { .. } => done(true, false),
            Invocation::OpenOwner { ttl_ms, .. } => {
                self.token += 1;
                let owner = self.token.to_string();
                self.owners.insert(owner.clone(), (*ttl_ms, self.now + ttl_ms * MS));
                ok(Gain { owner: Some(owner), ..Gain::default() })
            }
            Invocation::Touch { .. } => done(true, false),
            Invocation::EndOwner { owner } => {
                self.owners.remove(owner);
                self.end(|hold| is_of(&hold.thing, owner));
                done(true, true)
            }
            Invocation::UnlockAll { owner } => {
                self.end(|hold| is_of(&hold.thing, owner));
                done(true, true)
            }
            Invocation::Lock { owner, name, mode } => self.lock(name, owner, *mode, id),
            Invocation::Unlock { owner, name } => {
                let holds = self.table.entry(name.clone()).or_default();
                let before = holds.len();
                holds.retain(|hold| !is_of(&hold.thing, owner));
                done(holds.len() < before, true)
            }
            Invocation::Claim { name, claimant, ttl_ms } => match self.assigned.get(name) {
                Some((_, whose, token)) => Completion::Refused {
                    reason: Reason::AlreadyAssigned,
                    token: Some(*token),
                    claimant: Some(whose.clone()),
                },
                None => self.grant(
                    name,
                    Thing::Claim { claimant: claimant.clone() },
                    format!("claim {id}"),
                    *ttl_ms,
                    true,
                ),
            },
            Invocation::Renew { name, claim } => {
                self.with_claim(name, claim, |hold, now| hold.ends = now + hold.ttl_ms * MS)
            }
            Invocation::ReleaseClaim { name, claim } => self.with_claim(name, claim, |hold, _| hold.ends = 0),
            Invocation::Finalize { name, claim } => self.finalize(name, claim),
            Invocation::Unassign { name } => done(self.assigned.remove(name).is_some(), true),
            Invocation::Break { name, token } => {
                let holds = self.table.get_mut(name);
                let broken = holds.and_then(|holds| holds.extract_if(.., |hold| hold.token == *token).next());
                let was = broken.is_some();
                broken.iter().for_each(|hold| self.lose(hold));
                done(was, true)
            }
            Invocation::Look { name } => ok(Gain { found: Some(self.shown(Some(name))), ..Gain::default() }),
        }
    }

    fn steal(&mut self, name: &str) {
        self.table.remove(name).iter().flatten().for_each(|hold| self.lose(hold));
    }

    /// The holder of a web lock learns at once that it is lost.
    fn lose(&mut self, hold: &Hold) {
        if !is_web(&hold.thing) {
            return;
        }
        let (client, op) = hold.id.split_once('/').unwrap();
        let (index, op) = (client.parse::<usize>().unwrap(), op.parse::<u64>().unwrap());
        if self.clients[index].web.contains(&op) {
            self.clients[index].web.retain(|held| *held != op);
            self.write(What::Lost { client: name_of(index), op, deadline: None });
        }
    }

    fn lock(&mut self, name: &str, owner: &str, mode: Mode, id: String) -> Completion {
        let holds = self.table.entry(name.to_owned()).or_default();
        let own = holds.iter().position(|hold| is_of(&hold.thing, owner));
        match own.map(|at| (at, &holds[at])) {
            Some((_, hold)) if mode == Mode::Shared || hold.thing == exclusive(owner) => {
                ok(Gain { token: Some(hold.token), again: true, ..Gain::default() })
            }
            Some((at, _)) if holds.len() == 1 => {
                holds.remove(at);
                self.grant(name, exclusive(owner), id, 0, true)
            }
            Some(_) => refused(Reason::Busy),
            None => self.grant(name, Thing::Offline { owner: owner.to_owned(), mode }, id, 0, true),
        }
    }

    fn grant(&mut self, name: &str, thing: Thing, id: String, ttl_ms: u64, durable: bool) -> Completion {
        let holds = self.table.entry(name.to_owned()).or_default();
        if holds.iter().any(|hold| !(is_shared(&hold.thing) && is_shared(&thing))) {
            return refused(Reason::Busy);
        }
        self.token += 1;
        let token = self.token;
        let claim = matches!(thing, Thing::Claim { .. }).then(|| id.clone());
        holds.push(Hold { thing, token, id, ttl_ms, ends: self.now + ttl_ms * MS });
        Completion::Ok { durable, gain: Gain { token: Some(token), claim, ..Gain::default() } }
    }

    fn end(&mut self, which: impl Fn(&Hold) -> bool) -> bool {
        self.table.values_mut().flat_map(|holds| holds.extract_if(.., |hold| which(hold))).count() > 0
    }

    fn with_claim(&mut self, name: &str, claim: &str, what: impl Fn(&mut Hold, u64)) -> Completion {
        let now = self.now;
        let holds = self.table.entry(name.to_owned()).or_default();
        let Some(hold) = holds.iter_mut().find(|hold| matches!(hold.thing, Thing::Claim { .. })) else {
            return refused(Reason::ClaimExpired);
        };
        if hold.id != claim {
            return refused(Reason::ClaimLost);
        }
        what(hold, now);
        self.expire();
        done(true, true)
    }

    fn finalize(&mut self, name: &str, claim: &str) -> Completion {
        let finalized = |token, claimant: &str| {
            ok(Gain { token: Some(token), claimant: Some(claimant.to_owned()), ..Gain::default() })
        };
        if let Some((_, claimant, token)) = self.assigned.get(name).filter(|(id, ..)| id == claim) {
            return finalized(*token, claimant);
        }
        let answer = self.with_claim(name, claim, |_, _| {});
        if matches!(answer, Completion::Refused { .. }) {
            return answer;
        }
        let holds = self.table.entry(name.to_owned()).or_default();
        let hold = holds.pop().unwrap();
        let Thing::Claim { claimant } = hold.thing else { panic!("a claim is alone") };
        self.assigned.insert(name.to_owned(), (hold.id, claimant.clone(), hold.token));
        finalized(hold.token, &claimant)
    }

    fn shown(&self, only: Option<&str>) -> Vec<Found> {
        let wanted = |name: &str| only.is_none_or(|only| only == name);
        let mut found = Vec::new();
        for (name, holds) in self.table.iter().filter(|(name, _)| wanted(name)) {
            let held = holds.iter().map(|hold| Found {
                name: name.clone(),
                thing: hold.thing.clone(),
                token: hold.token,
            });
            found.extend(held);
        }
        for (name, (_, claimant, token)) in self.assigned.iter().filter(|(name, _)| wanted(name)) {
            let thing = Thing::Assignment { claimant: claimant.clone() };
            found.push(Found { name: name.clone(), thing, token: *token });
        }
        found
    }
}

fn name_of(client: usize) -> String {
    format!("c{client}")
}

fn is_web(thing: &Thing) -> bool {
    matches!(thing, Thing::Web { .. })
}

/// A rule of its own, so that the judge's rule is compared with another one.
fn is_shared(thing: &Thing) -> bool {
    match thing {
        Thing::Web { mode } | Thing::Offline { mode, .. } => *mode == Mode::Shared,
        Thing::Claim { .. } | Thing::Assignment { .. } => false,
    }
}

fn is_of(thing: &Thing, who: &str) -> bool {
    matches!(thing, Thing::Offline { owner, .. } if owner == who)
}

fn exclusive(owner: &str) -> Thing {
    Thing::Offline { owner: owner.to_owned(), mode: Mode::Exclusive }
}

fn ok(gain: Gain) -> Completion {
    Completion::Ok { durable: true, gain }
}

fn done(was: bool, durable: bool) -> Completion {
    Completion::Ok { durable, gain: Gain { was: Some(was), ..Gain::default() } }
}

fn refused(reason: Reason) -> Completion {
    Completion::Refused { reason, token: None, claimant: None }
}
