//! Seats of a hall, claimed while paying: a sample application of lockhouse's claims.
//!
//! ```text
//!   web        routes, cookies, live updates
//!    └─▶ office     what may be done with a seat, by way of claims     ─▶ lockhouse, seats.db
//!         └─▶ payments   what the bank was asked for                   ─▶ payments.db
//!   pages      how it looks
//! ```

mod hall;
mod office;
mod pages;
mod payments;
mod web;

pub use hall::{NoSuchSeat, Seat};
pub use office::{BoxOffice, Hold, Occupancy, OfficeError, PaymentMethod, Progress, Standing, Stub};
pub use payments::{Payment, Payments};
pub use web::serve;
