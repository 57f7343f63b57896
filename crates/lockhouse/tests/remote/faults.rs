//! Broken connections.

use std::collections::HashSet;
use std::time::Duration;

use lockhouse::remote::{Connection, ConnectionState, connect};
use lockhouse::{Loss, RequestError};
use serde_json::json;

use crate::process::ServerProcess;
use crate::remote::proxy::{Proxy, Way};
use crate::remote::scripted::Scripted;
use crate::remote::world::LEASE;

async fn until(connection: &Connection, wanted: ConnectionState) {
    connection.state().wait_for(|state| *state == wanted).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_is_resumed_and_locks_outlive_it() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let proxy = Proxy::new(server).await;
    let far = connect(format!("http://{}", proxy.address)).await.unwrap();
    let near = connect(format!("http://{server}")).await.unwrap();
    let (a, b) = (far.agent("far").unwrap(), near.agent("near").unwrap());
    let held = a.locks().request("n").await.unwrap();
    proxy.cut();
    until(&far, ConnectionState::Lost).await;
    // Asked while there is no connection.
    let other = a.locks().request("m").await.unwrap();
    until(&far, ConnectionState::Open).await;
    assert_eq!(proxy.connections(), 2);
    assert_eq!((held.loss(), other.loss()), (None, None));
    let refused = b.locks().request("n").if_available().await.unwrap_err();
    assert!(matches!(refused, RequestError::Unavailable(_)), "{refused}");
    assert_eq!(held.release().await, Ok(()));
    drop(b.locks().request("n").if_available().await.unwrap());
}

#[tokio::test]
async fn each_hello_of_a_session_is_a_later_attempt_also_after_one_without_a_welcome() {
    let server = Scripted::start().await;
    let (connection, first) = tokio::join!(connect(server.url()).into_future(), server.welcome(json!({})));
    let _connection = connection.unwrap();
    drop(first);
    let mut last = 0;
    for _ in 0..3 {
        let (socket, hello) = server.hello().await;
        let attempt = hello["resume"]["attempt"].as_u64().unwrap();
        assert!(attempt > last, "{hello}");
        last = attempt;
        drop(socket);
    }
}

/// Two clients take turns on names in every way there is; the far one's connection may break at any frame.
async fn take_turns(far: &Connection, near: &Connection) {
    let (a, b) = (far.agent("far").unwrap(), near.agent("near").unwrap());
    let (a, b) = (a.locks(), b.locks());
    let mut last = 0;
    let mut is_newer = |lock: &lockhouse::LockGuard| {
        let token = lock.fencing_token().get();
        assert!(token > std::mem::replace(&mut last, token), "token {token} is not the highest");
    };
    for _ in 0..3 {
        let held = a.request("n").await.unwrap();
        is_newer(&held);
        let refused = b.request("n").if_available().await.unwrap_err();
        assert!(matches!(refused, RequestError::Unavailable(_)), "{refused}");
        let waiting = b.request("n").timeout(Duration::from_secs(20));
        let (released, next) = tokio::join!(held.release(), waiting);
        assert_eq!(released, Ok(()));
        let next = next.unwrap();
        is_newer(&next);
        let given_up = a.request("n").timeout(Duration::from_millis(1)).await.unwrap_err();
        assert_eq!(given_up, RequestError::TimedOut);
        let thief = a.request("n").steal().await.unwrap();
        is_newer(&thief);
        assert_eq!(next.lost().await, Loss::Stolen);
        drop((next, thief));
    }
    let last = b.request("n").timeout(Duration::from_secs(20)).await.unwrap();
    is_newer(&last);
    drop(last);
    // The last that the far client has asked for has happened once its question is answered.
    far.query(None).await.unwrap();
    let left = near.query(None).await.unwrap();
    assert_eq!((left.held.len(), left.pending.len()), (0, 0), "{left:?}");
}

async fn cut_everywhere(way: Way, torn: bool) {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    for frames in 1.. {
        let proxy = Proxy::cutting_after(server, way, frames, torn).await;
        let Ok(far) = connect(format!("http://{}", proxy.address)).await else {
            assert!(frames == 1, "a client that has been welcomed goes on");
            continue;
        };
        let near = connect(format!("http://{server}")).await.unwrap();
        take_turns(&far, &near).await;
        if proxy.connections() == 1 {
            assert!(frames > 10, "only {frames} frames went over the connection");
            return;
        }
    }
}

#[tokio::test]
async fn a_cut_after_any_frame_to_the_server_changes_nothing() {
    cut_everywhere(Way::ToServer, false).await;
}

#[tokio::test]
async fn a_cut_after_any_frame_to_the_client_changes_nothing() {
    cut_everywhere(Way::ToClient, false).await;
}

#[tokio::test]
async fn a_cut_within_any_frame_to_the_server_changes_nothing() {
    cut_everywhere(Way::ToServer, true).await;
}

#[tokio::test]
async fn a_cut_within_any_frame_to_the_client_changes_nothing() {
    cut_everywhere(Way::ToClient, true).await;
}

