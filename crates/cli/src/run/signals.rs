//! Signals that a command passes on.

use std::future::poll_fn;
use std::io;
use std::ops::RangeInclusive;
use std::task::{Context, Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The signals with names.
const NAMED: RangeInclusive<i32> = 1..=31;
/// The real-time signals that a program may use, where there are some.
const REAL_TIME: RangeInclusive<i32> = 34..=64;

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) number: i32,
    /// The signal to be sent in its place: the same, but SIGTERM for a real-time signal, which would end the
    /// command as well and cannot be sent by a safe call.
    pub(super) signal: Signal,
}

/// The signals that came to this process, but those that were ignored when it was started.
pub(super) struct Signals(Vec<(Received, unix::Signal)>);

impl Signals {
    /// Listens to every signal that would end this process.
    pub(super) fn listen() -> io::Result<Self> {
        let named = NAMED.filter_map(|number| {
            let signal = Signal::from_named_raw(number).filter(|signal| would_end(*signal))?;
            Some(Received { number, signal })
        });
        let mut signals = Self(Vec::new());
        signals.add(named)?;
        // The system may have fewer of them.
        for number in REAL_TIME.filter(|_| cfg!(target_os = "linux")) {
            _ = signals.add([Received { number, signal: Signal::TERM }]);
        }
        Ok(signals)
    }

    /// Listens to those of job control, too, and to a change of the terminal's size: there is a command which
    /// they are for.
    pub(super) fn listen_to_job_control(&mut self) -> io::Result<()> {
        let signals = [Signal::TSTP, Signal::CONT, Signal::WINCH];
        self.add(signals.map(|signal| Received { number: signal.as_raw(), signal }))
    }

    fn add(&mut self, signals: impl IntoIterator<Item = Received>) -> io::Result<()> {
        let ignored = ignored();
        for received in signals.into_iter().filter(|received| ignored & 1 << (received.number - 1) == 0) {
            self.0.push((received, unix::signal(SignalKind::from_raw(received.number))?));
        }
        Ok(())
    }

    /// The next signal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Received {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Waits for a signal that would end this process. Others have no command any more that they could be
    /// for.
    pub(super) async fn ending(&mut self) {
        while !would_end(self.next().await.signal) {}
    }

    /// A signal that has come already.
    pub(super) async fn pending(&mut self) -> Option<Received> {
        // The runtime looks at what has come from outside before it goes on.
        tokio::task::yield_now().await;
        poll_fn(|context| match self.poll_next(context) {
            Poll::Ready(received) => Poll::Ready(Some(received)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Received> {
        let mut come = self
            .0
            .iter_mut()
            .filter_map(|(received, listener)| listener.poll_recv(context).is_ready().then_some(*received));
        come.next().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Whether the signal ends a process that does nothing about it. Those of faults are raised by the process
/// itself, and a broken pipe is an error of the write.
fn would_end(signal: Signal) -> bool {
    let cannot_be_caught = matches!(signal, Signal::KILL | Signal::STOP);
    let is_of_a_fault = matches!(signal, Signal::ILL | Signal::FPE | Signal::SEGV | Signal::BUS);
    let is_of_job_control = matches!(signal, Signal::TSTP | Signal::TTIN | Signal::TTOU | Signal::CONT);
    let is_unheeded = matches!(signal, Signal::CHILD | Signal::URG | Signal::WINCH | Signal::PIPE);
    !(cannot_be_caught || is_of_a_fault || is_of_job_control || is_unheeded)
}

/// The signals that are ignored, such as SIGHUP below nohup, as a mask; none where the system does not report
/// them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
