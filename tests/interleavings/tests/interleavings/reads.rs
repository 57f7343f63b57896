//! A question is asked while what it asks about changes and the house ends: an answer that shows a change
//! rests on the store.

use shuttle::thread;

use crate::calls::Call;
use crate::check::{check, wait};
use crate::durable::{BUCKET, new_store, open};
use crate::ends::End;

fn what_is_shown_is_kept(call: Call, end: End) {
    let store = new_store();
    let house = open(&store);
    let ready = wait(call.prepare(house.bucket(BUCKET)));
    let caller = thread::spawn({
        let ready = ready.clone();
        move || wait(ready.make())
    });
    let reader = thread::spawn(move || wait(async { [ready.look().await, ready.look_at_all().await] }));
    let found = end.of(&house, &store);
    _ = caller.join().expect("a panic ends the check");
    let shown = reader.join().expect("a panic ends the check");
    assert!(
        !shown.contains(&Some(true)) || call.has_happened(&found),
        "{call:?} was shown ({shown:?}), but the next writer found {found:?}"
    );
    wait(house.close());
}

macro_rules! reads {
    ($($name:ident: $call:ident),* $(,)?) => {
        mod while_the_house_is_closed {
            use super::*;
            $(#[test] fn $name() { check(|| what_is_shown_is_kept(Call::$call, End::Closed)); })*
        }

        mod while_another_process_takes_over {
            use super::*;
            $(#[test] fn $name() { check(|| what_is_shown_is_kept(Call::$call, End::Fenced)); })*
        }
    };
}

reads! {
    an_owner_that_ends: EndOwner,
    an_offline_lock_that_is_taken: Lock,
    an_offline_lock_that_is_released: Unlock,
    a_claim_that_is_made: Claim,
    a_claim_that_is_released: Release,
    a_claim_that_is_made_final: Finalize,
    an_assignment_that_is_taken_back: Unassign,
}
