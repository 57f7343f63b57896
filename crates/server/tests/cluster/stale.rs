//! A node that hands a WebSocket to the former owner of its slot, as the slot has moved meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use lockhouse::fleet::owner_of;
use lockhouse::store::{Scope, Slot};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header};

use crate::cluster::fleet::{Fleet, SLOTS};
use crate::running::Running;

/// The way to a node, on which WebSockets can be held up.
#[derive(Debug, Default)]
struct Way {
    is_held: watch::Sender<bool>,
    /// How many WebSockets have been held up, and how many the node has sent on.
    held: AtomicUsize,
    sent_on: AtomicUsize,
}

impl Way {
    /// Passes on what comes to the node, once its address is known.
    async fn run(self: Arc<Self>, front: TcpListener, node: watch::Receiver<Option<SocketAddr>>) {
        loop {
            let (near, _) = front.accept().await.unwrap();
            let (way, mut node) = (self.clone(), node.clone());
            tokio::spawn(async move {
                let address = node.wait_for(Option::is_some).await.unwrap().unwrap();
                let (mut near_read, mut near_write) = near.into_split();
                let (mut far_read, mut far_write) = TcpStream::connect(address).await.unwrap().into_split();
                let back = way.clone();
                tokio::spawn(async move {
                    let mut chunk = vec![0; 65_536];
                    while let Ok(length @ 1..) = far_read.read(&mut chunk).await {
                        let is_sent_on = chunk.starts_with(b"HTTP/1.1 421");
                        back.sent_on.fetch_add(usize::from(is_sent_on), Ordering::SeqCst);
                        if near_write.write_all(&chunk[..length]).await.is_err() {
                            return;
                        }
                    }
                });
                let mut chunk = vec![0; 65_536];
                while let Ok(length @ 1..) = near_read.read(&mut chunk).await {
                    if chunk.starts_with(b"GET /v1/ws") && *way.is_held.borrow() {
                        way.held.fetch_add(1, Ordering::SeqCst);
                        way.is_held.subscribe().wait_for(|is_held| !is_held).await.unwrap();
                    }
                    if far_write.write_all(&chunk[..length]).await.is_err() {
                        return;
                    }
                }
            });
        }
    }
}

/// The first frame that a client gets from the bucket through that node.
async fn first_frame(address: SocketAddr, bucket: String) -> Message {
    let mut request = format!("ws://{address}/v1/ws?bucket={bucket}").into_client_request().unwrap();
    let protocol = HeaderValue::from_static(lockhouse_wire::SUBPROTOCOL);
    request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    let (mut socket, _) = connect_async(request).await.unwrap();
    socket.send(Message::text(r#"{"type":"hello"}"#)).await.unwrap();
    socket.next().await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_comes_to_the_former_owner_of_its_slot_goes_on_to_the_present_one() {
    let (fleet, way) = (Fleet::new(), Arc::new(Way::default()));
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let advertise = format!("http://{}", front.local_addr().unwrap());
    let (known, node) = watch::channel(None);
    tokio::spawn(way.clone().run(front, node));
    let a = fleet.start("a");
    let b = Running::of(fleet.command("b", &["--advertise", &advertise]));
    known.send_replace(Some(b.address));
    fleet.settled(&[&a, &b]);
    // A bucket that moves once a third node is there.
    let mut names = (0..).map(|number| format!("bucket-{number}"));
    let is_to_move = |name: &String| {
        let slot = Slot::of(&Scope::new("", name.as_str()), SLOTS);
        owner_of(slot, &["a", "b"]) == Some("b") && owner_of(slot, &["a", "b", "c"]) == Some("c")
    };
    let bucket = names.find(is_to_move).unwrap();
    way.is_held.send_replace(true);
    let c = fleet.start("c");
    // A node between waits for the owner for a moment only: one socket after the other is under way.
    let (begun, mut sockets) = (Instant::now(), Vec::new());
    while !fleet.is_at(&c, &bucket, "c") {
        sockets.push(tokio::spawn(first_frame(a.address, bucket.clone())));
        assert!(begun.elapsed() < Duration::from_secs(30));
        sleep(Duration::from_millis(50)).await;
    }
    assert!(way.held.load(Ordering::SeqCst) > 0, "none was on its way to the former owner");
    way.is_held.send_replace(false);
    let mut welcomed = 0;
    for socket in sockets {
        match timeout(Duration::from_secs(10), socket).await.unwrap().unwrap() {
            Message::Text(frame) if frame.contains("welcome") => welcomed += 1,
            Message::Close(Some(frame)) if frame.reason == "moving" => {}
            other => panic!("{other:?}"),
        }
    }
    let sent_on = way.sent_on.load(Ordering::SeqCst);
    assert!(sent_on > 0 && welcomed >= sent_on, "{sent_on} were sent on, {welcomed} were welcomed");
}
