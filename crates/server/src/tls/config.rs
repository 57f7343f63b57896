//! The configuration of handshakes, which can be loaded anew.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, HeaderValue};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;

use super::files::{self, TlsError};
use super::self_signed;
use crate::access::is_for_loopback;
use crate::settings::TlsSettings;

/// A certificate with its key and what belongs to them, all of which can be loaded anew.
#[derive(Clone)]
pub struct Tls {
    current: Arc<RwLock<LoadedTls>>,
}

#[derive(Clone)]
struct LoadedTls {
    config: Arc<ServerConfig>,
    /// The verifier of client certificates, if the server asks for any.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The settings that all was loaded for.
    settings: TlsSettings,
    files: Files,
    hsts: Option<HeaderValue>,
}

/// The files that were read, and their state at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files(Vec<(PathBuf, Option<(SystemTime, u64)>)>);

impl Tls {
    /// Loads the files that the settings name; none if the settings ask for no TLS.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn load(settings: &TlsSettings) -> Result<Option<Self>, TlsError> {
        let loaded = LoadedTls::of(settings)?;
        Ok(loaded.map(|loaded| Self { current: Arc::new(RwLock::new(loaded)) }))
    }

    /// The fault of each wrong file that the settings name. Files that the start of a server would make are
    /// not made.
    pub fn check(settings: &TlsSettings) -> Vec<TlsError> {
        files::check(settings)
    }

    /// Uses the files that `other` has loaded for all new connections; present ones are not touched.
    pub fn renew(&self, other: &Self) {
        let other = other.current.read().clone();
        *self.current.write() = other;
    }

    /// Reads the files again. If they cannot be used, all stays as it is, and they count as read until they
    /// change again.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn read_again(&self) -> Result<(), TlsError> {
        let settings = self.current.read().settings.clone();
        let files = self.files().now();
        let loaded = LoadedTls::of(&settings);
        let mut current = self.current.write();
        current.files = files;
        if let Some(loaded) = loaded? {
            *current = loaded;
        }
        Ok(())
    }

    /// The files that are in use, as they were when they were read.
    pub fn files(&self) -> Files {
        self.current.read().files.clone()
    }

    /// The header that makes browsers use TLS only; none for a request by a loopback name, which other
    /// programs of this machine share.
    pub(crate) fn hsts(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if is_for_loopback(headers) { None } else { self.current.read().hsts.clone() }
    }

    /// The configuration of handshakes, and the verifier of client certificates in them.
    pub(super) fn current(&self) -> (Arc<ServerConfig>, Option<Arc<dyn ClientCertVerifier>>) {
        let current = self.current.read();
        (current.config.clone(), current.verifier.clone())
    }
}

impl LoadedTls {
    fn of(settings: &TlsSettings) -> Result<Option<Self>, TlsError> {
        let (cert, key) = match (&settings.cert, &settings.key, &settings.self_signed) {
            (Some(cert), Some(key), _) => (cert.clone(), key.clone()),
            (_, _, Some(folder)) => self_signed::in_folder(folder)?,
            _ => return Ok(None),
        };
        // The state before the files are read, so that a write meanwhile is a change.
        let files = Files::of([&cert, &key].into_iter().chain(&settings.client_ca));
        let verifier = files::client_verifier(settings)?;
        let config = Arc::new(files::server_config(&cert, &key, verifier.clone())?);
        // A user that merely tries TLS out must not be kept from plain HTTP for half a year.
        let is_for_long = settings.self_signed.is_none() && settings.hsts >= Duration::from_secs(1);
        let hsts = is_for_long.then(|| format!("max-age={}", settings.hsts.as_secs()));
        let hsts = hsts.and_then(|hsts| HeaderValue::try_from(hsts).ok());
        Ok(Some(Self { config, verifier, settings: settings.clone(), files, hsts }))
    }
}

impl Files {
    fn of<'f>(files: impl Iterator<Item = &'f PathBuf>) -> Self {
        let state = |file: &PathBuf| {
            let metadata = std::fs::metadata(file).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        Self(files.map(|file| (file.clone(), state(file))).collect())
    }

    /// The present state of the files.
    pub fn now(&self) -> Self {
        Self::of(self.0.iter().map(|(file, _)| file))
    }

    /// The file with the certificate.
    pub fn cert(&self) -> Option<&PathBuf> {
        self.0.first().map(|(file, _)| file)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files()).finish_non_exhaustive()
    }
}
