//! Editing: how it begins and goes on, and what each user sees.

use futures_util::StreamExt;

use crate::office::{Office, typed};

#[tokio::test]
async fn a_user_who_was_refused_learns_who_has_it_and_when_it_is_free() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    ada.get("/customers/1/edit").await;
    let refused = bob.get("/customers/1/edit").await;
    assert!(refused.text.contains("data-watch=\"/customers/1/free\""), "{}", refused.text);
    let mut watched = office.watch(&bob, 1).await;
    let mut next =
        async || watched.next().await.map(|piece| String::from_utf8(piece.unwrap().to_vec()).unwrap());
    let taken = next().await.unwrap();
    assert!(taken.starts_with("event: taken\ndata: Ada has it since "), "{taken}");
    // What others do with other customers is not told.
    bob.get("/customers/2/edit").await;
    ada.post("/customers/1/done", &[]).await;
    assert_eq!(next().await.unwrap(), "event: free\ndata: It is free now.\n\n");
    let mut cleo = office.browser("Cleo").await;
    cleo.get("/customers/1/edit").await;
    assert!(next().await.unwrap().contains("Cleo has it since "));
    office.app.stop();
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn what_a_user_has_itself_is_not_in_its_way() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    for browser in [&mut ada, &mut bob] {
        assert_eq!(browser.get("/customers/1/call").await.status, 200);
    }
    assert_eq!(ada.get("/customers/1/edit").await.status, 423);
    let mut watched = office.watch(&ada, 1).await;
    let mut next =
        async || watched.next().await.map(|piece| String::from_utf8(piece.unwrap().to_vec()).unwrap());
    assert!(next().await.unwrap().contains("Bob has it since "));
    bob.post("/customers/1/done", &[]).await;
    assert_eq!(next().await.unwrap(), "event: free\ndata: It is free now.\n\n");
}

#[tokio::test]
async fn a_second_editor_sees_at_once_who_edits_since_when_and_leaves_no_trace() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    let form = ada.get("/customers/1/edit").await;
    assert_eq!(form.status, 200);
    form.says("This customer is yours alone");
    let refused = bob.get("/customers/1/edit").await;
    assert_eq!(refused.status, 423);
    refused.says("Ada is editing Brightwater Books since ");
    refused.says(" UTC, for ");
    refused.says("Try again Only look at it All customers");
    assert_eq!(office.held().await, ["Ada writes customer/1"]);
}

#[tokio::test]
async fn an_edit_locks_before_it_loads() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    ada.get("/customers/3/edit").await;
    office
        .database()
        .execute_batch("delete from orders where customer = 3; delete from customers where id = 3")
        .unwrap();
    let refused = bob.get("/customers/3/edit").await;
    assert_eq!(refused.status, 423, "had it loaded first it had found nothing");
    ada.post("/customers/3/done", &[]).await;
    assert_eq!(bob.get("/customers/3/edit").await.status, 404);
    assert!(office.held().await.is_empty(), "what could not be loaded is not kept locked");
}

#[tokio::test]
async fn a_save_works_under_the_lock_of_the_edit_and_frees_it_at_its_success() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    ada.get("/customers/1/edit").await;
    assert_eq!(office.held().await, ["Ada writes customer/1"]);
    assert_eq!(bob.get("/customers/1/edit").await.status, 423);
    let saved = ada.save("1", "0101").await;
    assert_eq!((saved.status, saved.location.as_str()), (303, "/customers/1?done=saved"));
    assert_eq!(office.phone(1), "0101");
    assert!(office.held().await.is_empty());
    let form = bob.get("/customers/1/edit").await;
    assert_eq!((form.status, form.value("version"), form.value("phone")), (200, Some("2"), Some("0101")));
}

#[tokio::test]
async fn a_save_that_fails_keeps_the_lock_and_what_was_typed() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    ada.get("/customers/1/edit").await;
    let mut nameless = typed("1", "0102");
    nameless[1].1 = " ";
    let form = ada.post("/customers/1", &nameless).await;
    assert_eq!(form.status, 422);
    form.says("Enter a name");
    assert_eq!(form.value("phone"), Some("0102"));
    assert_eq!(office.held().await, ["Ada writes customer/1"]);
    assert_eq!(bob.get("/customers/1/edit").await.status, 423);
    assert_eq!(ada.save("1", "0102").await.status, 303);
}

#[tokio::test]
async fn a_failed_save_works_on_the_object_of_the_session() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/edit").await;
    office.database().execute("update customers set name = 'Behind its back' where id = 1", []).unwrap();
    let mut nameless = typed("1", "0102");
    nameless[1].1 = "";
    let form = ada.post("/customers/1", &nameless).await;
    form.says("Brightwater Books");
    form.never_says("Behind its back");
}

#[tokio::test]
async fn a_cancel_gives_back_without_saving() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/edit").await;
    let cancelled = ada.post("/customers/1/done", &typed("1", "0103")).await;
    assert_eq!((cancelled.status, cancelled.location.as_str()), (303, "/customers/1?done=finished"));
    assert_ne!(office.phone(1), "0103");
    assert!(office.held().await.is_empty());
}

