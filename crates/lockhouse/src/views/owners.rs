//! The owners of a bucket, page by page.

use std::time::SystemTime;

use lockhouse_core::{OwnerId, OwnerView};

use crate::engine::bucket::Bucket;
use crate::error::StoreError;

/// An owner, as others see it: without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerEntry {
    /// Its public number.
    pub owner: OwnerId,
    /// The label.
    pub label: String,
    /// The metadata that it gave for itself.
    pub metadata: Option<String>,
    /// When it began.
    pub since: SystemTime,
    /// When it ends unless it is active before.
    pub expires_at: SystemTime,
    /// When it ends at the latest.
    pub ends_at: Option<SystemTime>,
    /// How many locks it has.
    pub locks: u32,
}

/// A part of the owners of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerPart {
    /// Those that were found, oldest first.
    pub found: Vec<OwnerEntry>,
    /// How many were looked at.
    pub looked_at: usize,
    /// The owner after which the next part begins, unless this was the last.
    pub next: Option<OwnerId>,
}

/// The most owners that are looked at for one part.
const LOOKED_AT: usize = 10_000;

impl Bucket {
    /// The owners that live, oldest first: at most `most` of those after that one and with that label. 10,000
    /// owners are looked at at most, so that a part may be shorter than `most`, or empty, and not be the
    /// last. To look is no activity of theirs.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let bucket = lockhouse::House::new().bucket("records");
    /// let anna = bucket.owners().open("Anna", Duration::from_secs(60)).await?;
    /// let part = bucket.owners_after(None, Some("Anna"), 100).await?;
    /// assert_eq!((part.found[0].owner, part.found[0].locks, part.next), (anna.id(), 0, None));
    /// # Ok(()) }
    /// ```
    pub async fn owners_after(
        &self,
        after: Option<OwnerId>,
        label: Option<&str>,
        most: usize,
    ) -> Result<OwnerPart, StoreError> {
        let read = self.0.execute_read(|manager| {
            let (mut part, mut last) = (OwnerPart::default(), None);
            for owner in manager.owners_after(after) {
                if part.found.len() == most || part.looked_at == LOOKED_AT {
                    part.next = last;
                    break;
                }
                last = Some(owner.owner);
                part.looked_at += 1;
                if label.is_none_or(|label| label == owner.label) {
                    part.found.push(self.owner_entry(&owner));
                }
            }
            part
        });
        read.await
    }

    fn owner_entry(&self, owner: &OwnerView<'_>) -> OwnerEntry {
        OwnerEntry {
            owner: owner.owner,
            label: owner.label.to_owned(),
            metadata: owner.metadata.map(str::to_owned),
            since: self.wall(owner.since),
            expires_at: self.wall(owner.expires),
            ends_at: owner.ends.map(|at| self.wall(at)),
            locks: owner.locks,
        }
    }
}
