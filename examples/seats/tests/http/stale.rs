//! Payers who come too late.

use reqwest::StatusCode;

use crate::theatre::{Browser, HOLD, Page, Theatre};

/// Ada holds the seat, her bank takes too long, and her time is over.
async fn late(theatre: &Theatre) -> Browser {
    let ada = theatre.browser("Ada").await;
    ada.choose("C1").await.leads_to("/seats/C1");
    ada.pay_slowly("C1").await.leads_to("/seats/C1");
    theatre.clock.advance(HOLD);
    ada
}

#[track_caller]
fn is_lost(page: &Page) {
    assert_eq!(
        (page.status, page.heading()),
        (StatusCode::CONFLICT, "Lost: somebody else has C1".to_owned())
    );
}

#[track_caller]
fn is_expired(page: &Page) {
    let heading = "Expired: the time for C1 is over".to_owned();
    assert_eq!((page.status, page.heading()), (StatusCode::GONE, heading));
}

/// CL-013, step by step.
#[tokio::test]
async fn a_stale_payer_learns_that_the_seat_is_lost_and_the_other_can_book_it() {
    let theatre = Theatre::open().await;
    let ada = late(&theatre).await;
    let bob = theatre.browser("Bob").await;
    bob.choose("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.heading("C1").await, "Your bank is late for C1");

    let late = ada.bank_answers("C1").await;
    is_lost(&late);
    late.says("You were not charged: the 45.00\u{a0}€ that your bank kept ready have been released.");
    late.says("It is held for <strong>Bob</strong>");
    is_lost(&ada.bank_answers("C1").await);
    is_lost(&ada.pay("C1").await);
    assert_eq!(ada.heading("C1").await, "Lost: somebody else has C1");
    assert_eq!(theatre.takings().await, 0);

    assert_eq!(bob.heading("C1").await, "C1 is held for you");
    bob.pay("C1").await.leads_to("/seats/C1");
    assert_eq!(bob.heading("C1").await, "C1 is yours");
    assert_eq!(theatre.takings().await, 45_00);
}

/// CL-014.
#[tokio::test]
async fn a_late_payer_learns_that_the_time_is_over_even_without_a_rival() {
    let theatre = Theatre::open().await;
    let ada = late(&theatre).await;
    assert_eq!(ada.heading("C1").await, "Your bank is late for C1");
    let late = ada.bank_answers("C1").await;
    is_expired(&late);
    late.says("You were not charged: the 45.00\u{a0}€ that your bank kept ready have been released.");
    late.says("Nobody has it now.");
    assert!(theatre.house.bucket("hall").claims().assignments().await.unwrap().is_empty());
    assert_eq!(theatre.takings().await, 0);

    late.says("Choose C1 again");
    ada.send(reqwest::Method::POST, "/seats/C1/claim", "").await.leads_to("/seats/C1");
    ada.pay("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.heading("C1").await, "C1 is yours");
    assert_eq!(theatre.takings().await, 45_00);
}

#[tokio::test]
async fn a_payment_after_the_time_is_refused_before_the_bank_is_asked() {
    let theatre = Theatre::open().await;
    let ada = theatre.browser("Ada").await;
    ada.choose("C1").await.leads_to("/seats/C1");
    theatre.clock.advance(HOLD);
    let late = ada.pay("C1").await;
    is_expired(&late);
    late.says("You were not charged: your bank was not even asked.");
    is_expired(&ada.renew("C1").await);
    assert_eq!(ada.heading("C1").await, "Expired: the time for C1 is over");
}

#[tokio::test]
async fn a_late_payer_learns_who_has_booked_the_seat() {
    let theatre = Theatre::open().await;
    let ada = late(&theatre).await;
    let bob = theatre.browser("Bob").await;
    bob.choose("C1").await.leads_to("/seats/C1");
    bob.pay("C1").await.leads_to("/seats/C1");
    assert_eq!(ada.heading("C1").await, "Your bank is late for C1");
    let late = ada.bank_answers("C1").await;
    assert_eq!(late.heading(), "Lost: somebody else has C1");
    late.says("<strong>Bob</strong> has booked it.");
    assert!(!late.text.contains("Choose C1 again"));
    assert_eq!(theatre.takings().await, 45_00, "Bob's");
}

#[tokio::test]
async fn having_held_a_seat_before_gives_no_right_to_a_later_hold_of_ones_own() {
    let theatre = Theatre::open().await;
    let ada = late(&theatre).await;
    let stub = ada.cookie("seats-claim-C1").unwrap();
    ada.choose("C1").await.leads_to("/seats/C1");
    let newer = ada.cookie("seats-claim-C1").unwrap();
    assert_ne!(stub, newer);
    ada.set_cookie("seats-claim-C1", &stub);
    is_lost(&ada.bank_answers("C1").await);
    ada.set_cookie("seats-claim-C1", &newer);
    ada.pay("C1").await.leads_to("/seats/C1");
    assert_eq!(theatre.takings().await, 45_00);
}
