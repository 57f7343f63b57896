//! `cargo xtask crash-worker`: one process of clients, which can be killed or stopped as a whole.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use lockhouse::remote::{Connection, connect};
use random::Random;

use crate::Verdict;
use crate::history::record::{Gain, Invocation, Reason};

use super::claims::ClaimsClient;
use super::http::{Http, Reply};
use super::offline::OfflineClient;
use super::recorder::{Pulse, Recorder, durable};
use super::web::{Habit, WebClient};
use super::{APART, KIND, MEETING, NAMES};

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
const CLIENTS: [&str; 5] = ["web-1", "web-2", "keeper", "offline", "claims"];

pub(super) fn clients_of(worker: &str) -> Vec<String> {
    CLIENTS.iter().map(|client| format!("{worker}-{client}")).collect()
}

/// The time after which a worker that was asked to end, but has not, ends the hard way.
const END_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Args) -> Verdict {
    let over = Arc::new(AtomicBool::new(false));
    end_with_stdin(over.clone());
    // One thread, so that the pulse of the clients is that of all of them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Err(error) = runtime.block_on(work(args, over)) {
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
    let ground = Ground { over, pulse: Pulse::start() };
    let Some(connection) = ground.connect(&args.url).await else { return Ok(()) };
    let [web_1, web_2, keeper, offline, claims] = CLIENTS.map(|client| format!("{}-{client}", args.name));
    let random = |nth: u64| Random::new(Random::new(args.seed.wrapping_add(nth)).next_u64());
    let web = |client, nth, habit| WebClient {
        ground: &ground,
        connection: &connection,
        recorder: Recorder::new(client),
        random: random(nth),
        habit,
    };
    let offline = OfflineClient {
        ground: &ground,
        http: Http::new(&args.url)?,
        recorder: Recorder::new(offline),
        random: random(3),
    };
    let claims = ClaimsClient {
        ground: &ground,
        http: Http::new(&args.url)?,
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

/// The bucket of the next call: mostly the one where all three disciplines meet. The other one never has web
/// locks, and so nothing to recover.
pub(super) fn bucket(random: &mut Random) -> &'static str {
    if random.percent(75) { MEETING } else { APART }
}

/// The state that the clients of a worker share.
#[derive(Debug)]
pub(super) struct Ground {
    over: Arc<AtomicBool>,
    pub(super) pulse: Pulse,
}

impl Ground {
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn number(&self, random: &mut Random) -> usize {
        random.below(NAMES)
    }

    pub(super) fn neighbour(&self, number: usize, distance: usize) -> usize {
        (number + distance) % NAMES
    }

    /// The name of a record, which a web lock and a claim call by the same.
    pub(super) fn name_of(&self, number: usize) -> String {
        format!("{KIND}/{number}")
    }

    pub(super) fn name(&self, random: &mut Random) -> String {
        self.name_of(random.below(NAMES))
    }

    /// Asks what there is of a name.
    pub(super) async fn look(
        &self,
        http: &Http,
        recorder: &mut Recorder,
        bucket: &str,
        name: String,
    ) -> Reply {
        let op = recorder.invoke(bucket, Invocation::Look { name: name.clone() });
        match http.look(bucket, &name).await {
            Ok(mut found) => {
                found.retain(|found| found.name == name);
                recorder.answer(op, durable(Gain { found: Some(found), ..Gain::default() }));
                Reply::Done(serde_json::Value::Null)
            }
            Err(reply) => {
                recorder.answer(op, reply.failure());
                reply
            }
        }
    }

    /// Lets a server that is away or not ready come to itself.
    pub(super) async fn pause_after(&self, reply: &Reply) {
        let pause_ms = match reply {
            Reply::Unknown | Reply::Refused(Reason::Other | Reason::Unavailable) => 5,
            Reply::Refused(Reason::Recovering) => 20,
            _ => return,
        };
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
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
