//! The requests of a owner client: each is a future that records its request and its answer itself.

use std::time::Duration;

use lockhouse::core::Acquired;
use lockhouse::{BusinessTransaction, LockError, Mode, OfflineLock, OwnerError, Secret};

use super::{Caller, Known, Learned, Plan, mode, record, wanted};
use crate::history::record::{Gain, Invocation, Reason};
use crate::sim::journal::Op;
use crate::sim::ledger::Sort;
use crate::sim::look;
use crate::sim::server::{NAMES, WANTED};

pub(super) async fn open(caller: Caller, ttl_ms: u64, max_ms: Option<u64>) -> Learned {
    // A calendar that is set makes longest lives shorter or longer, so that nothing of them is certain.
    let known_max = max_ms.map(|_| 0);
    let op = caller.ask(Invocation::OpenOwner { ttl_ms, max_ms: known_max });
    let mut new =
        caller.server.bucket(&caller.place).owners().open(&*caller.client, Duration::from_millis(ttl_ms));
    if let Some(max_ms) = max_ms {
        new = new.max_life(Duration::from_millis(max_ms));
    }
    match new.await {
        Ok(owner) => {
            let (id, secret) = (owner.id(), owner.secret().clone());
            caller.server.check_durable(&caller.place, Sort::Owner, id.get());
            caller.server.journal.count("owner: opened");
            let gain = Gain { owner: Some(id.to_string()), ..Gain::default() };
            // A client that has given up does not get the answer.
            if caller.server.journal.ok(op, true, gain) {
                Learned::Opened(Known { id, secret })
            } else {
                Learned::Nothing
            }
        }
        Err(OwnerError::Store(error)) => {
            caller.server.failed(op, &error);
            Learned::Nothing
        }
        Err(OwnerError::Closed) => {
            caller.server.journal.refused(op, Reason::Other);
            Learned::Nothing
        }
        Err(error) => {
            caller.server.strange(error);
            Learned::Nothing
        }
    }
}

pub(super) async fn lock(caller: Caller, known: Known, wishes: Vec<(usize, Mode)>) -> Learned {
    let ops = ask_locks(&caller, &known, &wishes);
    let owner = match caller.owner(&known, ops[0]).await {
        Ok(owner) => owner,
        Err(learned) => {
            ops.iter().for_each(|op| caller.server.journal.unknown(*op));
            return learned;
        }
    };
    match owner.lock(wanted(&wishes)).await {
        Ok(locks) => {
            ops.iter().zip(&locks).for_each(|(op, lock)| caller.granted(*op, lock));
            Learned::Nothing
        }
        Err(error) => caller.not_locked(&ops, &error),
    }
}

fn ask_locks(caller: &Caller, known: &Known, wishes: &[(usize, Mode)]) -> Vec<Op> {
    let ask = |(name, wish): &(usize, Mode)| {
        let (owner, name) = (known.id.to_string(), NAMES[*name].to_owned());
        caller.ask(Invocation::Lock { owner, name, mode: mode(*wish) })
    };
    wishes.iter().map(ask).collect()
}

fn ask_unlock(caller: &Caller, known: &Known, name: usize) -> Op {
    caller.ask(Invocation::Unlock { owner: known.id.to_string(), name: NAMES[name].to_owned() })
}

pub(super) async fn unlock(caller: Caller, known: Known, name: usize, stale: bool) -> Learned {
    let op = ask_unlock(&caller, &known, name);
    let owner = match caller.owner(&known, op).await {
        Ok(owner) => owner,
        Err(learned) => return learned,
    };
    // A token that belongs to no lock: nothing may happen.
    let token = stale.then(|| lockhouse::FencingToken::new(1));
    match owner.unlock(record(name).as_name(), token).await {
        Ok(was) if stale => {
            caller.server.journal.unknown(op);
            if was {
                caller.server.strange("an unlock with a token that is nobody's has unlocked something");
            }
        }
        Ok(was) => {
            caller.unlocked(&known, name);
            caller.server.journal.count(if was { "offline: unlocked" } else { "offline: nothing to unlock" });
            caller.server.journal.ok(op, true, Gain { was: Some(was), ..Gain::default() });
        }
        Err(error) => caller.server.failed(op, &error),
    }
    Learned::Nothing
}

pub(super) async fn unlock_all(caller: Caller, known: Known) -> Learned {
    let op = caller.ask(Invocation::UnlockAll { owner: known.id.to_string() });
    let owner = match caller.owner(&known, op).await {
        Ok(owner) => owner,
        Err(learned) => return learned,
    };
    match owner.unlock_all().await {
        Ok(count) => {
            (0..NAMES.len()).for_each(|name| caller.unlocked(&known, name));
            caller.server.journal.ok(op, true, Gain { was: Some(count > 0), ..Gain::default() });
        }
        Err(error) => caller.server.failed(op, &error),
    }
    Learned::Nothing
}

pub(super) async fn touch(caller: Caller, known: Known) -> Learned {
    let op = caller.ask(Invocation::Touch { owner: known.id.to_string() });
    let owner = match caller.owner(&known, op).await {
        Ok(owner) => owner,
        Err(learned) => return learned,
    };
    match owner.touch().await {
        Ok(true) => {
            caller.server.journal.count("owner: touched");
            caller.server.journal.ok(op, false, Gain::default());
            Learned::Nothing
        }
        Ok(false) => caller.gone(op),
        Err(error) => {
            caller.server.failed(op, &error);
            Learned::Nothing
        }
    }
}

