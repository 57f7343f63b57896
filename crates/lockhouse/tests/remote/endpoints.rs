//! Clients that know several URLs: those of a fleet, of which each serves every client.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockhouse::remote::http::{Call, Unanswered};
use lockhouse::remote::{Connect, ConnectError, Connection, ConnectionState, connect};
use lockhouse::{LockGuard, NameBuf};
use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};

use crate::process::ServerProcess;
use crate::remote::scripted::Scripted;
use crate::remote::world::LEASE;

/// So many clients that hardly ever all of them begin with the same URL.
const CROWD: usize = 8;

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// An address at which every connection is refused, until the test has something listen there.
fn unused() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A place where connections are made, and nothing is said.
fn silent() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// A place where no connection is made while this lives, as where a firewall drops each attempt.
struct Deaf {
    listener: tokio::net::TcpListener,
    /// As much as the backlog holds.
    _filler: TcpStream,
}

impl Deaf {
    async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let filler = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        Self { listener, _filler: filler }
    }

    fn url(&self) -> String {
        url(self.listener.local_addr().unwrap())
    }
}

/// As many clients of these URLs as a crowd has.
async fn crowd(connect: &Connect) -> Vec<Connection> {
    join_all((0..CROWD).map(|_| connect.clone().into_future()))
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

async fn work(connection: &Connection, name: &str) {
    let agent = connection.agent("a").unwrap();
    assert_eq!(agent.locks().request(name).await.unwrap().release().await, Ok(()));
    let claim = connection.claims().claim(&format!("{name}: seat"), "Ada", Duration::from_secs(60)).await;
    claim.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_client_uses_the_url_that_answers_whatever_is_at_the_others() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let (silent, deaf) = (silent(), Deaf::new().await);
    let connect = connect(url(unused())).or(url(silent.local_addr().unwrap())).or(url(server)).or(deaf.url());
    let clients = crowd(&connect).await;
    join_all(clients.iter().enumerate().map(async |(index, client)| work(client, &format!("{index}")).await))
        .await;
}

#[tokio::test]
async fn a_call_goes_to_the_next_url_where_nothing_was_sent() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let deaf = Deaf::new().await;
    let connect = connect(url(unused())).or(deaf.url()).or(url(server));
    let http = (0..CROWD).map(|_| connect.clone().http().unwrap());
    let answers = join_all(http.map(async |http| http.send(&Call::get(&["query"])).await)).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().is_success()));
}

#[tokio::test]
async fn after_an_answer_that_was_lost_the_next_call_goes_to_the_next_url() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let losing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connect = connect(url(losing.local_addr().unwrap())).or(url(server));
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = losing.accept().await.unwrap();
            // What was read was received, so that the end of the connection is no refusal.
            _ = tokio::io::AsyncReadExt::read(&mut connection, &mut [0; 4096]).await;
        }
    });
    let question = Call::get(&["query"]);
    let change =
        |name: &str| Call::post(&["claims"]).body(json!({"resource": name, "claimant": "Ada"}).to_string());
    // Which one a client begins with is up to it. A question goes on by itself.
    for _ in 0..2 * CROWD {
        assert!(connect.clone().http().unwrap().send(&question).await.unwrap().is_success());
    }
    let mut names = (0..).map(|number| format!("seat {number}"));
    let http = loop {
        let http = connect.clone().http().unwrap();
        match http.send(&change(&names.next().unwrap())).await {
            Err(Unanswered::BrokenOff(_)) => break http,
            answer => assert!(answer.unwrap().is_success()),
        }
    };
    assert!(http.send(&change("another seat")).await.unwrap().is_success());
}

