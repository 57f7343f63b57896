//! A step with two locks, and one that relies on both.

use crate::office::Office;

#[tokio::test]
async fn a_merge_whose_second_customer_is_taken_frees_the_first() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    bob.get("/customers/2/edit").await;
    ada.get("/customers/5/edit").await;
    let refused = ada.get("/customers/1/merge?with=2").await;
    assert_eq!(refused.status, 423);
    refused.says("Bob is editing Brightwater Bookshop since ");
    assert!(refused.text.contains("data-watch=\"/customers/2/free\""), "{}", refused.text);
    // And the business transaction before goes on as if nothing had been.
    assert_eq!(office.held().await, ["Ada writes customer/5", "Bob writes customer/2"]);
    assert_eq!(bob.get("/customers/1/edit").await.status, 200);
}

#[tokio::test]
async fn merges_in_opposite_directions_end_in_a_refusal_and_never_in_a_wait() {
    let office = Office::open().await;
    let (mut ada, mut bob) = (office.browser("Ada").await, office.browser("Bob").await);
    for _ in 0..10 {
        let both = tokio::join!(ada.get("/customers/1/merge?with=2"), bob.get("/customers/2/merge?with=1"));
        let (one, other) = (both.0.status, both.1.status);
        assert!([one, other].iter().all(|status| [200, 423].contains(status)), "{one} {other}");
        assert!(one == 423 || other == 423, "two have both");
        assert_eq!(office.held().await.len(), if one == other { 0 } else { 2 });
        ada.post("/customers/1/done", &[("with", "2")]).await;
        bob.post("/customers/1/done", &[("with", "2")]).await;
        assert!(office.held().await.is_empty());
    }
}

#[tokio::test]
async fn a_merge_moves_the_orders_and_frees_both() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    let page = ada.get("/customers/1/merge?with=2").await;
    page.says("Both are yours alone");
    page.says("Window display stand");
    let merged = ada.post("/customers/1/merge", &[("with", "2")]).await;
    assert_eq!((merged.status, merged.location.as_str()), (303, "/customers/1?done=merged"));
    assert!(office.held().await.is_empty());
    ada.get("/customers/1").await.says("Window display stand");
    assert_eq!(ada.get("/customers/2").await.status, 404);
}

#[tokio::test]
async fn a_merge_works_only_on_what_an_earlier_command_has_locked() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    let refused = ada.post("/customers/1/merge", &[("with", "2")]).await;
    assert_eq!(refused.status, 409);
    refused.says("You no longer have it to yourself");
    refused.says("Begin anew");
    ada.get("/customers/1/edit").await;
    assert_eq!(
        ada.post("/customers/1/merge", &[("with", "2")]).await.status,
        409,
        "one of two is not enough"
    );
    assert_eq!(ada.get("/customers/2").await.status, 200);
    assert_eq!(office.held().await, ["Ada writes customer/1"]);
}

#[tokio::test]
async fn a_merge_that_fails_half_way_has_changed_nothing() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/merge?with=2").await;
    office.change_phone(2, "past all locks");
    assert_eq!(ada.post("/customers/1/merge", &[("with", "2")]).await.status, 409);
    let sql = "select count(*) from orders where customer = 2";
    let orders: i64 = office.database().query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1, "they had moved already");
    assert_eq!(office.held().await, ["Ada writes customer/1", "Ada writes customer/2"]);
}

#[tokio::test]
async fn a_customer_is_not_merged_with_itself() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    let refused = ada.get("/customers/1/merge?with=1").await;
    assert_eq!(refused.status, 422);
    refused.says("Customer 1 cannot be merged with itself.");
    assert!(office.held().await.is_empty());
}
