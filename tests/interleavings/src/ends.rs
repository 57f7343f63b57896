//! A call is made while the house is closed, or loses its store to another process: what was answered as done
//! is in the store, and what was refused is not.

use lockhouse::House;
use lockhouse::store::MemoryStore;
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
