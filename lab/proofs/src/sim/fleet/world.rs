//! A schedule of the fleet: nodes and clients act in small steps of simulated time, while faults happen.
//! Then the faults end, and all must go on.

use std::sync::Arc;

use lockhouse::BucketKey;
use lockhouse::fleet::{BucketPlace, FleetNode, NodePhase};
use lockhouse_store::Slot;
use random::Random;

use super::caller::Caller;
use super::client::Client;
use super::judge::{Belief, Judge};
use super::model::Plant;
use super::model::{Database, News, Standby};
use super::node_process::{Ask, NodeNetwork, label};
use super::partial::Flood;
use super::process::{Process, SLOTS, Times};
use super::wire::Wire;
use crate::sim::journal::Written;

/// All that there is.
pub(super) struct World {
    pub(super) random: Random,
    pub(super) now_ms: u64,
    pub(super) times: Times,
    plant: Option<Plant>,
    pub(super) standby: Standby,
    pub(super) database: Arc<Database>,
    network: Arc<NodeNetwork>,
    pub(super) places: Vec<Place>,
    pub(super) clients: Vec<Client>,
    callers: Vec<Caller>,
    pub(super) judge: Judge,
    asks: Vec<(u64, Ask)>,
    /// Nodes that are cut off then, and for how long.
    pub(super) cuts: Vec<(u64, usize, u64)>,
    /// Nodes that leave then, are deleted by hand, killed, or cut off for long.
    pub(super) ends: Vec<(u64, End)>,
    /// Clients whose connections break off then.
    pub(super) breaks: Vec<(u64, usize)>,
    pub(super) floods: Vec<Flood>,
    /// Writes of clients, on their way to the guarded resource.
    writes: Vec<(u64, Belief)>,
    pub(super) old_server_until_ms: Option<u64>,
    /// The most failovers.
    pub(super) failovers: u64,
    /// Nothing further fails until then.
    pub(super) quiet_until_ms: u64,
    pub(super) is_calm: bool,
}

/// The node of which something becomes.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Of(usize),
    /// The node that has that slot by then.
    OfOwner(Slot),
}

/// Where a process runs, or will run again.
pub(super) struct Place {
    pub(super) process: Option<Process>,
    pub(super) starts_at_ms: u64,
    /// How fast its clock goes, in thousandths.
    rate: u64,
    pub(super) is_leaving: bool,
}

/// The step of simulated time.
pub(super) const STEP_MS: u64 = 10;

/// The least commands of a schedule.
pub(crate) const LEAST_COMMANDS: u64 = 50;

/// The least faults of a schedule.
pub(crate) const LEAST_FAULTS: u64 = 3;

/// How long faults happen.
const WILD_MS: u64 = 14_000;

/// How long all may take to go on after the last fault.
const MENDING_MS: u64 = 30_000;

/// Plays a schedule to its end.
///
/// # Errors
///
/// A process could not be started.
pub(crate) fn play(seed: u64, with_notes: bool, plant: Option<Plant>) -> Result<Written, String> {
    let mut world = World::new(seed, with_notes, plant);
    while world.is_wild() {
        world.something_fails();
        world.step()?;
    }
    world.mend()?;
    for place in &mut world.places {
        place.process.take().into_iter().for_each(Process::kill);
    }
    let World { mut judge, .. } = world;
    let notes = judge.take_notes();
    Ok(Written { events: Vec::new(), breaches: judge.breaches, tally: judge.tally, notes })
}

impl World {
    /// Whether faults still happen: for a time, and until enough was done.
    fn is_wild(&self) -> bool {
        let count = |class| self.judge.tally.of(class);
        let does_little = count("commands") < LEAST_COMMANDS || count("faults") < LEAST_FAULTS;
        self.now_ms < if does_little { 4 * WILD_MS } else { WILD_MS }
    }

