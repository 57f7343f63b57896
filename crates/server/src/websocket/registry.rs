//! The registry in which a resume finds its session.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    entries: Arc<Mutex<HashMap<String, Registered>>>,
    /// How many sessions there have been.
    count: Arc<AtomicU64>,
    tenants: Quotas<String>,
    orders: ArrivalOrders,
}

struct Registered {
    secret: String,
    scope: BucketKey,
    view: Arc<SessionView>,
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
        let view = Arc::new(SessionView::new(self.count.fetch_add(1, Ordering::Relaxed) + 1, peer));
        let entry = Registered { secret: secret.clone(), scope, view: view.clone(), attach: sender };
        self.entries.lock().insert(id.clone(), entry);
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
        let attach = Attach { connection, admission, received: resume.received, back };
        match session.send(attach).await {
            Ok(()) => given_back.await.ok(),
            Err(refused) => Some((refused.0.admission, refused.0.connection)),
        }
    }

    /// The number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// The sessions of that bucket whose numbers are above `after`, in the order of their numbers, at most so
    /// many. O(all sessions).
    pub(crate) fn of_bucket(&self, scope: &BucketKey, after: u64, most: usize) -> Vec<Arc<SessionView>> {
        let sessions = self.entries.lock();
        let of_it = sessions.values().filter(|entry| entry.view.number > after && entry.scope == *scope);
        let mut views: Vec<_> = of_it.map(|entry| entry.view.clone()).collect();
        drop(sessions);
        views.sort_unstable_by_key(|view| view.number);
        views.truncate(most);
        views
    }

    /// Whether there is a session with that id.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.entries.lock().contains_key(id)
    }

    fn find(&self, scope: &BucketKey, resume: &Resume<'_>) -> Lookup {
        let sessions = self.entries.lock();
        let Some(entry) = sessions.get(&*resume.session) else { return Lookup::Nothing };
        let known: bool = entry.secret.as_bytes().ct_eq(resume.secret.as_bytes()).into();
        if known && entry.scope == *scope { Lookup::Session(entry.attach.clone()) } else { Lookup::Denied }
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
        self.registry.entries.lock().remove(&self.id);
        self.attach.close();
        self.late.drain(..).for_each(Attach::give_back);
        while let Ok(attach) = self.attach.try_recv() {
            attach.give_back();
        }
    }
}
