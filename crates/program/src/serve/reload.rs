//! The settings that a running server takes anew on SIGHUP, and certificates when their files change.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_server::{Files, LoadedSettings, Server, SettingsProblem, Sources, Tls, fit_open_files};
use tokio::signal::unix::Signal;
use tokio::time::{MissedTickBehavior, interval};

use super::signals::Hangup;

/// How often the files of the certificate and of the issuers are looked at.
const FILES_CHECK: Duration = Duration::from_secs(1);

/// A running server with its settings.
pub(super) struct Reload {
    pub(super) sources: Sources,
    /// The settings that it was started with, which stay in force where they cannot be reloaded.
    pub(super) started: LoadedSettings,
    pub(super) server: Arc<Server>,
    pub(super) tls: Option<Tls>,
}

impl Reload {
    /// Reloads until the terminal is gone.
    pub(super) async fn run(self, mut hangups: Signal, hangup: Hangup) {
        let mut check = interval(FILES_CHECK);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = self.tls.as_ref().map(Tls::files);
        loop {
            tokio::select! {
                Some(()) = hangups.recv() => {
                    if hangup.ends() {
                        return;
                    }
                    self.reload();
                    seen = self.tls.as_ref().map(Tls::files);
                }
                _ = check.tick() => {
                    self.look_at_files(&mut seen);
                    self.server.look_at_issuers();
                }
            }
        }
    }

    /// Takes the settings anew: all that can be taken, or, if anything is wrong, at most the permissions.
    fn reload(&self) {
        let Err(wrong) = self.take() else { return tracing::info!("reloaded") };
        wrong.iter().for_each(|wrong| tracing::error!("{wrong}"));
        if self.take_auth() {
            tracing::error!("only the section auth is reloaded: in all else the server goes on as it was");
        } else {
            tracing::error!("nothing is reloaded: the server goes on as it was");
        }
    }

    /// A client whose key was taken out is kept out at once, though something else is wrong.
    fn take_auth(&self) -> bool {
        let auth = self.sources.load_auth();
        auth.is_some_and(|auth| self.server.renew_auth(&auth))
    }

    fn take(&self) -> Result<(), Vec<String>> {
        let loaded = self
            .sources
            .load()
            .map_err(|wrong| wrong.iter().map(SettingsProblem::to_string).collect::<Vec<_>>())?;
        let tls = Tls::load(&loaded.settings.tls).map_err(|error| vec![error.to_string()])?;
        let authority = loaded.authority().map_err(|problem| vec![problem.to_string()])?;
        let limits = fit_open_files(loaded.settings.limits, loaded.settings.is_of_fleet());
        self.server.reload(authority, limits).map_err(|error| vec![error.to_string()])?;
        // From here on nothing fails.
        for key in loaded.changes_since(&self.started).filter(|key| !key.reloads) {
            let place = loaded.place(key);
            tracing::warn!("{place}: {} has changed; the change applies at the next start only", key.path);
        }
        match (&self.tls, &tls) {
            (Some(running), Some(tls)) => running.renew(tls),
            (None, None) => {}
            _ => tracing::warn!("TLS is switched on or off at the next start only"),
        }
        self.server.revalidate();
        Ok(())
    }

    /// Takes a certificate whose files have changed and now stay as they are.
    fn look_at_files(&self, seen: &mut Option<Files>) {
        let (Some(tls), Some(before)) = (&self.tls, seen) else { return };
        let now = before.now();
        let is_at_rest = std::mem::replace(before, now.clone()) == now;
        if is_at_rest && now != tls.files() {
            match tls.read_again() {
                Ok(()) => {
                    self.server.revalidate();
                    tracing::info!("the files of the certificate have changed: it is reloaded");
                }
                Err(error) => tracing::error!(
                    "the files of the certificate have changed, but {error}; the former certificate stays in use"
                ),
            }
        }
    }
}