    fn new(seed: u64, with_notes: bool, plant: Option<Plant>) -> Self {
        let mut random = Random::new(seed);
        let standby = if random.percent(50) { Standby::Synchronous } else { Standby::Asynchronous };
        let slot_lease_ms = 1500 + 500 * random.below(2) as u64;
        let times = Times {
            slot_lease_ms,
            has_two_slot_leases: random.percent(25),
            // Shorter than a takeover, or long enough to outlast it.
            lease_ms: [1000, 1500, 3000][random.below(3)],
            join_delay_ms: [0, slot_lease_ms / 4, slot_lease_ms][random.below(3)],
            has_calendar: random.percent(50),
        };
        let has_calendar = random.percent(50);
        // Two rollbacks in a row without a calendar may lead to the same numbers (`leap.rs`).
        let is_once = standby == Standby::Asynchronous && !has_calendar;
        let is_tame = random.percent(90);
        let rate = |random: &mut Random| {
            if is_tame { 975 + random.below(51) as u64 } else { 700 + random.below(601) as u64 }
        };
        let database = Database::new(SLOTS, standby, has_calendar, plant, random.next_u64());
        let keys = ["crm", "seats", "docs"].map(BucketKey::from);
        let place = |random: &mut Random, nth: u64| Place {
            process: None,
            starts_at_ms: 100 * nth + random.below(100) as u64,
            rate: 0,
            is_leaving: false,
        };
        let mut places: Vec<Place> =
            (0..2 + random.below(2) as u64).map(|nth| place(&mut random, nth)).collect();
        places.iter_mut().for_each(|place| place.rate = rate(&mut random));
        // Most of them are held at once, or many are free when a slot moves.
        let names = [3, 6][random.below(2)];
        let clients = (0..6).map(|nth| {
            let key = keys[if nth < 4 { 0 } else { 1 }].clone();
            Client::new(nth, key, names, rate(&mut random), random.next_u64())
        });
        let clients = clients.collect();
        let callers = (0..4).map(|nth| Caller::new(nth, keys[nth % 3].clone(), random.next_u64())).collect();
        Self {
            random,
            now_ms: 0,
            times,
            plant,
            standby,
            database,
            network: Arc::default(),
            places,
            clients,
            callers,
            judge: Judge::new(with_notes, is_tame),
            asks: Vec::new(),
            cuts: Vec::new(),
            ends: Vec::new(),
            breaks: Vec::new(),
            floods: Vec::new(),
            writes: Vec::new(),
            old_server_until_ms: None,
            failovers: if is_once { 1 } else { 2 },
            quiet_until_ms: 0,
            is_calm: false,
        }
    }

    pub(super) fn step(&mut self) -> Result<(), String> {
        self.now_ms += STEP_MS;
        self.judge.now_ms = self.now_ms;
        if self.old_server_until_ms.is_some_and(|until| self.now_ms >= until) {
            self.old_server_until_ms = None;
            self.judge.note(|| "the old server ends".to_owned());
            self.database.end_old_servers();
        }
        self.cut_what_is_due();
        self.database.go_on(self.now_ms);
        self.take_news();
        self.deliver_asks();
        self.run_processes()?;
        let beliefs = self.run_clients();
        self.judge.believed(&beliefs);
        self.run_callers();
        self.write(beliefs);
        Ok(())
    }

    fn take_news(&mut self) {
        let News { generations, lost_answers, held, burials, wrongs, .. } = self.database.take_news();
        let counts = [
            ("generations", generations),
            ("database: answers lost", lost_answers),
            ("database: statements held", held),
            ("nodes declared dead", burials),
        ];
        for (class, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.judge.note(|| class.to_owned());
            self.judge.tally.add(class, count);
        }
        if self.judge.judges_leases {
            wrongs.into_iter().for_each(|what| self.judge.breach(what));
        }
    }

    fn deliver_asks(&mut self) {
        for ask in std::mem::take(&mut *self.network.0.lock()) {
            let slow_ms = if self.random.percent(5) { 1500 } else { 20 };
            self.asks.push((self.now_ms + 1 + self.random.below(slow_ms) as u64, ask));
        }
        let now_ms = self.now_ms;
        let due: Vec<_> = self.asks.extract_if(.., |(due, _)| *due <= now_ms).collect();
        for (_, ask) in due {
            let nth = (0..self.places.len()).find(|nth| *label(*nth) == *ask.label);
            match nth.and_then(|nth| self.places[nth].process.as_ref()) {
                Some(process) if now_ms < process.paused_until_ms => self.asks.push((now_ms + STEP_MS, ask)),
                Some(process) => {
                    let slot = ask.slot;
                    process.asked(ask);
                    self.trouble_while_it_moves(nth.unwrap_or_default(), slot);
                }
                None => {}
            }
        }
    }

    fn run_processes(&mut self) -> Result<(), String> {
        for nth in 0..self.places.len() {
            let place = &mut self.places[nth];
            if let Some(process) = &mut place.process {
                process.run(self.now_ms);
                for event in process.take_events() {
                    if event.starts_with("Unservable") {
                        self.judge.count("slots that are damaged");
                    }
                    self.judge.note(|| format!("node-{nth}: {event}"));
                }
                if let Some(why) = process.failure() {
                    self.judge.count("processes that gave up");
                    self.judge.note(|| format!("node-{nth} gives up: {why}"));
                    self.kill(nth, 300);
                } else if place.is_leaving && process.has_left() {
                    self.judge.count("processes that have left");
                    self.judge.note(|| format!("node-{nth} has left"));
                    self.kill(nth, 500);
                }
            } else if self.now_ms >= place.starts_at_ms {
                self.judge.note(|| format!("node-{nth} starts"));
                let at = (self.now_ms, place.rate);
                let process = Process::start(nth, at, self.times, &self.database, &self.network, self.plant)?;
                (place.process, place.is_leaving) = (Some(process), false);
            }
        }
        Ok(())
    }

    /// The process ends, and starts again after that time.
    pub(super) fn kill(&mut self, nth: usize, pause_ms: u64) {
        let place = &mut self.places[nth];
        place.process.take().into_iter().for_each(Process::kill);
        place.starts_at_ms = self.now_ms + pause_ms;
    }

