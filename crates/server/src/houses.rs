//! The lock tables of a server: one house, or those that a node of a fleet has at the moment.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::fleet::BucketPlace;
use lockhouse::{BucketKey, House, MemoryBudget, Meters};

use crate::cluster::Cluster;

/// The lock tables of a server.
#[derive(Clone, Debug)]
pub(crate) enum Houses {
    /// All buckets are in one.
    One(House),
    /// Each slot has one, at one of the nodes.
    Fleet {
        cluster: Arc<Cluster>,
        /// The memory of the buckets in all of them.
        budget: MemoryBudget,
        /// Where what happens in them is counted.
        meters: Option<Meters>,
    },
}

impl Houses {
    /// The fleet that the server is a node of.
    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match self {
            Self::One(_) => None,
            Self::Fleet { cluster, .. } => Some(cluster),
        }
    }

    /// Where that bucket is.
    pub(crate) fn find(&self, key: &BucketKey) -> BucketPlace {
        match self {
            Self::One(house) => BucketPlace::Here(house.clone()),
            Self::Fleet { cluster, .. } => cluster.node.find(key),
        }
    }

    /// As [`find`](Self::find), once it is somewhere, or after this time.
    pub(crate) async fn find_in_time(&self, key: &BucketKey, patience: Duration) -> BucketPlace {
        match self {
            Self::One(house) => BucketPlace::Here(house.clone()),
            Self::Fleet { cluster, .. } => cluster.node.find_in_time(key, patience).await,
        }
    }

    /// The life of the house that has the bucket, if that is one of several: what is remembered of it ends
    /// with the house.
    pub(crate) fn life_of(&self, key: &BucketKey) -> String {
        match self.find(key) {
            BucketPlace::Here(house) if self.cluster().is_some() => house.life().unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// All that are here.
    pub(crate) fn all(&self) -> Vec<House> {
        match self {
            Self::One(house) => vec![house.clone()],
            Self::Fleet { cluster, .. } => cluster.node.houses(),
        }
    }

    /// Where what happens is counted, if anywhere.
    pub(crate) fn meters(&self) -> Option<&Meters> {
        match self {
            Self::One(house) => house.meters(),
            Self::Fleet { meters, .. } => meters.as_ref(),
        }
    }

    /// The memory that the buckets of each tenant take.
    pub(crate) fn memory_budget(&self) -> Option<&MemoryBudget> {
        match self {
            Self::One(house) => house.memory_budget(),
            Self::Fleet { budget, .. } => Some(budget),
        }
    }
}
