//! The core's output so far about owners, claims and the agent, and nothing else. Durable state moves by
//! changes alone, in their order among the grants. A grant that is announced before the change that it rests
//! on is therefore found.

use lockhouse_core::{
    Acquired, Change, Effect, FencingToken, Mode, NameBuf, Outcome, OwnedLock, OwnerEnd, OwnerId, Refusal,
    RequestId,
};

use super::action::{AGENTS_REQUESTS, Action, Ask, CLAIM, NAMES, OWNERS, TICK_MS, TTL, Which};
use crate::model::announced::{Breach, promise};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Pending,
    Held(FencingToken),
    Ended,
}

/// A request of the agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) name: usize,
    pub(super) mode: Mode,
    pub(super) status: Status,
}

#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) id: OwnerId,
    pub(super) expires: u64,
    pub(super) locks: [Option<(Mode, FencingToken)>; NAMES.len()],
    /// The grants of the owner's last command.
    pub(super) last: Vec<(usize, OwnedLock)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    pub(super) current: Option<(FencingToken, u64)>,
    pub(super) assigned: Option<FencingToken>,
    pub(super) last: Option<FencingToken>,
    pub(super) former: Option<FencingToken>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Announced {
    pub(super) now: u64,
    /// In order of arrival.
    pub(super) asked: Vec<Asked>,
    pub(super) owners: [Option<Owner>; OWNERS],
    pub(super) claims: [Claims; NAMES.len()],
    /// Every claim that ever became final.
    assigned_ever: Vec<FencingToken>,
    last_number: u64,
    reserved: u64,
}

impl Announced {
    /// Takes in everything that the core said to one action.
    pub(super) fn observe(
        &mut self,
        action: Action,
        outcome: Option<&Outcome>,
        effects: &[Effect],
    ) -> Result<(), Breach> {
        let before = self.clone();
        if let (Action::Finish { request }, Some(outcome)) = (action, outcome) {
            let found =
                matches!(outcome, Outcome::Aborted { pending: true } | Outcome::Released { held: true });
            promise!(found, "{action:?} is answered by {outcome:?}");
            self.asked[request].status = Status::Ended;
        }
        for effect in effects {
            self.observe_effect(action, effect)?;
        }
        match outcome {
            Some(outcome) => self.observe_outcome(action, outcome, &before),
            None => Ok(()),
        }
    }

    /// The modes in which the name is held, of all disciplines.
    pub(super) fn held_modes(&self, name: usize) -> Vec<Mode> {
        let web =
            self.asked.iter().filter(|asked| asked.name == name && matches!(asked.status, Status::Held(_)));
        let locks = self.owners.iter().flatten().filter_map(|owner| owner.locks[name]);
        let claim = self.claims[name].current.map(|_| Mode::Exclusive);
        web.map(|asked| asked.mode).chain(locks.map(|(mode, _)| mode)).chain(claim).collect()
    }

