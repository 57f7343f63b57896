//! A server from its start to its end: it listens, accepts connections, takes settings anew, and drains.

mod accept;
mod bind;
mod drain;
mod life;
mod reload;

pub use self::bind::{BindError, Listener, Reserved, bind, bind_metrics, reserve, reserve_metrics};
pub use self::life::{Server, router, serve};
pub use self::reload::{AuthenticationStays, NotReloaded};
