//! The pessimistic offline lock as the pattern has it: one table from locks to owners, asked one row at a
//! time.
//! <https://martinfowler.com/eaaCatalog/pessimisticOfflineLock.html>

use lockhouse_core::{
    Acquired, Change, Command, Conflict, Effect, FencingToken, GrantToUndo, Holder, Instant, LockEnd,
    LockRecord, Mode, Name, NameBuf, NewLocks, NewOwner, Outcome, OwnedLock, OwnerEnd, OwnerId, OwnerRecord,
    Party, Refusal, SecretSeed, Unlock, VoidLocks,
};

use super::{Literal, touch};

/// A session or business transaction.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) id: OwnerId,
    pub(super) born: u64,
    label: String,
    metadata: Option<String>,
    pub(super) ttl_ms: u64,
    since: Instant,
    pub(super) expires: Instant,
    pub(super) ends: Option<Instant>,
    seed: SecretSeed,
}

/// A row of the lock table.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) name: NameBuf,
    pub(super) owner: OwnerId,
    pub(super) mode: Mode,
    pub(super) token: FencingToken,
    since: Instant,
    metadata: Option<String>,
    pub(super) born: u64,
    /// When the row was marked as void, if it was.
    pub(super) voided: Option<u64>,
    /// The number of answers to the owner that it has this lock already, in all and since the upgrade.
    pub(super) again: Again,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Again {
    all: u32,
    since_upgrade: u32,
}

impl Again {
    /// A count so high that any step has to assume such answers to others.
    pub(super) const UNKNOWN: Self = Self { all: u32::MAX / 2, since_upgrade: u32::MAX / 2 };
}

impl Literal {
    pub(super) fn handle_owner(&mut self, now: Instant, command: Command<'_>) -> Result<Outcome, Refusal> {
        Ok(match command {
            Command::OpenOwner(new) => self.open_owner(now, &new)?,
            Command::Touch { owner } => {
                let alive = self.is_alive(now, owner);
                self.touch(owner);
                Outcome::Renewed { alive }
            }
            Command::EndOwner { owner } => {
                let alive = self.is_alive(now, owner);
                if alive {
                    self.end_owner(now, owner, OwnerEnd::Ended);
                }
                Outcome::Ended { alive }
            }
            Command::Lock(new) => Outcome::Locked(self.acquire(now, &new)?),
            Command::Unlock { owner, locks } => Outcome::Unlocked { count: self.release(now, owner, locks) },
            Command::Undo { owner, locks } => Outcome::Undone { count: self.undo(now, owner, locks) },
            other => panic!("{other:?} is not an owner's"),
        })
    }

