//! The terminal that this process and its command share.

use std::fs::File;

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The controlling terminal.
pub(super) struct Terminal(File);

impl Terminal {
    /// The terminal of this process, if it has one.
    pub(super) fn open() -> Option<Self> {
        File::open("/dev/tty").ok().map(Self)
    }

    /// Whether this process group is the one that reads the terminal, and gets the signals typed there.
    pub(super) fn is_ours(&self) -> bool {
        self.is_of(getpgrp())
    }

    /// Whether that process group is the one.
    pub(super) fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|foreground| foreground == group)
    }

    /// Gives the terminal to that process group.
    pub(super) fn give_to(&self, group: Pid) {
        // A process in the background is stopped by SIGTTOU here unless it blocks the signal.
        let blocked = SigSet::from(Blocked::SIGTTOU);
        if let Ok(former) = blocked.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK) {
            // The group may have ended, or the terminal been closed.
            _ = tcsetpgrp(&self.0, group);
            _ = former.thread_set_mask();
        }
    }
}
