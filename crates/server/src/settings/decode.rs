//! Reads the tree by fields and rules, in one pass that finds all faults.
//!
//! A wrong value is reported with its place, and the default of its key stands in for it.

use std::collections::{BTreeMap, HashSet};

use lockhouse_wire::decode::{Choice, FLAG, Field, FieldValue, Violation, item_path};

use super::file;
use super::key::Key;
use super::problem::{SettingsProblem, join};
use super::tree::{Location, Node, TableEntry, Value};

/// What a value says, or all its faults.
pub(crate) type Decoded<T> = Result<T, Vec<SettingsProblem>>;

/// Reads the fields of a table; none without a value or a default for each one that must be there.
pub(crate) type ReadTable<T> = fn(&mut Table<'_>) -> Option<T>;

/// A value of the tree with its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeAt<'t> {
    pub(crate) path: &'t str,
    pub(crate) node: &'t Node,
    /// Every key that can be set.
    pub(crate) keys: &'t [Key],
}

/// A table that is being read. Its fields are read in the order in which problems list them.
#[derive(Debug)]
pub(crate) struct Table<'t> {
    at: NodeAt<'t>,
    /// The keys that have been asked for; all others are unknown.
    known: Vec<&'t str>,
    /// Each with the position of its entry, as problems are reported in the order of the file.
    problems: Vec<(usize, SettingsProblem)>,
    /// Whether a required value is absent or wrong.
    is_incomplete: bool,
}

