//! How fast the frames of a session are carried out.
//!
//! A session that sends more than `session_rate` is read more slowly, and so has its client wait. If its whole tenant does more than
//! `tenant_rate`, its sessions take turns. Pongs and ends are read meanwhile, so that no lease ends for that; but they count, too, so that a flood of
//! them is not read either.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Session;
use super::calls::Verdict;
use super::connection::Reading;
use crate::limits::{Pace, Turns};

/// For how long before its turn a session is read for what is urgent.
const LEASH: Duration = Duration::from_secs(1);

/// The turns of one session.
#[derive(Debug)]
pub(super) struct Pacing {
    own: Pace,
    /// What was read and not charged yet, in frames.
    read: u32,
    /// What else was done, at the expense of the tenant.
    done: u32,
    /// Only what is urgent is read before one of these.
    own_turn: Instant,
    among_all: Turns,
}

impl Default for Pacing {
    fn default() -> Self {
        let now = Instant::now();
        Self { own: Pace::new(now), read: 0, done: 0, own_turn: now, among_all: Turns::new(now) }
    }
}

impl Pacing {
    /// So much was read.
    pub(super) fn has_read(&mut self, frames: u32) {
        self.read = self.read.saturating_add(frames);
    }

    /// Something was done that costs as much as so many frames.
    pub(super) fn has_done(&mut self, frames: u32) {
        self.done = self.done.saturating_add(frames);
    }

    /// What was read and done since it was charged for.
    pub(super) fn spent(&self) -> u32 {
        self.read.saturating_add(self.done)
    }

    /// What is read at present.
    pub(super) fn reading(&self) -> Reading {
        let turn = self.turn_of_both();
        let now = Instant::now();
        if turn <= now {
            Reading::All
        } else if self.own_turn > now + LEASH {
            Reading::Nothing
        } else {
            Reading::Urgent
        }
    }

    /// When it is the turn among the sessions of the tenant.
    pub(super) fn tenants_turn(&self) -> Instant {
        self.among_all.next()
    }

    fn turn_of_both(&self) -> Instant {
        self.own_turn.max(self.among_all.next())
    }

    /// Waits for the next turn. If it is now, waits no longer where it is paid for, and else for ever.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn turn(&self, reading: Reading) {
        match reading {
            Reading::All if self.among_all.is_paid() => {}
            Reading::All => std::future::pending().await,
            Reading::Urgent => sleep_until(self.turn_of_both()).await,
            Reading::Nothing => sleep_until(self.own_turn - LEASH).await,
        }
    }
}

impl Session {
    /// How many frames may be carried out before it is another's turn; at least one.
    pub(super) fn room_for_frames(&mut self) -> u32 {
        let (bounds, now) = (&self.server.bounds, Instant::now());
        let settings = bounds.settings();
        let own = self.pacing.own.room(now, settings.session_rate);
        let tenant = self.port.bucket().key().tenant();
        own.min(self.pacing.among_all.room(&bounds.paces, tenant, settings.tenant_rate)).max(1)
    }

    /// Charges session and tenant for what was done.
    pub(super) fn settle(&mut self) {
        let (read, done) = (std::mem::take(&mut self.pacing.read), std::mem::take(&mut self.pacing.done));
        if read == 0 && done == 0 {
            return;
        }
        let (bounds, now) = (&self.server.bounds, Instant::now());
        let settings = bounds.settings();
        self.pacing.own_turn = now + self.pacing.own.charge(now, read, settings.session_rate);
        let all = read.saturating_add(done);
        let tenant = self.port.bucket().key().tenant();
        self.pacing.among_all.charge(&bounds.paces, tenant, all, settings.tenant_rate);
    }

    /// It is the session's turn. If it was already, nothing is there to be read.
    pub(super) fn begin_turn(&mut self, reading: Reading) -> Verdict {
        if reading == Reading::All {
            self.pass_turn();
        }
        Verdict::GoOn
    }

    /// The session has nothing to do in its turn.
    pub(super) fn pass_turn(&mut self) {
        let rate = self.server.bounds.settings().tenant_rate;
        let tenant = self.port.bucket().key().tenant();
        self.pacing.among_all.pass(&self.server.bounds.paces, tenant, rate);
    }

    /// Whether others come first.
    pub(super) fn is_paced(&self) -> bool {
        self.pacing.reading() != Reading::All
    }

    pub(super) fn has_spent(&self, room: u32) -> bool {
        self.pacing.read >= room
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.pass_turn();
    }
}