#[tokio::test]
async fn editing_another_customer_frees_the_one_that_was_not_saved() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    ada.get("/customers/1/edit").await;
    ada.get("/customers/2/edit").await;
    assert_eq!(office.held().await, ["Ada writes customer/2"]);
    assert_eq!(bob.get("/customers/1/edit").await.status, 200);
}

#[tokio::test]
async fn loading_the_form_again_keeps_the_lock() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    let tokens = async || office.app.bucket().snapshot().await.unwrap().held[0].fencing_token();
    ada.get("/customers/1/edit").await;
    let before = tokens().await;
    ada.get("/customers/1/edit").await;
    assert_eq!(office.held().await, ["Ada writes customer/1"]);
    assert_eq!(tokens().await, before, "it never was free in between");
}

#[tokio::test]
async fn whatever_a_command_loads_is_locked_though_no_command_says_so() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    for (path, held) in [
        ("/customers/1/edit", &["Ada writes customer/1"][..]),
        ("/customers/1/call", &["Ada writes customer/1"]),
        ("/customers/2/call", &["Ada reads customer/2"]),
        ("/customers/3/merge?with=4", &["Ada writes customer/3", "Ada writes customer/4"]),
    ] {
        assert_eq!(ada.get(path).await.status, 200);
        assert_eq!(office.held().await, held, "{path}");
    }
}

#[tokio::test]
async fn looking_takes_no_lock_and_shows_the_editor() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    ada.get("/customers/1/edit").await;
    for path in ["/customers", "/customers/1"] {
        bob.get(path).await.says("Ada is editing since ");
        ada.get(path).await.says("You are editing since ");
    }
    assert_eq!(bob.get("/customers/2").await.status, 200);
    assert_eq!(office.held().await, ["Ada writes customer/1"]);
}

#[tokio::test]
async fn the_panel_of_locks_shows_lockable_owner_and_age() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    office.stranger().get("/locks").await.says("Nothing is locked.");
    ada.get("/customers/1/edit").await;
    bob.get("/customers/2/call").await;
    let panel = ada.get("/locks").await;
    panel.says("LockableOwnerForSinceAge customer/1 Ada session ");
    panel.says(" you writing ");
    panel.says("customer/2 Bob session ");
    panel.says(" second");
}

#[tokio::test]
async fn colleagues_may_talk_about_one_customer_but_none_edits_it_meanwhile() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    let mut grace = office.browser("Grace").await;
    ada.get("/customers/1/call").await.says("You are on the phone since ");
    bob.get("/customers/1/call").await.says("Ada is on the phone since ");
    let refused = grace.get("/customers/1/edit").await;
    assert_eq!(refused.status, 423);
    refused.says("Somebody is on the phone about this customer");
    refused.says("Ada is on the phone about Brightwater Books since ");
    refused.says("Bob is on the phone about Brightwater Books since ");
    assert_eq!(ada.get("/customers/1/edit").await.status, 423, "Bob reads, too");
    assert_eq!(bob.post("/customers/1/done", &[]).await.status, 303);
    assert_eq!(ada.get("/customers/1/edit").await.status, 200, "the only reader becomes the writer");
    assert_eq!(office.held().await, ["Ada writes customer/1"]);
}

#[tokio::test]
async fn browsers_that_come_at_once_each_have_their_own_session() {
    let office = Office::open().await;
    let mut browsers = Vec::new();
    for user in ["Ada", "Bob", "Grace", "Edsger", "Barbara", "Tony"] {
        browsers.push((user, office.browser(user).await));
    }
    let tasks: Vec<_> = (1..)
        .zip(browsers)
        .map(|(id, (user, mut browser))| {
            tokio::spawn(async move {
                for _ in 0..5 {
                    let form = browser.get(&format!("/customers/{id}/edit")).await;
                    form.says(&format!("Signed in as {user}"));
                    form.says("This customer is yours alone");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let expected = [
        "Ada writes customer/1",
        "Barbara writes customer/5",
        "Bob writes customer/2",
        "Edsger writes customer/4",
        "Grace writes customer/3",
        "Tony writes customer/6",
    ];
    assert_eq!(office.held().await, expected);
}

/// Two browsers, each with an edit and a save, interleaved in every way.
#[tokio::test]
async fn two_browsers_never_work_on_one_customer_at_a_time() {
    let office = Office::open().await;
    let mut version = 1;
    for order in (0_u8..16).filter(|order| order.count_ones() == 2) {
        let mut browsers =
            [(office.browser("Ada").await, false, false), (office.browser("Bob").await, false, false)];
        for turn in 0..4 {
            let at = usize::from(order >> turn & 1);
            let other_works = browsers[1 - at].2;
            let (browser, has_edited, works) = &mut browsers[at];
            if !*has_edited {
                let form = browser.get("/customers/1/edit").await;
                assert_eq!(form.status, if other_works { 423 } else { 200 }, "order {order:b}, turn {turn}");
                (*has_edited, *works) = (true, !other_works);
            } else if *works {
                let saved = browser.save(&version.to_string(), &format!("{order} {turn}")).await;
                assert_eq!(saved.status, 303, "whoever has the lock is never told of a conflict at the end");
                assert_eq!(office.phone(1), format!("{order} {turn}"));
                (version, *works) = (version + 1, false);
            }
        }
        assert!(office.held().await.is_empty());
    }
}
