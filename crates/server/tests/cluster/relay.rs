//! The way of a client through a node that does not have its bucket: how long it lasts, and a node that
//! cannot be reached.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::cluster::fleet::{Fleet, LEASE, url};
use crate::running::{Running, lockhouse, run};

/// How much longer all may take on a busy machine.
const SLACK: Duration = Duration::from_secs(6);

type Socket = WebSocketStream<TcpStream>;

/// A WebSocket through that node, after its welcome.
async fn through(node: &Running, bucket: &str) -> Socket {
    let mut request = format!("ws://{}/v1/ws?bucket={bucket}", node.address).into_client_request().unwrap();
    let protocol = HeaderValue::from_static(lockhouse_wire::SUBPROTOCOL);
    request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    let tcp = TcpSocket::new_v4().unwrap();
    tcp.set_recv_buffer_size(8192).unwrap();
    let stream = tcp.connect(node.address).await.unwrap();
    let (mut socket, _) = client_async(request, stream).await.unwrap();
    say(&mut socket, &json!({"type": "hello"})).await;
    let welcome = socket.next().await.unwrap().unwrap();
    assert!(welcome.to_text().unwrap().contains("welcome"), "{welcome}");
    socket
}

async fn say(socket: &mut Socket, frame: &Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

/// Answers the pings in a message.
async fn answer_pings(socket: &mut Socket, message: &Message) {
    let frames = match serde_json::from_str(message.to_text().unwrap()).unwrap() {
        Value::Array(frames) => frames,
        frame => vec![frame],
    };
    for ping in frames.iter().filter(|frame| frame["type"] == "ping") {
        say(socket, &json!({"type": "pong", "n": ping["n"]})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_lasts_while_the_owner_pings_and_ends_a_lease_after_it_stands_still() {
    let (fleet, nodes) = Fleet::of(2);
    let mut socket = through(&nodes[0], &fleet.bucket_at(&nodes[0], "b")).await;
    let begun = Instant::now();
    while begun.elapsed() < 2 * LEASE {
        let message = socket.next().await.unwrap().unwrap();
        answer_pings(&mut socket, &message).await;
    }
    nodes[1].stand_still();
    let still = Instant::now();
    loop {
        match timeout(LEASE + SLACK, socket.next()).await.unwrap() {
            Some(Ok(Message::Close(frame))) => panic!("{frame:?}"),
            Some(Ok(message)) => answer_pings(&mut socket, &message).await,
            Some(Err(_)) | None => break,
        }
    }
    let after = still.elapsed();
    nodes[1].go_on();
    assert!(after > LEASE / 2 && after < LEASE + SLACK, "{after:?}");
}

/// Whether the server still has its end of the connection to that client.
fn is_open(server: SocketAddr, client: SocketAddr) -> bool {
    let port = |address: &str| u16::from_str_radix(address.split_once(':').unwrap().1, 16).unwrap();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).any(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let (near, far, inode) = (port(columns[1]), port(columns[2]), columns[9]);
        // What the system still sends for a socket that was closed has no file any more.
        (near, far) == (server.port(), client.port()) && inode != "0"
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_is_given_up_by_the_node_between() {
    let (fleet, nodes) = Fleet::of(2);
    let mut socket = through(&nodes[0], &fleet.bucket_at(&nodes[0], "b")).await;
    say(&mut socket, &json!({"type": "join", "seq": 1, "agent": 1, "clientId": "c"})).await;
    for id in 1..=15 {
        let name = format!("{id}{}", "n".repeat(4000));
        let request = json!({"type": "request", "seq": id + 1, "id": id, "agent": 1, "name": name});
        say(&mut socket, &request).await;
    }
    // More than all buffers on the way have room for.
    for id in 16..=400 {
        say(&mut socket, &json!({"type": "query", "id": id})).await;
    }
    let (near, far) = (nodes[0].address, socket.get_ref().local_addr().unwrap());
    assert!(is_open(near, far));
    let begun = Instant::now();
    while is_open(near, far) {
        assert!(begun.elapsed() < LEASE + SLACK, "{:?}", begun.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    // It was given up in the midst of the answers, before any word of the end of the session.
    let mut snapshots = 0;
    while let Some(Ok(message)) = socket.next().await {
        assert!(!message.is_close(), "{message}");
        let text = message.to_text().unwrap();
        assert!(!text.contains("lease_expired"), "{text}");
        snapshots += usize::from(text.contains("snapshot"));
    }
    assert!(snapshots < 385, "{snapshots}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lives_and_cannot_be_reached_is_logged_once_and_so_is_its_return() {
    let fleet = Fleet::new();
    // A port at which connections are refused for now.
    let front = TcpSocket::new_v4().unwrap();
    front.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let advertised = format!("http://{}", front.local_addr().unwrap());
    let b = Running::of(fleet.command("b", &["--advertise", &advertised]));
    fleet.settled(&[&b]);
    let a = fleet.start("a");
    let line = a.log("a node that lives cannot be reached");
    assert!(line.contains("WARN") && line.contains("node=\"b\"") && line.contains(&advertised), "{line}");
    // Nor can it be known whether it could take the slots of the other.
    let drain = ["cluster", "drain", "--url", &url(&a)];
    let (code, _, error) = run(&mut lockhouse(fleet.folder.path(), &drain));
    assert_eq!(code, Some(75), "{error}");
    assert!(error.contains("no other node says that it could") && error.contains("answer: b"), "{error}");

    let (front, of_b) = (front.listen(64).unwrap(), b.address);
    tokio::spawn(async move {
        loop {
            let (mut near, _) = front.accept().await.unwrap();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(of_b).await.unwrap();
                _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    a.log("the node is reached again");
    fleet.settled(&[&a, &b]);
    let (code, rest) = a.terminate();
    assert_eq!(code, Some(0));
    assert!(!rest.iter().any(|line| line.contains("cannot be reached")), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_line_about_a_call_that_was_not_handed_on_names_its_path_and_has_each_member_once() {
    let fleet = Fleet::new();
    let mut command = fleet.command("a", &["--log-format", "json"]);
    command.env("RUST_LOG", "lockhouse_server=debug");
    let (a, b) = (Running::of(command), fleet.start("b"));
    fleet.settled(&[&a, &b]);
    let path = format!("/v1/buckets/{}/query", fleet.bucket_at(&a, "b"));
    drop(b);
    // Whether it waits for the next owner or not.
    _ = reqwest::get(format!("{}{path}", url(&a))).await.unwrap();
    let line = a.log("a call was not handed on");
    assert_eq!(line.matches("\"target\":").count(), 1, "{line}");
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["path"], *path, "{line}");
}
