//! Several nodes over one PostgreSQL: they share the slots, move them, and outlive each other.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../tests/support/postgres.rs"]
mod server;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use lockhouse::core::{Acquire, AgentId, Command, NewAgent, NewReclaim, NewRequest, Outcome};
use lockhouse::fleet::{
    BucketPlace, FleetNode, NodeError, NodeOptions, NodePhase, NotReleased, Peers, Timing, owner_of,
};
use lockhouse::store::{JoinError, NodeRow, PostgresFleet, PostgresOptions, Slot, token_floor};
use lockhouse::{BucketKey, FencingToken, House, ManualClock, Mode, Name, Notice, Options, Port, StoreState};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use server::Server;

const SLOTS: u16 = 16;
const SLOT_LEASE: Duration = Duration::from_millis(1500);
const LEASE: Duration = Duration::from_secs(2);
/// Long enough for whatever happens in a test.
const LONG: Duration = Duration::from_secs(120);

/// The nodes of a test by their labels, which reach each other within the process.
#[derive(Clone, Debug, Default)]
struct InProcess(Arc<Mutex<HashMap<String, FleetNode>>>);

impl Peers for InProcess {
    fn ask<'a>(
        &'a self,
        node: &'a NodeRow,
        slot: Slot,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        let peer = self.0.lock().unwrap().get(&*node.label).cloned();
        Box::pin(async move {
            let peer = peer.ok_or("it is not there")?;
            peer.release(slot).await.map_err(|why| why.to_string())
        })
    }
}

impl InProcess {
    async fn start(&self, server: &Server, label: &str) -> Result<FleetNode, NodeError> {
        let options = NodeOptions::new(label, &format!("http://{label}"));
        self.start_as(server, options.houses(Options::new().lease(LEASE))).await
    }

    /// With a lease of its sessions.
    async fn start_with(&self, server: &Server, label: &str, lease: Duration) -> FleetNode {
        let options = NodeOptions::new(label, "").houses(Options::new().lease(lease));
        self.start_as(server, options).await.unwrap()
    }

    async fn start_as(&self, server: &Server, options: NodeOptions) -> Result<FleetNode, NodeError> {
        let postgres = PostgresOptions::default().slots(SLOTS).statement_timeout(SLOT_LEASE / 4);
        let fleet = PostgresFleet::open(&server.address(), postgres).await.unwrap();
        let options = options.timing(Timing::of(SLOT_LEASE));
        let node = FleetNode::start(Arc::new(fleet), Arc::new(self.clone()), options).await?;
        self.0.lock().unwrap().insert(node.label().to_owned(), node.clone());
        Ok(node)
    }
}

/// Where each slot is served.
fn served(nodes: &[&FleetNode]) -> BTreeMap<Slot, Vec<String>> {
    let mut served: BTreeMap<_, Vec<_>> = (0..SLOTS).map(|slot| (Slot::new(slot), Vec::new())).collect();
    for node in nodes {
        let view = node.view();
        let serving = view.slots.iter().filter(|slot| matches!(slot.state, "serving" | "recovering"));
        serving.for_each(|slot| served.get_mut(&slot.slot).unwrap().push(node.label().to_owned()));
    }
    served
}

/// Waits until every slot is served by the one of these nodes that it is for.
async fn settled(nodes: &[&FleetNode]) {
    let labels: Vec<&str> = nodes.iter().map(|node| node.label()).collect();
    let settled = async {
        let is_at_home = |(slot, by): (&Slot, &Vec<String>)| by[..] == [owner_of(*slot, &labels).unwrap()];
        while !served(nodes).iter().all(is_at_home) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(30), settled).await.unwrap_or_else(|_| panic!("{:?}", served(nodes)));
}

/// A bucket of that slot.
fn bucket_of(node: &FleetNode, slot: Slot) -> BucketKey {
    let names = (0..).map(|number| BucketKey::from(&*format!("bucket-{number}")));
    names.into_iter().find(|key| node.slot_of(key) == slot).unwrap()
}

