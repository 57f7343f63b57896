//! Everything that waits for the store has a bound in bytes.

use std::task::Poll;

use lockhouse::core::{
    Acquire, AgentId, Command, Effect, FencingToken, Mode, Name, NameBuf, NewAgent, NewRequest, Outcome,
    Refusal, RequestId,
};
use lockhouse::{LockError, Notice, Owner, Port, RequestError, StoreError};

use super::gate::{Gate, drained, poll, record, settle};

/// The bound of a bucket.
const WAITING_BYTES: usize = 16 << 20;

const WAIT: Acquire = Acquire::Wait(Mode::Exclusive);

fn join(port: &Port) -> AgentId {
    port.submit(0, Command::Join(NewAgent::new("far")));
    match drained(port).pop() {
        Some(Notice::Answer { outcome: Outcome::Joined(agent), .. }) => agent,
        other => panic!("{other:?}"),
    }
}

/// Makes a request, which the name makes wait or which is refused as too much waits.
fn request(port: &Port, agent: AgentId, name: Name<'_>, acquire: Acquire) -> Result<RequestId, usize> {
    port.submit(1, Command::Request(NewRequest::new(agent, name, acquire)));
    match drained(port).pop() {
        Some(Notice::Answer { tag: 1, outcome: Outcome::Queued(request) }) => Ok(request),
        Some(Notice::Answer { tag: 1, outcome: Outcome::Refused(Refusal::BudgetExceeded { limit }) }) => {
            Err(limit)
        }
        other => panic!("{other:?}"),
    }
}

/// A name of 4000 bytes.
fn long(id: usize) -> NameBuf {
    NameBuf::new(&format!("{id:04000}")).unwrap()
}

/// A port whose grants need not wait, and the name of a lock whose release is on its way to the store.
async fn with_a_name_under_way(gate: &Gate, owner: &Owner, port: &Port) -> AgentId {
    gate.let_through(1);
    owner.lock([record(1)]).await.unwrap();
    let agent = join(port);
    gate.let_through(1);
    port.submit(0, Command::Request(NewRequest::new(agent, Name::new("warm").unwrap(), WAIT)));
    settle().await;
    drained(port);
    let wanted = record(1);
    let mut unlock = Box::pin(owner.unlock(wanted.name(), None));
    assert!(poll(&mut unlock).await.is_pending());
    agent
}

#[tokio::test(start_paused = true)]
async fn changes_and_their_names_count_and_commands_are_refused_where_too_much_waits() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let mut names: Vec<_> = (0..10_000).map(long).collect();
    let mut waiting = Vec::new();
    let refused = loop {
        assert!(!names.is_empty(), "{} commands wait", waiting.len());
        let some: Vec<_> = names.split_off(names.len() - 50);
        let mut lock = Box::pin({
            let owner = owner.clone();
            async move {
                let locks: Vec<_> = some.iter().map(|name| (name.as_name(), Mode::Exclusive)).collect();
                owner.lock_names(&locks, None).await.map(|locks| locks.len())
            }
        });
        match poll(&mut lock).await {
            Poll::Pending => waiting.push(lock),
            Poll::Ready(answer) => break answer,
        }
    };
    assert!(matches!(refused, Err(LockError::Store(StoreError::Unavailable { .. }))), "{refused:?}");
    let (least, most) = (waiting.len() * 50 * 4000, (waiting.len() - 1) * 50 * 4000);
    assert!(most < WAITING_BYTES && least > WAITING_BYTES * 9 / 10, "{} commands wait", waiting.len());

    // What rests on that is refused, and the rest goes on.
    let agent = bucket.agent("web").unwrap();
    for request in [agent.locks().request(&long(9_999)), agent.locks().request(&long(9_999)).steal()] {
        let refused = poll(&mut request.into_future()).await;
        assert!(matches!(refused, Poll::Ready(Err(RequestError::Quota(_)))), "{refused:?}");
    }
    let shown = poll(&mut Box::pin(agent.locks().query())).await;
    assert!(matches!(shown, Poll::Ready(Err(RequestError::StoreUnavailable { .. }))), "{shown:?}");
    drop(agent.locks().request("other").await.unwrap());
    drop(agent.locks().request("other").steal().await.unwrap());

    gate.open();
    for lock in waiting {
        assert_eq!(lock.await, Ok(50));
    }
    assert!(owner.unlock_all().await.unwrap() > 0);
}

