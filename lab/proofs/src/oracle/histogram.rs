//! The number of times that each class of outcome and effect came up. A class that never came up was not
//! compared.

use std::collections::BTreeMap;
use std::fmt;

use lockhouse_core::{
    Acquire, Acquired, Change, ClaimEnd, Effect, EndReason, LockEnd, LossReason, Mode, Outcome, OwnedLock,
    OwnerEnd, Refusal,
};
use random::commands::{Action, Durable};

const CLASSES: [&str; 107] = [
    "joined",
    "granted exclusive",
    "granted shared",
    "granted if-available exclusive",
    "granted if-available shared",
    "granted steal",
    "queued exclusive",
    "queued shared",
    "refused unavailable",
    "refused closed",
    "refused unknown-agent",
    "refused name-too-long",
    "refused metadata-too-long",
    "refused too-many-requests",
    "refused too-many-names",
    "refused too-many-agents",
    "aborted",
    "abort of nothing",
    "released",
    "release of nothing",
    "renewed",
    "renewal of nothing",
    "ended",
    "end of nothing",
    "snapshot",
    "closed",
    "timeout",
    "timeout that ends something",
    "name with a lone surrogate",
    "effect: granted exclusive",
    "effect: granted shared",
    "effect: lost, stolen",
    "effect: lost, expired",
    "effect: agent expired",
    "several effects of one command",
    "queued if-available",
    "owner opened",
    "touched",
    "touch of nothing",
    "owner ended",
    "owner end of nothing",
    "locked nothing",
    "locked fresh",
    "locked upgraded",
    "locked already-held",
    "locked several",
    "unlocked",
    "unlocked several",
    "unlocked nothing",
    "undone",
    "undone nothing",
    "claimed",
    "claim renewed",
    "claim given back",
    "finalized",
    "finalized again",
    "unassigned",
    "unassigned nothing",
    "broken",
    "broken nothing",
    "reclaimed",
    "recovery ended",
    "recovery end of nothing",
    "restarted",
    "restarted, recovering",
    "refused recovering",
    "refused not-recovering",
    "refused superseded",
    "refused unknown-token",
    "refused unknown-owner",
    "refused conflict",
    "refused claimed",
    "refused busy",
    "refused already-assigned",
    "refused claim-expired",
    "refused claim-lost",
    "refused claim-lost, assigned",
    "refused label-too-long",
    "refused ttl-out-of-bounds",
    "refused too-many-locks-at-once",
    "refused too-many-locks",
    "refused too-many-owners",
    "refused too-many-assignments",
    "effect: lost, superseded",
    "effect: lost, broken",
    "effect: unavailable",
    "effect: recovered",
    "change: tokens reserved",
    "change: owner opened",
    "change: owner ended",
    "change: owner expired",
    "change: owner overdue",
    "change: locked",
    "change: unlocked, released",
    "change: unlocked, undone",
    "change: unlocked, stolen",
    "change: unlocked, broken",
    "change: unlocked, owner ended before",
    "change: voided",
    "change: swept",
    "change: claimed",
    "change: unclaimed, released",
    "change: unclaimed, expired",
    "change: unclaimed, stolen",
    "change: unclaimed, broken",
    "change: assigned",
    "change: unassigned",
];