fn slots_of(node: &FleetNode, nodes: &[&FleetNode]) -> Vec<Slot> {
    let served = served(nodes).into_iter().filter(|(_, by)| by[..] == [node.label()]);
    served.map(|(slot, _)| slot).collect()
}

fn house(node: &FleetNode, key: &BucketKey) -> House {
    match node.find(key) {
        BucketPlace::Here(house) => house,
        place => panic!("{place:?}"),
    }
}

/// The house, once the bucket is there.
async fn house_in_time(node: &FleetNode, key: &BucketKey) -> House {
    timeout(Duration::from_secs(30), async {
        loop {
            match node.find_in_time(key, Duration::from_secs(1)).await {
                BucketPlace::Here(house) => return house,
                BucketPlace::There(_) => sleep(Duration::from_millis(20)).await,
                BucketPlace::Moving => {}
            }
        }
    })
    .await
    .unwrap()
}

/// A session of a client.
struct Session {
    port: Port,
    agent: AgentId,
}

impl Session {
    async fn begin(house: &House, key: &BucketKey, secret: &str) -> Self {
        Self::begin_with(LEASE, house, key, secret).await
    }

    async fn begin_with(lease: Duration, house: &House, key: &BucketKey, secret: &str) -> Self {
        let port = house.bucket(key.clone()).port_of_session(secret, 1000);
        let lease_ms = Some(lease.as_millis() as u64);
        port.submit(1, Command::Join(NewAgent { client_id: "c", lease_ms }));
        let Outcome::Joined(agent) = outcome(&port, 1).await else { panic!("no agent") };
        Self { port, agent }
    }

    async fn lock(&self, name: &str) -> (FencingToken, String) {
        let name = Name::new(name).unwrap();
        let request = NewRequest::new(self.agent, name, Acquire::Wait(Mode::Exclusive));
        self.port.submit(2, Command::Request(request));
        let grant = tokio::select! {
            grant = granted(&self.port) => grant,
            never = self.stay_alive() => match never {},
        };
        (grant.token, self.port.ticket(grant.request).unwrap())
    }

    async fn stay_alive(&self) -> std::convert::Infallible {
        loop {
            sleep(LEASE / 10).await;
            self.port.submit(9, Command::Renew { agent: self.agent });
        }
    }

    /// The token with which the lock is held again.
    async fn reclaim(&self, name: &str, (token, ticket): &(FencingToken, String)) -> FencingToken {
        let name = Name::new(name).unwrap();
        let reclaim = NewReclaim {
            agent: self.agent,
            name,
            mode: Mode::Exclusive,
            token: *token,
            max_hold_ms: None,
            metadata: None,
        };
        assert!(self.port.reclaim(3, reclaim, ticket));
        granted(&self.port).await.token
    }
}

async fn notices(port: &Port) -> VecDeque<Notice> {
    timeout(Duration::from_secs(30), port.ready()).await.unwrap();
    let mut notices = VecDeque::new();
    port.drain(&mut notices).unwrap();
    notices
}

async fn outcome(port: &Port, tag: u64) -> Outcome {
    loop {
        for notice in notices(port).await {
            match notice {
                Notice::Answer { tag: known, outcome } if known == tag => return outcome,
                _ => {}
            }
        }
    }
}

