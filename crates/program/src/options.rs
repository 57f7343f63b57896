//! The options that `serve` and `config show` share.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use lockhouse_cli::exit::complain;
use lockhouse_server::{FlagValue, LoadedSettings, SettingsProblem, Sources};

/// Each of these can also stand in the file and in the environment: see docs/config.md.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// A TOML file with settings; options and environment variables override it
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_CONFIG")]
    config: Option<PathBuf>,

    /// Where to listen: a loopback address, or any address if the section auth has keys, issuers or client
    /// certificates; port 0 means any free port [default: 127.0.0.1:7420] [env: LOCKHOUSE_LISTEN]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,

    /// How long a silent client keeps its locks, from 500ms to 10m [default: 10s] [env: LOCKHOUSE_LEASE]
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,

    /// Where to keep durable data: sqlite:PATH, postgres://USER@HOST/DATABASE as a node of a fleet, or
    /// memory: to keep nothing [default: sqlite:lockhouse.db] [env: LOCKHOUSE_STORE]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,

    /// A file with the password for postgres://, read for each connection; without it the file that
    /// PGPASSFILE names counts, as for psql [env: LOCKHOUSE_STORE_PASSWORD_FILE]
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<String>,

    /// With postgres://: the URL at which the other nodes reach this one; by default where it listens, if
    /// that is a loopback address [env: LOCKHOUSE_CLUSTER_ADVERTISE]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,

    /// With postgres://: the name of this node, which no other one has; by default the host and port of its
    /// URL [env: LOCKHOUSE_CLUSTER_NODE]
    #[arg(long, value_name = "LABEL")]
    node: Option<String>,

    /// With postgres://: a file with the secret that all nodes share, at least 32 bytes, such as openssl rand
    /// -hex 32 makes it [env: LOCKHOUSE_CLUSTER_SECRET_FILE]
    #[arg(long, value_name = "FILE")]
    cluster_secret_file: Option<String>,

    /// With postgres:// and nodes at https://: a PEM file with the CAs of their certificates; by default
    /// those that the system trusts [env: LOCKHOUSE_CLUSTER_CA]
    #[arg(long, value_name = "FILE")]
    cluster_ca: Option<String>,

    /// With postgres://: how long a node may be silent before others take its slots, from 500ms to 1m; less
    /// than the lease allows [default: 3s] [env: LOCKHOUSE_CLUSTER_SLOT_LEASE]
    #[arg(long, value_name = "DURATION")]
    slot_lease: Option<String>,

    /// With postgres://: how long the start waits for a database that is down, starting or full, up to 1d; 0s
    /// ends it at once; by default as long as it takes [env: LOCKHOUSE_CLUSTER_WAIT_FOR_STORE]
    #[arg(long, value_name = "DURATION")]
    wait_for_store: Option<String>,

    /// How long an answer of the store is waited for, from 100ms to 10m; a store that takes longer counts as
    /// unavailable [default: 5s] [env: LOCKHOUSE_STORE_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    store_timeout: Option<String>,

    /// With memory: grant at once, as no client of an earlier server still holds a lock. Otherwise the server
    /// first waits for the length of the lease [env: LOCKHOUSE_FRESH]
    #[arg(long)]
    fresh: bool,

    /// How the records of a kind are locked: read-write (the default), exclusive-write (readers take no lock)
    /// or exclusive-read; may be given several times [env: LOCKHOUSE_LOCK_TYPES]
    #[arg(long = "lock-type", value_name = "KIND=TYPE", value_parser = lock_type)]
    lock_types: Vec<(String, String)>,

    /// A web origin other than this machine's whose pages may connect; may be given several times
    /// [env: LOCKHOUSE_ALLOWED_ORIGINS]
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    allowed_origins: Vec<String>,

    /// How long the last changes may take when the server ends, up to 1h; with memory: also how long to wait
    /// for locks to be released [default: 10s] [env: LOCKHOUSE_DRAIN]
    #[arg(long, value_name = "DURATION")]
    drain: Option<String>,

    /// Serve /metrics, /livez and /readyz at this address, to every program that reaches it, without TLS;
    /// port 0 means any free port [env: LOCKHOUSE_METRICS_LISTEN]
    #[arg(long, value_name = "HOST:PORT")]
    metrics_listen: Option<String>,

    /// How many entries of history are kept, of all buckets together; the oldest go first [default: 100000,
    /// with memory 10000] [env: LOCKHOUSE_HISTORY_ROWS]
    #[arg(long, value_name = "COUNT")]
    history_rows: Option<u32>,

    /// For how long entries of history are kept [default: 30days] [env: LOCKHOUSE_HISTORY_MAX_AGE]
    #[arg(long, value_name = "DURATION")]
    history_age: Option<String>,

    /// How lines of the log are written: text, or json with an object a line [default: text]
    /// [env: LOCKHOUSE_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,

    /// Speak TLS with the certificate in this PEM file; the chain up to its CA may follow it
    /// [env: LOCKHOUSE_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,

    /// The private key of the certificate, a PEM file [env: LOCKHOUSE_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,

    /// Try TLS out with a self-signed certificate for localhost, made in this folder (by default the current
    /// one) [env: LOCKHOUSE_TLS_SELF_SIGNED]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    tls_self_signed: Option<String>,
}

fn lock_type(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((kind, lock_type)) if !kind.is_empty() => Ok((kind.to_owned(), lock_type.to_owned())),
        _ => Err("must be KIND=read-write, KIND=exclusive-write or KIND=exclusive-read".to_owned()),
    }
}

impl SettingsArgs {
    /// The options as a source of settings, beside the file and the environment.
    pub(crate) fn sources(self) -> Sources {
        let texts = [
            ("listen", self.listen),
            ("lease", self.lease),
            ("store", self.store),
            ("store_password_file", self.store_password_file),
            ("cluster.advertise", self.advertise),
            ("cluster.node", self.node),
            ("cluster.secret_file", self.cluster_secret_file),
            ("cluster.ca", self.cluster_ca),
            ("cluster.slot_lease", self.slot_lease),
            ("cluster.wait_for_store", self.wait_for_store),
            ("store_timeout", self.store_timeout),
            ("drain", self.drain),
            ("metrics.listen", self.metrics_listen),
            ("history.max_age", self.history_age),
            ("log.format", self.log_format),
            ("tls.cert", self.tls_cert),
            ("tls.key", self.tls_key),
            ("tls.self_signed", self.tls_self_signed),
        ];
        let texts = texts.into_iter().filter_map(|(key, text)| Some((key, FlagValue::Text(text?))));
        let mut flags: BTreeMap<_, _> = texts.collect();
        if let Some(rows) = self.history_rows {
            flags.insert("history.rows", FlagValue::Number(rows));
        }
        if self.fresh {
            flags.insert("fresh", FlagValue::Yes);
        }
        if !self.allowed_origins.is_empty() {
            flags.insert("allowed_origins", FlagValue::List(self.allowed_origins));
        }
        if !self.lock_types.is_empty() {
            flags.insert("lock_types", FlagValue::Table(self.lock_types));
        }
        Sources { flags, ..Sources::of_process(self.config) }
    }
}

/// Reads the settings, or prints each fault in one line.
pub(crate) fn load(sources: &Sources) -> Option<LoadedSettings> {
    sources
        .load()
        .map_err(|problems| problems.iter().for_each(|problem: &SettingsProblem| complain(problem)))
        .ok()
}
