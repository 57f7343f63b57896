//! The simulation: what a seed decides, and what it finds.

use std::thread;

use clap::ValueEnum;
use proofs::sim::Cast;
use proofs::sim::fleet::Plant;
use proofs::sim::run::{judge, play, play_many};
use proofs::sim::tally::Tally;

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

/// The schedule with which the search begins. Of the rare flaws it is one that showed them when it was noted
/// here, which spares a minute for as long as it still does.
fn first_schedule(plant: Plant) -> u64 {
    match plant {
        Plant::ListServesTwice => 2713,
        Plant::ClosingHousePings => 1325,
        Plant::ShortRecovery => 385,
        _ => 1,
    }
}

#[test]
fn every_flaw_of_the_model_is_found() {
    let find = |plant: Plant| {
        let has_breach =
            |number: &u64| !play(Cast::Fleet(Some(plant)), 1, *number, false).breaches.is_empty();
        let first = first_schedule(plant);
        (plant, (first..first + BOUND).find(has_breach))
    };
    let found = thread::scope(|scope| {
        let threads: Vec<_> =
            Plant::value_variants().iter().map(|plant| scope.spawn(move || find(*plant))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    // For new first schedules.
    println!("{found:?}");
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
    let [one, four] = [1, 4].map(|threads| play_many(20, 7, threads, Cast::Server));
    assert_eq!((one.commands, one.faults), (four.commands, four.faults));
    assert_eq!(one.tally.as_map(), four.tally.as_map());
    assert!(one.breaches.is_empty() && four.breaches.is_empty());
}
