//! Buckets that begin and go while others use them, or while their house ends.

use std::time::Duration;

use lockhouse::{Bucket, FencingToken, House, OwnerError};
use shuttle::thread;

use crate::calls::{Answer, Call};
use crate::check::{check, wait};
use crate::durable::{BUCKET, new_store, open, take_over};
use crate::ends::End;

const TTL: Duration = Duration::from_secs(600);

/// The token of a lock that is held for a moment. The bucket goes with its last user.
fn token(house: &House) -> FencingToken {
    let bucket = house.bucket(BUCKET);
    let agent = bucket.agent("ada").expect("there is room");
    drop(bucket);
    wait(agent.locks().request("report")).expect("its holder lets it go").fencing_token()
}

fn tokens_are_given_once(house: &House) {
    let users = [(); 2].map(|()| {
        let house = house.clone();
        thread::spawn(move || [token(&house), token(&house)])
    });
    let mut tokens: Vec<_> =
        users.into_iter().flat_map(|user| user.join().expect("no user panics")).collect();
    for two in tokens.chunks(2) {
        assert!(two[0] < two[1], "the second lock of a user has the smaller token: {two:?}");
    }
    tokens.push(token(house));
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 5, "a token was given twice: {tokens:?}");
    assert!(house.buckets().is_empty(), "a bucket without users is still there");
}

#[test]
fn a_bucket_of_the_memory_begins_anew_while_its_last_user_leaves() {
    check(|| tokens_are_given_once(&House::new()));
}

#[test]
fn a_bucket_of_a_store_begins_anew_while_its_last_user_leaves() {
    check(|| {
        let house = open(&new_store());
        tokens_are_given_once(&house);
        wait(house.close());
    });
}

/// A bucket stays as long as something of it is durable, with users or without.
#[test]
fn a_bucket_is_retained_for_an_owner_that_opens_while_the_last_one_ends() {
    check(|| {
        let store = new_store();
        let house = open(&store);
        let first = wait(house.bucket(BUCKET).owners().open("ada", TTL)).expect("there is room");
        let opener = thread::spawn({
            let house = house.clone();
            move || wait(house.bucket(BUCKET).owners().open("grace", TTL)).expect("there is room")
        });
        assert_eq!(wait(first.end()), Ok(true));
        drop(first);
        let second = opener.join().expect("the opener does not panic");
        let (id, secret) = (second.id(), second.secret().clone());
        drop(second);
        let found = wait(house.bucket(BUCKET).owners().resume(id, &secret));
        assert!(found.is_ok(), "the owner that was opened is lost: {found:?}");
        drop(found);
        wait(house.close());
        assert_eq!(take_over(&store).owners(), 1);
    });
}

/// A bucket whose last owner ends goes, and its successor finds the records as they are.
#[test]
fn a_bucket_goes_with_its_last_owner_while_another_user_begins() {
    check(|| {
        let store = new_store();
        let house = open(&store);
        let owner = wait(house.bucket(BUCKET).owners().open("ada", TTL)).expect("there is room");
        let (id, secret) = (owner.id(), owner.secret().clone());
        let other = thread::spawn({
            let house = house.clone();
            move || {
                let found = wait(house.bucket(BUCKET).owners().resume(id, &secret)).map(|_| ());
                assert!(matches!(found, Ok(()) | Err(OwnerError::Unknown)), "{found:?}");
                let call = Call::Claim;
                assert_eq!(
                    wait(async { call.prepare(house.bucket(BUCKET)).await.make().await }),
                    Answer::Done
                );
            }
        });
        assert_eq!(wait(owner.end()), Ok(true));
        drop(owner);
        other.join().expect("the other does not panic");
        let claim = wait(house.bucket(BUCKET).claims().get("row 7, seat 12"));
        assert!(claim.as_ref().is_ok_and(Option::is_some), "the claim that was made is lost: {claim:?}");
        wait(house.close());
        let found = take_over(&store);
        assert_eq!((found.owners(), found.claims()), (0, 1), "{found:?}");
    });
}

/// Every call is answered, with whatever: a thread that waits for ever fails the check.
fn everything_is_answered(bucket: &Bucket) {
    wait(async {
        let ready = Call::OpenOwner.prepare(bucket.clone()).await;
        _ = ready.make().await;
        if let Ok(agent) = bucket.agent("ada") {
            _ = agent.locks().request("report").await.map(drop);
            _ = agent.locks().query().await;
        }
        _ = bucket.snapshot().await;
    });
}

/// Whether the bucket begins before or with the end.
#[derive(Clone, Copy)]
enum Begins {
    Before,
    With,
}

fn a_bucket_answers(begins: Begins, end: End) {
    let store = new_store();
    let house = open(&store);
    let known = match begins {
        Begins::Before => Some(house.bucket(BUCKET)),
        Begins::With => None,
    };
    let user = thread::spawn({
        let house = house.clone();
        move || everything_is_answered(&known.unwrap_or_else(|| house.bucket(BUCKET)))
    });
    end.of(&house, &store);
    user.join().expect("the user does not panic");
    wait(house.close());
}

/// A request was granted, the house was closed and everything sent was kept, and only then did the request's
/// thread tell the pipeline of the tokens that had to be kept before the grant: its future waited for ever.
#[test]
fn a_bucket_in_use_answers_while_the_house_is_closed() {
    check(|| a_bucket_answers(Begins::Before, End::Closed));
}

#[test]
fn a_bucket_in_use_answers_while_another_process_takes_over() {
    check(|| a_bucket_answers(Begins::Before, End::Fenced));
}

/// The bucket was found closed from its beginning, a request was made once the house was closed, and waited
/// in a queue that nothing would move on.
#[test]
fn a_bucket_that_begins_while_the_house_is_closed_answers() {
    check(|| a_bucket_answers(Begins::With, End::Closed));
}

#[test]
fn a_bucket_that_begins_while_another_process_takes_over_answers() {
    check(|| a_bucket_answers(Begins::With, End::Fenced));
}

/// The house is dropped, not closed, while its buckets are in use.
#[test]
fn a_house_that_is_dropped_answers_those_that_still_use_it() {
    check(|| {
        let house = open(&new_store());
        let bucket = house.bucket(BUCKET);
        let user = thread::spawn(move || everything_is_answered(&bucket));
        drop(house);
        user.join().expect("the user does not panic");
    });
}
