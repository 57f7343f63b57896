//! A client that survives cuts: it keeps unacknowledged frames, reconnects and resumes.

use std::collections::VecDeque;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::Client;

pub(crate) struct Resuming {
    address: SocketAddr,
    client: Client,
    /// Numbered frames not acknowledged yet.
    unacknowledged: VecDeque<Value>,
    /// How often the session was resumed.
    pub(crate) resumed: usize,
}

impl Resuming {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        loop {
            let mut client = Client::open(address, "").await;
            // The cut may come at any moment, this one included.
            if client.try_send(json!({"type": "hello"})).await.is_ok()
                && let Ok(welcome) = client.next_or_close().await
            {
                client.welcome = welcome;
                return Self { address, client, unacknowledged: VecDeque::new(), resumed: 0 };
            }
        }
    }

    pub(crate) async fn call(&mut self, mut frame: Value) {
        self.client.seq += 1;
        frame["seq"] = json!(self.client.seq);
        self.unacknowledged.push_back(frame.clone());
        if self.client.try_send(frame).await.is_err() {
            self.reconnect().await;
        }
    }

    /// The next numbered frame.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            match self.client.next_or_close().await {
                Ok(frame) => {
                    let ack = json!({"type": "ack", "ack": self.client.received});
                    if self.client.try_send(ack).await.is_err() {
                        // The frame is processed; what follows comes after the resume.
                        self.reconnect().await;
                    }
                    return frame;
                }
                Err(_) => self.reconnect().await,
            }
        }
    }

    pub(crate) async fn bye(mut self) {
        // If that does not arrive, the lease ends the session.
        _ = self.client.try_send(json!({"type": "bye"})).await;
    }

    async fn reconnect(&mut self) {
        let client = Client::resume(self.address, &self.client).await;
        assert_eq!(client.welcome["resumed"], true, "the lease is long");
        self.client = client;
        self.resumed += 1;
        let received = self.client.welcome["received"].as_u64().unwrap();
        self.unacknowledged.retain(|frame| frame["seq"].as_u64().unwrap() > received);
        for frame in &self.unacknowledged {
            self.client.try_send(frame.clone()).await.unwrap();
        }
    }
}
