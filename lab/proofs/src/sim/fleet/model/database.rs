//! The model database: servers with a history, a standby that follows, and the statements on their way.
//!
//! ```text
//!   node ─ lane ─▶ calls: slow, held ─▶ Statement ─▶ Tables, log ─▶ standby
//!        ◀──────── answers: slow, lost, waiting for a synchronous standby
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockhouse_store::{NodeId, Slot};
use parking_lot::Mutex;
use random::Random;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::plant::Plant;
use super::tables::{Statement, StatementKind, Tables};

/// The database, as all nodes have it.
#[derive(Debug)]
pub(crate) struct Database(Mutex<State>);

/// The standby that a failover promotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standby {
    /// A commit is acknowledged before the standby has it.
    Asynchronous,
    /// A commit is acknowledged once the standby has it.
    Synchronous,
}

/// A connection of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    /// The process.
    pub(crate) process: usize,
    pub(crate) traffic: Traffic,
}

/// What a connection of a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Traffic {
    /// Commits.
    Commits,
    /// Takes, and what a slot has.
    Loads,
    /// Polls and all else.
    Looks,
}

impl Traffic {
    /// Commits first.
    pub(crate) const ALL: [Self; 3] = [Self::Commits, Self::Loads, Self::Looks];
}

struct State {
    now_ms: u64,
    random: Random,
    plant: Option<Plant>,
    standby: Standby,
    /// Whether the calendar of the servers is good for the leap of a new generation.
    has_calendar: bool,
    /// The one that was promoted last is the last.
    servers: Vec<Server>,
    /// The lanes that are not at the last server.
    stay: BTreeMap<Lane, usize>,
    /// A lane on which nothing passes until then.
    cut: BTreeMap<Lane, u64>,
    /// No server takes a statement until then.
    away_until_ms: u64,
    /// Another program has locked the tables that this traffic needs, until then.
    locked: BTreeMap<Traffic, u64>,
    /// A page of the rows of a slot cannot be read until then.
    damaged: BTreeMap<Slot, u64>,
    is_calm: bool,
    /// Every message to and from it takes a millisecond, and no standby follows.
    is_steady: bool,
    calls: Vec<Call>,
    answers: VecDeque<Answer>,
    /// When each node has renewed last, and what the outages came to by then.
    renewals: BTreeMap<NodeId, (u64, Outages)>,
    outages: Outages,
    news: News,
}

#[derive(Clone, Copy, Debug, Default)]
struct Outages {
    ms: u64,
    count: u64,
}

/// What has happened since it was asked for last.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// How many statements were carried out, by what they are for.
    pub(crate) statements: BTreeMap<StatementKind, u64>,
    pub(crate) generations: u64,
    pub(crate) lost_answers: u64,
    pub(crate) held: u64,
    pub(crate) burials: u64,
    /// What no statement may do: a node is declared dead although no database was there to which it could
    /// renew, or loses a slot while it lives.
    pub(crate) wrongs: Vec<String>,
}

#[derive(Debug)]
struct Server {
    tables: Tables,
    timeline: u64,
    /// The tables after each transaction that the standby may lack; the first is what it has for sure.
    log: VecDeque<Tables>,
    /// How many transactions came before the first of the log.
    before: u64,
    /// How many transactions the standby has.
    standby_has: u64,
    standby_away_until_ms: u64,
    is_alive: bool,
}

