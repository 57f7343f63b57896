//! `cargo xtask model`: every state of a small world, breadth first, and the promises in each of them.
//!
//! The worlds are two. In the first, of web locks, two names and three agents, one of which has a lease;
//! in the second two owners, one claimant and one agent. Anything can happen next: any kind of request of any
//! actor for either name, an abort, a release, an end, a return, a renewal, the passing of time. States that
//! are indistinguishable from outside are visited once. The check reads only the core's output: outcomes,
//! effects, snapshots, statuses.

pub mod action;
mod announced;
pub mod offline;
mod world;

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant as Stopwatch;

use foldhash::fast::FixedState;

use crate::Verdict;
use crate::evidence;
use crate::panics::{guarded, silenced};
use announced::Breach;

/// The part of the small world that is explored.
#[derive(Debug, clap::Args)]
pub struct Args {
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
/// The additional depth of the second world, which has fewer possibilities.
const DEEPER: usize = 2;
/// Fewer states prove too little.
const MIN_STATES: usize = 1_000_000;
const SHARDS: usize = 64;

/// An action as a path stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionCode(u8);

impl ActionCode {
    pub const NONE: Self = Self(255);
}

/// The path to a state from the start.
type Path = [ActionCode; MAX_DEPTH];

/// A state without its history: equal keys mean that the two states are indistinguishable from outside.
type Key = u128;

/// The core, the output that it has given, and the checks of the promises on both.
trait SmallWorld: Clone {
    type Action: Copy + From<ActionCode> + Into<ActionCode> + Display;

    /// The world at its start, in which an agent has at most this number of requests and locks.
    fn new(requests: u32) -> Result<Self, Breach>;
    /// All actions that can happen next, those beyond the bound included.
    fn actions(&self) -> Vec<Self::Action>;
    /// Executes the action, and checks all output.
    fn act(&mut self, action: Self::Action) -> Result<(), Breach>;
    /// Checks that the core's state is the one that its output announced, and keeps the promises.
    fn check(&mut self) -> Result<(), Breach>;
    /// Whether the state is sound inside as well, by asking what changes it: the world is over then.
    fn try_out(self) -> Result<(), Breach>;
    fn key(&self) -> Key;
}

struct Found {
    path: Vec<String>,
    breach: Breach,
}

#[derive(Default)]
struct Exploration {
    states: usize,
    transitions: usize,
    depth: usize,
    per_depth: Vec<usize>,
    /// No deeper state exists.
    complete: bool,
    found: Option<Found>,
}

pub fn run(args: &Args) -> Verdict {
    let depth = args.depth.unwrap_or(if args.full { MAX_DEPTH } else { 6 });
    let requests = args.requests;
    anyhow::ensure!((1..=MAX_DEPTH).contains(&depth), "--depth {depth}: from 1 to {MAX_DEPTH}");
    anyhow::ensure!((1..=3).contains(&requests), "--requests {requests}: from 1 to 3");
    let started = Stopwatch::now();
    println!(
        "2 names, 3 agents with at most {requests} requests and locks each, one with a lease of {} ticks; to depth {depth}",
        action::LEASE
    );
    let web = silenced(|| explore::<world::World>(depth, requests));
    web.print(started);
    let started_offline = Stopwatch::now();
    let depth = (depth + DEEPER).min(MAX_DEPTH);
    println!("2 names, 2 owners, 1 claimant, 1 agent; to depth {depth}");
    let offline = silenced(|| explore::<offline::World>(depth, requests));
    offline.print(started_offline);
    let states = web.states + offline.states;
    let enough = states >= MIN_STATES || args.depth.is_some();
    let breaches = web.breaches() + offline.breaches();
    if let Some(path) = &args.json {
        let mut result = web.as_json(started);
        result["names"] = action::NAMES.len().into();
        result["agents"] = action::AGENTS.into();
        result["requestsPerAgent"] = requests.into();
        result["offline"] = offline.as_json(started_offline);
        evidence::write(path, result)?;
    }
    if breaches == 0 && !enough {
        println!("fewer than {MIN_STATES} states prove too little");
    }
    println!("{states} states, depth {}, {breaches} breaches", web.depth.max(offline.depth));
    Ok(breaches == 0 && enough)
}

impl Exploration {
    fn breaches(&self) -> u8 {
        u8::from(self.found.is_some())
    }

