//! A part of a crowd that ends: as much as it may be, and never more, but one end of any size.

#![allow(clippy::unwrap_used, reason = "tests")]

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, Instant, LockManager, Mode, NameBuf, NewAgent, NewRequest, Outcome,
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
fn a_command_may_set_a_deadline_only_where_a_request_has_a_longest_hold() {
    let mut manager = crowd(&[1]);
    assert!(!manager.may_set_deadline());
    let Outcome::Joined(agent) = manager.handle(NOW, Command::Join(NewAgent::new(""))) else { panic!() };
    request(&mut manager, agent, "0/0", Some(1000));
    assert!(manager.may_set_deadline(), "the release of the lock before it sets one");
    manager.handle(NOW, Command::End { agent });
    assert!(!manager.may_set_deadline());
}
