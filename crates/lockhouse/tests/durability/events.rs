//! No reader is told of what is not durable; events come in their order, once, and with a gap where some are
//! missing. Refusals go into the history and make no commit.

use std::collections::HashSet;
use std::time::Duration;

use lockhouse::core::{Discipline, EventKind};
use lockhouse::store::{CommitOutcome, HistoryFilter, StoreUnavailable, Write};
use lockhouse::{
    Bucket, BucketKey, EventBounds, EventFilter, EventItem, Events, EventsFrom, House, MemoryBudget, NameBuf,
    Options, StoreState,
};

use super::gate::{Gate, manual, poll, record, settle};

/// What a reader gets now, in words.
async fn now(events: &mut Events) -> Vec<String> {
    let mut found = Vec::new();
    while let std::task::Poll::Ready(item) = poll(&mut Box::pin(events.next())).await {
        found.push(match item {
            Some(Ok(EventItem::Event(event))) => {
                let kind = match event.kind {
                    EventKind::Waiting => "waiting",
                    EventKind::Granted => "granted",
                    EventKind::Ended(_) => "ended",
                    EventKind::Refused(_) => "refused",
                    EventKind::Assigned => "assigned",
                    EventKind::Unassigned => "unassigned",
                    EventKind::OwnerOpened => "opened",
                    EventKind::OwnerClosed(_) => "closed",
                };
                let name =
                    event.name.map_or_else(String::new, |name| format!(" {}", name.as_name().display()));
                format!("{kind}{name} {}", event.client_id)
            }
            Some(Ok(EventItem::Gap)) => "gap".to_owned(),
            Some(Ok(EventItem::State(_, state))) => {
                format!("state {} {}", state.held.len(), state.pending.len())
            }
            Some(Err(error)) => format!("{error}"),
            None => {
                found.push("over".to_owned());
                return found;
            }
        });
    }
    found
}

fn all(bucket: &Bucket) -> Events {
    bucket.events(EventsFrom::Now, EventFilter::default())
}

#[tokio::test]
async fn no_event_comes_before_it_is_durable_and_none_passes_another() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let agent = bucket.agent("web").unwrap();
    let mut events = all(&bucket);
    drop(agent.locks().request("early").await.unwrap());
    assert_eq!(now(&mut events).await, ["granted early web", "ended early web"]);

    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    // As a snapshot, what comes behind the lock waits for it, of whichever name.
    drop(agent.locks().request("late").await.unwrap());
    assert_eq!(now(&mut events).await, Vec::<String>::new());
    let mut state = bucket.events(EventsFrom::State, EventFilter::default());
    assert_eq!(now(&mut state).await, Vec::<String>::new());
    gate.open();
    lock.await.unwrap();
    let durable = ["granted record/1 Ada", "granted late web", "ended late web"];
    assert_eq!(now(&mut events).await, durable);
    assert_eq!(now(&mut state).await, ["state 1 0"], "what the state has is not told again");
}

#[tokio::test]
async fn what_will_never_be_durable_is_sent_to_no_reader_and_the_stream_ends() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let mut events = all(&bucket);
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    gate.then([CommitOutcome::Fenced]);
    gate.open();
    assert!(lock.await.is_err());
    assert_eq!(now(&mut events).await, ["over"]);
}

#[tokio::test]
async fn a_reader_learns_of_the_end_whatever_its_filter_leaves_of_what_came_before() {
    let gate = Gate::new();
    let house = gate.house_with(Options::new().events(EventBounds::DEFAULT)).await;
    let bucket = house.bucket("default");
    let agent = bucket.agent("web").unwrap();
    let filter = EventFilter { name: Some(NameBuf::new("a").unwrap()), ..EventFilter::default() };
    let mut events = bucket.events(EventsFrom::Now, filter);
    {
        let mut next = Box::pin(events.next());
        assert!(poll(&mut next).await.is_pending());
        // More than one look finds, what the filter leaves out, and the end: the reader is woken once.
        for _ in 0..32 {
            drop(agent.locks().request("a").await.unwrap());
        }
        drop(agent.locks().request("b").await.unwrap());
        house.close().await;
        assert!(matches!(next.await, Some(Ok(EventItem::Event(_)))));
    }
    let rest = now(&mut events).await;
    assert_eq!((rest.len(), rest.last().map(String::as_str)), (64, Some("over")));
    events.over().await;
}

