//! The faults: of the process, the clocks, the clients' connections, the store and the way to it.

use std::cmp::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use lockhouse::Left;

use super::clients::claim_client::ClaimClient;
use super::clients::owner_client::OwnerClient;
use super::clients::web_client::RemoteWebClient;
use super::fault_plan;
use super::ledger::Ledger;
use super::look;
use super::schedule::{Displaced, Stage, own_lease_ms};
use super::server::{LONGEST_LEASE_MS, STEP_MS, ServerLife};
use crate::history::record::What;

impl Stage {
    pub(super) fn something_fails(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..10 => self.crash()?,
            10..17 => self.restore()?,
            17..24 => self.take_over()?,
            24..28 => self.restart()?,
            28..34 => self.process_stands_still(),
            34..42 => self.calendar_is_set(),
            42..50 => self.web_client_stops(),
            50..58 => self.link_is_cut(),
            58..66 => self.faults_calm_down(),
            66..76 => self.back_up(),
            _ => self.faults_begin(),
        }
        Ok(())
    }

    /// The process is killed, and started again.
    fn crash(&mut self) -> Result<(), String> {
        self.fails("crash");
        self.clients_receive();
        self.kill();
        let downtime_ms = if self.random.percent(60) { 0 } else { self.random.below(900) as u64 };
        self.is_down(downtime_ms);
        self.begin_anew()
    }

    /// Another process takes the disk, while this one lives on.
    fn take_over(&mut self) -> Result<(), String> {
        self.fails("takeover");
        self.stop_displaced();
        self.clients_receive();
        self.server_is_gone();
        let next = self.next_life()?;
        let life = std::mem::replace(&mut self.life, next);
        life.is_displaced_now();
        let workers = std::mem::take(&mut self.workers);
        self.displaced = Some(Displaced { life, workers });
        self.has_begun();
        Ok(())
    }

    /// The process is stopped in order, and started again.
    fn restart(&mut self) -> Result<(), String> {
        self.stop_displaced();
        self.calm();
        // What the clients have sent comes first, and then what has ended by that.
        self.life.run(1);
        self.life.nudge(8);
        let connected: Vec<bool> = self.web_clients.iter().map(RemoteWebClient::is_connected).collect();
        let shown = look::held_remotely(&self.life, &self.places);
        let ended = self.life.close();
        for _ in 0..FAREWELLS {
            self.life.run(1);
            self.clients_receive();
        }
        let now = self.journal.now_ms();
        let count_on = self.web_clients.iter().zip(connected);
        let count_on = count_on.filter(|(web_client, connected)| *connected && web_client.holds(now)).count();
        match ended {
            Ok(Left::Nothing) if count_on > 0 || shown > 0 => {
                self.journal.breach(format!(
                    "a stop was called clean, though {shown} locks were shown as held by remote clients, and {count_on} clients count on some"
                ));
            }
            Ok(Left::Nothing) => self.journal.count("clean stop"),
            Ok(Left::Listed { .. }) => self.journal.count("stop with a list"),
            Ok(Left::Unknown) => self.journal.count("unclean stop"),
            Err(state) => self.journal.breach(format!("the house did not close, and is {state:?}")),
        }
        self.kill();
        self.begin_anew()
    }

    fn back_up(&mut self) {
        self.journal.count("backup");
        self.disk.back_up();
    }

    /// The process is killed, and another one started over a backup: the newest, an older one, or the same
    /// once more.
    fn restore(&mut self) -> Result<(), String> {
        if self.disk.backups() == 0 {
            self.back_up();
        }
        self.fails("restore");
        self.clients_receive();
        self.kill();
        self.disk.strays_arrive(true);
        let newest = self.disk.backups() - 1;
        let chosen = match (self.random.below(4), self.restores.last) {
            (0, Some(last)) => last,
            (1..3, Some(last)) if last > 0 => self.random.below(last),
            _ => newest,
        };
        if let Some(last) = self.restores.last {
            let class = match chosen.cmp(&last) {
                Ordering::Equal => "restore: the same",
                Ordering::Less => "restore: an older one",
                Ordering::Greater => "restore: a newer one",
            };
            self.journal.count(class);
        }
        let is_lost = self.random.percent(40);
        if is_lost {
            self.journal.count("restore: database lost");
            // Only the operator knows how long the leases were that it gave.
            self.leases.earlier_ms = LONGEST_LEASE_MS;
        }
        self.restores.count += 1;
        self.restores.last = Some(chosen);
        // A restore is the work of an hour.
        let hours = Duration::from_secs(3600) * self.restores.count as u32;
        let now = UNIX_EPOCH + CALENDAR + hours + Duration::from_millis(self.journal.now_ms());
        let above = self.disk.restore(chosen, is_lost, now).map_err(|error| error.to_string())?;
        self.restores.above = Some(above);
        self.begin_anew()
    }

    fn process_stands_still(&mut self) {
        self.fails("process stands still");
        let ms = 100 + self.random.below(2000) as u64;
        for _ in 0..ms / STEP_MS {
            self.journal.advance(STEP_MS);
            self.web_clients.iter_mut().for_each(|web_client| web_client.nothing_comes(&self.journal, None));
        }
        self.life.stand_still(ms / STEP_MS * STEP_MS);
        if let Some(displaced) = &self.displaced {
            displaced.life.stand_still(ms / STEP_MS * STEP_MS);
        }
    }

    /// The clock on the wall is set; no lease may hang on it.
    fn calendar_is_set(&mut self) {
        self.fails("calendar is set");
        self.calendar_ms = self.calendar_base_ms + self.random.below(20_000) as i64 - 10_000;
        self.life.clock.set_calendar(self.calendar_ms);
    }

    fn web_client_stops(&mut self) {
        self.fails("client stands still");
        let (at, ms) = (self.random.below(self.web_clients.len()), 50 + self.random.below(1000) as u64);
        self.web_clients[at].pause(self.journal.now_ms(), ms);
    }

    fn link_is_cut(&mut self) {
        self.fails("link is cut");
        let (at, ms) = (self.random.below(self.web_clients.len()), 50 + self.random.below(600) as u64);
        let Self { web_clients, journal, random, .. } = self;
        web_clients[at].cut(journal, ms, random);
    }

    fn faults_calm_down(&mut self) {
        self.disk.set_hanging(false);
        self.disk.set_faults(fault_plan::CALM);
        self.disk.set_slowest(if self.random.percent(50) { 0 } else { 8 });
    }

    fn faults_begin(&mut self) {
        let (name, faults) = fault_plan::some(&mut self.random);
        self.fails(name);
        self.disk.set_faults(faults);
        self.disk.set_hanging(name == fault_plan::HANGS);
        if name == "disk is slow" {
            self.disk.set_slowest(20 + self.random.below(600) as u64);
        }
    }

    fn fails(&mut self, what: &'static str) {
        self.faults += 1;
        self.journal.count(what);
        self.journal.note(|| format!("-- fault: {what}"));
    }

    /// Ends the faults of the store and of the way to it.
    pub(super) fn calm(&mut self) {
        self.disk.set_faults(fault_plan::CALM);
        self.disk.set_slowest(0);
        self.disk.set_hanging(false);
    }

    /// The present life ends here and now, and with it all clients in the process.
    pub(super) fn kill(&mut self) {
        self.stop_displaced();
        self.server_is_gone();
        self.life.crash();
        self.workers.clear();
    }

    /// No client receives an answer of the present life any more.
    fn server_is_gone(&mut self) {
        let number = self.life.server.number;
        self.journal.life_is_over(number);
        self.workers.iter().for_each(|worker| worker.is_dead(&self.life.server));
        self.web_clients.iter_mut().for_each(RemoteWebClient::server_is_gone);
    }

    fn is_down(&mut self, ms: u64) {
        for _ in 0..ms / STEP_MS {
            self.journal.advance(STEP_MS);
            self.web_clients.iter_mut().for_each(|web_client| web_client.nothing_comes(&self.journal, None));
        }
    }

    pub(super) fn begin_anew(&mut self) -> Result<(), String> {
        let number = self.life.server.number;
        self.owner_clients.iter_mut().for_each(|owner_client| owner_client.life_is_over(number));
        self.claim_clients.iter_mut().for_each(|claim_client| claim_client.life_is_over(number));
        self.disk.strays_arrive(true);
        self.life = self.next_life()?;
        self.has_begun();
        Ok(())
    }

    fn next_life(&mut self) -> Result<ServerLife, String> {
        self.disk.set_hanging(false);
        self.hangs_since_ms = None;
        self.disk.set_slowest(0);
        self.disk.set_faults(fault_plan::while_it_begins(&mut self.random));
        let number = self.life.server.number + 1;
        self.leases.own_ms = own_lease_ms(&mut self.random);
        ServerLife::begin(&self.journal, &self.disk, number, self.leases, self.calendar_ms)
    }

    /// Checks that the new life finds all that was confirmed as durable.
    fn has_begun(&mut self) {
        self.calm();
        if self.disk.strays_arrive(false) {
            self.journal.breach("something of an earlier epoch was kept though it came too late");
        }
        self.journal.write(What::ServerKilled);
        if let Some(above) = self.restores.above.take() {
            self.journal.write(What::Restored { above });
        }
        if let Some(epoch) = self.disk.ledger(Ledger::repeated_epoch) {
            self.journal.breach(format!("epoch {epoch} came after one that is as high"));
        }
        if self.disk.ledger(Ledger::has_void_locks) {
            self.journal.count("ended in mid-sweep");
        }
        if let Some(name) = self.disk.ledger(|ledger| ledger.passed_on_while_void().cloned()) {
            self.journal.breach(format!("{name:?} became another's while a void lock kept it"));
        }
        // The clock raises tokens far above what was given.
        let is_by_marks = self.calendar_base_ms > 0;
        if let Some(mark) = self.disk.ledger(Ledger::wasted_tokens).filter(|_| is_by_marks) {
            self.journal.breach(format!("a bucket was dropped with the mark {mark}, far above what it gave"));
        }
        let epoch = self.life.server.epoch.to_string();
        self.journal.write(What::ServerStarted { epoch });
        look::read_out(&self.life, &self.places);
        self.owner_clients.iter_mut().for_each(|owner_client| owner_client.look_again(&self.life));
        self.claim_clients.iter_mut().for_each(|claim_client| claim_client.look_again(&self.life));
        self.workers = self.new_workers();
    }

    /// The displaced house must learn of that at its next commit, and then no client may wait for it or count
    /// on it.
    pub(super) fn stop_displaced(&mut self) {
        let Some(Displaced { mut life, mut workers }) = self.displaced.take() else { return };
        self.calm();
        let ended = life.learns_of_its_end(&self.places[0]);
        if let Err(state) = ended {
            self.journal.breach(format!("the house is displaced, but it is {state:?}"));
        }
        life.run(1);
        let (number, server) = (life.server.number, &life.server);
        workers.iter_mut().for_each(|worker| worker.must_know_of_the_end(server));
        self.owner_clients.iter_mut().for_each(OwnerClient::receive);
        self.claim_clients.iter_mut().for_each(ClaimClient::receive);
        let owner_clients =
            self.owner_clients.iter().filter(|owner_client| owner_client.waits_for(number)).count();
        let claim_clients =
            self.claim_clients.iter().filter(|claim_client| claim_client.waits_for(number)).count();
        if owner_clients + claim_clients > 0 {
            self.journal.breach(format!(
                "{} questions sleep on, though the house was displaced",
                owner_clients + claim_clients
            ));
        }
        self.owner_clients.iter_mut().for_each(|owner_client| owner_client.life_is_over(number));
        self.claim_clients.iter_mut().for_each(|claim_client| claim_client.life_is_over(number));
        drop(workers);
        life.crash();
    }
}

/// How often the last words are read of a server that stops: the narrowest way takes 200 bytes at once, and a
/// message that has come in part tells nothing.
const FAREWELLS: usize = 100;

/// A day of the year 2026, at which every schedule begins.
const CALENDAR: Duration = Duration::from_secs(1_790_000_000);
