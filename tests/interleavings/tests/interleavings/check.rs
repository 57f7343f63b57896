//! Runs a scenario with many schedules.

use std::env;
use std::str::FromStr;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

/// How many schedules each scheduler tries, unless the environment says otherwise.
const ITERATIONS: usize = 1000;

/// How often PCT takes the turn from a thread at a point of its choice.
const PREEMPTIONS: usize = 3;

/// The same schedules in each run.
const SEED: u64 = 1;

/// Runs the scenario with schedules of both kinds: at random, which changes threads often, and by PCT, which
/// stops a thread at a few points for long. A thread that waits for ever fails it.
pub(crate) fn check(scenario: impl Fn() + Copy + Send + Sync + 'static) {
    if let Ok(schedule) = env::var("INTERLEAVINGS_SCHEDULE") {
        return run(ReplayScheduler::new_from_encoded(&schedule), scenario);
    }
    let iterations = of_environment("INTERLEAVINGS_ITERATIONS").unwrap_or(ITERATIONS);
    run(PctScheduler::new_from_seed(SEED, PREEMPTIONS, iterations), scenario);
    run(RandomScheduler::new_from_seed(SEED, iterations), scenario);
}

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.max_steps = MaxSteps::FailAfter(100_000);
    config.silence_warnings = true;
    // Timers need a runtime. No thread drives it, and its time stands still: no time-out ever comes, and
    // nothing depends on how fast the machine is.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without input and output needs nothing of the system");
    let _context = runtime.enter();
    Runner::new(scheduler, config).run(scenario);
}

fn of_environment<T: FromStr>(variable: &str) -> Option<T> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}: {value:?} is no number")))
}

/// Waits for an answer, while other threads go on.
pub(crate) fn wait<T: IntoFuture>(answer: T) -> T::Output {
    shuttle::future::block_on(answer.into_future())
}
