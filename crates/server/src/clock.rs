//! Waiting for an instant of the machine's clock.

use std::time::{Duration, SystemTime};

use tokio::time::sleep;

/// The clock of the machine may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Waits until `end`; for ever, if there is none.
pub(crate) async fn until(end: Option<SystemTime>) {
    let Some(end) = end else { return std::future::pending().await };
    while let Ok(left) = end.duration_since(SystemTime::now()) {
        sleep(left.clamp(Duration::from_millis(1), LONGEST_SLEEP)).await;
    }
}
