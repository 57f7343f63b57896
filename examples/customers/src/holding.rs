//! The lock table, as people read it.

use lockhouse::core::OwnerId;
use lockhouse::implicit::WebSession;
use lockhouse::{Bucket, HolderKind, Mode, Record, Snapshot, StoreError};

use crate::when::When;

/// One lock.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) lockable: String,
    pub(crate) user: String,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) is_edit: bool,
    pub(crate) since: When,
    /// Whether it is held by the session that looks.
    pub(crate) is_mine: bool,
}

/// All locks at one moment, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings(pub(crate) Vec<Holding>);

impl Holdings {
    pub(crate) async fn now(bucket: &Bucket, session: Option<&WebSession>) -> Result<Self, StoreError> {
        let Snapshot { mut held, .. } = bucket.snapshot().await?;
        held.sort_by_key(|lock| lock.since);
        let me = session.map(|session| session.owner().id());
        let holdings = held.into_iter().map(|lock| {
            let owner = match lock.kind {
                HolderKind::Offline(owner) => Some(owner),
                _ => None,
            };
            Holding {
                lockable: lock.name.as_name().display().into_owned(),
                user: lock.client_id,
                owner,
                is_edit: lock.mode == Mode::Exclusive,
                since: When::of(lock.since),
                is_mine: owner.is_some() && owner == me,
            }
        });
        Ok(Self(holdings.collect()))
    }

    pub(crate) fn of(&self, record: &Record) -> Vec<&Holding> {
        let name = record.name().display().into_owned();
        self.0.iter().filter(|holding| holding.lockable == name).collect()
    }
}
