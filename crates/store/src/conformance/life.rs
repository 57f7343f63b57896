//! One life of a process that writes to the store, as the promises tell it.

use std::sync::Arc;

use super::Harness;
use crate::{Fate, Kept, Opened, Section, Slot, Store, TakeError, Write, WriterId};

/// How often something is tried that a store refuses or loses.
const TRIES: usize = 1000;

/// A writer of the only slot, with what it was told at its beginning.
pub(crate) struct Life {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) writer: WriterId,
    pub(crate) opened: Opened,
    pub(crate) kept: Vec<Kept>,
    pub(crate) next_seq: u64,
}

impl Life {
    /// Opens the store and takes the slot.
    pub(crate) async fn begin(harness: &dyn Harness) -> Self {
        Self::take(harness.open().await, 0).await
    }

    /// Takes the slot of a store that is open. The number makes the writer another one.
    pub(crate) async fn take(store: Arc<dyn Store>, number: u64) -> Self {
        for _ in 0..TRIES {
            let mut kept = Vec::new();
            let writer = WriterId(u64::MAX - number);
            match store.take_slot(Slot::ONLY, writer, &mut |piece| kept.push(piece)).await {
                Ok(opened) => return Self { store, writer, opened, kept, next_seq: 1 },
                Err(TakeError::Unavailable(_)) => {}
                Err(error) => panic!("the slot cannot be taken: {error}"),
            }
        }
        panic!("the slot could not be taken {TRIES} times");
    }

    /// What the next section with these writes would be.
    pub(crate) fn section(&self, writes: Vec<Write>) -> Arc<Section> {
        Arc::new(Section {
            slot: Slot::ONLY,
            epoch: self.opened.epoch,
            writer: self.writer,
            first_seq: self.next_seq,
            writes,
        })
    }

    /// Has the writes kept, however often it takes.
    pub(crate) async fn write(&mut self, writes: Vec<Write>) -> Arc<Section> {
        let section = self.section(writes);
        self.next_seq = section.last_seq() + 1;
        for _ in 0..TRIES {
            match self.fate(&section).await {
                Fate::Committed => return section,
                Fate::Unknown | Fate::Refused(_) => {}
                Fate::Fenced => panic!("fenced, though nobody took the slot"),
            }
        }
        panic!("not kept after {TRIES} times");
    }

    pub(crate) async fn fate(&self, section: &Arc<Section>) -> Fate {
        self.fates(&[section]).await.remove(0)
    }

    pub(crate) async fn fates(&self, sections: &[&Arc<Section>]) -> Vec<Fate> {
        let fates = self.store.commit(sections.iter().map(|section| Arc::clone(section)).collect()).await;
        let fates = fates.unwrap_or_else(|fatal| panic!("{fatal}"));
        assert_eq!(fates.len(), sections.len(), "one fate for each section");
        fates
    }

    /// The process is killed, and the next one begins.
    pub(crate) async fn kill(self, harness: &dyn Harness) -> Self {
        harness.kill(self.store).await;
        Self::begin(harness).await
    }

    /// The process closes the store, and the next one begins.
    pub(crate) async fn close(self, harness: &dyn Harness) -> Self {
        self.store.close().await.unwrap_or_else(|fatal| panic!("{fatal}"));
        drop(self.store);
        Self::begin(harness).await
    }
}
