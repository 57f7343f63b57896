//! The history as it grows: the file for the judge, and the counts of the run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use proofs::history::record::{Event, What};

use super::recorder::{line, now};
use super::tally::RunTally;

#[derive(Debug)]
pub(crate) struct HistoryWriter(Mutex<Pages>);

#[derive(Debug)]
struct Pages {
    file: BufWriter<File>,
    tally: RunTally,
    /// The first line that could not be written or understood.
    spoilt: Option<String>,
}

impl HistoryWriter {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(Self(Mutex::new(Pages { file, tally: RunTally::default(), spoilt: None })))
    }

    /// Takes a line of a worker.
    pub(crate) fn take(&self, line: &[u8]) {
        self.pages().take(line);
    }

    /// Writes an event of the harness itself.
    pub(crate) fn write(&self, at: u64, what: What) {
        let line = line(&Event { at, what });
        self.pages().take(line.trim_ascii_end());
    }

    pub(crate) fn write_now(&self, what: What) {
        self.write(now(), what);
    }

    pub(crate) fn tally<T>(&self, look: impl FnOnce(&mut RunTally) -> T) -> T {
        look(&mut self.pages().tally)
    }

    /// Brings everything to the file.
    ///
    /// # Errors
    ///
    /// A line could not be written or understood.
    pub(crate) fn close(&self) -> Result<()> {
        let mut pages = self.pages();
        pages.file.flush().context("cannot write the history")?;
        match pages.spoilt.take() {
            Some(why) => anyhow::bail!("the history is spoilt: {why}"),
            None => Ok(()),
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn take(&mut self, line: &[u8]) {
        let written = self.file.write_all(line).and_then(|()| self.file.write_all(b"\n"));
        let counted = self.tally.take(line);
        if let Err(error) = written.map_err(|error| error.to_string()).and(counted) {
            self.spoilt.get_or_insert(error);
        }
    }
}
