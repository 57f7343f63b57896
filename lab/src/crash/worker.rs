//! `cargo xtask crash-worker`: one process of clients, which can be killed or stopped as a whole.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use lockhouse::remote::{Connection, connect};
use proofs::history::record::{Found, Gain, Invocation, Reason};
use random::Random;

use crate::Verdict;

use super::claims::ClaimsClient;
use super::http::{CallReply, HttpCaller};
use super::offline::OfflineClient;
use super::recorder::{Pulse, Recorder, durable};
use super::web::{Habit, WebClient};
use super::{APART, KIND, LEASE, MEETING, NAMES};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What its clients are called after
    #[arg(long)]
    name: String,
    #[arg(long)]
    url: String,
    #[arg(long)]
    seed: u64,
}

/// The clients of a worker, by what they do: three have web locks, as those of one process queue behind one
/// another, too.
pub(super) const CLIENTS: [&str; 5] = ["web-1", "web-2", "keeper", "offline", "claims"];

/// What the clients of a crash do: as much as they can, on the same few names of two buckets.
const WAYS: Ways = Ways {
    bucket: |random| if random.percent(75) { MEETING } else { APART }.to_owned(),
    era: || 0,
    names: NAMES,
    pause: Duration::ZERO,
    hold: Duration::from_millis(1),
    owner_ttl_ms: (600, 2000),
    claim_ttl_ms: (200, 1500),
    gives_up_claims: true,
};

/// The time after which a worker that was asked to end, but has not, ends the hard way.
const END_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Args) -> Verdict {
    run_clients(|over| work(args, over))
}

/// Runs the clients of this process until its input ends.
pub(crate) fn run_clients<W: Future<Output = Result<()>>>(
    clients: impl FnOnce(Arc<AtomicBool>) -> W,
) -> Verdict {
    let over = Arc::new(AtomicBool::new(false));
    end_with_stdin(over.clone());
    // One thread, so that the pulse of the clients is that of all of them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Err(error) = runtime.block_on(async { clients(over).await }) {
        fail(format_args!("{error:#}"));
    }
    Ok(true)
}

/// Reports a fault that no judge would see: the parent learns of it by the end of the process. Stdout is for
/// the history.
pub(super) fn fail(why: std::fmt::Arguments<'_>) -> ! {
    let _ = writeln!(std::io::stderr(), "error: {why}");
    std::process::exit(1)
}

/// The parent closes our input when we are to end, and so does its own death.
fn end_with_stdin(over: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
        std::thread::sleep(END_LIMIT);
        std::process::exit(1);
    });
}

async fn work(args: &Args, over: Arc<AtomicBool>) -> Result<()> {
    let ground = Ground::new(over, LEASE, WAYS);
    let Some(connection) = ground.connect(&args.url).await else { return Ok(()) };
    let [web_1, web_2, keeper, offline, claims] = CLIENTS.map(|client| format!("{}-{client}", args.name));
    let random = |nth: u64| Random::new(Random::new(args.seed.wrapping_add(nth)).next_u64());
    let web = |client, nth, habit| WebClient {
        ground: &ground,
        connection: &connection,
        bucket: MEETING.to_owned(),
        fence: None,
        recorder: Recorder::new(client),
        random: random(nth),
        habit,
    };
    let offline = OfflineClient {
        ground: &ground,
        http: HttpCaller::new(std::slice::from_ref(&args.url), None)?,
        recorder: Recorder::new(offline),
        random: random(3),
    };
    let claims = ClaimsClient {
        ground: &ground,
        http: HttpCaller::new(std::slice::from_ref(&args.url), None)?,
        recorder: Recorder::new(claims),
        random: random(4),
    };
    let (one, two, three, (), ()) = tokio::join!(
        web(web_1, 1, Habit::Passing).run(),
        web(web_2, 2, Habit::Passing).run(),
        web(keeper, 5, Habit::Keeping).run(),
        offline.run(),
        claims.run()
    );
    one.and(two).and(three)?;
    connection.close().await;
    Ok(())
}

