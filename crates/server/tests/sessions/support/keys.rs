//! API keys, and a server that knows them.

use std::collections::BTreeMap;

use lockhouse_server::auth::{Authority, KeySettings, NewKey, Permission, Settings};
use lockhouse_server::{Config, LimitSettings};
use traces::Kind;

use super::{Client, TestServer, config};

/// An API key with these permissions in all buckets, and its settings.
pub(crate) fn key(id: &str, tenant: &str, permissions: &[Permission]) -> (String, KeySettings) {
    let key = NewKey::draw(id).unwrap();
    traces::secret(Kind::ApiKey, &key.text);
    let settings = KeySettings {
        id: id.to_owned(),
        hash: key.hash,
        tenant: tenant.to_owned(),
        isolate_origins: false,
        session: None,
        buckets: BTreeMap::from([("*".to_owned(), permissions.to_vec())]),
    };
    (key.text, settings)
}

pub(crate) fn settings(keys: Vec<KeySettings>) -> Settings {
    Settings { keys, ..Settings::default() }
}

/// A server of two tenants, each with a key for everything.
pub(crate) struct TwoTenants {
    pub(crate) server: TestServer,
    pub(crate) loud: String,
    pub(crate) quiet: String,
}

impl TwoTenants {
    pub(crate) async fn with(limits: LimitSettings, lease_ms: u64) -> Self {
        let (loud, of_loud) = key("loud", "loud", &Permission::ALL);
        let (quiet, of_quiet) = key("quiet", "quiet", &Permission::ALL);
        let authority = Authority::new(&settings(vec![of_loud, of_quiet])).unwrap();
        let server = TestServer::with(Config { authority, limits, ..config(lease_ms) }).await;
        Self { server, loud, quiet }
    }

    pub(crate) async fn loud(&self, query: &str) -> Client {
        Client::hello_with(self.server.address, query, Some(&self.loud)).await
    }

    pub(crate) async fn quiet(&self, query: &str) -> Client {
        Client::hello_with(self.server.address, query, Some(&self.quiet)).await
    }
}