pub(super) async fn end(caller: Caller, known: Known) -> Learned {
    let op = caller.ask(Invocation::EndOwner { owner: known.id.to_string() });
    let owner = match caller.owner(&known, op).await {
        Ok(owner) => owner,
        Err(learned) => return learned,
    };
    match owner.end().await {
        Ok(was) => {
            let id = known.id.get();
            if was {
                caller.server.check_durable(&caller.place, Sort::OwnerEnded, id);
            }
            caller.server.journal.count("owner: ended");
            caller.server.journal.ok(op, true, Gain { was: Some(was), ..Gain::default() });
            Learned::Gone
        }
        Err(error) => {
            caller.server.failed(op, &error);
            Learned::Nothing
        }
    }
}

pub(super) async fn wrong_secret(caller: Caller, known: Known) -> Learned {
    let wrong: Result<Secret, _> = "00".repeat(20).parse();
    let owners = caller.server.bucket(&caller.place).owners();
    if let Ok(wrong) = wrong
        && owners.resume(known.id, &wrong).await.is_ok()
    {
        caller.server.strange(format!("owner {} was found with a secret that is nobody's", known.id));
    }
    Learned::Nothing
}

pub(super) async fn look(caller: Caller, known: Known) -> Learned {
    let ops: Vec<_> = NAMES[..WANTED]
        .iter()
        .map(|name| caller.ask(Invocation::Look { name: (*name).to_owned() }))
        .collect();
    _ = known;
    match look::found(&caller.server, &caller.place).await {
        Ok(found) => {
            for (name, op) in NAMES.iter().zip(ops) {
                let here = found.iter().filter(|found| found.name == *name).cloned().collect();
                caller.server.journal.ok(op, true, Gain { found: Some(here), ..Gain::default() });
            }
        }
        Err(error) => ops.iter().for_each(|op| caller.server.failed(*op, &error)),
    }
    Learned::Nothing
}

/// A step of a business transaction: it locks, and then succeeds or is undone.
pub(super) async fn step(caller: Caller, known: Known, plan: Plan) -> Learned {
    let op = caller.ask(Invocation::Touch { owner: known.id.to_string() });
    let owner = match caller.owner(&known, op).await {
        Ok(owner) => owner,
        Err(learned) => return learned,
    };
    caller.server.journal.unknown(op);
    let mut transaction =
        if plan.begins { BusinessTransaction::begin(&owner) } else { BusinessTransaction::resume(&owner) };
    let mut step = transaction.step();
    let mut locked: Vec<OfflineLock> = Vec::new();
    let mut failed = None;
    for wishes in &plan.locks {
        let ops = ask_locks(&caller, &known, wishes);
        match step.lock(wanted(wishes)).await {
            Ok(locks) => {
                ops.iter().zip(&locks).for_each(|(op, lock)| caller.granted(*op, lock));
                locked.extend(locks);
            }
            Err(error) => {
                failed = Some(caller.not_locked(&ops, &error));
                break;
            }
        }
    }
    if plan.commits && failed.is_none() {
        // Locks of earlier steps, too, which another client may end before the commit.
        let held = owner.locks().await.unwrap_or_default();
        let is_held = |name: &usize| held.iter().any(|lock| lock.name == record(*name));
        let releases: Vec<usize> = plan.releases.iter().copied().filter(is_held).collect();
        releases.iter().for_each(|name| step.release(record(*name).as_name()));
        let names: Vec<usize> = (0..NAMES.len())
            .filter(|name| {
                let spared = locked.iter().any(|lock| lock.name == record(*name));
                releases.contains(name) || (plan.begins && !spared)
            })
            .collect();
        let ops: Vec<Op> = names.iter().map(|name| ask_unlock(&caller, &known, *name)).collect();
        let result = step.commit().await;
        if result.is_err() {
            ops.iter().for_each(|op| caller.server.journal.unknown(*op));
            undone(&caller, &known, &locked);
        }
        return committed(&caller, &known, &result, &names, ops);
    }
    undone(&caller, &known, &locked);
    drop(step);
    failed.unwrap_or(Learned::Nothing)
}

/// What the end of a step says of its releases.
fn committed(
    caller: &Caller,
    known: &Known,
    result: &Result<(), LockError>,
    names: &[usize],
    ops: Vec<Op>,
) -> Learned {
    match result {
        Ok(()) => {
            caller.server.journal.count("step: committed");
            names.iter().for_each(|name| caller.unlocked(known, *name));
            ops.into_iter().for_each(|op| _ = caller.server.journal.ok(op, true, Gain::default()));
        }
        Err(LockError::OwnerEnded) => {
            caller.server.journal.count("step: owner gone");
            // A displaced server may not know of the owner.
            return if caller.server.is_displaced() { Learned::Nothing } else { Learned::Gone };
        }
        Err(LockError::Lost(_)) => caller.server.journal.count("step: lock lost"),
        Err(LockError::Store(error)) => caller.server.failed(None, error),
        Err(error) => caller.server.strange(error),
    }
    Learned::Nothing
}

/// Notes that the locks of a step are taken back, of which no client gets a notice.
fn undone(caller: &Caller, known: &Known, locked: &[OfflineLock]) {
    caller.server.journal.count("step: undone");
    for name in 0..NAMES.len() {
        let here = record(name);
        if locked.iter().any(|lock| lock.name == here && lock.how != Acquired::AlreadyHeld) {
            let op = ask_unlock(caller, known, name);
            caller.server.journal.unknown(op);
        }
    }
}
