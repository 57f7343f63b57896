//! The thread that has the file.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::{mpsc, oneshot};

use super::error::{Trouble, said};
use super::log::Log;
use super::{apply, backup, history, load};
use crate::turn::Turn;
use crate::{BackupError, Fatal, Fate, Kept, Opened, Section, Slot, TakeError, WriterId};

/// What is asked of the thread.
pub(crate) enum Job {
    Take {
        slot: Slot,
        writer: WriterId,
        kept: mpsc::Sender<Vec<Kept>>,
        reply: oneshot::Sender<Result<Opened, TakeError>>,
    },
    Commit {
        sections: Vec<Arc<Section>>,
        reply: oneshot::Sender<Result<Vec<Fate>, Fatal>>,
    },
    Backup {
        to: PathBuf,
        reply: oneshot::Sender<Result<(), BackupError>>,
    },
    Close {
        reply: oneshot::Sender<Result<(), Fatal>>,
    },
}

pub(crate) struct Worker {
    file: Connection,
    log: Log,
    place: Box<str>,
    /// Who writes, once somebody has taken the slot.
    turn: Cell<Turn>,
    history: history::Bound,
    /// Once set, nothing is tried any more.
    fatal: RefCell<Option<Fatal>>,
    /// What came while a backup was being written and cannot be done beside it.
    deferred: RefCell<VecDeque<Job>>,
}

impl Worker {
    pub(crate) fn new(path: &Path, mut file: Connection, history_rows: u64) -> rusqlite::Result<Self> {
        Ok(Self {
            log: Log::watch(&mut file)?,
            file,
            place: path.display().to_string().into(),
            turn: Cell::new(Turn::begin(0, WriterId(0))),
            history: history::Bound::new(history_rows),
            fatal: RefCell::new(None),
            deferred: RefCell::default(),
        })
    }

    /// Works until the store is closed or dropped.
    pub(crate) fn run(self, jobs: &Receiver<Job>) {
        loop {
            let deferred = self.deferred.borrow_mut().pop_front();
            match deferred.map_or_else(|| jobs.recv(), Ok) {
                Ok(Job::Backup { to, reply }) => {
                    let _ = reply.send(self.backup(&to, jobs));
                }
                Ok(Job::Close { reply }) => {
                    let closed = self.file.close();
                    let fatal = |(_, error)| Fatal::Io { place: self.place, why: said(&error) };
                    let _ = reply.send(closed.map_err(fatal));
                    return;
                }
                Ok(job) => self.work(job),
                Err(_) => return,
            }
        }
    }

    fn work(&self, job: Job) {
        // An asker that went away does not need its answer.
        match job {
            Job::Take { slot, writer, kept, reply } => drop(reply.send(self.take(slot, writer, &kept))),
            Job::Commit { sections, reply } => drop(reply.send(self.commit(&sections))),
            later => self.deferred.borrow_mut().push_back(later),
        }
    }

    fn take(
        &self,
        slot: Slot,
        writer: WriterId,
        kept: &mpsc::Sender<Vec<Kept>>,
    ) -> Result<Opened, TakeError> {
        self.check()?;
        if slot != Slot::ONLY {
            return Err(TakeError::NoSuchSlot(slot));
        }
        let taken = self.transact(|file| apply::take(file, writer)).and_then(|opened| {
            self.turn.set(Turn::begin(opened.epoch, writer));
            load::tell(&self.file, opened.tickets_since, kept)?;
            Ok(opened)
        });
        taken.map_err(|error| match self.judge(&error) {
            Trouble::Unavailable(why) => TakeError::Unavailable(why),
            Trouble::Fatal(fatal) => TakeError::Fatal(fatal),
        })
    }

    fn commit(&self, sections: &[Arc<Section>]) -> Result<Vec<Fate>, Fatal> {
        self.check()?;
        let mut turn = self.turn.get();
        let error = match self.transact(|file| self.apply(file, &mut turn, sections)) {
            Ok(fates) => {
                self.turn.set(turn);
                return Ok(fates);
            }
            Err(error) => error,
        };
        match (self.judge(&error), sections) {
            (Trouble::Fatal(fatal), _) => Err(fatal),
            // Refused, unless it did not need any room.
            (Trouble::Unavailable(why), [alone]) => {
                Ok(vec![apply::judge(self.turn.get(), alone).unwrap_or(Fate::Refused(why))])
            }
            // One that is too large, or that was kept before, must not decide about the others.
            (Trouble::Unavailable(_), _) => sections
                .chunks(1)
                .map(|alone| self.commit(alone))
                .collect::<Result<Vec<_>, _>>()
                .map(|fates| fates.concat()),
        }
    }

    fn apply(
        &self,
        file: &Connection,
        turn: &mut Turn,
        sections: &[Arc<Section>],
    ) -> rusqlite::Result<Vec<Fate>> {
        let rows = history::Rows::default();
        let fates = sections.iter().map(|section| apply::section(file, turn, section, &rows)).collect();
        self.history.keep(file, &rows)?;
        fates
    }

    /// Writes the backup page by page, and between the pages does what else is asked.
    fn backup(&self, to: &Path, jobs: &Receiver<Job>) -> Result<(), BackupError> {
        self.check()?;
        backup::write(&self.file, to, || {
            while let Ok(job) = jobs.try_recv() {
                self.work(job);
            }
        })
    }

    fn transact<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let run = |sql| self.file.prepare_cached(sql)?.execute([]);
        run("BEGIN IMMEDIATE")?;
        let done = work(&self.file).and_then(|done| run("COMMIT").map(|_| done));
        // Some errors have ended the transaction already.
        if done.is_err() && !self.file.is_autocommit() {
            let _ = run("ROLLBACK");
        }
        done.inspect(|_| self.shorten_log())
    }

    /// What was committed stays so, whatever comes of this: without space it is tried again behind the next commit, and of an error
    /// of the disk whoever asks next is told.
    fn shorten_log(&self) {
        if let Err(error) = self.log.shorten(&self.file) {
            self.judge(&error);
        }
    }

    fn check(&self) -> Result<(), Fatal> {
        self.fatal.borrow().clone().map_or(Ok(()), Err)
    }

    fn judge(&self, error: &rusqlite::Error) -> Trouble {
        let trouble = Trouble::new(&self.place, error);
        if let Trouble::Fatal(fatal) = &trouble {
            *self.fatal.borrow_mut() = Some(fatal.clone());
        }
        if let Trouble::Fatal(Fatal::Io { .. }) = &trouble {
            // Closing would move the log into a file of which nobody knows what the disk keeps, and remove it.
            let _ = self.file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        trouble
    }
}