/// Where clients meet, and how they use what they get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    /// The bucket of the next call: in a crash mostly the one where all three disciplines meet. The other one
    /// never has web locks, and so nothing to recover.
    pub(crate) bucket: fn(&mut Random) -> String,
    /// Each era has names of its own, so that an outcome that stays unknown does not bear on later ones.
    pub(crate) era: fn() -> usize,
    /// Names in each bucket at a time.
    pub(crate) names: usize,
    /// The pause after each call.
    pub(crate) pause: Duration,
    /// Most web locks are held for less.
    pub(crate) hold: Duration,
    /// The shortest TTL, and by how much others are longer.
    pub(crate) owner_ttl_ms: (u64, usize),
    pub(crate) claim_ttl_ms: (u64, usize),
    /// Whether claims are left to their TTL, or used beyond it.
    pub(crate) gives_up_claims: bool,
}

/// More than there are names at a time.
const ERA: usize = 1000;

/// The state that the clients of a worker share.
#[derive(Debug)]
pub(crate) struct Ground {
    over: Arc<AtomicBool>,
    pub(super) pulse: Pulse,
    pub(crate) ways: Ways,
}

impl Ground {
    /// For clients whose locks have that lease. It is made on their runtime.
    pub(crate) fn new(over: Arc<AtomicBool>, lease: Duration, ways: Ways) -> Self {
        Self { over, pulse: Pulse::start(lease), ways }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn bucket(&self, random: &mut Random) -> String {
        (self.ways.bucket)(random)
    }

    pub(super) fn number(&self, random: &mut Random) -> usize {
        self.number_below(self.ways.names, random)
    }

    /// One of so many names of this era.
    pub(super) fn number_below(&self, names: usize, random: &mut Random) -> usize {
        ERA * (self.ways.era)() + random.below(names)
    }

    /// Another name of the same era.
    pub(super) fn neighbour(&self, number: usize, distance: usize) -> usize {
        number / ERA * ERA + (number % ERA + distance) % self.ways.names
    }

    pub(super) async fn pause_between_calls(&self) {
        if !self.ways.pause.is_zero() {
            tokio::time::sleep(self.ways.pause).await;
        }
    }

    /// The name of a record, which a web lock and a claim call by the same.
    pub(super) fn name_of(&self, number: usize) -> String {
        format!("{KIND}/{number}")
    }

    pub(super) fn name(&self, random: &mut Random) -> String {
        self.name_of(self.number(random))
    }

    /// Asks what there is of a name.
    pub(super) async fn look(
        &self,
        http: &HttpCaller,
        recorder: &mut Recorder,
        bucket: &str,
        name: String,
    ) -> Result<Vec<Found>, CallReply> {
        let op = recorder.invoke(bucket, Invocation::Look { name: name.clone() });
        match http.look(bucket, &name).await {
            Ok(mut found) => {
                found.retain(|found| found.name == name);
                recorder.answer(op, durable(Gain { found: Some(found.clone()), ..Gain::default() }));
                Ok(found)
            }
            Err(reply) => {
                recorder.answer(op, reply.failure());
                Err(reply)
            }
        }
    }

    /// Lets a server that is away or not ready come to itself.
    pub(super) async fn pause_after(&self, reply: &CallReply) {
        let pause_ms = match reply {
            CallReply::Unknown | CallReply::Refused(Reason::Other | Reason::Unavailable) => 5,
            CallReply::Refused(Reason::Recovering) => 20,
            _ => 0,
        };
        if pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        self.pause_between_calls().await;
    }

    /// Connects as soon as a server accepts; none if the run is over before.
    async fn connect(&self, url: &str) -> Option<Connection> {
        while !self.is_over() {
            match connect(url).bucket(MEETING).await {
                Ok(connection) => return Some(connection),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        None
    }
}
