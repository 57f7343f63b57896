//! How much of the server anybody may have: what operators set, who is there, and what was refused.
//!
//! ```text
//!   TcpListener ─▶ admit: connections, each address ─▶ Watched: half a head, idle, a peer that takes nothing
//!        upgrade ─▶ hello in time ─▶ admit_tenant: connections ─▶ register: sessions ─▶ buckets ─▶ pace of session and tenant
//!        call ─▶ body in time ─▶ pace of the tenant ─▶ buckets ─▶ the bounds of the bucket (lockhouse::Limits)
//! ```

mod derived;
mod descriptors;
#[cfg(test)]
mod inventory;
mod pace;
mod refusals;
mod shares;
mod watched;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use lockhouse::{Bucket, Room, Rooms};
use lockhouse_wire::NUMBER_LIMIT;
use parking_lot::RwLock;

use crate::bounds::LATE_BODIES;
use crate::settings::LimitSettings;

pub(crate) use self::derived::{BUCKET_LIMITS, house_options, wire_limits};
pub use self::descriptors::fit_open_files;
pub(crate) use self::pace::{Pace, Paces, Turns};
pub(crate) use self::refusals::Refusals;
pub use self::refusals::Refused;
pub(crate) use self::shares::{Full, Share, Shares};
pub(crate) use self::watched::Watched;

/// For how long a bound that others have reached is asked after in vain, about.
pub(crate) const QUOTA: Duration = Duration::from_secs(1);

/// When to ask again, as clients are told: in whole milliseconds, rounded up, as whoever comes earlier comes in vain.
pub(crate) fn told_ms(pause: Duration) -> u64 {
    let ms = pause.as_nanos().div_ceil(1_000_000);
    ms.clamp(1, u128::from(NUMBER_LIMIT) - 1) as u64
}

/// All bounds of a server, and who has how much.
#[derive(Debug)]
pub(crate) struct Bounds {
    settings: RwLock<LimitSettings>,
    pub(crate) refusals: Refusals,
    pub(crate) paces: Paces,
    networks: Shares<Network>,
    tenants: Shares<String>,
    bodies: Shares<Option<Network>>,
    /// What the clients of each tenant have not taken yet.
    pub(crate) unread: Rooms,
    /// The copies by which each tenant looks at its buckets.
    pub(crate) looks: Rooms,
}

/// Where connections come from that are counted together: an address, or of IPv6 a network of 64 bits, as whoever has one has all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Network {
    V4(Ipv4Addr),
    V6([u16; 4]),
}

/// A place among the connections, kept as long as the connection.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    #[expect(dead_code, reason = "kept for its end")]
    network: Arc<Share<Network>>,
    /// Where it comes from.
    pub(crate) from: Network,
}

/// A place among the WebSockets of a tenant.
#[derive(Debug)]
pub(crate) struct TenantSeat {
    #[expect(dead_code, reason = "kept for its end")]
    tenant: Share<String>,
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(f),
            Self::V6([a, b, c, d]) => write!(f, "{}/64", Ipv6Addr::new(*a, *b, *c, *d, 0, 0, 0, 0)),
        }
    }
}

impl Bounds {
    pub(crate) fn new(settings: LimitSettings) -> Self {
        Self {
            settings: RwLock::new(settings),
            refusals: Refusals::default(),
            paces: Paces::default(),
            networks: Shares::default(),
            tenants: Shares::default(),
            bodies: Shares::default(),
            unread: Rooms::new(settings.unread_bytes()),
            looks: Rooms::new(settings.table_bytes()),
        }
    }

    /// What operators have set, at present.
    pub(crate) fn settings(&self) -> LimitSettings {
        *self.settings.read()
    }

    /// Takes other settings over, as far as that is possible at run time.
    pub(crate) fn reload(&self, settings: LimitSettings) {
        let mut present = self.settings.write();
        *present = settings.reloaded_over(&present);
        self.unread.set(present.unread_bytes());
        self.looks.set(present.table_bytes());
    }

