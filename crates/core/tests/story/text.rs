//! The results of a command, as text.

use lockhouse_core::{
    Acquired, AgentId, AssignmentView, BrokenBy, Change, ClaimEnd, ClaimView, Conflict, Effect, EndReason,
    Holder, Instant, LockEnd, LockRecord, LockState, LossReason, Mode, Outcome, OwnedLock, OwnerEnd,
    OwnerView, Party, Refusal, RequestId, Snapshot, SnapshotEntry, VoidLocks,
};

use super::world::World;

impl World {
    pub(super) fn describe(&self, outcome: Outcome) -> Vec<String> {
        let line = match outcome {
            Outcome::Joined(_) => "joined".to_owned(),
            Outcome::Granted(grant) => format!("granted, token {}", grant.token),
            Outcome::Queued(_) => "queued".to_owned(),
            Outcome::Refused(refusal) => format!("refused: {}", reason(&refusal)),
            Outcome::Aborted { pending } => if pending { "aborted" } else { "not pending" }.to_owned(),
            Outcome::Released { held } => if held { "released" } else { "not held" }.to_owned(),
            Outcome::Renewed { alive } => if alive { "renewed" } else { "not alive" }.to_owned(),
            Outcome::Ended { alive } => if alive { "ended" } else { "not alive" }.to_owned(),
            Outcome::Snapshot(snapshot) => return self.entries(snapshot),
            Outcome::Closed => "closed".to_owned(),
            Outcome::OwnerOpened(owner) => format!("opened, number {owner}"),
            Outcome::Locked(locks) => return locks.iter().map(owned_lock).collect(),
            Outcome::Unlocked { count } => format!("unlocked {count}"),
            Outcome::Undone { count } => format!("undone {count}"),
            Outcome::Claimed(grant) => {
                format!("claimed, token {}, expires at {}", grant.token, time(grant.expires))
            }
            Outcome::ClaimRenewed { expires } => format!("renewed, expires at {}", time(expires)),
            Outcome::ClaimReleased => "given back".to_owned(),
            Outcome::Finalized(to) => {
                format!(
                    "final: {:?} is assigned to {:?}, token {}, since {}",
                    to.name,
                    to.claimant,
                    to.token,
                    time(to.since)
                )
            }
            Outcome::Unassigned { was } => if was { "unassigned" } else { "was not assigned so" }.to_owned(),
            Outcome::Broken(None) => "nothing broken".to_owned(),
            Outcome::Broken(Some(holder)) => format!("broken: {}", self::holder(&holder)),
            Outcome::RecoveryEnded { was } => if was { "ended" } else { "not recovering" }.to_owned(),
        };
        vec![line]
    }

    pub(super) fn effect(&self, effect: &Effect) -> String {
        match *effect {
            Effect::Change(ref fact) => format!("=> {}", change(fact)),
            Effect::Recovered => "-> all: recovered".to_owned(),
            Effect::Unavailable { agent, request, ref refusal } => {
                format!("-> {}: {} refused: {}", self.who(agent), self.which(request), reason(refusal))
            }
            Effect::Granted { agent, grant } => {
                format!(
                    "-> {}: {} granted, token {}",
                    self.who(agent),
                    self.which(grant.request),
                    grant.token
                )
            }
            Effect::Lost { agent, request, ref loss } => {
                let reason = match &loss.reason {
                    LossReason::Stolen => "stolen".to_owned(),
                    LossReason::Expired => "held for too long".to_owned(),
                    LossReason::Superseded => "superseded".to_owned(),
                    LossReason::Broken { reason: None } => "broken".to_owned(),
                    LossReason::Broken { reason: Some(why) } => format!("broken: {why:?}"),
                };
                format!("-> {}: {} lost, {reason}", self.who(agent), self.which(request))
            }
            Effect::AgentEnded { agent, reason: EndReason::Expired } => {
                format!("-> {}: ended, lease expired", self.who(agent))
            }
        }
    }

    fn entries(&self, snapshot: Snapshot) -> Vec<String> {
        let mut held = snapshot.held;
        held.sort_by_key(|entry| match entry.state {
            LockState::Held(token) => token.get(),
            LockState::Pending { .. } => panic!("{entry:?} among the held"),
        });
        let mut entries: Vec<SnapshotEntry> = held.into_iter().chain(snapshot.pending).collect();
        // Stable: held before pending within a name, pending as they come.
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        if entries.is_empty() {
            return vec!["nothing".to_owned()];
        }
        entries.iter().map(|entry| self.entry(entry)).collect()
    }

    fn entry(&self, entry: &SnapshotEntry) -> String {
        let mut line = match entry.state {
            LockState::Held(token) => format!("{:?} held, token {token}: ", entry.name),
            LockState::Pending { place } => format!("{:?} waiting at place {place}: ", entry.name),
        };
        match entry.party {
            Party::Agent(agent) => {
                let who = self.who(agent);
                line += &who;
                if entry.label != who {
                    line += &format!(" ({:?})", entry.label);
                }
            }
            Party::Owner(owner) => line += &format!("owner {owner} ({:?})", entry.label),
            Party::Claimant => line += &format!("claimant {:?}", entry.label),
        }
        line + &details(entry.mode, entry.since, entry.expires, entry.metadata.as_deref())
    }

