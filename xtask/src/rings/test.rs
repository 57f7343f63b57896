//! `cargo xtask test`: from a fresh clone to one total.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use clap::Args as ClapArgs;

use super::{Ring, run};
use crate::workspace::{scratch, tree};
use crate::{Verdict, requirements, rings};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Only these rings, without the join of the requirements
    #[arg(long, value_name = "RING", value_delimiter = ',', value_parser = known_ring)]
    only: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let started = Instant::now();
    let is_chosen = |ring: &&Ring| args.only.is_empty() || args.only.iter().any(|name| name == ring.name);
    let rings: Vec<&Ring> = rings::RINGS.iter().filter(is_chosen).collect();
    let (mut times, mut failed) = prepare(&root, &rings);
    let mut passed = 0;
    let stamp = tree::stamp(&root)?;
    if args.only != [rings::SECRETS] {
        traces::begin(&tree::traces_folder(&root)?)?;
    }
    scratch::begin(&root)?;
    let results = run::run(rings, &root, &stamp);
    if let Err(error) = scratch::end(&root) {
        println!("   {error:#}");
    }
    for result in results {
        passed += result.passed();
        failed += result.failed();
        times.push(format!("{} {:.0}", result.ring, result.seconds));
    }
    if args.only.is_empty() {
        println!("── requirements: every line has tests that ran and passed, or an argument");
        for section in requirements::SECTIONS {
            match requirements::joined(&root, &stamp, section, false) {
                Ok(true) => passed += 1,
                Ok(false) => failed += 1,
                Err(error) => {
                    println!("   {error:#}");
                    failed += 1;
                }
            }
        }
    }
    println!("── {:.0} s: {}", started.elapsed().as_secs_f64(), times.join(", "));
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// Installs what is missing, which mostly waits for the network, while the build computes. Returns the
/// seconds of both, and how many of them failed. The rings that can do without go on then: more is learnt
/// from one run.
fn prepare(root: &Path, rings: &[&Ring]) -> (Vec<String>, usize) {
    let is_built = rings.iter().any(|ring| !rings::WITHOUT_BUILD.contains(&ring.name));
    let timed = |name: &str, work: fn(&Path) -> Result<()>| {
        let started = Instant::now();
        let done = work(root);
        let seconds = started.elapsed().as_secs_f64();
        match &done {
            Ok(()) => println!("── {name:<13} ok in {seconds:.0} s"),
            Err(error) => println!("── {name:<13} FAILED in {seconds:.0} s: {error:#}"),
        }
        (format!("{name} {seconds:.0}"), usize::from(done.is_err()))
    };
    let steps = thread::scope(|scope| {
        let build = is_built.then(|| scope.spawn(|| timed("build", run::build)));
        let setup = timed("setup", run::prepare);
        let build = build.map(|build| build.join().unwrap_or_else(|panic| resume_unwind(panic)));
        [Some(setup), build]
    });
    let failed = steps.iter().flatten().map(|(_, failed)| failed).sum();
    (steps.into_iter().flatten().map(|(times, _)| times).collect(), failed)
}

fn known_ring(name: &str) -> Result<String, String> {
    let names: Vec<&str> = rings::RINGS.iter().map(|ring| ring.name).collect();
    if names.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(format!("the rings are {}", names.join(", ")))
    }
}