    fn print(&self, started: Stopwatch) {
        let Self { states, transitions, .. } = self;
        println!(
            "{states} states, {transitions} transitions checked in {:.1} s",
            started.elapsed().as_secs_f64()
        );
        if let Some(Found { path, breach }) = &self.found {
            println!("\n{breach}\n\nafter:\n");
            path.iter().for_each(|action| println!("{action}"));
        }
        println!();
    }

    fn as_json(&self, started: Stopwatch) -> serde_json::Value {
        serde_json::json!({
            "states": self.states,
            "transitions": self.transitions,
            "depth": self.depth,
            "complete": self.complete,
            "statesPerDepth": self.per_depth,
            "breaches": self.breaches(),
            "seconds": started.elapsed().as_secs_f64(),
        })
    }
}

/// Layer by layer, so that the path to a breach is a shortest one.
fn explore<W: SmallWorld>(depth: usize, requests: u32) -> Exploration {
    let visited = Visited::default();
    let mut explored = Exploration { states: 1, per_depth: vec![1], ..Exploration::default() };
    match guarded(|| W::new(requests)) {
        Ok(start) => visited.insert(start.key()),
        Err(breach) => return Exploration { found: Some(Found { path: Vec::new(), breach }), ..explored },
    };
    let mut frontier: Vec<Path> = vec![[ActionCode::NONE; MAX_DEPTH]];
    for at in 0..depth {
        let layer = expand::<W>(&frontier, at, requests, &visited);
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
fn expand<W: SmallWorld>(frontier: &[Path], depth: usize, requests: u32, visited: &Visited) -> Layer {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chunks: Vec<&[Path]> = frontier.chunks(frontier.len().div_ceil(threads)).collect();
    let layers: Vec<Layer> = std::thread::scope(|scope| {
        let work = |chunk| move || expand_chunk::<W>(chunk, depth, requests, visited);
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

fn expand_chunk<W: SmallWorld>(frontier: &[Path], depth: usize, requests: u32, visited: &Visited) -> Layer {
    let mut layer = Layer::default();
    for path in frontier {
        let Ok(parent) = replay::<W>(path, depth, requests) else { continue };
        for action in parent.actions() {
            layer.transitions += 1;
            match guarded(|| step(parent.clone(), action, visited)) {
                Ok(true) => {
                    let mut longer = *path;
                    longer[depth] = action.into();
                    layer.paths.push(longer);
                }
                Ok(false) => {}
                Err(breach) => {
                    let path = path[..depth].iter().map(|code| W::Action::from(*code)).chain([action]);
                    let path = path.map(|action| action.to_string()).collect();
                    layer.found = Some(Found { path, breach });
                    return layer;
                }
            }
        }
    }
    layer
}

/// Takes one action; returns whether it leads to a new state.
fn step<W: SmallWorld>(mut world: W, action: W::Action, visited: &Visited) -> Result<bool, Breach> {
    world.act(action)?;
    world.check()?;
    let new = visited.insert(world.key());
    world.try_out()?;
    Ok(new)
}

fn replay<W: SmallWorld>(path: &Path, depth: usize, requests: u32) -> Result<W, Breach> {
    let mut world = W::new(requests)?;
    path[..depth].iter().try_for_each(|code| world.act((*code).into()))?;
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

struct KeyBuilder(Key);

impl KeyBuilder {
    fn new() -> Self {
        Self(1)
    }

    fn push(&mut self, value: u128, bits: u32) {
        assert!(value < 1 << bits && self.0.leading_zeros() >= bits, "the key has no room for {value}");
        self.0 = self.0 << bits | value;
    }

    fn finish(self) -> Key {
        self.0
    }
}
