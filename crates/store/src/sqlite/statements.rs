//! The statements that run often, prepared once.

use std::cell::RefCell;
use std::ptr;

use rusqlite::{Connection, Params, Statement};

/// The statements that have run. The statements stay prepared, and are found again by the address of their
/// text, which costs less than to compare the text.
pub(crate) struct Statements<'f> {
    file: &'f Connection,
    known: RefCell<Vec<(&'static str, Statement<'f>)>>,
}

impl<'f> Statements<'f> {
    pub(crate) fn of(file: &'f Connection) -> Self {
        Self { file, known: RefCell::default() }
    }

    /// Runs a statement that returns no rows. Returns how many rows it has changed.
    pub(crate) fn run(&self, sql: &'static str, params: impl Params) -> rusqlite::Result<usize> {
        let mut known = self.known.borrow_mut();
        let place = known.iter().position(|(text, _)| ptr::eq(*text, sql));
        let place = match place {
            Some(place) => place,
            None => {
                known.push((sql, self.file.prepare(sql)?));
                known.len() - 1
            }
        };
        known[place].1.execute(params)
    }

    /// The file, for statements that seldom run.
    pub(crate) fn file(&self) -> &'f Connection {
        self.file
    }
}
