//! Names of types.

use std::collections::{BTreeMap, BTreeSet};

use xtask::style::imports::production_files;
use xtask::style::sources::crate_folders;
use xtask::style::types::types;

use super::{forbid, sources};

/// Names that several crates have for the same idea, and the idea.
const SHARED: &[(&str, &str)] = &[
    ("Args", "the arguments of a command, in its file"),
    ("Assignment", "a claim made final: in the library, and as JSON"),
    ("At", "an instant in a JSON body, at both ends"),
    ("Conflict", "a name that could not be locked: in the core, in the library, and as JSON"),
    ("Entry", "an entry of a query's page, at both ends"),
    ("Holder", "a holder as told to the refused: in the core, in the library, and as JSON"),
    ("Intent", "what a record is locked for: in the library, and as JSON"),
    ("JsonName", "a resource name in a JSON body, at both ends"),
    ("LockManager", "that of the Web Locks API: its algorithms in the core, its interface in the library"),
    ("Mode", "the mode of a lock: in the core, and in the histories that are judged"),
    ("NewClaim", "a claim to be: the call, the JSON body, the command"),
    ("NewLocks", "offline locks to be: the JSON body at both ends, the command"),
    ("NewOwner", "an owner to be: the call, the JSON body, the command"),
    ("Problem", "a problem of RFC 9457, at both ends"),
    ("Refusal", "why a request was refused, as data: of the core, and of the layer for implicit locks"),
    ("Snapshot", "the state of a bucket's locks at one time: in the core, and in the library"),
    ("Undone", "how many locks were taken back, at both ends"),
];

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
