//! `cargo xtask chaos`: real nodes over a real PostgreSQL with a standby, each in a network of its own, and
//! clients that pause between calls. Nodes, networks, disk and database fail, one after the other.
//!
//! ```text
//!   chaos ─unshare─▶ chaos-run ─SIGKILL, SIGSTOP─▶ nodes a, b, c ◀─ WebSocket, HTTP ─ workers w1 to w4
//!                     │ ├──ip link, ip route────▶ networks        5 clients each ──▶ fence, in a
//!                     │ ├──SIGINT, SIGQUIT──────▶ db-1, db-2           │        database that never fails
//!                     │ └──lockhouse run────────▶ nodes a, b, c        │
//!                     └──────────────── one line per call, answer, loss ◀──┘
//!              history ──▶ judge
//! ```

mod certificates;
mod databases;
mod faults;
mod network;
mod nodes;
mod places;
mod probe;
mod runs;
mod storm;
pub(crate) mod worker;

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use proofs::evidence;
use proofs::history::{self, Findings};
use xtask::workspace::{setup, shell, tree};

use crate::crash::tally::Counts;
use crate::{Verdict, serving};
use faults::Kind;
use storm::{Events, Storm};

/// Let parts of a fleet fail while clients work, and judge what they wrote down
///
/// Three nodes over a PostgreSQL with an asynchronous standby, in network namespaces, and 20 clients of all
/// three disciplines in four processes, some of whose web locks guard a table that checks fencing tokens. The
/// faults come one after the other. After each of them every slot has to grant again, and all disciplines
/// have to get on. Beside them "lockhouse run" runs short commands, and its exit codes are judged. Every
/// client writes down what it asks and what it is told (docs/histories.md), and that file is judged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask chaos --seconds 60 --seed 7
  cargo xtask chaos --kinds kill,partition --seconds 20 --history chaos.jsonl
  cargo xtask check-history chaos.jsonl

It needs root on Linux, for the namespaces, and ip, mount and unshare. The kind clocks needs a server that is built
with the feature lab, as the one of this tree is. The last line is the verdict; exit 1 if any of its counts but the
first two is not 0, exit 2 if the run could not be judged or did too little to prove anything. The seed repeats which
faults come, not what the machine makes of them. With its end, however it ends, all that it has started is gone; a
history that has breaches is kept, with the logs of the nodes, and its place is told.")]
pub(crate) struct Args {
    /// How long at least; it goes on until each kind of fault has hit, at most four times as long
    #[arg(long, value_name = "S", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Which faults come, and when
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// These kinds of faults only
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Three kinds, chosen by this text, such as the commit
    #[arg(long, value_name = "TEXT", conflicts_with = "kinds")]
    some: Option<String>,
    /// The rows of the large table beside which a node is killed
    #[arg(long, value_name = "N", default_value = "200000", value_parser = clap::value_parser!(u32).range(1..))]
    large_rows: u32,
    /// Keep the history in this file, breaches or not
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// The server's binary, instead of the one of this tree, which is built
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_BIN")]
    server: Option<PathBuf>,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the history and the logs are written
    #[arg(long, value_name = "FOLDER", hide = true)]
    folder: Option<PathBuf>,
}

const SLOT_LEASE: Duration = Duration::from_millis(1500);
const LEASE: Duration = Duration::from_secs(4);

/// The folder for all that the run needs, in the memory of its own mounts.
const FOLDER: &str = "/run/chaos";

