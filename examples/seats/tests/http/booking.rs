//! From a free seat to a booking, and back.

use std::time::Duration;

use reqwest::StatusCode;

use crate::theatre::{HOLD, Theatre};

#[tokio::test]
async fn a_chosen_seat_is_held_and_everybody_sees_for_whom() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    assert_eq!(bob.sees("B4").await, "free, 65.00\u{a0}€");
    ada.choose("B4").await.leads_to("/seats/B4");
    assert_eq!(ada.sees("B4").await, "held for you");
    assert_eq!(bob.sees("B4").await, "held for Ada");
    assert_eq!(ada.heading("B4").await, "B4 is held for you");
    assert_eq!(bob.heading("B4").await, "B4 is held for Ada");
    assert_eq!(bob.sees("B5").await, "free, 65.00\u{a0}€", "no other seat is");
}

#[tokio::test]
async fn a_second_buyer_sees_at_once_who_was_faster_and_for_how_long() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    ada.choose("B4").await.leads_to("/seats/B4");
    theatre.clock.advance(Duration::from_secs(30));
    let refused = bob.choose("B4").await;
    assert_eq!((refused.status, refused.heading()), (StatusCode::CONFLICT, "B4 is held for Ada".to_owned()));
    refused.says("1:30</span> more");
    assert_eq!(bob.cookie("seats-claim-B4"), None);
    ada.pay("B4").await.leads_to("/seats/B4");
    let refused = bob.choose("B4").await;
    assert_eq!((refused.status, refused.heading()), (StatusCode::CONFLICT, "B4 is booked by Ada".to_owned()));
}

#[tokio::test]
async fn choosing_twice_at_once_is_one_claim() {
    let theatre = Theatre::open().await;
    let ada = theatre.browser("Ada").await;
    let (one, two) = tokio::join!(ada.choose("B4"), ada.choose("B4"));
    one.leads_to("/seats/B4");
    two.leads_to("/seats/B4");
    let token = ada.token("B4");
    ada.choose("B4").await.leads_to("/seats/B4");
    assert_eq!(ada.token("B4"), token);
    ada.pay("B4").await.leads_to("/seats/B4");
    assert_eq!(ada.heading("B4").await, "B4 is yours");
}

#[tokio::test]
async fn paying_makes_the_seat_the_payers_for_good() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    ada.choose("C1").await.leads_to("/seats/C1");
    assert_eq!(theatre.takings().await, 0);
    ada.pay("C1").await.leads_to("/seats/C1");
    assert_eq!(theatre.takings().await, 45_00);
    theatre.clock.advance(HOLD * 10);
    assert_eq!(ada.heading("C1").await, "C1 is yours");
    assert_eq!(
        (ada.sees("C1").await, bob.sees("C1").await),
        ("booked by you".into(), "booked by Ada".into())
    );
}

