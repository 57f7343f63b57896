//! How fast the frames of a session are carried out.
//!
//! A session that sends more than `session_rate` is read more slowly, and so its client has to wait. If its
//! whole tenant does more than `tenant_rate`, its sessions take turns. Pongs, acks and ends are read
//! meanwhile, so that no lease ends for that; but they count, too, so that a flood of them is not read
//! either.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::limits::{FairTurns, Limiter, RateLimiter};
use crate::websocket::ReadMode;

/// How far ahead of the rate urgent messages are read that no client has to send.
const LEASH: Duration = Duration::from_secs(1);

/// The turns of one session.
#[derive(Debug)]
pub(super) struct Pacing {
    own: RateLimiter,
    /// Of what was read before its turn.
    ahead: RateLimiter,
    /// Frames that were read and not charged yet.
    read: u32,
    /// Those of them that were read before their turn, and that no client has to send.
    read_ahead: u32,
    /// Other work, charged to the tenant alone, in frames.
    done: u32,
    /// The session's own turn; before it only urgent messages are read.
    own_turn: Instant,
    /// When all that was read before its turn would be done at the rate of the session.
    ahead_until: Instant,
    among_all: FairTurns,
}

impl Default for Pacing {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            own: RateLimiter::new(now),
            ahead: RateLimiter::new(now),
            read: 0,
            read_ahead: 0,
            done: 0,
            own_turn: now,
            ahead_until: now,
            among_all: FairTurns::new(now),
        }
    }
}

impl Pacing {
    /// So much was read.
    pub(super) fn has_read(&mut self, frames: u32) {
        self.read = self.read.saturating_add(frames);
    }

    /// So much of that was read before its turn, and is nothing that the client has to send.
    pub(super) fn has_read_ahead(&mut self, frames: u32) {
        self.read_ahead = self.read_ahead.saturating_add(frames);
    }

    /// Something was done that costs as much as so many frames.
    pub(super) fn has_done(&mut self, frames: u32) {
        self.done = self.done.saturating_add(frames);
    }

    /// Frames read and work done since the last charge.
    pub(super) fn spent(&self) -> u32 {
        self.read.saturating_add(self.done)
    }

    /// The messages that are read at present.
    pub(super) fn reading(&self) -> ReadMode {
        let turn = self.turn_of_both();
        let now = Instant::now();
        if turn <= now {
            ReadMode::All
        } else if self.ahead_until > now + LEASH {
            ReadMode::Nothing
        } else {
            ReadMode::Urgent
        }
    }

    /// The session's turn among the sessions of the tenant.
    pub(super) fn tenants_turn(&self) -> Instant {
        self.among_all.next()
    }

    fn turn_of_both(&self) -> Instant {
        self.own_turn.max(self.among_all.next())
    }

    /// Waits for the next turn. If the turn is now, returns at once where it is paid for, and otherwise waits
    /// for ever.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn turn(&self, reading: ReadMode) {
        match reading {
            ReadMode::All if self.among_all.is_paid() => {}
            ReadMode::All => std::future::pending().await,
            ReadMode::Urgent => sleep_until(self.turn_of_both()).await,
            ReadMode::Nothing => sleep_until(self.ahead_until - LEASH).await,
        }
    }

    /// The number of frames that may be carried out before another session's turn; at least one.
    pub(super) fn available(&mut self, limiter: &Limiter, tenant: &str) -> u32 {
        let (settings, now) = (limiter.settings(), Instant::now());
        let own = self.own.available(now, settings.session_rate);
        own.min(self.among_all.available(&limiter.rate_limiters, tenant, settings.tenant_rate)).max(1)
    }

    /// Charges session and tenant for the frames read, and the tenant for the other work.
    pub(super) fn settle(&mut self, limiter: &Limiter, tenant: &str) {
        let (read, done) = (std::mem::take(&mut self.read), std::mem::take(&mut self.done));
        let ahead = std::mem::take(&mut self.read_ahead);
        if read == 0 && done == 0 {
            return;
        }
        let (settings, now) = (limiter.settings(), Instant::now());
        self.own_turn = now + self.own.charge(now, read, settings.session_rate);
        self.ahead_until = now + self.ahead.charge(now, ahead, settings.session_rate);
        let all = read.saturating_add(done);
        self.among_all.charge(&limiter.rate_limiters, tenant, all, settings.tenant_rate);
    }

    /// The session has nothing to do in its turn.
    pub(super) fn pass(&mut self, limiter: &Limiter, tenant: &str) {
        self.among_all.pass(&limiter.rate_limiters, tenant, limiter.settings().tenant_rate);
    }

    /// Whether other sessions come first.
    pub(super) fn is_paced(&self) -> bool {
        self.reading() != ReadMode::All
    }

    pub(super) fn has_spent(&self, available: u32) -> bool {
        self.read >= available
    }
}
