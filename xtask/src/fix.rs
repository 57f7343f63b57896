//! `cargo xtask fix`: the writing twin of verify. The command mends the faults that a machine can mend.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::Verdict;
use crate::rings::dist;
use crate::style::{comments, sources};
use crate::workspace::{shell, tree};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Wrap comments that are too wide, and do nothing else
    #[arg(long)]
    comments: bool,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    wrap_comments(&root)?;
    if args.comments {
        return Ok(true);
    }
    let lints = ["clippy", "--quiet", "--fix", "--allow-dirty", "--allow-staged"];
    let lints = [&lints[..], &["--workspace", "--lib", "--bins", "--examples", "--tests"]].concat();
    let mut steps =
        vec![("cargo", [&lints[..], &["--all-features"]].concat()), ("cargo", vec!["fmt", "--all"])];
    for project in dist::PROJECTS {
        steps.push(("npm", vec!["ci", "--no-audit", "--no-fund", "--prefix", project]));
        steps.push(("npm", vec!["run", "format", "--prefix", project]));
        steps.push(("npm", vec!["run", "build", "--prefix", project]));
    }
    let mut all_done = true;
    for (program, args) in steps {
        all_done &= shell::run_shown(Command::new(program).args(args).current_dir(&root))?.is_success();
    }
    Ok(all_done)
}

/// Wraps the comments of all sources that are too wide, and prints the files that changed.
fn wrap_comments(root: &Path) -> Result<()> {
    for source in sources::sources(root)? {
        if let Some(text) = comments::wrapped(&source) {
            fs::write(root.join(&source.name), text)
                .with_context(|| format!("cannot write {}", source.name))?;
            println!("comments wrapped: {}", source.name);
        }
    }
    Ok(())
}
