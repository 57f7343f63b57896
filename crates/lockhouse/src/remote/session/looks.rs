//! Queries and watches: questions whose answers are snapshots.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::task::{Poll, Waker};

use lockhouse_core::{LockState, NameBuf};
use lockhouse_wire::{EntryPlace, EntryView, SnapshotPage, SnapshotQuery};

use super::breach::ProtocolViolation;
use super::state::State;
use crate::error::RequestError;
use crate::snapshot::{LockInfo, Snapshot};

/// The open questions, by keys that outlive sessions; their numbers on the wire are new with every
/// connection.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    last_key: u64,
    open: BTreeMap<u64, Looking>,
    keys: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Looking {
    /// The number on the wire, if the question was sent in the present session.
    id: Option<u64>,
    name: Option<NameBuf>,
    watch: bool,
    /// The parts that have come of an answer in several parts.
    parts: Snapshot,
    /// The latest answer, until it is taken.
    answer: Option<Result<Snapshot, RequestError>>,
    waker: Option<Waker>,
}

impl State {
    /// Asks a question; its key.
    pub(crate) fn look(&mut self, name: Option<NameBuf>, watch: bool) -> u64 {
        self.expire_if_overdue();
        self.looks.last_key += 1;
        let key = self.looks.last_key;
        let mut looking =
            Looking { id: None, name, watch, parts: Snapshot::default(), answer: None, waker: None };
        if self.is_closed() {
            looking.answer = Some(Err(RequestError::AgentEnded));
        }
        self.looks.open.insert(key, looking);
        self.ask_look(key);
        key
    }

    /// The answer; after one of a watch the next is awaited.
    pub(crate) fn poll_look(&mut self, key: u64, waker: &Waker) -> Poll<Result<Snapshot, RequestError>> {
        self.expire_if_overdue();
        let Some(looking) = self.looks.open.get_mut(&key) else {
            return Poll::Ready(Err(RequestError::AgentEnded));
        };
        match looking.answer.take() {
            Some(Ok(snapshot)) => Poll::Ready(Ok(snapshot)),
            Some(Err(error)) => {
                // A watch that has failed stays so.
                looking.answer = Some(Err(error.clone()));
                Poll::Ready(Err(error))
            }
            None => {
                self.displaced.extend(looking.waker.replace(waker.clone()));
                Poll::Pending
            }
        }
    }

    /// The answer is not needed any more.
    pub(crate) fn forget_look(&mut self, key: u64) {
        let Some(mut looking) = self.looks.open.remove(&key) else { return };
        self.displaced.extend(looking.waker.take());
        let Some(id) = looking.id else { return };
        self.looks.keys.remove(&id);
        if looking.watch {
            self.send_abort(id);
        }
    }

    /// A connection has begun: open questions are asked again, under new numbers.
    pub(crate) fn ask_looks_anew(&mut self) {
        self.looks.keys.clear();
        let open = self.looks.open.iter().filter(|(_, looking)| looking.is_open());
        let keys: Vec<u64> = open.map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.ask_look(key));
    }

    pub(crate) fn page(&mut self, page: SnapshotPage<'_>) -> Result<(), ProtocolViolation> {
        if let Some(session) = &mut self.session {
            session.outbox.answered(page.id);
        }
        let looks = &mut self.looks;
        let looking = looks.keys.get(&page.id).and_then(|key| looks.open.get_mut(key));
        // The answer to a question whose asker has gone.
        let Some(looking) = looking else { return Ok(()) };
        looking.parts.held.extend(infos(page.held)?);
        looking.parts.pending.extend(infos(page.pending)?);
        if !page.more {
            looking.answer = Some(Ok(std::mem::take(&mut looking.parts)));
            self.wakers.extend(looking.waker.take());
            if !looking.watch {
                looks.keys.remove(&page.id);
                looking.id = None;
            }
        }
        Ok(())
    }

    /// The question with that number has failed; false if there is none.
    pub(crate) fn fail_look(&mut self, id: u64, error: &RequestError) -> bool {
        let Some(key) = self.looks.keys.remove(&id) else { return false };
        if let Some(looking) = self.looks.open.get_mut(&key) {
            self.wakers.extend(looking.fail(error));
        }
        true
    }

    pub(crate) fn fail_looks(&mut self) {
        self.fail_looks_with(&RequestError::AgentEnded);
    }

    pub(crate) fn fail_looks_with(&mut self, error: &RequestError) {
        self.looks.keys.clear();
        for looking in self.looks.open.values_mut().filter(|looking| looking.is_open()) {
            self.wakers.extend(looking.fail(error));
        }
    }

    fn ask_look(&mut self, key: u64) {
        if self.session.is_none() {
            return;
        }
        let id = self.next_id();
        let (Some(looking), Some(session)) = (self.looks.open.get_mut(&key), &mut self.session) else {
            return;
        };
        looking.id = Some(id);
        looking.parts = Snapshot::default();
        self.looks.keys.insert(id, key);
        session
            .outbox
            .push_look(SnapshotQuery { id, detail: true, name: looking.name.clone() }, looking.watch);
    }
}

impl Looking {
    /// Whether an answer is still to come.
    fn is_open(&self) -> bool {
        match self.answer {
            None => true,
            Some(Ok(_)) => self.watch,
            Some(Err(_)) => false,
        }
    }

    fn fail(&mut self, error: &RequestError) -> Option<Waker> {
        self.id = None;
        self.answer = Some(Err(error.clone()));
        self.waker.take()
    }
}

fn infos(entries: Vec<EntryView<'_>>) -> Result<Vec<LockInfo>, ProtocolViolation> {
    entries.into_iter().map(info).collect()
}

fn info(entry: EntryView<'_>) -> Result<LockInfo, ProtocolViolation> {
    let Some(detail) = entry.detail else {
        return Err(ProtocolViolation("a snapshot without the details that were asked for".to_owned()));
    };
    let state = match detail.place {
        EntryPlace::Held(token) => LockState::Held(token),
        EntryPlace::Queued(place) => LockState::Pending { place: u32::try_from(place).unwrap_or(u32::MAX) },
    };
    Ok(LockInfo {
        request: None,
        kind: detail.kind,
        name: entry.name,
        mode: entry.mode,
        client_id: entry.client_id.into_owned(),
        state,
        since: detail.since,
        expires_at: detail.expires_at,
        metadata: detail.metadata.map(Cow::into_owned),
    })
}
