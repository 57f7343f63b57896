//! Connecting to a server.

use std::future::IntoFuture;
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_wire as wire;

use super::connection::Connection;
use super::session::task;
use super::transport::credentials::Credentials;
use super::transport::endpoints::Endpoints;
use crate::remote::error::ConnectError;
use crate::remote::http::api::Api;
use crate::remote::http::client::Http;
#[cfg(feature = "tls")]
use crate::remote::transport::tls::Trust;

/// A connection that has not been made yet; awaiting it makes it.
#[derive(Clone, Debug)]
#[must_use = "a connection is made only when this is awaited"]
pub struct Connect {
    /// At least one.
    urls: Vec<String>,
    bucket: Option<String>,
    partition: Option<String>,
    label: String,
    credentials: Credentials,
    while_draining: bool,
    timeout: Duration,
    #[cfg(feature = "tls")]
    ca: Option<PathBuf>,
    /// With its key.
    #[cfg(feature = "tls")]
    certificate: Option<(PathBuf, PathBuf)>,
}

/// How long a call of an owner or of claims waits for its answer by default: longer than a default recovery.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Begins a connection to the server at this URL: `http://` or `ws://`, or with the feature `tls` also
/// `https://` or `wss://`, the path `/` standing for `/v1/ws`. The query may name the scope, as in
/// `http://127.0.0.1:7420/?bucket=jobs`.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let connection = lockhouse::remote::connect("http://127.0.0.1:7420").bucket("jobs").await?;
/// # Ok(()) }
/// ```
pub fn connect(url: impl Into<String>) -> Connect {
    let label = concat!("lockhouse-rust/", env!("CARGO_PKG_VERSION")).to_owned();
    Connect {
        urls: vec![url.into()],
        bucket: None,
        partition: None,
        label,
        credentials: Credentials::default(),
        while_draining: false,
        timeout: TIMEOUT,
        #[cfg(feature = "tls")]
        ca: None,
        #[cfg(feature = "tls")]
        certificate: None,
    }
}

impl Connect {
    /// Another URL of the same server, such as that of another node of a fleet; each has to serve every
    /// client. The client begins with any one of them, goes on to the next where one does not answer, and
    /// resumes its session at the one that does. All have the same bucket and partition, and all or none
    /// speak TLS.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let connection = lockhouse::remote::connect("http://10.0.0.1:7420").or("http://10.0.0.2:7420").await?;
    /// # Ok(()) }
    /// ```
    pub fn or(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// The bucket whose locks are meant, instead of the one in the URL or `default`. At most 256 bytes.
    pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
        self.bucket = Some(bucket.into());
        self
    }

    /// A finer split of the bucket, such as by top-level site. At most 256 bytes.
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.partition = Some(partition.into());
        self
    }

    /// The name of this client in the server's logs; at most 128 bytes.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// The credential of the client, where the server wants one: an API key, or a token that is good for as
    /// long as the connection is to last.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.credentials = Credentials::new(move || key.clone());
        self
    }

    /// The same, asked for anew with each connection and each call, and a little before a token ends: for
    /// tokens that do not last. The function is called within the connection's task, so that it should return
    /// a token that something else keeps fresh.
    ///
    /// ```no_run
    /// # fn token_of_now() -> String { unimplemented!() }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let connection = lockhouse::remote::connect("http://127.0.0.1:7420").key_with(token_of_now).await?;
    /// # Ok(()) }
    /// ```
    pub fn key_with(mut self, key: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.credentials = Credentials::new(key);
        self
    }

    /// How long each call of an [`Owner`](crate::Owner) or of [`Claims`](crate::Claims) waits for its answer,
    /// repeats included; 30 s by default, and at least 1 ms. The wait before the call is sent may take as
    /// long again. Locks of agents are not meant: their requests have a timeout
    /// [of their own](crate::Request::timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Connects also to a server that drains, which grants nothing any more: for programs that only
    /// [look](Connection::query). Others get [`ConnectError::Stopping`] from it.
    pub fn while_draining(mut self) -> Self {
        self.while_draining = true;
        self
    }

    /// The only CAs that are trusted, instead of those of the system: a PEM file, which is read when the
    /// connection is begun. For URLs that begin with `https://` or `wss://`; others do not look at it. A
    /// self-signed certificate is its own CA.
    #[cfg(feature = "tls")]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// The client's certificate, where the server knows its clients by certificates, and its private key: two
    /// PEM files, or twice the same. In the first stand behind the certificate those up to its CA; keys are
    /// PKCS #8, PKCS #1 or SEC 1. Both are read anew for each new connection, so that a certificate may be
    /// renewed in its place. For URLs that begin with `https://` or `wss://`; others do not look at it. A
    /// [key](Self::key) goes before it.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let connection = lockhouse::remote::connect("https://locks.example")
    ///     .certificate("client.pem", "client.key")
    ///     .await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificate = Some((certificate.into(), key.into()));
        self
    }

    /// The bucket as HTTP has it, for calls that no type stands for. This method sends nothing.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`], [`ConnectError::Scope`], [`ConnectError::Label`], [`ConnectError::Key`],
    /// [`ConnectError::Ca`], [`ConnectError::Certificate`].
    pub fn http(self) -> Result<Http, ConnectError> {
        let endpoints = self.endpoints()?;
        self.credentials.show()?;
        Http::new(endpoints, &self.label, self.credentials)
    }

    fn endpoints(&self) -> Result<Arc<Endpoints>, ConnectError> {
        let scope = [("bucket", &self.bucket), ("partition", &self.partition)];
        let scope: Vec<_> = scope.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?))).collect();
        let endpoints = Endpoints::parse(&self.urls, &scope)?;
        if self.label.len() > wire::LABEL_BYTES {
            return Err(ConnectError::Label { bytes: self.label.len() });
        }
        #[cfg(feature = "tls")]
        if endpoints.first().is_tls() {
            let trust = Trust::new(self.ca.as_deref(), self.certificate.as_ref())?;
            return Ok(Arc::new(endpoints.map(|address| address.trusting(trust.clone()))));
        }
        Ok(Arc::new(endpoints))
    }

    async fn open(self) -> Result<Connection, ConnectError> {
        let endpoints = self.endpoints()?;
        let http = Http::new(endpoints.clone(), &self.label, self.credentials.clone());
        let api = Api::new(http.map_err(|error| error.to_string()), self.timeout);
        task::start(endpoints, self.label, self.credentials, self.while_draining, api).await
    }
}

impl IntoFuture for Connect {
    type Output = Result<Connection, ConnectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Connects once, to the first URL that leads to a server; a bucket that moves between two servers of a
    /// fleet is waited for, 10 s at most. A connection that breaks later is made anew without end. Needs a
    /// tokio runtime with I/O and time enabled, on which the connection then lives.
    ///
    /// # Errors
    ///
    /// [`ConnectError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the connection.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}
