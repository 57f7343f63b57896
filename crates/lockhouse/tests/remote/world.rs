//! Worlds of agents that are clients of a server.

use std::net::SocketAddr;
use std::time::Duration;

use lockhouse::remote::{Connection, connect};
use lockhouse::{Agent, BucketKey};

use crate::behaviour::World;
use crate::process::ServerProcess;
use crate::remote::proxy::Proxy;

/// The lease of a server whose tests lose none.
pub(crate) const LEASE: &str = "10s";

/// How late: longer than the server takes for anything.
const LATENESS: Duration = Duration::from_millis(5);

/// Every agent is a client of its own.
pub(crate) struct ConnectionEach {
    address: SocketAddr,
    _server: ServerProcess,
}

impl World for ConnectionEach {
    async fn start() -> Self {
        let server = ServerProcess::start(LEASE);
        Self { address: server.address(), _server: server }
    }

    async fn agent(&self, key: &BucketKey, client_id: &str) -> Agent {
        let connect =
            connect(format!("http://{}", self.address)).bucket(&key.bucket).partition(&key.partition);
        connect.await.unwrap().agent(client_id).unwrap()
    }
}

/// Every agent is a remote client of its own: frames in either direction arrive late and in batches.
pub(crate) struct Late(ConnectionEach);

impl World for Late {
    async fn start() -> Self {
        let each = ConnectionEach::start().await;
        let proxy = Proxy::late(each.address, LATENESS).await;
        Self(ConnectionEach { address: proxy.address, ..each })
    }

    async fn agent(&self, key: &BucketKey, client_id: &str) -> Agent {
        self.0.agent(key, client_id).await
    }
}

/// The agents of the default bucket share a connection.
pub(crate) struct OneConnection {
    each: ConnectionEach,
    shared: Connection,
}

impl World for OneConnection {
    async fn start() -> Self {
        let each = ConnectionEach::start().await;
        let shared = connect(format!("ws://{}", each.address)).await.unwrap();
        Self { each, shared }
    }

    async fn agent(&self, key: &BucketKey, client_id: &str) -> Agent {
        if *key == BucketKey::from(self.shared.bucket()) {
            self.shared.agent(client_id).unwrap()
        } else {
            self.each.agent(key, client_id).await
        }
    }
}
