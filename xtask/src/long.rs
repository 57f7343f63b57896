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

/// The long runs, each with its name and its command. The results go to `docs/evidence`, to a file of the
/// command's name.
const RUNS: &[(&str, &[&str])] = &[
    ("oracle", &["oracle", "--commands", "10000000", "--seed", "7"]),
    ("model", &["model", "--full"]),
    ("crash", &["crash", "--kills", "200"]),
    ("chaos", &["chaos", "--seconds", "600"]),
    ("sim", &["sim", "--schedules", "100000", "--seed", "1"]),
    ("soak", &["soak", "--connections", "10000", "--seconds", "600"]),
    (
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
    ("libraries", &["libraries"]),
    ("fuzz", &["fuzz", "--seconds", "3600", "--resume"]),
    ("mutants", &["mutants", "--resume"]),
    ("mutants", &["mutate", "--resume"]),
    ("requirements", &["requirements"]),
];

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let evidence = root.join("docs/evidence");
    fs::create_dir_all(&evidence)?;
    let chosen = RUNS.iter().filter(|(name, _)| args.name.as_ref().is_none_or(|wanted| wanted == name));
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        let mut names: Vec<&str> = RUNS.iter().map(|(name, _)| *name).collect();
        names.dedup();
        bail!("no such long run; there are {}", names.join(", "));
    }
    let mut all_hold = true;
    for (_, command) in chosen {
        let name = command[0];
        let json = evidence.join(format!("{name}.json"));
        let mut xtask = Command::new("cargo");
        xtask.arg("xtask").args(*command).arg("--json").arg(&json).current_dir(&root);
        let end = shell::run_shown(&mut xtask)?;
        println!("{name}: {}", if end.is_success() { "holds".to_owned() } else { format!("FAILED ({end})") });
        all_hold &= end.is_success();
    }
    // Where all were to be run, none may be left that is older than the code.
    Ok(all_hold && (args.name.is_some() || bench::list_stale(&root)?))
}
