//! The lease clock.
//!
//! While deadlines exist, time is a tick that a task of the house moves on ten times per second, by at most
//! the length of two ticks at once: a stalled process lengthens leases instead of breaking them. A tick ends
//! only what was due at the tick before, so that all input that was waiting then has been handled. That also
//! makes up for a system clock that leaps, by which time moves on by one tick too many. Without deadlines the
//! lease clock is a coarse system clock.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use lockhouse_core::{Instant, Now};
use parking_lot::Mutex;

use crate::whole_millis::whole_millis;

/// How often the clock ticks while deadlines exist.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// The most that one tick adds, in milliseconds.
const LONGEST_STEP_MS: u64 = 2 * TICK.as_millis() as u64;

/// How far calendar and system clock may drift apart before reported times show it.
const CALENDAR_TOLERANCE_MS: u64 = 500;

/// The end of the year 9999, in milliseconds since 1970.
const LAST_WRITABLE_MS: u64 = 253_402_300_799_999;

/// Time of one house: milliseconds since 1970 at its beginning, so that instants of an earlier life can be
/// expressed, and from there on its own.
#[derive(Debug)]
pub(crate) struct Clock {
    system: System,
    ticking: AtomicBool,
    /// The time of the last tick, valid while ticking.
    tick_ms: AtomicU64,
    /// How far this clock lags behind the system's, through stalls. Written before the tick that follows from
    /// it.
    lag_ms: AtomicU64,
    /// How far the calendar is ahead of the system's clock.
    drift_ms: AtomicI64,
}

/// Where time comes from.
#[derive(Debug)]
enum System {
    Since { origin: coarsetime::Instant, calendar_ms: u64 },
    Manual(ManualClock),
}

/// A clock that stands still until it is moved on by hand: for the tests of programs with locks that end by
/// time.
///
/// Houses that share it ([`Options::clock`](crate::Options::clock)) live at the same time, or one after
/// another.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::{sync::Arc, time::Duration};
/// use lockhouse::{House, ManualClock, Options, store::MemoryStore};
///
/// let clock = ManualClock::new();
/// let house = House::open(Arc::new(MemoryStore::new()?), Options::new().clock(&clock)).await?;
/// let agent = house.bucket("default").agent("worker-1")?;
/// let lock = agent.locks().request("report").max_hold(Duration::from_secs(3600)).await?;
/// clock.advance(Duration::from_secs(3600));
/// assert!(lock.loss().is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Manual>);

#[derive(Debug, Default)]
struct Manual {
    ms: AtomicU64,
    /// How far the calendar is ahead.
    calendar_ms: AtomicI64,
    houses: Mutex<Vec<Weak<dyn TickedByHand>>>,
}

/// A house whose time a manual clock moves on.
pub(crate) trait TickedByHand: Send + Sync {
    /// One tick, which ends all that is due.
    fn tick_by_hand(&self);
}

impl ManualClock {
    /// A clock that stands at the beginning of 2026.
    pub fn new() -> Self {
        let clock = Self::default();
        clock.0.ms.store(1_767_225_600_000, Ordering::Release);
        clock
    }

    /// Moves time on, in steps as short as those of a running clock, and ends everything that is due at each
    /// of them. A part of a millisecond counts as a whole one.
    pub fn advance(&self, by: Duration) {
        let mut left_ms = whole_millis(by);
        while left_ms > 0 {
            let step = left_ms.min(LONGEST_STEP_MS);
            left_ms -= step;
            self.0.ms.fetch_add(step, Ordering::AcqRel);
            self.tick();
        }
        // A tick ends only what was due at the tick before.
        self.tick();
    }

