//! Values that stand in the file as texts.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lockhouse_wire::decode::Text;
use serde::Serializer;

use super::lease::Lease;
use crate::settings::decode::{Decoded, NodeAt};

/// Reads a duration as people write it, such as `500ms`, `10s` or `1m 30s`.
///
/// # Errors
///
/// The rule, in words.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "a duration is written like 500ms, 10s or 1m".to_owned())
}

/// Any text.
pub(super) fn string(value: NodeAt<'_>) -> Decoded<String> {
    value.read(|field| field.string(&Text::ANY))
}

/// A file or a folder.
pub(super) fn path(value: NodeAt<'_>) -> Decoded<PathBuf> {
    string(value).map(PathBuf::from)
}

/// A value that is written as one text.
pub(super) fn parsed<T: FromStr<Err: Display>>(value: NodeAt<'_>) -> Decoded<T> {
    string(value)?.parse().map_err(|error: T::Err| value.wrong(error.to_string()))
}

/// A host and a port; which addresses they stand for, only the system knows.
pub(super) fn listen(value: NodeAt<'_>) -> Decoded<String> {
    let text = string(value)?;
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text),
        _ => Err(value.wrong("must be HOST:PORT, such as 127.0.0.1:7420")),
    }
}

/// The length of a lease.
pub(super) fn lease(value: NodeAt<'_>) -> Decoded<Lease> {
    Lease::new(duration(value)?).map_err(|error| value.wrong(error.to_string()))
}

/// How long a stopping server waits, up to an hour.
pub(super) fn drain(value: NodeAt<'_>) -> Decoded<Duration> {
    let length = duration(value)?;
    if length > Duration::from_secs(3600) {
        return Err(value.wrong("draining takes at most 1h"));
    }
    Ok(length)
}

/// How long an answer of the store is waited for.
pub(super) fn store_timeout(value: NodeAt<'_>) -> Decoded<Duration> {
    let length = duration(value)?;
    let bounds = Duration::from_millis(100)..=Duration::from_secs(600);
    if !bounds.contains(&length) {
        return Err(value.wrong("an answer of the store is waited for from 100ms to 10m"));
    }
    Ok(length)
}

/// Any duration.
pub(super) fn duration(value: NodeAt<'_>) -> Decoded<Duration> {
    parse_duration(&string(value)?).map_err(|rule| value.wrong(rule))
}

/// A time of a limit or of an issuer of tokens, whose bounds are checked apart.
pub(super) fn time(value: NodeAt<'_>) -> Decoded<Duration> {
    let rule = "must be a duration, which is written like 500ms, 10s or 1m";
    humantime::parse_duration(&string(value)?).map_err(|_| value.wrong(rule))
}

/// Writes a duration as [`time`] reads it.
pub(super) fn write_duration<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*length))
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
