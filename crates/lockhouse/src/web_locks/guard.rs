//! The guard of a granted lock.

use std::sync::Arc;

use lockhouse_core::{FencingToken, Grant, Mode, Name, NameBuf, RequestId, RequestStatus};

use crate::loss::Loss;
use crate::web_locks::local_agent::LocalAgent;

/// A lock that is held until the guard is dropped, or the lock is [lost](Self::lost).
///
/// Dropping it never blocks on the network, never spawns a task and never fails. Over the network the
/// session's task sends the release to the server, and repeats it until that is acknowledged or the lease
/// ends; use [`release`](Self::release) to be sure.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    name: NameBuf,
    mode: Mode,
    token: FencingToken,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    Local(LocalHold),
    #[cfg(feature = "remote")]
    Remote(crate::remote::hold::RemoteHold),
}

impl LockGuard {
    #[inline]
    pub(crate) fn local(agent: Arc<LocalAgent>, grant: Grant, name: NameBuf, mode: Mode) -> Self {
        Self {
            name,
            mode,
            token: grant.token,
            hold: Hold::Local(LocalHold { agent, request: grant.request }),
        }
    }

    #[cfg(feature = "remote")]
    pub(crate) fn remote(
        hold: crate::remote::hold::RemoteHold,
        token: FencingToken,
        name: NameBuf,
        mode: Mode,
    ) -> Self {
        Self { name, mode, token, hold: Hold::Remote(hold) }
    }

    /// The name that is held.
    pub fn name(&self) -> Name<'_> {
        self.name.as_name()
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A number that grows with every grant of the bucket: hand it to the guarded resource, which then can
    /// refuse clients with an older one.
    ///
    /// The number stays the same after a loss, when the resource refuses it as soon as it has seen a newer
    /// one. Over the network, reading it also looks at the lease: if that has run out, the [loss](Self::loss)
    /// is known from then on.
    pub fn fencing_token(&self) -> FencingToken {
        #[cfg(feature = "remote")]
        if let Hold::Remote(hold) = &self.hold {
            hold.loss();
        }
        self.token
    }

    /// Waits until the lock is lost, and returns why. Never returns while it is held.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> Loss {
        match &self.hold {
            Hold::Local(hold) => hold.lost().await,
            #[cfg(feature = "remote")]
            Hold::Remote(hold) => hold.lost().await,
        }
    }

    /// Why the lock was lost, if it was.
    pub fn loss(&self) -> Option<Loss> {
        match &self.hold {
            Hold::Local(hold) => hold.loss(),
            #[cfg(feature = "remote")]
            Hold::Remote(hold) => hold.loss(),
        }
    }

    /// Releases the lock and waits until that is known to have happened.
    ///
    /// # Errors
    ///
    /// The [`Loss`], if the lock had been lost before.
    ///
    /// # Cancel safety
    ///
    /// The lock is released in any case.
    pub async fn release(self) -> Result<(), Loss> {
        match self.hold {
            Hold::Local(hold) => hold.release(),
            #[cfg(feature = "remote")]
            Hold::Remote(hold) => hold.release().await,
        }
    }
}

/// A lock of an agent of this process.
#[derive(Debug)]
struct LocalHold {
    agent: Arc<LocalAgent>,
    request: RequestId,
}

impl LocalHold {
    fn loss(&self) -> Option<Loss> {
        self.agent.bucket.with(|state| match (state.loss(), state.status(self.request)) {
            (Some(why), _) => Some(why),
            (None, RequestStatus::Ended) => Some(state.waiters().loss_of(self.request)),
            (None, RequestStatus::Pending | RequestStatus::Held(_)) => None,
        })
    }

    async fn lost(&self) -> Loss {
        let heard = self.agent.bucket.with(|state| match (state.loss(), state.status(self.request)) {
            (None, RequestStatus::Pending | RequestStatus::Held(_)) => {
                Some(state.waiters().listen(self.request).notified_owned())
            }
            _ => None,
        });
        if let Some(heard) = heard {
            heard.await;
        }
        self.agent.bucket.with(|state| state.loss().unwrap_or_else(|| state.waiters().loss_of(self.request)))
    }

    /// Dropping `self` afterwards finds nothing left to release.
    fn release(self) -> Result<(), Loss> {
        self.agent.bucket.release(self.request).map_or(Ok(()), Err)
    }
}

impl Drop for LocalHold {
    #[inline]
    fn drop(&mut self) {
        self.agent.bucket.release(self.request);
    }
}
