//! No test takes a program that is older than its sources.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::program::{beside, check, sources};

#[test]
fn the_program_is_beside_the_folder_of_the_tests() {
    let test = Path::new("/p/target/checks/deps/cli-0123456789abcdef");
    assert_eq!(beside(test), Path::new("/p/target/checks/lockhouse"));
}

#[test]
fn the_list_of_the_sources_is_read_with_the_blanks_in_their_paths() {
    let list = "/a\\ b/target/debug/lockhouse: /a\\ b/src/main.rs /c/d.rs /e\\ \\ f\n";
    assert_eq!(sources(list), ["/a b/src/main.rs", "/c/d.rs", "/e  f"].map(PathBuf::from));
    assert!(sources("/target/debug/lockhouse:\n").is_empty());
}

#[test]
fn a_program_that_is_missing_or_older_than_a_source_is_refused_with_what_to_build() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("checks");
    fs::create_dir(&folder).unwrap();
    let [program, source, list] = ["lockhouse", "a source.rs", "lockhouse.d"].map(|name| folder.join(name));
    let refused = |words: &str| {
        let why = check(&program).unwrap_err();
        assert!(why.contains(words) && why.lines().count() == 1, "{why}");
        assert!(why.contains("cargo build") && why.contains("--profile checks"), "{why}");
    };
    refused("No such file");
    let built = SystemTime::now() - Duration::from_secs(60);
    let write = |file: &Path, time: SystemTime| {
        fs::write(file, "").unwrap();
        File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    };
    write(&program, built);
    assert_eq!(check(&program), Ok(()), "one without a list is taken as it is");
    let escaped = source.display().to_string().replace(' ', "\\ ");
    fs::write(&list, format!("{}: {escaped}\n", program.display())).unwrap();
    refused("is older than");
    write(&source, built - Duration::from_secs(1));
    assert_eq!(check(&program), Ok(()));
    write(&source, built + Duration::from_secs(1));
    refused("a source.rs");
}
