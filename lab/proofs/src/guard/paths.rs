//! The hot paths: what a user of each door does most.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockhouse::remote::{Connection, connect};
use lockhouse::store::{MemoryStore, SqliteStore};
use lockhouse::{Agent, House, Meters, Options};
use lockhouse_server::auth::Authority;
use lockhouse_server::{Config, Server, bind};
use tokio::task::yield_now;

/// A hot path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum HotPath {
    /// A web lock in process, without a store: requested and released.
    Pair,
    /// The same in a house with a store.
    StoredPair,
    /// A web lock that goes from one task to the next that waits for it.
    HandOff,
    /// A web lock over a WebSocket.
    WebsocketPair,
    /// The same with meters, as a server has them.
    MeteredPair,
    /// A claim over HTTP, made and released.
    HttpClaim,
    /// A claim in a house over SQLite, made and released: two commits.
    Commit,
    /// A look at a thousand held locks.
    Snapshot,
}

/// How many locks a snapshot shows.
const SHOWN: usize = 1000;

const TTL: Duration = Duration::from_secs(3600);

impl HotPath {
    /// As the command line has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::StoredPair => "stored-pair",
            Self::HandOff => "hand-off",
            Self::WebsocketPair => "websocket-pair",
            Self::MeteredPair => "metered-pair",
            Self::HttpClaim => "http-claim",
            Self::Commit => "commit",
            Self::Snapshot => "snapshot",
        }
    }

    /// A few operations, and many.
    pub(super) fn operations(self) -> (usize, usize) {
        match self {
            Self::Pair | Self::StoredPair | Self::HandOff => (1_000, 21_000),
            Self::WebsocketPair | Self::MeteredPair => (100, 1_100),
            Self::HttpClaim | Self::Commit | Self::Snapshot => (50, 350),
        }
    }

    /// Does it so often, all on one thread.
    pub(super) fn run(self, operations: usize) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Self::Pair => pairs(&House::new(), operations).await,
                Self::StoredPair => pairs(&in_memory().await?, operations).await,
                Self::HandOff => hand_offs(operations).await,
                Self::WebsocketPair => pairs_over(&serving(in_memory().await?).await?, operations).await,
                Self::MeteredPair => pairs_over(&serving(metered().await?).await?, operations).await,
                Self::HttpClaim => claims_over(&serving(in_memory().await?).await?, operations).await,
                Self::Commit => commits(operations).await,
                Self::Snapshot => snapshots(operations).await,
            }
        })
    }
}

async fn in_memory() -> Result<House> {
    Ok(House::open(Arc::new(MemoryStore::new()?), Options::new()).await?)
}

async fn metered() -> Result<House> {
    let options = Options::new().meters(&Meters::first(1));
    Ok(House::open(Arc::new(MemoryStore::new()?), options).await?)
}

async fn pairs(house: &House, operations: usize) -> Result<()> {
    let agent = house.bucket("guard").agent("guard")?;
    for _ in 0..operations {
        drop(agent.locks().request("report").await?);
    }
    Ok(())
}

async fn hand_offs(operations: usize) -> Result<()> {
    let bucket = House::new().bucket("guard");
    let take_turns = async |agent: Agent| {
        for _ in 0..operations / 2 {
            let guard = agent.locks().request("report").await?;
            // The other one asks meanwhile, and gets the lock.
            yield_now().await;
            drop(guard);
        }
        anyhow::Ok(())
    };
    let (one, other) = tokio::join!(take_turns(bucket.agent("one")?), take_turns(bucket.agent("other")?));
    one.and(other)
}

/// A connection to a server in this thread.
async fn serving(house: House) -> Result<Connection> {
    let server = Server::of(Config::default(), house);
    let listener = bind("127.0.0.1:0", &Authority::default()).await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(server.serve(listener, std::future::pending()));
    Ok(connect(url).await?)
}

async fn pairs_over(connection: &Connection, operations: usize) -> Result<()> {
    let agent = connection.agent("guard")?;
    for _ in 0..operations {
        agent.locks().request("report").await?.release().await?;
    }
    Ok(())
}

async fn claims_over(connection: &Connection, operations: usize) -> Result<()> {
    let claims = connection.claims();
    for _ in 0..operations {
        claims.claim("seat", "guard", TTL).await?.release().await?;
    }
    Ok(())
}

async fn commits(operations: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("lockhouse.db"))?;
    let house = House::open(Arc::new(store), Options::new()).await?;
    let claims = house.bucket("guard").claims();
    for _ in 0..operations {
        claims.claim("seat", "guard", TTL).await?.release().await?;
    }
    house.close().await;
    Ok(())
}

async fn snapshots(operations: usize) -> Result<()> {
    let bucket = House::new().bucket("guard");
    let agent = bucket.agent("guard")?;
    let mut held = Vec::new();
    for number in 0..SHOWN {
        held.push(agent.locks().request(number.to_string().as_str()).await?);
    }
    for _ in 0..operations {
        anyhow::ensure!(agent.locks().query().await?.held.len() == SHOWN, "a snapshot lacks locks");
    }
    Ok(())
}
