//! Servers for tests, and worlds of agents that are their clients.

use std::net::SocketAddr;
use std::time::Duration;

use lockhouse::remote::{Connection, connect};
use lockhouse::{Agent, BucketKey};
use lockhouse_server::{Config, bind, serve};

use crate::behaviour::World;
use crate::remote::proxy::Proxy;

/// How late: longer than the server takes for anything.
const LATENESS: Duration = Duration::from_millis(5);

/// A server in this process that ends with the test's runtime.
pub(crate) async fn server(config: Config) -> SocketAddr {
    log_listener::listen();
    let listener = bind("127.0.0.1:0", &config.authority).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, config, std::future::pending()));
    address
}

/// Every agent is a client of its own.
pub(crate) struct ConnectionEach(SocketAddr);

impl World for ConnectionEach {
    async fn start() -> Self {
        Self(server(Config::default()).await)
    }

    async fn agent(&self, key: &BucketKey, client_id: &str) -> Agent {
        let connect = connect(format!("http://{}", self.0)).bucket(&key.bucket).partition(&key.partition);
        connect.await.unwrap().agent(client_id).unwrap()
    }
}

/// Every agent is a remote client of its own: frames in either direction arrive late and in batches.
pub(crate) struct Late(ConnectionEach);

impl World for Late {
    async fn start() -> Self {
        let server = server(Config::default()).await;
        Self(ConnectionEach(Proxy::late(server, LATENESS).await.address))
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
        let shared = connect(format!("ws://{}", each.0)).await.unwrap();
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
