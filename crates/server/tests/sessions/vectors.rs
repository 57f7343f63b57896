//! The golden vectors of the protocol, played against the server.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::process::ServerProcess;
use crate::sessions::support::{Client, TestServer};

fn vectors(file: &str, list: &str) -> Vec<Value> {
    let path = format!("{}/../../protocol/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    serde_json::from_value(vectors[list].take()).unwrap()
}

#[derive(Default)]
struct Player {
    clients: HashMap<String, Client>,
    variables: HashMap<String, Value>,
}

#[tokio::test]
async fn every_scripted_session_plays_out_as_written() {
    let sessions = vectors("sessions.json", "sessions");
    assert!(sessions.len() > 30);
    for session in sessions {
        let server = TestServer::start().await;
        let mut player = Player::default();
        for step in session["steps"].as_array().unwrap() {
            player.step(server.address, step, &format!("{}: {step}", session["title"])).await;
        }
    }
}

#[tokio::test]
async fn every_scripted_recovery_plays_out_as_written() {
    let sessions = vectors("recovery.json", "sessions");
    assert!(sessions.len() > 10);
    for session in sessions {
        let mut server = ServerProcess::with_file(if session["lease"] == "1s" { "1s" } else { "10s" });
        let mut player = Player::default();
        for step in session["steps"].as_array().unwrap() {
            if step["restart"] == true {
                server.restart();
                player.clients.clear();
            } else {
                player.step(server.address(), step, &format!("{}: {step}", session["title"])).await;
            }
        }
    }
}

impl Player {
    async fn step(&mut self, server: SocketAddr, step: &Value, place: &str) {
        let name = |key: &str| step[key].as_str().map(str::to_owned);
        if let Some(client) = name("open") {
            self.clients.insert(client, Client::open(server, "").await);
        } else if let Some(client) = name("from client") {
            let mut frame = step["frame"].clone();
            self.fill_in(&mut frame);
            let client = self.clients.get_mut(&client).unwrap();
            client.received = frame["resume"]["received"].as_u64().unwrap_or(client.received);
            client.send(frame).await;
        } else if let Some(client) = name("from server") {
            let client = self.clients.get_mut(&client).unwrap();
            let frame = match client.next_or_close().await {
                Ok(frame) => frame,
                Err(close) => panic!("{place}: closed with {close:?}"),
            };
            if frame["resumed"] == false {
                client.received = 0;
            }
            self.compare(&step["frame"], &frame, place);
        } else if let Some(client) = name("close") {
            self.clients.get_mut(&client).unwrap().close(step["code"].as_u64().unwrap() as u16).await;
        } else if let Some(client) = name("cut") {
            self.clients.remove(&client);
        } else if let Some(client) = name("closed") {
            let end = self.clients.get_mut(&client).unwrap().next_or_close().await;
            let code = end.expect_err(place).expect(place).code;
            assert_eq!(u64::from(u16::from(code)), step["code"].as_u64().unwrap(), "{place}");
        } else if let Some([greater, less]) = step["greater"].as_array().map(Vec::as_slice) {
            let value = |value: &Value| self.value(value).as_u64().unwrap();
            assert!(value(greater) > value(less), "{place}");
        } else if let Some([one, other]) = step["unequal"].as_array().map(Vec::as_slice) {
            assert_ne!(self.value(one), self.value(other), "{place}");
        } else {
            panic!("{place}: no such step");
        }
    }

    /// The value of the variable, or the value itself.
    fn value(&self, value: &Value) -> Value {
        let mut value = value.clone();
        self.fill_in(&mut value);
        value
    }

    fn fill_in(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.starts_with('$') => *value = self.variables[text].clone(),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.fill_in(field)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill_in(item)),
            _ => {}
        }
    }

    fn compare(&mut self, expected: &Value, found: &Value, place: &str) {
        match expected {
            Value::String(variable) if variable.starts_with('$') => {
                let bound = self.variables.entry(variable.clone()).or_insert_with(|| found.clone());
                assert_eq!(bound, found, "{place}: {variable}");
                assert_ne!(*found, Value::Null, "{place}: {variable}");
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    self.compare(field, &found[key], &format!("{place}\n found {found}\n at {key}"));
                }
            }
            Value::Array(items) => {
                assert_eq!(Some(items.len()), found.as_array().map(Vec::len), "{place}\n found {found}");
                items
                    .iter()
                    .zip(found.as_array().unwrap())
                    .for_each(|(item, found)| self.compare(item, found, place));
            }
            _ => assert_eq!(expected, found, "{place}"),
        }
    }
}

#[tokio::test]
async fn every_bad_frame_is_answered_as_written_and_the_server_goes_on() {
    let server = TestServer::start().await;
    for vector in vectors("bad-client-frames.json", "frames") {
        let title = &vector["title"];
        let text = vector["text"].as_str().unwrap();
        let first = text.contains("\"hello\"");
        let mut client = if first {
            Client::open(server.address, "").await
        } else {
            Client::hello(server.address, "").await
        };
        // Some vectors use a number that follows others.
        for seq in 1..vector["seq"].as_u64().unwrap_or(1) {
            client.send(json!({"type": "abort", "seq": seq, "id": 1})).await;
        }
        client.send_text(text).await;
        let answer = client.next().await;
        assert_eq!(
            answer["type"],
            if vector["fatal"] == true { "fatal" } else { "error" },
            "{title}: {answer}"
        );
        assert_eq!(answer["code"], vector["code"], "{title}: {answer}");
        assert_eq!(answer["field"], vector["field"], "{title}: {answer}");
        assert_eq!(answer["id"], vector["id"], "{title}: {answer}");
        assert!(!answer["message"].as_str().unwrap().is_empty());
        if vector["fatal"] == true {
            assert_eq!(client.closed().await, 4400, "{title}");
        } else {
            client.query(1_000).await;
            client.send(json!({"type": "bye"})).await;
            assert_eq!(client.closed().await, 1000, "{title}");
        }
    }
    server.client().await;
}
