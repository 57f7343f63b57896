//! `[cluster]`

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use axum::http::Uri;
use lockhouse::fleet::Timing;
use lockhouse_wire::decode::{Number, Text};

use super::Settings;
use super::store::StoreChoice;
use super::text;
use super::tls::ClientAuth;
use crate::settings::decode::{Decoded, NodeAt, Table, flag};
use crate::settings::key::Key;

/// The settings of a server that is a node of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Where other nodes reach this one. If none is set it is where the server listens, on a loopback
    /// address.
    pub advertise: Option<NodeUrl>,
    /// The name of the node, which no other one has; the host and port of its URL if none is set.
    pub node: Option<String>,
    /// A file with the secret that all nodes share.
    pub secret_file: Option<PathBuf>,
    /// A PEM file with the CAs that the certificates of other nodes are of.
    pub ca: Option<PathBuf>,
    /// Whether nodes may speak without TLS over a network.
    pub plain: bool,
    /// How many slots there are, fixed at the first start of the first node.
    pub slots: u16,
    /// How long a node may not renew before it is declared dead.
    pub slot_lease: Duration,
    /// How long a node renews before it is given slots.
    pub join_delay: Option<Duration>,
    /// The pause between two polls.
    pub poll: Option<Duration>,
    /// The longest pause between two commits.
    pub idle_commit: Option<Duration>,
    /// How long a statement may take.
    pub statement_timeout: Option<Duration>,
    /// How long the start waits for a database that cannot be used at the moment; none for as long as it
    /// takes.
    pub wait_for_store: Option<Duration>,
}

/// Where a node is reached: `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUrl {
    /// With TLS.
    is_https: bool,
    authority: String,
}

/// A text that is no URL of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be http://HOST:PORT or https://HOST:PORT, where other nodes reach this one, without a path")]
pub struct NoNodeUrl;

impl NodeUrl {
    /// Where a server listens.
    pub fn new(is_https: bool, address: SocketAddr) -> Self {
        Self { is_https, authority: address.to_string() }
    }

    /// Whether TLS is spoken there.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// The host and the port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether no other machine can read what is sent there.
    pub fn is_secure(&self) -> bool {
        self.is_https || self.is_loopback()
    }

    fn is_loopback(&self) -> bool {
        let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }
}

impl FromStr for NodeUrl {
    type Err = NoNodeUrl;

    fn from_str(text: &str) -> Result<Self, NoNodeUrl> {
        let uri: Uri = text.parse().map_err(|_| NoNodeUrl)?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(NoNodeUrl),
        };
        let authority = uri.authority().filter(|authority| authority.port().is_some()).ok_or(NoNodeUrl)?;
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let has_user = authority.as_str().contains('@');
        if !is_bare || has_user || text.contains('#') {
            return Err(NoNodeUrl);
        }
        Ok(Self { is_https, authority: authority.to_string() })
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

const SLOTS: Number =
    Number { words: Some("must be a whole number from 1 to 4096"), ..Number::new(1, 4096, 0) };

/// The keys of `[cluster]`.
pub(crate) fn keys() -> Vec<Key> {
    vec![
        Key::unset("cluster.advertise").flag("--advertise"),
        Key::unset("cluster.node").flag("--node"),
        Key::unset("cluster.secret_file").flag("--cluster-secret-file"),
        Key::unset("cluster.ca").flag("--cluster-ca"),
        Key::new("cluster.plain", "false"),
        Key::new("cluster.slots", "256"),
        Key::new("cluster.slot_lease", "\"3s\"").flag("--slot-lease"),
        Key::unset("cluster.join_delay"),
        Key::unset("cluster.poll"),
        Key::unset("cluster.idle_commit"),
        Key::unset("cluster.statement_timeout"),
        Key::unset("cluster.wait_for_store").flag("--wait-for-store"),
    ]
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            advertise: None,
            node: None,
            secret_file: None,
            ca: None,
            plain: false,
            slots: 256,
            slot_lease: Duration::from_secs(3),
            join_delay: None,
            poll: None,
            idle_commit: None,
            statement_timeout: None,
            wait_for_store: None,
        }
    }
}

