//! Every input in `fuzz/corpus`, those that once broke something among them, in every run of the tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

/// Panics on any thread, unreported ones included.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// One input at a time: what is allocated meanwhile is counted.
static ALONE: Mutex<()> = Mutex::new(());

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn replay(target: &str, play: fn(&[u8])) {
    static COUNTING: Once = Once::new();
    COUNTING.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            default_hook(panic);
        }));
    });
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = corpus().join(target);
    let inputs = names_in(&folder);
    assert!(!inputs.is_empty(), "{} has no inputs", folder.display());
    // Objects that are made once, such as the tables of the HTTP API, are not counted for the first input.
    play(b"");
    let broken: Vec<&String> = inputs
        .iter()
        .filter(|input| {
            let bytes = fs::read(folder.join(input)).unwrap();
            let before = PANICS.load(Ordering::SeqCst);
            let _ = catch_unwind(AssertUnwindSafe(|| play(&bytes)));
            PANICS.load(Ordering::SeqCst) != before
        })
        .collect();
    assert!(broken.is_empty(), "of {} inputs of {target} these break a promise: {broken:?}", inputs.len());
}

macro_rules! replays {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target), fuzz_targets::$target);
            }
        )*

        const TARGETS: &[&str] = &[$(stringify!($target)),*];
    };
}

fuzz_targets::for_each_target!(replays);

#[test]
fn every_target_has_its_corpus_and_its_program() {
    let known: BTreeSet<String> = TARGETS.iter().map(ToString::to_string).collect();
    assert_eq!(names_in(&corpus()), known, "folders of fuzz/corpus");
    let programs = names_in(&corpus().join("../fuzz_targets"));
    assert_eq!(
        programs,
        known.iter().map(|name| format!("{name}.rs")).collect(),
        "files of fuzz/fuzz_targets"
    );
}
