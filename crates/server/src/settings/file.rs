//! A TOML text as a tree with places.

use std::sync::Arc;

use toml::de::{DeString, DeTable, DeValue};
use toml::{Spanned, de};

use super::problem::SettingsProblem;
use super::tree::{Location, Node, TableEntry, Value};

/// The tree, and the faults of the text. A wrong text has a tree, too: of the parts that could be read.
pub(crate) fn parse(file: &str, text: &str) -> (Node, Vec<SettingsProblem>) {
    // Behind the last newline there is no line.
    let lines = text.strip_suffix('\n').unwrap_or(text);
    let reader = Reader { file: file.into(), line_ends: line_ends(lines) };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems: Vec<SettingsProblem> = errors.iter().map(|error| reader.problem(error)).collect();
    let node = reader.table(table.get_ref(), reader.place(0), &mut problems);
    (node, problems)
}

/// The value in a variable of the environment, if it is TOML.
pub(crate) fn parse_value(place: &Location, text: &str) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    let reader = Reader { file: "".into(), line_ends: Vec::new() };
    let mut problems = Vec::new();
    let mut node = reader.node(value.get_ref(), place.clone(), &mut problems);
    put(&mut node, place);
    problems.is_empty().then_some(node)
}

/// Gives everything in it one place.
fn put(node: &mut Node, place: &Location) {
    node.place = place.clone();
    match &mut node.value {
        Value::List(nodes) => nodes.iter_mut().for_each(|node| put(node, place)),
        Value::Table(entries) => {
            for entry in entries {
                entry.place = place.clone();
                put(&mut entry.node, place);
            }
        }
        _ => {}
    }
}

struct Reader {
    file: Arc<str>,
    /// The end of each line, in bytes.
    line_ends: Vec<usize>,
}

impl Reader {
    fn place(&self, byte: usize) -> Location {
        Location::File {
            file: self.file.clone(),
            line: 1 + self.line_ends.partition_point(|end| *end < byte),
        }
    }

    fn problem(&self, error: &de::Error) -> SettingsProblem {
        let place = self.place(error.span().map_or(0, |span| span.start));
        SettingsProblem::of_text(place, error.message().replace('\n', "; "))
    }

    fn table(&self, table: &DeTable<'_>, place: Location, problems: &mut Vec<SettingsProblem>) -> Node {
        let mut entries: Vec<(usize, TableEntry)> =
            table.iter().map(|(key, value)| (key.span().start, self.entry(key, value, problems))).collect();
        // In the order of the file.
        entries.sort_by_key(|(start, _)| *start);
        Node::new(place, Value::Table(entries.into_iter().map(|(_, entry)| entry).collect()))
    }

    fn entry(
        &self,
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        problems: &mut Vec<SettingsProblem>,
    ) -> TableEntry {
        let place = self.place(key.span().start);
        // Of a value over several lines its key's line is the one to look at.
        let node = self.node(value.get_ref(), place.clone(), problems);
        TableEntry { key: key.get_ref().to_string(), place, node }
    }

    fn node(&self, value: &DeValue<'_>, place: Location, problems: &mut Vec<SettingsProblem>) -> Node {
        let value = match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Integer(integer) => {
                match i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()) {
                    Ok(integer) => Value::Integer(integer),
                    // Too large for any setting: reported as a text, which no number may be.
                    Err(_) => Value::Text(integer.to_string()),
                }
            }
            DeValue::Float(float) => match float.as_str().replace('_', "").parse() {
                Ok(float) => Value::Float(float),
                Err(_) => Value::Text(float.to_string()),
            },
            DeValue::Datetime(time) => Value::Text(time.to_string()),
            DeValue::Array(array) => Value::List(
                array
                    .iter()
                    .map(|item| self.node(item.get_ref(), self.place(item.span().start), problems))
                    .collect(),
            ),
            DeValue::Table(table) => return self.table(table, place, problems),
        };
        Node::new(place, value)
    }
}

fn line_ends(text: &str) -> Vec<usize> {
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_knows_its_line() {
        let text = "listen = \"a:1\"\n\n[tls]\ncert = 'c' # why\nhsts = [\n  1,\n  2,\n]\n";
        let (tree, problems) = parse("f.toml", text);
        assert!(problems.is_empty(), "{problems:?}");
        let line = |path: &str| tree.get(path).unwrap().place.to_string();
        assert_eq!(
            ["listen", "tls", "tls.cert", "tls.hsts"].map(line),
            ["f.toml:1", "f.toml:3", "f.toml:4", "f.toml:5"]
        );
        let Value::List(items) = &tree.get("tls.hsts").unwrap().value else { panic!("no list") };
        assert_eq!(items[1].place.to_string(), "f.toml:7");
    }

    #[test]
    fn every_error_of_the_text_is_reported_with_its_line() {
        let (tree, problems) = parse("f.toml", "a = 1\nb = \nc = 3\nc = 4\n= 5\n");
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let begins: Vec<&str> = lines.iter().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(begins, ["f.toml:2", "f.toml:4", "f.toml:5"], "{lines:?}");
        assert!(tree.get("a").is_some());
    }
}
