//! Logs of servers that run in the process of a test. A package of its own, as `traces` is to be built in no
//! time.

use std::sync::Once;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// Has the servers in this process leave a log at the finest level, if traces are left.
pub fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let Some(log) = traces::log() else { return };
        let ours =
            ["lockhouse", "lockhouse_core", "lockhouse_server", "lockhouse_store", "lockhouse_wire", "audit"];
        let ours = ours.map(|target| (target, LevelFilter::TRACE));
        let layer =
            fmt::layer().with_ansi(false).with_writer(log).with_filter(Targets::new().with_targets(ours));
        // A test may have a listener of its own.
        _ = tracing_subscriber::registry().with(layer).try_init();
    });
}
