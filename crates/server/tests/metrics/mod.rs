//! What a server tells those that watch it: metrics and logs.

mod access;
mod counts;
mod logs;