    pub(super) fn owner(&self, id: OwnerId) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.id == id)
    }

    /// The owner and all its rows are removed; one change announces that.
    pub(super) fn remove_owner(
        &mut self,
        now: Instant,
        owner: OwnerId,
        reason: OwnerEnd,
        touched: &mut Vec<NameBuf>,
    ) {
        self.owners.retain(|other| other.id != owner);
        if self.rows.iter().filter(|row| row.owner == owner).count() > self.limits.locks_ended_at_once {
            return self.end_in_parts(now, owner, reason);
        }
        self.turns.retain(|(_, id)| *id != owner);
        let mut rows: Vec<Row> = self.rows.extract_if(.., |row| row.owner == owner).collect();
        rows.sort_by_key(|row| (row.voided.is_none(), row.voided));
        let names: Vec<NameBuf> = rows.into_iter().map(|row| row.name).collect();
        names.iter().for_each(|name| touch(touched, name));
        self.change(Change::OwnerEnded { owner, names, reason, at: now });
    }

    pub(super) fn remove_stolen_rows(&mut self, now: Instant, name: &NameBuf) -> Vec<(u64, Effect)> {
        let stolen: Vec<Row> = self.rows.extract_if(.., |row| row.name == *name).collect();
        let mut effects = Vec::new();
        for row in stolen {
            let changes = match row.voided {
                None => vec![unlocked(now, &row, LockEnd::Stolen)],
                Some(_) => self.ends_of_void(now, &row),
            };
            effects.extend(changes.into_iter().map(|it| (row.born, Effect::Change(Box::new(it)))));
        }
        effects
    }

    /// The holder of a row, whose owner lives: there is no row without an owner.
    pub(super) fn row_holder(&self, row: &Row) -> Holder {
        let owner = self.owner(row.owner);
        Holder {
            party: Party::Owner(row.owner),
            label: owner.map(|owner| owner.label.clone()).unwrap_or_default(),
            mode: row.mode,
            since: row.since,
            expires: owner.map(|owner| owner.expires),
            metadata: row.metadata.clone(),
        }
    }

    fn open_owner(&mut self, now: Instant, new: &NewOwner<'_>) -> Result<Outcome, Refusal> {
        self.check_text(new.label, new.metadata)?;
        self.check_ttl(new.ttl_ms)?;
        if self.closed {
            return Err(Refusal::Closed);
        }
        let limit = self.limits.owners;
        if (self.owners.len() + self.ended.len()) as u32 >= limit {
            return Err(Refusal::TooManyOwners { limit });
        }
        let id = OwnerId::new(self.next_number());
        let ends = new.max_ms.map(|ms| self.came.plus_millis(ms));
        let expires = self.came.plus_millis(new.ttl_ms);
        let owner = Owner {
            id,
            born: self.birth(),
            label: new.label.to_owned(),
            metadata: new.metadata.map(str::to_owned),
            ttl_ms: new.ttl_ms,
            since: now,
            expires: ends.map_or(expires, |ends| expires.min(ends)),
            ends,
            seed: new.seed,
        };
        self.change(Change::OwnerOpened(owner.record()));
        self.owners.push(owner);
        Ok(Outcome::OwnerOpened(id))
    }

    /// Whether the owner lives. Its longest life ends on the instant.
    fn is_alive(&mut self, now: Instant, id: OwnerId) -> bool {
        let Some(owner) = self.owner(id) else { return false };
        let overdue = owner.ends.is_some_and(|ends| ends <= now);
        if overdue {
            self.end_owner(now, id, OwnerEnd::Overdue);
        }
        !overdue
    }

    fn end_owner(&mut self, now: Instant, owner: OwnerId, reason: OwnerEnd) {
        let mut touched = Vec::new();
        self.remove_owner(now, owner, reason, &mut touched);
        self.process_all(now, &touched);
    }

    /// The owner was active: its TTL counts from now. No lease is ever cut short.
    fn touch(&mut self, id: OwnerId) {
        let came = self.came;
        for owner in self.owners.iter_mut().filter(|owner| owner.id == id) {
            let expires = came.plus_millis(owner.ttl_ms);
            owner.expires = owner.expires.max(owner.ends.map_or(expires, |ends| expires.min(ends)));
        }
    }

    pub(super) fn has_lock(&self, name: &NameBuf, owner: OwnerId) -> Option<usize> {
        self.rows.iter().position(|row| row.name == *name && row.owner == owner && row.voided.is_none())
    }

    /// Several locks: first nothing but looking, then all of them.
    fn acquire(&mut self, now: Instant, new: &NewLocks<'_>) -> Result<Vec<OwnedLock>, Refusal> {
        if !self.is_alive(now, new.owner) {
            return Err(Refusal::UnknownOwner);
        }
        let limit = self.limits.locks_per_command;
        if new.locks.len() > limit {
            return Err(Refusal::TooManyLocksAtOnce { limit });
        }
        new.locks.iter().try_for_each(|(name, _)| self.check_name(*name))?;
        self.check_text("", new.metadata)?;
        self.check_open()?;
        let mut wanted: Vec<NameBuf> = Vec::new();
        new.locks.iter().for_each(|(name, _)| touch(&mut wanted, &name.to_buf()));
        wanted.iter().for_each(|name| self.sweep_claim(now, name));
        let mode = |name: &NameBuf| {
            let exclusive = (name.as_name(), Mode::Exclusive);
            if new.locks.contains(&exclusive) { Mode::Exclusive } else { Mode::Shared }
        };
        let mut may_end = self.most_in_the_way();
        for name in &wanted {
            self.catch_up(now, name.as_name(), mode(name), Some(new.owner), &mut may_end);
        }
        let refused = wanted.iter().filter(|name| !self.may_acquire(name, new.owner, mode(name)));
        let conflicts: Vec<Conflict> = refused
            .map(|name| Conflict {
                name: name.clone(),
                holders: self.holders(name, Some(new.owner)),
                queued: self.queued(name),
            })
            .collect();
        if !conflicts.is_empty() {
            return Err(Refusal::Conflict(conflicts));
        }
        self.check_limits(new.owner, &wanted)?;
        let locked: Vec<OwnedLock> =
            wanted.iter().map(|name| self.acquire_one(now, new, name, mode(name))).collect();
        self.touch(new.owner);
        let place = |name: &Name<'_>| wanted.iter().position(|other| other.as_name() == *name);
        Ok(new.locks.iter().filter_map(|(name, _)| place(name)).map(|at| locked[at]).collect())
    }

    fn check_limits(&self, owner: OwnerId, wanted: &[NameBuf]) -> Result<(), Refusal> {
        let fresh = wanted.iter().filter(|name| self.has_lock(name, owner).is_none()).count();
        let owned = self.rows.iter().filter(|row| row.owner == owner && row.voided.is_none()).count();
        let limit = self.limits.locks_per_owner;
        if owned + fresh > limit as usize {
            return Err(Refusal::TooManyLocks { limit });
        }
        let limit = self.limits.entries;
        if fresh > 0 && self.entries() + fresh > limit as usize {
            return Err(Refusal::TooManyEntries { limit });
        }
        let unknown = wanted.iter().filter(|name| !self.is_known(name.as_name())).count();
        let limit = self.limits.names;
        if unknown > 0 && self.names() + unknown > limit as usize {
            return Err(Refusal::TooManyNames { limit });
        }
        Ok(())
    }

    /// "If I have the lock: nothing more"; a sole reader may write; else the answer that `ifAvailable` would
    /// get.
    fn may_acquire(&self, name: &NameBuf, owner: OwnerId, mode: Mode) -> bool {
        match self.has_lock(name, owner) {
            Some(at) if self.rows[at].mode == Mode::Exclusive || mode == Mode::Shared => true,
            Some(_) => self.held_modes(name).len() == 1,
            None => self.is_grantable(None, name, mode),
        }
    }

    fn acquire_one(&mut self, now: Instant, new: &NewLocks<'_>, name: &NameBuf, mode: Mode) -> OwnedLock {
        let has = self.has_lock(name, new.owner);
        if let Some(row) = has.map(|at| &mut self.rows[at])
            && (row.mode == Mode::Exclusive || mode == Mode::Shared)
        {
            row.again.all += 1;
            row.again.since_upgrade += 1;
            return OwnedLock { token: row.token, mode: row.mode, how: Acquired::AlreadyHeld };
        }
        let token = FencingToken::new(self.next_number());
        let metadata = new.metadata.map(str::to_owned);
        let (row, how) = match has {
            Some(at) => {
                let row = &mut self.rows[at];
                (row.mode, row.token, row.since) = (Mode::Exclusive, token, now);
                row.again.since_upgrade = 0;
                row.metadata = metadata.or(row.metadata.take());
                (row.record(), Acquired::Upgraded)
            }
            None => {
                let (owner, born) = (new.owner, self.birth());
                let row = Row {
                    name: name.clone(),
                    owner,
                    mode,
                    token,
                    since: now,
                    metadata,
                    born,
                    voided: None,
                    again: Again::default(),
                };
                let record = row.record();
                self.rows.push(row);
                (record, Acquired::Fresh)
            }
        };
        self.change(Change::Locked(row));
        OwnedLock { token, mode, how }
    }

    /// Deletes each row only if it is as described.
    fn release(&mut self, now: Instant, owner: OwnerId, locks: Unlock<'_>) -> usize {
        if !self.is_alive(now, owner) {
            return 0;
        }
        let mut released: Vec<NameBuf> = Vec::new();
        for row in self.rows.iter().filter(|row| row.owner == owner && row.voided.is_none()) {
            if matches!(locks, Unlock::AllBut(spared) if !spared.contains(&row.name.as_name())) {
                released.push(row.name.clone());
            }
        }
        if let Unlock::These(locks) = locks {
            for (name, token) in locks {
                let row = self.has_lock(&name.to_buf(), owner).map(|at| &self.rows[at]);
                if row.is_some_and(|row| token.is_none_or(|token| token == row.token)) {
                    touch(&mut released, &name.to_buf());
                }
            }
        }
        self.touch(owner);
        if released.len() > self.limits.locks_ended_at_once {
            let which = match locks {
                Unlock::AllBut(spared) => self.all_but(owner, spared),
                Unlock::These(_) => VoidLocks::These(self.with_tokens(owner, &released)),
            };
            self.make_void(owner, &released);
            self.change(Change::LocksVoided { owner, which, at: now });
        } else {
            released.iter().for_each(|name| self.delete(now, name, owner, LockEnd::Released));
            self.process_all(now, &released);
        }
        released.len()
    }

    fn all_but(&self, owner: OwnerId, spared: &[Name<'_>]) -> VoidLocks {
        let mut stay = Vec::new();
        let spared = spared.iter().map(|name| name.to_buf());
        spared.filter(|name| self.has_lock(name, owner).is_some()).for_each(|name| touch(&mut stay, &name));
        VoidLocks::AllBut { up_to: FencingToken::new(self.last_token), spared: stay }
    }

    fn with_tokens(&self, owner: OwnerId, names: &[NameBuf]) -> Vec<(NameBuf, FencingToken)> {
        let own = names.iter().filter_map(|name| self.has_lock(name, owner).map(|at| &self.rows[at]));
        own.map(|row| (row.name.clone(), row.token)).collect()
    }

    pub(super) fn delete(&mut self, now: Instant, name: &NameBuf, owner: OwnerId, reason: LockEnd) {
        if let Some(at) = self.has_lock(name, owner) {
            let row = self.rows.remove(at);
            self.change(unlocked(now, &row, reason));
        }
    }

    /// Undoes the grants that were announced to the step alone.
    fn undo(&mut self, now: Instant, owner: OwnerId, locks: &[GrantToUndo<'_>]) -> usize {
        if !self.is_alive(now, owner) {
            return 0;
        }
        let mut changed = Vec::new();
        for lock in locks {
            let name = lock.name.to_buf();
            let Some(at) = self.has_lock(&name, owner) else { continue };
            let row = &mut self.rows[at];
            let repeats =
                if lock.how == Acquired::Upgraded { row.again.since_upgrade } else { row.again.all };
            if row.token != lock.token || repeats > lock.repeats {
                continue;
            }
            match lock.how {
                Acquired::Fresh => self.delete(now, &name, owner, LockEnd::Undone),
                Acquired::Upgraded if row.mode == Mode::Exclusive => {
                    (row.mode, row.since) = (Mode::Shared, now);
                    let record = row.record();
                    self.change(Change::Locked(record));
                }
                _ => continue,
            }
            changed.push(name);
        }
        self.touch(owner);
        self.process_all(now, &changed);
        changed.len()
    }

    pub(super) fn check_name(&self, name: Name<'_>) -> Result<(), Refusal> {
        let (units, limit) = (name.units().count(), self.limits.name_units);
        if units > limit { Err(Refusal::NameTooLong { units, limit }) } else { Ok(()) }
    }

    pub(super) fn check_text(&self, label: &str, metadata: Option<&str>) -> Result<(), Refusal> {
        let (bytes, limit) = (label.len(), self.limits.label_bytes);
        if bytes > limit {
            return Err(Refusal::LabelTooLong { bytes, limit });
        }
        let (bytes, limit) = (metadata.unwrap_or_default().len(), self.limits.metadata_bytes);
        if bytes > limit { Err(Refusal::MetadataTooLong { bytes, limit }) } else { Ok(()) }
    }

    pub(super) fn check_ttl(&self, ttl_ms: u64) -> Result<(), Refusal> {
        let (least, most) = self.limits.ttl_ms;
        if ttl_ms < least || ttl_ms > most {
            return Err(Refusal::TtlOutOfBounds { ttl_ms, least, most });
        }
        Ok(())
    }

    pub(super) fn check_open(&self) -> Result<(), Refusal> {
        match &self.recovery {
            _ if self.closed => Err(Refusal::Closed),
            Some(recovery) => Err(Refusal::Recovering { until: recovery.until }),
            None => Ok(()),
        }
    }
}

impl Owner {
    pub(super) fn record(&self) -> OwnerRecord {
        OwnerRecord {
            owner: self.id,
            label: self.label.as_str().into(),
            metadata: self.metadata.as_deref().map(Into::into),
            ttl_ms: self.ttl_ms,
            since: self.since,
            ends: self.ends,
            seed: self.seed,
        }
    }
}

impl Row {
    pub(super) fn record(&self) -> LockRecord {
        LockRecord {
            name: self.name.clone(),
            owner: self.owner,
            mode: self.mode,
            token: self.token,
            since: self.since,
            metadata: self.metadata.as_deref().map(Into::into),
        }
    }
}

pub(super) fn unlocked(now: Instant, row: &Row, reason: LockEnd) -> Change {
    Change::Unlocked { name: row.name.clone(), owner: row.owner, token: row.token, reason, at: now }
}
