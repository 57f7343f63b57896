//! A server as a node of a fleet, which it shares with other servers.
//!
//! ```text
//!   Cluster ─┬─ FleetNode (lockhouse): which slots it has, and whose the others are
//!            └─ NodeClient ─ hop ─▶ other nodes: slots that are asked for, requests that are handed on
//! ```

mod client;
mod hop;
mod replays;
mod secret;

use std::sync::Arc;

use axum::http::{Extensions, Request};
use lockhouse::fleet::FleetNode;

pub(crate) use self::client::{DRAIN, HopError, NodeClient, RELEASE, STATE};
pub(crate) use self::hop::{Forwarded, HOP, HopCaller, Misdirected};
use self::hop::{Target, verify};
use self::replays::Replays;
pub(crate) use self::secret::ClusterSecret;
use crate::limits::ConnectionPermit;
use crate::tls::ClientCertificate;

/// The caller of a request, as the next node has to know it.
pub(crate) fn caller_of(extensions: &Extensions) -> HopCaller {
    let certificate = extensions.get::<Arc<ClientCertificate>>();
    HopCaller {
        from: extensions.get::<ConnectionPermit>().map(|permit| permit.from),
        certificate: certificate.map(|certificate| certificate.chain().to_vec()).unwrap_or_default(),
        slot: None,
    }
}

/// A server as a node of a fleet.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) node: FleetNode,
    pub(crate) client: Arc<NodeClient>,
    replays: Replays,
}

impl Cluster {
    pub(crate) fn new(node: FleetNode, client: Arc<NodeClient>) -> Self {
        Self { node, client, replays: Replays::default() }
    }

    /// The caller of a request that another node hands on, whose headers for that are taken out.
    ///
    /// # Errors
    ///
    /// [`Misdirected`]: it is for another node, or for this one as it was before it was declared dead.
    pub(crate) fn take_hop<B>(&self, request: &mut Request<B>) -> Result<HopCaller, Misdirected> {
        let node = self.node.id().ok_or(Misdirected)?;
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let target = Target { node, method: method.as_str(), path };
        verify(request.headers_mut(), self.client.secret(), &self.replays, target)
    }
}
