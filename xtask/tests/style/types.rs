//! Names of types.

use std::collections::{BTreeMap, BTreeSet};

use xtask::style::imports::production_files;
use xtask::style::sources::crate_folders;
use xtask::style::types::types;

use crate::{forbid, sources};

/// Names that several crates have for the same idea, and the idea.
const SHARED: &[(&str, &str)] = &[("Args", "the arguments of a command, in its file")];

#[test]
fn no_two_crates_have_types_of_one_name() {
    let mut places: BTreeMap<String, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for folder in crate_folders(sources()) {
        for (file, production) in &production_files(folder, sources()).unwrap() {
            for (name, line) in types(production) {
                let of_crate = places.entry(name).or_default().entry(folder).or_default();
                of_crate.push(format!("{folder}/src/{file}:{line}"));
            }
        }
    }
    let known: BTreeSet<&str> = SHARED.iter().map(|(name, _)| *name).collect();
    let shared: Vec<String> = places
        .into_iter()
        .filter(|(name, crates)| crates.len() > 1 && !known.contains(name.as_str()))
        .map(|(name, crates)| {
            format!("{name}: {}", crates.into_values().flatten().collect::<Vec<_>>().join(", "))
        })
        .collect();
    forbid("name each type for what it is, or add the idea that they share to `SHARED`", &shared);
}
