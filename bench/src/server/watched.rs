//! What it costs to be watched: a server with all that looks on, beside the same one with nothing of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::codec::lockhouse::Lockhouse;
use super::load::{Plan, first_name_of_next, slice};
use super::process::{Recipe, Server};
use super::{ON_DISK, contender, lockhouse};
use crate::report::Better;
use crate::rounds::{Bench, Contender};

/// Both servers.
pub(super) struct Watched {
    watched: Server,
    alone: Server,
}

/// Those who look at a server.
struct Lookers {
    is_over: Arc<AtomicBool>,
    /// The stream of events, shut so that its reader ends.
    stream: TcpStream,
    threads: Vec<JoinHandle<Result<()>>>,
}

/// How often a page of the dashboard asks; how often it does where events of its name come without an end;
/// how often it asks for the list of buckets; and how often metrics are usually scraped.
const PAGE: Duration = Duration::from_secs(2);
const BUSY_PAGE: Duration = Duration::from_millis(750);
const BUCKETS: Duration = Duration::from_secs(15);
const SCRAPE: Duration = Duration::from_secs(5);

/// Long enough for several looks.
const PLAN: Plan = Plan { measured: Duration::from_secs(6), ..Plan::SEPARATE };

impl Watched {
    pub(super) fn start(program: &Path, cpu: usize) -> Result<Self> {
        Ok(Self {
            watched: lockhouse(program, Some(cpu), ON_DISK).start()?,
            alone: unwatched(program, cpu).start()?,
        })
    }

    pub(super) fn bench(&self) -> Bench<'_> {
        let Self { watched, alone } = self;
        let measure = || {
            let lookers = Lookers::start(watched.address)?;
            let sample = slice::<Lockhouse>(&watched.into(), PLAN);
            lookers.end()?;
            sample
        };
        Bench {
            id: "watched",
            unit: "pairs/CPU s",
            better: Better::Higher,
            contenders: vec![
                Contender::new("lockhouse, watched", measure),
                contender::<Lockhouse>("the same without history and metrics", alone, PLAN).target(0.95),
            ],
        }
    }
}

impl Lookers {
    /// Two dashboards, one at the locks and one at the name of a busy client, and a scraper of the metrics.
    fn start(address: SocketAddr) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let of = |what: &str| format!("/v1/buckets/default/{what}");
        let name = first_name_of_next().replace('/', "%2F");
        let looks = [
            // Each page has the charts of the overview.
            (of("overview"), PAGE),
            (of("overview"), PAGE),
            ("/v1/buckets".to_owned(), BUCKETS),
            ("/v1/buckets".to_owned(), BUCKETS),
            (of("query?limit=500"), PAGE),
            (of(&format!("query?name={name}&limit=1000")), BUSY_PAGE),
            (of(&format!("history?name={name}&limit=100")), BUSY_PAGE),
            ("/metrics".to_owned(), SCRAPE),
        ];
        let mut stream = TcpStream::connect(address)?;
        ask(&mut stream, address, &of(&format!("events?name={name}")))?;
        let mut events = stream.try_clone()?;
        let mut threads = vec![thread::spawn(move || {
            anywhere()?;
            let read = std::io::copy(&mut events, &mut std::io::sink()).context("the stream of events")?;
            ensure!(read > 100_000, "the stream of events has only {read} bytes");
            Ok(())
        })];
        for (path, every) in looks {
            let is_over = is_over.clone();
            threads.push(thread::spawn(move || look(address, &path, every, &is_over)));
        }
        Ok(Self { is_over, stream, threads })
    }

    /// Ends them; a look that has failed is told, as something else was measured then.
    fn end(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.stream.shutdown(Shutdown::Both)?;
        self.threads.into_iter().try_for_each(|looker| looker.join().expect("a looker does not panic"))
    }
}

/// The server without lookers, with nothing to look at.
fn unwatched(program: &Path, cpu: usize) -> Recipe {
    let mut recipe = lockhouse(program, Some(cpu), ON_DISK);
    recipe.args.extend(["--config", "{folder}/unwatched.toml"]);
    let write = "printf '[history]\\nenabled = false\\n[metrics]\\nenabled = false\\n' > unwatched.toml";
    recipe.prepare = Some((PathBuf::from("/bin/sh"), vec!["-c", write]));
    recipe
}

/// This thread may run on each CPU: those who look are no part of what is measured.
fn anywhere() -> Result<()> {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    Ok(sched_setaffinity(None, &all)?)
}

fn ask(stream: &mut TcpStream, address: SocketAddr, path: &str) -> Result<()> {
    Ok(write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n")?)
}

/// Asks again and again on one connection, as a page or a scraper does.
fn look(address: SocketAddr, path: &str, every: Duration, is_over: &AtomicBool) -> Result<()> {
    anywhere()?;
    let mut stream = BufReader::new(TcpStream::connect(address)?);
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        ask(stream.get_mut(), address, path)?;
        read_answer(&mut stream).with_context(|| format!("GET {path}"))?;
        while begun.elapsed() < every && !is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Reads a whole answer, whose length its head has, and leaves the connection to the next.
fn read_answer(stream: &mut impl BufRead) -> Result<()> {
    let (mut status, mut line, mut length) = (String::new(), String::new(), None);
    stream.read_line(&mut status)?;
    ensure!(status.starts_with("HTTP/1.1 200 "), "the answer is {status:?}");
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<u64>()?);
        }
    }
    let length = length.context("the answer has no content-length")?;
    let read = std::io::copy(&mut stream.take(length), &mut std::io::sink())?;
    ensure!(read == length, "the answer ended early");
    Ok(())
}
