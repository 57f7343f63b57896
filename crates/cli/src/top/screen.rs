//! The terminal while `top` has it.

use std::io::{self, IsTerminal};

use ratatui::DefaultTerminal;

/// The terminal with a screen of its own, which is given back when dropped, and at a panic before its words
/// are written.
pub(super) struct Screen(pub(super) DefaultTerminal);

impl Screen {
    /// Whether there is a terminal to read keys from and to draw on.
    pub(super) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Takes the terminal.
    pub(super) fn take() -> io::Result<Self> {
        // What fails midway is undone.
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where the terminal is gone, there is nothing to give back.
        _ = ratatui::try_restore();
    }
}
