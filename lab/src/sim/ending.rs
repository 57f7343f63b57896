//! The end of a schedule: everything is mended, and then all clients must get an answer, and nothing may be
//! left behind.

use lockhouse::StoreState;

use super::clients::buyer::Buyer;
use super::clients::clerk::Clerk;
use super::clients::tab::Tab;
use super::clients::worker::Worker;
use super::look;
use super::schedule::Stage;

impl Stage {
    pub(super) fn mend(&mut self) -> Result<(), String> {
        self.book.note(|| "-- everything is mended".to_owned());
        self.stop_displaced();
        self.calm();
        self.tabs.iter_mut().for_each(Tab::is_back);
        self.settle();
        look::read_out(&self.life, &self.places);
        self.everybody_leaves();
        self.pass(3000);
        self.nothing_is_left();
        self.stop_is_clean()
    }

    /// Interrupted clients go on. Refused batches are sent again, after a second at most, and may then be
    /// late. Recoveries end.
    fn settle(&mut self) {
        for round in 0..200 {
            let Self { tabs, life, random, .. } = self;
            if round >= 50 && life.server.house.store_state() == StoreState::Serving {
                return;
            }
            tabs.iter_mut().filter(|tab| tab.has_no_session()).for_each(|tab| tab.act(life, random));
            self.pass(25);
            self.everybody_hears();
        }
    }

    fn everybody_leaves(&mut self) {
        for _ in 0..ROUNDS {
            let Self { life, clerks, buyers, workers, tabs, .. } = self;
            clerks.iter_mut().for_each(|clerk| clerk.leave(life));
            buyers.iter_mut().for_each(|buyer| buyer.leave(life));
            workers.iter_mut().for_each(|worker| worker.leave(life));
            tabs.iter_mut().for_each(|tab| tab.leave(life));
            let have_left = clerks.iter().all(Clerk::has_left)
                && buyers.iter().all(Buyer::has_left)
                && workers.iter().all(Worker::has_left)
                && tabs.iter().all(Tab::has_left);
            if have_left {
                self.tabs.iter_mut().for_each(|tab| tab.says_goodbye(&self.life));
                return;
            }
            self.pass(50);
            self.everybody_hears();
        }
        self.somebody_sleeps_on();
    }

    fn somebody_sleeps_on(&mut self) {
        let clerks = self.clerks.iter().filter(|clerk| !clerk.has_left()).count();
        let buyers = self.buyers.iter().filter(|buyer| !buyer.has_left()).count();
        let workers = self.workers.iter().filter(|worker| !worker.has_left()).count();
        let tabs: Vec<_> = self.tabs.iter().filter(|tab| !tab.has_left()).map(Tab::waits).collect();
        self.book.breach(format!(
            "a minute after everything was mended {clerks} clerks, {buyers} buyers and {workers} workers still wait for answers, and so do these tabs: {tabs:?}"
        ));
    }

    /// Everything was given back, or had its time.
    fn nothing_is_left(&mut self) {
        let server = &self.life.server;
        match server.house.store_state() {
            StoreState::Serving => {}
            state => self.book.breach(format!("everything is mended, but the house is {state:?}")),
        }
        for place in &self.places {
            let bucket = server.bucket(place);
            if !bucket.is_empty() {
                let shown = self.life.block_on(bucket.snapshot());
                let label = place.label;
                self.book.breach(format!("everybody has left, but in bucket {label:?} is left: {shown:?}"));
            }
        }
    }

    /// No client holds a lock, so the next life need not wait for any client.
    fn stop_is_clean(&mut self) -> Result<(), String> {
        if self.life.close() != Ok(true) {
            self.book.breach("nobody holds anything, but the stop was not clean");
        }
        self.kill();
        self.begin_anew()?;
        for place in &self.places {
            if let Some(time) = self.life.server.bucket(place).recovers_for() {
                self.book
                    .breach(format!("after a clean stop bucket {:?} recovers for {time:?}", place.label));
            }
        }
        Ok(())
    }
}

/// Longer than any lease, TTL and recovery, in rounds of 50 ms.
const ROUNDS: usize = 1200;
