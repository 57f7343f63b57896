//! Which server, which bucket.

use std::path::PathBuf;

use clap::Args;
use lockhouse::remote::{Connect, ConnectError, Connection, connect};

use super::secret_file::{self, SecretFile};
use crate::exit::{FAILURE, Failure, NOT_GRANTED, UNREACHABLE, USAGE};

/// The status for too many connections or requests of one caller.
const TOO_MANY: u16 = 429;

/// The advice for a credential that the server does not accept.
pub(crate) const DENIED: &str =
    "name another key with --key or LOCKHOUSE_KEY, or another certificate with --cert or LOCKHOUSE_CERT";

/// The options of every command that talks to a server.
#[derive(Debug, Args)]
pub struct Target {
    /// The URL of the server; may be given several times, or separated by commas (here and in LOCKHOUSE_URL),
    /// where each leads to a node of one fleet: the first that answers is used
    #[arg(
        long = "url",
        value_name = "URL",
        global = true,
        env = "LOCKHOUSE_URL",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7420"
    )]
    pub urls: Vec<String>,

    /// For https://: a PEM file with the CA of the server's certificate, instead of the CAs that the system
    /// trusts
    #[arg(long, value_name = "FILE", global = true, env = "LOCKHOUSE_CA")]
    pub ca: Option<PathBuf>,

    /// For https://: a PEM file with your client certificate, for servers that identify their clients by
    /// certificates
    #[arg(long, value_name = "FILE", global = true, env = "LOCKHOUSE_CERT")]
    pub cert: Option<PathBuf>,

    /// A PEM file with the private key of the client certificate, if it is not in the same file
    #[arg(long, value_name = "FILE", global = true, env = "LOCKHOUSE_CERT_KEY", requires = "cert")]
    pub cert_key: Option<PathBuf>,

    /// The bucket, instead of the one in the URL or "default"; an empty text counts as none
    #[arg(long, value_name = "NAME", global = true, env = "LOCKHOUSE_BUCKET")]
    pub bucket: Option<String>,

    /// Your API key or token, if the server requires one; an empty text counts as none
    #[arg(long, value_name = "KEY", global = true, env = "LOCKHOUSE_KEY", hide_env_values = true)]
    pub key: Option<String>,

    /// A file with the API key or token, or - for stdin; it goes before --key
    #[arg(long, value_name = "FILE", global = true, env = "LOCKHOUSE_KEY_FILE", value_parser = secret_file::parse)]
    pub key_file: Option<SecretFile>,
}

impl Target {
    /// A connection to it that is not made yet.
    pub(crate) fn connecting(&self) -> Connect {
        let [first, others @ ..] = &*self.urls else { unreachable!("the option has a default") };
        let connect = others.iter().fold(connect(first), Connect::or);
        let mut connect = connect.label(concat!("lockhouse-cli/", env!("CARGO_PKG_VERSION")));
        if let Some(ca) = self.ca.as_ref().filter(|ca| !ca.as_os_str().is_empty()) {
            connect = connect.ca(ca);
        }
        if let Some(cert) = &self.cert {
            connect = connect.certificate(cert, self.cert_key.as_ref().unwrap_or(cert));
        }
        // An unset variable of a script must not choose a bucket of its own, in which no other client locks.
        let key = self.key_file.as_ref().map(SecretFile::secret).or(self.key.as_deref());
        let connect = match key.filter(|key| !key.is_empty()) {
            Some(key) => connect.key(key),
            None => connect,
        };
        match self.bucket.as_ref().filter(|bucket| !bucket.is_empty()) {
            Some(bucket) => connect.bucket(bucket),
            None => connect,
        }
    }

    /// The named target cannot be used.
    pub(crate) fn wrong(&self, error: &ConnectError) -> Failure {
        match error {
            ConnectError::Certificate { .. } if self.cert_key.is_none() => {
                let advice = "name the file of its key with --cert-key or LOCKHOUSE_CERT_KEY";
                Failure::new(USAGE, format_args!("{error} ({advice})"))
            }
            _ => Failure::new(USAGE, error),
        }
    }

    /// Connects once.
    pub(crate) async fn try_connect(&self) -> Result<Connection, ConnectError> {
        self.connecting().await
    }

    /// What an error means for a command.
    pub(crate) fn failure(&self, error: ConnectError) -> Failure {
        match error {
            ConnectError::Url { .. }
            | ConnectError::Scope { .. }
            | ConnectError::Label { .. }
            | ConnectError::Key
            | ConnectError::Ca { .. }
            | ConnectError::Certificate { .. } => self.wrong(&error),
            ConnectError::Untrusted { .. } => untrusted(error.to_string()),
            ConnectError::Denied { .. } => Failure::new(FAILURE, format_args!("{error} ({DENIED})")),
            ConnectError::Unreachable { .. } => {
                let advice =
                    "start one with \"lockhouse serve\", or name another with --url or LOCKHOUSE_URL";
                Failure::new(UNREACHABLE, format_args!("{error} ({advice})"))
            }
            ConnectError::Full { .. } => Failure::new(NOT_GRANTED, error),
            // A server, or a proxy before it, that has as many connections as it may.
            ConnectError::Refused { status: TOO_MANY, .. } => Failure::new(NOT_GRANTED, error),
            _ => Failure::new(UNREACHABLE, error),
        }
    }
}

/// A server with which TLS failed, and what to do if it was for a certificate.
pub(crate) fn untrusted(mut why: String) -> Failure {
    if why.contains("fatal alert") {
        why.push_str(" (name a certificate that the server accepts with --cert or LOCKHOUSE_CERT)");
    } else if why.contains("CaUsedAsEndEntity") {
        why.push_str(" (the server shows the certificate of a CA: have the CA sign one for the server, or make one with basicConstraints=CA:FALSE)");
    } else if why.contains("certificate") {
        why.push_str(" (name the CA of its certificate with --ca or LOCKHOUSE_CA)");
    }
    Failure::new(UNREACHABLE, why)
}
