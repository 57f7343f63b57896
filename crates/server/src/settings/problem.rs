//! Faults of the settings.

use std::borrow::Cow;
use std::fmt;

use lockhouse_wire::decode::{Violation, member_path, shorten_to};

use super::key::Key;
use super::secret::{KEY_PREFIX, is_secret, without_passwords};
use super::tree::{Location, Node, TableEntry, bare_or_quoted};

/// The most characters of a value that a problem repeats.
const SHOWN_CHARS: usize = 120;

/// One fault, reported in one line: the place, the key, the value, the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsProblem {
    place: Location,
    wrong: Wrong,
}

/// The fault at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    /// The text or the file as a whole, as a sentence.
    Text(String),
    /// A key. The rule may say more than the allowed values, such as that the key is unknown.
    Key(Violation),
}

impl SettingsProblem {
    /// Of the text itself, which is no TOML.
    pub(crate) fn of_text(place: Location, rule: String) -> Self {
        Self { place, wrong: Wrong::Text(rule) }
    }

    /// Of the whole file.
    pub(crate) fn of_file(file: &str, rule: String) -> Self {
        Self::of_text(Location::File { file: file.into(), line: 0 }, rule)
    }

    /// Of a value.
    pub(crate) fn of_value(key: &str, node: &Node, rule: impl Into<String>) -> Self {
        let name = key.rsplit('.').next().unwrap_or(key);
        let name = name.split('[').next().unwrap_or(name);
        let violation = Violation::withheld(key, rule.into());
        if is_secret(name) {
            return Self::of_key(&node.place, violation);
        }
        let shown = node.shown(&|name, _| is_secret(name));
        let value = Some(shorten_to(&shown, SHOWN_CHARS, SHOWN_CHARS));
        Self::of_key(&node.place, Violation { value, ..violation })
    }

    /// Of a key that should be there.
    pub(crate) fn of_missing(key: &str, place: &Location) -> Self {
        Self::of_key(place, Violation::withheld(key, "is missing"))
    }

    /// Of a key that should not be there, beside those that may be. The value is not repeated: it may be a
    /// secret in the wrong place.
    pub(crate) fn of_unknown(parent: &str, entry: &TableEntry, known: &[&str], keys: &[Key]) -> Self {
        let TableEntry { key, place, .. } = entry;
        let rule = match nearest(parent, key, known, keys) {
            Some(nearest) => format!("unknown key; the nearest known one is {nearest}"),
            None => format!("unknown key; known here are {}", known.join(", ")),
        };
        Self::of_key(place, Violation::withheld(join(parent, key), rule))
    }

    fn of_key(place: &Location, violation: Violation) -> Self {
        Self { place: place.clone(), wrong: Wrong::Key(violation) }
    }

    /// The path of the key, if the problem is of one.
    pub fn key(&self) -> Option<&str> {
        match &self.wrong {
            Wrong::Text(_) => None,
            Wrong::Key(violation) => Some(&violation.field),
        }
    }

    /// Whether the problem is at that path, or below.
    pub(crate) fn is_within(&self, path: &str) -> bool {
        let rest = self.key().and_then(|key| key.strip_prefix(path));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// Whether the problem is of the same value.
    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// The file first, line by line.
    pub(crate) fn order(&self) -> (u8, usize) {
        match &self.place {
            Location::File { line, .. } => (0, *line),
            Location::Environment(_) => (1, 0),
            Location::Flag(_) => (2, 0),
            Location::Default => (3, 0),
        }
    }
}

/// The path of a key in a table, which stays one line whatever the key is.
pub(crate) fn join(parent: &str, key: &str) -> String {
    member_path(parent, &bare_or_quoted(key))
}

/// The key that was probably meant: one of that name in another table, or one that is written alike in this
/// table.
fn nearest(parent: &str, key: &str, known: &[&str], keys: &[Key]) -> Option<String> {
    let alike = |known: &str| strsim::damerau_levenshtein(&known.to_lowercase(), &key.to_lowercase());
    let here = known.iter().map(|known| (alike(known), *known)).min();
    if let Some((distance, name)) = here
        && distance <= 1 + name.len() / 4
    {
        return Some(join(parent, name));
    }
    let elsewhere = keys.iter().find(|known| known.path.rsplit('.').next() == Some(key));
    elsewhere.map(|known| match known.path.rsplit_once('.') {
        Some((table, _)) => format!("{}, which stands in [{table}]", known.path),
        None => format!("{}, which stands above all tables", known.path),
    })
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match &self.wrong {
            Wrong::Text(rule) => rule.clone(),
            Wrong::Key(Violation { field, value: Some(value), rule }) => format!("{field} = {value}: {rule}"),
            Wrong::Key(Violation { field, value: None, rule }) => format!("{field}: {rule}"),
        };
        write!(f, "{}: {}", self.place, without_keys(&without_passwords(&message)))
    }
}

/// An API key may have been put anywhere by mistake, and problems end up in logs.
fn without_keys(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(KEY_PREFIX);
    let first = parts.next().unwrap_or_default();
    let mut redacted = Cow::Borrowed(first);
    for part in parts {
        let is_of_key = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        redacted += "lhk_…";
        redacted += part.trim_start_matches(is_of_key);
    }
    redacted
}
