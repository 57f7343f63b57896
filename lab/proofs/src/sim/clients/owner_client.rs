//! Clients with business transactions: each has one owner at a time, which outlives crashes of the server,
//! and asks one thing at a time.

mod questions;

use std::sync::Arc;

use lockhouse::core::{Acquired, OwnerId};
use lockhouse::{LockError, LockType, Mode, OfflineLock, Owner, OwnerError, RecordKind, Secret, Wanted};
use random::Random;

use crate::history::record::{self, Gain, Invocation, Reason};
use crate::sim::journal::Op;
use crate::sim::ledger::Sort;
use crate::sim::server::{NAMES, Place, ServerHandle, ServerLife, Started, WANTED};

/// A client of owners and offline locks.
#[derive(Debug)]
pub(crate) struct OwnerClient {
    name: Arc<str>,
    place: Place,
    owner: Option<Known>,
    asked: Option<Started<Learned>>,
}

/// The state of an owner at its client.
#[derive(Clone, Debug)]
struct Known {
    id: OwnerId,
    secret: Secret,
}

/// The change that an answer makes for the client.
#[derive(Debug)]
enum Learned {
    Opened(Known),
    Gone,
    Nothing,
}

impl OwnerClient {
    pub(crate) fn new(number: usize, place: Place) -> Self {
        Self { name: format!("clerk-{number}").into(), place, owner: None, asked: None }
    }

    /// Asks for something, or gives up what was asked.
    pub(crate) fn act(&mut self, life: &ServerLife, random: &mut Random) {
        self.receive();
        if let Some(asked) = &self.asked {
            if random.percent(15) {
                life.server.journal.count("futures dropped");
                life.server.journal.gives_up(&self.name);
                self.may_be_undone(&life.server);
                asked.drop_future();
                self.asked = None;
            }
            return;
        }
        let caller = self.caller(&life.server);
        let Some(known) = self.owner.clone() else {
            let (ttl_ms, max_ms) = (200 + random.below(1500) as u64, random.percent(15).then_some(1000));
            self.asked = Some(life.start(questions::open(caller, ttl_ms, max_ms)));
            return;
        };
        self.asked = Some(match random.below(100) {
            0..35 => life.start(questions::lock(caller, known, wishes(random))),
            35..50 => {
                let (name, stale) = (random.below(WANTED), random.percent(20));
                life.start(questions::unlock(caller, known, name, stale))
            }
            50..55 => life.start(questions::unlock_all(caller, known)),
            55..75 => {
                let plan = Plan::new(random);
                life.start(questions::step(caller, known, plan))
            }
            75..85 => life.start(questions::touch(caller, known)),
            85..92 => life.start(questions::end(caller, known)),
            92..95 => life.start(questions::wrong_secret(caller, known)),
            _ => life.start(questions::look(caller, known)),
        });
    }

    /// Takes note of an answer.
    pub(crate) fn receive(&mut self) {
        let Some(asked) = &self.asked else { return };
        match asked.take() {
            Some(Learned::Opened(known)) => self.owner = Some(known),
            Some(Learned::Gone) => self.owner = None,
            Some(Learned::Nothing) => {}
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

    /// After a restart: is the owner still there? Its lease runs anew.
    pub(crate) fn look_again(&mut self, life: &ServerLife) {
        let Some(known) = self.owner.clone() else { return };
        let caller = self.caller(&life.server);
        let op = caller.ask(Invocation::Touch { owner: known.id.to_string() });
        let found = life.block_on(caller.owner(&known, op));
        match found {
            Ok(_) => _ = caller.server.journal.ok(op, false, Gain::default()),
            Err(Learned::Gone) => self.owner = None,
            Err(_) => {}
        }
    }

    /// Ends the owner, so that nothing is left.
    pub(crate) fn leave(&mut self, life: &ServerLife) {
        self.receive();
        if self.asked.is_none()
            && let Some(known) = self.owner.clone()
        {
            self.asked = Some(life.start(questions::end(self.caller(&life.server), known)));
        }
    }

    pub(crate) fn has_left(&self) -> bool {
        self.asked.is_none() && self.owner.is_none()
    }

    /// The future that is about to be dropped takes back what it has locked.
    fn may_be_undone(&self, server: &ServerHandle) {
        let Some(known) = &self.owner else { return };
        for name in NAMES {
            let call = Invocation::Unlock { owner: known.id.to_string(), name: name.to_owned() };
            let op = server.journal.invoke(&self.name, server.number, self.place.label, call);
            server.journal.unknown(Some(op));
        }
    }

    fn caller(&self, server: &ServerHandle) -> Caller {
        Caller { server: server.clone(), client: self.name.clone(), place: self.place.clone() }
    }
}

/// The caller of a server: the client, the server and the bucket.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) server: ServerHandle,
    pub(super) client: Arc<str>,
    pub(super) place: Place,
}

impl Caller {
    pub(super) fn ask(&self, call: Invocation) -> Op {
        self.server.ask(&self.client, &self.place, call)
    }

