//! `cargo xtask` is built first, and then the tests, with other packages beside it. A package that had other features then would be built
//! twice, with all that depends on it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The packages that cargo builds, each with its features.
fn built(args: &[&str]) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut tree = Command::new("cargo");
    tree.args(["tree", "--prefix", "none", "--format", "{p} [{f}]"]).args(args).current_dir(root);
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn nothing_is_built_twice() {
    let commands = built(&["--package", "xtask", "--edges", "normal,build"]);
    let tests = built(&["--workspace", "--all-features", "--edges", "all"]);
    let twice: Vec<_> = commands.difference(&tests).collect();
    assert!(
        twice.is_empty(),
        "xtask/Cargo.toml must ask for the features that these packages have in the tests: {twice:#?}"
    );
}
