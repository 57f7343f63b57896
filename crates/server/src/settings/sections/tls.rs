//! `[tls]`

use std::path::PathBuf;
use std::time::Duration;

use lockhouse_wire::decode::Choice;

use super::text;
use crate::settings::decode::Table;
use crate::settings::key::Key;

/// The settings of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// A PEM file with the certificate and those between it and its CA.
    pub cert: Option<PathBuf>,
    /// A PEM file with the private key of the certificate.
    pub key: Option<PathBuf>,
    /// A folder for a certificate of the server's own making, in place of both.
    pub self_signed: Option<PathBuf>,
    /// A PEM file with the CAs whose client certificates are taken.
    pub client_ca: Option<PathBuf>,
    /// Whether a client must have a certificate.
    pub client_auth: ClientAuth,
    /// How long browsers are to use nothing but TLS for this host; zero sends no such header.
    pub hsts: Duration,
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// A client without a certificate is refused in the handshake.
    #[default]
    Required,
    /// A client without a certificate is admitted as well, to present a key or a token.
    Optional,
}

const CLIENT_AUTH: Choice<ClientAuth> =
    Choice(&[("required", ClientAuth::Required), ("optional", ClientAuth::Optional)]);

/// The keys of `[tls]`.
pub(crate) fn keys() -> Vec<Key> {
    vec![
        Key::unset("tls.cert").flag("--tls-cert").reloads(),
        Key::unset("tls.key").flag("--tls-key").reloads(),
        Key::unset("tls.self_signed").flag("--tls-self-signed"),
        Key::unset("tls.client_ca").reloads(),
        Key::unset("tls.client_auth").reloads(),
        Key::new("tls.hsts", "\"0s\"").reloads(),
    ]
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            cert: None,
            key: None,
            self_signed: None,
            client_ca: None,
            client_auth: ClientAuth::default(),
            hsts: Duration::ZERO,
        }
    }
}

impl TlsSettings {
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            cert: table.optional("cert", text::path),
            key: table.optional("key", text::path),
            self_signed: table.optional("self_signed", text::path),
            client_ca: table.optional("client_ca", text::path),
            client_auth: table
                .optional("client_auth", |value| value.choice(&CLIENT_AUTH))
                .unwrap_or_default(),
            hsts: table.optional("hsts", text::seconds)?,
        })
    }

    /// Whether TLS is spoken.
    pub fn is_on(&self) -> bool {
        self.cert.is_some() || self.self_signed.is_some()
    }

    /// Reports keys that do not go together.
    pub(crate) fn check(&self, wrong: &mut dyn FnMut(&str, &[&str], &str)) {
        match (&self.cert, &self.key) {
            (Some(_), None) => {
                wrong("tls.cert", &["tls.key"], "needs tls.key, the file with the private key");
            }
            (None, Some(_)) => {
                wrong("tls.key", &["tls.cert"], "needs tls.cert, the file with the certificate");
            }
            _ => {}
        }
        if self.cert.is_some() && self.self_signed.is_some() {
            wrong(
                "tls.self_signed",
                &["tls.cert"],
                "either this or tls.cert, as a server shows one certificate",
            );
        }
        if self.client_ca.is_some() && !self.is_on() {
            wrong(
                "tls.client_ca",
                &["tls.cert", "tls.key", "tls.self_signed"],
                "needs tls.cert and tls.key, as clients have certificates in TLS only",
            );
        }
        if self.client_ca.is_none() {
            wrong(
                "tls.client_auth",
                &["tls.client_ca"],
                "needs tls.client_ca, as no client is asked for a certificate without it",
            );
        }
        if !self.hsts.is_zero() && self.cert.is_none() {
            wrong(
                "tls.hsts",
                &["tls.cert", "tls.key", "tls.self_signed"],
                "needs tls.cert and tls.key, as no browser takes it without a certificate that it trusts",
            );
        }
    }
}
