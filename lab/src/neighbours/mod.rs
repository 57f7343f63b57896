//! `cargo xtask neighbours`: two tenants side by side, one of which is at its limits, and whether the other
//! one notices.
//!
//! ```text
//!   neighbours ── the script of one tenant: WebSockets, HTTP ──▶ lockhouse serve
//!                                                                       ▲
//!   neighbours-crowd (the other tenant) ── as much as it is let ────────┘
//! ```

pub(crate) mod crowd;
mod http;
mod large_end;
mod story;
mod transcript;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lockhouse_server::auth::NewKey;
use proofs::evidence;
use traces::Kind;
use xtask::workspace::tree;

use self::crowd::RunTally;
use self::large_end::LargeEnd;
use self::story::{Length, Stage};
use self::transcript::Transcript;
use crate::Verdict;
use crate::serving::{self, Crowd, ServerProcess};

/// Put a tenant that is at all of its limits beside another one, and see whether that one is told anything
/// else for it
///
/// A real server in a process of its own has two tenants, each with an API key. One plays a script of Web
/// Locks, offline locks and claims, over WebSockets and HTTP, that a seed makes; at its end it takes as much
/// of everything as it may have. The other one does as much as it is let, in buckets and under names that are
/// called the same, and is refused by its rate, its connections, buckets, names, owners and claims all the
/// time. The script is played alone and beside that neighbour, each time on a new server, in turns; then the
/// two change their roles. Every answer, error, count, token and snapshot must be the same, and the name of
/// the neighbour must stand nowhere. The time of request and release is measured, too: beside that neighbour,
/// and beside one of which an owner with very many locks ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask neighbours
  cargo xtask neighbours --turns 10 --steps 3000 --pairs 5000 --at-most 1.5

The last line is the verdict; exit 1 if an answer differs or the times are too far apart, exit 2 if the run could not be judged or did too little to
prove anything.")]
pub(crate) struct Args {
    /// How often each of the two plays its script alone and beside the other
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// Steps of a script
    #[arg(long, value_name = "N", default_value = "300", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    steps: u32,
    /// Pairs of request and release that are measured after them
    #[arg(long, value_name = "N", default_value = "300", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pairs: u32,
    /// Locks of an owner that ends in one tenant while the other is measured
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    locks: u32,
    /// What the tenants do
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Fail if the 99th percentile of the pairs is more than so many times that of those alone; without it,
    /// it is told only
    #[arg(long, value_name = "X")]
    at_most: Option<f64>,
    /// The server's binary, instead of the one of this tree, which is built
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_BIN")]
    server: Option<PathBuf>,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The tenants. Neither name may reach the other tenant, so no script has them in words of its own.
const TENANTS: [&str; 2] = ["amber", "beryl"];

/// So small that the neighbour reaches all of them, and so large that the script does not until its end.
const LIMITS: &str = "\
[limits]
connections = 96
connections_per_address = 96
connections_per_tenant = 24
sessions_per_tenant = 32
buckets_per_tenant = 6
names_per_bucket = 60
requests_per_bucket = 120
owners_per_bucket = 20
assignments_per_bucket = 40
tenant_rate = 5000
";

/// In this time the neighbour is at its limits.
const PATIENCE: Duration = Duration::from_secs(30);

/// A neighbour that is at its rate is refused at least so many calls in a second.
const REFUSED_A_SECOND: f64 = 50.0;

/// The fewest claims, before the end of an owner with many locks and meanwhile, of which a percentile says
/// something.
const FEWEST_PAIRS: usize = 300;

/// The number of differences that are shown.
const SHOWN: usize = 10;

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let binary = serving::binary(args.server.as_deref(), &root)?;
    let folder = tempfile::Builder::new().prefix("lockhouse-neighbours-").tempdir()?;
    let mut compared = Compared::default();
    let place = Place::new(&binary, folder.path())?;
    for turn in 0..args.turns {
        for (first, tenant) in TENANTS.iter().enumerate() {
            println!("turn {} of {}: the script of {tenant}", turn + 1, args.turns);
            place.turn(args, turn, first, &mut compared)?;
        }
        println!("turn {} of {}: the end of an owner with {} locks", turn + 1, args.turns, args.locks);
        compared.large_end.add(place.large_end(args)?);
    }
    compared.large_end.sort();
    compared.alone.sort_unstable();
    compared.beside.sort_unstable();
    if let Some(path) = &args.json {
        evidence::write(path, compared.json(args))?;
    }
    for difference in compared.differences.iter().take(SHOWN) {
        println!("error: {difference}");
    }
    println!("{}", compared.summary());
    println!("{}", compared.large_end.summary(args.locks));
    println!("{}", compared.verdict());
    if compared.differences.is_empty() {
        compared.enough(args)?;
    }
    Ok(compared.holds(args))
}

