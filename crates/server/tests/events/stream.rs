//! A reader of server-sent events that shares no code with ours.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::time::Duration;

use reqwest::{Client, Response};
use serde_json::Value;
use tokio::time::timeout;

/// Nothing that is waited for takes so long on a working server.
const PATIENCE: Duration = Duration::from_secs(20);

/// An event as it came.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// A stream of events.
pub(crate) struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    /// The events of the bucket `default`, as the query says.
    pub(crate) async fn open(url: &str, query: &str) -> Self {
        Self::with(url, query, &[]).await
    }

    pub(crate) async fn with(url: &str, query: &str, headers: &[(&str, &str)]) -> Self {
        Self::of(&format!("{url}/v1/buckets/default/events{query}"), headers).await
    }

    /// The events at that URL.
    pub(crate) async fn of(url: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = Client::new().get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        if status != 200 {
            panic!("{status} {}", response.text().await.unwrap());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next block of lines; none at the end of the stream.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let piece = timeout(PATIENCE, self.response.chunk()).await.expect("something comes in time");
            // One whose server is killed ends in the middle.
            let piece = piece.ok()??;
            traces::answer(&String::from_utf8_lossy(&piece));
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The id of the comment with which a stream begins.
    pub(crate) async fn first_id(&mut self) -> String {
        let block = self.block().await.unwrap();
        block.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned()
    }

    /// The next event that is no comment; none at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            let block = self.block().await?;
            let line = |key: &str| block.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            if !line("data: ").is_empty() {
                return Some(Sent {
                    id: line("id: ").to_owned(),
                    kind: line("event: ").to_owned(),
                    data: serde_json::from_str(line("data: ")).unwrap(),
                });
            }
        }
    }

    /// So many events, as kind and name.
    pub(crate) async fn kinds(&mut self, count: usize) -> Vec<(String, String)> {
        let mut kinds = Vec::new();
        for _ in 0..count {
            let event = self.next().await.expect("the stream goes on");
            let name = event.data["name"].as_str().unwrap_or_default().to_owned();
            kinds.push((event.kind, name));
        }
        kinds
    }
}
