//! The history: who held what, from when to when, and why it ended. The history is for people: nothing that
//! is granted or refused rests on it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    /// How often it happened, from `since` to `at`: 1, but of refusals.
    pub count: u32,
    /// Since when a web lock was waited for, if it was.
    pub waiting_since: Option<Instant>,
}

/// A closed set of words of the history: as the stores write them, and as keys of JSON.
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident: $($(#[doc = $meaning:literal])+ $kind:ident = $word:literal, $key:literal;)*) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $meaning])+ $kind,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// All of them by their words in camelCase.
            pub const KEYS: &'static [(&'static str, Self)] = &[$(($key, Self::$kind)),*];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }

            /// The word for it in camelCase.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$kind => $key,)*
                }
            }

            /// The one of that word.
            pub fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.word() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words! {
    /// What an entry of the history was.
    HistoryKind:
    /// An owner.
    Owner = "owner", "owner";
    /// An offline lock.
    Offline = "offline", "offline";
    /// A claim.
    Claim = "claim", "claim";
    /// An assignment.
    Assignment = "assignment", "assignment";
    /// A web lock. Those are in no store.
    Web = "web", "web";
}

words! {
    /// Why a hold or an owner ended.
    HistoryEnd:
    /// Its holder gave it back.
    Released = "released", "released";
    /// The step of the business transaction that took it failed.
    Undone = "undone", "undone";
    /// The lock became exclusive, with a new token.
    Upgraded = "upgraded", "upgraded";
    /// The lock became shared again, as the step that had upgraded it failed.
    Downgraded = "downgraded", "downgraded";
    /// A request stole the name.
    Stolen = "stolen", "stolen";
    /// An operator broke it.
    Broken = "broken", "broken";
    /// Its time was over.
    Expired = "expired", "expired";
    /// The owner was ended by a command.
    Ended = "ended", "ended";
    /// The longest life of the owner was over.
    Overdue = "overdue", "overdue";
    /// The claim was made final.
    Finalized = "finalized", "finalized";
    /// The assignment was taken back.
    Unassigned = "unassigned", "unassigned";
    /// The owner of the lock was ended by a command.
    OwnerEnded = "owner ended", "ownerEnded";
    /// The time of the owner of the lock was over.
    OwnerExpired = "owner expired", "ownerExpired";
    /// The longest life of the owner of the lock was over.
    OwnerOverdue = "owner overdue", "ownerOverdue";
    /// It was never held: others had the name, or a bound was reached.
    Refused = "refused", "refused";
    /// The web lock was waited for, and the request was taken back.
    Aborted = "aborted", "aborted";
    /// The longest hold of the web lock was over.
    MaxHold = "max hold", "maxHold";
    /// A younger web lock that excludes it was reclaimed.
    Superseded = "superseded", "superseded";
    /// The client of the web lock was silent for its lease.
    LeaseExpired = "lease expired", "leaseExpired";
    /// The client did not come back for its web lock after a restart.
    NotReclaimed = "not reclaimed", "notReclaimed";
    /// The client of the web lock has ended.
    ClientEnded = "client ended", "clientEnded";
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
    /// Ended at that time or later, in milliseconds of wall time since 1970.
    pub from: Option<Instant>,
    /// Ended before that time.
    pub to: Option<Instant>,
}

/// A part of an answer about the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The entries, the latest first.
    pub entries: Vec<HistoryEntry>,
    /// Where to go on: only entries with a lower number are left. None if all have been looked at.
    pub next: Option<u64>,
}

/// Something that was refused, once or several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    /// An offline lock or a claim.
    pub kind: HistoryKind,
    /// The name.
    pub name: NameBuf,
    /// The mode.
    pub mode: Option<Mode>,
    /// The label of the owner, or the claimant.
    pub who: Box<str>,
    /// The owner that wanted the offline lock.
    pub owner: Option<OwnerId>,
    /// When it was refused first, in milliseconds of wall time since 1970.
    pub since: Instant,
    /// When it was refused last, likewise.
    pub at: Instant,
    /// How often.
    pub count: u32,
}

/// How much of the history a store keeps, of all buckets together. The oldest entries go first, now and then
/// and many together, with commits, none of which deletes more than a few thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// The most rows, about: entries beyond are deleted by the thousand. With 0 nothing is added, and what is
    /// there goes by its age alone.
    pub rows: u32,
    /// For how long after their end, about a minute more; none: as long as there is room.
    pub age: Option<Duration>,
}

impl HistoryBounds {
    /// 100,000 rows, 30 days.
    pub const DEFAULT: Self = Self { rows: 100_000, age: Some(Duration::from_secs(30 * 24 * 3600)) };

    /// The most of the rows that are refusals, which do not push anything else out.
    pub const fn refusals(self) -> u32 {
        self.rows.div_ceil(10)
    }

    /// Entries that ended before this are too old, at that time.
    pub fn oldest(self, now: SystemTime) -> Option<Instant> {
        let oldest = now.checked_sub(self.age?)?.duration_since(UNIX_EPOCH).ok()?;
        Some(Instant::from_millis(oldest.as_millis().try_into().ok()?))
    }
}

/// What has gone wrong with the history of a store since it was opened. What is held does not depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryFaults {
    /// How often it could not be written or pruned.
    pub times: u64,
    /// The last reason; empty before the first.
    pub why: Box<str>,
    /// How many entries are in no history for it, about.
    pub left_out: u64,
}

impl Default for HistoryBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Refusals of one name to one caller within this time are one entry.
pub const REFUSALS_GATHERED: Duration = Duration::from_secs(60);

/// So many rows of the history, of whichever bucket, a store looks at for one page.
pub const HISTORY_ROWS_LOOKED_AT: u32 = 2000;

/// So many entries are in one page at most.
pub const HISTORY_PAGE: usize = 200;

impl HistoryEntry {
    /// An entry without what only some have, and without a number.
    pub fn new(kind: HistoryKind, since: Instant, at: Instant, end: HistoryEnd, who: &str) -> Self {
        let (owner, name, mode, token, operator, reason) = (None, None, None, None, None, None);
        let (seq, count, waiting_since, who) = (0, 1, None, who.into());
        Self {
            seq,
            kind,
            since,
            at,
            end,
            who,
            owner,
            name,
            mode,
            token,
            operator,
            reason,
            count,
            waiting_since,
        }
    }

    /// How much memory it takes, about.
    pub fn bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.as_name().as_wtf8().len());
        let texts = self.operator.iter().chain(&self.reason).map(|text| text.len());
        size_of::<Self>() + name + self.who.len() + texts.sum::<usize>()
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
            && self.from.is_none_or(|it| entry.at >= it)
            && self.to.is_none_or(|it| entry.at < it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_stands_for_what_has_it() {
        for kind in HistoryKind::ALL {
            assert_eq!(HistoryKind::of(kind.word()), Some(*kind));
        }
        for end in HistoryEnd::ALL {
            assert_eq!(HistoryEnd::of(end.word()), Some(*end));
        }
        assert_eq!((HistoryKind::of("lock"), HistoryEnd::of("")), (None, None));
        assert_eq!(HistoryEnd::KEYS[11], ("ownerEnded", HistoryEnd::OwnerEnded));
    }
}
