//! The lockhouse server: the lock tables of a [`lockhouse::House`] over WebSockets and HTTP, and all around
//! them.
//!
//! ```text
//!   TcpListener ─▶ tls ─▶ connection ─▶ router ─▶ upgrade ─▶ hello ─▶ session ─▶ lockhouse::Port
//!                                         ├▶ http: owners, locks, claims, queries
//!                                         └▶ /healthz, /readyz, dashboard
//! ```
//!
//! Folders import one way only, each from those to its right; folders on one line do not import each other:
//!
//! ```text
//!   server        bind, accept, drain, reload: what starts and stops
//!     └▶ connection ─▶ router ─▶ upgrade ─▶ session ─┐
//!                        └─────▶ http ───────────────┴▶ state      what handlers and sessions need
//!                                                        └▶ websocket, store, idempotency, warm_buckets
//!                                                             └▶ houses ─▶ cluster ─────────┐
//!                                                             └▶ audit, config ─▶ auth ─────┴▶ tls
//!                                                                  └▶ access, limits ─▶ settings ─▶ bounds
//! ```
//!
//! [`serve`] is all that a program with a server inside needs; [`router()`] is for programs that bring their
//! own HTTP server.

mod access;
mod audit;
pub mod auth;
mod bounds;
mod clock;
mod cluster;
mod config;
mod connection;
mod houses;
#[allow(unused_qualifications, reason = "in what the macros of utoipa write")]
mod http;
mod idempotency;
mod limits;
mod metrics;
mod page;
mod random;
mod router;
mod server;
mod session;
mod settings;
mod state;
mod store;
mod tls;
mod upgrade;
mod warm_buckets;
mod websocket;

pub use config::{Config, DroppedLines};
pub use limits::{Refused, fit_open_files};
pub use router::REQUEST_TARGET;
pub use server::{
    AuthenticationStays, BindError, Listener, NotReloaded, Reserved, Server, bind, bind_metrics, reserve,
    reserve_metrics, router, serve,
};
pub use settings::{
    BreakReason, ClientAuth, ClusterSettings, FlagValue, HistorySettings, InvalidOrigin, Key, Lease,
    LeaseOutOfRange, LimitOutOfRange, LimitSetting, LimitSettings, LimitValue, LoadedSettings, Location,
    LogFormat, LogSettings, MetricsSettings, NoNodeUrl, NoStore, NodeUrl, Origin, PostgresUrl, Settings,
    SettingsProblem, Sources, StoreChoice, TlsSettings, keys,
};
pub use store::{OpenStoreError, operator_file};
pub use tls::{Files, Tls, TlsError, fingerprint};
