//! `cargo xtask model`: every state of a small world, breadth first, and the promises in each of them.
//!
//! Two names, three agents, one of which has a lease. Anything can happen next: any kind of request of anybody for either
//! name, an abort, a release, an end, a return, a renewal, the passing of time. States that nobody can tell apart are
//! visited once. The check reads only what the core tells: outcomes, effects, snapshots, standings.

mod action;
mod told;
mod world;

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant as Stopwatch;

use foldhash::fast::FixedState;

use crate::Verdict;
use crate::panics::{guarded, silenced};
use action::{Action, Code};
use told::Breach;
use world::{Key, World};

/// How much of the small world is explored.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The whole space, until no new state is found
    #[arg(long, visible_alias = "complete")]
    full: bool,
    /// How many actions deep, instead of the usual depth
    #[arg(long)]
    depth: Option<usize>,
    /// Requests and locks of one agent at once, at most
    #[arg(long, default_value_t = 2)]
    requests: u32,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The longest path.
const MAX_DEPTH: usize = 16;
/// Fewer states prove too little.
const MIN_STATES: usize = 1_000_000;
const SHARDS: usize = 64;

/// How one gets to a state from nothing.
type Path = [Code; MAX_DEPTH];

struct Found {
    path: Vec<Action>,
    breach: Breach,
}

#[derive(Default)]
struct Exploration {
    states: usize,
    transitions: usize,
    depth: usize,
    per_depth: Vec<usize>,
    /// There is nothing deeper.
    complete: bool,
    found: Option<Found>,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let depth = args.depth.unwrap_or(if args.full { MAX_DEPTH } else { 6 });
    let requests = args.requests;
    anyhow::ensure!((1..=MAX_DEPTH).contains(&depth), "--depth {depth}: from 1 to {MAX_DEPTH}");
    anyhow::ensure!((1..=3).contains(&requests), "--requests {requests}: from 1 to 3");
    println!(
        "2 names, 3 agents with at most {requests} requests and locks each, one with a lease of {} ticks; to depth {depth}",
        action::LEASE
    );

    let started = Stopwatch::now();
    let explored = silenced(|| explore(depth, requests));
    let enough = explored.states >= MIN_STATES || args.depth.is_some();
    let breaches = u8::from(explored.found.is_some());
    if let Some(path) = &args.json {
        let result = serde_json::json!({
            "states": explored.states,
            "transitions": explored.transitions,
            "depth": explored.depth,
            "complete": explored.complete,
            "statesPerDepth": explored.per_depth,
            "breaches": breaches,
            "names": action::NAMES.len(),
            "agents": action::AGENTS,
            "requestsPerAgent": requests,
            "seconds": started.elapsed().as_secs_f64(),
        });
        std::fs::write(path, serde_json::to_vec_pretty(&result)?)?;
    }
    println!("{} transitions checked in {:.1} s", explored.transitions, started.elapsed().as_secs_f64());
    if let Some(Found { path, breach }) = &explored.found {
        println!("\n{breach}\n\nafter:\n");
        path.iter().for_each(|action| println!("{action}"));
        println!();
    } else if !enough {
        println!("fewer than {MIN_STATES} states prove too little");
    }
    println!("{} states, depth {}, {breaches} breaches", explored.states, explored.depth);
    Ok(breaches == 0 && enough)
}

/// Layer by layer, so that the path to a breach is a shortest one.
fn explore(depth: usize, requests: u32) -> Exploration {
    let visited = Visited::default();
    let mut explored = Exploration { states: 1, per_depth: vec![1], ..Exploration::default() };
    match guarded(|| World::new(requests)) {
        Ok(start) => visited.insert(start.key()),
        Err(breach) => return Exploration { found: Some(Found { path: Vec::new(), breach }), ..explored },
    };
    let mut frontier: Vec<Path> = vec![[Code::NONE; MAX_DEPTH]];
    for at in 0..depth {
        let layer = expand(&frontier, at, requests, &visited);
        explored.transitions += layer.transitions;
        explored.found = layer.found;
        if explored.found.is_none() && layer.paths.is_empty() {
            explored.complete = true;
            println!("nothing new at depth {}: the space is complete", at + 1);
            break;
        }
        explored.depth = at + 1;
        explored.states += layer.paths.len();
        explored.per_depth.push(layer.paths.len());
        println!("depth {:2}: {:>9} new states", at + 1, layer.paths.len());
        if explored.found.is_some() {
            break;
        }
        frontier = layer.paths;
    }
    explored
}

#[derive(Default)]
struct Layer {
    paths: Vec<Path>,
    transitions: usize,
    found: Option<Found>,
}

/// The states one action away from those of the frontier that were not visited before.
fn expand(frontier: &[Path], depth: usize, requests: u32, visited: &Visited) -> Layer {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chunks: Vec<&[Path]> = frontier.chunks(frontier.len().div_ceil(threads)).collect();
    let layers: Vec<Layer> = std::thread::scope(|scope| {
        let work = |chunk| move || expand_chunk(chunk, depth, requests, visited);
        let running: Vec<_> = chunks.into_iter().map(|chunk| scope.spawn(work(chunk))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    layers.into_iter().fold(Layer::default(), |mut all, mut layer| {
        all.paths.append(&mut layer.paths);
        all.transitions += layer.transitions;
        all.found = all.found.or(layer.found);
        all
    })
}

fn expand_chunk(frontier: &[Path], depth: usize, requests: u32, visited: &Visited) -> Layer {
    let mut layer = Layer::default();
    for path in frontier {
        let Ok(parent) = replay(path, depth, requests) else { continue };
        for action in parent.actions() {
            layer.transitions += 1;
            match guarded(|| step(path, depth, requests, action, visited)) {
                Ok(true) => {
                    let mut longer = *path;
                    longer[depth] = Code::from(action);
                    layer.paths.push(longer);
                }
                Ok(false) => {}
                Err(breach) => {
                    let path = path[..depth].iter().map(|code| Action::from(*code)).chain([action]).collect();
                    layer.found = Some(Found { path, breach });
                    return layer;
                }
            }
        }
    }
    layer
}

/// Takes one action in the state at the end of the path; says whether it leads to a new state.
fn step(path: &Path, depth: usize, requests: u32, action: Action, visited: &Visited) -> Result<bool, Breach> {
    let mut world = replay(path, depth, requests)?;
    world.act(action)?;
    world.check()?;
    let new = visited.insert(world.key());
    world.try_out()?;
    Ok(new)
}

fn replay(path: &Path, depth: usize, requests: u32) -> Result<World, Breach> {
    let mut world = World::new(requests)?;
    path[..depth].iter().try_for_each(|code| world.act(Action::from(*code)))?;
    Ok(world)
}

/// The keys of all states that were ever reached.
struct Visited(Vec<Mutex<HashSet<Key, FixedState>>>);

impl Default for Visited {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Visited {
    /// Whether the key is new.
    fn insert(&self, key: Key) -> bool {
        let shard = FixedState::with_seed(1).hash_one(key) as usize % SHARDS;
        // A thread that panicked in here left the set as it was.
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner).insert(key)
    }
}