/// Checks that the run is possible, and puts it into namespaces of its own.
pub(crate) fn run(args: &Args) -> Verdict {
    setup::postgres()?;
    setup::namespaces()?;
    may_make_namespaces()?;
    let binary = serving::binary(args.server.as_deref(), &tree::root()?)?;
    let folder = tempfile::Builder::new().prefix("lockhouse-chaos-").tempdir()?;
    let mut command = apart();
    command.arg(std::env::current_exe()?).arg("chaos-run");
    command.args(std::env::args_os().skip(2)).arg("--folder").arg(folder.path());
    if args.server.is_none() {
        command.arg("--server").arg(binary);
    }
    command.env("TMPDIR", FOLDER).stdin(Stdio::piped()).process_group(0);
    let mut child = command.spawn().context("cannot start unshare")?;
    shell::end_group_with_us(child.id());
    // The run ends with its input, so that it ends with this process, too.
    let input = child.stdin.take();
    let status = child.wait()?;
    drop(input);
    shell::group_has_ended(child.id());
    if let Some(file) = &args.history {
        let written = history_in(folder.path());
        std::fs::copy(written, file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if status.success() {
        return Ok(true);
    }
    println!("the history and the logs of the nodes are kept in {}", folder.keep().display());
    match status.code() {
        Some(1) => Ok(false),
        _ => bail!("no verdict: {status}"),
    }
}

/// A program in namespaces of its own. With it all others in them end, and networks and mounts are gone.
fn apart() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

fn may_make_namespaces() -> Result<()> {
    for program in ["unshare", "mount", "ip"] {
        let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        ensure!(found.is_ok(), "{program}: not found, but the networks of this run need it");
    }
    let output = apart().arg("true").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "namespaces cannot be made, which needs root on Linux: {}", said.trim());
    Ok(())
}

/// The run itself.
pub(crate) fn run_apart(args: &Args) -> Verdict {
    std::thread::spawn(|| {
        // The parent closes our input when it ends.
        _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(130);
    });
    let (folder, server) = args.folder.as_deref().zip(args.server.as_deref()).context("chaos starts it")?;
    // Nodes are started in folders of their own.
    let server = &std::path::absolute(server)?;
    network::run("mount", &["-t", "tmpfs", "-o", "mode=755", "chaos", "/run"])?;
    std::fs::create_dir_all(FOLDER)?;
    network::make()?;
    let started = Instant::now();
    let events = Storm::new(args, server, folder)?.run()?;
    let judgement = history::judge_file(&history_in(folder))?;
    report(args, &judgement, &events, started.elapsed().as_secs_f64())
}

fn report(args: &Args, judgement: &Findings, events: &Events, seconds: f64) -> Verdict {
    let Events { hits, counts, codes, faults } = events;
    judgement.show();
    let operations = counts.operations();
    if let Some(path) = &args.json {
        let mut json = judgement.json();
        json["seed"] = args.seed.into();
        json["clients"] = counts.done_by.len().into();
        json["operations"] = operations.into();
        json["seconds"] = seconds.round().into();
        json["hits"] = serde_json::to_value(hits)?;
        json["counts"] = serde_json::to_value(counts)?;
        json["exitCodes"] = serde_json::to_value(codes)?;
        json["faults"] = serde_json::to_value(faults)?;
        evidence::write(path, json)?;
    }
    println!("{} events in {seconds:.0} s; {}", judgement.events, summary(counts));
    println!("{}", runs::summary(codes));
    if judgement.breaches.is_empty() {
        enough(counts)?;
    }
    println!("{operations} operations, {} faults hit, {}", hits.values().sum::<usize>(), judgement.chaos());
    Ok(judgement.breaches.is_empty())
}

fn summary(counts: &Counts) -> String {
    format!(
        "{} web locks ({} handed on, {} lost, {} of them judged only until a pause), {} passes of the fence and {} stale, {} offline locks, {} claims, {} assignments, {} refused while recovering, {} unavailable, {} outcomes unknown",
        counts.sum(&["request"]),
        counts.hand_offs,
        counts.lost,
        counts.excused,
        counts.sum(&["pass"]),
        counts.refusals("stale"),
        counts.sum(&["lock"]),
        counts.sum(&["claim"]),
        counts.sum(&["finalize"]),
        counts.refusals("recovering"),
        counts.refusals("unavailable"),
        counts.unknown,
    )
}

/// Did the run do enough to prove something? Each fault and each pause between two has seen to its own part.
fn enough(counts: &Counts) -> Result<()> {
    let at_work = counts.done_by.values().filter(|count| **count >= 10).count();
    let least = [
        ("clients that got something done", at_work, 12),
        ("passes of the fence", counts.sum(&["pass"]), 100),
        ("claims made final", counts.sum(&["finalize"]), 50),
    ];
    for (what, there, needed) in least {
        ensure!(
            there >= needed,
            "this run did too little to prove anything: {there} {what}, but at least {needed} are needed"
        );
    }
    let granted = counts.sum(&["request"]);
    ensure!(
        10 * counts.excused <= granted,
        "this run did too little to prove anything: of {granted} web locks, {} are judged only until their client paused",
        counts.excused
    );
    Ok(())
}

/// The history of a run in that folder.
fn history_in(folder: &Path) -> PathBuf {
    folder.join("history.jsonl")
}