struct Call {
    due_ms: u64,
    lane: Lane,
    server: usize,
    run: Box<dyn FnOnce(&mut Statement<'_>) -> Reply + Send>,
}

type Reply = Box<dyn FnOnce() + Send>;

struct Answer {
    due_ms: u64,
    lane: Lane,
    server: usize,
    /// How many transactions the standby has to have first.
    waits_for: Option<u64>,
    reply: Reply,
}

/// So slow that the cost of the calls of a few callers together is above that of a commit.
const WRITES_PER_MS: u64 = 5;

/// The longest log.
const LOG: usize = 400;

impl Database {
    pub(crate) fn new(
        slots: u16,
        standby: Standby,
        has_calendar: bool,
        plant: Option<Plant>,
        seed: u64,
    ) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            now_ms: 0,
            random: Random::new(seed),
            plant,
            standby,
            has_calendar,
            servers: vec![Server::new(Tables::new(slots), 1)],
            stay: BTreeMap::new(),
            cut: BTreeMap::new(),
            away_until_ms: 0,
            locked: BTreeMap::new(),
            damaged: BTreeMap::new(),
            is_calm: false,
            is_steady: false,
            calls: Vec::new(),
            answers: VecDeque::new(),
            renewals: BTreeMap::new(),
            outages: Outages::default(),
            news: News::default(),
        })))
    }

    /// One that nothing ever happens to.
    pub(crate) fn steady(slots: u16, seed: u64) -> Arc<Self> {
        let database = Self::new(slots, Standby::Asynchronous, true, None, seed);
        {
            let mut state = database.0.lock();
            (state.is_calm, state.is_steady) = (true, true);
        }
        database
    }

    /// The answer to a statement; none if it does not come in time: then the connection is given up, and the
    /// statement may still have its effect.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        lane: Lane,
        limit: Duration,
        statement: impl FnOnce(&mut Statement<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let run = Box::new(move |under_way: &mut Statement<'_>| -> Reply {
            let said = statement(under_way);
            // The one that asked may be gone.
            Box::new(move || _ = sender.send(said))
        });
        self.0.lock().send(lane, run);
        let answer = timeout(limit, answer).await.ok().and_then(Result::ok);
        if answer.is_none() {
            self.0.lock().connect_anew(lane);
        }
        answer
    }

    /// A random number.
    pub(crate) fn draw(&self) -> u64 {
        self.0.lock().random.next_u64()
    }

    /// What is due at that instant happens.
    pub(crate) fn go_on(&self, now_ms: u64) {
        let replies = self.0.lock().go_on(now_ms);
        // Each wakes a task, which may own a connection.
        replies.into_iter().for_each(|reply| reply());
    }

    pub(crate) fn take_news(&self) -> News {
        std::mem::take(&mut self.0.lock().news)
    }

    /// No statement is taken for so long.
    pub(crate) fn go_away(&self, ms: u64) {
        let mut state = self.0.lock();
        if state.now_ms >= state.away_until_ms {
            state.outages.count += 1;
        }
        state.away_until_ms = state.now_ms + ms;
    }

    /// Statements of that traffic, of all nodes, wait for so long, and are carried out then.
    pub(crate) fn lock_tables(&self, which: &[Traffic], ms: u64) {
        let mut state = self.0.lock();
        let until = state.now_ms + ms;
        if which.contains(&Traffic::Looks) && !state.is_locked(Traffic::Looks) {
            state.outages.count += 1;
        }
        state.locked.extend(which.iter().map(|traffic| (*traffic, until)));
    }

    /// What is kept of the slot can neither be read nor be written for so long.
    pub(crate) fn damage(&self, slot: Slot, ms: u64) {
        let mut state = self.0.lock();
        let until = state.now_ms + ms;
        state.damaged.insert(slot, until);
    }

    /// Nothing passes over these connections of a process for so long.
    pub(crate) fn cut(&self, process: usize, which: &[Traffic], ms: u64) {
        let mut state = self.0.lock();
        let until = state.now_ms + ms;
        state.cut.extend(which.iter().map(|traffic| (Lane { process, traffic: *traffic }, until)));
    }

    /// The standby does not follow for so long.
    pub(crate) fn lose_standby(&self, ms: u64) {
        let mut state = self.0.lock();
        let until = state.now_ms + ms;
        state.last().standby_away_until_ms = until;
    }

    /// The standby is promoted. With lanes that stay, the old server goes on for these.
    pub(crate) fn fail_over(&self, stay: &[Lane]) {
        let mut state = self.0.lock();
        let old = state.servers.len() - 1;
        let server = &mut state.servers[old];
        let tables = server.tables_of_standby().clone();
        let timeline = server.timeline + 1;
        server.is_alive = !stay.is_empty();
        // Nothing of the old one reaches the standby any more.
        server.standby_away_until_ms = u64::MAX;
        state.stay = stay.iter().map(|lane| (*lane, old)).collect();
        state.servers.push(Server::new(tables, timeline));
        // Locks end with their server, and its pages are its own.
        state.locked.clear();
        state.damaged.clear();
    }

    /// Whether a server of before the last failover still takes statements.
    pub(crate) fn has_old_server(&self) -> bool {
        let state = self.0.lock();
        state.servers.iter().rev().skip(1).any(|server| server.is_alive)
    }

    /// Every server but the last one ends.
    pub(crate) fn end_old_servers(&self) {
        let mut state = self.0.lock();
        let last = state.servers.len() - 1;
        state.servers[..last].iter_mut().for_each(|server| server.is_alive = false);
        state.stay.clear();
    }

    /// The row of a node is deleted by hand, if there is one of that label.
    pub(crate) fn delete_by_hand(&self, label: &str) -> bool {
        let mut state = self.0.lock();
        let server = state.last();
        let Some(id) = server.tables.nodes.iter().find(|row| *row.label == *label).map(|row| row.id) else {
            return false;
        };
        server.tables.nodes.retain(|row| row.id != id);
        server.has_written();
        true
    }

    /// Every fault ends.
    pub(crate) fn calm_down(&self) {
        self.end_old_servers();
        let mut state = self.0.lock();
        (state.is_calm, state.away_until_ms) = (true, 0);
        state.cut.clear();
        state.locked.clear();
        state.damaged.clear();
        state.last().standby_away_until_ms = 0;
    }

    /// Looks at the tables of the last server.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.0.lock().last().tables)
    }
}

