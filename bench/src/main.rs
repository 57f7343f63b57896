//! `lockhouse-bench`: see the library.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use lockhouse_bench::floor::Keeping;
use lockhouse_bench::report::Run;
use lockhouse_bench::{cluster, durable, floor, inproc, publish, report, server};

/// Measures lockhouse beside what users would pick instead.
#[derive(Debug, Parser)]
struct Args {
    /// Which suite; all if none is named.
    suite: Option<Suite>,
    /// How often ours and each peer are measured in turn.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only the benches whose id begins so.
    #[arg(long, value_name = "ID", default_value = "")]
    only: String,
    /// Measure this program instead of building `lockhouse`, such as one of an earlier commit.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write the figures to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Of the suite `durable`, only the benches in which syncs count, on a disk on which each takes so much
    /// longer (a number of ms).
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=1000))]
    slow_syncs: Option<u64>,
    /// Measure nothing: write docs/benchmarks.md and its plots from the figures in docs/evidence.
    #[arg(long, exclusive = true)]
    publish: bool,
    /// How the suite runs itself for each sample of memory.
    #[arg(long, hide = true, num_args = 2, value_names = ["WHAT", "CONTENDER"])]
    measure_memory: Option<Vec<String>>,
    /// How the suite runs the least of servers, on this port.
    #[arg(long, hide = true, value_name = "PORT")]
    floor: Option<u16>,
    /// What it keeps its records in.
    #[arg(long, hide = true, value_name = "FILE")]
    floor_keeps: Option<PathBuf>,
    /// That these are the rows of a database.
    #[arg(long, hide = true, requires = "floor_keeps")]
    floor_rows: bool,
    /// That it decides by a lock table.
    #[arg(long, hide = true)]
    floor_claims: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The library beside keyed locks of other crates.
    Inproc,
    /// The server beside lock services, and the JavaScript client beside the browser's own locks.
    Server,
    /// What the server keeps on the disk, beside others who keep it.
    Durable,
    /// A fleet over PostgreSQL beside a lock table in it, and clients that come to another node.
    Cluster,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some([what, contender]) = args.measure_memory.as_deref() {
        println!("{}", inproc::memory::measure(what, contender)?);
        return Ok(());
    }
    if let Some(port) = args.floor {
        let keeping = match args.floor_keeps {
            None => Keeping::Nothing,
            Some(path) if args.floor_rows => Keeping::Rows(path),
            Some(path) => Keeping::Records(path),
        };
        return floor::serve(port, keeping, args.floor_claims);
    }
    if args.publish {
        return publish::publish();
    }
    ensure!(
        args.slow_syncs.is_none() || args.suite == Some(Suite::Durable),
        "--slow-syncs is for the suite durable: lockhouse-bench durable --slow-syncs MS"
    );
    let mut run = None;
    if let Some(file) = &args.json {
        run = Some(Run::begin(args.program.is_some())?);
        // Before anything is measured, so that no figures are lost.
        let opened = File::options().append(true).create(true).open(file);
        opened.with_context(|| format!("cannot write {}", file.display()))?;
    }
    let wanted = |suite| args.suite.is_none_or(|wanted| wanted == suite);
    let mut figures = Vec::new();
    if wanted(Suite::Inproc) {
        figures.extend(inproc::run(args.rounds, &args.only)?);
    }
    if wanted(Suite::Server) {
        figures.extend(server::run(args.program.as_deref(), args.rounds, &args.only)?);
    }
    if wanted(Suite::Durable) {
        figures.extend(durable::run(
            args.program.as_deref(),
            args.rounds,
            &args.only,
            args.slow_syncs.map(Duration::from_millis),
        )?);
    }
    if wanted(Suite::Cluster) {
        figures.extend(cluster::run(args.program.as_deref(), args.rounds, &args.only)?);
    }
    report::print(&figures);
    if let (Some(file), Some(run)) = (&args.json, run) {
        report::write_json(&figures, run, file)?;
    }
    Ok(())
}
