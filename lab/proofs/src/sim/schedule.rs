//! A schedule: all clients act in turn by the dice, while faults happen. Then the faults end, and all clients
//! must get an answer.

use std::sync::Arc;

use random::Random;

use super::clients::claim_client::ClaimClient;
use super::clients::owner_client::OwnerClient;
use super::clients::web_client::RemoteWebClient;
use super::clients::worker::Worker;
use super::disk::Disk;
use super::fault_plan;
use super::journal::{Journal, Written};
use super::server::{
    CALENDAR_AHEAD_MS, LONGEST_LEASE_MS, LONGEST_WAIT_MS, Leases, Place, SHORTEST_LEASE_MS, STEP_MS,
    ServerLife, places,
};
use crate::history::record::What;

/// The least that a schedule has.
pub(crate) const COMMANDS: u64 = 200;
pub(crate) const FAULTS: u64 = 3;

/// All clients, and the things that they act upon.
pub(super) struct Stage {
    pub(super) random: Random,
    pub(super) journal: Arc<Journal>,
    pub(super) disk: Arc<Disk>,
    pub(super) places: Vec<Place>,
    pub(super) life: ServerLife,
    pub(super) displaced: Option<Displaced>,
    pub(super) owner_clients: Vec<OwnerClient>,
    pub(super) claim_clients: Vec<ClaimClient>,
    pub(super) workers: Vec<Worker>,
    pub(super) web_clients: Vec<RemoteWebClient>,
    pub(super) leases: Leases,
    /// How far the calendar is ahead in the middle, and now.
    pub(super) calendar_base_ms: i64,
    pub(super) calendar_ms: i64,
    pub(super) restores: Restores,
    /// How long the tasks of the present life had run when the disk began to hang.
    pub(super) hangs_since_ms: Option<u64>,
    /// The count of faults that are not the store's.
    pub(super) faults: u64,
}

/// The restores of backups so far.
#[derive(Debug, Default)]
pub(super) struct Restores {
    pub(super) count: u64,
    /// The backup that was restored last.
    pub(super) last: Option<usize>,
    /// The token above which the next life goes on, if it is the first after a restore.
    pub(super) above: Option<u64>,
}

/// A life whose disk another process has taken, and the clients that still live in it.
pub(super) struct Displaced {
    pub(super) life: ServerLife,
    pub(super) workers: Vec<Worker>,
}

/// Plays a schedule to its end.
///
/// # Errors
///
/// The house did not open.
pub(crate) fn play(seed: u64, with_notes: bool) -> Result<Written, String> {
    let mut stage = Stage::new(seed, with_notes)?;
    stage.act_on()?;
    stage.mend()?;
    let (journal, of_the_store, faults) = (stage.journal.clone(), stage.disk.faults(), stage.faults);
    let (drops, long_sweeps) = stage.disk.ledger(|ledger| (ledger.drops(), ledger.long_sweeps()));
    drop(stage);
    let mut written = journal.close_journal();
    written.tally.add("buckets dropped", drops);
    written.tally.add("swept over several ticks", long_sweeps);
    written.tally.add("faults", faults + of_the_store.total());
    fault_plan::by_class(&of_the_store).iter().for_each(|(class, count)| written.tally.add(class, *count));
    Ok(written)
}

