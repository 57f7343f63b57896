//! The faults of a schedule.

use lockhouse_store::Slot;

use super::model::{Lane, Standby, Traffic};
use super::node_process::{Ask, label};
use super::process::SLOTS;
use super::world::{End, World};

/// About two each second, where nothing is quiet.
const FAULTS_PER_THOUSAND_STEPS: usize = 20;

/// Of faults that leave most as it is.
const PARTIAL_PERCENT: usize = 8;

impl World {
    /// Perhaps something fails.
    pub(super) fn something_fails(&mut self) {
        if self.now_ms < self.quiet_until_ms || self.random.below(1000) >= FAULTS_PER_THOUSAND_STEPS {
            return;
        }
        // Long enough for others to take what the node had, and to grant it; often in peace.
        let is_long = self.random.percent(40);
        let longest = self.times.longest_slot_lease_ms() + self.times.lease_ms + 500;
        let ms = if is_long { longest } else { 300 } + self.random.below(2000) as u64;
        if is_long && self.random.percent(75) {
            self.quiet_until_ms = self.now_ms + ms;
        }
        let nth = self.random.below(self.places.len());
        let is_partial = self.random.percent(PARTIAL_PERCENT);
        let what = match self.random.below(if is_long { 40 } else { 100 }) {
            _ if is_partial => self.fails_in_part(nth, ms),
            0..10 => self.pause(nth, ms),
            10..25 => self.cut(nth, &Traffic::ALL, ms),
            25..37 => self.fail_over(nth, ms),
            37..40 => self.cut_but_for_commits(nth, ms),
            40..48 => self.kill_process(nth, ms),
            48..55 => self.leave(nth),
            55..61 => self.database_goes_away(ms),
            61..67 => self.standby_goes_away(ms),
            67..75 => self.delete_by_hand(nth),
            75..84 => self.move_slot(nth),
            84..92 => self.break_off(),
            _ => self.pause_client(ms),
        };
        if let Some(what) = what {
            self.judge.count(what);
            self.judge.count("faults");
            self.judge.note(|| format!("{what}: node-{nth}, {ms} ms"));
        }
    }

