//! When to commit: at once, or after a moment in which the callers come back that have just been answered.
//!
//! A caller that is answered by a commit often has more to write. Were the next commit to begin at once, it
//! would have only the commands that came meanwhile, and each caller would wait for every other commit: two
//! halves that never meet. A short delay brings them together where a commit takes long beside it.

use std::time::Duration;

use lockhouse_store::BATCH_COST;

/// A commit that takes less is not worth waiting for company.
const SLOW: Duration = Duration::from_millis(2);

/// The longest wait.
const LONGEST: Duration = Duration::from_millis(2);

/// For how many commits nothing is waited for, after a wait in vain.
const TIRED: u32 = 15;

/// Statistics of how commands come.
#[derive(Debug, Default)]
pub(crate) struct CommitDelay {
    /// How many commands had changes to write, in the last commit and behind it.
    known: usize,
    longest: Duration,
    tired: u32,
}

impl CommitDelay {
    /// A commit of so many commands took so long, while so many others came.
    pub(crate) fn has_committed(&mut self, commands: usize, others: usize, took: Duration) {
        self.known = commands + others;
        self.longest = if took < SLOW { Duration::ZERO } else { (took / 4).min(LONGEST) };
        self.tired = self.tired.saturating_sub(1);
    }

    /// For how many commands to wait, and how long at most; `None` if not at all. A few may stay away, and
    /// more than fit into one commit are not worth a wait.
    pub(crate) fn patience(&self) -> Option<(usize, Duration)> {
        let wanted = (self.known - self.known / 8).min(BATCH_COST);
        (wanted > 1 && self.tired == 0 && !self.longest.is_zero()).then_some((wanted, self.longest))
    }

    /// The commands that were waited for have come, or have not.
    pub(crate) fn has_waited(&mut self, in_vain: bool) {
        if in_vain {
            self.tired = TIRED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(4);

    #[test]
    fn those_who_were_answered_are_waited_for_a_part_of_the_time_that_a_commit_takes() {
        let mut delay = CommitDelay::default();
        assert_eq!(delay.patience(), None);
        delay.has_committed(32, 32, TOOK);
        assert_eq!(delay.patience(), Some((56, TOOK / 4)));
        delay.has_committed(32, 32, 100 * TOOK);
        assert_eq!(delay.patience(), Some((56, LONGEST)));
    }

    #[test]
    fn a_full_commit_does_not_wait() {
        let mut delay = CommitDelay::default();
        delay.has_committed(BATCH_COST, 10 * BATCH_COST, TOOK);
        assert_eq!(delay.patience(), Some((BATCH_COST, TOOK / 4)));
    }

    #[test]
    fn no_commit_waits_alone_or_for_a_store_that_is_fast() {
        let mut delay = CommitDelay::default();
        delay.has_committed(1, 0, TOOK);
        assert_eq!(delay.patience(), None);
        delay.has_committed(32, 32, SLOW / 2);
        assert_eq!(delay.patience(), None);
    }

    #[test]
    fn after_a_wait_in_vain_nothing_is_waited_for_in_a_while() {
        let mut delay = CommitDelay::default();
        delay.has_committed(2, 0, TOOK);
        delay.has_waited(false);
        assert!(delay.patience().is_some());
        delay.has_waited(true);
        for _ in 0..TIRED {
            assert_eq!(delay.patience(), None);
            delay.has_committed(2, 0, TOOK);
        }
        assert!(delay.patience().is_some());
    }
}
