//! The registry in which a resume finds its session.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use lockhouse::BucketKey;
use lockhouse_wire::Resume;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::sync::{mpsc, oneshot};

use super::admission::Admission;
use super::arrivals::{ArrivalOrder, ArrivalOrders};
use super::connection::WebSocketConnection;
use super::session_view::{Peer, SessionView};
use crate::limits::{Full, Permit, Quotas, Refused};
use crate::random::random_hex;
use crate::settings::LimitSettings;

/// All sessions of a server. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionRegistry {
    entries: Arc<Mutex<Entries>>,
    tenants: Quotas<String>,
    orders: ArrivalOrders,
}

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<String, Registered>,
    by_bucket: HashMap<BucketKey, OfBucket>,
}

/// The sessions of a bucket that has any.
#[derive(Debug, Default)]
struct OfBucket {
    /// The number of the latest. Each bucket counts by itself: none shows how many others have.
    last: u64,
    views: BTreeMap<u64, Arc<SessionView>>,
}

struct Registered {
    secret: String,
    scope: BucketKey,
    /// Among the sessions of the bucket.
    number: u64,
    attach: mpsc::Sender<Attach>,
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// A connection that wants to go on with a session.
#[derive(Debug)]
pub(crate) struct Attach {
    pub(crate) connection: WebSocketConnection,
    /// The identity of the connection, of the same tenant.
    pub(crate) admission: Admission,
    /// The last numbered frame that the client has processed.
    pub(crate) received: u64,
    /// The number of the attempt, if the client counts them.
    pub(crate) attempt: Option<u64>,
    /// The way to give the connection back, should the session end before it takes the connection.
    back: oneshot::Sender<(Admission, WebSocketConnection)>,
}

impl Attach {
    /// The session is over: the connection may begin another.
    fn give_back(self) {
        // The handshake that waits for it may be gone, and the connection with it.
        _ = self.back.send((self.admission, self.connection));
    }
}

/// A session's entry in the registry; dropping it takes the session out.
pub(crate) struct Registration {
    registry: SessionRegistry,
    pub(crate) id: String,
    pub(crate) secret: String,
    /// What others may see of the session.
    pub(crate) view: Arc<SessionView>,
    /// The order among the connections of the bucket.
    pub(crate) order: ArrivalOrder,
    attach: mpsc::Receiver<Attach>,
    /// Connections that came too late.
    late: Vec<Attach>,
    #[expect(dead_code, reason = "kept for its end")]
    permit: Permit<String>,
}

impl SessionRegistry {
    /// Enters a new session; refuses it if there are too many.
    pub(crate) fn register(
        &self,
        scope: BucketKey,
        peer: Peer,
        limits: &LimitSettings,
    ) -> Result<Registration, Refused> {
        let (all, each) = (limits.sessions as usize, limits.sessions_per_tenant as usize);
        let permit = self.tenants.take(scope.tenant().to_owned(), all, each).map_err(|full| match full {
            Full::All => Refused::Sessions,
            Full::Each => Refused::SessionsPerTenant,
        })?;
        let (id, secret, order) = (random_hex::<16>(), random_hex::<32>(), self.orders.of(&scope));
        let (sender, attach) = mpsc::channel(1);
        let view = self.entries.lock().enter(id.clone(), secret.clone(), scope, peer, sender);
        Ok(Registration { registry: self.clone(), id, secret, view, order, attach, late: Vec::new(), permit })
    }

    /// Hands the connection to the session that it wants to go on with; gives it back if there is none.
    pub(crate) async fn resume(
        &self,
        admission: Admission,
        resume: &Resume<'_>,
        connection: WebSocketConnection,
    ) -> Option<(Admission, WebSocketConnection)> {
        let session = match self.find(&admission.scope, resume) {
            Lookup::Session(session) => session,
            Lookup::Nothing => return Some((admission, connection)),
            Lookup::Denied => {
                admission.note_denied("resume", None, &"not the secret of the session");
                return Some((admission, connection));
            }
        };
        let (back, given_back) = oneshot::channel();
        let Resume { received, attempt, .. } = *resume;
        let attach = Attach { connection, admission, received, attempt, back };
        match session.send(attach).await {
            Ok(()) => given_back.await.ok(),
            Err(refused) => Some((refused.0.admission, refused.0.connection)),
        }
    }

    /// The number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().by_id.len()
    }

    /// The number of sessions of that bucket.
    pub(crate) fn len_of_bucket(&self, scope: &BucketKey) -> usize {
        self.entries.lock().by_bucket.get(scope).map_or(0, |of_bucket| of_bucket.views.len())
    }

