//! `cargo xtask` is built first, then the tests, and then the programs that the rings run, each with other
//! packages beside it. A package that had other features in one of these builds would be built twice, with
//! all that depends on it.

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

/// The parts of the commands, without those that are built for the compiler's own use.
const COMMANDS: [&str; 4] = ["--package", "xtask", "--edges", "normal,no-proc-macro"];

#[test]
fn nothing_is_built_twice() {
    let of_all = ["--workspace", "--exclude", "lockhouse-bench", "--all-features", "--edges"];
    let whole = |edges| built(&[&of_all[..], &[edges]].concat());
    let commands = built(&["--package", "xtask", "--edges", "normal,build"]);
    // Parts that are built for the compiler's own use have features of their own: each part is compared by
    // itself.
    let (parts, tests) = (whole("normal,dev,no-proc-macro"), whole("all"));
    for (what, with, folder) in [
        (built(&COMMANDS), &parts, "xtask"),
        (commands, &tests, "xtask"),
        (whole("normal,no-proc-macro"), &parts, "lab"),
        (whole("normal,build"), &tests, "lab"),
    ] {
        let twice: Vec<_> = what.difference(with).collect();
        assert!(
            twice.is_empty(),
            "{folder}/Cargo.toml must ask for the features that these packages have in the tests: {twice:#?}"
        );
    }
}

#[test]
fn the_commands_need_nothing_of_the_product() {
    let commands = built(&COMMANDS);
    let needed: Vec<_> = commands.iter().filter(|package| package.starts_with("lockhouse")).collect();
    assert!(needed.is_empty(), "`cargo xtask fix` must work while these do not compile: {needed:?}");
}

#[test]
fn no_release_reads_clocks_that_a_file_sets_wrong() {
    for with in [&[][..], &["--all-features"]] {
        let program = [&["--package", "lockhouse-program", "--edges", "normal"][..], with].concat();
        let library = |package: &&String| package.starts_with("lockhouse v");
        let features = built(&program).iter().find(library).cloned().unwrap();
        let has_lab = features.split(['[', ',', ']']).any(|feature| feature == "lab");
        assert_eq!(has_lab, !with.is_empty(), "{features}");
    }
}
