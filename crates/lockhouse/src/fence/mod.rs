//! The fence: the check of fencing tokens at the guarded resource itself, as a table in the caller's own
//! database.
//!
//! A lock that was lost may go on in the mind of a paused process. The resource knows better if it keeps two
//! marks, the highest token of any mode and the highest exclusive one, and lets no token pass that is behind:
//!
//! | mode of the lock | the token must be at least | and raises |
//! |---|---|---|
//! | exclusive | the highest of any mode | both marks |
//! | shared | the highest exclusive one | the mark of any mode |
//!
//! Pass the fence at the start of the critical section, so that all earlier holders are shut out before
//! anything is read, and again in the transaction that writes. [`sqlite`] and [`postgres`] have the SQL as
//! constants, for any language; with the features `fence-sqlite` and `fence-postgres` they have functions
//! over it, too. `docs/fence.md` has the whole story.
//!
//! The tokens of one resource must all come from one bucket: those of two have nothing to do with each other.

pub mod postgres;
pub mod sqlite;

use std::fmt;

use crate::FencingToken;
#[cfg(any(feature = "fence-sqlite", feature = "fence-postgres"))]
use crate::Mode;

/// A holder with a higher token was here: the lock with the presented one is held no more, whatever its
/// holder believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The resource, as it was presented.
    pub resource: Vec<u8>,
    /// The token that came too late.
    pub presented: FencingToken,
    /// The lowest token that the resource still takes in that mode.
    pub needed: FencingToken,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "token {} for resource \"{}\" is stale: it must be at least {}",
            self.presented,
            self.resource.escape_ascii(),
            self.needed
        )
    }
}

impl std::error::Error for Stale {}

/// Why a fence was not passed.
#[derive(Debug, thiserror::Error)]
pub enum FenceError<E: std::error::Error + 'static> {
    /// The lock was lost. Roll back; to try again needs a new lock.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The database failed. The state of the lock is unknown: roll back, and try again with the same token
    /// where the database's own rules say so (a busy SQLite, a serialisation failure of PostgreSQL).
    #[error("the fence cannot be asked: {0}")]
    Database(#[source] E),
}

/// The parameters of the statements: the token, and whether the lock is exclusive.
#[cfg(any(feature = "fence-sqlite", feature = "fence-postgres"))]
fn parameters(token: FencingToken, mode: Mode) -> (i64, bool) {
    // Tokens are below 2^53.
    (token.get() as i64, mode == Mode::Exclusive)
}

/// The error of a caller that did not pass, given the mark that it failed.
#[cfg(any(feature = "fence-sqlite", feature = "fence-postgres"))]
fn stale(resource: &[u8], presented: FencingToken, needed: i64) -> Stale {
    // The mark is above a token, and was one itself: the statement keeps nothing else.
    Stale { resource: resource.to_vec(), presented, needed: FencingToken::new(needed as u64) }
}
