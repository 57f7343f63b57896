//! The slot lease of a node, as the node itself counts it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::ManualClock;
use crate::engine::sync::spawn;
use crate::moment::Moment;

/// The slot lease of a node during one life, as the node itself counts it: from the sending of its last
/// commit that was confirmed.
///
/// For nine tenths of it the node may speak. Then it is mute until another commit is confirmed: by the end of
/// the lease others may have declared it dead, and have taken its slots.
///
/// To ensure correctness, a message is checked after all that it says is fixed, and rests on nothing that
/// comes later. How long it is under way then does not matter: a client counts its lease from the sending of
/// a pong that a later ping has confirmed, so that its own deadline lies within nine tenths of both leases
/// after the sending of the last confirmed commit, whatever delays the ping.
pub struct SlotLease {
    clock: Arc<NodeClock>,
    length: Duration,
    /// The instant of the last confirmed commit in nanoseconds since the beginning, plus one; 0 if there was
    /// none.
    confirmed: AtomicU64,
    confirmations: watch::Sender<()>,
}

/// The clock by which a node counts its own rights, the same in all its lives.
#[derive(Debug)]
pub(crate) enum NodeClock {
    /// Goes on while the machine sleeps.
    System(Moment),
    /// Moved on by hand.
    Manual(ManualClock),
}

impl NodeClock {
    pub(crate) fn new(manual: Option<&ManualClock>) -> Self {
        manual.map_or_else(|| Self::System(Moment::now()), |clock| Self::Manual(clock.clone()))
    }

    /// Since the beginning.
    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::System(beginning) => beginning.elapsed(),
            Self::Manual(clock) => clock.elapsed(),
        }
    }
}

/// The time that a node has seen passing, by which it is patient with others: however far its clock leaps
/// between two looks at it, and however long the process stands still, that is one step.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    system: Arc<NodeClock>,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    passed: Duration,
    /// The last reading of the clock.
    at: Duration,
}

/// The pause between two looks at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// The most that passes between two looks.
const LONGEST_STEP: Duration = Duration::from_millis(100);

impl SteadyClock {
    /// One that goes on in the present runtime.
    pub(crate) fn begin(system: NodeClock) -> Arc<Self> {
        let seen = Mutex::new(Seen { passed: Duration::ZERO, at: system.now() });
        let clock = Arc::new(Self { system: Arc::new(system), seen });
        let known = Arc::downgrade(&clock);
        spawn(async move {
            while let Some(clock) = known.upgrade() {
                clock.now();
                drop(clock);
                sleep(LOOK).await;
            }
        });
        clock
    }

    /// What has passed since the beginning.
    pub(crate) fn now(&self) -> Duration {
        let mut seen = self.seen.lock();
        let now = self.system.now();
        let step = now.saturating_sub(seen.at).min(LONGEST_STEP);
        (seen.passed, seen.at) = (seen.passed + step, now);
        seen.passed
    }

    /// Waits until so much has passed.
    pub(crate) async fn until(&self, instant: Duration) {
        loop {
            let left = instant.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(LOOK)).await;
        }
    }

    /// The clock itself, by which the node counts its own rights.
    pub(crate) fn system(&self) -> Arc<NodeClock> {
        self.system.clone()
    }
}

impl SlotLease {
    pub(crate) fn new(clock: Arc<NodeClock>, length: Duration) -> Self {
        Self { clock, length, confirmed: AtomicU64::new(0), confirmations: watch::Sender::new(()) }
    }

    /// Now, on the clock of the lease.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Its length.
    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// A commit that was sent at that instant or later is confirmed.
    pub(crate) fn confirm(&self, sent: Duration) {
        self.confirmed.fetch_max(nanos(sent) + 1, Ordering::AcqRel);
        self.confirmations.send_replace(());
    }

    /// Whether nothing may be said.
    pub fn is_mute(&self) -> bool {
        match self.confirmed.load(Ordering::Acquire) {
            0 => true,
            confirmed => nanos(self.now()).saturating_sub(confirmed - 1) > nanos(self.length) / 10 * 9,
        }
    }

    /// Whether nothing may be said any more, as a commit was confirmed before.
    pub(crate) fn has_fallen_silent(&self) -> bool {
        self.confirmed.load(Ordering::Acquire) > 0 && self.is_mute()
    }

    /// For how long no commit has been confirmed; none if none ever was.
    pub fn unconfirmed_for(&self) -> Option<Duration> {
        let confirmed = self.confirmed.load(Ordering::Acquire).checked_sub(1)?;
        Some(self.now().saturating_sub(Duration::from_nanos(confirmed)))
    }

    /// Waits until a commit is confirmed.
    pub(crate) async fn confirmed(&self) {
        // The sender is here.
        _ = self.confirmations.subscribe().changed().await;
    }

    /// Waits until something may be said.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn unmuted(&self) {
        let mut confirmations = self.confirmations.subscribe();
        // The sender is here. A lease that is never confirmed again is waited for without end.
        _ = confirmations.wait_for(|()| !self.is_mute()).await;
    }
}

fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX / 2)
}

impl fmt::Debug for SlotLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotLease").field("unconfirmed_for", &self.unconfirmed_for()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_node_speaks_for_nine_tenths_of_its_lease_after_the_sending_of_a_confirmed_commit() {
        let clock = ManualClock::new();
        let lease = SlotLease::new(Arc::new(NodeClock::new(Some(&clock))), ms(1000));
        assert!(lease.is_mute(), "no commit was confirmed");
        let sent = lease.now();
        clock.advance(ms(500));
        lease.confirm(sent);
        assert!(!lease.is_mute());
        clock.advance(ms(400));
        assert!(!lease.is_mute());
        clock.advance(ms(1));
        assert!(lease.is_mute());
        // The confirmation of an earlier commit that comes late gives nothing.
        lease.confirm(sent);
        assert!(lease.is_mute());
        lease.confirm(lease.now());
        assert!(!lease.is_mute());
    }

    #[tokio::test(start_paused = true)]
    async fn a_leap_of_the_clock_is_one_step_of_patience() {
        let clock = ManualClock::new();
        let steady = SteadyClock::begin(NodeClock::new(Some(&clock)));
        assert_eq!(steady.now(), ms(0));
        clock.advance(ms(30));
        assert_eq!(steady.now(), ms(30));
        clock.advance(ms(15_000));
        assert_eq!(steady.now(), ms(130));
        // No other task looks while the time passes.
        for _ in 0..40 {
            clock.advance(ms(50));
            sleep(ms(50)).await;
        }
        assert_eq!(steady.now(), ms(2130));

        let waits = tokio::spawn({
            let steady = steady.clone();
            async move { steady.until(ms(3130)).await }
        });
        clock.advance(ms(15_000));
        sleep(ms(1)).await;
        assert!(!waits.is_finished());
        for _ in 0..18 {
            clock.advance(ms(50));
            sleep(ms(50)).await;
        }
        waits.await.unwrap();
        assert!(steady.now() >= ms(3130) && steady.now() <= ms(3230), "{:?}", steady.now());
    }

    #[tokio::test]
    async fn the_next_confirmed_commit_ends_the_silence() {
        let clock = ManualClock::new();
        let lease = SlotLease::new(Arc::new(NodeClock::new(Some(&clock))), ms(1000));
        let mut speaks = Box::pin(lease.unmuted());
        assert!(timeout(Duration::ZERO, &mut speaks).await.is_err());
        lease.confirm(lease.now());
        speaks.await;
    }
}