#[tokio::test]
async fn a_reader_that_falls_behind_gets_a_gap_then_the_state_and_then_all_that_comes() {
    let gate = Gate::new();
    let bounds = EventBounds { events: 4, ..EventBounds::DEFAULT };
    let house = gate.house_with(Options::new().events(bounds)).await;
    let bucket = house.bucket("default");
    let agent = bucket.agent("web").unwrap();
    let (mut slow, mut other) = (all(&bucket), all(&bucket));
    let held = agent.locks().request("held").await.unwrap();
    let position = {
        assert_eq!(now(&mut other).await, ["granted held web"]);
        other.position()
    };
    for _ in 0..3 {
        drop(agent.locks().request("x").await.unwrap());
    }
    assert_eq!(now(&mut slow).await, ["gap", "state 1 0"]);
    let resumed = bucket.events(EventsFrom::After(position), EventFilter::default());
    assert_eq!(now(&mut { resumed }).await, ["gap", "state 1 0"]);
    drop(held);
    assert_eq!(now(&mut slow).await, ["ended held web"]);
    let behind = slow.position();
    let filter = EventFilter { discipline: Some(Discipline::Claim), ..EventFilter::default() };
    let mut claims = bucket.events(EventsFrom::After(behind), filter);
    drop(agent.locks().request("y").await.unwrap());
    assert_eq!(now(&mut claims).await, Vec::<String>::new());
    // A place that is still to come is one of another life.
    let ahead = lockhouse::EventPosition { number: behind.number + 100, ..behind };
    let mut ahead = bucket.events(EventsFrom::After(ahead), EventFilter::default());
    assert_eq!(now(&mut ahead).await[0], "gap");
}

#[tokio::test]
async fn events_of_a_bucket_that_was_forgotten_go_on_where_they_were() {
    let gate = Gate::new();
    let house = gate.house_with(Options::new().events(EventBounds::DEFAULT)).await;
    let used = async |label: &str| {
        let bucket = house.bucket("default");
        let agent = bucket.agent(label).unwrap();
        drop(agent.locks().request("n").await.unwrap());
        all(&bucket).position()
    };
    let position = used("one").await;
    settle().await;
    assert!(house.bucket_in_use(&BucketKey::from("default")).is_none());
    used("two").await;
    let bucket = house.bucket("default");
    let mut events = bucket.events(EventsFrom::After(position), EventFilter::default());
    assert_eq!(now(&mut events).await, ["granted n two", "ended n two"]);
    let history = house.web_history(bucket.key(), None, 10, &HistoryFilter::default());
    let who: Vec<_> = history.entries.iter().map(|held| &*held.entry.who).collect();
    assert_eq!((who, history.has_more), (vec!["two", "one"], false));
}

#[tokio::test]
async fn what_is_kept_gives_way_once_the_tenant_has_half_of_its_memory() {
    let gate = Gate::new();
    let budget = MemoryBudget::new(64 << 10);
    let options = Options::new().events(EventBounds::DEFAULT).memory_budget(&budget);
    let house = gate.house_with(options).await;
    let bucket = house.bucket("default");
    let agent = bucket.agent("web").unwrap();
    let name = "n".repeat(1000);
    for _ in 0..1000 {
        drop(agent.locks().request(&*name).await.unwrap());
    }
    let tenant = bucket.key().tenant();
    let taken = budget.taken(tenant);
    assert!((8 << 10..=40 << 10).contains(&taken), "{taken}");
    let mut of_other = budget.of(tenant);
    assert!(of_other.reserve(16 << 10).is_ok(), "half is left to locks");
}

#[tokio::test]
async fn a_refusal_is_written_with_the_next_commit_and_does_not_make_one() {
    let gate = Gate::new();
    let house = gate.house_with(Options::new().events(EventBounds::DEFAULT)).await;
    let bucket = house.bucket("default");
    let (ada, bob) = (
        bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap(),
        bucket.owners().open("Bob", Duration::from_secs(3600)).await.unwrap(),
    );
    ada.lock([record(1)]).await.unwrap();
    settle().await;
    gate.batches();
    gate.shut();
    for _ in 0..1000 {
        // The answer waits for no store.
        bob.lock([record(1)]).await.unwrap_err();
    }
    settle().await;
    assert_eq!(gate.batches().len(), 0);
    gate.open();
    ada.lock([record(2)]).await.unwrap();
    settle().await;
    let refused: Vec<_> = gate
        .writes()
        .into_iter()
        .filter_map(|write| match write {
            Write::Refused { refusal, .. } => Some((refusal.who.to_string(), refusal.count)),
            _ => None,
        })
        .collect();
    assert_eq!(refused, [("Bob".to_owned(), 1000)]);

    // Those of the same minute are one more entry, at the latest when the house is closed.
    bob.lock([record(1)]).await.unwrap_err();
    ada.lock([record(3)]).await.unwrap();
    let is_refusal = |write: &Write| matches!(write, Write::Refused { .. });
    assert!(!gate.writes().iter().any(is_refusal));
    house.close().await;
    assert!(gate.writes().iter().any(is_refusal));
}

