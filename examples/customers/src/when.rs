//! Instants and spans, as people say them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An instant: what machines read, what people read, and how long ago it was.
#[derive(Clone, Debug)]
pub(crate) struct When {
    pub(crate) machine: String,
    pub(crate) clock: String,
    pub(crate) age: String,
}

impl When {
    pub(crate) fn of(at: SystemTime) -> Self {
        let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self {
            machine: humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string(),
            clock: format!("{:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60),
            age: span(at.elapsed().unwrap_or_default()),
        }
    }
}

/// `20 minutes`: the largest unit alone.
pub(crate) fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let (count, unit) = match seconds {
        ..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..86400 => (seconds / 3600, "hour"),
        _ => (seconds / 86400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_their_largest_unit() {
        let shown = |seconds| span(Duration::from_secs(seconds));
        assert_eq!([shown(0), shown(1), shown(59)], ["0 seconds", "1 second", "59 seconds"]);
        assert_eq!([shown(60), shown(3599), shown(3600)], ["1 minute", "59 minutes", "1 hour"]);
        assert_eq!([shown(86399), shown(86400), shown(200_000)], ["23 hours", "1 day", "2 days"]);
    }

    #[test]
    fn instants_are_shown_to_the_minute() {
        let when = When::of(UNIX_EPOCH + Duration::from_millis(1_789_999_999_999));
        assert_eq!((when.machine.as_str(), when.clock.as_str()), ("2026-09-21T14:13:19Z", "14:13 UTC"));
    }
}
