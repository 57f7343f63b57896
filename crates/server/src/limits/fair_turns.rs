//! Turns: the sessions of a tenant that does more than it may come one after the other.

use tokio::time::Instant;

use super::rate_limiter::{BURST, RateLimiters};

/// The turns of a session among all of its tenant.
///
/// A session that has to wait pays for a slice beforehand. So the turns of the sessions come one after the
/// other, as far apart as the slices are long. If all waited until something is left, their turns would come
/// together, ahead of all other sessions, and each would do a single frame.
#[derive(Debug)]
pub(crate) struct FairTurns {
    next: Instant,
    /// Frames paid for and not done yet.
    paid: u32,
}

impl FairTurns {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: now, paid: 0 }
    }

    /// The time of the session's turn.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Charges for so many.
    pub(crate) fn charge(&mut self, rate_limiters: &RateLimiters, tenant: &str, count: u32, rate: u32) {
        rate_limiters.with(tenant, |tenant, now| {
            self.forget(now);
            let unpaid = count.saturating_sub(self.paid);
            self.paid = self.paid.saturating_sub(count);
            if now < self.next {
                // Frames done before the turn, such as a pong, do not move the turn.
                tenant.all.charge(now, unpaid, rate);
            } else if self.paid == 0 {
                (self.next, self.paid) = tenant.all.take_turn(now, unpaid, rate);
            }
        });
    }

    /// The number of frames that may be done at once.
    pub(crate) fn available(&mut self, rate_limiters: &RateLimiters, tenant: &str, rate: u32) -> u32 {
        rate_limiters.with(tenant, |tenant, now| {
            self.forget(now);
            self.paid.max(tenant.all.available(now, rate))
        })
    }

    /// Whether something was paid for and not done yet.
    pub(crate) fn is_paid(&self) -> bool {
        self.paid > 0
    }

    /// Lets the turn pass, and gives back the charge for frames that were not done: the pass costs nothing.
    pub(crate) fn pass(&mut self, rate_limiters: &RateLimiters, tenant: &str, rate: u32) {
        if self.is_paid() {
            rate_limiters.with(tenant, |tenant, now| {
                self.forget(now);
                tenant.all.give_back(std::mem::take(&mut self.paid), rate);
            });
        }
    }

    /// A charge paid beforehand expires with its time, as unused rate always does: otherwise turns could be
    /// saved up, and taken together.
    fn forget(&mut self, now: Instant) {
        if now > self.next + BURST {
            self.paid = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::sleep_until;

    use super::*;

    /// So many sessions of a tenant that do in each turn what they may, up to `batch`, for a minute: what
    /// each has done, and how often so many had their turn within the same millisecond.
    async fn crowd(sessions: usize, batch: u32, rate: u32) -> (Vec<u32>, BTreeMap<u32, usize>) {
        let rate_limiters = Arc::new(RateLimiters::default());
        let start = Instant::now();
        let sessions = (0..sessions).map(|_| {
            let rate_limiters = rate_limiters.clone();
            tokio::spawn(async move {
                let (mut turns, mut done, mut at) = (FairTurns::new(start), 0, Vec::new());
                while start.elapsed() < Duration::from_secs(60) {
                    let count = turns.available(&rate_limiters, "a", rate).clamp(1, batch);
                    turns.charge(&rate_limiters, "a", count, rate);
                    done += count;
                    at.push(start.elapsed().as_millis());
                    sleep_until(turns.next()).await;
                    tokio::task::yield_now().await;
                }
                (done, at)
            })
        });
        let (mut done, mut at) = (Vec::new(), BTreeMap::<_, u32>::new());
        for session in sessions.collect::<Vec<_>>() {
            let (count, turns) = session.await.unwrap();
            done.push(count);
            // Without the burst at the beginning.
            turns.into_iter().filter(|ms| *ms > 5_000).for_each(|ms| *at.entry(ms).or_default() += 1);
        }
        let mut together = BTreeMap::new();
        at.into_values().for_each(|count| *together.entry(count).or_default() += 1);
        (done, together)
    }

    #[tokio::test(start_paused = true)]
    async fn the_sessions_of_a_tenant_take_turns() {
        let (done, together) = crowd(24, 128, 10_000).await;
        let all: u32 = done.iter().sum();
        assert!(
            (609_000..=611_000).contains(&all),
            "{all} in a minute and the second before it at 10000 a second"
        );
        assert!(done.iter().all(|each| each.abs_diff(all / 24) < all / 240), "unequal shares: {done:?}");
        let crowded: usize = together.range(3..).map(|(_, times)| times).sum();
        assert!(crowded < 100, "so many had their turn in one millisecond, so often: {together:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_one_after_the_other_has_the_whole_rate() {
        let (done, _) = crowd(1, 1, 1_000).await;
        assert!((60_900..=61_100).contains(&done[0]), "{done:?} in a minute and the second before it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_done_before_the_turn_does_not_bring_it_forward() {
        let (rate_limiters, start) = (RateLimiters::default(), Instant::now());
        let mut turns = FairTurns::new(start);
        turns.charge(&rate_limiters, "a", 1_100, 1_000);
        let turn = turns.next();
        assert_eq!(turn - start, Duration::from_millis(100));
        // More than was paid for beforehand, too.
        for count in [1, 100] {
            turns.charge(&rate_limiters, "a", count, 1_000);
            assert_eq!(turns.next(), turn);
        }
        sleep_until(turn).await;
        turns.charge(&rate_limiters, "a", 1, 1_000);
        assert!(turns.next() > turn + Duration::from_millis(100));

        // A session in a long queue pays for nothing beforehand.
        let (mut last, turn) = (FairTurns::new(turn), turn + Duration::from_secs(2));
        last.charge(&rate_limiters, "a", 1_883, 1_000);
        assert_eq!(last.next(), turn);
        last.charge(&rate_limiters, "a", 1, 1_000);
        assert_eq!(last.next(), turn);
    }

    #[tokio::test(start_paused = true)]
    async fn turns_that_were_missed_are_not_saved_up() {
        let (rate_limiters, start) = (RateLimiters::default(), Instant::now());
        FairTurns::new(start).charge(&rate_limiters, "a", 1_000, 1_000);
        let mut sessions: Vec<_> = (0..30).map(|_| FairTurns::new(start)).collect();
        for turns in &mut sessions {
            turns.charge(&rate_limiters, "a", 1, 1_000);
            assert!(turns.paid > 0);
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let mut at_once = 0;
        for turns in &mut sessions {
            let available = turns.available(&rate_limiters, "a", 1_000);
            turns.charge(&rate_limiters, "a", available, 1_000);
            at_once += available;
        }
        assert_eq!(at_once, 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_nothing_to_do_in_its_turn_costs_nothing() {
        let (rate_limiters, start) = (Arc::new(RateLimiters::default()), Instant::now());
        FairTurns::new(start).charge(&rate_limiters, "a", 5_500, 5_000);
        // A thousand sessions that do something every other second are far below the rate.
        let sessions = (0..1000).map(|number| {
            let rate_limiters = rate_limiters.clone();
            tokio::spawn(async move {
                let mut turns = FairTurns::new(start);
                tokio::time::sleep(Duration::from_millis(2 * number)).await;
                while start.elapsed() < Duration::from_secs(20) {
                    turns.charge(&rate_limiters, "a", 1, 5_000);
                    sleep_until(turns.next()).await;
                    turns.pass(&rate_limiters, "a", 5_000);
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
            })
        });
        let sessions: Vec<_> = sessions.collect();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let mut another = FairTurns::new(Instant::now());
        another.charge(&rate_limiters, "a", 1, 5_000);
        assert_eq!(another.next(), Instant::now(), "the queue has gone, while they are all there");
        for session in sessions {
            session.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_before_its_turn_costs_what_it_did() {
        let (rate_limiters, start) = (Arc::new(RateLimiters::default()), Instant::now());
        FairTurns::new(start).charge(&rate_limiters, "a", 5_500, 5_000);
        // Some 300 sessions in a second that do five things each are far below the rate.
        while start.elapsed() < Duration::from_secs(10) {
            let rate_limiters = rate_limiters.clone();
            tokio::spawn(async move {
                let mut turns = FairTurns::new(Instant::now());
                for _ in 0..5 {
                    turns.charge(&rate_limiters, "a", 1, 5_000);
                    sleep_until(turns.next()).await;
                }
                turns.pass(&rate_limiters, "a", 5_000);
            });
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let mut last = FairTurns::new(Instant::now());
        last.charge(&rate_limiters, "a", 1, 5_000);
        assert_eq!(last.next(), Instant::now(), "the queue has gone");
    }
}