    /// How far it was moved since 1970.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.ms.load(Ordering::Acquire))
    }

    /// Moves time on in one step, as it looks to a process that stood still meanwhile: whatever ends by time
    /// lasts the longer for it.
    pub fn stand_still(&self, by: Duration) {
        self.0.ms.fetch_add(whole_millis(by), Ordering::AcqRel);
        self.tick();
    }

    /// Moves time on without a tick, as while the next tick of a running clock is not there yet, or is late.
    /// Nothing ends by time before the next [`stand_still`](Self::stand_still), which is one tick, be it of
    /// no time, or [`advance`](Self::advance).
    pub fn advance_without_tick(&self, by: Duration) {
        self.0.ms.fetch_add(whole_millis(by), Ordering::AcqRel);
    }

    /// Sets the calendar, so many milliseconds ahead of this clock or, if negative, behind it; at first they
    /// are the same.
    pub fn set_calendar(&self, ahead_ms: i64) {
        self.0.calendar_ms.store(ahead_ms, Ordering::Release);
    }

    fn tick(&self) {
        let houses: Vec<_> = self.0.houses.lock().iter().filter_map(Weak::upgrade).collect();
        houses.iter().for_each(|house| house.tick_by_hand());
    }

    /// Lets that house live by this clock.
    pub(crate) fn drives(&self, house: Weak<dyn TickedByHand>) {
        let mut houses = self.0.houses.lock();
        houses.retain(|house| house.strong_count() > 0);
        houses.push(house);
    }
}

impl Clock {
    pub(crate) fn new() -> Self {
        let calendar_ms = calendar_ms();
        // The leaps of before are no time that passes.
        #[cfg(feature = "lab")]
        let calendar_ms = calendar_ms - crate::lab_clocks::leap().as_millis() as u64;
        Self::over(System::Since { origin: coarsetime::Instant::now(), calendar_ms })
    }

    pub(crate) fn manual(clock: ManualClock) -> Self {
        Self::over(System::Manual(clock))
    }

    fn over(system: System) -> Self {
        Self {
            system,
            ticking: AtomicBool::new(false),
            tick_ms: AtomicU64::new(0),
            lag_ms: AtomicU64::new(0),
            drift_ms: AtomicI64::new(0),
        }
    }

    /// Now. A bucket keeps the latest it has seen, as two readers may differ while ticking begins or ends.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        if self.ticking.load(Ordering::Acquire) {
            Instant::from_millis(self.tick_ms.load(Ordering::Acquire))
        } else {
            Instant::from_millis(self.free_running())
        }
    }

    /// The time of a command that may set a deadline: the present tick, and how late the command comes after
    /// it. The next tick is no earlier than that.
    pub(crate) fn stamp(&self) -> Now {
        if !self.ticking.load(Ordering::Acquire) {
            return self.now().into();
        }
        let tick_ms = self.tick_ms.load(Ordering::Acquire);
        // Read after the tick: should another come in between, both lead to the same instant.
        let late_ms = self.free_running().saturating_sub(tick_ms);
        Now::late(Instant::from_millis(tick_ms), late_ms.min(LONGEST_STEP_MS))
    }

    /// The time of that instant by the calendar. The same instant is always reported as the same time, unless
    /// the calendar has been set, or the machine has slept, by more than [`CALENDAR_TOLERANCE_MS`]. Instants
    /// beyond the last one that RFC 3339 can write are reported as that one.
    pub(crate) fn wall(&self, at: Instant) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.wall_ms(at).min(LAST_WRITABLE_MS))
    }

    /// The same in milliseconds since 1970.
    pub(crate) fn wall_ms(&self, at: Instant) -> u64 {
        at.as_millis().saturating_add_signed(self.ahead())
    }

    /// The instant that the calendar calls so many milliseconds since 1970.
    pub(crate) fn at_wall(&self, ms: u64) -> Instant {
        Instant::from_millis(ms.saturating_add_signed(-self.ahead()))
    }

    /// How far the calendar is ahead of this clock.
    fn ahead(&self) -> i64 {
        let drift = self.calendar().wrapping_sub(self.system()).cast_signed();
        if drift.abs_diff(self.drift_ms.load(Ordering::Acquire)) > CALENDAR_TOLERANCE_MS {
            self.drift_ms.store(drift, Ordering::Release);
        }
        self.drift_ms.load(Ordering::Acquire) + self.lag_ms.load(Ordering::Acquire).cast_signed()
    }

    /// Ticking begins: time stands still between ticks from now on.
    pub(crate) fn start_ticking(&self) {
        self.tick_ms.store(self.free_running(), Ordering::Release);
        self.ticking.store(true, Ordering::Release);
    }

    /// Ticking ends, with a last step: time runs freely from there on.
    pub(crate) fn stop_ticking(&self) {
        self.tick();
        self.ticking.store(false, Ordering::Release);
    }

    /// The step from one tick to the next. Only one thread calls this at a time.
    pub(crate) fn tick(&self) {
        let last = self.tick_ms.load(Ordering::Acquire);
        let step = self.free_running().saturating_sub(last);
        let moved = step.min(LONGEST_STEP_MS);
        self.lag_ms.fetch_add(step - moved, Ordering::AcqRel);
        self.tick_ms.store(last + moved, Ordering::Release);
    }

    fn free_running(&self) -> u64 {
        let lag = self.lag_ms.load(Ordering::Acquire);
        self.system().saturating_sub(lag)
    }

    fn system(&self) -> u64 {
        match &self.system {
            System::Since { origin, calendar_ms } => {
                let since = origin.elapsed().as_millis();
                #[cfg(feature = "lab")]
                let since = since + crate::lab_clocks::leap().as_millis() as u64;
                calendar_ms + since
            }
            System::Manual(clock) => clock.0.ms.load(Ordering::Acquire),
        }
    }

    fn calendar(&self) -> u64 {
        match &self.system {
            System::Since { .. } => calendar_ms(),
            System::Manual(clock) => {
                self.system().saturating_add_signed(clock.0.calendar_ms.load(Ordering::Acquire))
            }
        }
    }

    /// Whether time is moved on by hand, so that no task has to do it.
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.system, System::Manual(_))
    }

    /// Moves a manual clock on without a tick.
    #[cfg(test)]
    pub(crate) fn advance(&self, by_ms: u64) {
        if let System::Manual(clock) = &self.system {
            clock.advance_without_tick(Duration::from_millis(by_ms));
        }
    }
}

