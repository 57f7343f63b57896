//! Requests to other nodes.

use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use lockhouse::fleet::Peers;
use lockhouse::store::{NodeId, NodeRow, Slot};
use parking_lot::Mutex;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::time::timeout;

use super::hop::{self, HopCaller, Target};
use super::replays::Sender;
use super::secret::ClusterSecret;
use crate::bounds::{HOP_CONNECT, HOP_IDLE, HOP_IDLE_CONNECTIONS, NODES_REMEMBERED, RELEASE_PATIENCE};
use crate::settings::{ClusterSettings, NodeUrl};
use crate::tls::certificates;

/// Where a node is asked to give a slot back.
pub(crate) const RELEASE: &str = "/cluster/release";

/// Where a node is asked how it is.
pub(crate) const STATE: &str = "/cluster/state";

/// Where a node is asked to give all its slots back.
pub(crate) const DRAIN: &str = "/cluster/drain";

/// Sends requests to other nodes, with a proof that they come from a node.
#[derive(Debug)]
pub(crate) struct NodeClient {
    /// Whether nodes are spoken to over plain HTTP beyond this machine.
    plain: bool,
    /// A node was not spoken to for that, which was logged.
    has_refused: AtomicBool,
    unreached: Mutex<HashMap<NodeId, Unreached>>,
    http: Client<HttpsConnector<HttpConnector>, Body>,
    secret: ClusterSecret,
    sender: Sender,
    sent: AtomicU64,
}

/// A node that was not reached.
#[derive(Debug)]
struct Unreached {
    /// The first time of several one soon after the other.
    since: Instant,
    last: Instant,
    /// That was logged.
    is_reported: bool,
}

/// Why there is no answer of another node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HopError {
    /// It has not got the request.
    #[error("it cannot be reached: {0}")]
    Unreached(String),
    /// It may have got the request.
    #[error("its answer is lost: {0}")]
    Lost(String),
}

impl NodeClient {
    /// # Errors
    ///
    /// The fault of a file, as a sentence that names the setting.
    pub(crate) fn new(settings: &ClusterSettings, secret: ClusterSecret) -> Result<Self, String> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(HOP_CONNECT));
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(settings)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(HOP_IDLE)
            .pool_max_idle_per_host(HOP_IDLE_CONNECTIONS)
            .build(connector);
        let mut sender = Sender::default();
        getrandom::fill(&mut sender)
            .map_err(|error| format!("the system gives no random numbers: {error}"))?;
        let (plain, has_refused, sent) = (settings.plain, AtomicBool::new(false), AtomicU64::new(0));
        let unreached = Mutex::default();
        Ok(Self { plain, has_refused, unreached, http, secret, sender, sent })
    }

    pub(super) fn secret(&self) -> &ClusterSecret {
        &self.secret
    }

    /// Sends a request of that caller; its path and query are those of `target`. It ends with `gone`, after
    /// which no answer comes.
    pub(crate) async fn send(
        &self,
        node: &NodeRow,
        (method, target): (Method, &str),
        mut headers: HeaderMap,
        caller: &HopCaller,
        body: Body,
        gone: impl Future<Output = ()>,
    ) -> Result<Response<Incoming>, HopError> {
        let unreached = |why: &dyn ToString| HopError::Unreached(why.to_string());
        self.check_address(node).map_err(|why| unreached(&why))?;
        let uri: Uri = format!("{}{target}", node.address).parse().map_err(|error| unreached(&error))?;
        let of = Target { node: node.id, method: method.as_str(), path: target };
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        hop::sign(&mut headers, &self.secret, (self.sender, number), of, caller);
        let mut request =
            Request::builder().method(method).uri(uri).body(body).map_err(|error| unreached(&error))?;
        *request.headers_mut() = headers;
        let connection = capture_connection(&mut request);
        let answer = tokio::select! {
            biased;
            answer = self.http.request(request) => answer.map_err(|error| {
                let why = chain(&error);
                if error.is_connect() { HopError::Unreached(why) } else { HopError::Lost(why) }
            }),
            () = gone => Err(if connection.connection_metadata().is_some() {
                HopError::Lost("it was declared dead before its answer".to_owned())
            } else {
                unreached(&"it was declared dead before it was connected")
            }),
        };
        self.note_reach(node, answer.as_ref().err());
        answer
    }

    /// Warns once of a node that has not been reached for longer than one that is dead has a row.
    fn note_reach(&self, node: &NodeRow, failure: Option<&HopError>) {
        let mut unreached = self.unreached.lock();
        match failure {
            Some(HopError::Unreached(why)) => {
                if unreached.len() >= NODES_REMEMBERED && !unreached.contains_key(&node.id) {
                    unreached.clear();
                }
                let now = Instant::now();
                let fresh = Unreached { since: now, last: now, is_reported: false };
                let known = unreached.entry(node.id).or_insert(fresh);
                if now - known.last > node.slot_lease {
                    known.since = now;
                }
                known.last = now;
                if !known.is_reported && now - known.since > 2 * node.slot_lease {
                    known.is_reported = true;
                    tracing::warn!(
                        node = &*node.label,
                        address = &*node.address,
                        "a node that lives cannot be reached, so that nothing of its buckets is served here: {why}"
                    );
                }
            }
            Some(HopError::Lost(_)) | None => {
                if unreached.remove(&node.id).is_some_and(|known| known.is_reported) {
                    tracing::info!(node = &*node.label, "the node is reached again");
                }
            }
        }
    }

    /// Whether this node may speak to that one: what is handed on has the credentials of clients.
    fn check_address(&self, node: &NodeRow) -> Result<(), String> {
        let NodeRow { label, address, .. } = node;
        let url: NodeUrl = address.parse().map_err(|why| format!("its address is {address:?}: {why}"))?;
        if self.plain || url.is_secure() {
            return Ok(());
        }
        let why =
            format!("it advertises {address:?}, but must have https://, as cluster.plain is false here");
        if !self.has_refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(node = &**label, "a node is not spoken to: {why}");
        }
        Err(why)
    }

    /// Sends a request of the node itself, and waits for the answer for that long.
    pub(crate) async fn call(
        &self,
        node: &NodeRow,
        method: Method,
        target: &str,
        patience: Duration,
    ) -> Result<Response<Incoming>, HopError> {
        let caller = HopCaller::default();
        let sending = self.send(node, (method, target), HeaderMap::new(), &caller, Body::empty(), pending());
        let late = || HopError::Lost(format!("no answer within {patience:?}"));
        timeout(patience, sending).await.unwrap_or_else(|_| Err(late()))
    }
}