    fn run_clients(&mut self) -> Vec<Belief> {
        let mut beliefs = Vec::new();
        for nth in 0..self.clients.len() {
            beliefs.append(&mut self.clients[nth].act(self.now_ms, &mut self.judge));
            if self.clients[nth].wants_connection(self.now_ms) {
                self.connect(nth);
            }
        }
        beliefs
    }

    fn connect(&mut self, nth: usize) {
        let key = self.clients[nth].key.clone();
        let now_ms = self.now_ms;
        let Some(to) = self.find(&key) else { return self.clients[nth].waits(now_ms) };
        let wire = Wire::new(self.random.next_u64(), self.is_calm);
        self.judge.note(|| format!("{} connects to node-{to}", self.clients[nth].name));
        self.clients[nth].connect(now_ms, &wire, &mut self.judge);
        if let Some(process) = &mut self.places[to].process {
            process.connect(now_ms, &key, &wire);
        }
    }

    /// The process that has that bucket, as any node says that runs.
    pub(super) fn find(&mut self, key: &BucketKey) -> Option<usize> {
        let gateway = self.random.below(self.places.len());
        let process = self.places[gateway].process.as_ref()?;
        if self.now_ms < process.paused_until_ms {
            return None;
        }
        match process.node()?.find(key) {
            BucketPlace::Here(_) => Some(gateway),
            BucketPlace::There(row) => (0..self.places.len())
                .find(|nth| *label(*nth) == *row.label && self.places[*nth].process.is_some()),
            BucketPlace::Moving => None,
        }
    }

    fn run_callers(&mut self) {
        for nth in 0..self.callers.len() {
            self.callers[nth].receive(&mut self.judge, &self.database);
            if !self.callers[nth].wants_to_call(self.now_ms) {
                continue;
            }
            let key = self.callers[nth].key.clone();
            let Some(to) = self.find(&key) else { continue };
            // A process that stands still takes no call.
            let process = self.places[to].process.as_mut();
            if let Some(process) = process.filter(|process| self.now_ms >= process.paused_until_ms) {
                self.callers[nth].call(self.now_ms, process, &mut self.judge);
            }
        }
    }

    /// Clients write with the tokens that they rely on. What is on its way arrives late, also of a client
    /// that has lost its lock since.
    fn write(&mut self, beliefs: Vec<Belief>) {
        for belief in beliefs {
            if self.random.percent(5) {
                let slow_ms = if self.random.percent(10) { 4000 } else { 30 };
                self.writes.push((self.now_ms + self.random.below(slow_ms) as u64, belief));
            }
        }
        let now_ms = self.now_ms;
        let arrived: Vec<_> = self.writes.extract_if(.., |(due, _)| *due <= now_ms).collect();
        for (_, Belief { client, name, token }) in arrived {
            self.judge.writes(&client, &name, token);
        }
    }

    /// Every fault ends, and all go on: every node is a member, every slot is served, every client is granted
    /// a lock, and every caller is answered.
    fn mend(&mut self) -> Result<(), String> {
        self.judge.note(|| "every fault ends".to_owned());
        self.is_calm = true;
        self.cuts.clear();
        self.ends.clear();
        self.breaks.clear();
        self.old_server_until_ms = None;
        self.database.calm_down();
        for nth in 0..self.places.len() {
            self.places[nth].starts_at_ms = self.now_ms;
            if let Some(process) = &mut self.places[nth].process {
                process.paused_until_ms = 0;
            }
        }
        for client in &mut self.clients {
            (client.paused_until_ms, client.gives_back) = (0, 20);
        }
        let grants: Vec<u64> = self.clients.iter().map(|client| client.grants).collect();
        let answers: Vec<u64> = self.callers.iter().map(|caller| caller.answers).collect();
        let end_ms = self.now_ms + MENDING_MS;
        loop {
            self.step()?;
            let waiting = self.waiting(&grants, &answers);
            if waiting.is_empty() {
                break;
            }
            if self.now_ms >= end_ms {
                self.judge.breach(format!("nothing comes of it in {MENDING_MS} ms: {}", waiting.join(", ")));
                break;
            }
        }
        self.pause_in_calm()?;
        self.count_cut_commits();
        let (judge, database) = (&mut self.judge, &self.database);
        database.look(|tables| judge.check_durable(tables));
        Ok(())
    }

    /// Those that have not gone on yet.
    fn waiting(&self, grants: &[u64], answers: &[u64]) -> Vec<String> {
        let mut waiting = Vec::new();
        for (nth, place) in self.places.iter().enumerate() {
            let node = place.process.as_ref().and_then(Process::node);
            let phase = node.as_ref().map(FleetNode::phase);
            if phase != Some(NodePhase::Member) {
                waiting.push(format!("node-{nth} is {phase:?}"));
            }
        }
        let clients = self.clients.iter().zip(grants).filter(|(client, before)| client.grants <= **before);
        waiting.extend(clients.map(|(client, _)| format!("{} is granted nothing", client.name)));
        let callers = self.callers.iter().zip(answers).filter(|(caller, before)| caller.answers <= **before);
        waiting.extend(callers.map(|(caller, _)| format!("{} gets no answer", caller.name)));
        waiting
    }
}