#[tokio::test]
async fn a_client_that_is_cut_off_knows_of_its_loss_before_the_next_is_granted_and_asks_anew_later() {
    let process = ServerProcess::start("2s");
    let server = process.address();
    let proxy = Proxy::new(server).await;
    let far = connect(format!("http://{}", proxy.address)).await.unwrap();
    let near = connect(format!("http://{server}")).await.unwrap();
    let (a, b) = (far.agent("far").unwrap(), near.agent("near").unwrap());
    let held = a.locks().request("n").await.unwrap();
    let next = b.locks().request("n");
    proxy.part();
    let lost = async { (held.lost().await, std::time::Instant::now()) };
    let granted = async { (next.await.unwrap(), std::time::Instant::now()) };
    // Asked in this order, while there is no connection and then no session.
    let later = async {
        until(&far, ConnectionState::Lost).await;
        let (first, second) = (a.locks().request("m"), a.locks().request("m"));
        let first = async { first.await.unwrap().fencing_token() };
        let second = async { second.await.unwrap().fencing_token() };
        tokio::join!(biased; first, second)
    };
    let mend = async {
        held.lost().await;
        proxy.mend();
    };
    let ((loss, lost_at), (_next, granted_at), (first, second), ()) =
        tokio::join!(biased; lost, granted, later, mend);
    assert_eq!(loss, Loss::Expired);
    assert!(lost_at < granted_at, "granted to another {:?} before the loss was known", lost_at - granted_at);
    assert!(first < second, "asked anew out of order");
    assert_eq!(held.release().await, Err(Loss::Expired));
}

#[tokio::test]
async fn a_client_whose_link_has_gone_silent_knows_of_its_loss_before_the_next_is_granted() {
    let process = ServerProcess::start("1s");
    let server = process.address();
    let proxy = Proxy::new(server).await;
    let far = connect(format!("http://{}", proxy.address)).await.unwrap();
    let near = connect(format!("http://{server}")).await.unwrap();
    let (a, b) = (far.agent("far").unwrap(), near.agent("near").unwrap());
    let held = a.locks().request("n").await.unwrap();
    let next = b.locks().request("n");
    proxy.swallow();
    let lost = async { (held.lost().await, std::time::Instant::now()) };
    let granted = async { (next.await.unwrap(), std::time::Instant::now()) };
    let ((loss, lost_at), (_next, granted_at)) = tokio::join!(biased; lost, granted);
    assert_eq!(loss, Loss::Expired);
    assert!(lost_at < granted_at, "the loss was known only {:?} after the next grant", lost_at - granted_at);
}

#[tokio::test]
async fn after_kill_9_of_the_server_holders_are_notified_and_pending_requests_are_sent_anew_in_order() {
    let mut server = ServerProcess::start("10m");
    let proxy = Proxy::new(server.address()).await;
    let connection = connect(format!("http://{}", proxy.address)).await.unwrap();
    let agents = [(); 4].map(|()| connection.agent("a").unwrap());
    let held = agents[0].locks().request("n").await.unwrap();
    let other = agents[0].locks().request("m").await.unwrap();
    let pending = agents.each_ref().map(|agent| agent.locks().request("n"));
    let [first, second, third, fourth] =
        pending.map(|request| async { request.await.unwrap().fencing_token() });
    let kill = async {
        connection.query(None).await.unwrap();
        server.stop();
        let sent = *proxy.to_server.borrow();
        let steal = async { agents[0].locks().request("m").steal().await.unwrap_err() };
        let restart = async {
            // The steal reaches the server's socket, but no process there reads it.
            proxy.to_server.subscribe().wait_for(|now| *now > sent).await.unwrap();
            server.restart();
        };
        let (stolen, ()) = tokio::join!(biased; steal, restart);
        assert_eq!(stolen, RequestError::OutcomeUnknown);
    };
    let order = async { tokio::join!(biased; first, second, third, fourth) };
    let ((first, second, third, fourth), ()) = tokio::join!(biased; order, kill);
    assert!(first < second && second < third && third < fourth);
    assert_eq!((held.lost().await, other.lost().await), (Loss::SessionEnded, Loss::SessionEnded));
    assert_eq!(other.release().await, Err(Loss::SessionEnded));
    let again = agents[1].locks().request("m").await.unwrap();
    assert_eq!(again.release().await, Ok(()));
}

#[test]
fn the_end_of_its_runtime_ends_a_connection_and_nothing_waits_for_it() {
    let server = ServerProcess::start("10s");
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (connection, agent, held) = first.block_on(async {
        let connection = connect(server.url()).await.unwrap();
        let agent = connection.agent("a").unwrap();
        let held = agent.locks().request("n").await.unwrap();
        (connection, agent, held)
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(held.lost().await, Loss::Terminated);
        assert_eq!(agent.locks().request("n").await.unwrap_err(), RequestError::AgentEnded);
        assert_eq!(connection.query(None).await.unwrap_err(), RequestError::AgentEnded);
        assert_eq!(held.release().await, Err(Loss::Terminated));
        connection.close().await;
    });
}

