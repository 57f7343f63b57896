//! The rules of fields as values: what a field admits, and the words of the rule.

use std::borrow::Cow;

use lockhouse_core::Mode;

/// The words of the rule for a flag.
pub const FLAG: &str = "true or false";

/// The modes of a lock.
pub const MODES: Choice<Mode> = Choice(&[("exclusive", Mode::Exclusive), ("shared", Mode::Shared)]);

/// A string of well-formed Unicode.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The least length.
    pub least: usize,
    /// The greatest length.
    pub most: usize,
    /// The unit of the length.
    pub unit: Unit,
    /// The form that the text must have besides.
    pub form: Option<Form>,
    /// A value that the rule admits, for documents.
    pub example: &'static str,
}

/// The unit of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8.
    Byte,
    /// Unicode scalar values.
    Character,
    /// 16 bits, as JavaScript counts.
    Half,
}

/// The form of a text: a check, the same as a pattern, and in words.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The check.
    pub has: fn(&str) -> bool,
    /// A regular expression for documents.
    pub pattern: &'static str,
    /// The words that follow the length in the words of the rule.
    pub words: &'static str,
}

/// An integer.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// The least.
    pub least: u64,
    /// The greatest.
    pub most: u64,
    /// The words of the rule, where the range in digits is not clearer.
    pub words: Option<&'static str>,
    /// A value that the rule admits, for documents.
    pub example: u64,
}

/// One of some words.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T: 'static>(pub &'static [(&'static str, T)]);

impl Text {
    /// A string of any length.
    pub const ANY: Self = Self::new(0, usize::MAX, Unit::Byte, "");

    /// A string whose length is in a range.
    pub const fn new(least: usize, most: usize, unit: Unit, example: &'static str) -> Self {
        Self { least, most, unit, form: None, example }
    }

    /// The same with a form.
    #[must_use]
    pub const fn with_form(self, form: Form) -> Self {
        Self { form: Some(form), ..self }
    }

    /// The rule in words.
    pub fn words(&self) -> Cow<'static, str> {
        let Self { least, most, unit, .. } = *self;
        let unit = match unit {
            Unit::Byte => "bytes of UTF-8",
            Unit::Character => "characters",
            Unit::Half => "16-bit units",
        };
        let length = match (least, most) {
            (0, usize::MAX) => return "a string".into(),
            (0, most) => format!("at most {most} {unit}"),
            (least, most) => format!("{least} to {most} {unit}"),
        };
        match self.form {
            None => format!("a string of {length}").into(),
            Some(Form { words, .. }) => format!("a string of {length} {words}").into(),
        }
    }

    /// Whether a text keeps the rule.
    pub fn admits(&self, text: &str) -> bool {
        let length = match self.unit {
            Unit::Byte => text.len(),
            Unit::Character => text.chars().count(),
            Unit::Half => text.encode_utf16().count(),
        };
        (self.least..=self.most).contains(&length) && self.form.is_none_or(|form| (form.has)(text))
    }
}

impl Number {
    /// An integer in a range.
    pub const fn new(least: u64, most: u64, example: u64) -> Self {
        Self { least, most, words: None, example }
    }

    /// The rule in words.
    pub fn words(&self) -> Cow<'static, str> {
        let Self { least, most, words, .. } = *self;
        words.map_or_else(|| format!("an integer from {least} to {most}").into(), Cow::Borrowed)
    }

    /// Whether a number keeps the rule.
    pub fn admits(&self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

impl<T: Copy> Choice<T> {
    /// The rule in words.
    pub fn words(&self) -> Cow<'static, str> {
        let quoted: Vec<String> = self.0.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")).into(),
            _ => quoted.concat().into(),
        }
    }

    /// The value that a word stands for.
    pub fn parse(&self, text: &str) -> Option<T> {
        self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_rule_name_its_bounds() {
        assert_eq!(Text::ANY.words(), "a string");
        assert_eq!(Text::new(0, 5, Unit::Half, "").words(), "a string of at most 5 16-bit units");
        assert_eq!(Text::new(1, 5, Unit::Character, "a").words(), "a string of 1 to 5 characters");
        assert_eq!(Number::new(1, 5, 1).words(), "an integer from 1 to 5");
        assert_eq!(MODES.words(), "\"exclusive\" or \"shared\"");
        assert_eq!(Choice(&[("a", 1), ("b", 2), ("c", 3)]).words(), "\"a\", \"b\" or \"c\"");
    }

    #[test]
    fn a_length_is_counted_in_its_unit() {
        let rule = |unit| Text::new(2, 2, unit, "ab");
        assert!(rule(Unit::Byte).admits("é") && !rule(Unit::Character).admits("é"));
        assert!(rule(Unit::Half).admits("𝄞") && !rule(Unit::Byte).admits("𝄞"));
    }
}
