//! Values that stand in the file as texts.

use std::fmt::Display;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lockhouse_wire::decode::{Text, parse_duration};
use serde::Serializer;

use super::lease::Lease;
use crate::settings::decode::{Decoded, NodeAt};

/// Any text.
pub(super) fn string(value: NodeAt<'_>) -> Decoded<String> {
    value.read(|field| field.string(&Text::ANY))
}

/// A file or a folder.
pub(super) fn path(value: NodeAt<'_>) -> Decoded<PathBuf> {
    match string(value)? {
        text if text.is_empty() => Err(value.wrong("must be the path of a file or a folder")),
        text => Ok(PathBuf::from(text)),
    }
}

/// A value that is written as one text.
pub(super) fn parsed<T: FromStr<Err: Display>>(value: NodeAt<'_>) -> Decoded<T> {
    string(value)?.parse().map_err(|error: T::Err| value.wrong(error.to_string()))
}

/// A host and a port; which addresses they stand for, only the system knows.
pub(super) fn listen(value: NodeAt<'_>) -> Decoded<String> {
    let text = string(value)?;
    match text.rsplit_once(':') {
        Some((host, port)) if is_host(host) && is_port(port) => Ok(text),
        // An IPv6 address with a zone.
        _ if text.parse::<SocketAddr>().is_ok() => Ok(text),
        _ => Err(value.wrong("must be HOST:PORT, such as 127.0.0.1:7420 or [::1]:7420")),
    }
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(text: &str) -> bool {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !text.is_empty() && text.bytes().all(is_of_name)
        }
    }
}

/// The number of a port, or 0 for a free one.
fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
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

/// A duration between bounds.
pub(super) fn length(value: NodeAt<'_>, least: Duration, most: Duration) -> Decoded<Duration> {
    let length = duration(value)?;
    if (least..=most).contains(&length) {
        return Ok(length);
    }
    let [least, most] = [least, most].map(humantime::format_duration);
    Err(value.wrong(format!("must be from {least} to {most}")))
}

/// A duration that clients are sent in seconds.
pub(super) fn seconds(value: NodeAt<'_>) -> Decoded<Duration> {
    let length = duration(value)?;
    if length.subsec_nanos() == 0 { Ok(length) } else { Err(value.wrong("must be whole seconds")) }
}

/// Any duration.
pub(super) fn duration(value: NodeAt<'_>) -> Decoded<Duration> {
    parse_duration(&string(value)?).map_err(|rule| value.wrong(rule))
}

/// A time of a limit or of an issuer of tokens, whose bounds are checked apart.
pub(super) fn time(value: NodeAt<'_>) -> Decoded<Duration> {
    parse_duration(&string(value)?).map_err(|rule| value.wrong(format!("must be a duration: {rule}")))
}

/// Writes a duration as [`time`] reads it.
pub(super) fn write_duration<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_is_a_host_and_a_port() {
        for host in ["localhost", "127.0.0.1", "[::1]", "a-b.example", "0.0.0.0"] {
            assert!(is_host(host), "{host}");
        }
        for host in ["", "::1", "[::1", "[x]", "a b", "*", "u@h", "http://h"] {
            assert!(!is_host(host), "{host}");
        }
        assert_eq!(
            ["0", "7420", "+0", "65536", "", "x"].map(is_port),
            [true, true, false, false, false, false]
        );
    }
}
