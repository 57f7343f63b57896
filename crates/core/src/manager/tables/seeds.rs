//! The owners that live, found by the seeds of their secrets.

use std::collections::BTreeSet;

use crate::{OwnerId, SecretSeed};

/// The owners by seed. Drawn seeds differ, but nothing here depends on that.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnerSeeds(BTreeSet<(u64, OwnerId)>);

impl OwnerSeeds {
    pub(crate) fn insert(&mut self, seed: SecretSeed, owner: OwnerId) {
        self.0.insert((seed.0, owner));
    }

    pub(crate) fn remove(&mut self, seed: SecretSeed, owner: OwnerId) {
        self.0.remove(&(seed.0, owner));
    }

    /// The owners of that seed, oldest first.
    pub(crate) fn owners(&self, SecretSeed(seed): SecretSeed) -> impl Iterator<Item = OwnerId> + '_ {
        let all = (seed, OwnerId::new(0))..=(seed, OwnerId::new(u64::MAX));
        self.0.range(all).map(|(_, owner)| *owner)
    }
}