impl<'t> NodeAt<'t> {
    /// A single value.
    pub(crate) fn read<T>(
        self,
        read: impl FnOnce(Field<'t, &'t Node>) -> Result<T, Violation>,
    ) -> Decoded<T> {
        read(Field::new("", self.path, Some(self.node))).map_err(|violation| self.wrong(violation.rule))
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy>(self, rule: &Choice<T>) -> Decoded<T> {
        let words = || {
            let quoted: Vec<String> = rule.0.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            format!("must be {}", quoted.join(" or ")).into()
        };
        self.read(|field| field.read(words, |node| rule.parse(&node.text().ok()?)))
    }

    /// A list.
    pub(crate) fn list<T>(self, read: impl Fn(NodeAt<'_>) -> Decoded<T>) -> Decoded<Vec<T>> {
        let Value::List(nodes) = &self.node.value else { return Err(self.wrong("must be a list")) };
        let items = nodes.iter().enumerate();
        all(items.map(|(index, node)| read(NodeAt { path: &item_path(self.path, index), node, ..self })))
    }

    /// A table whose keys are names of the operator's choice. Of a name that stands there several times the
    /// first fault is reported.
    pub(crate) fn map<T>(self, read: impl Fn(NodeAt<'_>) -> Decoded<T>) -> Decoded<BTreeMap<String, T>> {
        let Value::Table(entries) = &self.node.value else { return Err(self.wrong("must be a table")) };
        let mut wrong = HashSet::new();
        all(entries.iter().filter_map(|TableEntry { key, node, .. }| {
            if wrong.contains(key) {
                return None;
            }
            let found = read(NodeAt { path: &join(self.path, key), node, ..self });
            if found.is_err() {
                wrong.insert(key);
            }
            Some(found.map(|value| (key.clone(), value)))
        }))
    }

    /// A table without a fault.
    pub(crate) fn table<T>(self, read: ReadTable<T>) -> Decoded<T> {
        match self.table_in_part(read) {
            (Some(value), problems) if problems.is_empty() => Ok(value),
            (_, problems) => Err(problems),
        }
    }

    /// A table with defaults in place of wrong and absent values, and its faults.
    pub(crate) fn table_in_part<T>(self, read: ReadTable<T>) -> (Option<T>, Vec<SettingsProblem>) {
        let mut table = Table { at: self, known: Vec::new(), problems: Vec::new(), is_incomplete: false };
        let value = read(&mut table);
        (value, table.finish())
    }

    /// The one fault of the value.
    pub(crate) fn wrong(self, rule: impl Into<String>) -> Vec<SettingsProblem> {
        vec![SettingsProblem::of_value(self.path, self.node, rule)]
    }
}

/// True or false.
pub(crate) fn flag(value: NodeAt<'_>) -> Decoded<bool> {
    value.read(|field| field.read(|| format!("must be {FLAG}").into(), FieldValue::flag))
}

/// All values or all faults.
fn all<T, C: FromIterator<T>>(items: impl Iterator<Item = Decoded<T>>) -> Decoded<C> {
    let mut problems = Vec::new();
    let values = items.filter_map(|item| item.map_err(|wrong| problems.extend(wrong)).ok()).collect();
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

impl<'t> Table<'t> {
    /// The value of a key, or its default; none if there is neither.
    pub(crate) fn optional<T>(&mut self, key: &'t str, read: impl Fn(NodeAt<'_>) -> Decoded<T>) -> Option<T> {
        self.known.push(key);
        let path = join(self.at.path, key);
        if let Some((index, node)) = self.entry(key) {
            match read(NodeAt { path: &path, node, ..self.at }) {
                Ok(value) => return Some(value),
                Err(problems) => self.report(index, problems),
            }
        }
        let node = default(self.at.keys.iter().find(|known| known.path == path)?)?;
        read(NodeAt { path: &path, node: &node, ..self.at }).ok()
    }

    /// The value of a key that must be there, or its default. An absent value is reported, and has a default,
    /// only if no value that must be there is absent or wrong before it.
    pub(crate) fn required<T>(&mut self, key: &'t str, read: impl Fn(NodeAt<'_>) -> Decoded<T>) -> Option<T> {
        let path = join(self.at.path, key);
        let reported = self.problems.len();
        let is_missing = self.entry(key).is_none();
        let counts = !is_missing || !self.is_incomplete;
        if is_missing && counts {
            self.report(usize::MAX, vec![SettingsProblem::of_missing(&path, &self.at.node.place)]);
        }
        let value = self.optional(key, read).filter(|_| counts);
        // A list with a wrong item is there all the same.
        self.is_incomplete |=
            self.problems[reported..].iter().any(|(_, problem)| problem.key() == Some(&path));
        value
    }

    /// The table of a key, with defaults in place of wrong values; none if it is absent.
    pub(crate) fn section<T>(&mut self, key: &'t str, read: ReadTable<T>) -> Option<T> {
        self.known.push(key);
        let path = join(self.at.path, key);
        let (index, node) = self.entry(key)?;
        let (value, problems) = NodeAt { path: &path, node, ..self.at }.table_in_part(read);
        self.report(index, problems);
        value
    }

    fn entry(&self, key: &str) -> Option<(usize, &'t Node)> {
        let Value::Table(entries) = &self.at.node.value else { return None };
        let index = entries.iter().position(|entry| entry.key == key)?;
        Some((index, &entries[index].node))
    }

    fn report(&mut self, index: usize, problems: Vec<SettingsProblem>) {
        self.problems.extend(problems.into_iter().map(|problem| (index, problem)));
    }

    /// All faults, in the order of the file.
    fn finish(self) -> Vec<SettingsProblem> {
        let Self { at, known, mut problems, .. } = self;
        let Value::Table(entries) = &at.node.value else {
            return at.wrong(format!("must be a table with {}", known.join(", ")));
        };
        let unknown = entries.iter().enumerate().filter(|(_, entry)| !known.contains(&&*entry.key));
        let report = |entry| SettingsProblem::of_unknown(at.path, entry, &known, at.keys);
        problems.extend(unknown.map(|(index, entry)| (index, report(entry))));
        problems.sort_by_key(|(index, _)| *index);
        problems.into_iter().map(|(_, problem)| problem).collect()
    }
}

/// The default value of a key.
pub(crate) fn default(key: &Key) -> Option<Node> {
    file::parse_value(&Location::Default, key.default.as_ref()?)
}

#[cfg(test)]
mod tests {
    use lockhouse_wire::decode::{Number, Text};

    use super::super::file::parse;
    use super::*;

    const SIZE: Number =
        Number { words: Some("must be a whole number from 0 to 255"), ..Number::new(0, 255, 0) };

    const USES: Number = Number {
        words: Some("must be a whole number from 0 to 4294967295"),
        ..Number::new(0, 4_294_967_295, 0)
    };

    const MODES: Choice<Mode> = Choice(&[("wide", Mode::Wide), ("very-narrow", Mode::VeryNarrow)]);

    #[derive(Debug, PartialEq)]
    struct Named {
        id: String,
        uses: Vec<u64>,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Mode {
        Wide,
        VeryNarrow,
    }

    #[derive(Debug, Default, PartialEq)]
    struct All {
        size: u64,
        mode: Option<Mode>,
        keys: Vec<Named>,
    }

    impl Named {
        fn read(table: &mut Table<'_>) -> Option<Self> {
            let id = table.required("id", |value| value.read(|field| field.string(&Text::ANY)));
            let uses =
                table.optional("uses", |uses| uses.list(|item| item.read(|field| field.number(&USES))));
            Some(Self { id: id?, uses: uses.unwrap_or_default() })
        }
    }

    impl All {
        fn read(table: &mut Table<'_>) -> Option<Self> {
            Some(Self {
                size: table
                    .optional("size", |value| value.read(|field| field.number(&SIZE)))
                    .unwrap_or_default(),
                mode: table.optional("mode", |value| value.choice(&MODES)),
                keys: table
                    .optional("keys", |keys| keys.list(|key| key.table(Named::read)))
                    .unwrap_or_default(),
            })
        }
    }

    fn at<'t>(path: &'t str, node: &'t Node, keys: &'t [Key]) -> NodeAt<'t> {
        NodeAt { path, node, keys }
    }

    fn problems(text: &str) -> Vec<String> {
        let (tree, errors) = parse("f", text);
        assert!(errors.is_empty(), "{errors:?}");
        let wrong = at("", &tree, &[]).table(All::read).unwrap_err();
        wrong.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_right_tree_is_read() {
        let text =
            "size = 7\nmode = \"very-narrow\"\n[[keys]]\nid = \"a\"\nuses = [1]\n[[keys]]\nid = \"b\"\n";
        let (tree, _) = parse("f", text);
        let keys =
            vec![Named { id: "a".to_owned(), uses: vec![1] }, Named { id: "b".to_owned(), uses: Vec::new() }];
        let expected = All { size: 7, mode: Some(Mode::VeryNarrow), keys };
        assert_eq!(at("", &tree, &[]).table(All::read), Ok(expected));
    }

    #[test]
    fn everything_that_is_wrong_is_found() {
        let text = "size = 256\nmode = \"slim\"\nsise = 1\n[[keys]]\nidd = \"a\"\nuses = [1, \"2\", -3]\n[[keys]]\nid = 9\n[other]\n";
        let mut found = problems(text);
        found.sort();
        assert_eq!(
            found,
            [
                "f:1: size = 256: must be a whole number from 0 to 255",
                "f:2: mode = \"slim\": must be \"wide\" or \"very-narrow\"",
                "f:3: sise: unknown key; the nearest known one is size",
                "f:4: keys[0].id: is missing",
                "f:5: keys[0].idd: unknown key; the nearest known one is keys[0].id",
                "f:6: keys[0].uses[1] = \"2\": must be a whole number from 0 to 4294967295",
                "f:6: keys[0].uses[2] = -3: must be a whole number from 0 to 4294967295",
                "f:8: keys[1].id = 9: must be a text in quotation marks",
                "f:9: other: unknown key; known here are size, mode, keys",
            ]
        );
    }

    #[test]
    fn a_value_in_place_of_a_table_is_reported_with_the_expected_members() {
        assert_eq!(problems("keys = [1]"), ["f:1: keys[0] = 1: must be a table with id, uses"]);
        assert_eq!(problems("keys = 1"), ["f:1: keys = 1: must be a list"]);
    }
    #[test]
    fn faults_of_one_line_are_reported_in_the_order_in_which_they_stand_there() {
        assert_eq!(
            problems("keys = [{ uses = 7, idd = 1, id = 2 }, { uses = [true] }]\nsize = -1\n"),
            [
                "f:1: keys[0].uses = 7: must be a list",
                "f:1: keys[0].idd: unknown key; the nearest known one is keys[0].id",
                "f:1: keys[0].id = 2: must be a text in quotation marks",
                "f:1: keys[1].uses[0] = true: must be a whole number from 0 to 4294967295",
                "f:1: keys[1].id: is missing",
                "f:2: size = -1: must be a whole number from 0 to 255",
            ]
        );
    }

    fn pair(table: &mut Table<'_>) -> Option<(bool, bool)> {
        let first = table.required("first", flag);
        let second = table.required("second", flag);
        Some((first?, second?))
    }

    #[test]
    fn of_what_a_table_lacks_only_the_first_is_reported_and_nothing_beside_a_wrong_one() {
        for (text, expected) in [
            ("", &["f:1: first: is missing"][..]),
            ("first = true", &["f:1: second: is missing"]),
            ("first = 1", &["f:1: first = 1: must be true or false"]),
            ("second = 1", &["f:1: second = 1: must be true or false", "f:1: first: is missing"]),
        ] {
            let (tree, _) = parse("f", text);
            let (value, wrong) = at("", &tree, &[]).table_in_part(pair);
            assert_eq!(value, None);
            assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn a_list_with_a_wrong_item_is_there() {
        let lists = |table: &mut Table<'_>| {
            let first = table.required("first", |value| value.list(flag));
            Some((first?, table.required("second", flag)?))
        };
        let keys = [Key::new("first", "[]"), Key::new("second", "true")];
        let (tree, _) = parse("f", "first = [true, 7]");
        let (value, wrong) = at("", &tree, &keys).table_in_part(lists);
        let expected = ["f:1: first[1] = 7: must be true or false", "f:1: second: is missing"];
        assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        assert_eq!(value, Some((Vec::new(), true)));
    }

    #[test]
    fn a_default_stands_in_for_each_wrong_value_and_for_the_first_that_is_absent() {
        let keys = [Key::new("first", "true"), Key::new("second", "false")];
        for (text, expected) in [
            ("first = false\nsecond = true", Some((false, true))),
            ("first = 1\nsecond = true", Some((true, true))),
            ("first = 1\nsecond = 1", Some((true, false))),
            ("second = 1", Some((true, false))),
            ("first = false", Some((false, false))),
            ("first = 1", None),
            ("", None),
        ] {
            let (tree, _) = parse("f", text);
            let (value, _) = at("", &tree, &keys).table_in_part(pair);
            assert_eq!(value, expected, "{text}");
        }
    }

    #[test]
    fn a_key_of_any_name_has_its_fault_once_and_its_last_value() {
        let text = |text: &str| Node::new(Location::Default, Value::Text(text.to_owned()));
        let map = |pairs: &[(&str, &str)]| {
            let entry = |(key, word): &(&str, &str)| TableEntry {
                key: (*key).to_owned(),
                place: Location::Default,
                node: text(word),
            };
            let tree = Node::new(Location::Default, Value::Table(pairs.iter().map(entry).collect()));
            let found = at("modes", &tree, &[]).map(|word| word.choice(&MODES));
            found.map_err(|wrong| wrong.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let found = map(&[("a", "wide"), ("a b", "wide"), ("a", "very-narrow")]).unwrap();
        let found: Vec<_> = found.iter().map(|(key, mode)| (key.as_str(), *mode)).collect();
        assert_eq!(found, [("a", Mode::VeryNarrow), ("a b", Mode::Wide)]);
        assert_eq!(
            map(&[("b", "x"), ("a b", "wide"), ("a b", "y"), ("b", "z"), ("a b", "z"), ("b", "wide")]),
            Err(vec![
                "default: modes.b = \"x\": must be \"wide\" or \"very-narrow\"".to_owned(),
                "default: modes.\"a b\" = \"y\": must be \"wide\" or \"very-narrow\"".to_owned(),
            ])
        );
    }
}