async fn granted(port: &Port) -> lockhouse::core::Grant {
    loop {
        for notice in notices(port).await {
            match notice {
                Notice::Answer { outcome: Outcome::Granted(grant), .. }
                | Notice::Effect(lockhouse::core::Effect::Granted { grant, .. }) => return grant,
                Notice::Answer { outcome: Outcome::Queued(_) | Outcome::Renewed { .. }, .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_share_the_slots_and_a_node_that_leaves_hands_on_its_own() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let b = peers.start(&server, "b").await.unwrap();
    let c = peers.start(&server, "c").await.unwrap();
    settled(&[&a, &b, &c]).await;
    // Each gets to know where the buckets of the others are.
    for slot in (0..SLOTS).map(Slot::new) {
        let (key, by) = (bucket_of(&a, slot), served(&[&a, &b, &c])[&slot][0].clone());
        for node in [&a, &b, &c] {
            // By its next poll.
            poll_until(|| match node.find(&key) {
                BucketPlace::Here(_) => node.label() == by,
                BucketPlace::There(other) => *other.label == *by,
                BucketPlace::Moving => false,
            })
            .await;
        }
    }
    let of_b = slots_of(&b, &[&a, &b, &c]);
    let begun = Instant::now();
    b.leave().await;
    assert_eq!(b.phase(), NodePhase::Left);
    settled(&[&a, &c]).await;
    println!("the slots of a node that has left are served after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let now = served(&[&a, &c]);
    assert!(of_b.iter().all(|slot| now[slot].len() == 1));
    // It still knows where they are.
    let key = bucket_of(&b, of_b[0]);
    poll_until(|| matches!(b.find(&key), BucketPlace::There(node) if *node.label == *now[&of_b[0]][0])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_with_what_is_held_in_it_and_only_that_waits() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start_with(&server, "a", LONG).await;
    settled(&[&a]).await;
    let keys: Vec<_> = (0..SLOTS).map(|slot| bucket_of(&a, Slot::new(slot))).collect();
    let mut held = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let session = Session::begin_with(LONG, &house(&a, key), key, &format!("secret-{number}")).await;
        let lock = session.lock("held").await;
        held.push((session, lock));
    }
    let b = peers.start_with(&server, "b", LONG).await;
    settled(&[&a, &b]).await;
    let moved = slots_of(&b, &[&a, &b]);
    for slot in moved {
        let (key, house_of_b) = (&keys[usize::from(slot.get())], house(&b, &keys[usize::from(slot.get())]));
        let (former, lock) = &held[usize::from(slot.get())];
        assert!(matches!(former.port.bucket().ended().await, StoreState::Closed(_)));
        assert!(house_of_b.waits_for_holders());
        assert_eq!(b.release(slot).await, Err(NotReleased::Recovers));
        let other = Session::begin_with(LONG, &house_of_b, key, "other").await;
        let begun = Instant::now();
        let (higher, _) = other.lock("free").await;
        assert!(begun.elapsed() < LONG / 10 && higher > lock.0, "{:?}", begun.elapsed());
        let name = Name::new("held").unwrap();
        let request = NewRequest::new(other.agent, name, Acquire::IfAvailable(Mode::Exclusive));
        other.port.submit(4, Command::Request(request));
        assert!(matches!(outcome(&other.port, 4).await, Outcome::Refused(_)));
        let returned = Session::begin_with(LONG, &house_of_b, key, "new").await;
        assert_eq!(returned.reclaim("held", lock).await, lock.0);
    }
}

/// A node in a runtime of its own, which ends as a process does.
struct Process {
    node: FleetNode,
    runtime: Option<Runtime>,
}

impl Process {
    async fn start(peers: &InProcess, server: &Arc<Server>, label: &'static str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (peers, server) = (peers.clone(), server.clone());
        let node = runtime.spawn(async move { peers.start(&server, label).await.unwrap() }).await.unwrap();
        Self { node, runtime: Some(runtime) }
    }

    fn kill(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_others_go_on_and_grant_what_was_not_held_first() {
    let (server, peers) = (Arc::new(Server::start(&[])), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    let mut b = Process::start(&peers, &server, "b").await;
    settled(&[&a, &b.node]).await;
    let of_b = slots_of(&b.node, &[&a, &b.node]);
    let (announced, quiet) = (bucket_of(&a, of_b[0]), bucket_of(&a, of_b[1]));
    let session = Session::begin(&house(&b.node, &announced), &announced, "s").await;
    let lock = session.lock("held").await;
    let claims = house(&b.node, &quiet).bucket(quiet.clone()).claims();
    let claim = claims.claim("seat", "ada", Duration::from_secs(60)).await.unwrap();

    let confirmed = b.node.view();
    let killed = Instant::now();
    b.kill();
    assert!(confirmed.own.is_some());
    let house_of_quiet = house_in_time(&a, &quiet).await;
    let claims = house_of_quiet.bucket(quiet.clone()).claims();
    let next = claims.claim("other seat", "bob", Duration::from_secs(60)).await.unwrap();
    println!("a durable grant {:?} after the kill", killed.elapsed());
    assert!(killed.elapsed() < SLOT_LEASE + Duration::from_secs(2));
    assert!(next.fencing_token() > claim.fencing_token());
    assert!(claims.claim("seat", "bob", Duration::from_secs(60)).await.is_err());

    let house_of_announced = house_in_time(&a, &announced).await;
    assert!(house_of_announced.waits_for_holders());
    let returned = Session::begin(&house_of_announced, &announced, "new").await;
    assert_eq!(returned.reclaim("held", &lock).await, lock.0);
    let other = Session::begin(&house_of_announced, &announced, "other").await;
    other.lock("free").await;
    let after = killed.elapsed();
    println!("a web lock {after:?} after the kill");
    // The last confirmed commit of the dead node was sent before the kill, at most one idle commit.
    assert!(after >= SLOT_LEASE + LEASE - SLOT_LEASE / 4, "{after:?}");
    assert!(after < SLOT_LEASE + LEASE + Duration::from_secs(2), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_served_only_once_its_former_owner_is_silent() {
    let (server, peers) = (Arc::new(Server::start(&[])), InProcess::default());
    let b = peers.start(&server, "b").await.unwrap();
    let mut former = Process::start(&peers, &server, "a").await;
    settled(&[&former.node, &b]).await;
    let key = bucket_of(&b, slots_of(&former.node, &[&former.node, &b])[0]);
    former.kill();
    // A person declares it dead, which has hardly stood still by then.
    let client = server.connect().await;
    client.batch_execute("DELETE FROM lockhouse.nodes WHERE label = 'a'").await.unwrap();
    let begun = Instant::now();
    house_in_time(&b, &key).await;
    assert!(begun.elapsed() >= SLOT_LEASE / 2, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < SLOT_LEASE + Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_declared_dead_loses_its_houses_and_joins_anew() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let (id, key) = (a.id().unwrap(), bucket_of(&a, Slot::new(0)));
    let before = house(&a, &key);
    let session = Session::begin(&before, &key, "s").await;
    session.lock("n").await;
    // The first life lasts longer than the second one takes to begin.
    sleep(4 * SLOT_LEASE).await;
    let client = server.connect().await;
    client.batch_execute("DELETE FROM lockhouse.nodes").await.unwrap();
    assert_eq!(before.ended().await, StoreState::Fenced);
    let lost = Instant::now();
    // The other houses of the former life are lost a moment later than this one.
    poll_until(|| a.id().is_some_and(|now| now != id)).await;
    settled(&[&a]).await;
    assert!(lost.elapsed() < 3 * SLOT_LEASE, "{:?}", lost.elapsed());
    let after = house(&a, &key);
    assert_ne!(after.life(), before.life());
    assert!(session.port.bucket().slot_lease().unwrap().is_mute());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_a_node_falls_silent_and_no_slot_moves() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    let b = peers.start(&server, "b").await.unwrap();
    settled(&[&a, &b]).await;
    let (before, key) = (served(&[&a, &b]), bucket_of(&a, slots_of(&a, &[&a, &b])[0]));
    let bucket = house(&a, &key).bucket(key.clone());
    let lease = bucket.slot_lease().unwrap().clone();
    assert!(!lease.is_mute());
    // No commit and no poll gets through.
    let mut client = server.connect().await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE lockhouse.nodes IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let begun = Instant::now();
    poll_until(|| lease.is_mute()).await;
    assert!(begun.elapsed() >= SLOT_LEASE / 10 * 9 - SLOT_LEASE / 2, "{:?}", begun.elapsed());
    assert!(a.why_not_ready().is_some());
    // The store is away for longer than a node may stand still.
    sleep(2 * SLOT_LEASE).await;
    held.rollback().await.unwrap();
    timeout(Duration::from_secs(5), lease.unmuted()).await.unwrap();
    house(&a, &key).serving().await;
    bucket.claims().claim("seat", "ada", Duration::from_secs(60)).await.unwrap();
    // A node that took the outage for a death would act within this time.
    sleep(2 * SLOT_LEASE).await;
    assert_eq!(served(&[&a, &b]), before);
    assert_eq!(a.why_not_ready(), None);
}

async fn poll_until(is_so: impl Fn() -> bool) {
    let so = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(30), so).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_lives_and_another_secret_are_refused() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    let again = peers.start(&server, "a").await.unwrap_err();
    assert!(matches!(again, NodeError::Join(JoinError::LabelInUse(_))), "{again:?}");
    let stranger = NodeOptions::new("b", "http://b").secret_mark([1; 32]);
    let refused = peers.start_as(&server, stranger).await.unwrap_err();
    assert!(matches!(&refused, NodeError::OtherSecret { label, .. } if **label == *"a"), "{refused:?}");
    settled(&[&a]).await;
    assert_eq!(a.view().rows.nodes.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_life_of_the_same_label_is_outlived() {
    let (server, peers) = (Arc::new(Server::start(&[])), InProcess::default());
    let mut former = Process::start(&peers, &server, "a").await;
    settled(&[&former.node]).await;
    former.kill();
    let begun = Instant::now();
    // Its last commit is under way in the database for a while.
    let client = server.connect().await;
    tokio::spawn(async move {
        sleep(SLOT_LEASE / 3).await;
        client.batch_execute("UPDATE lockhouse.nodes SET counter = counter + 1").await.unwrap();
    });
    let a = peers.start(&server, "a").await.unwrap();
    assert!(begun.elapsed() >= SLOT_LEASE, "{:?}", begun.elapsed());
    settled(&[&a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_a_slot_without_buckets_recovers_once() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    a.leave().await;
    let client = server.connect().await;
    let restore = "UPDATE lockhouse.slots SET restored = true, clean = false, longest_lease_before_ms = 1000";
    client.batch_execute(restore).await.unwrap();
    let b = peers.start(&server, "b").await.unwrap();
    settled(&[&b]).await;
    let begun = Instant::now();
    let count = "SELECT count(*) FROM lockhouse.slots WHERE restored OR longest_lease_before_ms > 0";
    while client.query_one(count, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(begun.elapsed() < 2 * LEASE + 2 * SLOT_LEASE, "{:?}", begun.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_with_more_locks_than_a_list_has_moves_and_recovers() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let slot = (0..SLOTS).map(Slot::new).find(|slot| owner_of(*slot, &["a", "b"]) == Some("b")).unwrap();
    let key = bucket_of(&a, slot);
    let session = Session::begin(&house(&a, &key), &key, "s").await;
    for nth in 0..=10_000 {
        let name = format!("{nth}");
        let request =
            NewRequest::new(session.agent, Name::new(&name).unwrap(), Acquire::Wait(Mode::Exclusive));
        session.port.submit(0, Command::Request(request));
    }
    let b = peers.start(&server, "b").await.unwrap();
    let taken = Instant::now();
    let house_of_b = house_in_time(&b, &key).await;
    // The lease of the node that has given it back does not count: it is known to be silent in it.
    let other = Session::begin(&house_of_b, &key, "other").await;
    assert!(house_of_b.waits_for_holders());
    other.lock("free").await;
    assert!(taken.elapsed() >= LEASE, "{:?}", taken.elapsed());
    settled(&[&a, &b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_renews_while_the_store_refuses_its_commits() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let id = a.id();
    // As a person at a prompt may do it: no write to a slot gets through.
    let mut client = server.connect().await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("SELECT FROM lockhouse.slots FOR UPDATE").await.unwrap();
    let claims = (0..SLOTS).map(|slot| {
        let key = bucket_of(&a, Slot::new(slot));
        let claims = house(&a, &key).bucket(key).claims();
        tokio::spawn(async move { claims.claim("seat", "ada", LONG).await })
    });
    let claims: Vec<_> = claims.collect();
    let begun = Instant::now();
    while begun.elapsed() < 3 * SLOT_LEASE {
        let since = a.unconfirmed_for().unwrap();
        assert!(since < SLOT_LEASE / 10 * 9, "{since:?} after {:?}", begun.elapsed());
        sleep(SLOT_LEASE / 50).await;
    }
    held.rollback().await.unwrap();
    poll_until(|| claims.iter().all(tokio::task::JoinHandle::is_finished)).await;
    assert_eq!(a.id(), id);
    settled(&[&a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_polls_while_a_slot_takes_long_to_load() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let mut client = server.connect().await;
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE lockhouse.assignments IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let b = peers.start(&server, "b").await.unwrap();
    let is_opening = || b.view().slots.iter().any(|slot| slot.state == "opening");
    poll_until(is_opening).await;
    let counter = || b.view().rows.nodes.iter().find(|node| &*node.label == "a").unwrap().counter;
    for _ in 0..3 {
        let before = counter();
        poll_until(|| counter() > before).await;
    }
    assert!(is_opening() && b.why_not_ready().is_some());
    // One that leaves meanwhile waits for no load.
    timeout(SLOT_LEASE, b.leave()).await.unwrap();
    held.rollback().await.unwrap();
    settled(&[&a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_cannot_be_served_keeps_no_other_from_moving() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let b = peers.start(&server, "b").await.unwrap();
    settled(&[&b]).await;
    let labels = ["a", "b"];
    let broken = (0..SLOTS).map(Slot::new).find(|slot| owner_of(*slot, &labels) == Some("a")).unwrap();
    let spoil = format!(
        "UPDATE lockhouse.slots SET token_floor = {} WHERE slot = {}",
        FencingToken::LIMIT - 1,
        broken.get()
    );
    server.connect().await.batch_execute(&spoil).await.unwrap();
    let a = peers.start(&server, "a").await.unwrap();
    let is_at_home = |(slot, by): (&Slot, &Vec<String>)| {
        *slot == broken && by.is_empty() || by[..] == [owner_of(*slot, &labels).unwrap()]
    };
    poll_until(|| served(&[&a, &b]).iter().all(is_at_home)).await;
    let state =
        |node: &FleetNode| node.view().slots.iter().find(|slot| slot.slot == broken).map(|slot| slot.state);
    poll_until(|| state(&a) == Some("unservable")).await;
    assert_eq!((a.why_not_ready(), state(&b)), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn fencing_tokens_go_by_the_clock_of_the_database_and_by_that_of_no_node() {
    let (server, peers, clock) = (Server::start(&[]), InProcess::default(), ManualClock::new());
    let days = |days: u64| Duration::from_secs(days * 86_400);
    clock.set_calendar(days(3650).as_millis() as i64);
    let options = NodeOptions::new("a", "").houses(Options::new().lease(LEASE).clock(&clock));
    let a = peers.start_as(&server, options).await.unwrap();
    settled(&[&a]).await;
    let key = bucket_of(&a, Slot::new(0));
    let claim = house(&a, &key).bucket(key).claims().claim("seat", "ada", LONG).await.unwrap();
    let (token, now) = (claim.fencing_token().get(), SystemTime::now());
    assert!(token > token_floor(now - days(1)) && token < token_floor(now + days(1)), "{token}");
}