impl Stage {
    fn new(seed: u64, with_notes: bool) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let (journal, disk) = (Arc::new(Journal::new(with_notes)), Disk::new(random.next_u64()));
        let places = places();
        let earlier_ms = if random.percent(70) { SHORTEST_LEASE_MS } else { 0 };
        let leases = Leases { own_ms: own_lease_ms(&mut random), earlier_ms };
        let calendar_ms = if random.percent(50) { CALENDAR_AHEAD_MS } else { 0 };
        let life = ServerLife::begin(&journal, &disk, 1, leases, calendar_ms)?;
        journal.write(What::ServerStarted { epoch: "1".to_owned() });
        // Most clients meet in the first bucket.
        let mut place = |nth: usize| {
            let elsewhere = random.percent(30);
            places[if elsewhere { nth % places.len() } else { 0 }].clone()
        };
        let owner_clients = (0..4).map(|nth| OwnerClient::new(nth, place(nth))).collect();
        let claim_clients = (0..3).map(|nth| ClaimClient::new(nth, place(nth))).collect();
        let web_clients = (0..4).map(|nth| RemoteWebClient::new(nth, place(nth))).collect();
        let (workers, displaced) = (Vec::new(), None);
        let (calendar_base_ms, faults) = (calendar_ms, 0);
        let mut stage = Self {
            random,
            journal,
            disk,
            places,
            life,
            displaced,
            owner_clients,
            claim_clients,
            workers,
            web_clients,
            leases,
            calendar_base_ms,
            calendar_ms,
            restores: Restores::default(),
            hangs_since_ms: None,
            faults,
        };
        stage.workers = stage.new_workers();
        Ok(stage)
    }

    pub(super) fn new_workers(&self) -> Vec<Worker> {
        (0..3).map(|nth| Worker::new(&self.life, nth, self.places[nth / 2].clone())).collect()
    }

    fn act_on(&mut self) -> Result<(), String> {
        let goal = COMMANDS + self.random.below(100) as u64;
        while self.journal.counted("commands") < goal || self.faults + self.disk.faults().total() < FAULTS {
            if self.random.percent(5) {
                self.something_fails()?;
            }
            self.a_client_acts();
            self.time_passes();
            self.clients_receive();
        }
        Ok(())
    }

    fn a_client_acts(&mut self) {
        let Self { random, life, displaced, owner_clients, claim_clients, workers, web_clients, .. } = self;
        let who = random.below(100);
        if who >= 76 {
            return one_of(web_clients, random).act(life, random);
        }
        // Some clients have no notice of the new life yet, and go on with the old one.
        let (life, workers) = match displaced {
            Some(old) if random.percent(40) => (&old.life, &mut old.workers),
            _ => (&*life, workers),
        };
        match who {
            0..28 => one_of(owner_clients, random).act(life, random),
            28..52 => one_of(claim_clients, random).act(life, random),
            _ => one_of(workers, random).act(life, random),
        }
    }

    fn time_passes(&mut self) {
        let ms = match self.random.below(100) {
            0..40 => 0,
            40..85 => 1 + self.random.below(12) as u64,
            85..97 => 10 + self.random.below(80) as u64,
            _ => 200 + self.random.below(900) as u64,
        };
        if ms == 0 {
            let turns = 1 + self.random.below(8);
            self.life.nudge(turns);
            if let Some(displaced) = &self.displaced {
                displaced.life.nudge(turns);
            }
        }
        self.pass(ms);
    }

    /// Lets this time pass, in steps that are short beside every lease.
    pub(super) fn pass(&mut self, mut ms: u64) {
        while ms > 0 {
            let step = ms.min(STEP_MS);
            ms -= step;
            self.life.run(step);
            self.check_waits_for_a_hanging_disk();
            if let Some(displaced) = &self.displaced {
                displaced.life.run(step);
            }
            self.journal.advance(step);
            let Self { web_clients, claim_clients, life, random, .. } = self;
            web_clients.iter_mut().for_each(|web_client| web_client.time_has_passed(life, random));
            claim_clients.iter_mut().for_each(|claim_client| claim_client.time_has_passed(life));
        }
    }

    /// A question is answered in time, also by a server whose disk hangs.
    fn check_waits_for_a_hanging_disk(&mut self) {
        if !self.disk.hangs() {
            self.hangs_since_ms = None;
            return;
        }
        let (now, number) = (self.life.ran_ms(), self.life.server.number);
        let since = *self.hangs_since_ms.get_or_insert(now);
        let asked = self.owner_clients.iter().filter_map(|client| client.asked_ms(number));
        let asked = asked.chain(self.claim_clients.iter().filter_map(|client| client.asked_ms(number)));
        let longest = asked.map(|asked_ms| now - asked_ms.max(since)).max().unwrap_or_default();
        if longest > LONGEST_WAIT_MS {
            self.journal.breach(format!("the disk hangs, and a question has no answer after {longest} ms"));
        }
    }

    pub(super) fn clients_receive(&mut self) {
        let server = &self.life.server;
        self.owner_clients.iter_mut().for_each(OwnerClient::receive);
        self.claim_clients.iter_mut().for_each(ClaimClient::receive);
        self.workers.iter_mut().for_each(|worker| worker.receive(server));
        self.web_clients.iter_mut().for_each(|web_client| web_client.receive(&self.life));
        if let Some(displaced) = &mut self.displaced {
            let server = &displaced.life.server;
            displaced.workers.iter_mut().for_each(|worker| worker.receive(server));
        }
    }
}

fn one_of<'a, T>(all: &'a mut [T], random: &mut Random) -> &'a mut T {
    let at = random.below(all.len());
    &mut all[at]
}

/// The lease that a life of the server gives.
pub(super) fn own_lease_ms(random: &mut Random) -> u64 {
    let longer_ms = LONGEST_LEASE_MS - SHORTEST_LEASE_MS;
    SHORTEST_LEASE_MS + if random.percent(80) { 0 } else { random.below(longer_ms as usize + 1) as u64 }
}
