//! Live updates.

use reqwest::{Method, Response};

use crate::theatre::{Browser, HOLD, Theatre};

/// Waits for the next event; false if there are no more.
async fn changes(events: &mut Response) -> bool {
    while let Some(chunk) = events.chunk().await.unwrap() {
        let text = String::from_utf8_lossy(&chunk).into_owned();
        if text.contains("event: change") {
            assert_eq!(text, "event: change\ndata: hall\n\n", "it says nothing of what has changed");
            return true;
        }
    }
    false
}

async fn listen(browser: &Browser) -> Response {
    let mut events = browser.request(Method::GET, "/events", "").send().await.unwrap();
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    assert!(changes(&mut events).await, "the first at once");
    events
}

#[tokio::test]
async fn every_browser_is_notified_of_every_change() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    let mut events = listen(&bob).await;
    ada.choose("C1").await.leads_to("/seats/C1");
    assert!(changes(&mut events).await);
    assert_eq!(bob.sees("C1").await, "held for Ada");
    theatre.clock.advance(HOLD);
    assert!(changes(&mut events).await);
    assert_eq!(bob.sees("C1").await, "free, 45.00\u{a0}€");
}

#[tokio::test]
async fn those_who_listen_do_not_keep_the_server_from_ending() {
    let theatre = Theatre::open().await;
    let bob = theatre.browser("Bob").await;
    let mut events = listen(&bob).await;
    theatre.close().await;
    assert!(!changes(&mut events).await);
}