    /// Counts the refusal and gives it back.
    pub(crate) fn refuse(&self, kind: Refused) -> Refused {
        self.refusals.count(kind);
        kind
    }

    /// A place for a connection from there.
    pub(crate) fn admit(&self, from: IpAddr) -> Result<Seat, Refused> {
        let LimitSettings { connections, connections_per_address, .. } = self.settings();
        let from = from.into();
        let share = self
            .networks
            .take(from, connections as usize, connections_per_address as usize)
            .map_err(|full| match full {
                Full::All => self.refuse(Refused::Connections),
                Full::Each => self.refuse(Refused::ConnectionsPerAddress),
            })?;
        Ok(Seat { network: Arc::new(share), from })
    }

    /// A place for a WebSocket of that tenant.
    pub(crate) fn admit_tenant(&self, tenant: &str) -> Result<TenantSeat, Refused> {
        let LimitSettings { connections, connections_per_tenant, .. } = self.settings();
        let share = self
            .tenants
            .take(tenant.to_owned(), connections as usize, connections_per_tenant as usize)
            .map_err(|full| match full {
                Full::All => self.refuse(Refused::Connections),
                Full::Each => self.refuse(Refused::ConnectionsPerTenant),
            })?;
        Ok(TenantSeat { tenant: share })
    }

    /// A place for a large body that is waited for; none if there are too many, in all or from there.
    pub(crate) fn await_body(&self, from: Option<Network>) -> Option<Share<Option<Network>>> {
        self.bodies.take(from, LATE_BODIES, LATE_BODIES).ok()
    }

    /// Charges the tenant for what an admitted call has cost beyond that.
    pub(crate) fn charge_call(&self, tenant: &str, count: u32) {
        self.paces.charge_call(tenant, count, self.settings().tenant_rate);
    }

    /// Room for a copy of all that is held and pending in the bucket, to be kept as long as the copy; none while the copies of the tenant have together what its tables
    /// may have. Who looks at nothing else may look at any bucket.
    pub(crate) fn room_to_look(&self, bucket: &Bucket) -> Option<Arc<Room>> {
        let mut room = self.looks.of(bucket.key().tenant());
        room.make(bucket.bytes_of_snapshot().min(self.settings().table_bytes())).ok()?;
        Some(Arc::new(room))
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.networks.len()
    }
}

/// What it costs to look at all entries of a bucket, in frames.
pub(crate) fn price_of_look(entries: usize) -> u32 {
    (entries / 16).try_into().unwrap_or(u32::MAX)
}

/// What it costs to tell so many bytes of them.
pub(crate) fn price_of_text(bytes: usize) -> u32 {
    (bytes / 512).try_into().unwrap_or(u32::MAX)
}

/// Work on a bucket with more entries is done apart.
const LARGE: usize = 10_000;

/// Does work on a bucket with so many entries; if it is much, so that the other tasks of this thread go on meanwhile on another one.
pub(crate) fn apart<T>(entries: usize, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        // A runtime with one thread has no other one.
        Ok(RuntimeFlavor::MultiThread) if entries > LARGE => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_together() {
        let network = |text: &str| Network::from(text.parse::<IpAddr>().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("10.0.0.2"), network("10.0.0.1"));
        assert_eq!(network("2001:db8::1").to_string(), "2001:db8::/64");
        assert_eq!(network("::ffff:10.0.0.1").to_string(), "10.0.0.1");
    }

    #[test]
    fn work_on_a_large_bucket_leaves_its_thread_to_others() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("threads");
        let done = runtime.block_on(async {
            let work = tokio::spawn(async {
                let (tell, told) = std::sync::mpsc::channel();
                tokio::spawn(async move { tell.send(()) });
                // The only worker waits for the other task.
                apart(LARGE + 1, || told.recv_timeout(Duration::from_secs(10)).is_ok())
            });
            work.await
        });
        assert!(done.is_ok_and(|done| done), "the other task had to wait");
    }
}
