//! A store in one database file of SQLite.
//!
//! ```text
//!   take_slot, commit, backup, close
//!        │ Job, with a channel for the answer
//!        ▼
//!   worker: a thread of its own ──▶ apply: CommitBatch to rows ──▶ one transaction per commit
//!                               ──▶ log:   moved into the file, behind a commit now and then
//!                               ──▶ load:  rows to RecoveredRow
//! ```

mod apply;
mod backup;
mod error;
mod file;
mod history;
mod load;
mod log;
mod schema;
mod statements;
mod voided;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use tokio::sync::{mpsc as batches, oneshot};

#[cfg(feature = "postgres")]
pub(crate) use backup::private_copy;
pub use backup::{RestoreError, Restored, restore};
pub use error::SqliteOpenError;
#[cfg(feature = "postgres")]
pub(crate) use error::said;
pub use file::{DatabaseFile, SqliteLook, look_at_sqlite};

use crate::{
    BackupError, CommitBatch, CommitOutcome, Fatal, HistoryBounds, HistoryError, HistoryPage, HistoryQuery,
    Opened, RecoveredRow, Slot, Store, StoreFuture, TakeError, WriterId,
};
use worker::{Job, Workplace};

/// The most batches of a load that may wait to be visited.
const BATCHES_AHEAD: usize = 4;

/// A store in one database file, which no other process may use meanwhile. The store has [`Slot::ONLY`].
///
/// Committed batches survive `kill -9` and the loss of power. The file has a key in it, so only its owner may
/// read it.
///
/// Dropping the store ends it as well, a moment later; only [`close`](Store::close) answers when it has
/// ended.
#[derive(Debug)]
pub struct SqliteStore {
    place: Box<str>,
    file: DatabaseFile,
    jobs: Sender<Job>,
}

impl SqliteStore {
    /// Opens the file, or makes it with mode 0600. Blocks for as long as it takes to read the whole file
    /// once.
    ///
    /// # Errors
    ///
    /// [`SqliteOpenError`]; nothing on the disk was changed then.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SqliteOpenError> {
        Self::open_keeping(path, HistoryBounds::DEFAULT)
    }

    /// As [`open`](Self::open), with bounds of the history of one's own.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_keeping(path: impl AsRef<Path>, history: HistoryBounds) -> Result<Self, SqliteOpenError> {
        Self::open_with(path.as_ref(), schema::STEPS, history)
    }

    fn open_with(path: &Path, steps: &[&str], history: HistoryBounds) -> Result<Self, SqliteOpenError> {
        let given = path;
        let path = file::resolve(path).map_err(|error| SqliteOpenError::io(path, &error))?;
        let connection = file::open(&path, steps)?;
        let file = DatabaseFile::new(given, &path).map_err(|error| SqliteOpenError::io(&path, &error))?;
        let workplace = Workplace::new(file.clone(), connection, history)
            .map_err(|error| SqliteOpenError::sqlite(&path, &error))?;
        let (jobs, incoming) = mpsc::channel();
        std::thread::Builder::new()
            .name("lockhouse-sqlite".to_owned())
            .spawn(move || workplace.work(&incoming))
            .map_err(|error| SqliteOpenError::System { path: path.clone(), why: error.to_string().into() })?;
        Ok(Self { place: path.display().to_string().into(), file, jobs })
    }

    /// The file that is open, which a commit finds gone, and otherwise only those that look.
    pub fn file(&self) -> &DatabaseFile {
        &self.file
    }

    /// The jobs under way are done first; if the answer never comes, the thread has ended.
    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, Fatal> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(job(reply)).map_err(|_| self.closed())?;
        answer.await.map_err(|_| self.closed())
    }

    fn closed(&self) -> Fatal {
        Fatal::Closed { place: self.place.clone() }
    }
}

impl Store for SqliteStore {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        Box::pin(async move {
            let (rows, mut incoming) = batches::channel(BATCHES_AHEAD);
            let (reply, answer) = oneshot::channel();
            self.jobs.send(Job::Take { slot, writer, rows, reply }).map_err(|_| self.closed())?;
            while let Some(batch) = incoming.recv().await {
                batch.into_iter().for_each(&mut *visit);
            }
            answer.await.map_err(|_| self.closed())?
        })
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move { self.ask(|reply| Job::Commit { batches, reply }).await? })
    }

    fn history(&self, query: HistoryQuery) -> StoreFuture<'_, Result<HistoryPage, HistoryError>> {
        Box::pin(async move { self.ask(|reply| Job::History { query, reply }).await? })
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        Box::pin(async move { self.ask(|reply| Job::Backup { to, reply }).await? })
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        Box::pin(async move { self.ask(|reply| Job::Close { reply }).await? })
    }
}

#[cfg(test)]
mod tests;