#[derive(Clone, Debug)]
pub(super) struct Histogram(BTreeMap<&'static str, u64>);

impl Histogram {
    pub(super) fn new() -> Self {
        Self(CLASSES.iter().map(|class| (*class, 0)).collect())
    }

    pub(super) fn count_outcome(&mut self, action: &Action, outcome: Option<&Outcome>, effects: usize) {
        if let Action::Request(ask) = action
            && ask.name.as_name().as_str().is_none()
        {
            self.count("name with a lone surrogate");
        }
        match outcome {
            Some(Outcome::Locked(locks)) => self.count_locked(locks),
            Some(Outcome::Finalized(_)) if effects == 0 => self.count("finalized again"),
            Some(outcome) => self.count(class_of(action, outcome)),
            None => match action {
                Action::Durable(Durable::Restart { recovery_ms: None }) => self.count("restarted"),
                Action::Durable(Durable::Restart { .. }) => self.count("restarted, recovering"),
                _ => {
                    self.count("timeout");
                    if effects > 0 {
                        self.count("timeout that ends something");
                    }
                }
            },
        }
        if effects > 1 {
            self.count("several effects of one command");
        }
    }

    pub(super) fn count_effect(&mut self, effect: &Effect, mode: Option<Mode>) {
        self.count(match effect {
            Effect::Granted { .. } if mode == Some(Mode::Shared) => "effect: granted shared",
            Effect::Granted { .. } => "effect: granted exclusive",
            Effect::Lost { loss, .. } => match loss.reason {
                LossReason::Stolen => "effect: lost, stolen",
                LossReason::Expired => "effect: lost, expired",
                LossReason::Superseded => "effect: lost, superseded",
                LossReason::Broken { .. } => "effect: lost, broken",
            },
            Effect::AgentEnded { reason: EndReason::Expired, .. } => "effect: agent expired",
            Effect::Unavailable { .. } => "effect: unavailable",
            Effect::Recovered => "effect: recovered",
            Effect::Change(change) => class_of_change(change),
        });
    }

    fn count_locked(&mut self, locks: &[OwnedLock]) {
        if locks.is_empty() {
            self.count("locked nothing");
        }
        if locks.len() > 1 {
            self.count("locked several");
        }
        for lock in locks {
            self.count(match lock.how {
                Acquired::AlreadyHeld => "locked already-held",
                Acquired::Fresh => "locked fresh",
                Acquired::Upgraded => "locked upgraded",
            });
        }
    }

    /// The classes that came up fewer than `floor` times.
    pub(super) fn below(&self, floor: u64) -> Vec<&'static str> {
        self.0.iter().filter(|(_, count)| **count < floor).map(|(class, _)| *class).collect()
    }

    pub(super) fn as_map(&self) -> &BTreeMap<&'static str, u64> {
        &self.0
    }

    fn count(&mut self, class: &'static str) {
        *self.0.entry(class).or_default() += 1;
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        CLASSES.iter().try_for_each(|class| writeln!(f, "{:>9}  {class}", self.0[class]))
    }
}

fn class_of(action: &Action, outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Joined(_) => "joined",
        Outcome::Granted(_) => class_of_grant(action),
        Outcome::Queued(_) => match action {
            Action::Request(ask) if matches!(ask.acquire, Acquire::IfAvailable(_)) => "queued if-available",
            Action::Request(ask) if ask.acquire.mode() == Mode::Shared => "queued shared",
            _ => "queued exclusive",
        },
        Outcome::Refused(refusal) => class_of_refusal(refusal),
        Outcome::Aborted { pending: true } => "aborted",
        Outcome::Aborted { pending: false } => "abort of nothing",
        Outcome::Released { held: true } => "released",
        Outcome::Released { held: false } => "release of nothing",
        Outcome::Renewed { alive } => match (action, alive) {
            (Action::Durable(_), true) => "touched",
            (Action::Durable(_), false) => "touch of nothing",
            (_, true) => "renewed",
            (_, false) => "renewal of nothing",
        },
        Outcome::Ended { alive } => match (action, alive) {
            (Action::Durable(_), true) => "owner ended",
            (Action::Durable(_), false) => "owner end of nothing",
            (_, true) => "ended",
            (_, false) => "end of nothing",
        },
        Outcome::Snapshot(_) => "snapshot",
        Outcome::Closed => "closed",
        Outcome::OwnerOpened(_) => "owner opened",
        Outcome::Locked(_) => "locked fresh",
        Outcome::Unlocked { count: 0 } => "unlocked nothing",
        Outcome::Unlocked { count: 1 } => "unlocked",
        Outcome::Unlocked { .. } => "unlocked several",
        Outcome::Undone { count: 0 } => "undone nothing",
        Outcome::Undone { .. } => "undone",
        Outcome::Claimed(_) => "claimed",
        Outcome::ClaimRenewed { .. } => "claim renewed",
        Outcome::ClaimReleased => "claim given back",
        Outcome::Finalized(_) => "finalized",
        Outcome::Unassigned { was: true } => "unassigned",
        Outcome::Unassigned { was: false } => "unassigned nothing",
        Outcome::Broken(Some(_)) => "broken",
        Outcome::Broken(None) => "broken nothing",
        Outcome::RecoveryEnded { was: true } => "recovery ended",
        Outcome::RecoveryEnded { was: false } => "recovery end of nothing",
    }
}

