//! Frames of several sites at one server.

use reqwest::Url;

use crate::sessions::support::{Client, TestServer};

/// The client of a frame that tells these origins: its own, and those of its ancestors, the nearest first.
async fn frame(server: &TestServer, origins: &[&str]) -> Client {
    let mut url = Url::parse("ws://server/").unwrap();
    let list: Vec<_> = ["origins:"].iter().chain(origins).copied().collect();
    url.query_pairs_mut().append_pair("partition", &list.join(" "));
    let mut client = Client::hello(server.address, &format!("?{}", url.query().unwrap())).await;
    client.join(1).await;
    client
}

#[tokio::test]
async fn frames_share_what_frames_of_the_same_place_hold_and_sites_end_at_public_suffixes() {
    let server = TestServer::start().await;
    let widget = "https://widget.example";
    let mut page = frame(&server, &["https://www.bank.co.uk"]).await;
    let mut in_bank = frame(&server, &[widget, "https://www.bank.co.uk"]).await;
    let mut in_evil = frame(&server, &[widget, "https://evil.co.uk"]).await;
    let mut in_itself = frame(&server, &["https://login.bank.co.uk", "https://www.bank.co.uk"]).await;
    let mut also_in_bank = frame(&server, &[widget, "https://ads.example", "https://bank.co.uk:8443"]).await;
    for client in [&mut page, &mut in_bank, &mut in_evil] {
        client.request(1, 1, "n").await;
        client.granted(1).await;
    }
    // The others are where the name is held already.
    for client in [&mut in_itself, &mut also_in_bank] {
        client.request(1, 1, "n").await;
        assert_eq!(client.query(2).await, (vec!["n".to_owned()], vec!["n".to_owned()]));
    }
    page.release(1).await;
    in_itself.granted(1).await;
    in_bank.release(1).await;
    also_in_bank.granted(1).await;
}
