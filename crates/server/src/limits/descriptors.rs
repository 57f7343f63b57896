//! Open files: each connection takes one, and in a fleet another one if it is handed on.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::settings::LimitSettings;
use crate::settings::sections::limits::LEAST_CONNECTIONS;

/// Open files that are no connections: the store, the listener, those of the runtime, connections that are
/// being refused.
const RESERVED: u64 = 192;

/// Raises the number of files that this process may have open as far as possible, and lowers `connections` to
/// what that number allows, of a node of a fleet or of a server alone. Logs both.
#[must_use]
pub fn fit_open_files(limits: LimitSettings, is_node: bool) -> LimitSettings {
    fit(limits, if is_node { raise().map(|files| files / 2) } else { raise() })
}

/// The number of files that may be open; `None` if there is no bound.
fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current?;
    if maximum.is_some_and(|maximum| maximum <= current) {
        return Some(current);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => {
            let to = maximum.map_or_else(|| "no bound".to_owned(), |maximum| maximum.to_string());
            tracing::info!(from = current, to, "raised the number of files that may be open");
            maximum
        }
        Err(error) => {
            tracing::warn!(%error, current, "the number of files that may be open cannot be raised");
            Some(current)
        }
    }
}

fn fit(limits: LimitSettings, open_files: Option<u64>) -> LimitSettings {
    let Some(available) = open_files.map(|files| files.saturating_sub(RESERVED).max(1)) else {
        return limits;
    };
    let Ok(connections) = u32::try_from(available) else { return limits };
    // Settings below the least are not taken. Connections that the system refuses then are tried again.
    let connections = connections.max(LEAST_CONNECTIONS);
    if connections >= limits.connections {
        return limits;
    }
    tracing::warn!(
        connections,
        wanted = limits.connections,
        "limits.connections is lowered to what the number of open files allows: see ulimit -n"
    );
    LimitSettings { connections, ..limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_connections_than_open_files() {
        let limits = LimitSettings { connections: 1000, ..LimitSettings::DEFAULT };
        assert_eq!(fit(limits, Some(1024)).connections, 832);
        assert_eq!(fit(limits, Some(4096)), limits);
        assert_eq!(fit(limits, None), limits);
        assert_eq!(fit(limits, Some(1)).connections, LEAST_CONNECTIONS);
    }

    #[test]
    fn few_open_files_leave_settings_that_are_taken() {
        for open_files in [0, 1, RESERVED, RESERVED + 1, RESERVED + 15, RESERVED + 16] {
            assert_eq!(fit(LimitSettings::DEFAULT, Some(open_files)).check(), Ok(()), "{open_files}");
        }
    }
}
