//! The list of held web locks that a stop leaves, and the holders on it that have not come back.
//!
//! ```text
//!   stop:   each held lock ─▶ hash of its name, hash of its session, mode, token ─▶ the store
//!   start:  a command about a name ─▶ its hash is listed: the lock is held, for a holder that is away
//!           a reclaim              ─▶ the lock changes hands
//!           `reclaimed`            ─▶ what its session has not reclaimed ends
//!           the lease is over      ─▶ all that is left ends
//! ```
//!
//! The list has no names. So a lock comes into the lock manager with the first command that asks for its
//! name; until then it is only known that some name is held.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use lockhouse_core::{FencingToken, Mode, Name};
use lockhouse_store::HeldWebLock;

use crate::engine::key::BucketKey;
use crate::keyed_hash::KeyedHash;

/// The labels that separate these uses of the key from every other.
const NAME_PURPOSE: &[u8] = b"lockhouse held name 1";
const SESSION_PURPOSE: &[u8] = b"lockhouse held session 1";

/// The client id of holders that are away, as others see it.
pub(crate) const AWAY: &str = "(away since a restart)";

/// A keyed hash of the secret of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionHash(pub(crate) [u8; 16]);

impl SessionHash {
    pub(crate) fn of(key: &KeyedHash, secret: &str) -> Self {
        Self(key.of([SESSION_PURPOSE, secret.as_bytes()]))
    }
}

/// Hashes the names of one bucket.
#[derive(Clone, Debug)]
pub(crate) struct NameHasher {
    key: KeyedHash,
    bucket: BucketKey,
}

impl NameHasher {
    pub(crate) fn new(key: &KeyedHash, bucket: &BucketKey) -> Self {
        Self { key: key.clone(), bucket: bucket.clone() }
    }

    pub(crate) fn hash(&self, name: Name<'_>) -> [u8; 16] {
        let BucketKey { bucket, partition } = &self.bucket;
        self.key.of([NAME_PURPOSE, partition.as_bytes(), bucket.as_bytes(), name.as_wtf8()])
    }
}

/// The listed locks of a bucket whose names have not come up yet.
#[derive(Debug)]
pub(crate) struct Absence {
    names: NameHasher,
    /// By the hash of the name and the token.
    unnamed: BTreeMap<([u8; 16], FencingToken), Mode>,
    /// What each session held: also what is not unnamed any more.
    sessions: HashMap<SessionHash, Vec<([u8; 16], FencingToken)>, RandomState>,
}

impl Absence {
    pub(crate) fn of(names: NameHasher, locks: Vec<HeldWebLock>) -> Self {
        let mut absence = Self { names, unnamed: BTreeMap::new(), sessions: HashMap::default() };
        for HeldWebLock { name, session, mode, token } in locks {
            absence.unnamed.insert((name, token), mode);
            absence.sessions.entry(SessionHash(session)).or_default().push((name, token));
        }
        absence
    }

    /// Moves the locks of that name to the lock manager, which takes each that `hold` returns true for.
    pub(crate) fn name_comes_up(&mut self, name: Name<'_>, mut hold: impl FnMut(Mode, FencingToken) -> bool) {
        let hash = self.names.hash(name);
        let (first, last) = (FencingToken::new(1), FencingToken::new(FencingToken::LIMIT - 1));
        self.unnamed
            .extract_if((hash, first)..=(hash, last), |(_, token), mode| hold(*mode, *token))
            .for_each(drop);
    }

    /// That session has reclaimed all that it still holds. Returns the tokens of its locks that are in the
    /// lock manager, or were.
    pub(crate) fn take_session(&mut self, session: SessionHash) -> Vec<FencingToken> {
        let locks = self.sessions.remove(&session).unwrap_or_default();
        let is_named =
            |(name, token): &([u8; 16], FencingToken)| self.unnamed.remove(&(*name, *token)).is_none();
        locks.into_iter().filter(is_named).map(|(_, token)| token).collect()
    }

    /// Whether every lock has come into the lock manager, or has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.unnamed.is_empty()
    }
}