#[tokio::test(start_paused = true)]
async fn refusals_for_which_no_commit_comes_have_one_of_their_own_or_are_left_out() {
    let gate = Gate::new();
    let house = refused(&gate, MANY).await;
    let patience = EventBounds::REFUSALS_PATIENCE;
    tokio::time::sleep(patience - Duration::from_millis(1)).await;
    assert_eq!(gate.batches().len(), 0);
    tokio::time::sleep(Duration::from_millis(2)).await;
    let batches = gate.batches();
    let [batch] = &*batches else { panic!("{batches:?}") };
    assert_eq!(batch.writes.len(), EventBounds::REFUSALS_WRITTEN);
    assert!(batch.writes.iter().all(|write| matches!(write, Write::Refused { .. })));

    let no_space = StoreUnavailable::NoSpace { place: "the disk".into() };
    gate.then([CommitOutcome::Refused(no_space)]);
    tokio::time::sleep(patience).await;
    assert_eq!(gate.batches().len(), 1);
    assert_eq!(house.refusals_left_out(), u64::from(MANY) - EventBounds::REFUSALS_WRITTEN as u64);
    assert_eq!(house.store_state(), StoreState::Serving, "nobody else is refused for it");
    tokio::time::sleep(100 * patience).await;
    assert_eq!(gate.batches().len(), 0);
}

#[tokio::test]
async fn what_is_refused_as_the_bucket_recovers_is_not_in_the_history() {
    const LEASE: Duration = Duration::from_secs(10);
    let gate = Gate::new();
    let (clock, options) = manual();
    let options = options.lease(LEASE).always_recover(true).events(EventBounds::DEFAULT);
    let house = gate.house_with(options).await;
    let bucket = house.bucket("default");
    let claim = async |name: &'static str, who: &'static str| {
        bucket.claims().claim(name, who, Duration::from_secs(60)).await
    };
    let mut events = all(&bucket);
    claim("seat", "Ada").await.unwrap_err();
    assert_eq!(now(&mut events).await, ["refused seat Ada"]);
    clock.advance(LEASE);
    settle().await;
    claim("seat", "Ada").await.unwrap();
    claim("seat", "Bob").await.unwrap_err();
    claim("other seat", "Bob").await.unwrap();
    let refused = gate.writes().into_iter().filter_map(|write| match write {
        Write::Refused { refusal, .. } => Some(refusal.who.to_string()),
        _ => None,
    });
    assert_eq!(refused.collect::<Vec<_>>(), ["Bob"]);
}

#[tokio::test]
async fn a_reader_that_keeps_up_has_no_gap_though_the_tenant_has_half_of_its_memory() {
    let gate = Gate::new();
    let budget = MemoryBudget::new(256 << 10);
    let options = Options::new().events(EventBounds::DEFAULT).memory_budget(&budget);
    let house = gate.house_with(options).await;
    let bucket = house.bucket("default");
    let agent = bucket.agent("web").unwrap();
    let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    let mut locks = budget.of(bucket.key().tenant());
    locks.reserve(160 << 10).unwrap();
    let mut events = all(&bucket);
    for _ in 0..100 {
        drop(agent.locks().request("n").await.unwrap());
        assert_eq!(now(&mut events).await, ["granted n web", "ended n web"]);
    }
    // So it is with what waits for the store.
    gate.shut();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    drop(agent.locks().request("n").await.unwrap());
    gate.open();
    lock.await.unwrap();
    assert_eq!(now(&mut events).await, ["granted record/1 Ada", "granted n web", "ended n web"]);
}

