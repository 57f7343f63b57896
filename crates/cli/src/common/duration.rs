//! Durations on the command line, and ages in tables.

use std::time::Duration;

use lockhouse::core::Limits;
pub(crate) use lockhouse_wire::parse_duration as parse;

/// As [`parse`], for durations of which none is none.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text) {
        Ok(Duration::ZERO) => Err("must be 1ms or more".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// As [`parse`], for the TTL or the longest life of an owner or a claim.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let (least, most) = Limits::DEFAULT.ttl_ms;
    let (least, most) = (Duration::from_millis(least), Duration::from_millis(most));
    let ttl = parse(text).map_err(|error| error.to_string())?;
    if (least..=most).contains(&ttl) {
        return Ok(ttl);
    }
    Err(format!("must be from {} to {}", humantime::format_duration(least), age(most)))
}

/// Rounded up, for what is still to come.
pub(crate) fn whole_seconds(length: Duration) -> String {
    format!("{} s", length.as_secs_f64().ceil())
}

/// In its largest whole unit.
pub(crate) fn age(length: Duration) -> String {
    match length.as_secs() {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ ..3_600 => format!("{}m", seconds / 60),
        seconds @ ..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_shown_in_its_largest_whole_unit() {
        let ages = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 900_000];
        let texts = ages.map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(texts, ["0s", "59s", "1m", "59m", "1h", "23h", "1d", "10d"]);
    }
}
