//! The size of folders.

use std::collections::BTreeMap;

use xtask::style::MAX_FILES_OF_FOLDER;
use xtask::style::sources::crate_folders;

use super::{forbid, sources};

#[test]
fn no_folder_of_a_crate_has_more_than_12_files() {
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for folder in crate_folders(sources()) {
        let is_of_crate =
            |name: &str| name.strip_prefix(folder).is_some_and(|name| name.starts_with("/src/"));
        for source in sources().iter().filter(|source| source.is_rust() && is_of_crate(&source.name)) {
            // Every file of the crate lies below its `src`.
            let (place, _) = source.name.rsplit_once('/').unwrap();
            *files.entry(place.to_owned()).or_default() += 1;
        }
    }
    let large: Vec<String> = files
        .into_iter()
        .filter(|(_, files)| *files > MAX_FILES_OF_FOLDER)
        .map(|(place, files)| format!("{place}: {files} files"))
        .collect();
    forbid("gather files of one concern in a folder of its name, at most 12 side by side", &large);
}
