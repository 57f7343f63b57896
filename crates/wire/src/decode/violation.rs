//! Violations of the rules of fields: the path, the value, the broken rule.

use std::borrow::Cow;
use std::fmt;

/// The most characters of a value that a violation repeats.
const VALUE_CHARS: usize = 64;

/// A field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its path, such as `locks[1].token`.
    pub field: String,
    /// The value, shortened; none if it must not be repeated, or there is nothing to show.
    pub value: Option<String>,
    /// The rule that the value must keep.
    pub rule: Cow<'static, str>,
}

impl Violation {
    /// A value that breaks a rule; at most 64 characters of it are repeated.
    pub fn new(field: impl Into<String>, value: &str, rule: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), value: Some(shorten(value)), rule: rule.into() }
    }

    /// A field that is not there, or whose value must not be repeated.
    pub fn withheld(field: impl Into<String>, rule: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), value: None, rule: rule.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, rule } = self;
        match value {
            Some(value) => write!(f, "{field} is {value}, but must be {rule}"),
            None => write!(f, "{field} must be {rule}"),
        }
    }
}

/// The path of a field in the object at a path.
pub fn member_path(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

/// The path of an item of the list at a path.
pub fn item_path(list: &str, index: usize) -> String {
    format!("{list}[{index}]")
}

/// At most 64 characters of a value, to be repeated in a violation.
pub fn shorten(value: &str) -> String {
    shorten_to(value, VALUE_CHARS, VALUE_CHARS - 1)
}

/// The value; of one with more than `most` characters the first `kept`, and an ellipsis.
pub fn shorten_to(value: &str, most: usize, kept: usize) -> String {
    match value.char_indices().nth(most) {
        None => value.to_owned(),
        Some(_) => value.chars().take(kept).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_shows_its_value_unless_that_is_withheld() {
        let violation = Violation::new(member_path(&item_path("locks", 1), "token"), "0", "positive");
        assert_eq!(violation.to_string(), "locks[1].token is 0, but must be positive");
        assert_eq!(
            Violation::withheld(member_path("", "secret"), "a string").to_string(),
            "secret must be a string"
        );
    }

    #[test]
    fn a_value_is_shortened_only_if_it_is_too_long() {
        assert_eq!(shorten(&"é".repeat(64)), "é".repeat(64));
        assert_eq!(shorten(&"é".repeat(65)), format!("{}…", "é".repeat(63)));
        assert_eq!(shorten_to("abc", 2, 2), "ab…");
    }
}
