//! The way in for servers.

use std::collections::VecDeque;

use lockhouse::core::{
    Acquire, AgentId, Command, Effect, EndReason, LockLoss, LossReason, Mode, Name, NameBuf, NewAgent,
    NewRequest, Outcome, Refusal,
};
use lockhouse::{Bucket, House, Notice, Overflowed, Port};

fn join(port: &Port, lease_ms: Option<u64>) -> AgentId {
    port.submit(0, Command::Join(NewAgent { client_id: "outside", lease_ms }));
    match drained(port).pop_back() {
        Some(Notice::Answer { outcome: Outcome::Joined(agent), .. }) => agent,
        other => panic!("{other:?}"),
    }
}

fn drained(port: &Port) -> VecDeque<Notice> {
    let mut notices = VecDeque::new();
    port.drain(&mut notices).unwrap();
    notices
}

fn request(port: &Port, tag: u64, agent: AgentId, acquire: Acquire) {
    port.submit(tag, Command::Request(NewRequest::new(agent, Name::new("n").unwrap(), acquire)));
}

fn bucket() -> Bucket {
    House::new().bucket("default")
}

#[tokio::test]
async fn an_answer_and_a_later_loss_come_in_their_order() {
    let bucket = bucket();
    let (port, thief) = (bucket.port(100), bucket.agent("thief").unwrap());
    let agent = join(&port, None);
    request(&port, 7, agent, Acquire::Wait(Mode::Exclusive));
    let _stolen = thief.locks().request("n").steal().await.unwrap();
    let notices = drained(&port);
    let Notice::Answer { tag: 7, outcome: Outcome::Granted(grant) } = notices[0] else {
        panic!("{notices:?}")
    };
    let loss = LockLoss { name: NameBuf::new("n").unwrap(), reason: LossReason::Stolen };
    let lost = Effect::Lost { agent, request: grant.request, loss: Box::new(loss) };
    assert_eq!(notices[1], Notice::Effect(lost));
}

#[tokio::test]
async fn a_port_hears_of_grants_while_it_waits() {
    let bucket = bucket();
    let (port, local) = (bucket.port(100), bucket.agent("local").unwrap());
    let agent = join(&port, None);
    let held = local.locks().request("n").await.unwrap();
    request(&port, 1, agent, Acquire::Wait(Mode::Exclusive));
    assert!(matches!(drained(&port)[0], Notice::Answer { outcome: Outcome::Queued(_), .. }));
    let waiting = tokio::spawn(async move {
        port.ready().await;
        drained(&port)
    });
    tokio::task::yield_now().await;
    drop(held);
    assert!(matches!(waiting.await.unwrap()[0], Notice::Effect(Effect::Granted { .. })));
}

#[tokio::test]
async fn dropping_a_port_ends_its_agents() {
    let bucket = bucket();
    let (port, local) = (bucket.port(100), bucket.agent("local").unwrap());
    let agent = join(&port, None);
    request(&port, 1, agent, Acquire::Wait(Mode::Exclusive));
    drop(port);
    drop(local.locks().request("n").if_available().await.unwrap());
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_the_agent_and_one_that_is_does_not() {
    let bucket = bucket();
    let port = bucket.port(100);
    let (kept, silent) = (join(&port, Some(400)), join(&port, Some(400)));
    let begun = std::time::Instant::now();
    let mut seen = VecDeque::new();
    while !seen.iter().any(|notice| matches!(notice, Notice::Effect(_))) {
        port.submit(0, Command::Renew { agent: kept });
        port.drain(&mut seen).unwrap();
        _ = tokio::time::timeout(std::time::Duration::from_millis(50), port.ready()).await;
        port.drain(&mut seen).unwrap();
        assert!(begun.elapsed().as_millis() < 1400);
    }
    assert!(begun.elapsed().as_millis() >= 400);
    let ended = Effect::AgentEnded { agent: silent, reason: EndReason::Expired };
    assert!(seen.contains(&Notice::Effect(ended)));
    request(&port, 9, silent, Acquire::Wait(Mode::Exclusive));
    let refused = Notice::Answer { tag: 9, outcome: Outcome::Refused(Refusal::UnknownAgent) };
    assert_eq!(drained(&port).pop_back(), Some(refused));
    request(&port, 10, kept, Acquire::Wait(Mode::Exclusive));
    assert!(matches!(drained(&port)[0], Notice::Answer { tag: 10, outcome: Outcome::Granted(_) }));
}

#[tokio::test]
async fn an_undrained_inbox_overflows_instead_of_growing() {
    let bucket = bucket();
    let port = bucket.port(2);
    for tag in 0..5 {
        port.submit(tag, Command::Snapshot);
    }
    let mut notices = VecDeque::new();
    assert_eq!(port.drain(&mut notices), Err(Overflowed));
    assert_eq!(notices.len(), 2);
}

#[tokio::test]
async fn a_closed_bucket_grants_nothing_but_lets_go() {
    let bucket = bucket();
    let port = bucket.port(100);
    let agent = join(&port, None);
    request(&port, 1, agent, Acquire::Wait(Mode::Exclusive));
    request(&port, 2, agent, Acquire::Wait(Mode::Exclusive));
    bucket.close();
    request(&port, 3, agent, Acquire::Steal);
    let notices = drained(&port);
    let Notice::Answer { outcome: Outcome::Granted(grant), .. } = notices[0] else { panic!("{notices:?}") };
    let refused = Notice::Answer { tag: 3, outcome: Outcome::Refused(Refusal::Closed) };
    assert_eq!(notices[2], refused);
    port.submit(4, Command::Release { request: grant.request });
    assert_eq!(drained(&port), [Notice::Answer { tag: 4, outcome: Outcome::Released { held: true } }]);
}

#[test]
fn the_first_deadline_may_come_while_its_runtime_is_shut_down() {
    struct JoinsAtItsEnd(Port);
    impl Drop for JoinsAtItsEnd {
        fn drop(&mut self) {
            join(&self.0, Some(1000));
        }
    }
    let bucket = bucket();
    let last = JoinsAtItsEnd(bucket.port(100));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let task = runtime.spawn(async move {
        let _last = last;
        std::future::pending::<()>().await;
    });
    drop(runtime);
    assert!(task.is_finished());
    assert!(bucket.is_empty());
}
