//! Idle state costs nothing: ended requests, locks and agents give their memory back. The allocator of this
//! binary counts it.

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, Effect, Instant, LockManager, Mode, Name, NewAgent, NewClaim, NewLocks,
    NewOwner, NewRequest, Outcome, OwnerId, RequestId, SecretSeed, Unlock,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The memory that a manager may retain after it was busy: a thousand slots of each kind. A million names
/// would take over 100 MiB.
const KEPT_BYTES: isize = 512 * 1024;
const NOW: Instant = Instant::from_millis(0);
const MANY: usize = 1_000_000;

/// The allocator counts for the whole process, so the tests take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bytes_in_use() -> isize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated) as isize
}

/// Checks that there is memory to give back.
#[track_caller]
fn assert_much_is_in_use() {
    let bytes = bytes_in_use();
    assert!(bytes > 100 * KEPT_BYTES, "only {bytes} bytes are in use");
}

/// Runs `work` with a fresh manager and an agent of it; afterwards the manager must be as small as it was.
#[track_caller]
fn gives_back(work: impl FnOnce(&mut LockManager<FixedState>, AgentId)) {
    let mut manager = LockManager::new(FixedState::default());
    let agent = join(&mut manager);
    let before = bytes_in_use();
    work(&mut manager, agent);
    let kept = bytes_in_use() - before;
    assert!(manager.is_empty() && manager.names() == 0);
    assert!(kept <= KEPT_BYTES, "{kept} bytes are kept");
}

fn join(manager: &mut LockManager<FixedState>) -> AgentId {
    match manager.handle(NOW, Command::Join(NewAgent::new("only"))) {
        Outcome::Joined(agent) => agent,
        other => panic!("{other:?}"),
    }
}

fn request(manager: &mut LockManager<FixedState>, agent: AgentId, name: &str, mode: Mode) -> RequestId {
    let name = Name::new(name).expect("no hyphen");
    let ask = NewRequest { metadata: Some("m"), ..NewRequest::new(agent, name, Acquire::Wait(mode)) };
    match manager.handle(NOW, Command::Request(ask)) {
        Outcome::Granted(grant) => grant.request,
        Outcome::Queued(request) => request,
        other => panic!("{other:?}"),
    }
}

fn grants(manager: &mut LockManager<FixedState>) -> usize {
    let effects = std::iter::from_fn(|| manager.poll_effect());
    effects.filter(|effect| matches!(effect, Effect::Granted { .. })).count()
}

#[test]
fn a_million_names_one_after_the_other_leave_nothing() {
    let _turn = alone();
    gives_back(|manager, agent| {
        for n in 0..MANY {
            let request =
                request(manager, agent, &format!("a name that lives on the heap {n}"), Mode::Exclusive);
            manager.handle(NOW, Command::Release { request });
        }
    });
}

#[test]
fn a_million_names_at_once_leave_nothing() {
    let _turn = alone();
    gives_back(|manager, agent| {
        let mut requests = Vec::with_capacity(MANY);
        for n in 0..MANY {
            requests.push(request(manager, agent, &format!("name {n}"), Mode::Exclusive));
        }
        assert_much_is_in_use();
        for request in requests {
            manager.handle(NOW, Command::Release { request });
        }
    });
}

#[test]
fn the_end_of_an_agent_with_a_million_locks_leaves_nothing() {
    let _turn = alone();
    gives_back(|manager, _| {
        let agent = join(manager);
        for n in 0..MANY {
            request(manager, agent, &format!("name {n}"), Mode::Exclusive);
        }
        assert_much_is_in_use();
        manager.handle(NOW, Command::End { agent });
    });
}

#[test]
fn a_million_grants_by_one_release_leave_nothing() {
    let _turn = alone();
    gives_back(|manager, agent| {
        let first = request(manager, agent, "hot", Mode::Exclusive);
        let waiting = join(manager);
        for _ in 0..MANY {
            request(manager, waiting, "hot", Mode::Shared);
        }
        manager.handle(NOW, Command::Release { request: first });
        assert_much_is_in_use();
        assert_eq!(grants(manager), MANY);
        manager.handle(NOW, Command::End { agent: waiting });
    });
}

