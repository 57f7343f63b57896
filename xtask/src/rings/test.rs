//! `cargo xtask test`: from a fresh clone to one total.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args as ClapArgs;

use crate::workspace::{setup, tree};
use crate::{Verdict, requirements, rings};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Only these rings, without the join of the requirements
    #[arg(long, value_name = "RING", value_delimiter = ',', value_parser = known_ring)]
    only: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let mut times = Times::default();
    let (mut passed, mut failed) = (0, 0);
    let is_chosen =
        |ring: &rings::Ring| args.only.is_empty() || args.only.iter().any(|name| name == ring.name);
    let mut steps = vec![("setup", setup::run as fn(&Path) -> Result<()>)];
    if rings::RINGS.iter().any(|ring| is_chosen(ring) && !rings::WITHOUT_BUILD.contains(&ring.name)) {
        steps.push(("build", rings::build));
    }
    for (name, prepare) in steps {
        if let Err(error) = times.of(name, || prepare(&root)) {
            // The rings that can do without go on: more is learnt from one run.
            println!("   {name} failed: {error:#}");
            failed += 1;
        }
    }
    let stamp = tree::stamp(&root)?;
    if args.only != [rings::SECRETS] {
        traces::begin(&tree::traces_folder(&root)?)?;
    }
    for ring in rings::RINGS.iter().filter(|ring| is_chosen(ring)) {
        let result = times.of(ring.name, || rings::run(ring, &root, &stamp))?;
        passed += result.passed();
        failed += result.failed();
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
    times.print();
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// The time of each step.
#[derive(Default)]
struct Times(Vec<(&'static str, Duration)>);

impl Times {
    fn of<T>(&mut self, step: &'static str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.0.push((step, started.elapsed()));
        done
    }

    fn print(&self) {
        println!("── seconds");
        for (step, time) in &self.0 {
            println!("   {step:<10} {:>6.0}", time.as_secs_f64());
        }
        let all: Duration = self.0.iter().map(|(_, time)| *time).sum();
        println!("   {:<10} {:>6.0}", "all", all.as_secs_f64());
    }
}

fn known_ring(name: &str) -> Result<String, String> {
    let names: Vec<&str> = rings::RINGS.iter().map(|ring| ring.name).collect();
    if names.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(format!("the rings are {}", names.join(", ")))
    }
}
