//! The client of a lockhouse server: the same agents, requests and guards over a WebSocket
//! (`protocol/PROTOCOL.md`).
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let connection = lockhouse::remote::connect("http://127.0.0.1:7420").bucket("jobs").await?;
//! let agent = connection.agent("worker-1")?;
//! let lock = agent.locks().request("report").await?;
//! println!("held with token {}", lock.fencing_token());
//! lock.release().await?;
//! connection.close().await;
//! # Ok(()) }
//! ```
//!
//! ```text
//!   futures, guards, agents ──▶ [mutex: State] ◀── session task: read loop, write loop, clock
//!                                  │    │
//!                        requests, looks, outbox, lease
//! ```
//!
//! A fleet has several URLs, `connect(url).or(another)`: the client uses one that answers.
//!
//! Handles change the state and return; one task per connection does all that waits. A connection that breaks
//! is made anew and the session resumed. A session that ends takes its locks with it: their guards are
//! notified, and pending requests are made again in their order, save a steal under way, whose outcome is
//! unknown. If it ended because the server was started anew, the locks are reclaimed first: their guards go
//! on, with the same fencing tokens.
//!
//! # Leases
//!
//! The server grants our locks to others once it has received nothing for the lease. The client knows of that
//! before: it keeps a deadline of its own, 10 % earlier, and looks at it before every frame, grant, and read
//! of a token. Past it every guard is [lost](crate::LockGuard::lost) with
//! [`Loss::Expired`](crate::Loss::Expired). A process that was stopped may still run on for an instant before
//! it looks; against that the [fencing token](crate::LockGuard::fencing_token) protects.
//!
//! # TLS
//!
//! With the feature `tls`, URLs may begin with `https://` or `wss://`. A server is trusted if the system
//! trusts the CA of its certificate, or, with `Connect::ca`, if its certificate is from a CA of one's own.
//! With `Connect::certificate` the client presents a certificate, too.
//!
//! # Offline locks and claims
//!
//! [`Connection::owners`] and [`Connection::claims`] give the same types as a bucket in process. Owners and
//! claims live at the server and not in the session, and go over HTTP: [`http`] describes their failures.

pub(crate) mod agent;
mod connect;
mod connection;
mod error;
pub(crate) mod hold;
pub mod http;
mod question;
pub(crate) mod request;
mod session;
mod transport;
mod watch;

pub use connect::{Connect, connect};
pub use connection::Connection;
pub use error::ConnectError;
pub use session::status::ConnectionState;
pub use watch::Watch;
