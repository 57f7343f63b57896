//! A client of Web Locks: requests of every kind, holds short and long, and each way to let go.

use std::time::Duration;

use lockhouse::remote::Connection;
use lockhouse::{Agent, LockGuard, Loss, RequestError};
use random::Random;

use crate::history::record::{Completion, Gain, Invocation, Mode, Reason};

use super::MEETING;
use super::recorder::{Recorder, now};
use super::worker::Ground;

/// After so long at most a request that waits is given up.
const PATIENCE_MS: usize = 600;

pub(super) struct WebClient<'a> {
    pub(super) ground: &'a Ground,
    pub(super) connection: &'a Connection,
    pub(super) recorder: Recorder,
    pub(super) random: Random,
    pub(super) habit: Habit,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Habit {
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
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        let mut agent = self.connection.agent(self.recorder.client())?;
        while !self.ground.is_over() {
            let wish = self.wish();
            let op = self.recorder.invoke(MEETING, wish.call());
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
        }
        self.recorder.ended();
        Ok(())
    }

    fn wish(&mut self) -> Wish {
        match self.habit {
            Habit::Passing => self.passing(),
            Habit::Keeping => Wish {
                name: format!("kept/{}", self.random.below(LONG_HELD)),
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
            true => format!("web/{}", random.below(4)),
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
            _ => self.random.below(1_000),
        };
        tokio::select! {
            _ = guard.lost() => {}
            () = tokio::time::sleep(Duration::from_micros(length as u64)) => {}
        }
        // Taken before it is looked at, so that the lock was held then if it is held now.
        let at = now();
        if let Some(loss) = guard.loss() {
            let deadline = can_pass_in_a_pause(loss, max_hold).then(|| self.ground.pulse.stopped_at());
            self.recorder.lost(op, deadline.flatten());
            return Ok(());
        }
        let release = self.recorder.invoke_at(at, MEETING, Invocation::Release { of: op });
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

/// Whether a lock may have been lost by the client's own deadline. The server reports every other loss, and
/// the lock counts as held until the report. The judge knows of steals and of longest holds, which are all
/// shorter than a lease.
fn can_pass_in_a_pause(loss: Loss, max_hold: Option<Duration>) -> bool {
    loss == Loss::Expired && max_hold.is_none()
}

impl Wish {
    fn call(&self) -> Invocation {
        let max_hold_ms = self.max_hold.map(|length| length.as_millis() as u64);
        Invocation::Request { name: self.name.clone(), mode: self.mode, steal: self.steal, max_hold_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_lease_passes_unnoticed_in_a_pause() {
        assert!(can_pass_in_a_pause(Loss::Expired, None));
        for loss in [Loss::Stolen, Loss::Superseded, Loss::SessionEnded, Loss::Broken, Loss::Terminated] {
            assert!(!can_pass_in_a_pause(loss, None), "{loss:?}");
        }
        assert!(!can_pass_in_a_pause(Loss::Expired, Some(Duration::from_millis(50))));
    }
}