#[tokio::test]
async fn if_no_url_leads_to_a_server_the_error_names_all() {
    let [one, other] = [unused(), unused()];
    let error = connect(url(one)).or(url(other)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    let shown = error.to_string();
    let orders =
        [(one, other), (other, one)].map(|(a, b)| format!("cannot reach http://{a} or http://{b}: "));
    assert!(orders.iter().any(|order| shown.starts_with(order)), "{shown}");
    let http = connect(url(one)).or(url(other)).http().unwrap();
    assert!(matches!(http.send(&Call::get(&["query"])).await, Err(Unanswered::Unreachable(_))));
}

#[tokio::test]
async fn one_of_several_urls_that_cannot_be_used_is_named() {
    let refused = async |connect: Connect| connect.await.unwrap_err().to_string();
    let other = || connect("http://127.0.0.1:1");
    assert!(refused(other().or("127.0.0.1:2")).await.starts_with("url[1]: \"127.0.0.1:2\", but it must be"));
    let error = refused(other().or("http://127.0.0.1:2/?bucket=b")).await;
    assert!(error.ends_with("it must be a URL with the bucket of the first one"), "{error}");
    let error = other().or("http://127.0.0.1:2/elsewhere").http().unwrap_err().to_string();
    assert!(error.starts_with("url[1]: \"http://127.0.0.1:2/elsewhere\""), "{error}");
}

#[tokio::test]
async fn while_a_lock_is_to_be_reclaimed_no_pause_is_longer_than_a_heartbeat() {
    let server = Scripted::start().await;
    let welcome = server.welcome(json!({"heartbeatMs": 200}));
    let (connection, mut peer) = tokio::join!(connect(server.url()).into_future(), welcome);
    let agent = connection.unwrap().agent("a").unwrap();
    peer.expect("join").await;
    let locks = agent.locks();
    let (lock, _) = tokio::join!(locks.request("n").into_future(), peer.grant("request", 1, "1.1"));
    drop(peer);
    let begun = Instant::now();
    for _ in 0..8 {
        server.refuse().await;
    }
    // Otherwise the pauses would come to six seconds at least.
    assert!(begun.elapsed() < Duration::from_secs(4), "eight attempts took {:?}", begun.elapsed());
    assert_eq!(lock.unwrap().loss(), None);
}

/// A lock of each of a crowd of clients that know both servers and what is between.
struct Held {
    connection: Connection,
    lock: LockGuard,
    name: NameBuf,
    token: u64,
}

impl Held {
    async fn take(connect: &Connect) -> Vec<Self> {
        let mut held = Vec::new();
        for (index, connection) in crowd(connect).await.into_iter().enumerate() {
            let name = NameBuf::new(&format!("n{index}")).unwrap();
            let lock = connection.agent("a").unwrap().locks().request(&name).await.unwrap();
            let token = lock.fencing_token().get();
            held.push(Self { connection, lock, name, token });
        }
        held
    }

    /// Waits until the server has the lock again, and gives it back.
    async fn come_back(self) {
        self.connection.state().wait_for(|state| *state == ConnectionState::Open).await.unwrap();
        while self.connection.query(Some(&self.name)).await.unwrap().held.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!((self.lock.loss(), self.lock.fencing_token().get()), (None, self.token));
        assert_eq!(self.lock.release().await, Ok(()));
    }
}

/// Another server takes the database of the first over, at an address of its own.
async fn takeover(end: impl FnOnce(&mut ServerProcess), between: &[String]) {
    const LEASE: &str = "3s";
    let mut first = ServerProcess::with_file(LEASE);
    let address = unused();
    let connect = between.iter().fold(connect(first.url()).or(url(address)), Connect::or);
    let held = Held::take(&connect).await;
    tokio::task::block_in_place(|| end(&mut first));
    let second = tokio::task::block_in_place(|| ServerProcess::over_file_at(address, LEASE, first.file()));
    join_all(held.into_iter().map(Held::come_back)).await;
    drop(second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_server_that_stops_keep_their_locks_at_the_next_one() {
    takeover(|server| assert!(server.terminate()), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_server_that_is_killed_keep_their_locks_at_the_next_one() {
    takeover(ServerProcess::kill, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_url_on_the_way_to_the_next_server_costs_no_lock() {
    let (silent, deaf) = (silent(), Deaf::new().await);
    takeover(ServerProcess::kill, &[url(silent.local_addr().unwrap()), deaf.url()]).await;
}
