//! The limits of the process.

use lockhouse_server::{Settings, fit_open_files};
use rustix::process::{Resource, getrlimit};

use super::diagnosis::Diagnosis;

const NAME: &str = "open files";

/// Checks whether as many files may be open as the settings want connections. The server has the same
/// limits if it is started in the same way.
pub(super) fn check(settings: &Settings, diagnosis: &mut Diagnosis) {
    let wanted = settings.limits.connections;
    let limit = getrlimit(Resource::Nofile).maximum;
    let limit = limit.map_or_else(|| "no bound".to_owned(), |limit| limit.to_string());
    // As the server itself does at its start.
    let fitting = fit_open_files(settings.limits, settings.is_of_fleet()).connections;
    if fitting < wanted {
        diagnosis.warn(
            NAME,
            format!(
                "{limit} in this shell, which is enough for {fitting} connections of the {wanted} in limits.connections"
            ),
            "raise the limit (ulimit -Hn, LimitNOFILE= of systemd), or lower limits.connections",
        );
    } else {
        diagnosis.ok(NAME, format!("{limit} in this shell, enough for {wanted} connections"));
    }
}
