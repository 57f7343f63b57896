//! Durations as people write them, in settings and on the command line.

use std::time::Duration;

/// Reads a duration as people write it, such as `500ms`, `10s` or `1m 30s`: whole milliseconds, at
/// most 100,000 days.
///
/// # Errors
///
/// The rule, in words.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let length =
        humantime::parse_duration(text).map_err(|_| "a duration is written like 500ms, 10s or 1m")?;
    if !length.subsec_nanos().is_multiple_of(1_000_000) {
        return Err("a duration has whole milliseconds".to_owned());
    }
    if length > LONGEST {
        return Err("a duration is at most 100000 days".to_owned());
    }
    Ok(length)
}

/// The longest duration: longer than any that is meant, and far below what milliseconds can count.
const LONGEST: Duration = Duration::from_secs(100_000 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_without_a_unit_is_refused_with_the_rule() {
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        for (text, rule) in [
            ("10", "a duration is written like 500ms, 10s or 1m"),
            ("500us", "a duration has whole milliseconds"),
            ("5s 1us", "a duration has whole milliseconds"),
            ("18446744073709612s", "a duration is at most 100000 days"),
            ("584942417years", "a duration is at most 100000 days"),
        ] {
            assert_eq!(parse_duration(text), Err(rule.to_owned()), "{text}");
        }
    }
}
