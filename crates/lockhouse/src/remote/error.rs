//! Why there is no connection.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use lockhouse_wire as wire;

use crate::remote::transport::endpoints::Endpoints;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be used.
    #[error("url{}: {url:?}, but it must be {rule}", .index.map(|index| format!("[{index}]")).unwrap_or_default())]
    Url {
        /// Which one, counted from 0, if there are several.
        index: Option<usize>,
        /// The URL, shortened.
        url: String,
        /// The rule that it must meet.
        rule: &'static str,
    },
    /// The bucket is empty, or the bucket or the partition is too long.
    #[error("{field}: {bytes} bytes, but {least} to {most} bytes are allowed", least = u8::from(*field == "bucket"), most = wire::SCOPE_BYTES)]
    Scope {
        /// The one.
        field: &'static str,
        /// How long it is.
        bytes: usize,
    },
    /// The label is too long.
    #[error("label: {bytes} bytes, but at most {limit} bytes are allowed", limit = wire::LABEL_BYTES)]
    Label {
        /// How long it is.
        bytes: usize,
    },
    /// There is no certificate authority to trust.
    #[error("ca: {}cannot be used: {why}", .file.as_deref().map_or_else(|| "what the system trusts ".to_owned(), |file| format!("{} ", file.display())))]
    Ca {
        /// The file with the CAs, or nothing for those of the system.
        file: Option<PathBuf>,
        /// The fault.
        why: String,
    },
    /// Our certificate or its key cannot be used.
    #[error("certificate: {} cannot be used: {why}", .file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// The fault.
        why: String,
    },
    /// The certificate of the server is not trusted, or ours is refused, or the server speaks no TLS.
    #[error("cannot speak TLS with {address}: {message}")]
    Untrusted {
        /// The server.
        address: String,
        /// The fault.
        message: String,
    },
    /// The key is no API key and no token.
    #[error("key: must be 1 to {limit} visible ASCII characters", limit = wire::CREDENTIAL_BYTES)]
    Key,
    /// The server takes no such key, or the key may do nothing in the bucket. Trying again with the same key
    /// is in vain.
    #[error("{address} denies access: {message}")]
    Denied {
        /// The server.
        address: String,
        /// The server's message.
        message: String,
    },
    /// No connection to the address.
    #[error("cannot reach {address}: {error}")]
    Unreachable {
        /// The server.
        address: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// No welcome in time.
    #[error("cannot reach {address}: no answer within {} s", .after.as_secs_f64())]
    TimedOut {
        /// The server.
        address: String,
        /// How long it was waited for.
        after: Duration,
        /// The server took the WebSocket: a node of a fleet may wait for a bucket that moves.
        is_open: bool,
    },
    /// The server refused the handshake.
    #[error("{address} refused the connection with status {status}: {message}")]
    Refused {
        /// The server.
        address: String,
        /// The status of its answer.
        status: u16,
        /// The first of its answer.
        message: String,
    },
    /// The server is stopping.
    #[error("{address} is stopping; try again")]
    Stopping {
        /// The server.
        address: String,
    },
    /// The bucket is between two servers of a fleet, and was so for longer than it is waited for.
    #[error("{address} has not got the bucket, which moves between two servers; try again")]
    Moving {
        /// The server.
        address: String,
    },
    /// The server has as many connections or sessions as it may have, of all clients, of the tenant or of the
    /// bucket. There may be fewer later.
    #[error("{address} takes no more sessions now ({bound}); try again later")]
    Full {
        /// The server.
        address: String,
        /// The setting that is reached, such as `sessions_per_tenant`, or why else there can be no session
        /// now.
        bound: String,
    },
    /// The program at the address does not speak this protocol, or broke it.
    #[error("{address} does not answer as a lockhouse server: {message}")]
    NotLockhouse {
        /// The server.
        address: String,
        /// The fault.
        message: String,
    },
}

impl ConnectError {
    /// Whether the bucket may be between two servers of a fleet.
    pub(crate) fn may_be_moving(&self) -> bool {
        matches!(self, Self::Moving { .. } | Self::TimedOut { is_open: true, .. })
    }

    /// The same of one of several URLs.
    pub(crate) fn of_url(self, index: usize) -> Self {
        match self {
            Self::Url { url, rule, .. } => Self::Url { index: Some(index), url, rule },
            error => error,
        }
    }

    /// The same of these addresses together, none of which leads to a server.
    pub(crate) fn of_all(self, addresses: &Endpoints) -> Self {
        let address = addresses.to_string();
        match self {
            Self::Unreachable { error, .. } => Self::Unreachable { address, error },
            Self::TimedOut { after, is_open, .. } => Self::TimedOut { address, after, is_open },
            error => error,
        }
    }
}
