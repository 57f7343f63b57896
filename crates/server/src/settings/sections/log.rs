//! `[log]`

use lockhouse_wire::decode::Choice;

use crate::settings::decode::Table;
use crate::settings::key::Key;

/// The settings of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// How each line is written.
    pub format: LogFormat,
}

/// How each line of the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As text for people.
    #[default]
    Text,
    /// As an object in JSON.
    Json,
}

const FORMAT: Choice<LogFormat> = Choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)]);

/// The keys of `[log]`.
pub(crate) fn keys() -> Vec<Key> {
    vec![Key::new("log.format", "\"text\"").flag("--log-format")]
}

impl LogSettings {
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        Some(Self { format: table.required("format", |value| value.choice(&FORMAT))? })
    }
}
