//! `[history]`

use std::time::Duration;

use lockhouse::store::HistoryBounds;
use lockhouse_wire::decode::Number;

use super::text;
use crate::settings::decode::{Table, flag};
use crate::settings::key::Key;

/// What is kept of what has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// Whether anything is: entries of history, and events.
    pub enabled: bool,
    /// The most entries in the store, of all buckets together; none: as many as the store has by itself.
    pub rows: Option<u32>,
    /// For how long entries are kept.
    pub max_age: Duration,
}

const ROWS: Number = Number {
    words: Some("must be an integer from 1 to 100000000"),
    ..Number::new(1, 100_000_000, HistoryBounds::DEFAULT.rows as u64)
};

/// The shortest and the longest time for which entries are kept.
const AGES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(100_000 * 24 * 3600));

/// The keys of `[history]`.
pub(crate) fn keys() -> Vec<Key> {
    vec![
        Key::new("history.enabled", "true"),
        Key::unset("history.rows").flag("--history-rows"),
        Key::new("history.max_age", "\"30days\"").flag("--history-age"),
    ]
}

impl Default for HistorySettings {
    fn default() -> Self {
        let max_age = HistoryBounds::DEFAULT.age.unwrap_or(AGES.1);
        Self { enabled: true, rows: None, max_age }
    }
}

impl HistorySettings {
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        let enabled = table.required("enabled", flag);
        let rows = table.optional("rows", |value| value.read(|field| field.number(&ROWS)));
        let max_age = table.required("max_age", |value| text::length(value, AGES.0, AGES.1));
        // The rule admits no larger number.
        Some(Self { enabled: enabled?, rows: rows.map(|rows| rows as u32), max_age: max_age? })
    }

    /// What a store keeps that would keep so many rows by itself.
    pub(crate) fn bounds(&self, rows: u32) -> HistoryBounds {
        let rows = if self.enabled { self.rows.unwrap_or(rows) } else { 0 };
        HistoryBounds { rows, age: Some(self.max_age) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read_section;

    #[test]
    fn nothing_is_kept_only_where_that_is_said() {
        let read = |text: &str| read_section("history", text, HistorySettings::read);
        let settings = read("enabled = true\nrows = 7\nmax_age = \"2h\"").expect("a section");
        assert_eq!(settings.bounds(100).rows, 7);
        assert_eq!(settings.bounds(100).age, Some(Duration::from_secs(7200)));
        let off = read("enabled = false\nmax_age = \"30days\"").expect("a section");
        assert_eq!(off.bounds(100).rows, 0);
        for (text, rule) in [
            ("rows = 0\nmax_age = \"1h\"", "history.rows = 0: must be an integer from 1 to 100000000"),
            ("max_age = \"0s\"", "history.max_age = \"0s\": must be from 1m to"),
            ("max_age = 30", "history.max_age = 30: "),
        ] {
            let error = read(&format!("enabled = true\n{text}")).expect_err(text).concat();
            assert!(error.contains(rule), "{error}");
        }
    }
}
