//! All bounds of a server, and the use of each.

use std::net::IpAddr;
use std::sync::Arc;

use lockhouse::{MemoryBudget, MemoryReservation};
use parking_lot::RwLock;

use super::network::Network;
use super::quotas::{Full, Permit, Quotas};
use super::rate_limiter::RateLimiters;
use super::refusals::{Refusals, Refused};
use crate::bounds::LATE_BODIES;
use crate::settings::LimitSettings;

/// All bounds of a server, and the use of each.
#[derive(Debug)]
pub(crate) struct Limiter {
    settings: RwLock<LimitSettings>,
    pub(crate) refusals: Refusals,
    pub(crate) rate_limiters: RateLimiters,
    networks: Quotas<Network>,
    tenants: Quotas<String>,
    bodies: Quotas<Option<Network>>,
    /// Streams of events, by tenant and by credential.
    pub(crate) streams: Quotas<String>,
    pub(crate) streams_of_credentials: Quotas<String>,
    /// Frames that the clients of each tenant have not taken yet.
    pub(crate) unread: MemoryBudget,
    /// The copies by which each tenant looks at its buckets.
    pub(crate) query_budget: MemoryBudget,
}

/// A place among the connections, kept as long as the connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPermit {
    #[expect(dead_code, reason = "kept for its end")]
    network: Arc<Permit<Network>>,
    /// The network that the connection comes from.
    pub(crate) from: Network,
}

/// A place among the WebSockets of a tenant.
#[derive(Debug)]
pub(crate) struct TenantPermit {
    #[expect(dead_code, reason = "kept for its end")]
    tenant: Permit<String>,
}

impl Limiter {
    pub(crate) fn new(settings: LimitSettings) -> Self {
        Self {
            settings: RwLock::new(settings),
            refusals: Refusals::default(),
            rate_limiters: RateLimiters::default(),
            networks: Quotas::default(),
            tenants: Quotas::default(),
            bodies: Quotas::default(),
            streams: Quotas::default(),
            streams_of_credentials: Quotas::default(),
            unread: MemoryBudget::new(settings.unread_bytes()),
            query_budget: MemoryBudget::new(settings.table_bytes()),
        }
    }

    /// The present settings of the operators.
    pub(crate) fn settings(&self) -> LimitSettings {
        *self.settings.read()
    }

    /// Takes other settings over, as far as that is possible at run time.
    pub(crate) fn reload(&self, settings: LimitSettings) {
        let mut present = self.settings.write();
        *present = settings.reloaded_over(&present);
        self.unread.set(present.unread_bytes());
        self.query_budget.set(present.table_bytes());
    }

    /// Counts the refusal and gives it back.
    pub(crate) fn refuse(&self, kind: Refused) -> Refused {
        self.refusals.count(kind);
        kind
    }

    /// A place for a connection from there.
    pub(crate) fn admit(&self, from: IpAddr) -> Result<ConnectionPermit, Refused> {
        self.admit_from(from.into())
    }

    /// As [`admit`](Self::admit), of a connection that has come to another node.
    pub(crate) fn admit_from(&self, from: Network) -> Result<ConnectionPermit, Refused> {
        let LimitSettings { connections, connections_per_address, .. } = self.settings();
        let permit = self
            .networks
            .take(from, connections as usize, connections_per_address as usize)
            .map_err(|full| match full {
                Full::All => self.refuse(Refused::Connections),
                Full::Each => self.refuse(Refused::ConnectionsPerAddress),
            })?;
        Ok(ConnectionPermit { network: Arc::new(permit), from })
    }

    /// A place for a WebSocket of that tenant.
    pub(crate) fn admit_tenant(&self, tenant: &str) -> Result<TenantPermit, Refused> {
        let LimitSettings { connections, connections_per_tenant, .. } = self.settings();
        let permit = self
            .tenants
            .take(tenant.to_owned(), connections as usize, connections_per_tenant as usize)
            .map_err(|full| match full {
                Full::All => self.refuse(Refused::Connections),
                Full::Each => self.refuse(Refused::ConnectionsPerTenant),
            })?;
        Ok(TenantPermit { tenant: permit })
    }

    /// A place for a large body that is waited for; none if there are too many, in all or from there.
    pub(crate) fn await_body(&self, from: Option<Network>) -> Option<Permit<Option<Network>>> {
        self.bodies.take(from, LATE_BODIES, LATE_BODIES).ok()
    }

    /// Charges the tenant for what an admitted call has cost beyond that.
    pub(crate) fn charge_call(&self, tenant: &str, count: u32) {
        self.rate_limiters.charge_call(tenant, count, self.settings().tenant_rate);
    }

    /// Memory for a copy of so many bytes of a bucket of that tenant, reserved as long as the copy lives;
    /// none while the copies of the tenant take together as much as its tables may. A tenant without another
    /// copy may copy any bucket.
    pub(crate) fn reserve_for_query(&self, tenant: &str, bytes: usize) -> Option<Arc<MemoryReservation>> {
        let mut memory = self.query_budget.of(tenant);
        memory.reserve(bytes.min(self.settings().table_bytes())).ok()?;
        Some(Arc::new(memory))
    }

    /// The number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.networks.len()
    }
}
