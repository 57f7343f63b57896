//! The address that the server listens on.

use std::io::ErrorKind;

use lockhouse_server::{BindError, LoadedSettings, Settings, bind};
use tokio::time::timeout;

use super::diagnosis::Diagnosis;
use super::occupant::Occupant;
use super::{PATIENCE, occupant};

const NAME: &str = "ports";
const RUNNING: &str = "running server";

/// Binds each address for a moment.
pub(super) async fn check(loaded: &LoadedSettings, diagnosis: &mut Diagnosis) {
    let settings = &loaded.settings;
    let listen = &settings.listen;
    // The fault of the authority was found with the settings.
    let Ok(authority) = loaded.authority() else { return };
    let Ok(bound) = timeout(PATIENCE, bind(listen, &authority)).await else {
        let found = format!("{listen}: its addresses were not found within {PATIENCE:?}");
        return diagnosis.fault(NAME, found, "see whether DNS answers, or name an IP address");
    };
    match bound {
        Ok(listener) => {
            let addresses = listener.local_addrs().unwrap_or_default();
            if !settings.tls.is_on() && addresses.iter().any(|address| !address.ip().is_loopback()) {
                diagnosis.warn(
                    NAME,
                    format!(
                        "{listen} can be listened on, but others on the network can read keys and secrets"
                    ),
                    "set tls.cert and tls.key, or have a proxy before the server speak TLS",
                );
            } else {
                diagnosis.ok(NAME, format!("{listen} can be listened on"));
            }
        }
        Err(BindError::Refused(_, error)) if error.kind() == ErrorKind::AddrInUse => {
            check_occupant(settings, diagnosis).await;
        }
        Err(error) => diagnosis.fault(NAME, error.to_string(), "choose another address with --listen"),
    }
}

async fn check_occupant(settings: &Settings, diagnosis: &mut Diagnosis) {
    let listen = &settings.listen;
    let Occupant { health, process } = occupant::at(listen).await;
    let process = process.map_or_else(String::new, |(pid, name)| format!(", process {pid} ({name})"));
    let Some(health) = health else {
        let is_ours = settings.tls.is_on() && process.ends_with("(lockhouse)");
        if is_ours {
            let found = format!("{listen} is in use by a lockhouse{process}, which speaks TLS");
            return diagnosis.ok(NAME, found);
        }
        return diagnosis.fault(
            NAME,
            format!("{listen} is in use by another program{process}"),
            "end it, or choose another address with --listen",
        );
    };
    diagnosis.ok(NAME, format!("{listen} is in use by a lockhouse{process}"));
    match health.not_ready {
        None => diagnosis.ok(RUNNING, format!("version {}, ready", health.version)),
        Some(why) => diagnosis.fault(
            RUNNING,
            format!("version {}, not ready: {why}", health.version),
            "docs/operations.md says what each reason means",
        ),
    }
    let own = env!("CARGO_PKG_VERSION");
    if health.version != own {
        diagnosis.warn(
            RUNNING,
            format!("it is version {}, and this program is version {own}", health.version),
            "restart the server if it is to be upgraded",
        );
    }
}
