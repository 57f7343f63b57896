//! Parts of what is done in parts: a crowd that ends, the end of a recovery. Each is as much as it may be,
//! and never more, but one end of any size.

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Change, Command, Effect, FencingToken, Instant, Limits, LockManager, LockRecord, Mode,
    Name, NameBuf, NewAgent, NewLocks, NewOwner, NewReclaim, NewRequest, Outcome, OwnerId, Refusal,
    ReplayError, SecretSeed, VoidLocks,
};

const NOW: Instant = Instant::from_millis(0);
const DUE: Instant = Instant::from_millis(10);

/// Agents whose leases are over together, with so many locks each.
fn crowd(locks: &[usize]) -> LockManager<FixedState> {
    let mut manager = LockManager::new(FixedState::default());
    for (agent, count) in locks.iter().enumerate() {
        let new = NewAgent { client_id: "", lease_ms: Some(10) };
        let Outcome::Joined(joined) = manager.handle(NOW, Command::Join(new)) else { panic!() };
        (0..*count).for_each(|lock| request(&mut manager, joined, &format!("{agent}/{lock}"), None));
    }
    manager
}

fn request(manager: &mut LockManager<FixedState>, agent: AgentId, name: &str, max_hold_ms: Option<u64>) {
    let name = NameBuf::new(name).unwrap();
    let request =
        NewRequest { max_hold_ms, ..NewRequest::new(agent, name.as_name(), Acquire::Wait(Mode::Exclusive)) };
    assert!(!matches!(manager.handle(NOW, Command::Request(request)), Outcome::Refused(_)));
}

/// How many locks are left after each part of at most two in which some end. The queues of the names that are
/// left come in parts behind that.
fn parts(mut manager: LockManager<FixedState>) -> Vec<usize> {
    let mut left = Vec::new();
    for _ in 0..10 {
        let is_done = manager.handle_timeout_in_part(DUE, DUE, 2);
        left.push(manager.len());
        if is_done {
            left.dedup();
            return left;
        }
    }
    panic!("no end: {left:?}");
}

#[test]
fn an_end_that_is_larger_than_a_part_is_a_part_of_its_own() {
    assert_eq!(parts(crowd(&[5])), [0]);
    assert_eq!(parts(crowd(&[1, 5, 1])), [6, 1, 0]);
}

#[test]
fn a_part_is_filled_up_to_its_end() {
    assert_eq!(parts(crowd(&[1, 1, 1, 1])), [2, 0]);
    assert_eq!(parts(crowd(&[2, 2])), [2, 0]);
}

#[test]
fn agents_without_locks_fill_a_part_too() {
    let mut manager = crowd(&[0; 5]);
    let parts = (1..10).find(|_| manager.handle_timeout_in_part(DUE, DUE, 2));
    assert_eq!(parts, Some(3));
}

#[test]
fn a_command_may_set_a_deadline_only_where_a_request_has_a_longest_hold() {
    let mut manager = crowd(&[1]);
    assert!(!manager.may_set_deadline());
    let agent = join(&mut manager);
    request(&mut manager, agent, "0/0", Some(1000));
    assert!(manager.may_set_deadline(), "the release of the lock before it sets one");
    manager.handle(NOW, Command::End { agent });
    assert!(!manager.may_set_deadline());
}

fn join(manager: &mut LockManager<FixedState>) -> AgentId {
    let Outcome::Joined(agent) = manager.handle(NOW, Command::Join(NewAgent::new(""))) else { panic!() };
    agent
}

fn open(manager: &mut LockManager<FixedState>) -> Outcome {
    let new = NewOwner { label: "Ada", metadata: None, ttl_ms: 1000, max_ms: None, seed: SecretSeed(1) };
    manager.handle(NOW, Command::OpenOwner(new))
}

/// An owner with that many locks.
fn owner(manager: &mut LockManager<FixedState>, locks: usize) -> OwnerId {
    let Outcome::OwnerOpened(owner) = open(manager) else { panic!() };
    for lock in 0..locks {
        let name = NameBuf::new(&format!("{owner:?}/{lock}")).unwrap();
        let locks = [(name.as_name(), Mode::Exclusive)];
        let locked = manager.handle(NOW, Command::Lock(NewLocks { owner, locks: &locks, metadata: None }));
        assert!(matches!(locked, Outcome::Locked(_)), "{locked:?}");
    }
    owner
}

#[test]
fn an_owner_whose_locks_still_end_counts_as_an_owner_and_not_as_an_agent() {
    let limits = Limits { owners: 2, locks_ended_at_once: 1, ..Limits::DEFAULT };
    let mut manager = LockManager::with_limits(FixedState::default(), limits);
    let ended = owner(&mut manager, 3);
    owner(&mut manager, 0);
    manager.handle(NOW, Command::EndOwner { owner: ended });
    assert_eq!(open(&mut manager), Outcome::Refused(Refusal::TooManyOwners { limit: 2 }));
    assert_eq!(manager.len(), 3);
    let limits = Limits { agents: 1, ..limits };
    let mut manager = LockManager::with_limits(FixedState::default(), limits);
    let ended = owner(&mut manager, 3);
    manager.handle(NOW, Command::EndOwner { owner: ended });
    join(&mut manager);
    let second = manager.handle(NOW, Command::Join(NewAgent::new("")));
    assert_eq!(second, Outcome::Refused(Refusal::TooManyAgents { limit: 1 }));
}

