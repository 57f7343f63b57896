//! The errors of PostgreSQL, and what they say of a statement.

use std::error::Error as _;
use std::io;

use thiserror::Error;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::{Fatal, StoreUnavailable};

/// Why a store in PostgreSQL could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostgresOpenError {
    /// The address is none.
    #[error("no address of PostgreSQL: {why}; one is like postgres://USER@HOST:PORT/DATABASE")]
    Address {
        /// What is wrong with it. No part of the address is repeated, as it may have a password.
        why: Box<str>,
    },
    /// An option is out of its range.
    #[error("{option} is {value}, but has to be {rule}")]
    Option {
        /// Its name.
        option: &'static str,
        /// The value that was given.
        value: Box<str>,
        /// Its range.
        rule: &'static str,
    },
    /// The server cannot be reached, or cannot be used at the moment.
    #[error("{place} cannot be used: {why}")]
    Away {
        /// The place of the store.
        place: Box<str>,
        /// The message of the server or the system.
        why: Box<str>,
    },
    /// The server refuses us, and will go on to do so: the database, the account, the password or the
    /// certificate is a wrong one.
    #[error("{place} cannot be used: {why}")]
    Refused {
        /// The place of the store.
        place: Box<str>,
        /// The message of the server or the system.
        why: Box<str>,
    },
    /// The server still accepts writes, though another one has taken its place.
    #[error("{place} cannot be used: {why}")]
    Demoted {
        /// The place of the store.
        place: Box<str>,
        /// The message of the server.
        why: Box<str>,
    },
    /// The account lacks a right.
    #[error(
        "{place} cannot be used: {why}; the account needs CREATE on the database, or a schema of its own"
    )]
    Rights {
        /// The place of the store.
        place: Box<str>,
        /// The message of the server.
        why: Box<str>,
    },
    /// The server is too old.
    #[error("{place} is PostgreSQL {found}, and the oldest that will do is {oldest}")]
    TooOld {
        /// The place of the store.
        place: Box<str>,
        /// Its version.
        found: i32,
        /// The oldest version.
        oldest: i32,
    },
    /// Transactions would see a state that is not the latest.
    #[error("{place} has default_transaction_isolation={found:?} for this account; set \"read committed\"")]
    Isolation {
        /// The place of the store.
        place: Box<str>,
        /// The setting.
        found: Box<str>,
    },
    /// The server does not sync its disk: a loss of power would lose or damage what it has acknowledged.
    #[error("{place} has fsync=off, so that nothing survives a loss of power; set fsync=on")]
    NoSync {
        /// The place of the store.
        place: Box<str>,
    },
    /// The schema belongs to something else.
    #[error("{place} has tables, but none of lockhouse; name another schema")]
    NotOurs {
        /// The place of the store.
        place: Box<str>,
    },
    /// The schema is of a later version.
    #[error(
        "{place} has version {found} of the tables, and this program knows up to {known}; use a newer one"
    )]
    Newer {
        /// The place of the store.
        place: Box<str>,
        /// Its version.
        found: i32,
        /// The newest version that is known.
        known: i32,
    },
    /// The schema was made with another number of slots.
    #[error("slots is {asked}, but {place} was made with {found}, which cannot be changed")]
    OtherSlots {
        /// The place of the store.
        place: Box<str>,
        /// Its number of slots.
        found: u32,
        /// The one that was asked for.
        asked: u16,
    },
}

impl PostgresOpenError {
    /// Whether it may be over in a while, without a change of the settings.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Demoted { .. })
    }
}

/// What an error says of the statement that it ended.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The statement has had no effect. It may be tried again.
    Undone(StoreUnavailable),
    /// It is unknown whether the statement has had its effect, and the connection is of no more use.
    Unknown(Box<str>),
    /// The statement has had no effect: a page of a table or an index that it needs cannot be read.
    Damaged(Fatal),
    /// The tables are not there any more, or not as they were.
    Fatal(Fatal),
}

impl Trouble {
    pub(crate) fn of(place: &str, error: &Error) -> Self {
        let why = said(error);
        let Some(error) = error.as_db_error().filter(|error| is_of_statement(error)) else {
            // The connection broke off, or the server ended it, which may have come after the commit.
            return Self::Unknown(why);
        };
        let place: Box<str> = place.into();
        match error.code() {
            code if is_of_tables(code) => Self::Fatal(Fatal::Damaged { place, why }),
            code if is_of_pages(code) => Self::Damaged(Fatal::PagesDamaged { place, why }),
            &SqlState::DISK_FULL => Self::Undone(StoreUnavailable::NoSpace { place }),
            &SqlState::READ_ONLY_SQL_TRANSACTION => {
                // The place alone would not say who made it so.
                Self::Undone(StoreUnavailable::ReadOnly { place: format!("{place} ({why})").into() })
            }
            _ => Self::Undone(StoreUnavailable::Away { place, why }),
        }
    }
}

/// Whether the server was demoted, though it still accepts writes: another one has a later timeline.
pub(crate) fn is_demoted(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code() == "LH001")
}

/// The first digits of the codes of what passes: of connections, transactions, resources, states, operators,
/// and the system.
const PASSING: [&str; 8] = ["08", "25", "40", "53", "55", "57", "58", "LH"];

/// Whether an error comes again however often the same is tried.
pub(crate) fn lasts(error: &Error) -> bool {
    if let Some(error) = error.as_db_error() {
        return !PASSING.iter().any(|begin| error.code().code().starts_with(begin));
    }
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        // Of a certificate.
        Some(error) => error.kind() == io::ErrorKind::InvalidData,
        None => !error.is_closed(),
    }
}

/// Whether the statement has failed, and not its connection, of which a pooler may tell like that, too.
fn is_of_statement(error: &DbError) -> bool {
    let code = error.code().code();
    let is_of_connection = code.starts_with("08") || code.starts_with("57P") || code == "40003";
    error.parsed_severity() == Some(Severity::Error) && !is_of_connection
}

fn is_of_tables(code: &SqlState) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::INVALID_SCHEMA_NAME,
    ]
    .contains(code)
}

/// Whether the error is about what the statement has read. Without checksums a page that was overwritten
/// leads to all kinds of internal errors.
pub(crate) fn is_of_pages(code: &SqlState) -> bool {
    code.code().starts_with("XX") || [SqlState::IO_ERROR, SqlState::UNDEFINED_FILE].contains(code)
}

/// The message of the server in one line; without one, that of the library and what is behind it.
pub(crate) fn said(error: &Error) -> Box<str> {
    if let Some(error) = error.as_db_error() {
        return message(error);
    }
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let all = causes.fold(error.to_string(), |all, cause| format!("{all}: {cause}"));
    if all.ends_with("password missing") {
        return "it wants a password, and none is given: name a file with it, or one as for PGPASSFILE"
            .into();
    }
    if all.ends_with("database does not allow writes") {
        return format!("{all}; is default_transaction_read_only on, or is it a standby?").into();
    }
    all.into()
}

fn message(error: &DbError) -> Box<str> {
    let detail = error.detail().map_or(String::new(), |detail| format!(" ({detail})"));
    let advice = match error.code().code() {
        "25006" => "; is default_transaction_read_only on, or is it a standby?",
        "53300" => "; raise max_connections or the limit of the role, or use a pooler in transaction mode",
        "55P03" => "; pg_blocking_pids says which process has the lock",
        _ => "",
    };
    format!("{}{detail}{advice}", error.message()).replace('\n', " ").into()
}