    /// The owner, as the server finds it for every call. `op` is answered if it does not.
    async fn owner(&self, known: &Known, op: Op) -> Result<Owner, Learned> {
        let owners = self.server.bucket(&self.place).owners();
        let error = match owners.resume(known.id, &known.secret).await {
            Ok(owner) => return Ok(owner),
            Err(error) => error,
        };
        match error {
            OwnerError::Unknown => Err(self.gone(op)),
            OwnerError::Store(error) => {
                self.server.failed(op, &error);
                Err(Learned::Nothing)
            }
            error => {
                self.server.strange(format!("owner {} of {}: {error}", known.id, self.client));
                Err(Learned::Nothing)
            }
        }
    }

    fn gone(&self, op: Op) -> Learned {
        self.server.journal.count("refused: owner gone");
        self.server.journal.refused(op, Reason::OwnerGone);
        // A displaced server may not know of the owner.
        if self.server.is_displaced() { Learned::Nothing } else { Learned::Gone }
    }

    fn granted(&self, op: Op, lock: &OfflineLock) {
        let token = lock.token;
        self.server.check_durable(&self.place, Sort::Lock, token.get());
        if lock.how != Acquired::AlreadyHeld {
            self.server.check_token(&self.place, token);
        }
        self.server.journal.count(match lock.how {
            Acquired::Fresh => "offline: locked",
            Acquired::Upgraded => "offline: upgraded",
            Acquired::AlreadyHeld => "offline: held already",
        });
        let again = lock.how == Acquired::AlreadyHeld;
        self.server.journal.ok(op, true, Gain { token: Some(token.get()), again, ..Gain::default() });
    }

    fn not_locked(&self, ops: &[Op], error: &LockError) -> Learned {
        let (reason, class) = match error {
            LockError::Conflict(_) => (Reason::Busy, "offline: conflict"),
            LockError::Recovering { .. } => (Reason::Recovering, "refused: recovering"),
            LockError::Closed => (Reason::Other, "refused: closed"),
            LockError::OwnerEnded => {
                ops.iter().for_each(|op| _ = self.gone(*op));
                return if self.server.is_displaced() { Learned::Nothing } else { Learned::Gone };
            }
            LockError::Store(error) => {
                ops.iter().for_each(|op| self.server.failed(*op, error));
                return Learned::Nothing;
            }
            error => {
                self.server.strange(error);
                return Learned::Nothing;
            }
        };
        self.server.journal.count(class);
        ops.iter().for_each(|op| self.server.journal.refused(*op, reason));
        Learned::Nothing
    }

    /// Checks that a lock that was unlocked just now is unlocked on the disk.
    fn unlocked(&self, known: &Known, name: usize) {
        if self.server.is_displaced() {
            return;
        }
        let name = record(name);
        let held = self.server.disk.ledger(|ledger| ledger.holds(&self.place.scope, &name, known.id.get()));
        if let Some(token) = held {
            let (owner, name) = (known.id, name.as_name().display().to_string());
            self.server.journal.breach(format!(
                "owner {owner} was told that {name} is unlocked, but on the disk it has it with token {token}"
            ));
        }
    }
}

/// The actions of a step, drawn beforehand.
#[derive(Debug)]
struct Plan {
    begins: bool,
    locks: Vec<Vec<(usize, Mode)>>,
    releases: Vec<usize>,
    commits: bool,
}

impl Plan {
    fn new(random: &mut Random) -> Self {
        let locks = (0..=random.below(2)).map(|_| wishes(random)).collect();
        let releases = (0..random.below(3)).map(|_| random.below(WANTED)).collect();
        Self { begins: random.percent(50), locks, releases, commits: random.percent(65) }
    }
}

/// Draws one to three names, each with a mode, and now and then all the others.
fn wishes(random: &mut Random) -> Vec<(usize, Mode)> {
    if random.percent(2) {
        return (WANTED..NAMES.len()).map(|name| (name, Mode::Exclusive)).collect();
    }
    let mode = |random: &mut Random| if random.percent(50) { Mode::Shared } else { Mode::Exclusive };
    let count = if random.percent(70) { 1 } else { 2 + random.below(2) };
    let first = random.below(WANTED);
    (0..count).map(|nth| ((first + nth) % WANTED, mode(random))).collect()
}

fn wanted(wishes: &[(usize, Mode)]) -> Vec<Wanted> {
    let kind = RecordKind::new("k", LockType::ReadWrite);
    let want = |(name, mode): &(usize, Mode)| {
        let record = kind.record(name);
        if *mode == Mode::Shared { record.for_read() } else { record.for_write() }
    };
    wishes.iter().map(want).collect()
}

fn record(name: usize) -> lockhouse::NameBuf {
    let kind = RecordKind::new("k", LockType::ReadWrite);
    kind.record(name).name().to_buf()
}

pub(in crate::sim) fn mode(mode: Mode) -> record::Mode {
    match mode {
        Mode::Exclusive => record::Mode::Exclusive,
        Mode::Shared => record::Mode::Shared,
    }
}
