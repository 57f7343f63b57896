//! The share of the server that a client may have: the settings of operators, the present users, and the
//! refusals.
//!
//! ```text
//!   TcpListener ─▶ admit: connections, each address
//!               ─▶ TimeoutStream: half a head, idle, a peer that takes nothing
//!        upgrade ─▶ hello in time ─▶ admit_tenant: connections ─▶ register: sessions ─▶ buckets
//!                ─▶ rates of session and tenant
//!        call ─▶ body in time ─▶ rate of the tenant ─▶ buckets
//!             ─▶ the bounds of the bucket (lockhouse::Limits)
//! ```

mod derived;
mod descriptors;
mod fair_turns;
#[cfg(test)]
mod inventory;
mod limiter;
mod network;
mod prices;
mod quotas;
mod rate_limiter;
mod refusals;

pub(crate) use self::derived::{BUCKET_LIMITS, house_options, wire_limits};
pub use self::descriptors::fit_open_files;
pub(crate) use self::fair_turns::FairTurns;
pub(crate) use self::limiter::{ConnectionPermit, Limiter, TenantPermit};
pub(crate) use self::network::Network;
pub(crate) use self::prices::{block_in_place_if_large, price_of_query, price_of_text};
pub(crate) use self::quotas::{Full, Permit, Quotas};
pub(crate) use self::rate_limiter::RateLimiter;
pub use self::refusals::Refused;
pub(crate) use self::refusals::{LOG_EVERY, QUOTA, announced_ms};
