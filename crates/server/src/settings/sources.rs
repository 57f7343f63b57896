//! The sources of settings, and their precedence.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::decode::{NodeAt, default};
use super::file;
use super::key::Key;
use super::keys::keys;
use super::problem::SettingsProblem;
use super::sections::Settings;
use super::sections::auth;
use super::tree::{Location, Node, TableEntry, Value};

/// The prefix of the name of each variable.
const PREFIX: &str = "LOCKHOUSE_";

/// All sources: the command line goes before the environment, the environment before the file, the file
/// before the defaults. A value is taken whole: a list on the command line replaces the one in the file.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The TOML file.
    pub file: Option<PathBuf>,
    /// Variables of the environment; empty ones, and those that mean no setting, are ignored.
    pub environment: BTreeMap<String, OsString>,
    /// The options of the command line, by the path of the setting.
    pub flags: BTreeMap<&'static str, FlagValue>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagValue {
    /// The option without a value.
    Yes,
    /// A value.
    Text(String),
    /// A value that is a number.
    Number(u32),
    /// Several values.
    List(Vec<String>),
    /// Several values with names.
    Table(Vec<(String, String)>),
}

/// Settings without a fault, and the source of each.
#[derive(Clone, Debug)]
pub struct LoadedSettings {
    /// The settings.
    pub settings: Settings,
    pub(crate) tree: Node,
}

impl Sources {
    /// A file, the variables of this process that begin with `LOCKHOUSE_`, and no options yet.
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let ours = |(name, value): (OsString, OsString)| {
            let name = name.into_string().ok()?;
            name.starts_with(PREFIX).then_some((name, value))
        };
        let environment = std::env::vars_os().filter_map(ours).collect();
        Self { file, environment, flags: BTreeMap::new() }
    }

    /// Reads all of them.
    ///
    /// # Errors
    ///
    /// All faults, in the order of the file, and those of other sources behind them.
    pub fn load(&self) -> Result<LoadedSettings, Vec<SettingsProblem>> {
        match self.load_in_part() {
            (Some(loaded), problems) if problems.is_empty() => Ok(loaded),
            (_, mut problems) => {
                problems.sort_by_key(SettingsProblem::order);
                Err(problems)
            }
        }
    }

    /// The section `[auth]`, if nothing in it is wrong. Elsewhere only values may be wrong, as the meaning of
    /// a misread text or table is unknown.
    pub fn load_auth(&self) -> Option<auth::Settings> {
        let (loaded, problems) = self.load_in_part();
        let is_apart = |problem: &SettingsProblem| {
            let mut others = keys().iter().filter(|key| !key.path.starts_with("auth."));
            others.any(|key| problem.is_within(&key.path))
        };
        loaded.filter(|_| problems.iter().all(is_apart)).map(|loaded| loaded.settings.auth)
    }

    /// All faults, those of the files that the settings name included; in the order of [`load`](Self::load).
    /// For a key that is wrong by itself no fault of its file is reported.
    pub fn check(&self) -> Vec<SettingsProblem> {
        let (loaded, mut problems) = self.load_in_part();
        let mut files: Vec<SettingsProblem> = loaded.iter().flat_map(LoadedSettings::check_files).collect();
        files.retain(|file| !problems.iter().any(|problem| problem.has_key_of(file)));
        problems.extend(files);
        problems.sort_by_key(SettingsProblem::order);
        problems
    }

    /// The faults, and the settings with defaults in place of wrong values; no settings if nothing could be
    /// read.
    fn load_in_part(&self) -> (Option<LoadedSettings>, Vec<SettingsProblem>) {
        let (mut tree, mut problems) = match self.file.as_deref().map_or_else(nothing, read) {
            Ok(read) => read,
            Err(problems) => return (None, problems),
        };
        for key in keys() {
            match self.said(key) {
                Ok(Some(node)) => tree.set(&key.path, node),
                Ok(None) if tree.get(&key.path).is_none() => {
                    if let Some(node) = default(key) {
                        tree.set(&key.path, node);
                    }
                }
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        let (settings, wrong) = NodeAt { path: "", node: &tree, keys: keys() }.table_in_part(Settings::read);
        problems.extend(wrong);
        let loaded = settings.map(|settings| {
            problems.extend(settings.check(&tree, &problems));
            LoadedSettings { settings, tree }
        });
        (loaded, problems)
    }

    /// The value on the command line or, if it has none, in the environment.
    fn said(&self, key: &Key) -> Result<Option<Node>, SettingsProblem> {
        if let (Some(flag), Some(said)) = (key.flag, self.flags.get(&*key.path)) {
            return Ok(Some(said.node(&Location::Flag(flag))));
        }
        let variable = key.variable();
        let Some(text) = self.environment.get(&variable).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let place = Location::Environment(variable);
        match text.to_str() {
            Some(text) => Ok(Some(of_variable(key, &place, text))),
            None => Err(SettingsProblem::of_text(place, "must be UTF-8".to_owned())),
        }
    }

    /// Variables that mean nothing, but are written like one that does, or like its option, with the name of
    /// the one that does.
    pub fn misspelt(&self) -> impl Iterator<Item = (&str, String)> {
        let unknown =
            self.environment.keys().filter(|name| !keys().iter().any(|key| key.variable() == **name));
        unknown.filter_map(|name| {
            let known = keys().iter().flat_map(Key::likely_variables);
            let distances = known.map(|(like, means)| (strsim::damerau_levenshtein(&like, name), means));
            let (distance, nearest) = distances.min()?;
            // All variables begin alike, so that only the rest can distinguish them.
            (distance <= 1 + (nearest.len() - PREFIX.len()) / 8).then_some((name.as_str(), nearest))
        })
    }
}

impl FlagValue {
    fn node(&self, place: &Location) -> Node {
        let value = match self {
            Self::Yes => Value::Flag(true),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Number(number) => Value::Integer((*number).into()),
            Self::List(items) => list(items.iter().map(String::as_str), place),
            Self::Table(pairs) => table(pairs.iter().map(|(key, text)| (key.as_str(), text.as_str())), place),
        };
        Node::new(place.clone(), value)
    }
}

/// The text as TOML. A list may also be separated by commas, and a table be pairs like `customer=read-write`.
/// A text, the most frequent kind, needs no quotation marks.
fn of_variable(key: &Key, place: &Location, text: &str) -> Node {
    let begins = key.default.as_ref().and_then(|default| default.chars().next());
    let value = match begins {
        Some('[') if !text.starts_with('[') => list(text.split(',').map(str::trim), place),
        Some('{') if !text.starts_with('{') => {
            let pairs = text.split(',').map(|pair| pair.rsplit_once('=').unwrap_or((pair, "")));
            table(pairs.map(|(key, text)| (key.trim(), text.trim())), place)
        }
        None | Some('"') => Value::Text(text.to_owned()),
        _ => {
            let as_written = || Node::new(place.clone(), Value::Text(text.to_owned()));
            return file::parse_value(place, text).unwrap_or_else(as_written);
        }
    };
    Node::new(place.clone(), value)
}

fn list<'a>(items: impl Iterator<Item = &'a str>, place: &Location) -> Value {
    Value::List(items.map(|item| Node::new(place.clone(), Value::Text(item.to_owned()))).collect())
}