    /// The sessions of that bucket whose numbers are above `after`, in the order of their numbers, at most so
    /// many. O(log n) and that many.
    pub(crate) fn of_bucket(&self, scope: &BucketKey, after: u64, most: usize) -> Vec<Arc<SessionView>> {
        let sessions = self.entries.lock();
        let Some(of_bucket) = sessions.by_bucket.get(scope) else { return Vec::new() };
        let later = of_bucket.views.range((Bound::Excluded(after), Bound::Unbounded));
        later.take(most).map(|(_, view)| view.clone()).collect()
    }

    /// Whether there is a session with that id.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.entries.lock().by_id.contains_key(id)
    }

    fn find(&self, scope: &BucketKey, resume: &Resume<'_>) -> Lookup {
        let sessions = self.entries.lock();
        let Some(entry) = sessions.by_id.get(&*resume.session) else { return Lookup::Nothing };
        let known: bool = entry.secret.as_bytes().ct_eq(resume.secret.as_bytes()).into();
        if known && entry.scope == *scope { Lookup::Session(entry.attach.clone()) } else { Lookup::Denied }
    }
}

impl Entries {
    fn enter(
        &mut self,
        id: String,
        secret: String,
        scope: BucketKey,
        peer: Peer,
        attach: mpsc::Sender<Attach>,
    ) -> Arc<SessionView> {
        let of_bucket = self.by_bucket.entry(scope.clone()).or_default();
        of_bucket.last += 1;
        let view = Arc::new(SessionView::new(of_bucket.last, peer));
        of_bucket.views.insert(view.number, view.clone());
        self.by_id.insert(id, Registered { secret, scope, number: view.number, attach });
        view
    }

    fn take_out(&mut self, id: &str) {
        let Some(Registered { scope, number, .. }) = self.by_id.remove(id) else { return };
        if let Entry::Occupied(mut of_bucket) = self.by_bucket.entry(scope) {
            of_bucket.get_mut().views.remove(&number);
            if of_bucket.get().views.is_empty() {
                of_bucket.remove();
            }
        }
    }
}

/// The finding of a resume.
enum Lookup {
    Session(mpsc::Sender<Attach>),
    /// The session has ended.
    Nothing,
    /// The session belongs to another client, as far as is known.
    Denied,
}

impl Registration {
    /// The session cannot take the connection over. The connection may begin another session, but only once
    /// this one has ended: a client that learns that a session is gone must find nothing held by it.
    pub(crate) fn give_back_at_the_end(&mut self, attach: Attach) {
        self.late.push(attach);
    }

    /// The next connection that wants to go on with the session.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Attach {
        match self.attach.recv().await {
            Some(attach) => attach,
            // The registry holds a sender for as long as this registration lives.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.entries.lock().take_out(&self.id);
        self.attach.close();
        self.late.drain(..).for_each(Attach::give_back);
        while let Ok(attach) = self.attach.try_recv() {
            attach.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use super::*;

    fn register(registry: &SessionRegistry, bucket: &str) -> Registration {
        let peer = Peer { credential: String::new(), address: None, user_agent: None, origin: None };
        registry.register(BucketKey::from(bucket), peer, &LimitSettings::DEFAULT).unwrap()
    }

    #[test]
    fn the_numbers_of_the_sessions_of_a_bucket_say_nothing_of_others() {
        let registry = SessionRegistry::default();
        let numbers = |after: u64, most: usize| {
            let views = registry.of_bucket(&BucketKey::from("b"), after, most);
            views.iter().map(|view| view.number).collect::<Vec<_>>()
        };
        let _others: Vec<_> = (0..3).map(|_| register(&registry, "a")).collect();
        let first = register(&registry, "b");
        let _more: Vec<_> = (0..3).map(|_| register(&registry, "a")).collect();
        let [second, third] = [(); 2].map(|()| register(&registry, "b"));
        assert_eq!(numbers(0, 9), [1, 2, 3]);
        assert_eq!((numbers(0, 2), numbers(2, 2)), (vec![1, 2], vec![3]));
        // A page misses no session that was there when the page before was asked for.
        drop(third);
        let _fourth = register(&registry, "b");
        assert_eq!(numbers(2, 9), [4]);
        drop((first, second));
        assert_eq!(numbers(0, 9), [4]);
    }

    #[test]
    fn a_bucket_without_sessions_is_forgotten() {
        let registry = SessionRegistry::default();
        drop((register(&registry, "a"), register(&registry, "a")));
        let sessions = registry.entries.lock();
        assert!(sessions.by_id.is_empty() && sessions.by_bucket.is_empty());
    }
}
