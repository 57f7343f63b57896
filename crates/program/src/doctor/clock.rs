//! The clocks of this machine.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::diagnosis::Diagnosis;

const NAME: &str = "clock";

/// How long the two clocks are compared.
const PAUSE: Duration = Duration::from_millis(100);

/// How far they may differ after that.
const DRIFT: Duration = Duration::from_millis(500);

/// 2025-01-01, before any lockhouse was made.
const EARLIEST: Duration = Duration::from_secs(1_735_689_600);

/// Compares the clock that is set with the one that only counts.
pub(super) async fn check(diagnosis: &mut Diagnosis) {
    let (steady, wall) = (Instant::now(), SystemTime::now());
    tokio::time::sleep(PAUSE).await;
    let steady = steady.elapsed();
    let now = SystemTime::now();
    let shown = humantime::format_rfc3339_seconds(now);
    let counted = now.duration_since(wall);
    let differ = counted.map_or(Duration::MAX, |counted| counted.abs_diff(steady));
    if steady < PAUSE {
        diagnosis.fault(
            NAME,
            format!("the steady clock counts {steady:?} while {PAUSE:?} pass"),
            "choose another clock source of the system",
        );
    }
    if now < UNIX_EPOCH + EARLIEST {
        diagnosis.fault(NAME, format!("the clock shows {shown}"), "set it, and keep it right with NTP");
    } else if differ > DRIFT {
        diagnosis.warn(
            NAME,
            format!("the clock was set, or runs at another speed: it differs by {differ:?} after {steady:?}"),
            "let NTP slew the clock and not step it",
        );
    }
    diagnosis.ok_unless_found(NAME, format!("the clock shows {shown}, and the steady clock runs with it"));
}

/// Compares the clock with the last time that is known of the store.
pub(super) fn check_latest(latest: SystemTime, of: &str, diagnosis: &mut Diagnosis) {
    let name = "clock of store";
    match latest.duration_since(SystemTime::now()) {
        Ok(behind) if behind > Duration::from_secs(1) => {
            let latest = humantime::format_rfc3339_seconds(latest);
            let behind = humantime::format_duration(Duration::from_secs(behind.as_secs()));
            diagnosis.fault(
                name,
                format!("this machine's clock is {behind} behind {of}, which is of {latest}"),
                "set the clock of this machine: times of locks and claims would be wrong",
            );
        }
        _ => diagnosis.ok(name, format!("not behind {of}")),
    }
}