#[tokio::test]
async fn closing_a_connection_frees_its_locks_at_once() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let [a, b] = [connect(format!("http://{server}")), connect(format!("http://{server}"))];
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    let (holder, waiter) = (a.agent("holder").unwrap(), b.agent("waiter").unwrap());
    let held = holder.locks().request("n").await.unwrap();
    let states = a.state();
    let waiting = waiter.locks().request("n").timeout(Duration::from_secs(5));
    let (granted, ()) = tokio::join!(biased; waiting, a.close());
    drop(granted.unwrap());
    assert_eq!(held.loss(), Some(Loss::Terminated));
    assert_eq!(*states.borrow(), ConnectionState::Closed);
    assert_eq!(holder.locks().request("n").await.unwrap_err(), RequestError::AgentEnded);
}

#[tokio::test]
async fn closing_a_connection_whose_link_is_down_frees_its_locks_at_once() {
    let process = ServerProcess::start("10m");
    let server = process.address();
    let proxy = Proxy::new(server).await;
    let far = connect(format!("http://{}", proxy.address)).await.unwrap();
    let near = connect(format!("http://{server}")).await.unwrap();
    let (a, b) = (far.agent("far").unwrap(), near.agent("near").unwrap());
    let _held = a.locks().request("n").await.unwrap();
    proxy.part();
    until(&far, ConnectionState::Lost).await;
    proxy.mend();
    far.close().await;
    drop(b.locks().request("n").timeout(Duration::from_secs(5)).await.unwrap());
}

#[tokio::test]
async fn closing_a_connection_whose_link_breaks_at_that_moment_frees_its_locks_at_once() {
    let process = ServerProcess::start("10m");
    let server = process.address();
    let proxy = Proxy::new(server).await;
    let far = connect(format!("http://{}", proxy.address)).await.unwrap();
    let near = connect(format!("http://{server}")).await.unwrap();
    let (a, b) = (far.agent("far").unwrap(), near.agent("near").unwrap());
    let _held = a.locks().request("n").await.unwrap();
    // Nothing runs between the two, so that the client does not know yet.
    proxy.cut();
    far.close().await;
    drop(b.locks().request("n").timeout(Duration::from_secs(5)).await.unwrap());
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_connection() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let connection = connect(format!("http://{server}")).await.unwrap();
    let mut states = connection.state();
    let agent = connection.agent("a").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    drop(connection);
    assert_eq!((held.loss(), *states.borrow()), (None, ConnectionState::Open));
    drop(agent);
    assert_eq!((held.loss(), *states.borrow()), (None, ConnectionState::Open));
    drop(held);
    states.wait_for(|state| *state == ConnectionState::Closed).await.unwrap();
}

#[tokio::test]
async fn what_the_server_would_refuse_for_its_size_is_refused_with_the_rule() {
    let process = ServerProcess::start(LEASE);
    let server = process.address();
    let connection = connect(format!("http://{server}")).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let long = "n".repeat(4097);
    let error = agent.locks().request(&long).await.unwrap_err();
    assert_eq!(error.to_string(), "name: 4097 units, but at most 4096 units are allowed");
    let error = agent.locks().request("n").metadata("m".repeat(1025)).await.unwrap_err();
    assert_eq!(error.to_string(), "metadata: 1025 bytes, but at most 1024 bytes are allowed");
    let error = connection.agent(&"a".repeat(257)).unwrap_err();
    assert_eq!(error.to_string(), "client_id: 257 bytes, but at most 256 bytes are allowed");
    let agents: Vec<_> = (1..1024).map(|_| connection.agent("more").unwrap()).collect();
    assert_eq!(connection.agent("one more").unwrap_err().value, "1024 agents");
    drop(agents);
    assert_eq!(agent.locks().request("n").await.unwrap().release().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_short_cuts_finishes_its_work_and_gives_no_token_twice() {
    const CLIENTS: usize = 64;
    const PAIRS: usize = 100;
    let process = ServerProcess::start("10s");
    let server = process.address();
    let proxy = Proxy::new(server).await;
    let cuts = tokio::spawn({
        let proxy = proxy.clone();
        async move {
            let mut storm = tokio::time::interval(Duration::from_millis(450));
            loop {
                storm.tick().await;
                proxy.cut();
            }
        }
    });
    let clients = (0..CLIENTS).map(|number| {
        let url = format!("http://{}", proxy.address);
        tokio::spawn(async move {
            let connection = loop {
                // A connection that is cut before the welcome is none.
                if let Ok(connection) = connect(&url).await {
                    break connection;
                }
            };
            let agent = connection.agent("a").unwrap();
            let mut tokens = Vec::new();
            for _ in 0..PAIRS {
                // Half of them meet at one name.
                let name = if number % 2 == 0 { "n".to_owned() } else { format!("n/{number}") };
                tokens.push(agent.locks().request(&name).await.unwrap().fencing_token());
            }
            tokens
        })
    });
    let clients: Vec<_> = clients.collect();
    let finished = async {
        let mut tokens = HashSet::new();
        for client in clients {
            tokens.extend(client.await.unwrap());
        }
        tokens
    };
    let tokens = tokio::time::timeout(Duration::from_secs(120), finished).await.expect("the clients starve");
    cuts.abort();
    assert_eq!(tokens.len(), CLIENTS * PAIRS);
}