    pub(super) fn pending(&self, name: usize) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(move |asked| asked.name == name && asked.status == Status::Pending)
    }

    pub(super) fn fits(&self, name: usize, mode: Mode) -> bool {
        let held = self.held_modes(name);
        held.is_empty() || (mode == Mode::Shared && held.iter().all(|held| *held == Mode::Shared))
    }

    pub(super) fn token(&self, name: usize, which: Which) -> Option<FencingToken> {
        match which {
            Which::Last => self.claims[name].last,
            Which::Former => self.claims[name].former,
        }
    }

    fn is_free(&self, name: usize, mode: Mode) -> bool {
        self.fits(name, mode) && self.pending(name).next().is_none()
    }

    fn observe_effect(&mut self, action: Action, effect: &Effect) -> Result<(), Breach> {
        match effect {
            Effect::Change(change) => self.observe_change(action, change),
            Effect::Granted { grant, .. } => {
                let at = self.asked.iter().position(|asked| asked.id == grant.request);
                let at = at.ok_or_else(|| format!("{grant:?} is of nobody"))?;
                let Asked { name, mode, status, .. } = self.asked[at];
                promise!(status == Status::Pending, "{grant:?} goes to one that is {status:?}");
                promise!(
                    self.pending(name).next().map(|first| first.id) == Some(grant.request),
                    "{grant:?} overtakes"
                );
                promise!(self.fits(name, mode), "{grant:?} is told beside what excludes it");
                self.number(grant.token.get())?;
                self.asked[at].status = Status::Held(grant.token);
                Ok(())
            }
            Effect::Lost { request, loss, .. } => {
                let at = self.asked.iter().position(|asked| asked.id == *request);
                let at = at.ok_or_else(|| format!("{request:?} is of nobody"))?;
                promise!(self.justifies_loss(action, at, &loss.reason), "{effect:?} upon {action:?}");
                self.asked[at].status = Status::Ended;
                Ok(())
            }
            other => Err(format!("{other:?} upon {action:?}")),
        }
    }

    /// A change must have its reason in the action, and be possible.
    fn observe_change(&mut self, action: Action, change: &Change) -> Result<(), Breach> {
        match change {
            Change::TokensReserved { up_to } => {
                promise!(*up_to > self.reserved, "{change:?} after {}", self.reserved);
                self.reserved = *up_to;
                Ok(())
            }
            Change::OwnerOpened(record) => {
                let Action::Open { owner } = action else {
                    return Err(format!("{change:?} upon {action:?}"));
                };
                self.number(record.owner.get())?;
                let (id, expires) = (record.owner, self.now + TTL);
                self.owners[owner] = Some(Owner { id, expires, locks: Default::default(), last: Vec::new() });
                Ok(())
            }
            Change::OwnerEnded { owner, names, reason, .. } => {
                let at = self.index_of(*owner)?;
                let justified = match reason {
                    OwnerEnd::Ended => action == Action::EndOwner { owner: at },
                    OwnerEnd::Expired => action == Action::Tick && self.is_over(at),
                    OwnerEnd::Overdue => false,
                };
                promise!(justified, "{change:?} upon {action:?}");
                let owned = self.owners[at].take().map_or(0, |owner| owner.locks.iter().flatten().count());
                promise!(names.len() == owned, "{change:?}, though it has {owned} locks");
                Ok(())
            }
            Change::Locked(record) => {
                let (at, name) = (self.index_of(record.owner)?, index(&record.name)?);
                self.observe_locked(action, at, name, record.mode, record.token)
            }
            Change::Unlocked { name, owner, token, reason, .. } => {
                let (at, name) = (self.index_of(*owner)?, index(name)?);
                promise!(self.justifies_unlock(action, at, name, reason), "{change:?} upon {action:?}");
                let lock = self.owners[at].as_mut().and_then(|owner| owner.locks[name].take());
                promise!(lock.map(|(_, token)| token) == Some(*token), "{change:?}, though it has {lock:?}");
                Ok(())
            }
            // Two locks fit into one command.
            Change::LocksVoided { .. } | Change::LocksSwept { .. } => {
                Err(format!("{change:?} upon {action:?}"))
            }
            Change::Claimed(_)
            | Change::Unclaimed { .. }
            | Change::Assigned(_)
            | Change::Unassigned { .. } => self.observe_claim_change(action, change),
        }
    }

    /// Of the changes those of claims and assignments.
    fn observe_claim_change(&mut self, action: Action, change: &Change) -> Result<(), Breach> {
        match change {
            Change::Claimed(record) => {
                let name = index(&record.name)?;
                promise!(action == Action::Claim { name }, "{change:?} upon {action:?}");
                promise!(self.is_free(name, Mode::Exclusive), "{change:?}, though it is held or waited for");
                promise!(self.claims[name].assigned.is_none(), "{change:?}, though it is assigned");
                self.number(record.token.get())?;
                let claims = &mut self.claims[name];
                claims.former = claims.last.replace(record.token);
                claims.current = Some((record.token, self.now + CLAIM));
            }
            Change::Unclaimed { name, token, reason, .. } => {
                let name = index(name)?;
                promise!(self.justifies_unclaim(action, name, reason), "{change:?} upon {action:?}");
                let current = self.claims[name].current.take();
                let (current, _) = current.ok_or_else(|| format!("{change:?} without a claim"))?;
                promise!(current == *token, "{change:?}, though {current} is current");
            }
            Change::Assigned(record) => {
                let (name, token) = (index(&record.name)?, record.token);
                let Action::Finalize { name: of, which } = action else {
                    return Err(format!("{change:?} upon {action:?}"));
                };
                promise!(of == name && self.token(name, which) == Some(token), "{change:?} upon {action:?}");
                let current = self.claims[name].current.take();
                let is_current =
                    current.is_some_and(|(current, expires)| current == token && expires > self.now);
                promise!(is_current, "{change:?}, though {current:?} is current");
                promise!(!self.assigned_ever.contains(&token), "{change:?} for the second time");
                self.assigned_ever.push(token);
                promise!(
                    self.claims[name].assigned.replace(token).is_none(),
                    "{change:?}, though it is assigned"
                );
            }
            Change::Unassigned { name, token, .. } => {
                let name = index(name)?;
                promise!(action == Action::Unassign { name }, "{change:?} upon {action:?}");
                promise!(self.claims[name].assigned.take() == Some(*token), "{change:?} of another");
            }
            other => return Err(format!("{other:?} is of no claim")),
        }
        Ok(())
    }

    fn observe_locked(
        &mut self,
        action: Action,
        owner: usize,
        name: usize,
        mode: Mode,
        token: FencingToken,
    ) -> Result<(), Breach> {
        let had = self.owners[owner].as_ref().and_then(|owner| owner.locks[name]);
        match (action, had) {
            (Action::Undo { owner: by }, Some((Mode::Exclusive, same))) => {
                promise!(
                    by == owner && same == token && mode == Mode::Shared,
                    "{token} is undone to {mode:?}"
                );
            }
            (Action::Lock { owner: by, .. } | Action::LockBoth { owner: by }, had) => {
                promise!(by == owner, "O{owner} is granted what O{by} asked for");
                let possible = match had {
                    None => self.is_free(name, mode),
                    Some((had, _)) => had == Mode::Shared && self.held_modes(name).len() == 1,
                };
                promise!(
                    possible,
                    "{name} is locked by O{owner}, {mode:?}, beside {:?}",
                    self.held_modes(name)
                );
                self.number(token.get())?;
            }
            _ => return Err(format!("a lock of O{owner} upon {action:?}")),
        }
        if let Some(owner) = &mut self.owners[owner] {
            owner.locks[name] = Some((mode, token));
        }
        Ok(())
    }

    fn observe_outcome(&mut self, action: Action, outcome: &Outcome, before: &Self) -> Result<(), Breach> {
        match action {
            Action::Request { name, ask } => self.observe_request(name, ask, outcome),
            Action::Finish { .. } => Ok(()),
            Action::Lock { owner, name, mode } => {
                self.observe_answer(owner, &[(name, mode)], outcome, before)
            }
            Action::LockBoth { owner } => {
                let both: Vec<(usize, Mode)> = (0..NAMES.len()).map(|name| (name, Mode::Exclusive)).collect();
                self.observe_answer(owner, &both, outcome, before)
            }
            Action::Open { .. }
            | Action::Touch { .. }
            | Action::EndOwner { .. }
            | Action::Unlock { .. }
            | Action::UnlockAllBut { .. }
            | Action::Undo { .. } => self.observe_owner_outcome(action, outcome, before),
            Action::Claim { name } => self.observe_claim(name, outcome, before),
            Action::Break { name } => self.observe_broken(name, outcome, before),
            Action::Renew { .. }
            | Action::GiveBack { .. }
            | Action::Finalize { .. }
            | Action::Unassign { .. } => self.observe_claim_outcome(action, outcome, before),
            Action::Tick => Err(unexpected(action, outcome)),
        }
    }

    /// The answers to an owner's command, other than those about locks that it asks for.
    fn observe_owner_outcome(
        &mut self,
        action: Action,
        outcome: &Outcome,
        before: &Self,
    ) -> Result<(), Breach> {
        match (action, outcome) {
            (Action::Open { owner }, Outcome::OwnerOpened(id)) => {
                promise!(self.id(owner) == Some(*id), "{id} opens, but was not told as a change");
            }
            (Action::Touch { owner }, Outcome::Renewed { alive: true }) => self.touch(owner),
            (Action::EndOwner { owner }, Outcome::Ended { alive: true }) => {
                promise!(self.owners[owner].is_none(), "O{owner} ended, but was not told as a change");
            }
            (Action::Unlock { owner, name }, Outcome::Unlocked { count }) => {
                self.touch(owner);
                let had = usize::from(before.lock(owner, name).is_some());
                promise!(
                    *count == had && self.lock(owner, name).is_none(),
                    "{count} of {had} locks are released"
                );
            }
            (Action::UnlockAllBut { owner }, Outcome::Unlocked { count }) => {
                self.touch(owner);
                let others = 0..NAMES.len() - 1;
                let had = others.clone().filter(|name| before.lock(owner, *name).is_some()).count();
                let has = others.filter(|name| self.lock(owner, *name).is_some()).count();
                promise!((*count, has) == (had, 0), "{count} of {had} locks are released, {has} are left");
            }
            (Action::Undo { owner }, Outcome::Undone { count }) => {
                self.touch(owner);
                let expected = before.undoable(owner);
                promise!(*count == expected.len(), "{count} of {expected:?} are undone");
                for (name, how) in expected {
                    let left = self.lock(owner, name).map(|(mode, _)| mode);
                    let right = if how == Acquired::Fresh { None } else { Some(Mode::Shared) };
                    promise!(left == right, "of what was {how:?} {left:?} is left");
                }
                self.forget(owner);
            }
            _ => return Err(unexpected(action, outcome)),
        }
        Ok(())
    }

    /// The answers to a claimant about a claim that it has made.
    fn observe_claim_outcome(
        &mut self,
        action: Action,
        outcome: &Outcome,
        before: &Self,
    ) -> Result<(), Breach> {
        match (action, outcome) {
            (Action::Renew { name, which }, outcome) => match (before.presented(name, which), outcome) {
                (Ok(()), Outcome::ClaimRenewed { expires }) => {
                    let ends = self.now + CLAIM;
                    promise!(expires.as_millis() == ends * TICK_MS, "a renewed claim ends at {expires:?}");
                    self.claims[name].current = before.claims[name].current.map(|(token, _)| (token, ends));
                }
                (Err(why), Outcome::Refused(answered)) => {
                    promise!(why == NotCurrent::of(answered), "{action:?}: {answered:?}");
                }
                _ => return Err(unexpected(action, outcome)),
            },
            (Action::GiveBack { name, which }, outcome) => match (before.presented(name, which), outcome) {
                (Ok(()), Outcome::ClaimReleased) => {
                    promise!(self.claims[name].current.is_none(), "a claim that was given back goes on");
                }
                (Err(why), Outcome::Refused(answered)) => {
                    promise!(why == NotCurrent::of(answered), "{action:?}: {answered:?}");
                }
                _ => return Err(unexpected(action, outcome)),
            },
            (Action::Finalize { name, which }, outcome) => {
                let token = before.token(name, which);
                let again = token.is_some() && before.claims[name].assigned == token;
                match (before.presented(name, which), outcome) {
                    (presented, Outcome::Finalized(record)) if again || presented.is_ok() => {
                        promise!(Some(record.token) == token, "{record:?} for {token:?}");
                        promise!(self.claims[name].assigned == token, "final, but not told as a change");
                    }
                    (Err(why), Outcome::Refused(answered)) if !again => {
                        promise!(why == NotCurrent::of(answered), "{action:?}: {answered:?}");
                    }
                    _ => return Err(unexpected(action, outcome)),
                }
            }
            (Action::Unassign { name }, Outcome::Unassigned { was }) => {
                promise!(*was == before.claims[name].assigned.is_some(), "was assigned: {was}");
                promise!(self.claims[name].assigned.is_none(), "the assignment stands on");
            }
            _ => return Err(unexpected(action, outcome)),
        }
        Ok(())
    }

    fn observe_request(&mut self, name: usize, ask: Ask, outcome: &Outcome) -> Result<(), Breach> {
        let mode = if ask == Ask::Shared { Mode::Shared } else { Mode::Exclusive };
        let live = self.asked.iter().filter(|asked| asked.status != Status::Ended).count();
        let (id, status) = match outcome {
            Outcome::Granted(grant) => {
                promise!(self.fits(name, mode), "{grant:?} beside what excludes it");
                promise!(ask == Ask::Steal || self.is_free(name, mode), "{grant:?} overtakes those who wait");
                self.number(grant.token.get())?;
                (grant.request, Status::Held(grant.token))
            }
            Outcome::Queued(id) => {
                promise!(ask != Ask::Steal && !self.is_free(name, mode), "{id:?} waits for nobody");
                (*id, Status::Pending)
            }
            Outcome::Refused(Refusal::TooManyRequests { .. }) => {
                promise!(live >= AGENTS_REQUESTS as usize, "a request within the bound is refused");
                return Ok(());
            }
            other => return Err(format!("{ask:?} is answered by {other:?}")),
        };
        promise!(live < AGENTS_REQUESTS as usize, "a request beyond the bound is accepted");
        self.asked.push(Asked { id, name, mode, status });
        Ok(())
    }

    /// An answer grants all locks or none, as the state before demands.
    fn observe_answer(
        &mut self,
        owner: usize,
        asked: &[(usize, Mode)],
        outcome: &Outcome,
        before: &Self,
    ) -> Result<(), Breach> {
        let how = |name: usize, mode: Mode| match before.lock(owner, name) {
            Some((had, _)) if had == Mode::Exclusive || mode == Mode::Shared => Some(Acquired::AlreadyHeld),
            Some(_) => (before.held_modes(name).len() == 1).then_some(Acquired::Upgraded),
            None => before.is_free(name, mode).then_some(Acquired::Fresh),
        };
        let expected: Option<Vec<Acquired>> = asked.iter().map(|(name, mode)| how(*name, *mode)).collect();
        match (outcome, expected) {
            (Outcome::Locked(locks), Some(expected)) => {
                let answered: Vec<Acquired> = locks.iter().map(|lock| lock.how).collect();
                promise!(answered == expected, "{asked:?} are told as {answered:?}, not {expected:?}");
                for ((name, _), lock) in asked.iter().zip(locks) {
                    let has = self.lock(owner, *name);
                    promise!(has == Some((lock.mode, lock.token)), "{lock:?} was told, {has:?} as a change");
                }
                self.touch(owner);
                if let Some(owner) = &mut self.owners[owner] {
                    owner.last = asked.iter().map(|(name, _)| *name).zip(locks.iter().copied()).collect();
                }
            }
            (Outcome::Refused(Refusal::Conflict(conflicts)), None) => {
                let taken = asked.iter().filter(|(name, mode)| how(*name, *mode).is_none()).count();
                promise!(conflicts.len() == taken, "{conflicts:?}, but {taken} are taken");
                let same = (0..NAMES.len()).all(|name| self.lock(owner, name) == before.lock(owner, name));
                promise!(same, "a refusal as a whole left something");
            }
            (outcome, expected) => {
                return Err(format!("{asked:?} is answered by {outcome:?}, not {expected:?}"));
            }
        }
        Ok(())
    }

    fn observe_claim(&mut self, name: usize, outcome: &Outcome, before: &Self) -> Result<(), Breach> {
        let claims = &before.claims[name];
        let right = match outcome {
            Outcome::Claimed(grant) => {
                let current = self.claims[name].current.map(|(token, ends)| (token, ends * TICK_MS));
                current == Some((grant.token, grant.expires.as_millis()))
            }
            Outcome::Refused(Refusal::AlreadyAssigned(record)) => claims.assigned == Some(record.token),
            Outcome::Refused(Refusal::Claimed { .. }) => claims.current.is_some(),
            Outcome::Refused(Refusal::Busy { .. }) => {
                claims.current.is_none()
                    && claims.assigned.is_none()
                    && !before.is_free(name, Mode::Exclusive)
            }
            _ => false,
        };
        promise!(right, "a claim is answered by {outcome:?}, with {claims:?}");
        Ok(())
    }

    /// The required answer to a claimant that presents that token: existence comes first.
    fn presented(&self, name: usize, which: Which) -> Result<(), NotCurrent> {
        let (token, claims) = (self.token(name, which), &self.claims[name]);
        match (claims.current, claims.assigned) {
            (Some((current, _)), _) if token == Some(current) => Ok(()),
            (Some(_), _) => Err(NotCurrent::Lost(None)),
            (None, Some(assigned)) if token != Some(assigned) => Err(NotCurrent::Lost(Some(assigned))),
            (None, _) => Err(NotCurrent::Expired),
        }
    }

    /// The locks that an undo changes: those that are still as the last command left them.
    pub(super) fn undoable(&self, owner: usize) -> Vec<(usize, Acquired)> {
        let last = self.owners[owner].iter().flat_map(|owner| &owner.last);
        let stands = last.filter(|(name, lock)| {
            let has = self.lock(owner, *name);
            has.is_some_and(|(mode, token)| {
                let changes = match lock.how {
                    Acquired::AlreadyHeld => false,
                    Acquired::Fresh => true,
                    Acquired::Upgraded => mode == Mode::Exclusive,
                };
                token == lock.token && changes
            })
        });
        stands.map(|(name, lock)| (*name, lock.how)).collect()
    }

    pub(super) fn lock(&self, owner: usize, name: usize) -> Option<(Mode, FencingToken)> {
        self.owners[owner].as_ref().and_then(|owner| owner.locks[name])
    }

    pub(super) fn id(&self, owner: usize) -> Option<OwnerId> {
        self.owners[owner].as_ref().map(|owner| owner.id)
    }

    fn touch(&mut self, owner: usize) {
        if let Some(owner) = &mut self.owners[owner] {
            owner.expires = self.now + TTL;
        }
    }

    fn forget(&mut self, owner: usize) {
        if let Some(owner) = &mut self.owners[owner] {
            owner.last.clear();
        }
    }

    fn is_over(&self, owner: usize) -> bool {
        self.owners[owner].as_ref().is_some_and(|owner| owner.expires <= self.now)
    }

    fn index_of(&self, id: OwnerId) -> Result<usize, Breach> {
        (0..OWNERS)
            .find(|owner| self.id(*owner) == Some(id))
            .ok_or_else(|| format!("owner {id} does not live"))
    }

    /// Numbers grow, and none is announced that was not reserved before.
    fn number(&mut self, number: u64) -> Result<(), Breach> {
        promise!(number > self.last_number, "the number {number} is not above {}", self.last_number);
        promise!(number <= self.reserved, "the number {number} is above the mark {}", self.reserved);
        self.last_number = number;
        Ok(())
    }
}

fn index(name: &NameBuf) -> Result<usize, Breach> {
    let text = name.as_name().as_str();
    NAMES.iter().position(|name| Some(*name) == text).ok_or_else(|| format!("{name:?} was never asked for"))
}

pub(super) fn unexpected(action: Action, outcome: &Outcome) -> Breach {
    format!("{action:?} is answered by {outcome:?}")
}

/// Why a token is not the one of the current claim.
#[derive(Debug, PartialEq, Eq)]
enum NotCurrent {
    Expired,
    /// There is a newer claim, or this is the token of the one that was made final.
    Lost(Option<FencingToken>),
    Otherwise,
}

impl NotCurrent {
    fn of(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::ClaimExpired => Self::Expired,
            Refusal::ClaimLost { assigned } => Self::Lost(assigned.as_ref().map(|record| record.token)),
            _ => Self::Otherwise,
        }
    }
}
