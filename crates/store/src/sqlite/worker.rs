//! The thread that owns the file.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::{mpsc, oneshot};

use super::apply::CachedBucket;
use super::error::{Trouble, said};
use super::file::DatabaseFile;
use super::log::Log;
use super::statements::Statements;
use super::{apply, backup, history, load};
use crate::state::writer::WriterState;
use crate::{
    BackupError, CommitBatch, CommitOutcome, Fatal, HistoryBounds, HistoryError, HistoryPage, HistoryQuery,
    Opened, RecoveredRow, Slot, TakeError, WriterId,
};

/// A job for the thread.
pub(crate) enum Job {
    Take {
        slot: Slot,
        writer: WriterId,
        rows: mpsc::Sender<Vec<RecoveredRow>>,
        reply: oneshot::Sender<Result<Opened, TakeError>>,
    },
    Commit {
        batches: Vec<Arc<CommitBatch>>,
        reply: oneshot::Sender<Result<Vec<CommitOutcome>, Fatal>>,
    },
    History {
        query: HistoryQuery,
        reply: oneshot::Sender<Result<HistoryPage, HistoryError>>,
    },
    Backup {
        to: PathBuf,
        reply: oneshot::Sender<Result<(), BackupError>>,
    },
    Close {
        reply: oneshot::Sender<Result<(), Fatal>>,
    },
}

/// The file, and its properties before the first job.
pub(crate) struct Workplace {
    file: Connection,
    log: Log,
    identity: DatabaseFile,
    place: Box<str>,
    history: history::HistoryBound,
}

impl Workplace {
    pub(crate) fn new(
        identity: DatabaseFile,
        mut file: Connection,
        history: HistoryBounds,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            log: Log::watch(&mut file)?,
            file,
            place: identity.place().into(),
            identity,
            history: history::HistoryBound::new(history),
        })
    }

    /// Works until the store is closed or dropped.
    pub(crate) fn work(self, jobs: &Receiver<Job>) {
        if let Some(reply) = Worker::at(&self).run(jobs) {
            let closed = self.file.close();
            let fatal = |(_, error)| Fatal::Io { place: self.place, why: said(&error) };
            let _ = reply.send(closed.map_err(fatal));
        }
    }
}

struct Worker<'f> {
    at: &'f Workplace,
    statements: Statements<'f>,
    /// The state of the writer, once a writer has taken the slot.
    writer_state: Cell<WriterState>,
    /// The bucket of the last commit.
    bucket: Cell<CachedBucket>,
    /// Once this is set, no further job is tried.
    fatal: RefCell<Option<Fatal>>,
    /// The jobs that came while a backup was being written and cannot run beside it.
    deferred: RefCell<VecDeque<Job>>,
}

impl<'f> Worker<'f> {
    fn at(at: &'f Workplace) -> Self {
        Self {
            at,
            statements: Statements::of(&at.file),
            writer_state: Cell::new(WriterState::begin(0, WriterId(0))),
            bucket: Cell::default(),
            fatal: RefCell::new(None),
            deferred: RefCell::default(),
        }
    }

    /// Works until the store is dropped or closed. If it was closed, a caller waits for the answer, and its
    /// channel is returned.
    fn run(self, jobs: &Receiver<Job>) -> Option<oneshot::Sender<Result<(), Fatal>>> {
        loop {
            let deferred = self.deferred.borrow_mut().pop_front();
            match deferred.map_or_else(|| jobs.recv(), Ok) {
                Ok(Job::Backup { to, reply }) => {
                    let _ = reply.send(self.backup(&to, jobs));
                }
                Ok(Job::Close { reply }) => return Some(reply),
                Ok(job) => self.work(job),
                Err(_) => return None,
            }
        }
    }

    fn work(&self, job: Job) {
        // A caller that is gone does not need its answer.
        match job {
            Job::Take { slot, writer, rows, reply } => drop(reply.send(self.take(slot, writer, &rows))),
            Job::Commit { batches, reply } => drop(reply.send(self.commit(&batches))),
            Job::History { reply, .. } if reply.is_closed() => {}
            Job::History { query, reply } => drop(reply.send(self.history(&query))),
            later => self.deferred.borrow_mut().push_back(later),
        }
    }

    fn take(
        &self,
        slot: Slot,
        writer: WriterId,
        rows: &mpsc::Sender<Vec<RecoveredRow>>,
    ) -> Result<Opened, TakeError> {
        self.check()?;
        if slot != Slot::ONLY {
            return Err(TakeError::NoSuchSlot(slot));
        }
        let taken = self.transact(|statements| apply::take(statements.file(), writer)).and_then(|opened| {
            self.writer_state.set(WriterState::begin(opened.epoch, writer));
            load::send_rows(&self.at.file, opened.tickets_since, rows)?;
            Ok(opened)
        });
        taken.map_err(|error| match self.classify(&error) {
            Trouble::Unavailable(why) => TakeError::Unavailable(why),
            Trouble::Fatal(fatal) => TakeError::Fatal(fatal),
        })
    }

