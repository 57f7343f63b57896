//! Rates: a session or tenant that does more in a second than it may waits for its turn.
//!
//! Work is charged afterwards. A rate limiter is one instant: when all that was charged would be done at the
//! rate. As long as that is less than a [`BURST`] ahead, more may be done at once (the generic cell rate
//! algorithm, <https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm>).

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Rate that was not used within this time may be used at once.
pub(super) const BURST: Duration = Duration::from_secs(1);

/// The most that a session pays for beforehand, in frames: so much it does in its turn, in less than a
/// millisecond.
const SLICE: u32 = 16;

/// No slice is longer than such a part of a second, so that turns come often also where rates are small.
const LEAST_SLICES: u32 = 64;

/// A session that would have to wait longer than this pays for nothing beforehand, so that countless sessions
/// do not wait for slices that others do not use.
const LONGEST_QUEUE: Duration = Duration::from_millis(500);

/// The rate limiter of one session or tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimiter(Instant);

impl RateLimiter {
    pub(crate) fn new(now: Instant) -> Self {
        Self(now)
    }

    /// Charges for so many; returns the wait before the next.
    pub(crate) fn charge(&mut self, now: Instant, count: u32, rate: u32) -> Duration {
        self.0 = self.0.max(now) + time_for(count, rate);
        self.wait(now)
    }

    /// The wait before the next.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now).saturating_sub(BURST)
    }

    /// Charges for so many, and beforehand for a slice if there is to be a wait; returns the end of the wait,
    /// and the number paid for.
    pub(super) fn take_turn(&mut self, now: Instant, count: u32, rate: u32) -> (Instant, u32) {
        let wait = self.charge(now, count, rate);
        let slice = if wait.is_zero() || wait > LONGEST_QUEUE { 0 } else { SLICE.min(rate / LEAST_SLICES) };
        self.charge(now, slice, rate);
        (now + wait, slice)
    }

    /// Takes back a charge.
    pub(super) fn give_back(&mut self, count: u32, rate: u32) {
        self.0 = self.0.checked_sub(time_for(count, rate)).unwrap_or(self.0);
    }

    /// The number that may be done at once, without a wait.
    pub(crate) fn available(&self, now: Instant, rate: u32) -> u32 {
        let left = (now + BURST).saturating_duration_since(self.0.max(now));
        (left.as_secs_f64() * f64::from(rate)) as u32
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.0 <= now
    }
}

/// The time in which so many are done at the rate.
fn time_for(count: u32, rate: u32) -> Duration {
    Duration::from_nanos(u64::from(count) * 1_000_000_000 / u64::from(rate))
}

/// The rate limiters of all tenants that have done something lately.
#[derive(Debug, Default)]
pub(crate) struct RateLimiters(Mutex<KnownTenants>);

/// Sessions wait for their turn, and so have always taken the next one already; a call that is refused has
/// none. So half of the rate is kept for calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenant {
    pub(super) all: RateLimiter,
    calls: RateLimiter,
}

impl Tenant {
    fn new(now: Instant) -> Self {
        Self { all: RateLimiter::new(now), calls: RateLimiter::new(now) }
    }

    fn charge_call(&mut self, now: Instant, count: u32, rate: u32) {
        self.all.charge(now, count, rate);
        self.calls.charge(now, count, rate.div_ceil(2));
    }

    fn admit_call(&mut self, now: Instant, rate: u32) -> Result<(), Duration> {
        let wait = self.all.wait(now).min(self.calls.wait(now));
        if !wait.is_zero() {
            return Err(wait);
        }
        self.charge_call(now, 1, rate);
        Ok(())
    }

