//! Commands of owners that check something first, in one with their change.
//!
//! The end of a step of a business transaction checks its locks and releases them: no end of the owner and no
//! steal comes in between. An owner that is opened with an idempotency key is looked for and opened: of
//! several callers with one key no two open one each.

use std::sync::Arc;

use lockhouse_core::{Command, FencingToken, Name, NewOwner, Now, Outcome, OwnerId, OwnerView, Unlock};

use crate::engine::bucket::results::{NotAsked, Reply, StepResult};
use crate::engine::bucket::shared::Shared;
use crate::engine::bucket::state::State;
use crate::error::StoreError;

/// A lock that the owner must hold; under that token, where one is given.
pub(crate) type Needed<'a> = (Name<'a>, Option<FencingToken>);

impl Shared {
    /// Ends a step of the owner: it succeeds if the owner lives and holds all needed locks, and then gives
    /// locks back. The result is durable once it is returned. Without anything to give back the step goes on
    /// while the store cannot write.
    pub(crate) async fn end_step(
        self: &Arc<Self>,
        owner: OwnerId,
        needed: &[Needed<'_>],
        release: Option<Unlock<'_>>,
    ) -> Result<StepResult, StoreError> {
        let is_written = release.is_some();
        if is_written {
            self.environment.check_store()?;
        }
        self.remember_runtime();
        let now = self.environment.clock.stamp();
        let result = self.with_housekeeping(|state| state.end_step(now, owner, needed, release));
        let (result, reply) = result.map_err(|why| self.not_asked(why))?;
        self.await_reply(Ok(reply), is_written).await?;
        Ok(result)
    }

    /// Opens an owner whose seed stands for an idempotency key, or finds the one that was opened with it and
    /// lives. The outcome is durable once it is returned. None if that one has other terms.
    pub(crate) async fn open_owner_once(
        self: &Arc<Self>,
        new: &NewOwner<'_>,
    ) -> Result<Option<Outcome>, StoreError> {
        self.environment.check_store()?;
        self.remember_runtime();
        let now = self.environment.clock.stamp();
        let reply = self.with_housekeeping(|state| state.open_owner_once(now, new));
        match reply.map_err(|why| self.not_asked(why))? {
            Some(reply) => self.await_reply(Ok(reply), true).await.map(Some),
            None => Ok(None),
        }
    }
}

impl State {
    /// The outcome for the owner of that seed, and when it may be told. None if the owner has other terms.
    fn open_owner_once(&mut self, now: Now, new: &NewOwner<'_>) -> Result<Option<Reply>, NotAsked> {
        if self.is_over() {
            return Err(NotAsked::IsOver);
        }
        if self.has_backlog() {
            return Err(NotAsked::TooMuchWaits);
        }
        // An owner whose time is over counts as ended, although its end has not come yet.
        let known = self.manager.owners_of_seed(new.seed).find(|owner| owner.expires > now.tick());
        let outcome = match known.map(|owner| (owner.owner, has_terms(&owner, new))) {
            Some((_, false)) => return Ok(None),
            Some((owner, true)) => {
                self.handle(now, Command::Touch { owner });
                Outcome::OwnerOpened(owner)
            }
            None => self.handle(now, Command::OpenOwner(*new)),
        };
        self.reply(&Command::OpenOwner(*new), outcome, None).map(Some)
    }

    /// The result of the step, and when it may be told.
    fn end_step(
        &mut self,
        now: Now,
        owner: OwnerId,
        needed: &[Needed<'_>],
        release: Option<Unlock<'_>>,
    ) -> Result<(StepResult, Reply), NotAsked> {
        if self.is_over() {
            return Err(NotAsked::IsOver);
        }
        if release.is_some() && self.has_backlog() {
            return Err(NotAsked::TooMuchWaits);
        }
        let lost: Vec<_> = needed.iter().filter(|needed| !self.is_held(owner, needed)).copied().collect();
        let is_alive = self.manager.owner(owner).is_some_and(|owner| owner.expires > now.tick());
        // Only a step that succeeds is activity of its owner.
        if lost.is_empty() || !is_alive {
            let touch = Command::Touch { owner };
            let touched = self.handle(now, touch);
            if touched != (Outcome::Renewed { alive: true }) {
                return Ok((StepResult::OwnerEnded, self.reply(&touch, touched, None)?));
            }
        }
        if !lost.is_empty() {
            let names = lost.iter().map(|(name, _)| name.to_buf()).collect();
            // The answer is about these names alone, as that of a release which finds none of them.
            let command = Command::Unlock { owner, locks: Unlock::These(&lost) };
            let reply = self.reply(&command, Outcome::Unlocked { count: 0 }, None)?;
            return Ok((StepResult::Lost(names), reply));
        }
        let Some(locks) = release else {
            // That the locks are held is told once they are durable.
            let command = Command::Unlock { owner, locks: Unlock::These(needed) };
            let reply = self.reply(&command, Outcome::Unlocked { count: 0 }, None)?;
            return Ok((StepResult::Succeeded { released: 0 }, reply));
        };
        let outcome = self.handle(now, Command::Unlock { owner, locks });
        let Outcome::Unlocked { count: released } = outcome else {
            unreachable!("an unlock cannot be answered with {outcome:?}")
        };
        let about = match locks {
            Unlock::These(locks) => [needed, locks].concat(),
            Unlock::AllBut(_) => Vec::new(),
        };
        let locks = if about.is_empty() { locks } else { Unlock::These(&about) };
        let reply = self.reply(&Command::Unlock { owner, locks }, outcome, None)?;
        Ok((StepResult::Succeeded { released }, reply))
    }

    fn is_held(&self, owner: OwnerId, (name, token): &Needed<'_>) -> bool {
        let held = self.manager.token_of_lock(owner, *name);
        held.is_some_and(|held| token.is_none_or(|token| token == held))
    }
}

/// Whether the owner was opened with these terms. Its end was counted from the instant of its command, which
/// is later than the tick at which it began.
fn has_terms(owner: &OwnerView<'_>, new: &NewOwner<'_>) -> bool {
    let has_ends = match (owner.ends, new.max_ms) {
        (None, None) => true,
        (Some(ends), Some(max_ms)) => {
            let life_ms = ends.as_millis().saturating_sub(owner.since.as_millis());
            life_ms.abs_diff(max_ms) <= MAX_LIFE_TOLERANCE_MS
        }
        _ => false,
    };
    let texts = (owner.label, owner.metadata, owner.ttl_ms);
    has_ends && texts == (new.label, new.metadata, new.ttl_ms)
}

/// How much later than its tick a command may come, and how far the calendar may be set unseen, by which a
/// store has both instants.
const MAX_LIFE_TOLERANCE_MS: u64 = 1_000;
