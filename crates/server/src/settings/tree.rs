//! The settings as they were written, each value with the place where it stands.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use lockhouse::NameBuf;
use lockhouse_wire::decode::{FieldValue, NoText};

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// No source has the value.
    Default,
    /// A line of the file.
    File {
        /// The path of the file as it was given.
        file: Arc<str>,
        /// Counted from 1; 0 for the file as a whole.
        line: usize,
    },
    /// A variable of the environment.
    Environment(String),
    /// An option of the command line, such as `--listen`.
    Flag(&'static str),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line: 0 } => f.write_str(file),
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Location,
    pub(crate) value: Value,
}

/// The values of TOML, without dates.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(Vec<TableEntry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct TableEntry {
    pub(crate) key: String,
    /// The place of the key.
    pub(crate) place: Location,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn new(place: Location, value: Value) -> Self {
        Self { place, value }
    }

    pub(crate) fn empty_table(place: Location) -> Self {
        Self::new(place, Value::Table(Vec::new()))
    }

    /// The value at a path such as `tls.cert` or `auth.keys[0].hash`.
    pub(crate) fn get(&self, path: &str) -> Option<&Self> {
        path.split(['.', '[']).try_fold(self, |node, step| match &node.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == step).map(|entry| &entry.node),
            Value::List(nodes) => nodes.get(step.strip_suffix(']')?.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The value at a path, or at the longest part of it that has one.
    pub(crate) fn nearest(&self, path: &str) -> &Self {
        let ends = path.match_indices(['.', '[']).map(|(end, _)| &path[..end]);
        std::iter::once(path).chain(ends.rev()).find_map(|part| self.get(part)).unwrap_or(self)
    }

    /// Puts a value at a path, in place of the one there. A value in place of a table on the way is left as
    /// it is: it is wrong, and is reported.
    pub(crate) fn set(&mut self, path: &str, node: Self) {
        let Value::Table(entries) = &mut self.value else { return };
        let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
        let at = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            let place = node.place.clone();
            let node = Self::empty_table(place.clone());
            entries.push(TableEntry { key: key.to_owned(), place, node });
            entries.len() - 1
        });
        match rest {
            Some(rest) => entries[at].node.set(rest, node),
            None => entries[at] = TableEntry { key: key.to_owned(), place: node.place.clone(), node },
        }
    }

    /// The number of entries of a table; of any other value 0.
    pub(crate) fn len(&self) -> usize {
        if let Value::Table(entries) = &self.value { entries.len() } else { 0 }
    }

    /// Whether the values are the same, wherever they stand.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        self.shown(&|_, _| false) == other.shown(&|_, _| false)
    }

    /// The value in one line of TOML, without secrets.
    pub(crate) fn shown(&self, is_secret: &dyn Fn(&str, &Value) -> bool) -> String {
        let mut text = String::new();
        self.write(&mut text, is_secret);
        text
    }

    fn write(&self, text: &mut String, is_secret: &dyn Fn(&str, &Value) -> bool) {
        // Writing to a string never fails.
        _ = match &self.value {
            Value::Text(value) => write!(text, "{}", quoted(value)),
            Value::Integer(value) => write!(text, "{value}"),
            Value::Float(value) => write!(text, "{value:?}"),
            Value::Flag(value) => write!(text, "{value}"),
            Value::List(nodes) => {
                text.push('[');
                for (index, node) in nodes.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    node.write(text, is_secret);
                }
                text.write_char(']')
            }
            Value::Table(entries) => {
                text.push('{');
                for (index, TableEntry { key, node, .. }) in entries.iter().enumerate() {
                    text.push_str(if index == 0 { " " } else { ", " });
                    text.push_str(&bare_or_quoted(key));
                    text.push_str(" = ");
                    if is_secret(key, &node.value) {
                        text.push_str("\"(secret)\"");
                    } else {
                        node.write(text, is_secret);
                    }
                }
                text.push_str(if entries.is_empty() { "}" } else { " }" });
                Ok(())
            }
        };
    }
}

impl<'a> FieldValue<'a> for &'a Node {
    fn shown(self) -> Cow<'a, str> {
        Node::shown(self, &|_, _| false).into()
    }

    fn text(self) -> Result<Cow<'a, str>, NoText> {
        match &self.value {
            Value::Text(text) => Ok(text.into()),
            _ => Err(NoText { rule: Some("must be a text in quotation marks") }),
        }
    }

    /// No setting is a resource name.
    fn name(self) -> Option<NameBuf> {
        None
    }

    fn number(self) -> Option<u64> {
        if let Value::Integer(integer) = self.value { integer.try_into().ok() } else { None }
    }

    fn flag(self) -> Option<bool> {
        if let Value::Flag(flag) = self.value { Some(flag) } else { None }
    }
}

/// A text in quotation marks, on one line.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A key as it may stand in a file.
pub(crate) fn bare_or_quoted(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) }
}
