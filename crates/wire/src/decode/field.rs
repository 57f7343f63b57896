//! Fields, and the reading of a field by a rule.

use std::borrow::Cow;

use lockhouse_core::NameBuf;

use super::rule::{Choice, FLAG, Number, Text};
use super::violation::{Violation, member_path};

/// A value as its source has it.
pub trait FieldValue<'a>: Copy {
    /// The value as an error shows it.
    fn shown(self) -> Cow<'a, str>;

    /// Its text.
    ///
    /// # Errors
    ///
    /// [`NoText`].
    fn text(self) -> Result<Cow<'a, str>, NoText>;

    /// Its resource name, which may have lone surrogates.
    fn name(self) -> Option<NameBuf>;

    /// Its integer.
    fn number(self) -> Option<u64>;

    /// Its truth value.
    fn flag(self) -> Option<bool>;
}

/// A value that is no text of well-formed Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoText {
    /// The rule for every text, where the source reports that rule in place of the rule of the field.
    pub rule: Option<&'static str>,
}

/// A field of an object: its path, and its value if it is there.
#[derive(Clone, Copy, Debug)]
pub struct Field<'p, V> {
    parent: &'p str,
    key: &'p str,
    value: Option<V>,
    is_secret: bool,
}

impl<'p, V> Field<'p, V> {
    /// The field of that name in the object at the path `parent`, which is empty for the outermost one.
    pub fn new(parent: &'p str, key: &'p str, value: Option<V>) -> Self {
        Self { parent, key, value, is_secret: false }
    }

    /// The same, but no error repeats its value.
    #[must_use]
    pub fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    /// Whether it has a value.
    pub fn is_there(&self) -> bool {
        self.value.is_some()
    }

    /// The path of the field.
    pub fn path(&self) -> String {
        member_path(self.parent, self.key)
    }
}

impl<'a, V: FieldValue<'a>> Field<'_, V> {
    /// Reads the field if it is there.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn if_any<T>(self, read: impl FnOnce(Self) -> Result<T, Violation>) -> Result<Option<T>, Violation> {
        self.value.map(|_| read(self)).transpose()
    }

    /// A text.
    ///
    /// # Errors
    ///
    /// The field is absent, or breaks the rule.
    pub fn text(self, rule: &Text) -> Result<Cow<'a, str>, Violation> {
        self.parse(|| rule.words(), |text| rule.admits(&text).then_some(text))
    }

    /// A text, if the field is there.
    ///
    /// # Errors
    ///
    /// The field breaks the rule.
    pub fn text_if_any(self, rule: &Text) -> Result<Option<Cow<'a, str>>, Violation> {
        self.if_any(|field| field.text(rule))
    }

    /// A text that outlives its source.
    ///
    /// # Errors
    ///
    /// The field is absent, or breaks the rule.
    pub fn string(self, rule: &Text) -> Result<String, Violation> {
        self.text(rule).map(Cow::into_owned)
    }

    /// A text that outlives its source, if the field is there.
    ///
    /// # Errors
    ///
    /// The field breaks the rule.
    pub fn string_if_any(self, rule: &Text) -> Result<Option<String>, Violation> {
        self.if_any(|field| field.string(rule))
    }

    /// One of some words.
    ///
    /// # Errors
    ///
    /// The field is absent, or breaks the rule.
    pub fn choice<T: Copy>(self, rule: &Choice<T>) -> Result<T, Violation> {
        self.parse(|| rule.words(), |text| rule.parse(&text))
    }

    /// An integer.
    ///
    /// # Errors
    ///
    /// The field is absent, or breaks the rule.
    pub fn number(self, rule: &Number) -> Result<u64, Violation> {
        self.read(|| rule.words(), |value| value.number().filter(|number| rule.admits(*number)))
    }

    /// An integer, if the field is there.
    ///
    /// # Errors
    ///
    /// The field breaks the rule.
    pub fn number_if_any(self, rule: &Number) -> Result<Option<u64>, Violation> {
        self.if_any(|field| field.number(rule))
    }

    /// True or false.
    ///
    /// # Errors
    ///
    /// The field is absent, or something else.
    pub fn flag(self) -> Result<bool, Violation> {
        self.read(|| FLAG.into(), FieldValue::flag)
    }

    /// True or false, and false where the field is absent.
    ///
    /// # Errors
    ///
    /// The field is something else.
    pub fn flag_or_false(self) -> Result<bool, Violation> {
        self.if_any(Self::flag).map(Option::unwrap_or_default)
    }

    /// A resource name that is no longer than the rule admits.
    ///
    /// # Errors
    ///
    /// The field is absent, or breaks the rule.
    pub fn name(self, rule: &Text) -> Result<NameBuf, Violation> {
        let fits = |name: &NameBuf| name.as_name().unit_count() <= rule.most;
        self.read(|| rule.words(), |value| value.name().filter(fits))
    }

    /// The value that a text stands for.
    ///
    /// # Errors
    ///
    /// The field is absent or no text, or `parse` finds nothing in it.
    pub fn parse<T>(
        self,
        rule: impl Fn() -> Cow<'static, str>,
        parse: impl FnOnce(Cow<'a, str>) -> Option<T>,
    ) -> Result<T, Violation> {
        let value = self.needed(&rule)?;
        match value.text() {
            Ok(text) => parse(text).ok_or_else(|| self.broken(rule())),
            // Even the information whether a secret is a text reveals something of it.
            Err(NoText { rule: Some(general) }) if !self.is_secret => Err(self.broken(general)),
            Err(_) => Err(self.broken(rule())),
        }
    }

    /// The result of `read` on the value.
    ///
    /// # Errors
    ///
    /// The field is absent, or `read` finds nothing.
    pub fn read<T>(
        self,
        rule: impl Fn() -> Cow<'static, str>,
        read: impl FnOnce(V) -> Option<T>,
    ) -> Result<T, Violation> {
        read(self.needed(&rule)?).ok_or_else(|| self.broken(rule()))
    }

    fn needed(self, rule: impl Fn() -> Cow<'static, str>) -> Result<V, Violation> {
        self.value.ok_or_else(|| self.broken(rule()))
    }

    /// The violation of a rule by this field.
    #[cold]
    pub fn broken(self, rule: impl Into<Cow<'static, str>>) -> Violation {
        if self.is_secret {
            return Violation::withheld(self.path(), rule);
        }
        let value = self.value.map_or("absent".into(), FieldValue::shown);
        Violation::new(self.path(), &value, rule)
    }
}
