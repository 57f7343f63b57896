//! Plays schedules, on as many threads as there are, and reports the result.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
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
struct Sum {
    schedules: u64,
    faults: u64,
    commands: u64,
    tally: Tally,
    /// By number.
    breaches: BTreeMap<u64, Vec<String>>,
}

pub(super) fn all(args: &Args, cast: Cast) -> Verdict {
    record_panics();
    let started = Stopwatch::now();
    let sum = play_all(args, cast);
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

fn play_all(args: &Args, cast: Cast) -> Sum {
    let threads = args
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get));
    let (next, sum) = (AtomicU64::new(1), Mutex::new(Sum::default()));
    let shows = std::io::stdout().is_terminal();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > args.schedules {
                        return;
                    }
                    let played = play(cast, args.seed, number, false);
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
fn play(cast: Cast, seed: u64, number: u64, with_notes: bool) -> Written {
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

fn judge(cast: Cast, written: &mut Written) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use clap::ValueEnum;

    use super::*;
    use crate::sim::fleet::Plant;

    #[test]
    fn the_same_seed_plays_the_same_schedules() {
        for number in 1..=20 {
            let (one, two) = (play(Cast::Server, 7, number, false), play(Cast::Server, 7, number, false));
            assert_eq!(one.breaches, two.breaches);
            let differs = one.events.iter().zip(&two.events).find(|(one, two)| one != two);
            assert_eq!(differs, None, "schedule {number}");
            assert_eq!(one.events.len(), two.events.len(), "schedule {number}");
        }
        assert_ne!(play(Cast::Server, 7, 1, false).events, play(Cast::Server, 8, 1, false).events);
    }

    #[test]
    fn the_same_seed_plays_the_same_schedules_of_a_fleet() {
        for number in 1..=10 {
            let [one, two] = [(); 2].map(|()| play(Cast::Fleet(None), 7, number, true));
            assert_eq!(one.breaches, [""; 0], "schedule {number}");
            let differs = one.notes.iter().zip(&two.notes).find(|(one, two)| one != two);
            assert_eq!((differs, one.notes.len()), (None, two.notes.len()), "schedule {number}");
            assert_eq!(one.tally.as_map(), two.tally.as_map(), "schedule {number}");
        }
    }

    /// The most schedules that it takes to find a flaw. The rarest shows about once in 1500.
    const BOUND: u64 = 8000;

    #[test]
    fn every_flaw_of_the_model_is_found() {
        let find = |plant: Plant| {
            let has_breach =
                |number: &u64| !play(Cast::Fleet(Some(plant)), 1, *number, false).breaches.is_empty();
            (plant, (1..=BOUND).find(has_breach))
        };
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> =
                Plant::value_variants().iter().map(|plant| scope.spawn(move || find(*plant))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(found.iter().all(|(_, number)| number.is_some()), "{found:?}");
    }

    #[test]
    fn a_schedule_that_does_too_little_is_a_breach() {
        let mut idle = play(Cast::Server, 7, 1, false);
        assert_eq!(idle.breaches, [""; 0]);
        idle.tally = Tally::new();
        judge(Cast::Server, &mut idle);
        assert_eq!(idle.breaches, ["proves too little: 0 commands, 0 faults"]);
    }

    #[test]
    fn the_sum_does_not_depend_on_the_number_of_threads() {
        let sum = |threads| {
            let args = Args {
                schedules: 20,
                seed: 7,
                only: None,
                threads: Some(threads),
                history: None,
                fleet: false,
                plant: None,
                json: None,
            };
            play_all(&args, Cast::Server)
        };
        let (one, four) = (sum(1), sum(4));
        assert_eq!((one.commands, one.faults), (four.commands, four.faults));
        assert_eq!(one.tally.as_map(), four.tally.as_map());
        assert!(one.breaches.is_empty() && four.breaches.is_empty());
    }
}