    /// After some more of its work, at any await.
    fn pause(&mut self, nth: usize, ms: u64) -> Option<&'static str> {
        let (turns, until_ms) = (self.random.below(6), self.now_ms + ms);
        let process = self.places[nth].process.as_mut()?;
        process.stand_still(turns, until_ms);
        self.shake(ms);
        Some("process stands still")
    }

    fn kill_process(&mut self, nth: usize, ms: u64) -> Option<&'static str> {
        self.places[nth].process.as_ref()?;
        self.kill(nth, ms);
        Some("process is killed")
    }

    fn leave(&mut self, nth: usize) -> Option<&'static str> {
        let place = &mut self.places[nth];
        let process = place.process.as_ref().filter(|process| process.node().is_some())?;
        process.leave();
        place.is_leaving = true;
        Some("node leaves")
    }

    fn cut_but_for_commits(&mut self, nth: usize, ms: u64) -> Option<&'static str> {
        let which = [1..2, 2..3, 1..3][self.random.below(3)].clone();
        self.cut(nth, &Traffic::ALL[which], ms)
    }

    fn cut(&mut self, nth: usize, which: &[Traffic], ms: u64) -> Option<&'static str> {
        self.shake(ms);
        if self.random.percent(25) {
            // A person takes it for dead before the others do.
            self.ends.push((self.now_ms + self.random.below(500) as u64, End::Of(nth)));
        }
        self.database.cut(nth, which, ms);
        let is_whole = which.len() == Traffic::ALL.len();
        Some(if is_whole { "node is cut off" } else { "node is cut off but for commits" })
    }

    /// Perhaps the node is cut off once it has given a slot back, and before it knows that it has; or the one
    /// that has taken the slot ends, soon or once it has granted what waited.
    pub(super) fn trouble_while_it_moves(&mut self, nth: usize, slot: Slot) {
        if self.is_calm {
            return;
        }
        if self.random.percent(30) {
            let (in_ms, ms) = (self.random.below(40) as u64, 500 + self.random.below(2500) as u64);
            self.cuts.push((self.now_ms + in_ms, nth, ms));
        }
        if self.random.percent(30) {
            let in_ms = 200 + self.random.below(1800) as u64;
            let end = match self.random.percent(70) {
                true => End::OfOwner(slot),
                false => End::Of(self.random.below(self.places.len())),
            };
            self.ends.push((self.now_ms + in_ms, end));
        }
    }

    /// Meanwhile some clients lose their connections, and look for a node.
    fn shake(&mut self, ms: u64) {
        for client in (0..self.clients.len()).cycle().take(2 * self.clients.len()) {
            if self.random.percent(40) {
                let in_ms = self.random.below(ms as usize) as u64;
                self.breaks.push((self.now_ms + in_ms, client));
            }
        }
    }

    /// What was to be cut off, to end or to break off by now.
    pub(super) fn cut_what_is_due(&mut self) {
        let now_ms = self.now_ms;
        let due: Vec<_> = self.cuts.extract_if(.., |(at_ms, ..)| *at_ms <= now_ms).collect();
        for (_, nth, ms) in due {
            self.judge.count("node is cut off while it gives back");
            self.judge.count("faults");
            self.judge.note(|| format!("node-{nth} is cut off while it gives back, {ms} ms"));
            self.database.cut(nth, &Traffic::ALL, ms);
        }
        let due: Vec<_> = self.ends.extract_if(.., |(at_ms, _)| *at_ms <= now_ms).collect();
        for (_, end) in due {
            let Some(nth) = self.place_of(end) else { continue };
            let long_ms = self.times.longest_slot_lease_ms() + self.times.lease_ms + 500;
            let what = match self.random.below(7) {
                0 => self.leave(nth),
                1 => self.delete_by_hand(nth),
                2 => self.kill_process(nth, 300),
                3 => self.cut(nth, &Traffic::ALL, long_ms),
                // Its clients go on to rely on it, until others have taken what it had.
                _ => {
                    self.quiet_until_ms = self.now_ms + long_ms;
                    self.database.cut(nth, &Traffic::ALL, long_ms);
                    Some("node is cut off")
                }
            };
            if let Some(what) = what {
                self.judge.count(what);
                self.judge.count("faults");
                self.judge.note(|| format!("{what} after a move: node-{nth}"));
            }
        }
        let due: Vec<_> = self.breaks.extract_if(.., |(at_ms, _)| *at_ms <= now_ms).collect();
        due.into_iter().for_each(|(_, client)| self.clients[client].break_off());
    }

    fn place_of(&self, end: End) -> Option<usize> {
        let slot = match end {
            End::Of(nth) => return Some(nth),
            End::OfOwner(slot) => slot,
        };
        let owner = self.database.look(|tables| tables.owner(slot))?;
        (0..self.places.len()).find(|nth| *label(*nth) == *owner)
    }

    fn database_goes_away(&mut self, ms: u64) -> Option<&'static str> {
        self.database.go_away(ms);
        Some("database goes away")
    }

    fn standby_goes_away(&mut self, ms: u64) -> Option<&'static str> {
        self.database.lose_standby(ms);
        Some("standby goes away")
    }

    /// The standby is promoted. The old server may go on for some connections, which is noticed by each when
    /// it is made anew.
    fn fail_over(&mut self, nth: usize, ms: u64) -> Option<&'static str> {
        if self.judge.tally.of("failover") >= self.failovers || self.database.has_old_server() {
            return None;
        }
        let mut stay = Vec::new();
        if self.random.percent(60) {
            // Often the others are all at the new server, and take what that node had.
            let others = if self.random.percent(50) { 0 } else { 50 };
            for process in 0..self.places.len() {
                for traffic in Traffic::ALL {
                    if process == nth || self.random.percent(others) {
                        stay.push(Lane { process, traffic });
                    }
                }
            }
        }
        self.database.fail_over(&stay);
        self.shake(ms);
        if !stay.is_empty() {
            self.judge.count("two servers");
            self.old_server_until_ms = Some(self.now_ms + ms);
        }
        if self.standby == Standby::Asynchronous {
            let (judge, database) = (&mut self.judge, &self.database);
            database.look(|tables| judge.excuse(tables));
            if !stay.is_empty() {
                // Both acknowledge what they are asked: only the fence protects.
                (judge.judges_leases, judge.judges_durability) = (false, false);
            }
        }
        self.judge.count("failover");
        Some(match self.standby {
            Standby::Asynchronous => "failover to an asynchronous standby",
            Standby::Synchronous => "failover to a synchronous standby",
        })
    }

    /// A person declares a node dead, which need not be.
    fn delete_by_hand(&mut self, nth: usize) -> Option<&'static str> {
        self.database.delete_by_hand(&label(nth)).then_some("node is deleted by hand")
    }

    /// A slot of the node is asked for, which no other one takes then.
    fn move_slot(&mut self, nth: usize) -> Option<&'static str> {
        let slot = Slot::new(self.random.below(usize::from(SLOTS)) as u16);
        let process = self.places[nth].process.as_ref()?;
        if self.now_ms < process.paused_until_ms {
            return None;
        }
        let (answer, _) = tokio::sync::oneshot::channel();
        process.asked(Ask { label: label(nth).into(), slot, answer });
        self.trouble_while_it_moves(nth, slot);
        Some("slot is given back")
    }

    fn break_off(&mut self) -> Option<&'static str> {
        let client = self.random.below(self.clients.len());
        self.clients[client].break_off();
        Some("connection breaks off")
    }

    fn pause_client(&mut self, ms: u64) -> Option<&'static str> {
        let client = self.random.below(self.clients.len());
        self.clients[client].paused_until_ms = self.now_ms + ms;
        Some("client stands still")
    }
}