#[tokio::test]
async fn what_waits_for_the_store_counts_and_gives_way_once_the_tenant_has_half_of_its_memory() {
    let gate = Gate::new();
    let budget = MemoryBudget::new(256 << 10);
    let options = Options::new().events(EventBounds::DEFAULT).memory_budget(&budget);
    let house = gate.house_with(options).await;
    let bucket = house.bucket("default");
    let agent = bucket.agent("web").unwrap();
    let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    let mut events = all(&bucket);
    settle().await;
    gate.shut();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let name = "n".repeat(1000);
    for _ in 0..1000 {
        drop(agent.locks().request(&*name).await.unwrap());
    }
    let taken = budget.taken(bucket.key().tenant());
    assert!((64 << 10..=160 << 10).contains(&taken), "{taken}");
    gate.open();
    lock.await.unwrap();
    assert_eq!(now(&mut events).await, ["gap", "state 1 0"]);
}

#[tokio::test]
async fn an_event_that_is_larger_than_all_that_may_wait_is_a_gap() {
    let gate = Gate::new();
    let bounds = EventBounds { event_bytes: 100, ..EventBounds::DEFAULT };
    let house = gate.house_with(Options::new().events(bounds)).await;
    let bucket = house.bucket("default");
    let agent = bucket.agent("web").unwrap();
    let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    let mut events = all(&bucket);
    settle().await;
    gate.shut();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    for _ in 0..3 {
        drop(agent.locks().request("n").await.unwrap());
    }
    gate.open();
    lock.await.unwrap();
    assert_eq!(now(&mut events).await, ["gap", "state 1 0"]);
}

#[tokio::test]
async fn the_events_of_a_house_without_a_store_end_with_it() {
    let house = House::new();
    let bucket = house.bucket("read");
    let quiet = house.bucket("quiet");
    let mut events = all(&bucket);
    house.close().await;
    assert_eq!(now(&mut events).await, ["over"]);
    for bucket in [bucket, quiet, house.bucket("late")] {
        assert_eq!(now(&mut all(&bucket)).await, ["over"]);
    }
}

/// A house in which each of so many owners was refused a lock, with nothing written since.
async fn refused(gate: &std::sync::Arc<Gate>, owners: u32) -> House {
    let house = gate.house_with(Options::new().events(EventBounds::DEFAULT)).await;
    let bucket = house.bucket("default");
    let open = async |label: String| bucket.owners().open(&*label, Duration::from_secs(3600)).await.unwrap();
    open("Ada".to_owned()).await.lock([record(1)]).await.unwrap();
    let mut others = Vec::new();
    for number in 0..owners {
        others.push(open(format!("Bob {number}")).await);
    }
    settle().await;
    gate.batches();
    for other in others {
        other.lock([record(1)]).await.unwrap_err();
    }
    settle().await;
    assert_eq!(gate.batches().len(), 0);
    house
}

/// More than go with one commit.
const MANY: u32 = 100;

#[tokio::test]
async fn a_house_that_is_closed_writes_refusals_in_one_commit_before_its_last_and_counts_the_rest() {
    let gate = Gate::new();
    let house = refused(&gate, MANY).await;
    house.close().await;
    let batches = gate.batches();
    let [refusals, last] = &*batches else { panic!("{batches:?}") };
    assert_eq!(last.writes, [Write::StoppedClean]);
    let of: HashSet<_> = refusals
        .writes
        .iter()
        .map(|write| match write {
            Write::Refused { refusal, .. } => refusal.who.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(of.len(), EventBounds::REFUSALS_WRITTEN);
    assert_eq!(house.refusals_left_out(), u64::from(MANY) - of.len() as u64);
}

#[tokio::test]
async fn refusals_for_which_there_is_no_space_do_not_keep_a_house_from_its_last_write() {
    let gate = Gate::new();
    let house = refused(&gate, MANY).await;
    let no_space = StoreUnavailable::NoSpace { place: "the disk".into() };
    gate.then([CommitOutcome::Refused(no_space)]);
    house.close().await;
    let batches = gate.batches();
    let [refusals, last] = &*batches else { panic!("{batches:?}") };
    assert!(refusals.writes.iter().all(|write| matches!(write, Write::Refused { .. })));
    assert_eq!((last.first_seq, &last.writes), (refusals.first_seq, &vec![Write::StoppedClean]));
    assert_eq!(house.refusals_left_out(), u64::from(MANY));
}
