//! The sources of settings, and their precedence.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::decode::decode;
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
        let settings = decode::<Settings>(&tree).or_else(|wrong| {
            problems.extend(wrong);
            decode(&right_part(&tree, &problems))
        });
        let loaded = settings.ok().map(|settings| {
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

    /// Variables that mean nothing, but are written like one that does, with its name.
    pub fn misspelt(&self) -> impl Iterator<Item = (&str, String)> {
        let unheard =
            self.environment.keys().filter(|name| !keys().iter().any(|key| key.variable() == **name));
        unheard.filter_map(|name| {
            let known = keys().iter().map(Key::variable);
            let (distance, nearest) =
                known.map(|known| (strsim::damerau_levenshtein(&known, name), known)).min()?;
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

/// The default value of a key.
fn default(key: &Key) -> Option<Node> {
    file::parse_value(&Location::Default, key.default.as_ref()?)
}

fn nothing() -> Result<(Node, Vec<SettingsProblem>), Vec<SettingsProblem>> {
    Ok((Node::empty_table(Location::Default), Vec::new()))
}

/// The known keys, with defaults for those that are wrong.
fn right_part(tree: &Node, wrong: &[SettingsProblem]) -> Node {
    let mut right = Node::empty_table(tree.place.clone());
    for key in keys() {
        let is_wrong = wrong.iter().any(|problem| problem.is_within(&key.path));
        let node = if is_wrong { default(key) } else { tree.get(&key.path).cloned() };
        if let Some(node) = node {
            right.set(&key.path, node);
        }
    }
    right
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
