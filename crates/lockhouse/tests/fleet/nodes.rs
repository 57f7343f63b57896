//! Nodes that reach each other within the process, and sessions of their clients.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockhouse::core::{Acquire, AgentId, Command, NewAgent, NewReclaim, NewRequest, Outcome};
use lockhouse::fleet::{BucketPlace, FleetNode, NodeError, NodeOptions, Peers, Timing, owner_of};
use lockhouse::store::{JoinError, NodeRow, PostgresFleet, PostgresOptions, Slot};
use lockhouse::{BucketKey, FencingToken, House, Mode, Name, Notice, Options, Port};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::server::Server;

pub(crate) const SLOTS: u16 = 16;
pub(crate) const SLOT_LEASE: Duration = Duration::from_millis(1500);
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// Long enough for whatever happens in a test.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// The nodes of a test by their labels, which reach each other within the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct InProcess(Arc<Mutex<HashMap<String, FleetNode>>>);

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
    pub(crate) async fn start(&self, server: &Server, label: &str) -> Result<FleetNode, NodeError> {
        loop {
            let options = NodeOptions::new(label, &format!("http://{label}"));
            match self.start_as(server, options.houses(Options::new().lease(LEASE))).await {
                // The statements of these fleets have little time, which a busy machine may not give them.
                Err(NodeError::Join(JoinError::Unavailable(_))) => {}
                started => return started,
            }
        }
    }

    /// With a lease of its sessions.
    pub(crate) async fn start_with(&self, server: &Server, label: &str, lease: Duration) -> FleetNode {
        let options = NodeOptions::new(label, "").houses(Options::new().lease(lease));
        self.start_as(server, options).await.unwrap()
    }

    pub(crate) async fn start_as(
        &self,
        server: &Server,
        options: NodeOptions,
    ) -> Result<FleetNode, NodeError> {
        self.start_at(server, options.timing(Timing::of(SLOT_LEASE))).await
    }

    /// With times of its own.
    pub(crate) async fn start_at(
        &self,
        server: &Server,
        options: NodeOptions,
    ) -> Result<FleetNode, NodeError> {
        let postgres = PostgresOptions::default().slots(SLOTS).statement_timeout(SLOT_LEASE / 4);
        let fleet = PostgresFleet::open(&server.address(), postgres).await.unwrap();
        let node = FleetNode::start(Arc::new(fleet), Arc::new(self.clone()), options).await?;
        self.0.lock().unwrap().insert(node.label().to_owned(), node.clone());
        Ok(node)
    }
}

/// Where each slot is served.
pub(crate) fn served(nodes: &[&FleetNode]) -> BTreeMap<Slot, Vec<String>> {
    let mut served: BTreeMap<_, Vec<_>> = (0..SLOTS).map(|slot| (Slot::new(slot), Vec::new())).collect();
    for node in nodes {
        let view = node.view();
        let serving = view.slots.iter().filter(|slot| matches!(slot.state, "serving" | "recovering"));
        serving.for_each(|slot| served.get_mut(&slot.slot).unwrap().push(node.label().to_owned()));
    }
    served
}

/// Waits until every slot is served by the one of these nodes that it is for.
pub(crate) async fn settled(nodes: &[&FleetNode]) {
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
pub(crate) fn bucket_of(node: &FleetNode, slot: Slot) -> BucketKey {
    let names = (0..).map(|number| BucketKey::from(&*format!("bucket-{number}")));
    names.into_iter().find(|key| node.slot_of(key) == slot).unwrap()
}

pub(crate) fn slots_of(node: &FleetNode, nodes: &[&FleetNode]) -> Vec<Slot> {
    let served = served(nodes).into_iter().filter(|(_, by)| by[..] == [node.label()]);
    served.map(|(slot, _)| slot).collect()
}

pub(crate) fn house(node: &FleetNode, key: &BucketKey) -> House {
    match node.find(key) {
        BucketPlace::Here(house) => house,
        place => panic!("{place:?}"),
    }
}

/// The house, once the bucket is there.
pub(crate) async fn house_in_time(node: &FleetNode, key: &BucketKey) -> House {
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
pub(crate) struct Session {
    pub(crate) port: Port,
    pub(crate) agent: AgentId,
}

impl Session {
    pub(crate) async fn begin(house: &House, key: &BucketKey, secret: &str) -> Self {
        Self::begin_with(LEASE, house, key, secret).await
    }

    pub(crate) async fn begin_with(lease: Duration, house: &House, key: &BucketKey, secret: &str) -> Self {
        let port = house.bucket(key.clone()).port_of_session(secret, 1000);
        let lease_ms = Some(lease.as_millis() as u64);
        port.submit(1, Command::Join(NewAgent { client_id: "c", lease_ms }));
        let Outcome::Joined(agent) = outcome(&port, 1).await else { panic!("no agent") };
        Self { port, agent }
    }

    pub(crate) async fn lock(&self, name: &str) -> (FencingToken, String) {
        let name = Name::new(name).unwrap();
        let request = NewRequest::new(self.agent, name, Acquire::Wait(Mode::Exclusive));
        self.port.submit(2, Command::Request(request));
        let grant = tokio::select! {
            grant = granted(&self.port) => grant,
            never = self.stay_alive() => match never {},
        };
        (grant.token, self.port.ticket(grant.request).unwrap())
    }

    pub(crate) async fn stay_alive(&self) -> std::convert::Infallible {
        loop {
            sleep(LEASE / 10).await;
            self.port.submit(9, Command::Renew { agent: self.agent });
        }
    }

    /// The token with which the lock is held again.
    pub(crate) async fn reclaim(&self, name: &str, (token, ticket): &(FencingToken, String)) -> FencingToken {
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

pub(crate) async fn notices(port: &Port) -> VecDeque<Notice> {
    timeout(Duration::from_secs(30), port.ready()).await.unwrap();
    let mut notices = VecDeque::new();
    port.drain(&mut notices).unwrap();
    notices
}

pub(crate) async fn outcome(port: &Port, tag: u64) -> Outcome {
    loop {
        for notice in notices(port).await {
            match notice {
                Notice::Answer { tag: known, outcome } if known == tag => return outcome,
                _ => {}
            }
        }
    }
}

pub(crate) async fn granted(port: &Port) -> lockhouse::core::Grant {
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

/// A node in a runtime of its own, which ends as a process does.
pub(crate) struct Process {
    pub(crate) node: FleetNode,
    pub(crate) runtime: Option<Runtime>,
}

impl Process {
    pub(crate) async fn start(peers: &InProcess, server: &Arc<Server>, label: &'static str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (peers, server) = (peers.clone(), server.clone());
        let node = runtime.spawn(async move { peers.start(&server, label).await.unwrap() }).await.unwrap();
        Self { node, runtime: Some(runtime) }
    }

    pub(crate) fn kill(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

pub(crate) async fn poll_until(is_so: impl Fn() -> bool) {
    let so = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(30), so).await.unwrap();
}
