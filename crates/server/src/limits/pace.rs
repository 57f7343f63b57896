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

#[derive(Debug, Default)]
struct Known {
    of: HashMap<String, Pace>,
    /// The idle ones are forgotten once there are so many.
    sweep_at: usize,
}

/// Fewer are not swept.
const LEAST_SWEPT: usize = 1024;

impl Paces {
    /// Charges the tenant for so many; how long it should wait before the next.
    pub(crate) fn charge(&self, tenant: &str, count: u32, rate: u32) -> Duration {
        let now = Instant::now();
        let mut known = self.0.lock();
        if let Some(pace) = known.of.get_mut(tenant) {
            return pace.charge(now, count, rate);
        }
        let mut pace = Pace::new(now);
        let wait = pace.charge(now, count, rate);
        known.sweep(now);
        known.of.insert(tenant.to_owned(), pace);
        wait
    }

    /// How many the tenant may do at once before it is to wait.
    pub(crate) fn room(&self, tenant: &str, rate: u32) -> u32 {
        let now = Instant::now();
        self.0.lock().of.get(tenant).copied().unwrap_or_else(|| Pace::new(now)).room(now, rate)
    }

    /// Charges the tenant for so many unless it has to wait; then it is told how long, and charged nothing.
    pub(crate) fn try_charge(&self, tenant: &str, count: u32, rate: u32) -> Result<(), Duration> {
        let wait = self.0.lock().of.get(tenant).map_or(Duration::ZERO, |pace| pace.wait(Instant::now()));
        if wait > Duration::ZERO {
            return Err(wait);
        }
        self.charge(tenant, count, rate);
        Ok(())
    }
}

impl Known {
    fn sweep(&mut self, now: Instant) {
        if self.of.len() >= self.sweep_at.max(LEAST_SWEPT) {
            self.of.retain(|_, pace| !pace.is_idle(now));
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
        while paces.try_charge("a", 1, 10).is_ok() {}
        assert!(paces.try_charge("a", 1, 10).is_err_and(|wait| wait <= Duration::from_millis(100)));
        assert_eq!(paces.try_charge("b", 1, 10), Ok(()));
        tokio::time::advance(Duration::from_millis(101)).await;
        assert_eq!(paces.try_charge("a", 1, 10), Ok(()));
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
