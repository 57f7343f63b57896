//! How sessions begin and end.

use std::time::Duration;

use lockhouse::ManualClock;

use crate::office::{Office, TIMEOUT};

#[tokio::test]
async fn a_user_without_a_session_signs_in_and_goes_on_where_he_was() {
    let office = Office::open().await;
    let mut ada = office.stranger();
    let sent = ada.get("/customers/1/merge?with=2").await;
    assert_eq!(
        (sent.status, sent.location.as_str()),
        (303, "/sign-in?next=%2Fcustomers%2F1%2Fmerge%3Fwith%3D2")
    );
    assert!(office.held().await.is_empty());
    let form = ada.get(&sent.location).await;
    assert_eq!(form.value("next"), Some("/customers/1/merge?with=2"));
    let back = ada.post("/sign-in", &[("user", " Ada "), ("next", "/customers/1/merge?with=2")]).await;
    assert_eq!((back.status, back.location.as_str()), (303, "/customers/1/merge?with=2"));
    let page = ada.get(&back.location).await;
    page.says("Signed in as Ada");
    assert_eq!(office.held().await, ["Ada writes customer/1", "Ada writes customer/2"]);
}

#[tokio::test]
async fn a_command_that_goes_on_has_nothing_to_go_on_with_without_a_session() {
    let office = Office::open().await;
    let mut stranger = office.stranger();
    for path in ["/customers/1/done", "/customers/1/merge"] {
        let sent = stranger.post(path, &[("with", "2")]).await;
        assert_eq!((sent.status, sent.location.as_str()), (303, "/sign-in?next=%2Fcustomers"));
    }
    assert_eq!(stranger.save("1", "0101").await.status, 403);
    stranger.cookie = Some("customers-session=1.0000000000000000000000000000000000000000".to_owned());
    assert_eq!(stranger.save("1", "0101").await.status, 403);
    assert_ne!(office.phone(1), "0101");
}

#[tokio::test]
async fn a_closed_browser_frees_its_customers_with_no_further_call() {
    let office = Office::with_timeout(Duration::from_secs(1)).await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/merge?with=2").await;
    assert_eq!(office.held().await.len(), 2);
    drop(ada);
    office.until_held(&[]).await;
    let mut bob = office.browser("Bob").await;
    assert_eq!(bob.get("/customers/1/edit").await.status, 200);
}

#[tokio::test]
async fn any_request_keeps_a_session_alive() {
    let clock = ManualClock::new();
    let office = Office::by_hand(&clock).await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/edit").await;
    for _ in 0..4 {
        clock.advance(TIMEOUT / 2);
        ada.get("/locks").await.says("customer/1");
    }
    clock.advance(TIMEOUT);
    ada.get("/locks").await.never_says("customer/1");
}

#[tokio::test]
async fn signing_out_frees_all_and_signing_in_anew_as_well() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/merge?with=2").await;
    let mut bob = office.browser("Bob").await;
    bob.get("/customers/3/edit").await;
    let cookie = ada.cookie.clone();
    assert_eq!(ada.post("/sign-out", &[]).await.location, "/sign-in");
    assert_eq!(ada.cookie, None, "it was taken away");
    ada.cookie = cookie;
    assert_eq!(office.held().await, ["Bob writes customer/3"]);
    assert_eq!(ada.get("/customers/1/edit").await.status, 303, "her cookie is worth nothing any more");
    bob.post("/sign-in", &[("user", "Grace")]).await;
    assert!(office.held().await.is_empty());
}

#[tokio::test]
async fn a_name_has_to_be_given_and_leads_nowhere_else() {
    let office = Office::open().await;
    let mut stranger = office.stranger();
    for (user, said) in [(" ", "Enter a name"), (&*"x".repeat(61), "Shorten this to 60 characters")] {
        let form = stranger.post("/sign-in", &[("user", user), ("next", "/locks")]).await;
        assert_eq!(form.status, 422);
        form.says(said);
        assert_eq!(form.value("next"), Some("/locks"));
    }
    let signed_in = stranger.post("/sign-in", &[("user", "<b>Ada</b>"), ("next", "//evil.example")]).await;
    assert_eq!(signed_in.location, "/customers");
    stranger.get("/customers/1/edit").await;
    let refused = office.browser("Bob").await.get("/customers/1/edit").await;
    assert!(refused.text.contains("&#60;b&#62;Ada&#60;/b&#62;") && !refused.text.contains("<b>Ada"));
}