/// The result of the comparison.
#[derive(Default)]
struct Compared {
    answers: usize,
    differences: Vec<String>,
    /// The times of the pairs, in order.
    alone: Vec<Duration>,
    beside: Vec<Duration>,
    /// The neighbour's refusals meanwhile.
    neighbour: RunTally,
    /// The length of that time.
    meanwhile: Duration,
    large_end: LargeEnd,
}

impl Compared {
    fn ratio(&self) -> f64 {
        ratio(&self.alone, &self.beside)
    }

    fn holds(&self, args: &Args) -> bool {
        let ratio = self.ratio().max(self.large_end.ratio());
        self.differences.is_empty() && args.at_most.is_none_or(|most| ratio <= most)
    }

    fn verdict(&self) -> String {
        format!(
            "{} answers compared, {} differ, p99 x {:.2}, beside the end of many locks x {:.2}",
            self.answers,
            self.differences.len(),
            self.ratio(),
            self.large_end.ratio()
        )
    }

    fn summary(&self) -> String {
        let refused = self.neighbour.refusals().map(|(what, count)| format!("{count} by {what}"));
        format!(
            "request and release p50 {:.0} µs alone, {:.0} µs beside, p99 {:.0} µs alone, {:.0} µs beside; the neighbour did {} things and was refused {}",
            micros(p50(&self.alone)),
            micros(p50(&self.beside)),
            micros(p99(&self.alone)),
            micros(p99(&self.beside)),
            self.neighbour.done,
            refused.join(", ")
        )
    }

    fn json(&self, args: &Args) -> serde_json::Value {
        serde_json::json!({
            "turns": args.turns,
            "steps": args.steps,
            "pairs": args.pairs,
            "seed": args.seed,
            "answers": self.answers,
            "differ": self.differences.len(),
            "p50Micros": { "alone": micros(p50(&self.alone)), "beside": micros(p50(&self.beside)) },
            "p99Micros": { "alone": micros(p99(&self.alone)), "beside": micros(p99(&self.beside)) },
            "p99Ratio": (self.ratio() * 100.0).round() / 100.0,
            "endOfManyLocks": self.large_end.json(args.locks),
            "atMost": args.at_most,
            "neighbour": self.neighbour,
            "neighbourSeconds": self.meanwhile.as_secs(),
        })
    }

    /// Did the run do enough to prove something?
    fn enough(&self, args: &Args) -> Result<()> {
        let least = 2 * args.turns as usize * (args.steps + args.pairs) as usize;
        ensure!(
            self.answers >= least,
            "this run did too little to prove anything: {} answers, but at least {least} are needed",
            self.answers
        );
        for (what, count) in self.neighbour.refusals() {
            let least = 4 * u64::from(args.turns);
            ensure!(
                count >= least,
                "this run did too little to prove anything: the neighbour was refused {count} times by {what}, but at least {least} are needed"
            );
        }
        self.enough_beside_the_large_end()?;
        let a_second = self.neighbour.rate as f64 / self.meanwhile.as_secs_f64();
        ensure!(
            a_second >= REFUSED_A_SECOND,
            "this run proves nothing: the neighbour was refused by its rate {a_second:.0} times in a second, but at least {REFUSED_A_SECOND} are needed to say that it was at it"
        );
        Ok(())
    }

    fn enough_beside_the_large_end(&self) -> Result<()> {
        let LargeEnd { alone, beside, sweeps, .. } = &self.large_end;
        for (when, times) in [("before", &alone.claims), ("during", &beside.claims)] {
            ensure!(
                times.len() >= FEWEST_PAIRS,
                "this run did too little to prove anything: {} claims {when} the end of many locks, but at least {FEWEST_PAIRS} are needed",
                times.len()
            );
        }
        let shortest = sweeps.iter().min().copied().unwrap_or_default();
        ensure!(
            shortest > p99(&alone.claims),
            "this run did too little to prove anything: many locks had ended after {:.0} µs, before the first claim had",
            micros(shortest)
        );
        Ok(())
    }
}

