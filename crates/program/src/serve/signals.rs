//! The signals that a server takes.

use std::fs::{self, File};
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The terminal that the process belongs to.
const TERMINAL: &str = "/dev/tty";

/// SIGTERM and SIGINT.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// The meaning of SIGHUP for this process, by its state at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hangup {
    /// A request to reload the settings, whatever becomes of a terminal.
    Reloads,
    /// The end of the server where its terminal is gone, and otherwise a request to reload.
    EndsWithTerminal,
}

impl StopSignals {
    pub(super) fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt })
    }

    /// The first signal is for `stop`, the next one for `now`.
    pub(super) async fn run(mut self, stop: CancellationToken, now: CancellationToken) {
        self.next().await;
        stop.cancel();
        self.next().await;
        now.cancel();
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

impl Hangup {
    /// Before the server takes the signal: `nohup`, for one, has it ignored, and a service manager gives no
    /// terminal.
    pub(super) fn at_start() -> Self {
        if is_ignored() || File::open(TERMINAL).is_err() { Self::Reloads } else { Self::EndsWithTerminal }
    }

    /// Whether the signal that has come ends the server.
    pub(super) fn ends(self) -> bool {
        let gone = rustix::io::Errno::NXIO.raw_os_error();
        self == Self::EndsWithTerminal
            && File::open(TERMINAL).is_err_and(|error| error.raw_os_error() == Some(gone))
    }
}

/// Whether SIGHUP is ignored, as Linux reports it. Elsewhere it counts as ignored.
fn is_ignored() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return true };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal 1 is the lowest bit.
    mask.is_none_or(|mask| mask & 1 != 0)
}