fn table<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, place: &Location) -> Value {
    let entry = |(key, text): (&str, &str)| TableEntry {
        key: key.to_owned(),
        place: place.clone(),
        node: Node::new(place.clone(), Value::Text(text.to_owned())),
    };
    Value::Table(pairs.map(entry).collect())
}

fn nothing() -> Result<(Node, Vec<SettingsProblem>), Vec<SettingsProblem>> {
    Ok((Node::empty_table(Location::Default), Vec::new()))
}

fn read(path: &std::path::Path) -> Result<(Node, Vec<SettingsProblem>), Vec<SettingsProblem>> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| {
        vec![SettingsProblem::of_file(&name, format!("the file cannot be read ({error})"))]
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        let place = Location::File { file: name.as_str().into(), line };
        vec![SettingsProblem::of_text(place, "the file must be UTF-8".to_owned())]
    })?;
    Ok(file::parse(&name, &text))
}

impl LoadedSettings {
    /// The keys whose values differ from those in `earlier`.
    pub fn changes_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = &'static Key> + 'a {
        keys().iter().filter(|key| match (self.tree.get(&key.path), earlier.tree.get(&key.path)) {
            (Some(now), Some(then)) => !now.says_the_same_as(then),
            (now, then) => now.is_some() != then.is_some(),
        })
    }

    /// The place of a key's value.
    pub fn place(&self, key: &Key) -> Location {
        self.tree.get(&key.path).map_or(Location::Default, |node| node.place.clone())
    }
}

