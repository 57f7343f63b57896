//! The clients that may talk to a server without authentication: programs of this machine, and pages of
//! allowed origins.
//!
//! The `Host` check keeps away pages that were given this machine's address under a name of their own; the
//! `Origin` check keeps away pages of other sites. [`Initiator`] separates pages from programs where there is
//! authentication. Sites partition what pages share.

mod check;
mod hosts;
mod initiator;
mod sites;

pub(crate) use self::check::{Denied, check_host, check_origin};
pub(crate) use self::hosts::is_for_loopback;
pub(crate) use self::initiator::Initiator;
pub(crate) use self::sites::{is_list_of_origins, partition};
