//! `cargo xtask chaos-worker`: one process of clients, in a network of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use lockhouse::remote::{Connect, Connection, connect};
use random::Random;
use tokio::time::{Instant, sleep, timeout};

use super::LEASE;
use super::places::WAYS;
use crate::Verdict;
use crate::crash::claims::ClaimsClient;
use crate::crash::http::HttpCaller;
use crate::crash::offline::OfflineClient;
use crate::crash::recorder::Recorder;
use crate::crash::web::{Habit, WebClient};
use crate::crash::worker::{Ground, run_clients};
use crate::fence::Fence;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What its clients are called after
    #[arg(long)]
    name: String,
    /// The nodes
    #[arg(long)]
    url: Vec<String>,
    #[arg(long)]
    seed: u64,
    /// The file with the key
    #[arg(long)]
    key: PathBuf,
    /// The folder with the socket of the database of the fence
    #[arg(long)]
    fence: PathBuf,
}

/// The clients of a worker, by what they do.
pub(super) const CLIENTS: [&str; 5] = ["web", "fenced", "keeper", "offline", "claims"];

/// How long a client of web locks stays in a bucket.
const STAY: Duration = Duration::from_millis(2500);

/// How long the good-bye of a connection is waited for.
const GOOD_BYE: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &Args) -> Verdict {
    run_clients(|over| work(args, over))
}

async fn work(args: &Args, over: Arc<AtomicBool>) -> Result<()> {
    let key = std::fs::read_to_string(&args.key)?;
    let ground = Ground::new(over, LEASE, WAYS);
    let random = |nth: u64| Random::new(Random::new(args.seed.wrapping_add(nth)).next_u64());
    let http =
        |nth: u64| anyhow::Ok(HttpCaller::new(&args.url, Some(&key))?.at(random(nth).below(args.url.len())));
    let [web, fenced, keeper, offline, claims] = CLIENTS.map(|client| format!("{}-{client}", args.name));
    let client = |name, nth| Web { ground: &ground, args, key: &key, name, random: random(nth) };
    let offline = OfflineClient {
        ground: &ground,
        http: http(3)?,
        recorder: Recorder::new(offline),
        random: random(3),
    };
    let claims =
        ClaimsClient { ground: &ground, http: http(4)?, recorder: Recorder::new(claims), random: random(4) };
    let (one, two, three, (), ()) = tokio::join!(
        client(web, 1).run(Habit::Passing, None),
        client(fenced, 2).run(Habit::Passing, Some(Fence::connect(&args.fence).await?)),
        client(keeper, 5).run(Habit::Keeping, Some(Fence::connect(&args.fence).await?)),
        offline.run(),
        claims.run()
    );
    one.and(two).and(three)
}

/// A client of web locks, which goes from bucket to bucket.
struct Web<'a> {
    ground: &'a Ground,
    args: &'a Args,
    key: &'a str,
    name: String,
    random: Random,
}

impl Web<'_> {
    async fn run(mut self, habit: Habit, mut fence: Option<Fence>) -> Result<()> {
        let mut recorder = Recorder::new(self.name.clone());
        while !self.ground.is_over() {
            let bucket = (self.ground.ways.bucket)(&mut self.random);
            let Some(connection) = self.connect(&bucket).await else { continue };
            let until = Instant::now() + STAY;
            let random = Random::new(self.random.next_u64());
            let ground = self.ground;
            let mut client =
                WebClient { ground, connection: &connection, bucket, fence, recorder, random, habit };
            client.work(|| ground.is_over() || Instant::now() >= until).await?;
            (recorder, fence) = (client.recorder, client.fence);
            // Whether it arrives or not: nothing is held any more.
            _ = timeout(GOOD_BYE, connection.close()).await;
        }
        recorder.ended();
        Ok(())
    }

    async fn connect(&self, bucket: &str) -> Option<Connection> {
        let [first, others @ ..] = &self.args.url[..] else { return None };
        let connecting = connect(first).bucket(bucket).key(self.key);
        let connecting = others.iter().fold(connecting, Connect::or);
        match connecting.await {
            Ok(connection) => Some(connection),
            Err(_) => {
                sleep(Duration::from_millis(50)).await;
                None
            }
        }
    }
}
