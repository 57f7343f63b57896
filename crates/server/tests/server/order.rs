//! Requests that are ready together on several connections are served in the order of their arrival.

use serde_json::json;

use crate::server_process::ServerProcess;
use crate::support::Client;

const ROUNDS: u64 = 20;

/// Stops the server, lets so many clients ask for the same name one after the other, and continues it.
async fn requests_are_served_as_they_came(sockets: usize) {
    // No ping comes in between.
    let server = ServerProcess::start("5m");
    let mut clients = Vec::new();
    for _ in 0..sockets {
        let mut client = Client::hello(server.address(), "").await;
        client.join(1).await;
        clients.push(client);
    }
    for round in 1..=ROUNDS {
        let id = 2 * round + 1;
        for client in &mut clients {
            // All that was sent before has been carried out.
            client.query(2 * round).await;
        }
        server.stop();
        for client in &mut clients {
            let request = json!({"type": "request", "id": id, "agent": 1, "name": "n", "mode": "shared"});
            client.call(request).await;
        }
        server.go_on();
        let mut tokens = Vec::new();
        for client in &mut clients {
            tokens.push(client.granted(id).await);
        }
        assert!(tokens.is_sorted(), "round {round} of {sockets} sockets: {tokens:?}");
        for client in &mut clients {
            client.release(id).await;
        }
    }
}

#[tokio::test]
async fn requests_of_2_connections_are_served_as_they_came() {
    requests_are_served_as_they_came(2).await;
}

#[tokio::test]
async fn requests_of_3_connections_are_served_as_they_came() {
    requests_are_served_as_they_came(3).await;
}

#[tokio::test]
async fn requests_of_6_connections_are_served_as_they_came() {
    requests_are_served_as_they_came(6).await;
}

#[tokio::test]
async fn requests_of_64_connections_are_served_as_they_came() {
    requests_are_served_as_they_came(64).await;
}
