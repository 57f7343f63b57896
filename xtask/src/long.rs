//! `cargo xtask long`: the long variants of the proofs. Their results are filed in `docs/evidence`.

use std::fs;
use std::process::Command;

use anyhow::bail;
use clap::Args as ClapArgs;

use crate::workspace::{shell, tree};
use crate::{Verdict, bench};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Which one; all if none is named
    name: Option<String>,
}

/// A long run.
struct LongRun {
    /// What asks for it; several may have one name.
    name: &'static str,
    /// The file of its result, in `docs/evidence` and without its ending.
    file: &'static str,
    command: &'static [&'static str],
}

const fn long(name: &'static str, file: &'static str, command: &'static [&'static str]) -> LongRun {
    LongRun { name, file, command }
}

const RUNS: &[LongRun] = &[
    long("oracle", "oracle", &["oracle", "--commands", "10000000", "--seed", "7"]),
    long("model", "model", &["model", "--full"]),
    long("crash", "crash", &["crash", "--kills", "200"]),
    long("chaos", "chaos", &["chaos", "--seconds", "600"]),
    long(
        "takeover",
        "takeover",
        &["chaos", "--kinds", "large", "--large-rows", "10000000", "--seconds", "30"],
    ),
    long("sim", "sim", &["sim", "--schedules", "100000", "--seed", "1"]),
    long("sim", "sim-fleet", &["sim", "--fleet", "--schedules", "100000", "--seed", "1"]),
    long("failover", "failover", &["failover", "--kills", "10"]),
    long(
        "failover",
        "failover-defaults",
        &["failover", "--kills", "3", "--slot-lease", "3000", "--lease", "10000"],
    ),
    long("soak", "soak", &["soak", "--connections", "10000", "--seconds", "600"]),
    long(
        "neighbours",
        "neighbours",
        &[
            "neighbours",
            "--turns",
            "5",
            "--steps",
            "3000",
            "--pairs",
            "5000",
            "--locks",
            "100000",
            "--at-most",
            "1.5",
        ],
    ),
    long("libraries", "libraries", &["libraries"]),
    long("fuzz", "fuzz", &["fuzz", "--seconds", "3600", "--resume"]),
    long("mutants", "mutants", &["mutants", "--resume"]),
    long("mutants", "mutate", &["mutate", "--resume"]),
    long("requirements", "requirements", &["requirements"]),
];

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let evidence = root.join("docs/evidence");
    fs::create_dir_all(&evidence)?;
    let chosen = RUNS.iter().filter(|run| args.name.as_ref().is_none_or(|wanted| wanted == run.name));
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        let mut names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
        names.dedup();
        bail!("no such long run; there are {}", names.join(", "));
    }
    let mut all_hold = true;
    for LongRun { file, command, .. } in chosen {
        let json = evidence.join(format!("{file}.json"));
        let mut xtask = Command::new("cargo");
        xtask.arg("xtask").args(*command).arg("--json").arg(&json).current_dir(&root);
        let end = shell::run_shown(&mut xtask)?;
        println!("{file}: {}", if end.is_success() { "holds".to_owned() } else { format!("FAILED ({end})") });
        all_hold &= end.is_success();
    }
    // Where all were to be run, none may be left that is older than the code.
    Ok(all_hold && (args.name.is_some() || bench::list_stale(&root)?))
}
