//! The end of a schedule: everything is mended, and then all clients must get an answer, and nothing may be
//! left behind.

use lockhouse::{Left, StoreState};

use super::clients::claim_client::ClaimClient;
use super::clients::owner_client::OwnerClient;
use super::clients::web_client::RemoteWebClient;
use super::clients::worker::Worker;
use super::look;
use super::schedule::Stage;

impl Stage {
    pub(super) fn mend(&mut self) -> Result<(), String> {
        self.journal.note(|| "-- everything is mended".to_owned());
        self.stop_displaced();
        self.calm();
        self.web_clients.iter_mut().for_each(RemoteWebClient::is_back);
        self.settle();
        look::read_out(&self.life, &self.places);
        self.clients_leave();
        self.pass(3000);
        self.nothing_is_left();
        self.stop_is_clean()
    }

    /// Interrupted clients go on. Refused batches are sent again, after a second at most, and may then be
    /// late. Recoveries end.
    fn settle(&mut self) {
        for round in 0..200 {
            let Self { web_clients, life, random, .. } = self;
            if round >= 50 && life.server.house.store_state() == StoreState::Serving {
                return;
            }
            web_clients
                .iter_mut()
                .filter(|web_client| !web_client.is_connected())
                .for_each(|web_client| web_client.connect_if_need_be(life, random));
            self.pass(25);
            self.clients_receive();
        }
    }

    fn clients_leave(&mut self) {
        for _ in 0..ROUNDS {
            let Self { life, owner_clients, claim_clients, workers, web_clients, random, .. } = self;
            owner_clients.iter_mut().for_each(|owner_client| owner_client.leave(life));
            claim_clients.iter_mut().for_each(|claim_client| claim_client.leave(life));
            workers.iter_mut().for_each(|worker| worker.leave(life));
            web_clients.iter_mut().for_each(|web_client| web_client.leave(life, random));
            let have_left = owner_clients.iter().all(OwnerClient::has_left)
                && claim_clients.iter().all(ClaimClient::has_left)
                && workers.iter().all(Worker::has_left)
                && web_clients.iter().all(RemoteWebClient::has_left);
            if have_left {
                self.web_clients.iter_mut().for_each(|web_client| web_client.says_goodbye(&self.life));
                return;
            }
            self.pass(50);
            self.clients_receive();
        }
        self.report_waiting_clients();
    }

    fn report_waiting_clients(&mut self) {
        let owner_clients = self.owner_clients.iter().filter(|owner_client| !owner_client.has_left()).count();
        let claim_clients = self.claim_clients.iter().filter(|claim_client| !claim_client.has_left()).count();
        let workers = self.workers.iter().filter(|worker| !worker.has_left()).count();
        let web_clients: Vec<_> = self
            .web_clients
            .iter()
            .filter(|web_client| !web_client.has_left())
            .map(RemoteWebClient::waits)
            .collect();
        self.journal.breach(format!(
            "a minute after everything was mended {owner_clients} clerks, {claim_clients} buyers and {workers} workers still wait for answers, and so do these tabs: {web_clients:?}"
        ));
    }

    /// All locks and claims were given back, or have expired.
    fn nothing_is_left(&mut self) {
        let server = &self.life.server;
        match server.house.store_state() {
            StoreState::Serving => {}
            state => self.journal.breach(format!("everything is mended, but the house is {state:?}")),
        }
        for place in &self.places {
            let bucket = server.bucket(place);
            if !bucket.is_empty() {
                let shown = self.life.block_on(bucket.snapshot());
                let label = place.label;
                self.journal
                    .breach(format!("everybody has left, but in bucket {label:?} is left: {shown:?}"));
            }
        }
    }

    /// No client holds a lock, so the next life need not wait for any client.
    fn stop_is_clean(&mut self) -> Result<(), String> {
        if self.life.close() != Ok(Left::Nothing) {
            self.journal.breach("nobody holds anything, but the stop was not clean");
        }
        self.kill();
        self.begin_anew()?;
        for place in &self.places {
            if let Some(time) = self.life.server.bucket(place).recovers_for() {
                self.journal
                    .breach(format!("after a clean stop bucket {:?} recovers for {time:?}", place.label));
            }
        }
        Ok(())
    }
}

/// Longer than any lease, TTL and recovery, in rounds of 50 ms.
const ROUNDS: usize = 1200;
