//! Nothing that can be set is missing anywhere.

use std::collections::BTreeSet;
use std::fs;

use lockhouse_server::{Key, keys};

use crate::running::{lockhouse, run};

fn docs() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md")).unwrap()
}

/// The cells of a row of the tables of settings, by its key.
fn rows(docs: &str) -> Vec<Vec<&str>> {
    let rows = docs.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn every_key_is_documented_with_its_default_its_option_and_whether_it_reloads() {
    let docs = docs();
    let rows = rows(&docs);
    let ticked = |text: &str| format!("`{text}`");
    // The crate itself keeps docs/limits.md in step with those.
    for key in keys().iter().filter(|key| table_of(key) != Some("limits")) {
        let named: Vec<_> = rows.iter().filter(|row| row[0] == ticked(&key.path)).collect();
        let [row] = named[..] else { panic!("{} has {} rows", key.path, named.len()) };
        let [_, default, meaning, option, reloads] = row[..] else { panic!("{row:?}") };
        assert_eq!(default, key.default.as_deref().map(ticked).unwrap_or_default(), "{}", key.path);
        assert!(meaning.ends_with('.'), "{row:?}");
        let flag = option.trim_matches('`').split([' ', '[', '`']).next().unwrap();
        assert_eq!(flag, key.flag.unwrap_or_default(), "{}", key.path);
        assert_eq!(reloads == "yes", key.reloads, "{}", key.path);
    }
    let paths: BTreeSet<String> = keys().iter().map(|key| ticked(&key.path)).collect();
    let unknown: Vec<_> = rows.iter().filter(|row| row.len() == 5 && !paths.contains(row[0])).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_key_is_shown_and_every_option_is_in_the_help() {
    let folder = tempfile::tempdir().unwrap();
    let (code, shown, stderr) = run(&mut lockhouse(folder.path(), &["config", "show"]));
    assert_eq!(code, Some(0), "{stderr}");
    let mut table = "";
    let mut names = BTreeSet::new();
    for line in shown.lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_end_matches(']');
        } else if let Some(name) = line.split(' ').next().filter(|name| !name.is_empty()) {
            names.insert(if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") });
        }
    }
    assert_eq!(names, keys().iter().map(|key| key.path.to_string()).collect());
    let (_, help, _) = run(&mut lockhouse(folder.path(), &["serve", "--help"]));
    for flag in keys().iter().filter_map(|key| key.flag) {
        assert!(help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}[")), "{flag}: {help}");
    }
}

/// The keys that may stand in a table, as the server itself reports them for an unknown one.
fn known_in(table: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
    fs::write(folder.path().join("f.toml"), format!("{head}zzzzzzzzzzzz = 1\n")).unwrap();
    let (_, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    let (_, known) = stderr.trim().split_once("known here are ").unwrap_or_else(|| panic!("{stderr}"));
    known.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_list_of_keys_is_what_the_file_takes() {
    let tables: BTreeSet<&str> = keys().iter().filter_map(table_of).collect();
    let mut above: BTreeSet<String> =
        keys().iter().filter(|key| table_of(key).is_none()).map(|key| key.path.to_string()).collect();
    above.extend(tables.iter().map(|table| (*table).to_owned()));
    assert_eq!(known_in(""), above);
    for table in tables {
        let within = keys().iter().filter(|key| table_of(key) == Some(table));
        let within = within.map(|key| key.path.rsplit_once('.').unwrap().1.to_owned());
        assert_eq!(known_in(table), within.collect(), "[{table}]");
    }
}

#[test]
fn every_member_of_a_list_is_documented() {
    let docs = docs();
    for (list, other) in [
        ("auth.keys", "Members of `[[auth.jwt]]`"),
        ("auth.jwt", "Members of `[[auth.certificates]]`"),
        ("auth.certificates", "```toml"),
    ] {
        let (_, section) = docs.split_once(&format!("Members of `[[{list}]]`:")).unwrap();
        let (section, _) = section.split_once(other).unwrap();
        let documented: BTreeSet<&str> = rows(section).iter().map(|row| row[0].trim_matches('`')).collect();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f.toml"), format!("[[{list}]]\nzzzzzzzzzzzz = 1\n")).unwrap();
        let (_, _, stderr) = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
        let line = stderr.lines().find(|line| line.contains("known here are")).unwrap();
        let known = line.split_once("known here are ").unwrap().1.split(", ");
        assert_eq!(documented, known.collect(), "{list}");
    }
}

fn table_of(key: &Key) -> Option<&str> {
    key.path.rsplit_once('.').map(|(table, _)| table)
}

#[test]
fn the_file_in_the_docs_is_right() {
    let docs = docs();
    let file = docs.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    // The certificate is not there.
    let file = file.split("[tls]").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.toml"), file).unwrap();
    let result = run(&mut lockhouse(folder.path(), &["config", "check", "f.toml"]));
    assert_eq!(result, (Some(0), String::new(), String::new()));
}