/// Of times in order: the 99th percentile beside, measured by the one alone.
fn ratio(alone: &[Duration], beside: &[Duration]) -> f64 {
    p99(beside).as_secs_f64() / p99(alone).as_secs_f64().max(f64::MIN_POSITIVE)
}

fn p50(times: &[Duration]) -> Duration {
    percentile(times, 50)
}

fn p99(times: &[Duration]) -> Duration {
    percentile(times, 99)
}

/// Of times in order.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    times.get(times.len() * percent / 100).copied().unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round()
}

/// A script that was played.
struct Played {
    transcript: Transcript,
    /// The times of the pairs.
    times: Vec<Duration>,
    /// The neighbour's refusals meanwhile, if there was one, and the duration.
    beside: Option<(RunTally, Duration)>,
}

/// Where servers are started.
struct Place<'a> {
    binary: &'a Path,
    folder: &'a Path,
    keys: [String; 2],
    config: PathBuf,
    /// The same without limits.
    plain: PathBuf,
}

impl<'a> Place<'a> {
    fn new(binary: &'a Path, folder: &'a Path) -> Result<Self> {
        let mut text = String::new();
        let mut draw = |tenant: &str| {
            let NewKey { text: key, hash } = NewKey::draw(tenant).context("it is an id")?;
            traces::secret(Kind::ApiKey, &key);
            text += &format!(
                "[[auth.keys]]\nid = \"{tenant}\"\nhash = \"{hash}\"\ntenant = \"{tenant}\"\n[auth.keys.buckets]\n\
                 \"*\" = [\"request\", \"steal\", \"query\", \"offline\", \"claim\", \"operate\"]\n"
            );
            anyhow::Ok(key)
        };
        let keys = [draw(TENANTS[0])?, draw(TENANTS[1])?];
        let config = folder.join("lockhouse.toml");
        fs::write(&config, format!("{LIMITS}{text}"))?;
        let plain = folder.join("plain.toml");
        fs::write(&plain, text)?;
        Ok(Self { binary, folder, keys, config, plain })
    }

    /// An owner with many locks ends in one tenant, while the other is measured.
    fn large_end(&self, args: &Args) -> Result<LargeEnd> {
        let folder = tempfile::tempdir_in(self.folder)?;
        let config = self.plain.to_str().context("the path of the settings is no text")?;
        let server = ServerProcess::start(self.binary, folder.path(), &["--config", config])?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(large_end::measure(server.address, &self.keys, args.locks))
    }

    /// Plays the script of one tenant alone and beside the other, and compares.
    fn turn(&self, args: &Args, turn: u32, first: usize, compared: &mut Compared) -> Result<()> {
        let seed = args.seed.wrapping_add(1000 * u64::from(turn) + first as u64);
        let alone = self.play(args, seed, first, false)?;
        if let Some(why) = &alone.transcript.broke_off {
            anyhow::bail!("the script of {} broke off without a neighbour: {why}", TENANTS[first]);
        }
        ensure!(!says(&alone.transcript, "rate_limited"), "the script is faster than the rate of its tenant");
        let beside = self.play(args, seed, first, true)?;
        let (answers, differences) = alone.transcript.differences(&beside.transcript);
        compared.alone.extend(alone.times);
        compared.beside.extend(beside.times);
        if let Some((tally, meanwhile)) = beside.beside {
            compared.neighbour.add(&tally);
            compared.meanwhile += meanwhile;
        }
        compared.answers += answers;
        let who = TENANTS[first];
        compared.differences.extend(differences.into_iter().map(|it| format!("turn {turn}, {who}: {it}")));
        Ok(())
    }

    fn play(&self, args: &Args, seed: u64, first: usize, has_neighbour: bool) -> Result<Played> {
        let folder = tempfile::tempdir_in(self.folder)?;
        let config = self.config.to_str().context("the path of the settings is no text")?;
        let server = ServerProcess::start(self.binary, folder.path(), &["--config", config])?;
        let second = 1 - first;
        let neighbour = has_neighbour.then(|| self.neighbour(&server, second, seed)).transpose()?;
        let stage = Stage {
            address: server.address,
            key: self.keys[first].clone(),
            tenant: TENANTS[first],
            other: TENANTS[second],
        };
        let length = Length { steps: args.steps as usize, pairs: args.pairs as usize };
        let start = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (transcript, times) = runtime.block_on(story::play(&stage, seed, length));
        let Some((mut crowd, before)) = neighbour else {
            return Ok(Played { transcript, times, beside: None });
        };
        let after = crowd.ask()?;
        let meanwhile = start.elapsed();
        crowd.end()?;
        Ok(Played { transcript, times, beside: Some((after.since(&before), meanwhile)) })
    }

