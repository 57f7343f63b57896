//! `cargo xtask oracle`: random commands go to the core and to a literal transcription of the specification,
//! and every answer, effect and state must be the same.

mod compare;
mod histogram;
pub mod literal;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant as Stopwatch;

use lockhouse_core::{AgentId, RequestId};
use random::Random;
use random::commands::{Story, World, foreign};

use crate::Verdict;
use crate::evidence;
use crate::panics::silenced;
use compare::{Difference, Pair};
use histogram::Histogram;

/// How the core is compared with the specification.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many commands to compare
    #[arg(long, default_value_t = 1_000_000)]
    commands: usize,
    /// Where the random numbers start
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A class must come up once in so many commands: 1,000 times in a million.
const COMMANDS_PER_SIGHTING: usize = 1_000;

struct Run {
    worlds: u64,
    commands: usize,
    histogram: Histogram,
    difference: Option<(Story, Difference)>,
}

pub fn run(args: &Args) -> Verdict {
    let started = Stopwatch::now();
    let foreign = foreign();
    let run = silenced(|| explore(args, foreign));
    print!("{}", run.histogram);
    let floor = (args.commands / COMMANDS_PER_SIGHTING).max(1) as u64;
    let rare = run.histogram.below(floor);
    if let Some(path) = &args.json {
        let result = serde_json::json!({
            "commands": run.commands,
            "differences": u8::from(run.difference.is_some()),
            "seed": args.seed,
            "worlds": run.worlds,
            "floor": floor,
            "belowFloor": rare,
            "classes": run.histogram.as_map(),
            "seconds": started.elapsed().as_secs_f64(),
        });
        evidence::write(path, result)?;
    }
    if let Some((story, difference)) = &run.difference {
        println!(
            "\n{difference}\n\nafter these commands (seed {}, world {}):\n\n{story}",
            args.seed, run.worlds
        );
    } else if !rare.is_empty() {
        println!("\ntoo rare to prove anything, below {floor} each: {}", rare.join(", "));
    }
    let differences = u8::from(run.difference.is_some());
    println!(
        "{} worlds of seed {} in {:.1} s; each class at least {floor} times (1 in {COMMANDS_PER_SIGHTING} commands)",
        run.worlds,
        args.seed,
        started.elapsed().as_secs_f64()
    );
    println!("{} commands, {differences} differences", run.commands);
    Ok(differences == 0 && rare.is_empty())
}

fn explore(args: &Args, foreign: (AgentId, RequestId)) -> Run {
    let mut run = Run { worlds: 0, commands: 0, histogram: Histogram::new(), difference: None };
    let mut seeds = Random::new(args.seed);
    while run.commands < args.commands {
        run.worlds += 1;
        let mut random = Random::new(seeds.next_u64());
        let world = World::new(&mut random);
        let mut story = Story { start: world.start.clone(), steps: Vec::new() };
        let mut pair = Pair::new(&story.start, foreign);
        for nth in 0..world.length.min(args.commands - run.commands) {
            let step = world.step(nth, &mut random, &pair.view());
            story.steps.push(step.clone());
            run.commands += 1;
            if let Err(difference) = pair.play(&step, &mut run.histogram) {
                run.difference = Some(shrink(story, difference, foreign));
                return run;
            }
        }
    }
    run
}

/// The difference between the core and the specification over the commands that the bytes choose, with those
/// commands; `None` if nothing does, as it must be.
pub fn disagreement(bytes: &[u8]) -> Option<String> {
    static FOREIGN: OnceLock<(AgentId, RequestId)> = OnceLock::new();
    let foreign = *FOREIGN.get_or_init(foreign);
    let mut choices = Random::of_bytes(bytes);
    let world = World::new(&mut choices);
    let mut story = Story { start: world.start.clone(), steps: Vec::new() };
    let (mut pair, mut histogram) = (Pair::new(&story.start, foreign), Histogram::new());
    for nth in 0..world.length {
        if choices.is_spent() {
            break;
        }
        let step = world.step(nth, &mut choices, &pair.view());
        story.steps.push(step.clone());
        if let Err(difference) = pair.play(&step, &mut histogram) {
            return Some(format!("{difference}\n\nafter these commands:\n\n{story}"));
        }
    }
    None
}

/// Leaves out commands as long as some difference remains: halves first, single ones last.
fn shrink(
    mut story: Story,
    mut difference: Difference,
    foreign: (AgentId, RequestId),
) -> (Story, Difference) {
    let mut chunk = story.steps.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < story.steps.len() {
            let mut attempt = story.clone();
            attempt.steps.drain(at..(at + chunk).min(story.steps.len()));
            match replay(&attempt, foreign) {
                Some(found) => {
                    (story, difference, shorter) = (attempt, found, true);
                }
                None => at += chunk,
            }
        }
        if !shorter || chunk > 1 {
            chunk /= 2;
        }
    }
    (story, difference)
}

fn replay(story: &Story, foreign: (AgentId, RequestId)) -> Option<Difference> {
    let mut pair = Pair::new(&story.start, foreign);
    let mut histogram = Histogram::new();
    story.steps.iter().find_map(|step| pair.play(step, &mut histogram).err())
}
