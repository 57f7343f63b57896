//! Circles of imports.

use xtask::style::MAX_CIRCLE;
use xtask::style::circles::circles;
use xtask::style::imports::Imports;
use xtask::style::sources::crate_folders;

use super::{forbid, sources};

#[test]
fn no_circle_of_imports_has_more_than_8_files() {
    let mut large = Vec::new();
    for folder in crate_folders(sources()) {
        let imports = Imports::read(folder, sources()).unwrap();
        for circle in circles(&imports).iter().filter(|circle| circle.files.len() > MAX_CIRCLE) {
            large.push(format!(
                "{folder}: a circle of {} of {} files:\n{}",
                circle.files.len(),
                imports.files().count(),
                circle.edges(&imports)
            ));
        }
    }
    let remedy = "move what both ends of an import share into a file that imports neither of them, \
                  or hand it over as an argument; at most 8 files in a circle";
    forbid(remedy, &large);
}