    fn who(&self, id: AgentId) -> String {
        self.agents
            .iter()
            .find(|(_, agent)| **agent == id)
            .map_or("a stranger".to_owned(), |(label, _)| label.clone())
    }

    fn which(&self, id: RequestId) -> String {
        let found = self.requests.iter().find(|(_, request)| **request == id);
        found.map_or("a strange request".to_owned(), |(label, _)| label.clone())
    }
}

fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unavailable { holders, queued } => {
            format!("unavailable, {}", held(holders, *queued))
        }
        Refusal::NameTooLong { units, limit } => format!("name of {units} units, at most {limit}"),
        Refusal::MetadataTooLong { bytes, limit } => format!("metadata of {bytes} bytes, at most {limit}"),
        Refusal::TooManyRequests { limit } => {
            format!("too many requests and locks of this agent, at most {limit}")
        }
        Refusal::TooManyEntries { limit } => format!("too many requests and locks, at most {limit}"),
        Refusal::BudgetExceeded { limit } => format!("no room for more than {limit} bytes"),
        Refusal::TooManyNames { limit } => format!("too many names, at most {limit}"),
        Refusal::TooManyAgents { limit } => format!("too many agents, at most {limit}"),
        Refusal::UnknownAgent => "unknown agent".to_owned(),
        Refusal::Closed => "closed".to_owned(),
        Refusal::Recovering { until } => format!("recovering until {}", time(*until)),
        Refusal::NotRecovering => "not recovering".to_owned(),
        Refusal::Superseded => "superseded".to_owned(),
        Refusal::UnknownToken => "unknown token".to_owned(),
        Refusal::UnknownOwner => "unknown owner".to_owned(),
        Refusal::Conflict(conflicts) => conflicts.iter().map(conflict).collect::<Vec<_>>().join(" | "),
        Refusal::Claimed { holder: by } => format!("claimed; {}", holder(by)),
        Refusal::Busy { holders, queued } => format!("busy, {}", held(holders, *queued)),
        Refusal::AlreadyAssigned(to) => {
            format!("already assigned to {:?}, token {}, since {}", to.claimant, to.token, time(to.since))
        }
        Refusal::ClaimExpired => "claim expired".to_owned(),
        Refusal::ClaimLost { assigned: None } => "claim lost".to_owned(),
        Refusal::ClaimLost { assigned: Some(to) } => {
            format!("claim lost: assigned to {:?}, token {}, since {}", to.claimant, to.token, time(to.since))
        }
        Refusal::LabelTooLong { bytes, limit } => format!("label of {bytes} bytes, at most {limit}"),
        Refusal::TtlOutOfBounds { ttl_ms, least, most } => {
            format!("ttl of {ttl_ms} ms, from {least} to {most}")
        }
        Refusal::TooManyLocksAtOnce { limit } => format!("too many locks at once, at most {limit}"),
        Refusal::TooManyLocks { limit } => format!("too many locks of this owner, at most {limit}"),
        Refusal::TooManyOwners { limit } => format!("too many owners, at most {limit}"),
        Refusal::TooManyAssignments { limit } => format!("too many claims and assignments, at most {limit}"),
    }
}

fn holder(holder: &Holder) -> String {
    let Holder { party, label, mode, since, expires, metadata } = holder;
    let kind = match party {
        Party::Agent(_) => String::new(),
        Party::Owner(owner) => format!("owner {owner} "),
        Party::Claimant => "claimant ".to_owned(),
    };
    format!("held by {kind}{label:?}{}", details(*mode, *since, *expires, metadata.as_deref()))
}

fn held(holders: &[Holder], queued: u32) -> String {
    let holders: Vec<String> = holders.iter().map(holder).collect();
    let holders = if holders.is_empty() { "held by nobody".to_owned() } else { holders.join("; ") };
    format!("{queued} waiting; {holders}")
}

fn conflict(conflict: &Conflict) -> String {
    format!("{:?} is taken, {}", conflict.name, held(&conflict.holders, conflict.queued))
}

fn owned_lock(lock: &OwnedLock) -> String {
    let how = match lock.how {
        Acquired::AlreadyHeld => "already held",
        Acquired::Fresh => "locked",
        Acquired::Upgraded => "upgraded",
    };
    format!("{how}, {}, token {}", mode_name(lock.mode), lock.token)
}

pub(super) fn owner_view(owner: &OwnerView<'_>) -> String {
    let OwnerView { owner, label, metadata, ttl_ms, since, expires, ends, locks, .. } = owner;
    let mut line = format!(
        "owner {owner} {label:?}, {locks} locks, ttl {}, since {}, expires at {}",
        length(*ttl_ms),
        time(*since),
        time(*expires)
    );
    if let Some(ends) = ends {
        line += &format!(", ends at {}", time(*ends));
    }
    line + &said(*metadata)
}

