//! Other sites, which can lead a browser here together with its cookie.

use crate::office::{Office, typed};

const ELSEWHERE: [&str; 2] = ["cross-site", "same-site"];

#[tokio::test]
async fn no_other_site_presses_our_buttons() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    ada.get("/customers/1/edit").await;
    let phone = office.phone(1);
    for site in ELSEWHERE {
        ada.site = Some(site);
        let form = typed("1", "0101");
        for (path, form) in [
            ("/customers/1", &form[..]),
            ("/customers/1/done", &[]),
            ("/customers/2/merge", &[("with", "1")]),
            ("/sign-in", &[("user", "Eve")]),
            ("/sign-out", &[]),
        ] {
            let refused = ada.post(path, form).await;
            assert_eq!(refused.status, 403, "{path}");
            refused.says("That did not come from here");
        }
    }
    assert_eq!((office.phone(1), office.held().await), (phone, vec!["Ada writes customer/1".to_owned()]));
    ada.site = Some("same-origin");
    assert_eq!(ada.save("1", "0101").await.status, 303, "the session goes on");
}

#[tokio::test]
async fn a_link_of_another_site_shows_a_customer_and_locks_nothing() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    for page in ["/customers/1/edit", "/customers/1/call", "/customers/1/merge?with=2"] {
        for site in ELSEWHERE {
            ada.site = Some(site);
            let led = ada.get(page).await;
            assert_eq!((led.status, led.location.as_str()), (303, "/customers/1"), "{page}");
            assert_eq!(ada.get(&led.location).await.status, 200);
            assert!(office.held().await.is_empty(), "{page}");
        }
        for site in ["none", "same-origin"] {
            ada.site = Some(site);
            assert_eq!(ada.get(page).await.status, 200, "{page}");
            assert!(!office.held().await.is_empty(), "{page}");
        }
        ada.post("/customers/1/done", &[("with", "2")]).await;
    }
}

#[tokio::test]
async fn a_head_request_locks_nothing() {
    let office = Office::open().await;
    let mut ada = office.browser("Ada").await;
    for page in ["/customers/1/edit", "/customers/1/call", "/customers/1/merge?with=2"] {
        let answer = ada.send("HEAD", page, String::new()).await;
        assert_eq!((answer.status, answer.location.as_str()), (303, "/customers/1"), "{page}");
        assert!(office.held().await.is_empty(), "{page}");
    }
}
