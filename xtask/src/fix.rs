//! `cargo xtask fix`: the writing twin of verify. It mends what a machine can mend.

use std::process::Command;

use crate::{Verdict, dist, shell, tree};

pub(crate) fn run() -> Verdict {
    let root = tree::root()?;
    let lints =
        ["clippy", "--quiet", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"];
    let mut steps =
        vec![("cargo", [lints.as_slice(), &["--all-features"]].concat()), ("cargo", vec!["fmt", "--all"])];
    if root.join(dist::CLIENT).join("package.json").is_file() {
        steps.push(("npm", vec!["ci", "--no-audit", "--no-fund", "--prefix", dist::CLIENT]));
        steps.push(("npm", vec!["run", "format", "--prefix", dist::CLIENT]));
        steps.push(("npm", vec!["run", "build", "--prefix", dist::CLIENT]));
    }
    let mut all_done = true;
    for (program, args) in steps {
        all_done &= shell::run_shown(Command::new(program).args(args).current_dir(&root))?.is_success();
    }
    Ok(all_done)
}
