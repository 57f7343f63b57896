//! The instructions of the hot paths, counted by valgrind, and compared with those that were accepted.
//!
//! Time depends on the machine and on what else runs there; instructions do not. Each path runs twice in a
//! process of its own, with few operations and with many: the difference is free of all that comes once.

mod accepted;
mod paths;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use xtask::workspace::tree;

use crate::Verdict;
use crate::evidence;
use accepted::Accepted;
use paths::HotPath;

/// Count the instructions of the hot paths, and compare them with those that were accepted
///
/// The accepted counts are in tests/guard/counts.json, by version of the compiler. A path that takes 3 %
/// more fails; with a compiler of which there are no counts, 30 % more.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only this path
    #[arg(long, value_name = "PATH")]
    only: Option<HotPath>,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Accept the present counts of these paths, with the reason why they may be so
    Accept {
        /// The paths
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<HotPath>,
        /// The reason, which is written beside the count
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

/// The process whose instructions are counted
#[derive(Debug, clap::Args)]
pub struct PathArgs {
    path: HotPath,
    operations: usize,
}

pub fn run_path(args: &PathArgs) -> Verdict {
    args.path.run(args.operations).map(|()| true)
}

pub fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let program = Counted::new()?;
    let mut accepted = Accepted::read(&root)?;
    if let Some(Action::Accept { paths, reason }) = &args.action {
        for path in paths {
            let count = program.instructions_of(*path)?;
            println!("{:<16} {count:>9}", path.word());
            accepted.accept(*path, count, reason);
        }
        accepted.write(&root)?;
        return Ok(true);
    }
    let (mut holds, mut counts) = (true, serde_json::Map::new());
    if !accepted.is_known() {
        println!("no count is of {}: the largest of others are compared", accepted.toolchain());
    }
    println!("{:<16} {:>9} {:>9}", "instructions of", "accepted", "now");
    for path in HotPath::value_variants().iter().filter(|path| args.only.is_none_or(|only| only == **path)) {
        let (was, most_more) = accepted.of(*path)?;
        let count = program.instructions_of(*path)?;
        let more = count as f64 / was as f64 - 1.0;
        println!("{:<16} {was:>9} {count:>9} {:>+6.1} %", path.word(), 100.0 * more);
        if more > most_more {
            holds = false;
            println!(
                "   too many: find out why, or accept it: cargo xtask guard accept {} --reason TEXT",
                path.word()
            );
        } else if more < -most_more {
            println!(
                "   fewer: accept it, so that it stays: cargo xtask guard accept {} --reason TEXT",
                path.word()
            );
        }
        counts.insert(path.word().to_owned(), serde_json::json!({"accepted": was, "now": count}));
    }
    if let Some(json) = &args.json {
        evidence::write(
            json,
            serde_json::json!({"toolchain": accepted.toolchain(), "instructions": counts}),
        )?;
    }
    println!("guard: {}", if holds { "holds" } else { "some paths take more than accepted" });
    Ok(holds)
}

/// This program without its tables for debuggers, which valgrind would read for each run.
struct Counted {
    _folder: tempfile::TempDir,
    program: PathBuf,
}

impl Counted {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join("lab");
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&program).arg(env::current_exe()?);
        ensure!(strip.status().context("cannot start strip")?.success(), "strip failed");
        Ok(Self { _folder: folder, program })
    }

    /// The instructions of one operation.
    fn instructions_of(&self, path: HotPath) -> Result<u64> {
        let (few, many) = path.operations();
        let (of_few, of_many) = thread::scope(|scope| {
            let of_few = scope.spawn(|| count(&self.program, path, few));
            let of_many = count(&self.program, path, many);
            (of_few.join(), of_many)
        });
        let of_few = of_few.map_err(|_| anyhow::anyhow!("the count fell over"))?;
        let more =
            of_many?.checked_sub(of_few?).context("many operations took fewer instructions than few")?;
        Ok(more / (many - few) as u64)
    }
}

/// The instructions of a whole process.
fn count(program: &Path, path: HotPath, operations: usize) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    valgrind.arg(program).args(["guard-path", path.word(), &operations.to_string()]);
    let output = valgrind.stdin(Stdio::null()).output().context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!(
            "{} under valgrind: {}\n{said}{}",
            path.word(),
            output.status,
            String::from_utf8_lossy(&output.stdout)
        );
    }
    instructions(&said).with_context(|| format!("valgrind reports no instructions:\n{said}"))
}

/// The number in a line such as `==7== I   refs:      1,234`.
pub fn instructions(report: &str) -> Option<u64> {
    let (_, number) =
        report.lines().find(|line| line.contains(" I ") && line.contains("refs:"))?.split_once("refs:")?;
    number.trim().replace(',', "").parse().ok()
}