    /// An admitted call has to wait here only if other calls were admitted since.
    fn admit_more(&mut self, now: Instant, count: u32, rate: u32) -> Result<(), Duration> {
        let mut before = *self;
        before.all.give_back(1, rate);
        before.calls.give_back(1, rate.div_ceil(2));
        let wait = before.all.wait(now).min(before.calls.wait(now));
        if !wait.is_zero() {
            return Err(wait);
        }
        self.charge_call(now, count, rate);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct KnownTenants {
    of: HashMap<String, Tenant, RandomState>,
    /// The idle ones are forgotten once there are so many.
    sweep_at: usize,
}

/// Fewer are not swept.
const LEAST_SWEPT: usize = 1024;

impl RateLimiters {
    /// Charges the tenant for a call, unless the call has to wait; then returns for how long, and charges
    /// nothing.
    pub(crate) fn admit_call(&self, tenant: &str, rate: u32) -> Result<(), Duration> {
        self.with(tenant, |tenant, now| tenant.admit_call(now, rate))
    }

    /// Charges the tenant for what an admitted call is about to cost beyond that, unless the call has to wait
    /// for others that were admitted meanwhile; then returns for how long, and charges nothing more.
    pub(crate) fn admit_more(&self, tenant: &str, count: u32, rate: u32) -> Result<(), Duration> {
        if count == 0 {
            return Ok(());
        }
        self.with(tenant, |tenant, now| tenant.admit_more(now, count, rate))
    }

    /// Charges the tenant for the further cost of an admitted call.
    pub(crate) fn charge_call(&self, tenant: &str, count: u32, rate: u32) {
        if count > 0 {
            self.with(tenant, |tenant, now| tenant.charge_call(now, count, rate));
        }
    }

    pub(super) fn with<T>(&self, name: &str, then: impl FnOnce(&mut Tenant, Instant) -> T) -> T {
        let now = Instant::now();
        let mut known = self.0.lock();
        if let Some(tenant) = known.of.get_mut(name) {
            return then(tenant, now);
        }
        known.sweep(now);
        then(known.of.entry(name.to_owned()).or_insert_with(|| Tenant::new(now)), now)
    }
}

impl KnownTenants {
    fn sweep(&mut self, now: Instant) {
        if self.of.len() >= self.sweep_at.max(LEAST_SWEPT) {
            self.of.retain(|_, tenant| !tenant.all.is_idle(now) || !tenant.calls.is_idle(now));
            self.sweep_at = 2 * self.of.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::sleep_until;

    use super::*;
    use crate::limits::FairTurns;

    #[tokio::test(start_paused = true)]
    async fn a_second_of_work_is_done_at_once_and_the_rest_at_the_rate() {
        let mut limiter = RateLimiter::new(Instant::now());
        assert_eq!(limiter.available(Instant::now(), 10), 10);
        for _ in 0..10 {
            assert_eq!(limiter.charge(Instant::now(), 1, 10), Duration::ZERO);
        }
        assert_eq!(limiter.available(Instant::now(), 10), 0);
        let mut done = 0;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(limiter.charge(Instant::now(), 1, 10)).await;
            done += 1;
        }
        assert!((599..=601).contains(&done), "{done} in a minute at 10 a second");
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_do_not_slow_each_other_down() {
        let rate_limiters = RateLimiters::default();
        while rate_limiters.admit_call("a", 10).is_ok() {}
        assert!(rate_limiters.admit_call("a", 10).is_err_and(|wait| wait <= Duration::from_millis(100)));
        assert_eq!(rate_limiters.admit_call("b", 10), Ok(()));
        tokio::time::advance(Duration::from_millis(101)).await;
        assert_eq!(rate_limiters.admit_call("a", 10), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn of_calls_admitted_together_the_first_that_costs_more_goes_on() {
        let rate_limiters = RateLimiters::default();
        for _ in 0..50 {
            assert_eq!(rate_limiters.admit_call("a", 100), Ok(()));
        }
        assert_eq!(rate_limiters.admit_more("a", 59, 100), Ok(()));
        for _ in 1..50 {
            let refused = rate_limiters.admit_more("a", 59, 100);
            assert!(refused.is_err_and(|wait| wait <= Duration::from_millis(100)), "{refused:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_have_half_of_the_rate_beside_sessions_that_take_all() {
        const RATE: u32 = 1000;
        let rate_limiters = Arc::new(RateLimiters::default());
        let start = Instant::now();
        let is_over = move || start.elapsed() > Duration::from_secs(60);
        let sessions = (0..24).map(|_| {
            let rate_limiters = rate_limiters.clone();
            tokio::spawn(async move {
                let (mut turns, mut done) = (FairTurns::new(start), 0);
                while !is_over() {
                    done += 128;
                    turns.charge(&rate_limiters, "a", 128, RATE);
                    sleep_until(turns.next()).await;
                }
                done
            })
        });
        let sessions: Vec<_> = sessions.collect();
        let mut calls = 0;
        while !is_over() {
            match rate_limiters.admit_call("a", RATE) {
                Ok(()) => calls += 1,
                Err(wait) => tokio::time::sleep(wait).await,
            }
            tokio::task::yield_now().await;
        }
        let mut frames = 0;
        for session in sessions {
            frames += session.await.unwrap();
        }
        assert!((29_500..=31_000).contains(&calls), "{calls} calls in a minute beside {frames} frames");
        assert!((27_000..=38_000).contains(&frames), "{frames} frames in a minute beside {calls} calls");
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_that_do_nothing_are_forgotten() {
        let rate_limiters = RateLimiters::default();
        for tenant in 0..20 * LEAST_SWEPT {
            FairTurns::new(Instant::now()).charge(&rate_limiters, &tenant.to_string(), 1, 1000);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(rate_limiters.0.lock().of.len() <= LEAST_SWEPT);
    }
}
