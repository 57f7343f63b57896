//! How web locks outlive a restart of the server: their holders are given tickets, and bring them back.
//!
//! A house over a store recovers after every stop that was not clean: until that is over only locks that are
//! brought back are granted.

use std::time::Duration;

use lockhouse_core::{Command, NewReclaim, Outcome, Refusal, RequestId};

use crate::engine::bucket::Bucket;
use crate::engine::port::Port;
use crate::engine::ticket::Ticketed;

impl Bucket {
    /// Whether locks of before a restart may be brought back, so that grants come with tickets.
    pub fn takes_reclaims(&self) -> bool {
        self.0.tickets().is_some()
    }

    /// Whether an agent behind a port holds a web lock, or may come back for one.
    pub fn is_held_remotely(&self) -> bool {
        self.0.is_held_remotely()
    }

    /// For how long, at most, the bucket still waits for holders that bring locks back, and grants nothing
    /// else; none if it does not.
    pub fn recovers_for(&self) -> Option<Duration> {
        let until = self.0.with(|state| state.manager().recovers_until())?;
        let left_ms = until.as_millis().saturating_sub(self.now().as_millis());
        Some(Duration::from_millis(left_ms))
    }

    /// Waits until the bucket does not recover any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn recovered(&self) {
        // Registered under the mutex, so that the end cannot pass unheard.
        while let Some(ended) = self.0.with(|state| state.recovery_end()) {
            ended.await;
        }
    }
}

impl Port {
    /// The proof of a grant for a later life of the server; none if the lock is not held any more, or locks
    /// cannot be brought back.
    pub fn ticket(&self, request: RequestId) -> Option<String> {
        let bucket = self.bucket();
        let tickets = bucket.0.tickets()?;
        let lock = bucket.0.with(|state| {
            let lock = state.manager().web_lock(request)?;
            Some((lock.client_id.to_owned(), lock.name.to_buf(), lock.mode, lock.token))
        });
        let (client_id, name, mode, token) = lock?;
        let lock =
            Ticketed { bucket: bucket.key(), client_id: &client_id, name: name.as_name(), mode, token };
        Some(tickets.issue(&lock))
    }

    /// As [`submit`](Self::submit) of a [`Command::Reclaim`], which is refused as superseded if the ticket is
    /// not the one of that lock and of an agent with that label. False then, if there are tickets at all.
    pub fn reclaim(&self, tag: u64, reclaim: NewReclaim<'_>, ticket: &str) -> bool {
        let is_genuine = self.is_genuine(&reclaim, ticket);
        if is_genuine {
            self.submit(tag, Command::Reclaim(reclaim));
        } else {
            self.refuse_reclaim();
            self.answer(tag, Outcome::Refused(Refusal::Superseded));
        }
        is_genuine || self.bucket().0.tickets().is_none()
    }

    /// A reclaim of the client was refused without having been submitted.
    pub fn refuse_reclaim(&self) {
        self.inbox().refuse_reclaim();
    }

    /// The client whose session had this secret in an earlier life has asked for all that it still holds.
    /// What the session held besides, by the list that the stop of that life left, ends now. If a reclaim was
    /// refused it ends with its lease: until the client hears of the refusal it may rely on that lock.
    pub fn has_reclaimed(&self, former_secret: &str) {
        if self.inbox().has_refused_reclaim() {
            return;
        }
        let bucket = self.bucket();
        if let Some(session) = bucket.0.session_hash(former_secret) {
            let now = bucket.0.environment.clock.stamp();
            bucket.0.with(|state| state.has_reclaimed(now, session));
        }
    }

    fn is_genuine(&self, reclaim: &NewReclaim<'_>, ticket: &str) -> bool {
        let bucket = self.bucket();
        let client_id = bucket.0.with(|state| state.manager().client_id_of(reclaim.agent).map(str::to_owned));
        let (Some(tickets), Some(client_id)) = (bucket.0.tickets(), client_id) else { return false };
        let NewReclaim { name, mode, token, .. } = *reclaim;
        tickets.verify(&Ticketed { bucket: bucket.key(), client_id: &client_id, name, mode, token }, ticket)
    }
}
