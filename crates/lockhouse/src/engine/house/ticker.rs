//! The task that moves time on, and ends everything that is due.
//!
//! ```text
//!   a round, at each tick:
//!     every bucket with deadlines, a few ends in each ──▶ time moves on ──▶ the next round
//!       └─ more has to end there ──▶ crowds: by turns of tenants, a part at a time, between rounds
//! ```
//!
//! Time stands still during a round only, so that a crowd of leases that ends in one bucket makes none in
//! another last longer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use lockhouse_core::Instant;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{Instant as TokioInstant, sleep_until};

use crate::engine::bucket::shared::{BEATS, Shared};
use crate::engine::clock::{TICK, TickedByHand};
use crate::engine::house::inner::Inner;

/// The buckets that have deadlines, and whether the task that watches them runs.
#[derive(Debug, Default)]
pub(super) struct Ticking {
    /// The buckets that the present round has not visited yet; between rounds, all but the crowds.
    buckets: Vec<Weak<Shared>>,
    /// The buckets that it has visited.
    done: Vec<Weak<Shared>>,
    crowds: Crowds,
    /// The buckets in which void locks were left by the last tick.
    sweeping: Vec<Weak<Shared>>,
    running: bool,
    /// The latest runtime in which a lease or a longest hold was asked for.
    runtime: Option<Handle>,
}

/// A bucket in which more had to end by a tick than in its share of the round.
#[derive(Debug)]
struct Crowd {
    bucket: Weak<Shared>,
    due: Instant,
}

/// The crowds, by tenants: each tenant has its turn, however many crowds it has, and in it each crowd.
#[derive(Debug, Default)]
struct Crowds {
    of: HashMap<String, VecDeque<Crowd>>,
    turns: VecDeque<String>,
}

impl Crowds {
    fn push(&mut self, tenant: &str, crowd: Crowd) {
        if let Some(crowds) = self.of.get_mut(tenant) {
            crowds.push_back(crowd);
        } else {
            self.of.insert(tenant.to_owned(), [crowd].into());
            self.turns.push_back(tenant.to_owned());
        }
    }