impl ClusterSettings {
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        let length = |least, most| move |value: NodeAt<'_>| text::length(value, least, most);
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        Some(Self {
            advertise: table.optional("advertise", text::parsed),
            node: table.optional("node", label),
            secret_file: table.optional("secret_file", text::path),
            ca: table.optional("ca", text::path),
            plain: table.optional("plain", flag)?,
            slots: table.optional("slots", |value| value.read(|field| field.number(&SLOTS)))? as u16,
            slot_lease: table.optional("slot_lease", length(ms(500), s(60)))?,
            join_delay: table.optional("join_delay", length(ms(0), s(60))),
            poll: table.optional("poll", length(ms(10), ms(500))),
            idle_commit: table.optional("idle_commit", length(ms(10), s(10))),
            statement_timeout: table.optional("statement_timeout", length(ms(10), s(10))),
            wait_for_store: table.optional("wait_for_store", length(ms(0), s(86_400))),
        })
    }

    /// The times of a node, those that are not set by the slot lease.
    pub fn timing(&self) -> Timing {
        let derived = Timing::of(self.slot_lease);
        Timing {
            slot_lease: self.slot_lease,
            join_delay: self.join_delay.unwrap_or(derived.join_delay),
            poll: self.poll.unwrap_or(derived.poll),
            idle_commit: self.idle_commit.unwrap_or(derived.idle_commit),
        }
    }

    /// How long a statement may take.
    pub fn statement_timeout(&self) -> Duration {
        self.statement_timeout.unwrap_or(Timing::of(self.slot_lease).idle_commit)
    }

    /// Reports keys that do not go together with each other, or with those of other sections.
    pub(crate) fn check(&self, all: &Settings, wrong: &mut dyn FnMut(&str, &[&str], &str)) {
        let StoreChoice::Postgres(_) = all.store else {
            let rule = "only with the store postgres://…, as a server with another store is alone";
            let set = [
                ("cluster.advertise", self.advertise.is_some()),
                ("cluster.node", self.node.is_some()),
                ("cluster.secret_file", self.secret_file.is_some()),
                ("cluster.ca", self.ca.is_some()),
                ("cluster.wait_for_store", self.wait_for_store.is_some()),
            ];
            set.iter().filter(|(_, is_set)| *is_set).for_each(|(key, _)| wrong(key, &["store"], rule));
            return;
        };
        if self.secret_file.is_none() {
            let rule = "needs cluster.secret_file, a file with the secret that all nodes share, such as one that openssl rand -hex 32 makes";
            wrong("store", &["cluster.secret_file"], rule);
        }
        if all.tls.client_ca.is_some() && all.tls.client_auth == ClientAuth::Required {
            let rule =
                "needs tls.client_auth = \"optional\" in a fleet, as nodes show each other no certificate";
            wrong("tls.client_ca", &["tls.client_auth"], rule);
        }
        if let Some(advertise) = &self.advertise {
            if !advertise.is_secure() && !self.plain {
                let rule = "must be https://, as keys and secrets go between nodes; cluster.plain = true if the network between them is protected in another way";
                wrong("cluster.advertise", &["cluster.plain"], rule);
            }
            if self.ca.is_some() && !advertise.is_https {
                wrong("cluster.ca", &["cluster.advertise"], "needs cluster.advertise with https://");
            }
        }
        self.check_times(all, wrong);
    }

    /// Every clock has its say before another one acts on it.
    fn check_times(&self, all: &Settings, wrong: &mut dyn FnMut(&str, &[&str], &str)) {
        let (lease, timing, statement) = (self.slot_lease, self.timing(), self.statement_timeout());
        let show = |length: Duration| humantime::format_duration(length).to_string();
        let half = [("cluster.idle_commit", timing.idle_commit), ("cluster.statement_timeout", statement)];
        for (key, value) in half {
            if value > lease / 2 {
                let rule = format!(
                    "must be at most half of cluster.slot_lease, {}, or a node would fall silent between two commits",
                    show(lease)
                );
                wrong(key, &["cluster.slot_lease"], &rule);
            }
        }
        // The answer to a commit may be lost, and then the next one has to be in time.
        let (taken, limit) = (timing.idle_commit + 2 * statement, lease / 10 * 9);
        if taken > limit {
            let rule = format!(
                "is too long: cluster.idle_commit ({}) and twice cluster.statement_timeout ({}) have to be at most nine tenths of cluster.slot_lease ({}), \
                 or a node would fall silent with one answer that is lost",
                show(timing.idle_commit),
                show(2 * statement),
                show(limit),
            );
            wrong("cluster.statement_timeout", &["cluster.idle_commit", "cluster.slot_lease"], &rule);
        }
        if timing.poll > lease / 2 {
            let rule = format!("must be at most half of cluster.slot_lease, {}", show(lease));
            wrong("cluster.poll", &["cluster.slot_lease"], &rule);
        }
        let heartbeat = all.lease.heartbeat();
        let needed = 3 * heartbeat + timing.poll + lease + statement;
        let limit = Duration::from_millis(all.lease.as_millis() / 10 * 9);
        if needed >= limit {
            let rule = format!(
                "is too long for the lease of {}: a client survives the death of a node only if three heartbeats ({}), a poll ({}), the slot lease and \
                 a statement ({}) take less than nine tenths of its lease ({}), but they take {}",
                show(Duration::from_millis(all.lease.as_millis())),
                show(3 * heartbeat),
                show(timing.poll),
                show(statement),
                show(limit),
                show(needed),
            );
            wrong("cluster.slot_lease", &["lease", "cluster.poll", "cluster.statement_timeout"], &rule);
        }
    }
}

/// The name of a node.
fn label(value: NodeAt<'_>) -> Decoded<String> {
    let label = value.read(|field| field.string(&Text::ANY))?;
    let is_shown = |c: char| !c.is_control() && !c.is_whitespace();
    if (1..=64).contains(&label.len()) && label.chars().all(is_shown) {
        Ok(label)
    } else {
        Err(value.wrong("must be a name of 1 to 64 bytes without spaces"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_node_is_reached_at_a_host_and_a_port() {
        for text in ["http://10.0.0.5:7420", "https://a.example:443", "http://[::1]:1"] {
            assert_eq!(text.parse::<NodeUrl>().unwrap().to_string(), text);
        }
        assert_eq!("http://a:1/".parse::<NodeUrl>().unwrap().to_string(), "http://a:1");
        for text in [
            "",
            "a:1",
            "http://a",
            "ftp://a:1",
            "http://a:1/x",
            "http://a:1?x",
            "http://u:p@a:1",
            "http://a:1#x",
        ] {
            assert_eq!(text.parse::<NodeUrl>(), Err(NoNodeUrl), "{text}");
        }
    }
}