fn class_of_grant(action: &Action) -> &'static str {
    let Action::Request(ask) = action else { return "reclaimed" };
    match ask.acquire {
        Acquire::Wait(Mode::Exclusive) => "granted exclusive",
        Acquire::Wait(Mode::Shared) => "granted shared",
        Acquire::IfAvailable(Mode::Exclusive) => "granted if-available exclusive",
        Acquire::IfAvailable(Mode::Shared) => "granted if-available shared",
        Acquire::Steal => "granted steal",
    }
}

fn class_of_refusal(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unavailable { .. } => "refused unavailable",
        Refusal::NameTooLong { .. } => "refused name-too-long",
        Refusal::MetadataTooLong { .. } => "refused metadata-too-long",
        Refusal::TooManyRequests { .. } => "refused too-many-requests",
        Refusal::TooManyEntries { .. } => "refused too-many-entries",
        Refusal::BudgetExceeded { .. } => "refused no-room",
        Refusal::TooManyNames { .. } => "refused too-many-names",
        Refusal::TooManyAgents { .. } => "refused too-many-agents",
        Refusal::UnknownAgent => "refused unknown-agent",
        Refusal::Closed => "refused closed",
        Refusal::Recovering { .. } => "refused recovering",
        Refusal::NotRecovering => "refused not-recovering",
        Refusal::Superseded => "refused superseded",
        Refusal::UnknownToken => "refused unknown-token",
        Refusal::UnknownOwner => "refused unknown-owner",
        Refusal::Conflict(_) => "refused conflict",
        Refusal::Claimed { .. } => "refused claimed",
        Refusal::Busy { .. } => "refused busy",
        Refusal::AlreadyAssigned(_) => "refused already-assigned",
        Refusal::ClaimExpired => "refused claim-expired",
        Refusal::ClaimLost { assigned: None } => "refused claim-lost",
        Refusal::ClaimLost { assigned: Some(_) } => "refused claim-lost, assigned",
        Refusal::LabelTooLong { .. } => "refused label-too-long",
        Refusal::TtlOutOfBounds { .. } => "refused ttl-out-of-bounds",
        Refusal::TooManyLocksAtOnce { .. } => "refused too-many-locks-at-once",
        Refusal::TooManyLocks { .. } => "refused too-many-locks",
        Refusal::TooManyOwners { .. } => "refused too-many-owners",
        Refusal::TooManyAssignments { .. } => "refused too-many-assignments",
    }
}

fn class_of_change(change: &Change) -> &'static str {
    match change {
        Change::TokensReserved { .. } => "change: tokens reserved",
        Change::OwnerOpened(_) => "change: owner opened",
        Change::OwnerEnded { reason: OwnerEnd::Ended, .. } => "change: owner ended",
        Change::OwnerEnded { reason: OwnerEnd::Expired, .. } => "change: owner expired",
        Change::OwnerEnded { reason: OwnerEnd::Overdue, .. } => "change: owner overdue",
        Change::Locked(_) => "change: locked",
        Change::Unlocked { reason: LockEnd::Released, .. } => "change: unlocked, released",
        Change::Unlocked { reason: LockEnd::Undone, .. } => "change: unlocked, undone",
        Change::Unlocked { reason: LockEnd::Stolen, .. } => "change: unlocked, stolen",
        Change::Unlocked { reason: LockEnd::Broken(_), .. } => "change: unlocked, broken",
        Change::Unlocked { reason: LockEnd::WithOwner(_), .. } => "change: unlocked, owner ended before",
        Change::LocksVoided { .. } => "change: voided",
        Change::LocksSwept { .. } => "change: swept",
        Change::Claimed(_) => "change: claimed",
        Change::Unclaimed { reason: ClaimEnd::Released, .. } => "change: unclaimed, released",
        Change::Unclaimed { reason: ClaimEnd::Expired, .. } => "change: unclaimed, expired",
        Change::Unclaimed { reason: ClaimEnd::Stolen, .. } => "change: unclaimed, stolen",
        Change::Unclaimed { reason: ClaimEnd::Broken(_), .. } => "change: unclaimed, broken",
        Change::Assigned(_) => "change: assigned",
        Change::Unassigned { .. } => "change: unassigned",
    }
}
