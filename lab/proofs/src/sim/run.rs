//! Plays schedules, on as many threads as there are, and reports the result.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant as Stopwatch;

use anyhow::Context;
use parking_lot::Mutex;
use random::Random;

use super::journal::Written;
use super::tally::Tally;
use super::{Args, Cast};
use crate::Verdict;
use crate::evidence;
use crate::history;

/// The number of breaches that are reported.
const SHOWN: usize = 10;

/// The number of schedules in which each class has to come up once.
const SCHEDULES_PER_SIGHTING: u64 = 100;

/// The results of many schedules.
#[derive(Debug, Default)]
pub struct Sum {
    pub schedules: u64,
    pub faults: u64,
    pub commands: u64,
    pub tally: Tally,
    /// By number.
    pub breaches: BTreeMap<u64, Vec<String>>,
}

pub(super) fn all(args: &Args, cast: Cast) -> Verdict {
    record_panics();
    let started = Stopwatch::now();
    let threads =
        args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get));
    let sum = play_many(args.schedules, args.seed, threads, cast);
    print!("{}", sum.tally);
    let floor = (sum.schedules / SCHEDULES_PER_SIGHTING).max(1);
    let rare = sum.tally.below(floor, cast.expected());
    if let Some(path) = &args.json {
        let result = serde_json::json!({
            "schedules": sum.schedules,
            "commands": sum.commands,
            "faults": sum.faults,
            "breaches": sum.breaches.len(),
            "seed": args.seed,
            "floor": floor,
            "belowFloor": rare,
            "classes": sum.tally.as_map(),
            "seconds": started.elapsed().as_secs_f64(),
        });
        evidence::write(path, result)?;
    }
    for (number, breaches) in sum.breaches.iter().take(SHOWN) {
        println!("\nbreach in schedule {number}: {}", breaches.join("\n"));
        println!("all of it: cargo xtask sim{} --seed {} --only {number}", cast.option(), args.seed);
    }
    if !rare.is_empty() {
        println!("\ntoo rare to prove anything, below {floor} each: {}", rare.join(", "));
    }
    println!(
        "{} commands of seed {} in {:.1} s; each class at least {floor} times",
        sum.commands,
        args.seed,
        started.elapsed().as_secs_f64()
    );
    println!("{} schedules, {} faults, {} breaches", sum.schedules, sum.faults, sum.breaches.len());
    if sum.breaches.is_empty() {
        anyhow::ensure!(rare.is_empty(), "too little to prove anything");
    }
    Ok(sum.breaches.is_empty())
}

pub(super) fn only(args: &Args, cast: Cast, number: u64) -> Verdict {
    record_panics();
    let played = play(cast, args.seed, number, true);
    let mut lines: Vec<(u64, String)> = played.notes.clone();
    for event in &played.events {
        lines.push((event.at, serde_json::to_string(&event.what)?));
    }
    lines.sort();
    for (at, line) in lines {
        println!("{:>9}.{:03} {line}", at / 1_000_000, at % 1_000_000);
    }
    if let Some(path) = &args.history {
        let mut events = played.events.clone();
        events.sort_by_key(|event| event.at);
        let lines: Result<Vec<String>, _> = events.iter().map(serde_json::to_string).collect();
        std::fs::write(path, lines?.join("\n") + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{}", played.breaches.join("\n"));
    let breaches = u8::from(!played.breaches.is_empty());
    println!("1 schedules, {} faults, {breaches} breaches", played.tally.of("faults"));
    Ok(played.breaches.is_empty())
}

/// Plays that number of schedules on that number of threads.
pub fn play_many(schedules: u64, seed: u64, threads: usize, cast: Cast) -> Sum {
    let (next, sum) = (AtomicU64::new(1), Mutex::new(Sum::default()));
    let shows = std::io::stdout().is_terminal();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > schedules {
                        return;
                    }
                    let played = play(cast, seed, number, false);
                    let mut sum = sum.lock();
                    sum.add(number, &played);
                    if shows && sum.schedules % 100 == 0 {
                        print!("\r{} schedules, {} breaches", sum.schedules, sum.breaches.len());
                        _ = std::io::Write::flush(&mut std::io::stdout());
                    }
                }
            });
        }
    });
    if shows {
        println!();
    }
    sum.into_inner()
}

impl Sum {
    fn add(&mut self, number: u64, played: &Written) {
        self.schedules += 1;
        self.faults += played.tally.of("faults");
        self.commands += played.tally.of("commands");
        self.tally.join(&played.tally);
        if !played.breaches.is_empty() {
            self.breaches.insert(number, played.breaches.clone());
        }
    }
}

/// Plays one schedule and has it judged.
pub fn play(cast: Cast, seed: u64, number: u64, with_notes: bool) -> Written {
    let seed = Random::new(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).next_u64();
    PANICS.take();
    let played = catch_unwind(AssertUnwindSafe(|| cast.play(seed, with_notes)));
    let mut written = match played {
        Ok(Ok(written)) => written,
        Ok(Err(problem)) => Written::of_breach(problem),
        Err(_) => Written::of_breach("the schedule died".to_owned()),
    };
    written.breaches.extend(PANICS.take());
    written.events.sort_by_key(|event| event.at);
    if written.breaches.is_empty() || with_notes {
        judge(cast, &mut written);
    }
    written
}

pub fn judge(cast: Cast, written: &mut Written) {
    let (commands, faults) = (written.tally.of("commands"), written.tally.of("faults"));
    let (least_commands, least_faults) = cast.least();
    if commands < least_commands || faults < least_faults {
        written.breaches.push(format!("proves too little: {commands} commands, {faults} faults"));
    }
    match history::judge_events(written.events.iter().cloned()) {
        Ok(judgement) => {
            written.breaches.extend(judgement.breaches.into_iter().map(|breach| breach.account));
        }
        Err(error) => written.breaches.push(format!("no history: {error:#}")),
    }
}

thread_local! {
    /// Panics of this thread, also those of tasks, which a runtime swallows.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn record_panics() {
    std::panic::set_hook(Box::new(|info| {
        PANICS.with_borrow_mut(|panics| panics.push(format!("panic: {info}")));
    }));
}
