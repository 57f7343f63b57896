//! Recovery after a restart: agents reclaim the locks that they held before, and nothing is granted to others
//! until the recovery is over.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;

use super::LockManager;
use super::algorithms::extras;
use super::tables::list::{ByName, NONE};
use super::tables::table::Tenure;
use crate::{
    Acquire, Effect, EndCause, FencingToken, Grant, Instant, LossReason, Mode, Name, NameBuf, NewReclaim,
    NewRequest, Now, Refusal,
};

/// The manager's knowledge of the time before the restart, while it recovers.
#[derive(Clone, Debug)]
pub(super) struct RecoveryState {
    pub(super) until: Instant,
    /// No token above was given before the restart.
    mark: u64,
    /// The tokens of the reclaimed locks; each is reclaimed only once.
    reclaimed: BTreeSet<FencingToken>,
    /// The durable holds and assignments from before, and the locks reclaimed or stolen since, so that no
    /// older lock is reclaimed after them.
    fences: BTreeMap<NameBuf, FenceMarks>,
    /// The heap memory of the names of `fences`.
    heap_bytes: usize,
}

/// What is still to be done after the end of a recovery, in parts.
#[derive(Clone, Debug)]
pub(super) struct Unsettled {
    /// The slots of names whose requests are still to be processed.
    pub(super) names: Range<u32>,
    /// The knowledge of the time before, which is forgotten piece by piece.
    past: Box<RecoveryState>,
}

/// The two marks of the fence at a guarded resource: an exclusive lock ended all older ones, a shared one all
/// older exclusive ones.
#[derive(Clone, Copy, Debug, Default)]
struct FenceMarks {
    highest: u64,
    highest_exclusive: u64,
}

/// The memory of a fence, with the inline part of its name.
const FENCE_BYTES: usize = size_of::<(NameBuf, FenceMarks)>();

/// The most memory that a reclaimed or stolen lock of that name adds.
pub(super) fn most_bytes_of_fence(name: Name<'_>) -> usize {
    size_of::<FencingToken>() + FENCE_BYTES + name.as_wtf8().len()
}

impl<S: BuildHasher> LockManager<S> {
    /// Until that instant, or [`Command::EndRecovery`](crate::Command::EndRecovery), agents may reclaim locks
    /// from before a restart, and nothing but a steal is granted: requests wait, those with `ifAvailable`
    /// too. For a manager that has no agents yet, after [`replay`](Self::replay) and
    /// [`continue_tokens_above`](Self::continue_tokens_above).
    pub fn begin_recovery(&mut self, until: Instant) {
        let (reclaimed, fences) = (BTreeSet::new(), BTreeMap::new());
        let mark = self.last_token;
        let mut recovery = RecoveryState { until, mark, reclaimed, fences, heap_bytes: 0 };
        self.fence_durable(&mut recovery);
        self.recovery = Some(Box::new(recovery));
        self.grants = false;
    }

    /// Prevents the reclaim of locks that had ended before a replayed hold was granted, also once that hold
    /// has ended in its turn. An assignment was an exclusive claim.
    fn fence_durable(&self, recovery: &mut RecoveryState) {
        for (_, entry) in self.table.entries.slots() {
            if let Some(held) = entry.token {
                let name = self.table.names[entry.name].name.clone();
                recovery.raise(name, entry.mode, held.token().get());
            }
        }
        for (name, assignment) in self.assignments.iter() {
            recovery.raise(name.clone(), Mode::Exclusive, assignment.token.get());
        }
    }

    /// Whether agents may reclaim the locks that they held.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Of two conflicting reclaims, the one with the higher token wins, in whichever order they come, since
    /// it was granted later. Durable locks and claims were never away.
    pub(super) fn reclaim(&mut self, now: Now, new: &NewReclaim<'_>) -> Result<Grant, Refusal> {
        let NewReclaim { agent, name, mode, token, metadata, max_hold_ms } = *new;
        let request = NewRequest { agent, name, acquire: Acquire::Wait(mode), metadata, max_hold_ms };
        if let Some(lock) = self.find_absent(name, mode, token) {
            // It takes the place of its stand-in.
            self.check_agent(agent)?;
            self.limits.check_metadata(metadata)?;
            return Ok(self.hand_over(now, lock, &request, token));
        }
        self.check_bounds(&request)?;
        let recovery = self.recovery.as_ref().ok_or(Refusal::NotRecovering)?;
        recovery.check(new)?;
        if self.is_done_in_parts() {
            self.catch_up(now, &[(name, mode)], None);
        }
        if self.table.find_name(name).is_some_and(|name| self.is_excluded_by_durable(name, mode)) {
            return Err(Refusal::Superseded);
        }
        let limit = self.limits.names;
        let slot = self.table.name_slot(name, limit).ok_or(Refusal::TooManyNames { limit })?;
        while !self.fits(slot, mode) {
            self.break_lock(self.table.names[slot].held.head, LossReason::Superseded, None);
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.reclaimed.insert(token);
            recovery.raise(name.to_buf(), mode, token.get());
        }
        Ok(self.hold_reclaimed(now, slot, &request, token))
    }

    /// Prevents the reclaim of locks that a steal has ended.
    pub(super) fn fence_stolen(&mut self, name: u32) {
        if let Some(recovery) = &mut self.recovery {
            let name = self.table.names[name].name.clone();
            recovery.raise(name, Mode::Exclusive, self.last_token + 1);
        }
    }

