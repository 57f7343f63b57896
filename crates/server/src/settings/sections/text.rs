//! Values that stand in the file as texts.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// Reads a duration as people write it, such as `500ms`, `10s` or `1m 30s`.
///
/// # Errors
///
/// The rule, in words.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "a duration is written like 500ms, 10s or 1m".to_owned())
}

/// A host and a port; which addresses they stand for, only the system knows.
pub(super) fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text),
        _ => Err(de::Error::custom("must be HOST:PORT, such as 127.0.0.1:7420")),
    }
}

/// How long a stopping server waits, up to an hour.
pub(super) fn drain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let length = duration(deserializer)?;
    if length > Duration::from_secs(3600) {
        return Err(de::Error::custom("draining takes at most 1h"));
    }
    Ok(length)
}

/// Any duration.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

/// Reads a value that is written as one text.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_without_a_unit_is_refused_with_the_rule() {
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("10"), Err("a duration is written like 500ms, 10s or 1m".to_owned()));
    }
}
