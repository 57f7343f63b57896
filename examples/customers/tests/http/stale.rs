//! Saves that come too late: they are refused, and nothing that was typed is lost.

use std::time::Duration;

use crate::office::{Office, typed};

const SHORT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_stale_copy_is_refused_though_it_is_locked() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    assert_eq!(ada.get("/customers/1/edit").await.value("version"), Some("1"));
    office.change_phone(1, "past all locks");
    let form = ada.save("1", "0101").await;
    assert_eq!(form.status, 409);
    form.says("It has changed in the meantime");
    assert_eq!(form.value("phone"), Some("0101"), "what was typed");
    form.says("Saved in the meantime: past all locks");
    assert_eq!(form.value("version"), Some("2"));
    assert_eq!(office.phone(1), "past all locks");
    assert_eq!(office.held().await, ["Ada writes customer/1"], "a failed save keeps the lock");

    // Now that she has seen it, she may replace it.
    assert_eq!(ada.save("2", "0101").await.status, 303);
    assert_eq!(office.phone(1), "0101");
}

#[tokio::test]
async fn a_save_without_its_lock_takes_it_again_if_the_record_is_unchanged() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    assert_eq!(ada.save("1", "0101").await.status, 303);
    assert_eq!(office.phone(1), "0101");
    assert!(office.held().await.is_empty());
    assert_eq!(ada.save("1", "0102").await.status, 409, "the version tells that somebody was");
    assert!(office.held().await.is_empty(), "and what the failed save had locked is free again");
}

#[tokio::test]
async fn a_save_while_another_user_edits_is_refused_with_the_editor_and_the_form() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    ada.get("/customers/1/edit").await;
    ada.get("/customers/2/edit").await; // in another tab
    bob.get("/customers/1/edit").await;
    let form = ada.save("1", "0101").await;
    assert_eq!(form.status, 423);
    form.says("Bob is editing Brightwater Books since ");
    form.says("Nothing that you typed is lost");
    assert_eq!((form.value("phone"), form.value("version")), (Some("0101"), Some("1")));
    assert_eq!(office.held().await, ["Ada writes customer/2", "Bob writes customer/1"]);

    bob.save("1", "of Bob").await;
    let form = ada.save("1", "0101").await;
    assert_eq!(form.status, 409);
    form.says("Saved in the meantime: of Bob");
    assert_eq!(office.phone(1), "of Bob");
}

#[tokio::test]
async fn a_save_after_the_end_of_its_session_goes_along_with_the_next_sign_in() {
    let office = Office::with_timeout(SHORT).await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/edit").await;
    office.until_held(&[]).await;
    let form = ada.save("1", "0101").await;
    assert_eq!(form.status, 403);
    form.says("Your session has ended");
    form.says("Sign in and save");
    assert_eq!((form.value("phone"), form.value("saves")), (Some("0101"), Some("1")));

    let mut filled = vec![("user", ""), ("saves", "1")];
    filled.extend(typed("1", "0101"));
    let form = ada.post("/sign-in", &filled).await;
    assert_eq!(form.status, 422);
    form.says("Enter a name");
    assert_eq!(form.value("phone"), Some("0101"), "not even by this");

    filled[0].1 = "Ada";
    let signed_in = ada.post("/sign-in", &filled).await;
    // The browser sends the same form there.
    assert_eq!((signed_in.status, signed_in.location.as_str()), (307, "/customers/1"));
    assert_eq!(ada.post("/customers/1", &filled).await.status, 303);
    assert_eq!(office.phone(1), "0101");
}

#[tokio::test]
async fn a_save_after_the_end_of_its_session_is_shown_beside_a_newer_save() {
    let office = Office::with_timeout(SHORT).await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/edit").await;
    office.until_held(&[]).await;
    let mut bob = office.browser("Bob").await;
    bob.get("/customers/1/edit").await;
    assert_eq!(bob.save("1", "of Bob").await.status, 303);
    let form = ada.save("1", "0101").await;
    assert_eq!(form.status, 403);
    form.says("Saved in the meantime: of Bob");
    assert_eq!((form.value("phone"), form.value("version")), (Some("0101"), Some("2")));
    assert_eq!(office.phone(1), "of Bob");
}

#[tokio::test]
async fn what_was_typed_of_a_customer_that_is_gone_can_still_be_read() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    ada.get("/customers/1/edit").await;
    ada.get("/customers/5/edit").await;
    bob.get("/customers/2/merge?with=1").await;
    assert_eq!(bob.post("/customers/2/merge", &[("with", "1")]).await.status, 303);
    let form = ada.save("1", "0101").await;
    assert_eq!(form.status, 404);
    form.says("Customer 1 is not there, or was merged into another one.");
    assert_eq!(form.value("phone"), Some("0101"));
    form.never_says("Try to save again");
}

#[tokio::test]
async fn a_save_with_an_older_token_does_not_pass_the_fence() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/edit").await;
    let fence = office.database();
    let passed: i64 = fence
        .query_row(
            "select highest_exclusive from lockhouse_fence where resource = cast('customer/1' as blob)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(passed > 0, "the edit has passed it before it loaded");
    // A user that got the lock later was here, though Ada's session still believes that it has it.
    fence
        .execute(
            "update lockhouse_fence set highest = highest + 1, highest_exclusive = highest_exclusive + 1",
            [],
        )
        .unwrap();
    let form = ada.save("1", "0101").await;
    assert_eq!(form.status, 409);
    form.says("You no longer have it to yourself");
    assert_eq!(form.value("phone"), Some("0101"));
    assert_ne!(office.phone(1), "0101");
}
