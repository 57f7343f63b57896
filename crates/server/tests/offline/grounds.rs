//! Houses behind a server of this process, with a client that has nothing but its address.

use std::future::pending;
use std::sync::Arc;

use lockhouse::remote::{Connection, connect};
use lockhouse::store::SqliteStore;
use lockhouse::{Agent, Bucket, Claims, House, ManualClock, Owners};
use lockhouse_server::{Config, Server, bind};

use crate::suite::ground::{Ground, Place};

/// A bucket as a client has it; only the house knows how much is in it.
pub(crate) struct RemoteBucket {
    connection: Connection,
    bucket: Bucket,
}

impl Place for RemoteBucket {
    fn owners(&self) -> Owners {
        self.connection.owners()
    }

    fn claims(&self) -> Claims {
        self.connection.claims()
    }

    fn agent(&self, client_id: &str) -> Agent {
        self.connection.agent(client_id).unwrap()
    }

    fn len(&self) -> usize {
        self.bucket.len()
    }
}

/// The server ends with the runtime of the test.
async fn serve(house: House) -> (House, RemoteBucket) {
    log_listener::listen();
    let listener = bind("127.0.0.1:0", &Config::default().authority).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::of(Config::default(), house.clone());
    tokio::spawn(server.serve(listener, pending()));
    let bucket = house.bucket("default");
    (house, RemoteBucket { connection: connect(url).await.unwrap(), bucket })
}

pub(crate) struct Served(ManualClock);

impl Ground for Served {
    const KEEPS: bool = false;
    const OFTEN: usize = 300;

    type Bucket = RemoteBucket;

    async fn new() -> Self {
        Self(ManualClock::new())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn bucket(&self) -> (House, RemoteBucket) {
        serve(House::with_options(&self.options())).await
    }
}

pub(crate) struct ServedFromFile(ManualClock, tempfile::TempDir);

impl Ground for ServedFromFile {
    const OFTEN: usize = 300;

    type Bucket = RemoteBucket;

    async fn new() -> Self {
        Self(ManualClock::new(), tempfile::tempdir().unwrap())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn bucket(&self) -> (House, RemoteBucket) {
        let store = SqliteStore::open(self.1.path().join("lockhouse.db")).unwrap();
        serve(House::open(Arc::new(store), self.options()).await.unwrap()).await
    }
}
