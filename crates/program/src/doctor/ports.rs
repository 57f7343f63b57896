//! The addresses that the server listens on.

use std::io::ErrorKind;

use lockhouse_server::auth::Authority;
use lockhouse_server::{BindError, Listener, LoadedSettings, Settings, bind, bind_metrics};
use tokio::time::timeout;

use super::diagnosis::Diagnosis;
use super::occupant::Occupant;
use super::{PATIENCE, occupant};

const NAME: &str = "ports";
const RUNNING: &str = "running server";

/// Binds each address for a moment.
pub(super) async fn check(loaded: &LoadedSettings, diagnosis: &mut Diagnosis) {
    let settings = &loaded.settings;
    // The fault of the authority was found with the settings.
    let Ok(authority) = loaded.authority() else { return };
    let listener = check_listen(settings, &authority, diagnosis).await;
    if let Some(metrics) = &settings.metrics.listen {
        check_metrics(metrics, listener, diagnosis).await;
    }
}

/// Checks `listen`; the listener, if there is one.
async fn check_listen(
    settings: &Settings,
    authority: &Authority,
    diagnosis: &mut Diagnosis,
) -> Option<Listener> {
    let listen = &settings.listen;
    let bound = within_patience(listen, bind(listen, authority), diagnosis).await?;
    let listener = match bound {
        Ok(listener) => listener,
        Err(BindError::Refused(_, error)) if error.kind() == ErrorKind::AddrInUse => {
            check_occupant(settings, diagnosis).await;
            return None;
        }
        Err(error) => {
            diagnosis.fault(NAME, error.to_string(), "choose another address with --listen");
            return None;
        }
    };
    let addresses = listener.local_addrs().unwrap_or_default();
    if !settings.tls.is_on() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        diagnosis.warn(
            NAME,
            format!("{listen} can be listened on, but others on the network can read keys and secrets"),
            "set tls.cert and tls.key, or have a proxy before the server speak TLS",
        );
    } else {
        diagnosis.ok(NAME, format!("{listen} can be listened on"));
    }
    Some(listener)
}

/// Checks `metrics.listen`, beside the listener that the server has as well.
async fn check_metrics(listen: &str, beside: Option<Listener>, diagnosis: &mut Diagnosis) {
    const ADVICE: &str = "choose another address with --metrics-listen";
    let what = format!("metrics.listen: {listen}");
    let Some(bound) = within_patience(&what, bind_metrics(listen), diagnosis).await else { return };
    match bound {
        Ok(_) => diagnosis.ok(NAME, format!("{what} can be listened on")),
        Err(BindError::Refused(_, error)) if error.kind() == ErrorKind::AddrInUse => {
            // Where the other address is free, it is not this server that runs.
            let may_be_ours = beside.is_none();
            if let Some(beside) = beside {
                drop(beside);
                if bind_metrics(listen).await.is_ok() {
                    let found = format!("{what} is the address of listen, too");
                    return diagnosis.fault(NAME, found, ADVICE);
                }
            }
            let Occupant { health, process } = occupant::at(listen).await;
            let who = if health.is_some() { "a lockhouse" } else { "another program" };
            let found = format!("{what} is in use by {who}{}", described(process));
            if health.is_some() && may_be_ours {
                diagnosis.ok(NAME, found);
            } else {
                diagnosis.fault(NAME, found, format!("end it, or {ADVICE}"));
            }
        }
        Err(error) => diagnosis.fault(NAME, format!("metrics.listen: {error}"), ADVICE),
    }
}

/// The result, if its addresses are found in time.
async fn within_patience(
    what: &str,
    binding: impl Future<Output = Result<Listener, BindError>>,
    diagnosis: &mut Diagnosis,
) -> Option<Result<Listener, BindError>> {
    let bound = timeout(PATIENCE, binding).await.ok();
    if bound.is_none() {
        let found = format!("{what}: its addresses were not found within {PATIENCE:?}");
        diagnosis.fault(NAME, found, "see whether DNS answers, or name an IP address");
    }
    bound
}

/// A process, behind what is said of it.
fn described(process: Option<(u32, String)>) -> String {
    process.map_or_else(String::new, |(pid, name)| format!(", process {pid} ({name})"))
}

async fn check_occupant(settings: &Settings, diagnosis: &mut Diagnosis) {
    let listen = &settings.listen;
    let Occupant { health, process } = occupant::at(listen).await;
    let process = described(process);
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
