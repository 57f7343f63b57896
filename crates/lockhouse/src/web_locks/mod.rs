//! Web Locks: agents, their requests, and the guards of what they hold.

pub(crate) mod agent;
pub(crate) mod all;
pub(crate) mod guard;
pub(crate) mod local;
pub(crate) mod locks;
pub(crate) mod request;
