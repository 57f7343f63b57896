//! A tenant that asks for more than its rate allows.

use std::time::{Duration, Instant};

use lockhouse::remote::connect;
use lockhouse::{ClaimError, StoreError};
use lockhouse_server::{Config, Lease, LimitSettings};
use tokio::task::JoinSet;

use crate::remote::server;

const RATE: u32 = 5;
const TTL: Duration = Duration::from_secs(60);

async fn url(tenant_rate: u32) -> String {
    let limits = LimitSettings { tenant_rate, ..LimitSettings::default() };
    format!("http://{}", server(Config { limits, ..Config::default() }).await)
}

#[tokio::test]
async fn calls_wait_for_their_turn_by_themselves() {
    let connection = connect(url(RATE).await).await.unwrap();
    let begun = Instant::now();
    let calls = (0..3 * RATE).map(|number| {
        let claims = connection.claims();
        tokio::spawn(async move {
            claims
                .claim(format!("seat {number}").as_str(), "Ada", TTL)
                .await
                .map(|claim| claim.fencing_token())
        })
    });
    let mut tokens = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        tokens.push(call.await.unwrap().unwrap());
    }
    // Calls within a second's rate are done at once, the rest at the rate.
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "{:?}", begun.elapsed());
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 3 * RATE as usize);
}

#[tokio::test]
async fn a_turn_beyond_the_timeout_is_reported_and_not_awaited() {
    let connection = connect(url(1).await).timeout(Duration::from_secs(3)).await.unwrap();
    let calls = (0..8).map(|number| {
        let claims = connection.claims();
        tokio::spawn(
            async move { claims.claim(format!("seat {number}").as_str(), "Ada", TTL).await.map(drop) },
        )
    });
    let mut refused = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            Ok(()) => {}
            Err(ClaimError::Store(StoreError::Unavailable { why, retry_after })) => {
                assert!(why.contains("calls and frames in a second"), "{why}");
                assert!(
                    retry_after > Duration::ZERO && retry_after < Duration::from_secs(10),
                    "{retry_after:?}"
                );
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    // Two at once, and one in each second.
    assert!(refused >= 2, "{refused}");
}

#[tokio::test]
async fn forty_sessions_at_the_rate_lose_no_lock() {
    const SESSIONS: usize = 40;
    // More bytes than the server reads ahead, and more frames than the tenant may send in several leases.
    const REQUESTS: usize = 1_000;
    let limits = LimitSettings { tenant_rate: 4_000, ..LimitSettings::default() };
    let lease = Lease::new(Duration::from_secs(2)).unwrap();
    let url = format!("http://{}", server(Config { limits, lease, ..Config::default() }).await);
    let begun = Instant::now();
    let mut sessions = JoinSet::new();
    for session in 0..SESSIONS {
        let connection = connect(&*url).await.unwrap();
        sessions.spawn(async move {
            let agent = connection.agent("A").unwrap();
            let name = format!("held by {session}");
            let held = agent.locks().request(&*name).await.unwrap();
            let mut waiting = JoinSet::new();
            for _ in 0..REQUESTS {
                let (locks, name) = (agent.locks().clone(), name.clone());
                waiting.spawn(async move {
                    locks.request(&*name).metadata("m".repeat(900)).await.map(drop)
                });
            }
            tokio::task::yield_now().await;
            let last = format!("the last of {session}");
            tokio::select! {
                loss = held.lost() => panic!("session {session} lost its lock after {:?}: {loss:?}", begun.elapsed()),
                ended = waiting.join_next() => panic!("a request ended: {ended:?}"),
                // That is carried out behind all others.
                free = agent.locks().request(&*last).if_available() => drop(free.unwrap()),
            }
            assert_eq!(held.loss(), None);
        });
    }
    while let Some(session) = sessions.join_next().await {
        session.unwrap();
    }
    assert!(begun.elapsed() > Duration::from_secs(5), "{:?}", begun.elapsed());
}
