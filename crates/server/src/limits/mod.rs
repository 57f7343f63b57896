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
mod limiter;
mod network;
mod prices;
mod rate;
mod refusals;
mod shares;
mod turns;

pub(crate) use self::derived::{BUCKET_LIMITS, house_options, wire_limits};
pub use self::descriptors::fit_open_files;
pub(crate) use self::limiter::{Bounds, Seat, TenantSeat};
pub(crate) use self::network::Network;
pub(crate) use self::prices::{apart, price_of_look, price_of_text};
pub(crate) use self::rate::Pace;
pub use self::refusals::Refused;
pub(crate) use self::refusals::{QUOTA, told_ms};
pub(crate) use self::shares::{Full, Share, Shares};
pub(crate) use self::turns::Turns;