    fn next(&mut self) -> Option<Crowd> {
        let tenant = self.turns.pop_front()?;
        let crowds = self.of.get_mut(&tenant)?;
        let crowd = crowds.pop_front();
        if crowds.is_empty() {
            self.of.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        crowd
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

/// How many leases, holds and claims of a bucket end, and names that they leave are processed, before others
/// may do something in it.
const ENDS_AT_ONCE: usize = 256;

/// How many buckets are visited before other tasks come to run.
pub(super) const BUCKETS_AT_ONCE: usize = 16;

/// How a tick went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticked {
    Wholly,
    /// More buckets have to be visited by it.
    InPart,
    /// No deadline is left, and ticking has ended.
    NothingLeft,
}

impl Inner {
    /// Keeps the present runtime for the ticker: it may have to start where there is none, as in the drop of
    /// a guard.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn remember_runtime(&self) {
        let present = Handle::current();
        let displaced = self.ticking.lock().runtime.replace(present);
        drop(displaced);
    }

    /// A bucket has got its first deadline.
    pub(super) fn watch(self: &Arc<Self>, bucket: &Arc<Shared>) {
        let runtime = Handle::try_current().ok().or_else(|| self.ticking.lock().runtime.clone());
        if runtime.is_none() && !self.environment.clock.is_manual() {
            // Only a runtime's own drop of its tasks comes here; the next use of the bucket tries again.
            bucket.ticker_is_gone();
            return;
        }
        self.start(Some(Arc::downgrade(bucket)), runtime);
    }

    /// Time moves on by ticks until buckets that come anew recover no longer, however the system's clock
    /// leaps.
    pub(super) fn watch_recovery_of_new(self: &Arc<Self>) {
        self.start(None, Handle::try_current().ok());
    }

    fn start(self: &Arc<Self>, bucket: Option<Weak<Shared>>, runtime: Option<Handle>) {
        let mut ticking = self.ticking.lock();
        ticking.buckets.extend(bucket);
        let is_first = !std::mem::replace(&mut ticking.running, true);
        if is_first {
            self.environment.clock.start_ticking();
        }
        drop(ticking);
        if let Some(runtime) = runtime.filter(|_| is_first && !self.environment.clock.is_manual()) {
            // A runtime that is shutting down drops the task within this call, and with it takes the mutexes.
            runtime.spawn(TickerTask { house: Arc::downgrade(self), finished: false }.run());
        }
    }

    /// One tick, or a part of it: visits a few buckets, and ends at most so many in each.
    pub(super) fn tick(&self, most: usize) -> Ticked {
        let due = self.environment.clock.now();
        let (buckets, later) = {
            let mut ticking = self.ticking.lock();
            let mut buckets = std::mem::take(&mut ticking.buckets);
            let later = buckets.split_off(buckets.len().min(BUCKETS_AT_ONCE));
            (buckets, later)
        };
        let (mut crowded, mut done, mut sweeping) = (Vec::new(), Vec::new(), Vec::new());
        for known in buckets {
            let Some(bucket) = known.upgrade() else { continue };
            let ticked = bucket.tick(due, most);
            if ticked.is_sweeping {
                sweeping.push(known.clone());
            }
            match (ticked.has_deadlines, ticked.is_done) {
                (true, true) => done.push(known),
                (true, false) => crowded.push((bucket.key().tenant().to_owned(), known)),
                (false, _) => {}
            }
        }
        let mut ticking = self.ticking.lock();
        ticking.sweeping.append(&mut sweeping);
        ticking.done.append(&mut done);
        for (tenant, bucket) in crowded {
            ticking.crowds.push(&tenant, Crowd { bucket, due });
        }
        if !later.is_empty() {
            // Buckets that were not visited yet come first.
            let came_meanwhile = std::mem::replace(&mut ticking.buckets, later);
            ticking.buckets.extend(came_meanwhile);
            return Ticked::InPart;
        }
        let mut done = std::mem::take(&mut ticking.done);
        ticking.buckets.append(&mut done);
        if ticking.buckets.is_empty() && ticking.crowds.is_empty() && !self.recovers_new_buckets() {
            self.stop(&mut ticking);
            return Ticked::NothingLeft;
        }
        self.environment.clock.tick();
        Ticked::Wholly
    }

    /// A part of the crowd whose turn it is: ends at most so many. Whether there are more crowds.
    pub(super) fn sweep(&self, most: usize) -> bool {
        let Some(Crowd { bucket: known, due }) = self.ticking.lock().crowds.next() else { return false };
        if let Some(bucket) = known.upgrade() {
            let ticked = bucket.tick(due, most);
            let mut ticking = self.ticking.lock();
            match (ticked.has_deadlines, ticked.is_done) {
                // Deadlines that have passed meanwhile end in the next round.
                (true, true) => ticking.buckets.push(known),
                (true, false) => ticking.crowds.push(bucket.key().tenant(), Crowd { bucket: known, due }),
                (false, _) => {}
            }
        }
        self.has_crowds()
    }

    /// A beat: each sweep goes on.
    fn beat(&self) {
        let mut sweeping = std::mem::take(&mut self.ticking.lock().sweeping);
        sweeping.retain(|known| known.upgrade().is_some_and(|bucket| bucket.beat()));
        self.ticking.lock().sweeping.append(&mut sweeping);
    }

    fn is_sweeping(&self) -> bool {
        !self.ticking.lock().sweeping.is_empty()
    }

    fn has_crowds(&self) -> bool {
        !self.ticking.lock().crowds.is_empty()
    }

    fn stop(&self, ticking: &mut Ticking) {
        self.environment.clock.stop_ticking();
        ticking.running = false;
    }
}

impl TickedByHand for Inner {
    fn tick_by_hand(&self) {
        if self.ticking.lock().running {
            while self.tick(usize::MAX) == Ticked::InPart {}
        }
    }
}

/// The task that ticks. Ends with the house, with its runtime, or once there is nothing to watch.
struct TickerTask {
    house: Weak<Inner>,
    finished: bool,
}

impl TickerTask {
    async fn run(mut self) {
        let mut next = TokioInstant::now() + TICK;
        while !self.finished {
            let has_crowds = self.house.upgrade().is_some_and(|house| house.has_crowds());
            if has_crowds && TokioInstant::now() < next {
                // Between two parts others may do something.
                yield_now().await;
                self.house.upgrade().map(|house| house.sweep(ENDS_AT_ONCE));
                continue;
            }
            let beat = TokioInstant::now() + TICK / BEATS as u32;
            if beat < next && self.house.upgrade().is_some_and(|house| house.is_sweeping()) {
                sleep_until(beat).await;
                if let Some(house) = self.house.upgrade() {
                    house.beat();
                }
                continue;
            }
            sleep_until(next).await;
            if let Some(house) = self.house.upgrade() {
                house.ticking.lock().sweeping.clear();
            }
            self.round().await;
            next = TokioInstant::now() + TICK;
        }
    }

    async fn round(&mut self) {
        let share = ENDS_AT_ONCE / BUCKETS_AT_ONCE;
        let tick = || self.house.upgrade().map_or(Ticked::NothingLeft, |house| house.tick(share));
        let mut ticked = tick();
        while ticked == Ticked::InPart {
            yield_now().await;
            ticked = tick();
        }
        self.finished = ticked == Ticked::NothingLeft;
    }
}

impl Drop for TickerTask {
    /// A runtime that goes takes its tasks with it: the buckets then have to start another ticker.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let Some(house) = self.house.upgrade() else { return };
        let mut ticking = house.ticking.lock();
        house.stop(&mut ticking);
        let mut orphans = std::mem::take(&mut ticking.buckets);
        orphans.append(&mut ticking.done);
        let crowds = std::mem::take(&mut ticking.crowds);
        orphans.extend(crowds.of.into_values().flatten().map(|crowd| crowd.bucket));
        drop(ticking);
        orphans.iter().filter_map(Weak::upgrade).for_each(|bucket| bucket.ticker_is_gone());
    }
}
