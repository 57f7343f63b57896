//! Rates: who does more in a second than he may waits for his turn.
//!
//! What is done is charged afterwards. A pace is one instant: when all that was charged would be done at the rate. As long as that is less than a
//! [`BURST`] ahead, more may be done at once (the generic cell rate algorithm, <https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm>).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// What nobody was charged for lately may be done at once.
const BURST: Duration = Duration::from_secs(1);

/// The pace of one session or tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace(Instant);

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self(now)
    }

    /// Charges for so many; how long to wait before the next.
    pub(crate) fn charge(&mut self, now: Instant, count: u32, rate: u32) -> Duration {
        self.0 = self.0.max(now) + Duration::from_secs(1) * count / rate;
        self.wait(now)
    }

    /// How long to wait before the next.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now).saturating_sub(BURST)
    }

    /// How many may be done at once before it is to wait.
    pub(crate) fn room(&self, now: Instant, rate: u32) -> u32 {
        let left = (now + BURST).saturating_duration_since(self.0.max(now));
        (left.as_secs_f64() * f64::from(rate)) as u32
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.0 <= now
    }
}

/// The paces of all tenants that have done something lately.
#[derive(Debug, Default)]
pub(crate) struct Paces(Mutex<Known>);

/// Sessions wait for their turn, and so have always taken the next one already; a call that is refused has none. So half of the rate is kept for calls.
#[derive(Clone, Copy, Debug)]
struct Tenant {
    all: Pace,
    calls: Pace,
}

impl Tenant {
    fn new(now: Instant) -> Self {
        Self { all: Pace::new(now), calls: Pace::new(now) }
    }

    fn charge_call(&mut self, now: Instant, count: u32, rate: u32) {
        self.all.charge(now, count, rate);
        self.calls.charge(now, count, rate.div_ceil(2));
    }

    fn try_charge_call(&mut self, now: Instant, count: u32, rate: u32) -> Result<(), Duration> {
        let wait = self.all.wait(now).min(self.calls.wait(now));
        if wait > Duration::ZERO {
            return Err(wait);
        }
        self.charge_call(now, count, rate);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Known {
    of: HashMap<String, Tenant>,
    /// The idle ones are forgotten once there are so many.
    sweep_at: usize,
}

/// Fewer are not swept.
const LEAST_SWEPT: usize = 1024;

impl Paces {
    /// Charges the tenant for so many of a session; how long that should wait before the next.
    pub(crate) fn charge(&self, tenant: &str, count: u32, rate: u32) -> Duration {
        self.with(tenant, |tenant, now| tenant.all.charge(now, count, rate))
    }

    /// Charges the tenant for what a call that was admitted has cost beyond that.
    pub(crate) fn charge_call(&self, tenant: &str, count: u32, rate: u32) {
        self.with(tenant, |tenant, now| tenant.charge_call(now, count, rate));
    }

    /// How many the tenant may do at once before it is to wait.
    pub(crate) fn room(&self, tenant: &str, rate: u32) -> u32 {
        self.with(tenant, |tenant, now| tenant.all.room(now, rate))
    }

    /// Charges the tenant for a call that counts as so many, unless it has to wait; then it is told how long, and charged nothing.
    pub(crate) fn try_charge_call(&self, tenant: &str, count: u32, rate: u32) -> Result<(), Duration> {
        self.with(tenant, |tenant, now| tenant.try_charge_call(now, count, rate))
    }

    fn with<T>(&self, name: &str, then: impl FnOnce(&mut Tenant, Instant) -> T) -> T {
        let now = Instant::now();
        let mut known = self.0.lock();
        if let Some(tenant) = known.of.get_mut(name) {
            return then(tenant, now);
        }
        known.sweep(now);
        then(known.of.entry(name.to_owned()).or_insert_with(|| Tenant::new(now)), now)
    }
}

impl Known {
    fn sweep(&mut self, now: Instant) {
        if self.of.len() >= self.sweep_at.max(LEAST_SWEPT) {
            self.of.retain(|_, tenant| !tenant.all.is_idle(now) || !tenant.calls.is_idle(now));
            self.sweep_at = 2 * self.of.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_of_work_is_done_at_once_and_the_rest_at_the_rate() {
        let mut pace = Pace::new(Instant::now());
        assert_eq!(pace.room(Instant::now(), 10), 10);
        for _ in 0..10 {
            assert_eq!(pace.charge(Instant::now(), 1, 10), Duration::ZERO);
        }
        assert_eq!(pace.room(Instant::now(), 10), 0);
        let mut done = 0;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(pace.charge(Instant::now(), 1, 10)).await;
            done += 1;
        }
        assert!((599..=601).contains(&done), "{done} in a minute at 10 a second");
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_do_not_slow_each_other_down() {
        let paces = Paces::default();
        while paces.try_charge_call("a", 1, 10).is_ok() {}
        assert!(paces.try_charge_call("a", 1, 10).is_err_and(|wait| wait <= Duration::from_millis(100)));
        assert_eq!(paces.try_charge_call("b", 1, 10), Ok(()));
        tokio::time::advance(Duration::from_millis(101)).await;
        assert_eq!(paces.try_charge_call("a", 1, 10), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_have_half_of_the_rate_beside_sessions_that_take_all() {
        const RATE: u32 = 1000;
        let paces = std::sync::Arc::new(Paces::default());
        let start = Instant::now();
        let is_over = move || start.elapsed() > Duration::from_secs(60);
        let sessions = (0..24).map(|_| {
            let paces = paces.clone();
            tokio::spawn(async move {
                let mut done = 0;
                while !is_over() {
                    done += 128;
                    tokio::time::sleep(paces.charge("a", 128, RATE)).await;
                }
                done
            })
        });
        let sessions: Vec<_> = sessions.collect();
        let mut calls = 0;
        while !is_over() {
            match paces.try_charge_call("a", 1, RATE) {
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
        let paces = Paces::default();
        for tenant in 0..20 * LEAST_SWEPT {
            paces.charge(&tenant.to_string(), 1, 1000);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(paces.0.lock().of.len() <= LEAST_SWEPT);
    }
}
