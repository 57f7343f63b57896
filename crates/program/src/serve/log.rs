//! The log of a server: one line an event, on stderr.

use std::env;
use std::io::{self, IsTerminal};

use lockhouse_server::{LogFormat, REQUEST_TARGET};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, filter_fn};
use tracing_subscriber::prelude::*;

/// Begins to log, as `RUST_LOG` says.
///
/// # Errors
///
/// The fault of `RUST_LOG`, in one line.
pub(super) fn begin(format: LogFormat) -> Result<(), String> {
    let filter = levels()?;
    let lines = tracing_subscriber::fmt::layer()
        // Where stderr is gone, a log line about that would panic, and nothing would be drained.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).with(filter_fn(holds_no_secret)).init();
    Ok(())
}

/// The levels that `RUST_LOG` asks for.
///
/// # Errors
///
/// Its fault, in one line.
pub(crate) fn levels() -> Result<EnvFilter, String> {
    let levels = env::var_os(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let levels = levels.to_string_lossy();
    let filter = EnvFilter::try_new(if levels.is_empty() { "info" } else { &levels })
        .map_err(|error| format!("RUST_LOG is {levels:?}, but must be levels of logs: {error}"))?;
    // A line has the id of its request, whichever levels the lines have.
    let spans: Result<Directive, _> = format!("{REQUEST_TARGET}=error").parse();
    Ok(filter.add_directive(spans.expect("a target and a level are a directive")))
}

/// Libraries below this program log in detail what they send and receive, such as the frames of a WebSocket;
/// this program does not.
fn holds_no_secret(line: &Metadata<'_>) -> bool {
    let is_ours = line.target().starts_with("lockhouse") || line.target() == "audit";
    is_ours || *line.level() <= Level::INFO
}
