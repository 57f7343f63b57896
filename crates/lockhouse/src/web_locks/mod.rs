//! Web Locks: agents, their requests, and the guards of their locks.

pub(crate) mod agent;
pub(crate) mod all;
pub(crate) mod backend;
pub(crate) mod guard;
pub(crate) mod local_agent;
pub(crate) mod local_request;
pub(crate) mod locks;
pub(crate) mod options;
pub(crate) mod request;