impl State {
    fn last(&mut self) -> &mut Server {
        let last = self.servers.len() - 1;
        &mut self.servers[last]
    }

    fn is_locked(&self, traffic: Traffic) -> bool {
        self.locked.get(&traffic).is_some_and(|until| self.now_ms < *until)
    }

    fn send(&mut self, lane: Lane, run: Box<dyn FnOnce(&mut Statement<'_>) -> Reply + Send>) {
        let slow = match self.random.below(100) {
            _ if self.is_steady => 1,
            // Held: by then the caller has long given up.
            0 if !self.is_calm => {
                self.news.held += 1;
                200 + self.random.below(3000) as u64
            }
            1..4 => self.random.below(150) as u64,
            _ => 1 + self.random.below(6) as u64,
        };
        let server = self.stay.get(&lane).copied().unwrap_or(self.servers.len() - 1);
        self.calls.push(Call { due_ms: self.now_ms + slow, lane, server, run });
    }

    /// The lane has a new connection: to the last server, or once more to the old one.
    fn connect_anew(&mut self, lane: Lane) {
        if self.random.percent(10) {
            self.stay.remove(&lane);
        }
    }

    fn go_on(&mut self, now_ms: u64) -> Vec<Reply> {
        let passed_ms = now_ms - self.now_ms;
        self.now_ms = now_ms;
        if now_ms < self.away_until_ms {
            self.outages.ms += passed_ms;
        } else {
            // As if it were away: no node sees the others.
            self.outages.ms += if self.is_locked(Traffic::Looks) { passed_ms } else { 0 };
            self.damaged.retain(|_, until| now_ms < *until);
            self.take_calls();
        }
        let (standby, random) = (self.standby, &mut self.random);
        self.servers.iter_mut().for_each(|server| server.replicate(now_ms, standby, random));
        let mut replies = Vec::new();
        let is_due = |answer: &Answer| {
            let server = &self.servers[answer.server];
            answer.due_ms <= now_ms && answer.waits_for.is_none_or(|count| server.standby_has >= count)
        };
        let mut at = 0;
        while at < self.answers.len() {
            let answer = &self.answers[at];
            if self.servers[answer.server].is_alive && !is_due(answer) {
                at += 1;
                continue;
            }
            let Some(answer) = self.answers.remove(at) else { break };
            let is_cut = self.cut.get(&answer.lane).is_some_and(|until| now_ms < *until);
            if self.servers[answer.server].is_alive && !is_cut {
                replies.push(answer.reply);
            }
        }
        replies
    }

    /// Carries out the calls that have arrived, in the order in which they have.
    fn take_calls(&mut self) {
        let now_ms = self.now_ms;
        let Self { calls, cut, locked, .. } = self;
        let lasts = |until: Option<&u64>| until.is_some_and(|until| now_ms < *until);
        let is_due = |call: &mut Call| {
            let is_held = lasts(cut.get(&call.lane)) || lasts(locked.get(&call.lane.traffic));
            call.due_ms <= now_ms && !is_held
        };
        let mut due: Vec<Call> = calls.extract_if(.., is_due).collect();
        due.sort_by_key(|call| call.due_ms);
        for call in due {
            if self.servers[call.server].is_alive {
                self.carry_out(call);
            }
        }
    }

    fn carry_out(&mut self, call: Call) {
        let Call { lane, server: number, run, .. } = call;
        let now = self.clock();
        let server = &mut self.servers[number];
        let mut statement = Statement {
            tables: &mut server.tables,
            timeline: server.timeline,
            now,
            random: &mut self.random,
            plant: self.plant,
            damaged: &self.damaged,
            kind: None,
            has_written: false,
            has_drawn: false,
            buried: None,
            renewed: None,
            takes_from: None,
            writes: 0,
        };
        let reply = run(&mut statement);
        let Statement { kind, has_written, has_drawn, buried, renewed, takes_from, writes, .. } = statement;
        if has_written && !self.is_steady {
            server.has_written();
        }
        if let Some(kind) = kind {
            *self.news.statements.entry(kind).or_default() += 1;
        }
        let waits_for = (has_written && self.standby == Standby::Synchronous).then(|| server.count());
        self.news.generations += u64::from(has_drawn);
        self.note_life(renewed, buried);
        if let Some(owner) = takes_from {
            self.news.wrongs.push(format!("a slot was taken from node {owner:?}, which lives"));
        }
        if !self.is_calm && self.random.percent(1) {
            self.news.lost_answers += 1;
            return;
        }
        let more_ms = if self.is_steady { 0 } else { self.random.below(6) as u64 + writes / WRITES_PER_MS };
        let due_ms = self.now_ms + 1 + more_ms;
        self.answers.push_back(Answer { due_ms, lane, server: number, waits_for, reply });
    }

    fn note_life(&mut self, renewed: Option<NodeId>, buried: Option<NodeId>) {
        if let Some(node) = renewed {
            self.renewals.insert(node, (self.now_ms, self.outages));
        }
        let Some(node) = buried else { return };
        self.news.burials += 1;
        let Some((at_ms, before)) = self.renewals.get(&node) else { return };
        // A poll after an outage adds half a second of it at most.
        let credit_ms = 500 * (self.outages.count - before.count);
        let there_ms = self.now_ms - at_ms - (self.outages.ms - before.ms);
        if there_ms + credit_ms < LEAST_STILLNESS_MS {
            self.news.wrongs.push(format!(
                "node {node:?} was declared dead, but after its last renewal the database was there for {there_ms} ms only"
            ));
        }
    }

    /// The calendar of the servers.
    fn clock(&self) -> SystemTime {
        let since = if self.has_calendar { CALENDAR } else { Duration::ZERO };
        UNIX_EPOCH + since + Duration::from_millis(self.now_ms)
    }
}

/// The calendar at the beginning: 2026.
const CALENDAR: Duration = Duration::from_secs(1_767_225_600);

/// The shortest slot lease of a schedule, less 10 % for clocks that differ.
const LEAST_STILLNESS_MS: u64 = 1350;

impl Server {
    fn new(tables: Tables, timeline: u64) -> Self {
        let log = [tables.clone()].into();
        Self { tables, timeline, log, before: 0, standby_has: 0, standby_away_until_ms: 0, is_alive: true }
    }

    /// How many transactions there were.
    fn count(&self) -> u64 {
        self.before + self.log.len() as u64 - 1
    }

    fn has_written(&mut self) {
        self.log.push_back(self.tables.clone());
        if self.log.len() > LOG {
            // The standby is behind by no more than the log.
            self.standby_has = self.standby_has.max(self.before + 1);
            self.forget();
        }
    }

    fn replicate(&mut self, now_ms: u64, standby: Standby, random: &mut Random) {
        if now_ms < self.standby_away_until_ms || self.standby_has == self.count() {
            return;
        }
        let follows = standby == Standby::Synchronous || random.percent(30);
        if follows {
            self.standby_has = self.count();
            self.forget();
        }
    }

    /// The log begins with what the standby has.
    fn forget(&mut self) {
        let known = self.standby_has - self.before;
        self.log.drain(..known as usize);
        self.before = self.standby_has;
    }

    fn tables_of_standby(&self) -> &Tables {
        &self.log[(self.standby_has - self.before) as usize]
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("servers", &self.servers).finish_non_exhaustive()
    }
}