/// How many parts the end of a recovery takes.
fn parts_of_recovery(manager: &mut LockManager<FixedState>) -> usize {
    assert_eq!(manager.handle(NOW, Command::EndRecovery), Outcome::RecoveryEnded { was: true });
    let mut parts = 1;
    while !manager.handle_timeout_in_part(NOW, NOW, 2) {
        parts += 1;
        assert!(parts < 100, "no end");
    }
    parts
}

#[test]
fn names_without_waiters_are_looked_at_in_parts_too() {
    let mut manager = LockManager::new(FixedState::default());
    owner(&mut manager, 20);
    manager.begin_recovery(DUE);
    assert!(parts_of_recovery(&mut manager) > 10);
}

#[test]
fn the_fences_of_a_recovery_are_forgotten_in_parts_and_count_until_then() {
    let without = {
        let mut manager = LockManager::new(FixedState::default());
        let agent = join(&mut manager);
        (0..20).for_each(|lock| request(&mut manager, agent, &lock.to_string(), None));
        manager.bytes()
    };
    for reclaims in [false, true] {
        let mut manager = LockManager::new(FixedState::default());
        manager.continue_tokens_above(100);
        manager.begin_recovery(DUE);
        let agent = join(&mut manager);
        for lock in 0..20 {
            let name = NameBuf::new(&lock.to_string()).unwrap();
            let (name, mode) = (name.as_name(), Mode::Exclusive);
            let command = if reclaims {
                let token = FencingToken::new(lock + 1);
                Command::Reclaim(NewReclaim { agent, name, mode, token, metadata: None, max_hold_ms: None })
            } else {
                Command::Request(NewRequest::new(agent, name, Acquire::Steal))
            };
            assert!(!matches!(manager.handle(NOW, command), Outcome::Refused(_)));
        }
        let fence = size_of::<NameBuf>() + 2 * size_of::<u64>();
        let each = if reclaims { fence + size_of::<FencingToken>() } else { fence };
        assert!(manager.bytes() >= without + 20 * each, "{} after {without}", manager.bytes());
        // Twenty names, twenty fences, and the tokens that came back.
        let least = if reclaims { 30 } else { 20 };
        let parts = parts_of_recovery(&mut manager);
        assert!(parts >= least, "{parts} parts");
        assert_eq!(manager.bytes(), without);
    }
}

#[test]
fn a_command_finds_the_queue_of_its_name_processed_after_a_recovery() {
    let mut manager = LockManager::new(FixedState::default());
    manager.begin_recovery(DUE);
    let (first, second) = (join(&mut manager), join(&mut manager));
    request(&mut manager, first, "n", None);
    manager.handle(NOW, Command::EndRecovery);
    let name = Name::new("n").unwrap();
    let asked = NewRequest::new(second, name, Acquire::IfAvailable(Mode::Exclusive));
    let Outcome::Refused(Refusal::Unavailable { holders, .. }) = manager.handle(NOW, Command::Request(asked))
    else {
        panic!()
    };
    assert_eq!(holders.len(), 1, "the one that waited is granted");
    let effects = std::iter::from_fn(|| manager.poll_effect());
    assert_eq!(effects.filter(|effect| matches!(effect, Effect::Granted { .. })).count(), 1);
}

#[test]
fn a_lock_that_is_void_is_not_locked_again_by_a_change_of_before() {
    let mut source =
        LockManager::with_limits(FixedState::default(), Limits { locks_ended_at_once: 1, ..Limits::DEFAULT });
    let owner = owner(&mut source, 2);
    let effects = std::iter::from_fn(|| source.poll_effect());
    let changes: Vec<Change> = effects
        .filter_map(|effect| match effect {
            Effect::Change(change) => Some(*change),
            _ => None,
        })
        .collect();
    let locked: Vec<&LockRecord> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Locked(record) => Some(record),
            _ => None,
        })
        .collect();
    let which = VoidLocks::These(locked.iter().map(|lock| (lock.name.clone(), lock.token)).collect());
    let mut manager = LockManager::new(FixedState::default());
    for change in &changes {
        manager.replay(NOW, change).unwrap();
    }
    manager.replay(NOW, &Change::LocksVoided { owner, which, at: NOW }).unwrap();
    let again = manager.replay(NOW, &Change::Locked(locked[0].clone()));
    assert_eq!(again, Err(ReplayError::Excluded(locked[0].name.clone())));
}

#[test]
fn web_locks_that_are_held_are_counted() {
    let mut manager = crowd(&[3, 2]);
    assert_eq!((manager.held_web_locks(), manager.held_remotely()), (5, 0));
    assert!(manager.handle_timeout_in_part(DUE, DUE, usize::MAX));
    assert_eq!(manager.held_web_locks(), 0);
}
