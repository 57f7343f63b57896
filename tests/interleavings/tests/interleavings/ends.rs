//! A call is made while the house is closed, or loses its store to another process: what was answered as done
//! is in the store, and what was refused is not.

use std::collections::VecDeque;
use std::time::Duration;

use lockhouse::core::{Acquire, AgentId, Command, Effect, Mode, Name, NewAgent, NewRequest, Outcome};
use lockhouse::store::MemoryStore;
use lockhouse::{House, Notice, Port};
use shuttle::thread;

use crate::calls::{Answer, Call};
use crate::check::{check, wait};
use crate::durable::{BUCKET, Records, new_store, open, take_over};

/// How a house ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Closed,
    Fenced,
}

impl End {
    /// Ends the house, and gives the records that the next writer finds.
    pub(crate) fn of(self, house: &House, store: &MemoryStore) -> Records {
        if let Self::Closed = self {
            wait(house.close());
        }
        take_over(store)
    }
}

fn what_is_answered_is_so(call: Call, end: End) {
    let store = new_store();
    let house = open(&store);
    let ready = wait(call.prepare(house.bucket(BUCKET)));
    let caller = thread::spawn(move || wait(ready.make()));
    let found = end.of(&house, &store);
    let answer = caller.join().expect("a panic ends the check");
    let happened = call.has_happened(&found);
    match &answer {
        Answer::Done => {
            assert!(happened, "{call:?} was answered as done, but the next writer found {found:?}");
        }
        Answer::Refused(why) => assert!(!happened, "{call:?} was refused ({why}), but found {found:?}"),
        Answer::Unknown => {}
    }
    wait(house.close());
    assert_eq!(take_over(&store), found, "{call:?} was written after another writer had begun");
}

/// The next notices.
fn next(port: &Port) -> VecDeque<Notice> {
    let mut notices = VecDeque::new();
    wait(port.ready());
    port.drain(&mut notices).expect("there is space for all notices");
    notices
}

fn join(port: &Port) -> AgentId {
    port.submit(0, Command::Join(NewAgent { client_id: "", lease_ms: None }));
    match next(port).pop_back() {
        Some(Notice::Answer { outcome: Outcome::Joined(agent), .. }) => agent,
        other => panic!("{other:?}"),
    }
}

/// Asks for one lock, the same for all.
fn ask(port: &Port) {
    let (agent, name) = (join(port), Name::new("n").expect("it is short"));
    port.submit(1, Command::Request(NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive))));
}

fn has_grant(notices: &VecDeque<Notice>) -> bool {
    notices.iter().any(|notice| {
        matches!(
            notice,
            Notice::Effect(Effect::Granted { .. }) | Notice::Answer { outcome: Outcome::Granted(_), .. }
        )
    })
}

/// A server ends its sessions once its house has ended. Their clients still believe in their locks.
fn an_ended_house_grants_nothing(end: End) {
    let store = new_store();
    let house = open(&store);
    let bucket = house.bucket(BUCKET);
    let (holder, waiter) = (bucket.port(9), bucket.port(9));
    ask(&holder);
    while !has_grant(&next(&holder)) {}
    ask(&waiter);
    let ender = thread::spawn({
        let (house, bucket) = (house.clone(), bucket.clone());
        move || {
            end.of(&house, &store);
            // A house learns by its next change that another process has its store.
            wait(bucket.owners().open("ada", Duration::from_secs(60))).expect_err("its house has ended");
        }
    });
    wait(house.ended());
    drop(holder);
    let mut notices = VecDeque::new();
    waiter.drain(&mut notices).expect("there is space for all notices");
    assert!(!has_grant(&notices), "{notices:?}");
    ender.join().expect("a panic ends the check");
}

#[test]
fn a_house_that_was_closed_grants_nothing() {
    check(|| an_ended_house_grants_nothing(End::Closed));
}

#[test]
fn a_house_whose_store_was_taken_over_grants_nothing_once_it_has_ended() {
    check(|| an_ended_house_grants_nothing(End::Fenced));
}

macro_rules! calls {
    ($($name:ident: $call:ident),* $(,)?) => {
        mod while_the_house_is_closed {
            use super::*;
            $(#[test] fn $name() { check(|| what_is_answered_is_so(Call::$call, End::Closed)); })*
        }

        mod while_another_process_takes_over {
            use super::*;
            $(#[test] fn $name() { check(|| what_is_answered_is_so(Call::$call, End::Fenced)); })*
        }
    };
}

calls! {
    an_owner_opens: OpenOwner,
    an_owner_ends: EndOwner,
    an_offline_lock_is_taken: Lock,
    an_offline_lock_is_released: Unlock,
    a_claim_is_made: Claim,
    a_claim_is_released: Release,
    a_claim_is_made_final: Finalize,
    an_assignment_is_taken_back: Unassign,
}
