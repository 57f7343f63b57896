//! The history: who held what, from when to when, and why it ended. The history is for people: nothing that
//! is granted or refused rests on it.

use std::fmt;

use lockhouse_core::{FencingToken, Instant, Mode, NameBuf, OwnerId};

use crate::Scope;

/// A hold, or an owner, that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Its number: later entries have higher ones.
    pub seq: u64,
    /// What it was.
    pub kind: HistoryKind,
    /// When it began, in milliseconds of wall time since 1970.
    pub since: Instant,
    /// When it ended, likewise.
    pub at: Instant,
    /// Why it ended.
    pub end: HistoryEnd,
    /// The label of the owner, or the claimant.
    pub who: Box<str>,
    /// The owner, of an owner or an offline lock.
    pub owner: Option<OwnerId>,
    /// The name; none of an owner.
    pub name: Option<NameBuf>,
    /// The mode of an offline lock.
    pub mode: Option<Mode>,
    /// The fencing token; none of an owner.
    pub token: Option<FencingToken>,
    /// Who broke it.
    pub operator: Option<Box<str>>,
    /// The words of the operator.
    pub reason: Option<Box<str>>,
}

/// What an entry of the history was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistoryKind {
    /// An owner.
    Owner,
    /// An offline lock.
    Offline,
    /// A claim.
    Claim,
    /// An assignment.
    Assignment,
}

/// Why a hold or an owner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistoryEnd {
    /// Its holder gave it back.
    Released,
    /// The step of the business transaction that took it failed.
    Undone,
    /// The lock became exclusive, with a new token.
    Upgraded,
    /// The lock became shared again, as the step that had upgraded it failed.
    Downgraded,
    /// A request stole the name.
    Stolen,
    /// An operator broke it.
    Broken,
    /// Its time was over.
    Expired,
    /// The owner was ended by a command.
    Ended,
    /// The longest life of the owner was over.
    Overdue,
    /// The claim was made final.
    Finalized,
    /// The assignment was taken back.
    Unassigned,
    /// The owner of the lock was ended by a command.
    OwnerEnded,
    /// The time of the owner of the lock was over.
    OwnerExpired,
    /// The longest life of the owner of the lock was over.
    OwnerOverdue,
}

/// A question about the history of one bucket, the latest entries first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The bucket.
    pub scope: Scope,
    /// Only entries with a lower number.
    pub before: Option<u64>,
    /// The most entries of an answer.
    pub limit: usize,
    /// Which entries are meant.
    pub filter: HistoryFilter,
}

/// Which entries of a history are meant: those to which all parts apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Of that name.
    pub name: Option<NameBuf>,
    /// Of the names that begin with these bytes of WTF-8.
    pub prefix: Option<Box<[u8]>>,
    /// Of that kind.
    pub kind: Option<HistoryKind>,
    /// Ended so.
    pub end: Option<HistoryEnd>,
    /// Of that owner.
    pub owner: Option<OwnerId>,
    /// Of that label or claimant.
    pub who: Option<Box<str>>,
    /// With that token.
    pub token: Option<FencingToken>,
}

/// A part of an answer about the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The entries, the latest first.
    pub entries: Vec<HistoryEntry>,
    /// Where to go on: only entries with a lower number are left. None if all have been looked at.
    pub next: Option<u64>,
}

/// So many rows of the history, of whichever bucket, a store looks at for one page.
pub const HISTORY_ROWS_LOOKED_AT: u32 = 2000;

/// So many entries are in one page at most.
pub const HISTORY_PAGE: usize = 200;

impl HistoryKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Owner, Self::Offline, Self::Claim, Self::Assignment];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Offline => "offline",
            Self::Claim => "claim",
            Self::Assignment => "assignment",
        }
    }

    /// The kind of that word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl HistoryEnd {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Released,
        Self::Undone,
        Self::Upgraded,
        Self::Downgraded,
        Self::Stolen,
        Self::Broken,
        Self::Expired,
        Self::Ended,
        Self::Overdue,
        Self::Finalized,
        Self::Unassigned,
        Self::OwnerEnded,
        Self::OwnerExpired,
        Self::OwnerOverdue,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Undone => "undone",
            Self::Upgraded => "upgraded",
            Self::Downgraded => "downgraded",
            Self::Stolen => "stolen",
            Self::Broken => "broken",
            Self::Expired => "expired",
            Self::Ended => "ended",
            Self::Overdue => "overdue",
            Self::Finalized => "finalized",
            Self::Unassigned => "unassigned",
            Self::OwnerEnded => "owner ended",
            Self::OwnerExpired => "owner expired",
            Self::OwnerOverdue => "owner overdue",
        }
    }

    /// The end of that word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.word() == word)
    }
}

impl HistoryFilter {
    /// Whether the entry is meant.
    pub fn is_met_by(&self, entry: &HistoryEntry) -> bool {
        let name = entry.name.as_ref();
        self.name.as_ref().is_none_or(|it| name == Some(it))
            && self
                .prefix
                .as_ref()
                .is_none_or(|it| name.is_some_and(|name| name.as_name().as_wtf8().starts_with(it)))
            && self.kind.is_none_or(|it| it == entry.kind)
            && self.end.is_none_or(|it| it == entry.end)
            && self.owner.is_none_or(|it| entry.owner == Some(it))
            && self.who.as_ref().is_none_or(|it| entry.who == *it)
            && self.token.is_none_or(|it| entry.token == Some(it))
    }
}

impl fmt::Display for HistoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for HistoryEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_stands_for_what_has_it() {
        for kind in HistoryKind::ALL {
            assert_eq!(HistoryKind::of(kind.word()), Some(kind));
        }
        for end in HistoryEnd::ALL {
            assert_eq!(HistoryEnd::of(end.word()), Some(end));
        }
        assert_eq!((HistoryKind::of("web"), HistoryEnd::of("")), (None, None));
    }
}