#[tokio::test(start_paused = true)]
async fn grants_that_wait_have_a_bound_and_those_given_back_are_not_announced() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let port = bucket.port(1000);
    let agent = with_a_name_under_way(&gate, &owner, &port).await;
    let (freed, mut made) = (record(1), 0);
    let limit = loop {
        match request(&port, agent, freed.name(), WAIT) {
            Ok(request) => port.submit(2, Command::Release { request }),
            Err(limit) => break limit,
        }
        made += 1;
        assert!(made * size_of::<(FencingToken, RequestId)>() < WAITING_BYTES, "they are not counted");
        let released = Notice::Answer { tag: 2, outcome: Outcome::Released { held: true } };
        assert_eq!(drained(&port), [released]);
    };
    assert_eq!(limit, WAITING_BYTES);
    port.submit(3, Command::Request(NewRequest::new(agent, Name::new("other").unwrap(), WAIT)));
    assert!(matches!(drained(&port)[..], [Notice::Answer { tag: 3, outcome: Outcome::Granted(_) }]));
    gate.open();
    settle().await;
    assert_eq!(drained(&port), [], "there would have been {made}, and the inbox has room for 1000");
}

#[tokio::test(start_paused = true)]
async fn steals_whose_losses_wait_have_a_bound() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let port = bucket.port(1 << 20);
    let agent = with_a_name_under_way(&gate, &owner, &port).await;
    let (freed, mut made) = (record(1), 0);
    while request(&port, agent, freed.name(), Acquire::Steal).is_ok() {
        made += 1;
        assert!(made * size_of::<Effect>() < WAITING_BYTES, "they are not counted");
    }
    gate.open();
    settle().await;
    let lost = drained(&port).into_iter().filter(|it| matches!(it, Notice::Effect(Effect::Lost { .. })));
    assert_eq!(lost.count(), made - 1, "each victim learns of it");
}

#[tokio::test(start_paused = true)]
async fn requests_in_the_queue_of_a_name_under_way_count_for_what_a_release_sets_off() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let port = bucket.port(1 << 20);
    let agent = with_a_name_under_way(&gate, &owner, &port).await;
    let freed = record(1);
    let (first, mut queued) = (request(&port, agent, freed.name(), WAIT).unwrap(), 0);
    while request(&port, agent, freed.name(), Acquire::Wait(Mode::Shared)).is_ok() {
        queued += 1;
        assert!(queued * size_of::<Effect>() < WAITING_BYTES, "they are not counted");
    }
    // One release sets all of them off.
    port.submit(2, Command::Release { request: first });
    gate.open();
    settle().await;
    let granted =
        drained(&port).into_iter().filter(|it| matches!(it, Notice::Effect(Effect::Granted { .. })));
    assert_eq!(granted.count(), queued);
}

#[tokio::test(start_paused = true)]
async fn a_longer_lease_is_refused_where_too_much_waits() {
    let gate = Gate::new();
    let house = gate.house().await;
    let bucket = house.bucket("default");
    gate.shut();
    let (mut joined, mut refused) = (0, 0);
    while refused == 0 {
        // The agents of a port that is dropped end, and what they are to be told waits on.
        let port = bucket.port(10);
        port.submit(1, Command::Join(NewAgent { client_id: "far", lease_ms: Some(60_000) }));
        refused = drained(&port).len();
        joined += 1;
        assert!(joined * size_of::<Effect>() < WAITING_BYTES, "they are not counted");
    }
}
