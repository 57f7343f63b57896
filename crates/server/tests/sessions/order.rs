//! Requests that are ready together on several connections are served in the order of their arrival.

use serde_json::json;

use crate::process::ServerProcess;
use crate::sessions::support::Client;

const ROUNDS: u64 = 20;

/// Stops the server, lets so many clients ask for the same name one after the other, each in one message of
/// so many frames, and continues it.
async fn requests_are_served_as_they_came(sockets: usize, frames: u64) {
    // No ping comes in between.
    let server = ServerProcess::start("5m");
    let mut clients = Vec::new();
    for _ in 0..sockets {
        let mut client = Client::hello(server.address(), "").await;
        client.join(1).await;
        clients.push(client);
    }
    let mut last_id = 0;
    for round in 1..=ROUNDS {
        last_id += 1;
        for client in &mut clients {
            // All that was sent before has been carried out.
            client.query(last_id).await;
        }
        let ids = last_id + 1..=last_id + frames;
        last_id += frames;
        server.stop();
        for client in &mut clients {
            let request =
                |id| json!({"type": "request", "id": id, "agent": 1, "name": "n", "mode": "shared"});
            client.call_all(ids.clone().map(request)).await;
        }
        server.go_on();
        let mut tokens = Vec::new();
        for client in &mut clients {
            for id in ids.clone() {
                tokens.push(client.granted(id).await);
            }
        }
        assert!(tokens.is_sorted(), "round {round} of {sockets} sockets: {tokens:?}");
        for client in &mut clients {
            let release = |id| json!({"type": "release", "id": id});
            client.call_all(ids.clone().map(release)).await;
        }
    }
}

#[tokio::test]
async fn requests_of_2_connections_are_served_as_they_came() {
    requests_are_served_as_they_came(2, 1).await;
}

#[tokio::test]
async fn requests_of_3_connections_are_served_as_they_came() {
    requests_are_served_as_they_came(3, 1).await;
}

#[tokio::test]
async fn requests_of_6_connections_are_served_as_they_came() {
    requests_are_served_as_they_came(6, 1).await;
}

#[tokio::test]
async fn requests_of_64_connections_are_served_as_they_came() {
    requests_are_served_as_they_came(64, 1).await;
}

#[tokio::test]
async fn messages_of_several_frames_are_served_as_they_came() {
    requests_are_served_as_they_came(6, 4).await;
}

/// Stops the server, lets a client that holds a name leave and then others ask whether the name is free, and
/// continues the server.
async fn what_a_client_leaves_is_free_for_later_requests(leave: impl AsyncFn(&mut Client)) {
    const OTHERS: usize = 3;
    let server = ServerProcess::start("5m");
    let mut others = Vec::new();
    for _ in 0..OTHERS {
        let mut other = Client::hello(server.address(), "").await;
        other.join(1).await;
        others.push(other);
    }
    for round in 1..=ROUNDS {
        let name = format!("n{round}");
        let mut holder = Client::hello(server.address(), "").await;
        holder.join(1).await;
        holder.request(1, 1, &name).await;
        holder.granted(1).await;
        for other in &mut others {
            other.query(2 * round).await;
        }
        server.stop();
        leave(&mut holder).await;
        for other in &mut others {
            let id = 2 * round + 1;
            let shared = json!({"type": "request", "id": id, "agent": 1, "name": name, "mode": "shared", "ifAvailable": true});
            other.call(shared).await;
        }
        server.go_on();
        for other in &mut others {
            // A refusal would come in its place.
            other.granted(2 * round + 1).await;
        }
    }
}

#[tokio::test]
async fn what_a_client_holds_that_says_goodbye_is_free_for_requests_that_come_later() {
    what_a_client_leaves_is_free_for_later_requests(async |holder| holder.send(json!({"type": "bye"})).await)
        .await;
}

#[tokio::test]
async fn what_a_client_holds_that_closes_is_free_for_requests_that_come_later() {
    what_a_client_leaves_is_free_for_later_requests(async |holder| holder.close(1001).await).await;
}