impl Peers for NodeClient {
    fn ask<'a>(
        &'a self,
        node: &'a NodeRow,
        slot: Slot,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async move {
            let target = format!("{RELEASE}?slot={}", slot.get());
            let answer = self.call(node, Method::POST, &target, RELEASE_PATIENCE).await;
            match answer.map_err(|error| error.to_string())?.status() {
                status if status.is_success() => Ok(()),
                status => Err(format!("it answers {status}")),
            }
        })
    }
}

/// All that has led to the error: the first says least.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Trusts the CAs of that file and no others, or those that the system trusts.
fn tls(settings: &ClusterSettings) -> Result<ClientConfig, String> {
    let wrong = |why: &dyn ToString| format!("cluster.ca: {}", why.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let builder = match &settings.ca {
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("cluster.ca", file).map_err(|error| error.to_string())? {
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            builder.with_root_certificates(roots)
        }
        None => builder.with_platform_verifier().map_err(|error| wrong(&error))?,
    };
    Ok(builder.with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn credentials_of_clients_go_to_no_node_in_the_clear() {
        let may_speak = |plain: bool, address: &str| {
            let settings = ClusterSettings { plain, ..ClusterSettings::default() };
            let secret = ClusterSecret::new(&[7; 32]);
            let client = NodeClient::new(&settings, secret).unwrap();
            let node = NodeRow {
                id: NodeId(1),
                label: "b".into(),
                address: address.into(),
                slot_lease: Duration::from_secs(3),
                secret_mark: [0; 32],
                counter: 1,
            };
            client.check_address(&node)
        };
        for (address, plain, may) in [
            ("https://b.example:7420", false, true),
            ("http://127.0.0.1:7420", false, true),
            ("http://10.0.0.5:7420", false, false),
            ("http://10.0.0.5:7420", true, true),
            ("10.0.0.5:7420", true, false),
        ] {
            let said = may_speak(plain, address);
            assert_eq!(said.is_ok(), may, "{address}: {said:?}");
            assert!(said.is_ok() || said.unwrap_err().contains(address));
        }
    }
}
