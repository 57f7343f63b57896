//! The front controller: every command is found by its path, and every error is written to the reply as a
//! page that says what to do.

use crate::office::Office;

#[tokio::test]
async fn an_unknown_command_is_answered_with_a_page_that_says_what_to_do() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    for (method, path, status, said) in [
        ("GET", "/nowhere", 404, "There is no such page"),
        ("POST", "/customers/1/nothing", 404, "There is no such page"),
        ("DELETE", "/customers/1", 405, "DELETE is nothing that this page does."),
        ("GET", "/customers/1/done", 405, "GET is nothing that this page does."),
    ] {
        let page = ada.send(method, path, String::new()).await;
        assert_eq!(page.status, status, "{method} {path}");
        page.says(said);
        page.says("All customers");
        page.says("Signed in as Ada");
    }
}

#[tokio::test]
async fn every_error_is_written_to_the_reply() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    for (method, path, body, status, said) in [
        ("GET", "/customers/999", "", 404, "Customer 999 is not there"),
        ("GET", "/customers/999/edit", "", 404, "Customer 999 is not there"),
        ("GET", "/customers/one", "", 400, "Cannot parse"),
        ("GET", "/customers/1/merge", "", 400, "missing field `with`"),
        ("POST", "/customers/1/merge", "with=two", 422, "invalid digit"),
        ("POST", "/customers/1", "version=none", 422, "invalid digit"),
        ("POST", "/customers/1", &"x".repeat(200_000), 413, "length limit exceeded"),
    ] {
        let page = ada.send(method, path, body.to_owned()).await;
        assert_eq!(page.status, status, "{method} {path}: {}", page.text);
        page.says(said);
        page.says("All customers");
    }
    assert!(office.held().await.is_empty());
}

#[tokio::test]
async fn while_the_locks_are_unavailable_nothing_is_saved_and_nothing_typed_is_lost() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/edit").await;
    office.app.close().await;
    let form = ada.save("1", "0101").await;
    assert_eq!(form.status, 500);
    form.says("Something is broken");
    assert_eq!(form.value("phone"), Some("0101"));
    assert_ne!(office.phone(1), "0101");
}
