//! Signals that a command passes on.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::process::Child;
use tokio::signal::unix::{self, SignalKind};

/// The signals that end a program or notify it, unless they were ignored when this process was started.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let passed = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];
        let heeded = passed.into_iter().filter(|signal| ignored & 1 << (signal.as_raw() - 1) == 0);
        let listen = |signal: Signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
        heeded.map(listen).collect::<io::Result<_>>().map(Self)
    }

    /// The next signal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// A signal that has come already.
    pub(super) async fn pending(&mut self) -> Option<Signal> {
        // The runtime looks at what has come from outside before it goes on.
        tokio::task::yield_now().await;
        poll_fn(|context| match self.poll_next(context) {
            Poll::Ready(signal) => Poll::Ready(Some(signal)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Signal> {
        let mut come = self
            .0
            .iter_mut()
            .filter_map(|(signal, listener)| listener.poll_recv(context).is_ready().then_some(*signal));
        come.next().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Passes a signal on that came when the child was there, unless it has got it already: a typed signal goes
/// to all that run in the foreground of the terminal.
pub(super) fn pass_on(signal: Signal, child: &Child) {
    let is_typed = matches!(signal, Signal::INT | Signal::QUIT);
    if !(is_typed && is_foreground()) {
        send(signal, child);
    }
}

/// Whether signals typed at the terminal come to this process, wherever its output goes.
fn is_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|foreground| foreground == getpgrp()))
}

/// Sends a signal. A child that has ended and was waited for gets none.
pub(super) fn send(signal: Signal, child: &Child) {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
        // The child may have ended just now.
        _ = kill_process(pid, signal);
    }
}

/// The signals that are ignored, such as SIGHUP below nohup, as a mask; none where the system does not report
/// them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
