//! The program `lockhouse` as cargo has built it, for the tests of several packages: none of them has to be
//! linked with the server, or built with it.

#![allow(dead_code, reason = "each test uses some of it")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The variable that names another program than the one that cargo has built beside the tests.
const NAMED: &str = "LOCKHOUSE_BIN";

/// The path of the program, as scripts take it.
///
/// # Panics
///
/// The program is not there, or older than one of its sources: the tests would judge what is no more.
pub(crate) fn lockhouse() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = match env::var_os(NAMED).filter(|name| !name.is_empty()) {
            // Tests start it in folders of their own.
            Some(name) => std::path::absolute(name).unwrap(),
            None => beside(&env::current_exe().unwrap()),
        };
        if let Err(why) = check(&program) {
            panic!("{why}");
        }
        program.into_os_string().into_string().unwrap()
    })
}

/// The program that cargo puts beside the folder of its tests: `target/debug/lockhouse` of
/// `target/debug/deps/server-0123456789abcdef`.
pub(crate) fn beside(test: &Path) -> PathBuf {
    test.parent().and_then(Path::parent).unwrap().join("lockhouse")
}

/// Checks that the program is there, and no older than the sources that cargo lists beside it.
///
/// # Errors
///
/// One line: the fault and the remedy.
pub(crate) fn check(program: &Path) -> Result<(), String> {
    let build = how_to_build(program);
    let shown = program.display();
    let built = fs::metadata(program).and_then(|program| program.modified());
    let built = built.map_err(|error| format!("{shown}: {error}: {build}"))?;
    // A program that was put somewhere else has no list.
    let Ok(list) = fs::read_to_string(program.with_extension("d")) else { return Ok(()) };
    match sources(&list).iter().find(|source| is_newer(source, built)) {
        Some(source) => Err(format!("{shown} is older than {}: {build}", source.display())),
        None => Ok(()),
    }
}

/// With the profile whose folder the program is in.
fn how_to_build(program: &Path) -> String {
    let folder = program.parent().and_then(Path::file_name).unwrap_or_default();
    let profile = match folder.to_string_lossy() {
        folder if folder == "debug" => String::new(),
        folder => format!(" --profile {folder}"),
    };
    format!(
        "build it with \"cargo build --workspace --all-features --bin lockhouse{profile}\", or name another with {NAMED}"
    )
}

/// The sources in a list of cargo's, `PROGRAM: SOURCE SOURCE …`, in which a blank of a path has a backslash
/// before it.
pub(crate) fn sources(list: &str) -> Vec<PathBuf> {
    let lines = list.lines().filter_map(|line| line.split_once(": "));
    let mut sources = Vec::new();
    for (_, listed) in lines {
        let mut path = String::new();
        for word in listed.split(' ') {
            path.push_str(word);
            if path.ends_with('\\') {
                path.pop();
                path.push(' ');
            } else if !path.is_empty() {
                sources.push(PathBuf::from(std::mem::take(&mut path)));
            }
        }
    }
    sources
}

/// True for a source that has changed since then, or is gone.
fn is_newer(source: &Path, built: SystemTime) -> bool {
    fs::metadata(source).and_then(|source| source.modified()).map_or(true, |changed| changed > built)
}
