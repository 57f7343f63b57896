//! The judge: who believes what, which tokens come, which writes the guarded resource takes, and what was
//! acknowledged as durable.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use lockhouse_core::Change;
use lockhouse_store::RecoveredRow;

use super::model::Database;
use super::model::Tables;
use crate::sim::tally::Tally;

/// What has been seen so far.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) now_ms: u64,
    pub(super) breaches: Vec<String>,
    pub(super) tally: Tally,
    notes: Option<Vec<(u64, String)>>,
    /// Whether clocks differ by so little that leases can be relied on.
    pub(super) judges_leases: bool,
    /// Whether one server at a time acknowledges what is written.
    pub(super) judges_durability: bool,
    /// Whether a standby was promoted that may lack what was acknowledged last.
    is_lossy: bool,
    names: BTreeMap<String, Guarded>,
    /// The beliefs that overlapped already.
    overlaps: BTreeMap<String, ()>,
    durable: BTreeMap<Thing, Acknowledged>,
}

/// A resource that clients write to with their tokens.
#[derive(Debug, Default)]
struct Guarded {
    highest_believed: u64,
    highest_written: u64,
    /// The holder of each token that was written with.
    writers: BTreeMap<u64, Arc<str>>,
}

/// A lock that a client relies on now.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    pub(super) client: Arc<str>,
    pub(super) name: String,
    pub(super) token: u64,
}

/// What can be acknowledged as durable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Thing {
    /// A resource that is claimed or assigned.
    Seat(String),
    /// A name that an owner has locked.
    Document(String),
}

/// What a client was answered.
#[derive(Clone, Debug)]
pub(super) struct Acknowledged {
    pub(super) client: Arc<str>,
    pub(super) token: u64,
    pub(super) is_assigned: bool,
}

impl Judge {
    pub(super) fn new(with_notes: bool, judges_leases: bool) -> Self {
        Self {
            now_ms: 0,
            breaches: Vec::new(),
            tally: Tally::new(),
            notes: with_notes.then(Vec::new),
            judges_leases,
            judges_durability: true,
            is_lossy: false,
            names: BTreeMap::new(),
            overlaps: BTreeMap::new(),
            durable: BTreeMap::new(),
        }
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        let at = self.now_ms * 1_000_000;
        if let Some(notes) = &mut self.notes {
            notes.push((at + notes.len() as u64 % 1_000_000, text()));
        }
    }

    pub(super) fn take_notes(&mut self) -> Vec<(u64, String)> {
        self.notes.take().unwrap_or_default()
    }

    pub(super) fn count(&mut self, class: &'static str) {
        self.tally.add(class, 1);
    }

    pub(super) fn breach(&mut self, what: impl Display) {
        self.note(|| format!("BREACH: {what}"));
        self.breaches.push(format!("{what} (at {} ms)", self.now_ms));
    }

    /// All that running clients believe at this instant.
    pub(super) fn believed(&mut self, beliefs: &[Belief]) {
        if !self.judges_leases {
            return;
        }
        let mut holders: BTreeMap<&str, &Belief> = BTreeMap::new();
        for belief in beliefs {
            if let Some(other) = holders.insert(&belief.name, belief)
                && self.overlaps.insert(belief.name.clone(), ()).is_none()
            {
                self.breach(format!(
                    "{:?}: {} holds token {}, and {} token {}",
                    belief.name, belief.client, belief.token, other.client, other.token
                ));
            }
        }
    }

    /// A client begins to believe in a lock that was granted to it.
    pub(super) fn begins(&mut self, client: &Arc<str>, name: &str, token: u64) {
        let guarded = self.names.entry(name.to_owned()).or_default();
        let highest = guarded.highest_believed;
        guarded.highest_believed = highest.max(token);
        self.note(|| format!("{client} holds {name:?} with token {token}"));
        if token <= highest && self.judges_leases {
            self.breach(format!("{name:?}: token {token} comes after token {highest}"));
        }
    }

    /// A client writes to the resource that the name guards.
    pub(super) fn writes(&mut self, client: &Arc<str>, name: &str, token: u64) {
        let guarded = self.names.entry(name.to_owned()).or_default();
        if token < guarded.highest_written {
            return self.count("fence: refused");
        }
        guarded.highest_written = token;
        let writer = guarded.writers.entry(token).or_insert_with(|| client.clone()).clone();
        self.count("fence: accepted");
        if writer != *client {
            self.breach(format!("{name:?}: {client} writes with token {token}, which is that of {writer}"));
        }
    }

    /// A client was answered that it has this for good.
    pub(super) fn acknowledged(&mut self, thing: Thing, gain: Acknowledged, database: &Database) {
        if self.is_lossy && !database.look(|tables| is_there(&things(tables), &thing, &gain)) {
            return self.count("lost by an asynchronous failover");
        }
        self.note(|| format!("{thing:?} is acknowledged: {gain:?}"));
        let former = self.durable.get(&thing).filter(|former| former.client != gain.client).cloned();
        if let Some(former) = former
            && self.judges_durability
        {
            self.breach(format!("{thing:?}: {gain:?}, although {former:?}"));
        }
        self.durable.insert(thing, gain);
    }

    /// A client gives it back, or may have.
    pub(super) fn given_back(&mut self, thing: &Thing) {
        self.durable.remove(thing);
    }

    /// A standby was promoted that may lack what was acknowledged last: what it lacks is lost by right.
    pub(super) fn excuse(&mut self, tables: &Tables) {
        self.is_lossy = true;
        let there = things(tables);
        let lost = self.durable.extract_if(.., |thing, known| !is_there(&there, thing, known)).count();
        self.tally.add("lost by an asynchronous failover", lost as u64);
    }

    /// All that was acknowledged has to be there.
    pub(super) fn check_durable(&mut self, tables: &Tables) {
        let there = things(tables);
        let missing = |(thing, known): &(&Thing, &Acknowledged)| !is_there(&there, thing, known);
        let missing: Vec<String> = self
            .durable
            .iter()
            .filter(missing)
            .map(|(thing, known)| format!("{thing:?}: {known:?}"))
            .collect();
        if self.judges_durability {
            missing.into_iter().for_each(|what| self.breach(format!("acknowledged and lost: {what}")));
        }
    }
}

/// What is stored, by the token.
type Stored = BTreeMap<Thing, Vec<(u64, bool)>>;

fn things(tables: &Tables) -> Stored {
    let mut there = Stored::new();
    tables.visit(&mut |row| {
        let RecoveredRow::Change { change, .. } = row else { return };
        let name = |name: &lockhouse::NameBuf| name.as_name().as_str().unwrap_or_default().to_owned();
        let (thing, token, is_assigned) = match change {
            Change::Locked(it) => (Thing::Document(name(&it.name)), it.token, false),
            Change::Claimed(it) => (Thing::Seat(name(&it.name)), it.token, false),
            Change::Assigned(it) => (Thing::Seat(name(&it.name)), it.token, true),
            _ => return,
        };
        there.entry(thing).or_default().push((token.get(), is_assigned));
    });
    there
}

fn is_there(there: &Stored, thing: &Thing, known: &Acknowledged) -> bool {
    let stored = there.get(thing).map_or(&[][..], Vec::as_slice);
    stored.iter().any(|(token, is_assigned)| *token == known.token && (*is_assigned || !known.is_assigned))
}
