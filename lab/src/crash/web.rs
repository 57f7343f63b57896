//! A client of Web Locks: requests of every kind, holds short and long, and each way to let go.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use lockhouse::remote::Connection;
use lockhouse::{Agent, LockGuard, Loss, RequestError};
use proofs::history::record::{Completion, Gain, Invocation, Mode, Reason};
use random::Random;

use crate::fence::Fence;

use super::recorder::{Recorder, now};
use super::worker::Ground;

/// After so long at most a request that waits is given up.
const PATIENCE_MS: usize = 600;

pub(crate) struct WebClient<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) connection: &'a Connection,
    /// Of the connection.
    pub(crate) bucket: String,
    /// The resource that the locks guard, if it checks their tokens.
    pub(crate) fence: Option<Fence>,
    pub(crate) recorder: Recorder,
    pub(crate) random: Random,
    pub(crate) habit: Habit,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Habit {
    /// Every kind of request, mostly for a moment.
    Passing,
    /// A few names, one after the other, each for longer than a restart takes. Most kills find each of these
    /// held.
    Keeping,
}

/// The number of names for the clients that keep locks: with four workers fewer than such clients, so that a
/// client waits for each name.
const LONG_HELD: usize = 2;

/// A request as the client makes it.
struct Wish {
    name: String,
    mode: Mode,
    if_available: bool,
    steal: bool,
    max_hold: Option<Duration>,
    patience: Duration,
}

impl WebClient<'_> {
    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        let ground = self.ground;
        self.work(|| ground.is_over()).await?;
        self.recorder.ended();
        Ok(())
    }

    /// Works until it is over.
    pub(crate) async fn work(&mut self, is_over: impl Fn() -> bool) -> anyhow::Result<()> {
        let mut agent = self.connection.agent(self.recorder.client())?;
        while !is_over() {
            let wish = self.wish();
            let op = self.recorder.invoke(&self.bucket, wish.call());
            match self.ask(&agent, &wish).await {
                Ok(guard) => {
                    let token = Some(guard.fencing_token().get());
                    let gain = Gain { token, ..Gain::default() };
                    self.recorder.answer(op, Completion::Ok { durable: false, gain });
                    let leaves = self.random.percent(3);
                    self.hold(op, guard, wish.max_hold, leaves.then_some(&mut agent)).await?;
                }
                Err(RequestError::OutcomeUnknown) => self.recorder.answer(op, Completion::Unknown),
                Err(RequestError::Unavailable(_)) => self.recorder.refused(op, Reason::Busy),
                Err(_) => self.recorder.refused(op, Reason::Other),
            }
            let pause = self.random.below(2000);
            tokio::time::sleep(Duration::from_micros(pause as u64)).await;
            self.ground.pause_between_calls().await;
        }
        Ok(())
    }

    fn wish(&mut self) -> Wish {
        match self.habit {
            Habit::Passing => self.passing(),
            Habit::Keeping => Wish {
                name: format!("kept/{}", self.ground.number_below(LONG_HELD, &mut self.random)),
                mode: Mode::Exclusive,
                if_available: false,
                steal: false,
                max_hold: None,
                patience: Duration::from_millis(PATIENCE_MS as u64),
            },
        }
    }

    fn passing(&mut self) -> Wish {
        let random = &mut self.random;
        // Some names have web locks only: a name that other clients hold for long would keep these clients
        // from most of their work.
        let name = match random.percent(40) {
            true => format!("web/{}", self.ground.number_below(4, random)),
            false => self.ground.name(random),
        };
        let steal = random.percent(1);
        let mode = if steal || random.percent(65) { Mode::Exclusive } else { Mode::Shared };
        let if_available = !steal && random.percent(40);
        let max_hold = random.percent(3).then(|| Duration::from_millis(50 + random.below(300) as u64));
        let patience = Duration::from_millis(random.below(PATIENCE_MS) as u64);
        Wish { name, mode, if_available, steal, max_hold, patience }
    }

    async fn ask(&self, agent: &Agent, wish: &Wish) -> Result<LockGuard, RequestError> {
        let mut request = agent.locks().request(&wish.name);
        if wish.mode == Mode::Shared {
            request = request.shared();
        }
        if let Some(max_hold) = wish.max_hold {
            request = request.max_hold(max_hold);
        }
        if wish.steal {
            request.steal().await
        } else if wish.if_available {
            request.if_available().await
        } else {
            request.timeout(wish.patience).await
        }
    }

    /// Holds the lock for a while, unless it is lost, and lets it go: by a release, by dropping it, or with
    /// its agent.
    async fn hold(
        &mut self,
        op: u64,
        guard: LockGuard,
        max_hold: Option<Duration>,
        leaving: Option<&mut Agent>,
    ) -> anyhow::Result<()> {
        let length = match self.random.below(100) {
            _ if self.habit == Habit::Keeping => 500_000 + self.random.below(2_000_000),
            0..8 => 50_000 + self.random.below(900_000),
            8..20 => self.random.below(20_000),
            _ => self.random.below(self.ground.ways.hold.as_micros() as usize),
        };
        let mut watch = Watch::over(&guard);
        watch.during(self.pass(op, &guard)).await;
        let was_held = watch.lost_at.is_none();
        let lost = tokio::select! {
            (at, loss) = watch.lost() => Some((at, loss)),
            () = tokio::time::sleep(Duration::from_micros(length as u64)) => None,
        };
        if let Some((at, loss)) = lost.clone() {
            self.lost(op, was_held, at, self.deadline(&loss, max_hold));
        }
        // A client that does not know of its loss would write as well: the resource decides.
        watch.during(self.pass(op, &guard)).await;
        if lost.is_some() {
            return Ok(());
        }
        // Taken before it is looked at, so that the lock was held then if it is held now.
        let at = now();
        if let Some(loss) = guard.loss() {
            let (known, _) = watch.lost().await;
            self.lost(op, false, known, self.deadline(&loss, max_hold));
            return Ok(());
        }
        drop(watch);
        let release = self.recorder.invoke_at(at, &self.bucket, Invocation::Release { of: op });
        if let Some(agent) = leaving {
            *agent = self.connection.agent(self.recorder.client())?;
            self.recorder.answer(release, Completion::Unknown);
        } else if self.random.percent(20) {
            drop(guard);
            self.recorder.answer(release, Completion::Unknown);
        } else if guard.release().await.is_ok() {
            self.recorder.answer(release, Completion::Ok { durable: false, gain: Gain::default() });
        } else {
            self.recorder.refused(release, Reason::Other);
        }
        Ok(())
    }
}