fn open(manager: &mut LockManager<FixedState>) -> OwnerId {
    let new =
        NewOwner { label: "owner", metadata: Some("m"), ttl_ms: 1_000, max_ms: None, seed: SecretSeed(1) };
    match manager.handle(NOW, Command::OpenOwner(new)) {
        Outcome::OwnerOpened(owner) => owner,
        other => panic!("{other:?}"),
    }
}

fn lock(manager: &mut LockManager<FixedState>, owner: OwnerId, names: &[String]) {
    let name = |name| Name::new(name).expect("no hyphen");
    let locks: Vec<_> = names.iter().map(|text| (name(text), Mode::Exclusive)).collect();
    let locked = manager.handle(NOW, Command::Lock(NewLocks { owner, locks: &locks, metadata: Some("m") }));
    assert!(matches!(locked, Outcome::Locked(_)), "{locked:?}");
}

fn claim(manager: &mut LockManager<FixedState>, name: &str, seed: u64) -> lockhouse_core::FencingToken {
    let name = Name::new(name).expect("no hyphen");
    let new =
        NewClaim { name, claimant: "claimant", ttl_ms: 1_000, seed: SecretSeed(seed), metadata: Some("m") };
    match manager.handle(NOW, Command::Claim(new)) {
        Outcome::Claimed(grant) => grant.token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn owners_that_expire_at_once_with_ten_locks_each_leave_nothing() {
    let _turn = alone();
    gives_back(|manager, _| {
        for n in 0..MANY / 25 {
            let owner = open(manager);
            lock(manager, owner, &(0..10).map(|m| format!("name {n} {m}")).collect::<Vec<_>>());
            while manager.poll_effect().is_some() {}
        }
        assert_much_is_in_use();
        manager.handle_timeout(Instant::from_millis(1_000));
        while manager.poll_effect().is_some() {}
    });
}

#[test]
fn an_owner_that_comes_and_goes_with_all_it_locks_leaves_nothing() {
    let _turn = alone();
    gives_back(|manager, _| {
        for n in 0..MANY / 10 {
            let owner = open(manager);
            lock(manager, owner, &[format!("a name that lives on the heap {n}")]);
            manager.handle(NOW, Command::Unlock { owner, locks: Unlock::AllBut(&[]) });
            manager.handle(NOW, Command::EndOwner { owner });
            while manager.poll_effect().is_some() {}
        }
    });
}

#[test]
fn claims_that_end_in_any_way_leave_nothing() {
    let _turn = alone();
    gives_back(|manager, _| {
        let tokens: Vec<_> = (0..MANY / 4)
            .map(|n| {
                let token = claim(manager, &format!("name {n}"), n as u64);
                while manager.poll_effect().is_some() {}
                token
            })
            .collect();
        assert_much_is_in_use();
        for (n, token) in tokens.into_iter().enumerate() {
            let name = format!("name {n}");
            let name = Name::new(&name).expect("no hyphen");
            match n % 3 {
                0 => _ = manager.handle(NOW, Command::ReleaseClaim { name, token: Some(token) }),
                1 => {
                    manager.handle(NOW, Command::Finalize { name, token: Some(token) });
                    manager.handle(NOW, Command::Unassign { name, token: None });
                }
                _ => {}
            }
            while manager.poll_effect().is_some() {}
        }
        manager.handle_timeout(Instant::from_millis(1_000));
        while manager.poll_effect().is_some() {}
    });
}

#[test]
fn a_snapshot_takes_no_more_memory_than_estimated_however_long_its_names() {
    const WAITING: usize = 5_000;
    let _alone = alone();
    let mut manager = LockManager::new(FixedState::default());
    let agent = join(&mut manager);
    let name = "n".repeat(4_096);
    for _ in 0..WAITING {
        request(&mut manager, agent, &name, Mode::Exclusive);
    }
    let estimated = manager.bytes_of_snapshot() as isize;
    assert!(estimated < 1_000 * WAITING as isize, "{estimated} bytes are told");
    let before = bytes_in_use();
    let snapshot = manager.handle(NOW, Command::Snapshot);
    let taken = bytes_in_use() - before;
    assert!(taken <= estimated, "{taken} bytes, but {estimated} were told");
    drop(snapshot);
}