    fn commit(&self, batches: &[Arc<CommitBatch>]) -> Result<Vec<CommitOutcome>, Fatal> {
        self.check()?;
        // If the transaction fails, a bucket that it made is gone, too.
        let (mut writer_state, mut bucket) = (self.writer_state.get(), self.bucket.take());
        let error = match self
            .transact(|statements| self.apply(statements, &mut writer_state, &mut bucket, batches))
        {
            Ok(outcomes) => {
                // What was written to a file that is gone is not told.
                self.check_place()?;
                self.writer_state.set(writer_state);
                self.bucket.set(bucket);
                return Ok(outcomes);
            }
            Err(error) => error,
        };
        self.at.history.undone();
        match (self.classify(&error), batches) {
            (Trouble::Fatal(fatal), _) => Err(fatal),
            // The batch is refused, unless it did not need any space.
            (Trouble::Unavailable(why), [alone]) => Ok(vec![
                apply::settled_outcome(self.writer_state.get(), alone).unwrap_or(CommitOutcome::Refused(why)),
            ]),
            // A batch that is too large, or that was stored before, must not decide about the others.
            (Trouble::Unavailable(_), _) => batches
                .chunks(1)
                .map(|alone| self.commit(alone))
                .collect::<Result<Vec<_>, _>>()
                .map(|outcomes| outcomes.concat()),
        }
    }

    fn apply(
        &self,
        statements: &Statements<'_>,
        writer_state: &mut WriterState,
        bucket: &mut CachedBucket,
        batches: &[Arc<CommitBatch>],
    ) -> rusqlite::Result<Vec<CommitOutcome>> {
        let rows = self.at.history.added();
        let apply =
            |batch: &Arc<CommitBatch>| apply::apply_batch(statements, writer_state, bucket, batch, &rows);
        let outcomes = batches.iter().map(apply).collect::<Result<_, _>>()?;
        self.at.history.keep(statements.file(), &rows)?;
        Ok(outcomes)
    }

    /// Other jobs wait for no more than one page.
    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, HistoryError> {
        self.check()?;
        history::page(&self.at.file, query).map_err(|error| match error {
            error @ rusqlite::Error::SqliteFailure(..) => match self.classify(&error) {
                Trouble::Unavailable(why) => HistoryError::Unavailable(why),
                Trouble::Fatal(fatal) => HistoryError::Fatal(fatal),
            },
            // Nothing that is held depends on it.
            error => HistoryError::Unreadable(error.to_string().into()),
        })
    }

    /// Writes the backup page by page, and does other jobs between the pages.
    fn backup(&self, to: &Path, jobs: &Receiver<Job>) -> Result<(), BackupError> {
        self.check()?;
        backup::write(&self.at.file, to, || {
            while let Ok(job) = jobs.try_recv() {
                self.work(job);
            }
        })
    }

    fn transact<T>(&self, work: impl FnOnce(&Statements<'_>) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let run = |sql| self.statements.run(sql, []);
        run("BEGIN IMMEDIATE")?;
        let done = work(&self.statements).and_then(|done| run("COMMIT").map(|_| done));
        // Some errors have ended the transaction already.
        if done.is_err() && !self.at.file.is_autocommit() {
            let _ = run("ROLLBACK");
        }
        done.inspect(|_| self.shorten_log())
    }

    /// Committed batches stay durable whatever the result. Without space, the move is tried again behind the
    /// next commit. An error of the disk is answered to the next caller.
    fn shorten_log(&self) {
        if let Err(error) = self.at.log.shorten(&self.at.file) {
            self.classify(&error);
        }
    }

    fn check(&self) -> Result<(), Fatal> {
        self.fatal.borrow().clone().map_or(Ok(()), Err)
    }

    fn check_place(&self) -> Result<(), Fatal> {
        self.at.identity.check().inspect_err(|gone| *self.fatal.borrow_mut() = Some(gone.clone()))
    }

    fn classify(&self, error: &rusqlite::Error) -> Trouble {
        let trouble = Trouble::new(&self.at.place, error);
        if let Trouble::Fatal(fatal) = &trouble {
            *self.fatal.borrow_mut() = Some(fatal.clone());
        }
        if let Trouble::Fatal(Fatal::Io { .. }) = &trouble {
            // Closing would move the log into the file, whose state on the disk is unknown, and remove the
            // log.
            let _ = self.at.file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        trouble
    }
}