    /// The neighbour, once it is at its limits.
    fn neighbour(
        &self,
        server: &ServerProcess,
        tenant: usize,
        seed: u64,
    ) -> Result<(Crowd<RunTally>, RunTally)> {
        let mut crowd = Crowd::start([
            "neighbours-crowd".to_owned(),
            format!("--address={}", server.address),
            format!("--key={}", self.keys[tenant]),
            format!("--tenant={}", TENANTS[tenant]),
            format!("--seed={seed}"),
        ])?;
        let start = Instant::now();
        loop {
            let tally: RunTally = crowd.ask()?;
            if tally.is_at_its_limits() {
                return Ok((crowd, tally));
            }
            let patience = PATIENCE.as_secs();
            ensure!(
                start.elapsed() < PATIENCE,
                "the neighbour does not come to its limits within {patience} s: {:?}",
                tally.refusals()
            );
            sleep(Duration::from_millis(50));
        }
    }
}

fn says(transcript: &Transcript, word: &str) -> bool {
    transcript.answers.iter().any(|answer| answer.value["code"] == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Args {
        Args {
            turns: 1,
            steps: 100,
            pairs: 100,
            locks: 100,
            seed: 1,
            at_most: Some(1.5),
            server: None,
            json: None,
        }
    }

    fn compared(beside_us: u64) -> Compared {
        let times = |us: u64| vec![Duration::from_micros(us); 200];
        let neighbour = RunTally {
            done: 1,
            rate: 100,
            connections: 9,
            buckets: 9,
            names: 9,
            owners: 9,
            claims: 9,
            frames: 9,
        };
        let (alone, beside) = (times(100), times(beside_us));
        let meanwhile = Duration::from_secs(2);
        let many = |us: u64| vec![Duration::from_micros(us); FEWEST_PAIRS];
        let of = |us| large_end::Times { pairs: many(100), claims: many(us) };
        let sweeps = vec![Duration::from_millis(100)];
        let large_end = LargeEnd { alone: of(100), beside: of(100), sweeps, ..LargeEnd::default() };
        Compared { answers: 5000, differences: Vec::new(), alone, beside, neighbour, meanwhile, large_end }
    }

    #[test]
    fn a_difference_or_a_long_time_fails() {
        assert!(compared(150).holds(&args()));
        let verdict = "5000 answers compared, 0 differ, p99 x 1.50, beside the end of many locks x 1.00";
        assert_eq!(compared(150).verdict(), verdict);
        let slow = large_end::Times {
            claims: vec![Duration::from_micros(151); 200],
            ..compared(150).large_end.beside
        };
        let slow = LargeEnd { beside: slow, ..compared(150).large_end };
        assert!(!Compared { large_end: slow, ..compared(150) }.holds(&args()));
        assert!(!compared(151).holds(&args()));
        assert!(compared(151).holds(&Args { at_most: None, ..args() }), "the time is told only");
        assert!(!Compared { differences: vec!["x".to_owned()], ..compared(100) }.holds(&args()));
    }

    #[test]
    fn a_run_that_did_too_little_proves_nothing() {
        assert!(compared(100).enough(&args()).is_ok());
        assert!(Compared { answers: 399, ..compared(100) }.enough(&args()).is_err());
        let mut idle = compared(100);
        idle.neighbour.claims = 3;
        let error = idle.enough(&args()).unwrap_err().to_string();
        assert!(error.contains("refused 3 times by claims"), "{error}");
        let mut short = compared(100);
        short.large_end.beside.claims.pop();
        let error = short.enough(&args()).unwrap_err().to_string();
        assert!(error.contains("299 claims during the end"), "{error}");
        let mut swift = compared(100);
        swift.large_end.sweeps.push(Duration::from_micros(100));
        let error = swift.enough(&args()).unwrap_err().to_string();
        assert!(error.contains("before the first claim"), "{error}");
        let slow = Compared { meanwhile: Duration::from_secs(3), ..compared(100) };
        let error = slow.enough(&args()).unwrap_err().to_string();
        assert!(error.contains("by its rate 33 times in a second"), "{error}");
    }
}