pub(super) fn claim_view(claim: &ClaimView<'_>) -> String {
    let ClaimView { token, claimant, ttl_ms, since, expires, metadata, .. } = claim;
    format!(
        "claimed by {claimant:?}, token {token}, ttl {}, since {}, expires at {}{}",
        length(*ttl_ms),
        time(*since),
        time(*expires),
        said(*metadata)
    )
}

pub(super) fn assignment_view(view: &AssignmentView<'_>) -> String {
    let AssignmentView { name, claimant, token, since, .. } = view;
    format!("{name:?} is assigned to {claimant:?}, token {token}, since {}", time(*since))
}

pub(super) fn lock_record(record: &LockRecord) -> String {
    let LockRecord { name, owner, mode, token, since, metadata } = record;
    let details = details(*mode, *since, None, metadata.as_deref());
    format!("{name:?} locked by owner {owner}, token {token}{details}")
}

fn change(change: &Change) -> String {
    match change {
        Change::TokensReserved { up_to } => format!("tokens reserved up to {up_to}"),
        Change::OwnerOpened(record) => {
            let mut line =
                format!("owner {} {:?} opened, ttl {}", record.owner, record.label, length(record.ttl_ms));
            if let Some(ends) = record.ends {
                line += &format!(", ends at {}", time(ends));
            }
            line + &said(record.metadata.as_deref())
        }
        Change::OwnerEnded { owner, names, reason, at } => {
            let reason = end_of_owner(*reason);
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            let names = if names.is_empty() { "nothing".to_owned() } else { names.join(" ") };
            format!("owner {owner} {reason} at {}, leaves {names}", time(*at))
        }
        Change::Locked(record) => lock_record(record),
        Change::Unlocked { name, owner, token, reason, .. } => {
            let reason = match reason {
                LockEnd::Released => "released",
                LockEnd::Undone => "undone",
                LockEnd::Stolen => "stolen",
                LockEnd::Broken(by) => &broken(by),
                LockEnd::WithOwner(reason) => &format!("owner {}", end_of_owner(*reason)),
            };
            format!("{name:?} unlocked, owner {owner}, token {token}, {reason}")
        }
        Change::LocksVoided { owner, which, .. } => match which {
            VoidLocks::OfEnded(reason) => {
                format!("owner {owner} {}, its locks are void", end_of_owner(*reason))
            }
            VoidLocks::AllBut { up_to, spared } => {
                let spared: String = spared.iter().map(|name| format!(" {name:?}")).collect();
                format!("void, owner {owner}: all up to token {up_to} but:{spared}")
            }
            VoidLocks::These(locks) => {
                let locks: String =
                    locks.iter().map(|(name, token)| format!(" {name:?} token {token}")).collect();
                format!("void, owner {owner}:{locks}")
            }
        },
        Change::LocksSwept { owner } => format!("swept, owner {owner}"),
        Change::Claimed(record) => {
            let said = said(record.metadata.as_deref());
            format!(
                "{:?} claimed by {:?}, token {}, ttl {}{said}",
                record.name,
                record.claimant,
                record.token,
                length(record.ttl_ms)
            )
        }
        Change::Unclaimed { name, token, reason, .. } => {
            let reason = match reason {
                ClaimEnd::Released => "given back",
                ClaimEnd::Expired => "expired",
                ClaimEnd::Stolen => "stolen",
                ClaimEnd::Broken(by) => &broken(by),
            };
            format!("{name:?} unclaimed, token {token}, {reason}")
        }
        Change::Assigned(record) => {
            format!("{:?} assigned to {:?}, token {}", record.name, record.claimant, record.token)
        }
        Change::Unassigned { name, token, .. } => format!("{name:?} unassigned, token {token}"),
    }
}

fn broken(by: &BrokenBy) -> String {
    let reason = by.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason:?}"));
    format!("broken by {:?}{reason}", by.operator)
}

fn end_of_owner(reason: OwnerEnd) -> &'static str {
    match reason {
        OwnerEnd::Ended => "ended",
        OwnerEnd::Expired => "expired",
        OwnerEnd::Overdue => "overdue",
    }
}

fn said(metadata: Option<&str>) -> String {
    metadata.map_or(String::new(), |text| format!(", metadata {text:?}"))
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

fn length(ms: u64) -> String {
    time(Instant::from_millis(ms))
}

fn details(mode: Mode, since: Instant, expires: Option<Instant>, metadata: Option<&str>) -> String {
    let mut line = format!(", {}, since {}", mode_name(mode), time(since));
    if let Some(expires) = expires {
        line += &format!(", expires at {}", time(expires));
    }
    line + &said(metadata)
}

pub(super) fn time(at: Instant) -> String {
    match at.as_millis() {
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}
