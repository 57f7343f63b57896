//! The slot lease of a node, as the node itself counts it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::ManualClock;
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
