//! Reads a tree into a type by serde, and finds all faults, not only the first one.
//!
//! serde gives up at the first error. So each wrong value is noted and left out, and the rest is read again
//! until no new fault is found. For unknown keys to be found the type has to deny them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::{self, Display};

use lockhouse_wire::decode::{FLAG, item_path};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::problem::{SettingsProblem, join};
use super::tree::{Node, TableEntry, Value};

/// Reads a tree as a `T`.
///
/// # Errors
///
/// All faults, in no order.
pub(crate) fn decode<T: DeserializeOwned>(tree: &Node) -> Result<T, Vec<SettingsProblem>> {
    let notes = Notes::default();
    loop {
        let root = Decoder { node: tree, path: String::new(), notes: &notes };
        match T::deserialize(root.clone()) {
            Ok(whole) if notes.problems.borrow().is_empty() => return Ok(whole),
            Ok(_) => return Err(notes.problems.into_inner()),
            Err(stop) => {
                let stop = stop.at(&root);
                let is_new = notes.left_out.borrow_mut().insert(stop.path.clone());
                notes.problems.borrow_mut().extend(stop.problem);
                if stop.path.is_empty() || !is_new {
                    return Err(notes.problems.into_inner());
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Notes {
    problems: RefCell<Vec<SettingsProblem>>,
    /// Paths of values that have been reported as wrong.
    left_out: RefCell<HashSet<String>>,
}

impl Notes {
    fn is_left_out(&self, path: &str) -> bool {
        self.left_out.borrow().contains(path)
    }
}

/// The reason why the reading stopped, and the place once it is known.
#[derive(Debug)]
enum DecodeStop {
    Somewhere(Reason),
    At(Box<Placed>),
}

#[derive(Debug)]
enum Reason {
    /// The rule of a value.
    Rule(String),
    Missing(&'static str),
    Unknown(String, &'static [&'static str]),
}

#[derive(Debug)]
struct Placed {
    /// The path that is left out from now on.
    path: String,
    /// The problem; none if it follows from one reported before.
    problem: Option<SettingsProblem>,
}

impl DecodeStop {
    /// Adds the place, unless a nearer place is there already.
    fn at(self, place: &Decoder<'_>) -> Placed {
        let Decoder { node, path, notes } = place;
        let reason = match self {
            Self::At(placed) => return *placed,
            Self::Somewhere(reason) => reason,
        };
        match reason {
            Reason::Rule(rule) => {
                Placed { path: path.clone(), problem: Some(SettingsProblem::of_value(path, node, rule)) }
            }
            Reason::Missing(field) => {
                let missing = join(path, field);
                let is_reported = notes.is_left_out(&missing);
                let problem = (!is_reported).then(|| SettingsProblem::of_missing(&missing, &node.place));
                Placed { path: path.clone(), problem }
            }
            Reason::Unknown(key, known) => {
                let key_place = match &node.value {
                    Value::Table(entries) => entries.iter().find(|entry| entry.key == key),
                    _ => None,
                };
                let key_place = key_place.map_or(&node.place, |entry| &entry.place);
                let problem = SettingsProblem::of_unknown(path, &key, key_place, known);
                Placed { path: join(path, &key), problem: Some(problem) }
            }
        }
    }
}

impl Display for DecodeStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for DecodeStop {}

impl de::Error for DecodeStop {
    fn custom<T: Display>(rule: T) -> Self {
        Self::Somewhere(Reason::Rule(rule.to_string()))
    }

    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(in_words(&expected.to_string()))
    }

    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(in_words(&expected.to_string()))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let quoted: Vec<String> = expected.iter().map(|word| format!("\"{word}\"")).collect();
        Self::custom(format_args!("must be {}", quoted.join(" or ")))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::Somewhere(Reason::Unknown(field.to_owned(), expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Somewhere(Reason::Missing(field))
    }
}

/// The rule that serde means.
fn in_words(expected: &str) -> String {
    let whole = |most: u128| format!("must be a whole number from 0 to {most}");
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        // TOML has no larger ones.
        "u64" | "usize" => whole(i64::MAX as u128),
        "a string" | "path string" => "must be a text in quotation marks".to_owned(),
        "a sequence" => "must be a list".to_owned(),
        "a map" => "must be a table".to_owned(),
        "a boolean" => format!("must be {FLAG}"),
        expected => format!("must be {expected}"),
    }
}

/// A value about to be read.
#[derive(Clone)]
struct Decoder<'t> {
    node: &'t Node,
    path: String,
    notes: &'t Notes,
}

impl<'t> Decoder<'t> {
    fn placed<T>(&self, result: Result<T, DecodeStop>) -> Result<T, DecodeStop> {
        result.map_err(|stop| DecodeStop::At(Box::new(stop.at(self))))
    }

    fn items(&self, nodes: &'t [Node]) -> Items<'t> {
        let nodes = nodes.iter().enumerate();
        let decoder = |(index, node)| {
            let path = item_path(&self.path, index);
            (!self.notes.is_left_out(&path)).then_some(Decoder { node, path, notes: self.notes })
        };
        Items(nodes.filter_map(decoder).collect::<Vec<_>>().into_iter())
    }

    fn fields(&self, entries: &'t [TableEntry]) -> Fields<'t> {
        let decoder = |entry: &'t TableEntry| {
            let path = join(&self.path, &entry.key);
            let notes = self.notes;
            (!notes.is_left_out(&path))
                .then_some((entry.key.as_str(), Decoder { node: &entry.node, path, notes }))
        };
        let fields: Vec<_> = entries.iter().filter_map(decoder).collect();
        Fields { fields: fields.into_iter(), value: None }
    }
}

impl<'de, 't: 'de> de::Deserializer<'de> for Decoder<'t> {
    type Error = DecodeStop;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeStop> {
        let result = match &self.node.value {
            Value::Text(text) => visitor.visit_str(text),
            Value::Integer(integer) => match u64::try_from(*integer) {
                Ok(integer) => visitor.visit_u64(integer),
                Err(_) => visitor.visit_i64(*integer),
            },
            Value::Float(float) => visitor.visit_f64(*float),
            Value::Flag(flag) => visitor.visit_bool(*flag),
            Value::List(nodes) => visitor.visit_seq(self.items(nodes)),
            Value::Table(entries) => visitor.visit_map(self.fields(entries)),
        };
        self.placed(result)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeStop> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeStop> {
        let place = self.clone();
        place.placed(visitor.visit_newtype_struct(self))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeStop> {
        let Value::Table(entries) = &self.node.value else {
            let rule =
                DecodeStop::Somewhere(Reason::Rule(format!("must be a table with {}", known.join(", "))));
            return self.placed(Err(rule));
        };
        self.placed(visitor.visit_map(self.fields(entries)))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeStop> {
        let result = match &self.node.value {
            Value::Text(text) => {
                let text: StrDeserializer<'_, DecodeStop> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            Value::Table(entries) => visitor.visit_enum(MapAccessDeserializer::new(self.fields(entries))),
            _ => Err(de::Error::unknown_variant("", variants)),
        };
        self.placed(result)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'t>(std::vec::IntoIter<Decoder<'t>>);

impl<'de, 't: 'de> de::SeqAccess<'de> for Items<'t> {
    type Error = DecodeStop;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DecodeStop> {
        let Some(item) = self.0.next() else { return Ok(None) };
        let place = item.clone();
        place.placed(seed.deserialize(item)).map(Some)
    }
}

struct Fields<'t> {
    fields: std::vec::IntoIter<(&'t str, Decoder<'t>)>,
    value: Option<Decoder<'t>>,
}

impl<'de, 't: 'de> de::MapAccess<'de> for Fields<'t> {
    type Error = DecodeStop;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeStop> {
        let Some((key, value)) = self.fields.next() else { return Ok(None) };
        self.value = Some(value);
        let key: StrDeserializer<'_, DecodeStop> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeStop> {
        let value = self.value.take().ok_or_else(|| de::Error::custom("a value was read before its key"))?;
        let place = value.clone();
        place.placed(seed.deserialize(value))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::file::parse;
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Key {
        id: String,
        #[serde(default)]
        uses: Vec<u32>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case")]
    enum Mode {
        Wide,
        VeryNarrow,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct All {
        size: u8,
        mode: Option<Mode>,
        keys: Vec<Key>,
    }

    fn problems(text: &str) -> Vec<String> {
        let (tree, errors) = parse("f", text);
        assert!(errors.is_empty(), "{errors:?}");
        decode::<All>(&tree).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_right_tree_is_read() {
        let text =
            "size = 7\nmode = \"very-narrow\"\n[[keys]]\nid = \"a\"\nuses = [1]\n[[keys]]\nid = \"b\"\n";
        let (tree, _) = parse("f", text);
        let keys =
            vec![Key { id: "a".to_owned(), uses: vec![1] }, Key { id: "b".to_owned(), uses: Vec::new() }];
        assert_eq!(decode(&tree), Ok(All { size: 7, mode: Some(Mode::VeryNarrow), keys }));
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
}