/// Reads a section alone.
#[cfg(test)]
pub(crate) fn read_section<T>(
    path: &str,
    text: &str,
    read: super::decode::ReadTable<T>,
) -> Result<T, Vec<String>> {
    let (tree, problems) = file::parse("f", text);
    assert!(problems.is_empty(), "{problems:?}");
    let found = NodeAt { path, node: &tree, keys: keys() }.table(read);
    found.map_err(|wrong| wrong.iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::os::unix::ffi::OsStringExt;
    use std::time::Duration;

    use super::super::{ClientAuth, LimitSettings};
    use super::*;

    fn in_part(text: &str, read: impl FnOnce(Sources)) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.toml");
        fs::write(&file, text).unwrap();
        read(Sources { file: Some(file), ..Sources::default() });
    }

    #[test]
    fn a_wrong_value_has_its_default_and_all_others_are_as_they_were_set() {
        let text = "listen = 7\nlease = \"5s\"\ndrain = \"2h\"\nallowed_origins = [\"https://a\", 1]\n\
            [lock_types]\na = \"exclusive-read\"\nb = 1\n\
            [tls]\ncert = 7\nkey = \"k\"\nclient_ca = \"c\"\nclient_auth = \"optional\"\nhsts = 1\nother = 1\n\
            [limits]\nsessions = \"many\"\ntenant_rate = 7\nhello_timeout = 5\nbody_timeout = \"2s\"\n";
        in_part(text, |sources| {
            let (loaded, problems) = sources.load_in_part();
            let settings = loaded.unwrap().settings;
            assert_eq!(problems.len(), 9, "{problems:?}");
            assert_eq!((&*settings.listen, settings.lease.as_millis()), ("127.0.0.1:7420", 5_000));
            assert_eq!((settings.drain, settings.fresh), (Duration::from_secs(10), false));
            assert!(settings.allowed_origins.is_empty() && settings.lock_types.is_empty());
            assert_eq!((&settings.tls.cert, settings.tls.key), (&None, Some("k".into())));
            assert_eq!(settings.tls.client_auth, ClientAuth::Optional);
            assert_eq!(settings.tls.hsts, Duration::ZERO);
            let body_timeout = Duration::from_secs(2);
            let limits = LimitSettings { tenant_rate: 7, body_timeout, ..LimitSettings::DEFAULT };
            assert_eq!(settings.limits, limits);
        });
    }

    #[test]
    fn a_section_that_is_no_table_is_refused_with_its_keys_and_has_its_defaults() {
        in_part("tls = 7\nauth = []\n", |sources| {
            let (loaded, problems) = sources.load_in_part();
            assert_eq!(loaded.unwrap().settings.tls, super::super::TlsSettings::default());
            let rules: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let tls =
                ":1: tls = 7: must be a table with cert, key, self_signed, client_ca, client_auth, hsts";
            let auth = ":2: auth = []: must be a table with keys, jwt, certificates";
            assert!(rules[0].ends_with(tls) && rules[1].ends_with(auth), "{rules:?}");
            assert_eq!(rules.len(), 2);
        });
    }

    #[test]
    fn permissions_are_read_apart_only_if_all_that_is_wrong_are_values_elsewhere() {
        let key = "[[auth.keys]]\nid = \"ci\"\nhash = \"h\"\nbuckets = { \"*\" = [\"query\"] }\n";
        for (text, is_read) in [
            (format!("lease = 7\n{key}[limits]\nsessions = \"many\"\n"), true),
            (format!("leese = 7\n{key}"), false),
            (format!("{key}tennant = \"a\"\n"), false),
            (format!("{key}[[auth.jwt]]\n"), false),
            (format!("lease =\n{key}"), false),
        ] {
            in_part(&text, |sources| {
                let ids = sources.load_auth().map(|auth| auth.keys.into_iter().map(|key| key.id).collect());
                assert_eq!(ids, is_read.then(|| vec!["ci".to_owned()]), "{text}");
            });
        }
    }

    #[test]
    fn a_variable_that_is_no_text_leaves_its_setting_out_and_several_leave_none() {
        let no_text = |name: &str| (format!("LOCKHOUSE_{name}"), OsString::from_vec(vec![0xff]));
        for (names, lines, is_loaded) in [
            (&["LISTEN"][..], &["LOCKHOUSE_LISTEN: must be UTF-8", "default: listen: is missing"][..], true),
            (
                &["LISTEN", "LEASE"],
                &[
                    "LOCKHOUSE_LISTEN: must be UTF-8",
                    "LOCKHOUSE_LEASE: must be UTF-8",
                    "default: listen: is missing",
                ],
                false,
            ),
            (&["TLS_HSTS"], &["LOCKHOUSE_TLS_HSTS: must be UTF-8"], true),
        ] {
            let environment = names.iter().map(|name| no_text(name)).collect();
            let (loaded, problems) = Sources { environment, ..Sources::default() }.load_in_part();
            assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), lines);
            assert_eq!(loaded.is_some(), is_loaded, "{names:?}");
        }
    }
}
