//! `lockhouse top` in a pseudo-terminal whose screen can be read.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use vt100::{Color, Parser, Screen};

use crate::program;

/// So long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the program, shows how it ended, and keeps the terminal open: the end of the first process in a
/// terminal resets it.
const SHELL: &str = r#""$0" "$@"; echo "exit code $?."; exec cat"#;

/// A terminal in which the program runs; the program is ended when dropped.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<Seen>,
}

/// What the terminal shows.
struct Seen {
    parser: Mutex<Parser>,
    changed: Condvar,
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

impl Terminal {
    /// Runs it with these arguments in a terminal of 80×24.
    pub(crate) fn start(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let mut command = Command::new("sh").args(["-c", SHELL, program::lockhouse()]).args(arguments);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("LOCKHOUSE_") || name == "NO_COLOR") {
                command = command.env_remove(name);
            }
        }
        let child = command.envs(variables.iter().copied()).env("TERM", "xterm-256color");
        let child = child.current_dir(folder).spawn(pts).unwrap();
        let parser = Mutex::new(Parser::new(cells(24), cells(80), 0));
        let (pty, seen) = (Arc::new(pty), Arc::new(Seen { parser, changed: Condvar::new() }));
        let (output, shown) = (pty.clone(), seen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the last process in the terminal is an error, or the end.
            while let Ok(count @ 1..) = (&*output).read(&mut bytes) {
                shown.parser.lock().unwrap().process(&bytes[..count]);
                shown.changed.notify_all();
            }
        });
        Self { pty, child, seen }
    }

    /// Waits until that is seen, and returns all that is.
    #[track_caller]
    pub(crate) fn until(&self, is_seen: impl Fn(&str) -> bool) -> String {
        self.until_screen(|screen| is_seen(&screen.contents()))
    }

    /// As [`until`](Self::until), of all that a terminal knows of its screen.
    #[track_caller]
    pub(crate) fn until_screen(&self, is_seen: impl Fn(&Screen) -> bool) -> String {
        let parser = self.seen.parser.lock().unwrap();
        let is_absent = |parser: &mut Parser| !is_seen(parser.screen());
        let (parser, waited) = self.seen.changed.wait_timeout_while(parser, PATIENCE, is_absent).unwrap();
        let contents = parser.screen().contents();
        assert!(!waited.timed_out(), "not seen in\n{contents}");
        contents
    }

    /// Types these keys.
    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Gives it another size.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.seen.parser.lock().unwrap().set_size(cells(rows), cells(columns));
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// Sends the program a signal.
    pub(crate) fn send(&self, signal: Signal) {
        let shell = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let program: i32 = children.trim().parse().unwrap();
        kill_process(Pid::from_raw(program).unwrap(), signal).unwrap();
    }

    /// Whether it reads lines and shows what is typed, as terminals do for shells.
    pub(crate) fn reads_lines(&self) -> bool {
        tcgetattr(&*self.pty).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for the end of the program, and for the screen that was there before. Returns the exit code, and
    /// all that is seen.
    #[track_caller]
    pub(crate) fn ended(&self) -> (String, String) {
        let seen = self.until_screen(|screen| {
            let is_of_before = !screen.alternate_screen() && !screen.hide_cursor();
            is_of_before && screen.contents().contains("exit code ")
        });
        let code = seen.split_once("exit code ").and_then(|(_, rest)| rest.split_once('.')).unwrap().0;
        (code.to_owned(), seen)
    }
}

/// The colours of all cells, without those of the terminal's own.
pub(crate) fn colors(screen: &Screen) -> Vec<Color> {
    let (rows, columns) = screen.size();
    let places = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
    let cells = places.filter_map(|(row, column)| screen.cell(row, column));
    let colors = cells.flat_map(|cell| [cell.fgcolor(), cell.bgcolor()]);
    colors.filter(|color| *color != Color::Default).collect()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The process may have ended before.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