#[tokio::test]
async fn paying_twice_is_the_same_booking_and_charged_once() {
    let theatre = Theatre::open().await;
    let ada = theatre.browser("Ada").await;
    ada.choose("C1").await.leads_to("/seats/C1");
    let (one, two, three) = tokio::join!(ada.pay("C1"), ada.pay("C1"), ada.pay("C1"));
    [one, two, three].iter().for_each(|paid| paid.leads_to("/seats/C1"));
    let booking = ada.get("/seats/C1").await;
    ada.pay("C1").await.leads_to("/seats/C1");
    ada.bank_answers("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.get("/seats/C1").await.text, booking.text);
    assert_eq!(theatre.takings().await, 45_00);
}

#[tokio::test]
async fn a_slow_bank_has_the_whole_time_of_a_hold() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    ada.choose("C1").await.leads_to("/seats/C1");
    theatre.clock.advance(HOLD - Duration::from_secs(1));
    ada.pay_slowly("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.heading("C1").await, "Your bank is at work on C1");
    theatre.clock.advance(HOLD - Duration::from_secs(1));
    assert_eq!(bob.choose("C1").await.status, StatusCode::CONFLICT);
    assert_eq!(theatre.takings().await, 0, "nothing is charged before the seat is hers");
    ada.bank_answers("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.heading("C1").await, "C1 is yours");
    assert_eq!(theatre.takings().await, 45_00);
}

#[tokio::test]
async fn a_seat_is_free_again_after_its_time() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    ada.choose("C1").await.leads_to("/seats/C1");
    theatre.clock.advance(HOLD);
    assert_eq!(bob.sees("C1").await, "free, 45.00\u{a0}€");
    bob.choose("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.sees("C1").await, "held for Bob");
}

#[tokio::test]
async fn a_hold_can_be_made_longer_but_not_for_ever() {
    let theatre = Theatre::open().await;
    let ada = theatre.browser("Ada").await;
    ada.choose("C1").await.leads_to("/seats/C1");
    for _ in 0..4 {
        theatre.clock.advance(HOLD - Duration::from_secs(1));
        ada.get("/seats/C1").await.says("Hold it longer");
        ada.renew("C1").await.leads_to("/seats/C1");
    }
    theatre.clock.advance(HOLD - Duration::from_secs(1));
    let page = ada.get("/seats/C1").await;
    assert!(!page.text.contains("Hold it longer"));
    let refused = ada.renew("C1").await;
    assert_eq!(
        (refused.status, refused.heading()),
        (StatusCode::CONFLICT, "C1 cannot be held longer".to_owned())
    );
    ada.pay("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.heading("C1").await, "C1 is yours");
}

#[tokio::test]
async fn a_seat_that_is_given_back_is_free_at_once() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    ada.choose("C1").await.leads_to("/seats/C1");
    ada.pay_slowly("C1").await.leads_to("/seats/C1");
    ada.give_back("C1").await.leads_to("/");
    assert_eq!(ada.cookie("seats-claim-C1"), None);
    bob.choose("C1").await.leads_to("/seats/C1");
    assert!(theatre.house.bucket("hall").claims().assignments().await.unwrap().is_empty());
    assert_eq!(theatre.takings().await, 0);
}

#[tokio::test]
async fn a_booking_that_is_given_back_is_refunded() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    ada.choose("C1").await.leads_to("/seats/C1");
    ada.pay("C1").await.leads_to("/seats/C1");
    let stub = ada.cookie("seats-claim-C1").unwrap();
    ada.give_back("C1").await.leads_to("/");
    assert_eq!(theatre.takings().await, 0);
    bob.choose("C1").await.leads_to("/seats/C1");
    bob.pay("C1").await.leads_to("/seats/C1");
    // A visitor that presses the button again, on a page that is out of date, takes nothing from the next
    // one.
    ada.set_cookie("seats-claim-C1", &stub);
    ada.give_back("C1").await.leads_to("/");
    assert_eq!(bob.heading("C1").await, "C1 is yours");
    assert_eq!(theatre.takings().await, 45_00);
}

#[tokio::test]
async fn a_refund_that_failed_after_the_seat_was_free_is_made_up_for_on_the_next_try_or_start() {
    for starts_anew in [false, true] {
        let mut theatre = Theatre::open().await;
        let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
        ada.choose("C1").await.leads_to("/seats/C1");
        ada.pay("C1").await.leads_to("/seats/C1");
        let fails = "create trigger fails before update on payments when new.state = 'refunded' begin
                     select raise(abort, 'the disk is full'); end";
        theatre.payments_db().execute_batch(fails).unwrap();
        assert!(ada.give_back("C1").await.status.is_server_error());
        assert_eq!((bob.sees("C1").await, theatre.takings().await), ("free, 45.00\u{a0}€".to_owned(), 45_00));
        theatre.payments_db().execute_batch("drop trigger fails").unwrap();
        bob.choose("C1").await.leads_to("/seats/C1");
        if starts_anew {
            theatre = theatre.reopen().await;
        } else {
            ada.give_back("C1").await.leads_to("/");
        }
        assert_eq!(theatre.takings().await, 0, "anew: {starts_anew}");
        let bob = bob.at(&theatre.url);
        bob.pay("C1").await.leads_to("/seats/C1");
        assert_eq!((bob.heading("C1").await, theatre.takings().await), ("C1 is yours".to_owned(), 45_00));
    }
}

#[tokio::test]
async fn a_seat_whose_giving_back_was_cut_off_is_given_back_at_the_next_start() {
    let theatre = Theatre::open().await;
    let ada = theatre.browser("Ada").await;
    ada.choose("C1").await.leads_to("/seats/C1");
    ada.pay("C1").await.leads_to("/seats/C1");
    theatre.payments_db().execute_batch("update payments set state = 'refunding'").unwrap();
    let theatre = theatre.reopen().await;
    assert_eq!(ada.at(&theatre.url).sees("C1").await, "free, 45.00\u{a0}€");
    assert_eq!(theatre.takings().await, 0);
}
