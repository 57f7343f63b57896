//! The messages to one agent come in their order, whatever of it waits for the store.

use std::time::Duration;

use lockhouse::core::{
    Acquire, Change, Command, Effect, LossReason, Mode, Name, NewAgent, NewRequest, Outcome,
};
use lockhouse::store::Write;
use lockhouse::{Notice, Port};

use super::gate::{Gate, drained, manual, poll, record, settle};

const WAIT: Acquire = Acquire::Wait(Mode::Exclusive);

fn request(port: &Port, tag: u64, new: NewRequest<'_>) {
    port.submit(tag, Command::Request(new));
}

#[tokio::test]
async fn that_an_agent_has_joined_is_announced_before_its_end() {
    let gate = Gate::new();
    let (clock, options) = manual();
    let house = gate.house_with(options.lease(Duration::from_secs(1))).await;
    let bucket = house.bucket("default");
    gate.shut();
    let port = bucket.port(100);
    port.submit(1, Command::Join(NewAgent { client_id: "far", lease_ms: Some(2000) }));
    clock.advance(Duration::from_secs(2));
    assert_eq!(drained(&port), [], "the store does not know of such a lease");
    gate.open();
    settle().await;
    let notices = drained(&port);
    let [
        Notice::Answer { tag: 1, outcome: Outcome::Joined(joined) },
        Notice::Effect(Effect::AgentEnded { agent, .. }),
    ] = notices[..]
    else {
        panic!("{notices:?}")
    };
    assert_eq!(joined, agent);
}

#[tokio::test]
async fn the_loss_of_a_lock_is_announced_before_the_answer_to_its_release() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    gate.let_through(2);
    owner.lock([record(1)]).await.unwrap();
    let port = bucket.port(100);
    port.submit(1, Command::Join(NewAgent::new("far")));
    let Some(Notice::Answer { outcome: Outcome::Joined(agent), .. }) = drained(&port).pop() else { panic!() };
    request(&port, 2, NewRequest::new(agent, Name::new("warm").unwrap(), WAIT));
    settle().await;
    drained(&port);
    // Its name is on its way to the store, so that the loss of the lock waits.
    let wanted = record(1);
    request(&port, 3, NewRequest::new(agent, wanted.name(), Acquire::Steal));
    let [Notice::Answer { tag: 3, outcome: Outcome::Queued(first) }] = drained(&port)[..] else { panic!() };
    request(&port, 4, NewRequest::new(agent, wanted.name(), Acquire::Steal));
    port.submit(5, Command::Release { request: first });
    let other = Name::new("other").unwrap();
    request(&port, 6, NewRequest::new(agent, other, WAIT));
    let notices = drained(&port);
    assert!(
        matches!(notices[..], [Notice::Answer { tag: 4, .. }, Notice::Answer { tag: 6, .. }]),
        "{notices:?}"
    );
    gate.open();
    settle().await;
    let notices = drained(&port);
    let received: Vec<_> = notices
        .iter()
        .filter(|notice| match notice {
            Notice::Effect(Effect::Granted { grant, .. }) => grant.request == first,
            Notice::Effect(Effect::Lost { request, .. }) => *request == first,
            notice => matches!(notice, Notice::Answer { .. }),
        })
        .collect();
    assert!(
        matches!(
            received[..],
            [
                Notice::Effect(Effect::Granted { .. }),
                Notice::Effect(Effect::Lost { loss, .. }),
                Notice::Answer { tag: 5, outcome: Outcome::Released { held: false } },
            ] if loss.reason == LossReason::Stolen
        ),
        "{notices:?}"
    );
    // Once it was announced, nothing waits behind it.
    gate.shut();
    let mut unlock = Box::pin(owner.lock([record(2)]));
    assert!(poll(&mut unlock).await.is_pending());
    port.submit(7, Command::Release { request: first });
    let released = Notice::Answer { tag: 7, outcome: Outcome::Released { held: false } };
    assert_eq!(drained(&port), [released]);
}

#[tokio::test]
async fn an_owner_that_is_found_by_its_key_is_answered_once_it_is_durable() {
    let gate = Gate::new();
    let (_house, bucket, _owner) = gate.shut_house().await;
    let open =
        || Box::pin(bucket.owners().open("Bob", Duration::from_secs(60)).idempotency_key("k").into_future());
    let mut first = open();
    assert!(poll(&mut first).await.is_pending());
    // The caller has gone, and the owner stays for the one that asks again.
    drop(first);
    let mut again = open();
    assert!(poll(&mut again).await.is_pending());
    gate.open();
    let bob = again.await.unwrap();
    assert_eq!(open().await.unwrap().id(), bob.id());
    let opened = |write: &Write| matches!(write, Write::Change { change: Change::OwnerOpened(_), .. });
    assert_eq!(gate.writes().iter().filter(|write| opened(write)).count(), 1);
}
