//! The log of a server: one line an event, on stderr.
//!
//! A thread of its own writes the lines: a reader that stands still, such as a terminal after Ctrl-S, keeps
//! no call waiting. The lines that it would keep waiting are dropped, counted, and reported once it reads
//! again.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use lockhouse_server::{DroppedLines, LogFormat, REQUEST_TARGET};
use serde_json::json;
use tracing::{Level, Metadata};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

/// The most lines that wait for the reader.
const LINES: usize = 4096;
/// The longest line that is written.
const LINE_BYTES: usize = 16 << 10;

/// The log, which is written while this is there. The drop waits for the reader, but for a second at most.
#[must_use]
pub(super) struct Log {
    losses: Losses,
    _writer: WorkerGuard,
}

impl Log {
    /// The count of the lines that were dropped.
    pub(super) fn dropped(&self) -> DroppedLines {
        let losses = self.losses.clone();
        DroppedLines::counted_by(move || losses.count())
    }
}

/// The lines that were dropped.
#[derive(Clone, Default)]
struct Losses {
    /// Those for which there was no space.
    unread: Arc<OnceLock<ErrorCounter>>,
    /// Those that were too long, or could not be written.
    unwritten: Arc<AtomicU64>,
}

impl Losses {
    fn count(&self) -> u64 {
        let unread = self.unread.get().map_or(0, ErrorCounter::dropped_lines);
        unread as u64 + self.unwritten.load(Ordering::Relaxed)
    }
}

/// Begins to log, as `RUST_LOG` says.
///
/// # Errors
///
/// The fault of `RUST_LOG`, in one line.
pub(super) fn begin(format: LogFormat) -> Result<Log, String> {
    let filter = levels()?;
    let losses = Losses::default();
    let stderr = Reporting { format, losses: losses.clone(), reported: 0 };
    let (queue, writer) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES)
        .thread_name("log")
        .finish(stderr);
    _ = losses.unread.set(queue.error_counter());
    let lines = tracing_subscriber::fmt::layer()
        // Where stderr is gone, a log line about that would panic, and nothing would be drained.
        .log_internal_errors(false)
        .with_writer(Bounded { queue, unwritten: losses.unwritten.clone() });
    let lines = match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).with(filter_fn(holds_no_secret)).init();
    // The usual report of a panic would wait for the reader.
    panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(Log { losses, _writer: writer })
}

/// Puts lines into the queue, but for those that are too long.
struct Bounded {
    queue: NonBlocking,
    unwritten: Arc<AtomicU64>,
}

impl<'w> MakeWriter<'w> for Bounded {
    type Writer = BoundedLine<'w>;

    fn make_writer(&'w self) -> Self::Writer {
        BoundedLine(self)
    }
}

/// A line, which comes in one write.
struct BoundedLine<'w>(&'w Bounded);

impl Write for BoundedLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if line.len() > LINE_BYTES {
            self.0.unwritten.fetch_add(1, Ordering::Relaxed);
            return Ok(line.len());
        }
        self.0.queue.clone().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// stderr, on the thread that may wait for its reader.
struct Reporting {
    format: LogFormat,
    losses: Losses,
    /// The number of lost lines that was reported.
    reported: u64,
}

impl Write for Reporting {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // What cannot be written is lost: a file system may be full, and the reader gone.
        match io::stderr().write_all(line) {
            Ok(()) => self.report(),
            Err(_) => _ = self.losses.unwritten.fetch_add(1, Ordering::Relaxed),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl Reporting {
    /// Reports the lines that were dropped since the last time, whatever levels are shown.
    fn report(&mut self) {
        let dropped = self.losses.count();
        let lines = dropped - self.reported;
        if lines == 0 {
            return;
        }
        let now = humantime::format_rfc3339_micros(SystemTime::now());
        let line = match self.format {
            LogFormat::Text => format!("{now}  WARN lockhouse::log: {DROPPED} lines={lines}"),
            LogFormat::Json => json!({
                "timestamp": now.to_string(), "level": "WARN", "message": DROPPED, "lines": lines,
                "target": "lockhouse::log",
            })
            .to_string(),
        };
        if writeln!(io::stderr(), "{line}").is_ok() {
            self.reported = dropped;
        }
    }
}

const DROPPED: &str =
    "lines of the log were dropped: its reader did not keep up, or they could not be written";

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
