//! The settings, and the files that they name.

use std::path::PathBuf;

use lockhouse_server::auth::Algorithm;
use lockhouse_server::{LoadedSettings, Sources};

use super::diagnosis::Diagnosis;
use super::is_open_to_all;
use crate::serve::log;

const NAME: &str = "configuration";
const SECRETS: &str = "secrets";

/// Checks the settings as `serve` does; they, if they can be used but for the files that they name.
pub(super) fn check(sources: &Sources, diagnosis: &mut Diagnosis) -> Option<LoadedSettings> {
    for (name, meant) in sources.misspelt() {
        diagnosis.warn(
            NAME,
            format!("the variable {name} is unknown"),
            format!("set {meant} if that is meant"),
        );
    }
    if let Err(found) = log::levels() {
        diagnosis.fault(NAME, found, "correct it; docs/metrics.md has examples");
    }
    let loaded = sources.load();
    for problem in sources.check() {
        let is_of_tls = |key: &str| key.starts_with("tls.") || key == "cluster.ca";
        let of_certificate = loaded.is_ok() && problem.key().is_some_and(is_of_tls);
        let name = if of_certificate { "certificates" } else { NAME };
        diagnosis.fault(name, problem.to_string(), "correct it; docs/config.md has all settings");
    }
    let Ok(loaded) = loaded else {
        diagnosis.warn(NAME, "nothing else was checked", "run doctor again once the settings are right");
        return None;
    };
    diagnosis.ok_unless_found(NAME, "all settings follow their rules");
    check_secrets(&loaded, diagnosis);
    Some(loaded)
}

/// Files with secrets that every account of the machine may read.
fn check_secrets(loaded: &LoadedSettings, diagnosis: &mut Diagnosis) {
    let settings = &loaded.settings;
    let passwords = std::env::var_os("PGPASSFILE").map(PathBuf::from);
    let passwords = passwords.filter(|_| settings.is_of_fleet() && settings.store_password_file.is_none());
    let files = [
        ("tls.key", settings.tls.key.clone()),
        ("cluster.secret_file", settings.cluster.secret_file.clone()),
        ("store_password_file", settings.store_password_file.clone()),
        ("PGPASSFILE", passwords),
    ];
    // The key with which tokens are signed; of other algorithms the file has a public key.
    let signing = settings.auth.jwt.iter().filter(|issuer| issuer.algorithm == Algorithm::HS256);
    let signing = signing.map(|issuer| ("auth.jwt.key_file", issuer.key_file.clone()));
    for (key, file) in files.into_iter().chain(signing).filter_map(|(key, file)| Some((key, file?))) {
        let shown = file.display();
        match is_open_to_all(&file) {
            Some(true) => diagnosis.fault(
                SECRETS,
                format!("{key}: every account of this machine may read {shown}"),
                format!("chmod o-rwx {shown}, and replace the secret if others use this machine"),
            ),
            Some(false) => {}
            // What is missing of the others was found before.
            None if key == "PGPASSFILE" => diagnosis.fault(
                SECRETS,
                format!("{key}: {shown} is not there, or may not be read"),
                "name a file that the server may read",
            ),
            None => {}
        }
    }
    diagnosis.ok_unless_found(SECRETS, "no file with a secret is open to every account of this machine");
}