/// Milliseconds since 1970.
fn calendar_ms() -> u64 {
    let ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    #[cfg(feature = "lab")]
    let ms = ms.saturating_add_signed(crate::lab_clocks::wall_ms());
    ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_instant_can_be_written() {
        let clock = Clock::manual(ManualClock::new());
        for at in [Instant::from_millis(u64::MAX), clock.now().plus_millis(1 << 53)] {
            assert_eq!(
                humantime::format_rfc3339_millis(clock.wall(at)).to_string(),
                "9999-12-31T23:59:59.999Z"
            );
        }
    }

    #[test]
    fn an_instant_always_has_the_same_wall_time() {
        let clock = Clock::manual(ManualClock::new());
        let at = clock.now();
        let wall = clock.wall(at);
        clock.advance(120);
        clock.start_ticking();
        clock.advance(130);
        clock.tick();
        clock.advance(60);
        assert_eq!(clock.wall(at), wall);
        clock.stop_ticking();
        assert_eq!(clock.wall(at), wall);
        assert_eq!(clock.wall(clock.now()), wall + Duration::from_millis(310));
    }

    #[test]
    fn no_time_read_during_a_tick_is_too_early() {
        let clock = Clock::manual(ManualClock::new());
        clock.start_ticking();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    clock.advance(100);
                    clock.tick();
                }
            });
            let too_early = (0..200_000).find_map(|_| {
                let before = clock.free_running();
                let read = clock.stamp().deadline(0).as_millis();
                (read < before).then_some((read, before))
            });
            is_over.store(true, Ordering::Release);
            assert_eq!(too_early, None);
        });
    }

    #[test]
    fn a_calendar_that_is_set_moves_no_instant() {
        let manual = ManualClock::new();
        let clock = Clock::manual(manual.clone());
        let (at, wall) = (clock.now(), clock.wall(clock.now()));
        manual.set_calendar(-3_600_000);
        assert_eq!(clock.now(), at);
        assert_eq!(clock.wall(at), wall - Duration::from_secs(3600));
        manual.set_calendar(0);
        assert_eq!(clock.wall(at), wall);
    }

    #[test]
    fn times_of_an_earlier_life_are_instants_too() {
        let clock = Clock::new();
        let an_hour_ago = calendar_ms() - 3_600_000;
        let at = clock.at_wall(an_hour_ago);
        assert!(at < clock.now());
        assert_eq!(clock.wall_ms(at), an_hour_ago);
    }
}