    /// The waiting requests are still to be processed, a part of the names at a time.
    pub(super) fn end_recovery(&mut self) -> bool {
        let Some(past) = self.recovery.take() else { return false };
        self.grants = !self.closed;
        self.effects.push_back(Effect::Recovered);
        self.unsettled = Some(Unsettled { names: 0..self.table.names.end(), past });
        true
    }

    /// The requests that have waited for the end of the recovery are processed name by name, as if those of
    /// the name had just come, in the order in which they came, until so many requests and names were looked
    /// at, which are counted off. Returns whether those were all.
    pub(super) fn settle_waiting(&mut self, now: Now, may_do: &mut usize) -> bool {
        while let Some(unsettled) = &mut self.unsettled {
            if *may_do == 0 {
                return false;
            }
            *may_do -= 1;
            match unsettled.names.next() {
                Some(name) if self.table.names.contains(name) => {
                    *may_do = may_do.saturating_sub(self.table.names[name].queued as usize);
                    self.settle_queue(now, name);
                    self.table.forget_if_idle(name);
                }
                Some(_) => {}
                None if unsettled.past.forget_one() => {}
                None => self.unsettled = None,
            }
        }
        true
    }

    /// The same for one name, for a command that asks for it. A queue whose head has to wait can be processed
    /// later: the command waits behind it anyway.
    pub(super) fn settle_name(&mut self, now: Now, name: Name<'_>) {
        if let Some(name) = self.table.find_name(name).filter(|name| self.is_unsettled(*name)) {
            self.process(now, name);
        }
    }

    /// Whether the requests of the name have still to be processed after the end of a recovery.
    #[inline]
    pub(super) fn is_unsettled(&self, name: u32) -> bool {
        self.unsettled.as_ref().is_some_and(|unsettled| unsettled.names.contains(&name))
    }

    pub(super) fn settle_queue(&mut self, now: Now, name: u32) {
        let mut waiting = 0;
        let mut next = self.table.names[name].queue.head;
        while next != NONE {
            let (slot, entry) = (next, &self.table.entries[next]);
            next = entry.by_name.next;
            if waiting == 0 && self.is_grantable(name, entry.mode) {
                self.grant_pending(now, name, slot);
            } else if entry.waits_for_recovery() {
                self.refuse_unavailable(name, slot, waiting);
            } else {
                waiting += 1;
            }
        }
    }

    /// Refuses an `ifAvailable` request that waited for the end of the recovery.
    fn refuse_unavailable(&mut self, name: u32, slot: u32, queued: u32) {
        let Tenure::Agent(party) = self.table.entries[slot].tenure() else { return };
        let agent = self.table.party_id(party);
        self.table.ends_for(|| EndCause::Unavailable);
        let request = self.remove(slot).request;
        let (holders, _) = self.holders(name);
        let refusal = Box::new(Refusal::Unavailable { holders, queued });
        self.effects.push_back(Effect::Unavailable { agent, request, refusal });
    }

    /// Adds a reclaimed lock with its former token.
    pub(super) fn hold_reclaimed(
        &mut self,
        now: Now,
        name: u32,
        request: &NewRequest<'_>,
        token: FencingToken,
    ) -> Grant {
        let tenure = Tenure::Agent(request.agent.slot);
        let entry = self.table.add_entry(now.tick(), name, tenure, request.acquire.mode(), extras(request));
        // The stand-in of a holder that is away is granted nothing.
        if !self.is_absent(request.agent.slot) {
            self.table.tally_reclaim(entry.slot, token);
        }
        self.hold(now, name, entry.slot, token)
    }

    /// Whether a durable lock or claim excludes a lock of that mode from the name. Void locks have made way.
    fn is_excluded_by_durable(&self, name: u32, mode: Mode) -> bool {
        let mut held = self.table.names[name].held.iter::<ByName>(&self.table.entries);
        held.any(|slot| {
            let entry = &self.table.entries[slot];
            let excludes = mode == Mode::Exclusive || entry.mode == Mode::Exclusive;
            excludes && !matches!(entry.tenure(), Tenure::Agent(_))
        })
    }
}

impl RecoveryState {
    fn check(&self, new: &NewReclaim<'_>) -> Result<(), Refusal> {
        let token = new.token.get();
        if token > self.mark {
            return Err(Refusal::UnknownToken);
        }
        let fence = self.fences.get(&new.name.to_buf()).copied().unwrap_or_default();
        let passed = match new.mode {
            Mode::Exclusive => fence.highest,
            Mode::Shared => fence.highest_exclusive,
        };
        if token <= passed || self.reclaimed.contains(&new.token) {
            return Err(Refusal::Superseded);
        }
        Ok(())
    }

    /// The memory of the marks from before the restart and since.
    pub(super) fn bytes(&self) -> usize {
        let Self { reclaimed, fences, heap_bytes, .. } = self;
        reclaimed.len() * size_of::<FencingToken>() + fences.len() * FENCE_BYTES + heap_bytes
    }

    /// Forgets a fence or a token. False if there is none left.
    fn forget_one(&mut self) -> bool {
        self.fences.pop_first().is_some() || self.reclaimed.pop_first().is_some()
    }

    fn raise(&mut self, name: NameBuf, mode: Mode, token: u64) {
        let heap_bytes = name.heap_bytes();
        let fence = self.fences.entry(name).or_insert_with(|| {
            self.heap_bytes += heap_bytes;
            FenceMarks::default()
        });
        fence.highest = fence.highest.max(token);
        if mode == Mode::Exclusive {
            fence.highest_exclusive = fence.highest_exclusive.max(token);
        }
    }
}
