//! What justifies the end of a hold, and what a break ends.

use lockhouse_core::{ClaimEnd, FencingToken, LockEnd, LossReason, Outcome};

use super::action::{Action, Ask, NAMES};
use super::announced::{Announced, Status, unexpected};
use crate::model::announced::{Breach, promise};

impl Announced {
    /// The hold of the name that is broken: that of the agent before those of the owners, before a claim.
    pub(super) fn hold_to_break(&self, name: usize) -> Option<FencingToken> {
        self.holds(name).next()
    }

    fn holds(&self, name: usize) -> impl Iterator<Item = FencingToken> + '_ {
        let web = self.asked.iter().filter(move |asked| asked.name == name);
        let web = web.filter_map(|asked| match asked.status {
            Status::Held(token) => Some(token),
            Status::Pending | Status::Ended => None,
        });
        let owners = self.owners.iter().flatten().filter_map(move |owner| owner.locks[name]);
        let claim = self.claims[name].current.map(|(token, _)| token);
        web.chain(owners.map(|(_, token)| token)).chain(claim)
    }

    /// Whether that action takes this lock of the agent, for this reason.
    pub(super) fn justifies_loss(&self, action: Action, asked: usize, reason: &LossReason) -> bool {
        let (name, status) = (self.asked[asked].name, self.asked[asked].status);
        match reason {
            LossReason::Stolen => action == Action::Request { name, ask: Ask::Steal },
            LossReason::Broken { .. } => {
                let is_meant = self.hold_to_break(name).is_some_and(|token| status == Status::Held(token));
                action == Action::Break { name } && is_meant
            }
            LossReason::Expired | LossReason::Superseded => false,
        }
    }

    /// Whether that action may take this owner's lock of this name, for this reason.
    pub(super) fn justifies_unlock(
        &self,
        action: Action,
        owner: usize,
        name: usize,
        reason: &LockEnd,
    ) -> bool {
        match (reason, action) {
            (LockEnd::Released, Action::Unlock { owner: by, name: of }) => by == owner && of == name,
            (LockEnd::Released, Action::UnlockAllBut { owner: by }) => by == owner && name != NAMES.len() - 1,
            (LockEnd::Undone, Action::Undo { owner: by }) => by == owner,
            (LockEnd::Stolen, action) => action == Action::Request { name, ask: Ask::Steal },
            (LockEnd::Broken(_), action) => {
                let own = self.lock(owner, name).map(|(_, token)| token);
                action == Action::Break { name } && own.is_some() && own == self.hold_to_break(name)
            }
            _ => false,
        }
    }

    /// Whether that action may take the claim of this name, for this reason.
    pub(super) fn justifies_unclaim(&self, action: Action, name: usize, reason: &ClaimEnd) -> bool {
        let Some((token, expires)) = self.claims[name].current else { return false };
        match (reason, action) {
            (ClaimEnd::Released, Action::GiveBack { name: of, which }) => {
                of == name && self.token(name, which) == Some(token)
            }
            (ClaimEnd::Expired, Action::Tick) => expires <= self.now,
            (ClaimEnd::Stolen, action) => action == Action::Request { name, ask: Ask::Steal },
            (ClaimEnd::Broken(_), action) => {
                action == Action::Break { name } && self.hold_to_break(name) == Some(token)
            }
            _ => false,
        }
    }

    pub(super) fn observe_broken(&self, name: usize, outcome: &Outcome, before: &Self) -> Result<(), Breach> {
        let (meant, Outcome::Broken(Some(_))) = (before.hold_to_break(name), outcome) else {
            return Err(unexpected(Action::Break { name }, outcome));
        };
        promise!(self.holds(name).all(|token| Some(token) != meant), "{meant:?} is broken, and held still");
        Ok(())
    }
}