impl WebClient<'_> {
    /// Writes down a loss that the client knew of at that instant: before anything else happened to it, or
    /// with an event in between.
    fn lost(&self, op: u64, is_next: bool, known: u64, deadline: Option<u64>) {
        if is_next {
            self.recorder.lost_at(known, op, deadline);
        } else {
            self.recorder.lost_at(now(), op, Some(deadline.map_or(known, |deadline| deadline.min(known))));
        }
    }

    /// When its own deadline may have passed unnoticed.
    fn deadline(&self, loss: &Loss, max_hold: Option<Duration>) -> Option<u64> {
        can_pass_in_a_pause(loss, max_hold).then(|| self.ground.pulse.stopped_at()).flatten()
    }

    /// Passes the fence, if there is one.
    async fn pass(&mut self, op: u64, guard: &LockGuard) {
        let Some(fence) = &mut self.fence else { return };
        let pass = self.recorder.invoke(&self.bucket, Invocation::Pass { of: op });
        match fence.pass(&self.bucket, guard).await {
            Ok(true) => {
                self.recorder.answer(pass, Completion::Ok { durable: false, gain: Gain::default() });
            }
            Ok(false) => self.recorder.refused(pass, Reason::Stale),
            Err(_) => self.recorder.answer(pass, Completion::Unknown),
        }
    }
}

/// Whether a lock may have been lost by the client's own deadline. The server reports every other loss, and
/// the lock counts as held until the report. The judge knows of steals and of longest holds, which are all
/// shorter than a lease.
fn can_pass_in_a_pause(loss: &Loss, max_hold: Option<Duration>) -> bool {
    *loss == Loss::Expired && max_hold.is_none()
}

impl Wish {
    fn call(&self) -> Invocation {
        let max_hold_ms = self.max_hold.map(|length| length.as_millis() as u64);
        Invocation::Request { name: self.name.clone(), mode: self.mode, steal: self.steal, max_hold_ms }
    }
}

/// Watches for the loss of a lock: the instant at which the program was woken for it counts, not the one at
/// which it comes to that.
struct Watch<'a> {
    loss: Pin<Box<dyn Future<Output = (u64, Loss)> + 'a>>,
    lost_at: Option<(u64, Loss)>,
}

impl<'a> Watch<'a> {
    fn over(guard: &'a LockGuard) -> Self {
        Self { loss: Box::pin(woken_for(guard.lost())), lost_at: None }
    }

    /// # Cancel safety
    ///
    /// Nothing is lost.
    async fn lost(&mut self) -> (u64, Loss) {
        match &self.lost_at {
            Some(lost) => lost.clone(),
            None => self.lost_at.insert(self.loss.as_mut().await).clone(),
        }
    }

    /// Watches while something else is done, to its end.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                _ = self.lost(), if self.lost_at.is_none() => {}
                done = &mut work => return done,
            }
        }
    }
}

/// What the future comes to, and the instant at which its task was woken for that.
async fn woken_for<T>(future: impl Future<Output = T>) -> (u64, T) {
    let mut future = pin!(future);
    let mut last: Option<Arc<WakeTime>> = None;
    poll_fn(|context| {
        let next = Arc::new(WakeTime { task: context.waker().clone(), at: OnceLock::new() });
        let before = last.replace(next.clone());
        let done = future.as_mut().poll(&mut Context::from_waker(&next.into()));
        let woken = before.and_then(|before| before.at.get().copied());
        done.map(|done| (woken.unwrap_or_else(now), done))
    })
    .await
}

/// Wakes a task, and takes the time.
struct WakeTime {
    task: Waker,
    at: OnceLock<u64>,
}

impl Wake for WakeTime {
    fn wake(self: Arc<Self>) {
        self.at.get_or_init(now);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_lease_passes_unnoticed_in_a_pause() {
        assert!(can_pass_in_a_pause(&Loss::Expired, None));
        for loss in [
            Loss::Stolen,
            Loss::Superseded,
            Loss::SessionEnded,
            Loss::Broken { reason: None },
            Loss::Terminated,
        ] {
            assert!(!can_pass_in_a_pause(&loss, None), "{loss:?}");
        }
        assert!(!can_pass_in_a_pause(&Loss::Expired, Some(Duration::from_millis(50))));
    }

    #[tokio::test]
    async fn the_instant_at_which_a_task_was_woken_is_before_what_ran_until_it_was_polled() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = async {
            sender.send("lost").unwrap();
            let woken = now();
            while now() < woken + 1_000_000 {}
            woken
        };
        let ((at, what), woken) = tokio::join!(woken_for(receiver), other);
        assert_eq!(what, Ok("lost"));
        assert!(at <= woken, "{} ns later", at - woken);
    }
}
