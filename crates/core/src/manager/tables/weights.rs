//! The memory of what the table has.

use super::arena::Weigh;
use super::table::{ClaimDetails, Extras, LockEntry, NameSlot, OwnerDetails, PartySlot};
use crate::Name;

impl Weigh for LockEntry {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Weigh for Extras {
    fn heap_bytes(&self) -> usize {
        length(self.metadata.as_deref())
    }
}

impl Weigh for NameSlot {
    fn heap_bytes(&self) -> usize {
        self.name.heap_bytes()
    }
}

impl Weigh for PartySlot {
    fn heap_bytes(&self) -> usize {
        let owner = self.owner.as_ref();
        self.label.len()
            + owner.map_or(0, |owner| size_of::<OwnerDetails>() + length(owner.metadata.as_deref()))
    }
}

impl Weigh for ClaimDetails {
    fn heap_bytes(&self) -> usize {
        self.claimant.len()
    }
}

/// The memory of a new entry with a new name.
#[inline]
pub(crate) fn most_bytes_of_entry(name: Name<'_>, metadata: Option<&str>) -> usize {
    const SLOTS: usize = size_of::<NameSlot>() + size_of::<LockEntry>() + size_of::<Extras>();
    SLOTS + name.as_wtf8().len() + length(metadata)
}

/// The memory of a new agent or owner.
pub(crate) fn most_bytes_of_party(label: &str, metadata: Option<&str>) -> usize {
    size_of::<PartySlot>() + size_of::<OwnerDetails>() + label.len() + length(metadata)
}

/// The memory of a new claim beyond its entry.
pub(crate) fn most_bytes_of_claim(claimant: &str) -> usize {
    size_of::<ClaimDetails>() + claimant.len()
}

fn length(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}
