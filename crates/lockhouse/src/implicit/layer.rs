//! The tower layer: every request of a route is a step of a business transaction.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response, header};
use tower_layer::Layer;
use tower_service::Service;

use super::application::ApplicationSession;
use super::refusal::{AccessError, Refusal};
use super::sessions::{Sessions, WebSession};
use crate::owners::error::LockError;
use crate::owners::kinds::Wanted;

/// Runs the requests of a route as steps of business transactions; made by [`Sessions`].
///
/// A step succeeds with an answer below status 400. With any other, with an error or a panic, and if the
/// client goes away before the answer, it is undone: its new locks are taken back, locks that it wanted to
/// give back stay, and if it was to begin a business transaction then the one before goes on. The steps of
/// one session come one after the other.
///
/// The extensions of the request have an `Option<WebSession>`, the [`WebSession`] itself if there is one, and
/// in a step the [`ApplicationSession`].
#[derive(Clone)]
pub struct ImplicitLock {
    sessions: Sessions,
    declared: Declared,
    wanted: Option<Arc<WantedBy>>,
}

type WantedBy = dyn Fn(&Parts) -> Vec<Wanted> + Send + Sync;

/// The declaration of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declared {
    Begins,
    Continues,
    Nothing,
}

impl fmt::Debug for ImplicitLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImplicitLock").field("declared", &self.declared).finish_non_exhaustive()
    }
}

impl ImplicitLock {
    pub(crate) fn begins(sessions: Sessions) -> Self {
        Self { sessions, declared: Declared::Begins, wanted: None }
    }

    pub(crate) fn continues(sessions: Sessions) -> Self {
        Self { sessions, declared: Declared::Continues, wanted: None }
    }

    pub(crate) fn attends(sessions: Sessions) -> Self {
        Self { sessions, declared: Declared::Nothing, wanted: None }
    }

    /// Locks these records, found by the request alone, before the handler runs; if they cannot be locked it
    /// does not run.
    ///
    /// # Panics
    ///
    /// For a layer that [attends](Sessions::attends): only steps take locks.
    pub fn locking<W: IntoIterator<Item = Wanted>>(
        mut self,
        wanted: impl Fn(&Parts) -> W + Send + Sync + 'static,
    ) -> Self {
        assert!(self.declared != Declared::Nothing, "{}", AccessError::Undeclared);
        self.wanted = Some(Arc::new(move |request| wanted(request).into_iter().collect()));
        self
    }

    /// The session of the request, and whether it was begun for it.
    async fn session(&self, request: &Parts) -> Result<(Option<WebSession>, bool), Refusal> {
        let found = self.sessions.find(request).await.map_err(Refusal::Owner)?;
        if found.is_some() || self.declared != Declared::Begins {
            return Ok((found, false));
        }
        let guest = self.sessions.guest().await.map_err(Refusal::Owner)?;
        let is_new = guest.is_some();
        Ok((guest, is_new))
    }

    async fn lock(&self, request: &Parts, application: &ApplicationSession) -> Result<(), Refusal> {
        let Some(wanted) = &self.wanted else { return Ok(()) };
        match application.lock(wanted(request)).await {
            Ok(_) => Ok(()),
            Err(AccessError::Lock(LockError::OwnerEnded)) => Err(Refusal::NoSession),
            Err(AccessError::Lock(error)) => Err(Refusal::Lock(error)),
            Err(error) => unreachable!("the step has only just begun: {error}"),
        }
    }

    async fn run<S, B, R>(self, mut inner: S, request: Request<B>) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: From<String>,
    {
        let (mut parts, body) = request.into_parts();
        let (session, is_new) = match self.session(&parts).await {
            Ok(found) => found,
            // The request can be served all the same, without a session.
            Err(_) if self.declared == Declared::Nothing => (None, false),
            Err(refusal) => return Ok(refusal.into_response()),
        };
        parts.extensions.insert(session.clone());
        if self.declared == Declared::Nothing {
            session.map(|session| parts.extensions.insert(session));
            return inner.call(Request::from_parts(parts, body)).await;
        }
        let Some(session) = session else { return Ok(Refusal::NoSession.into_response()) };
        parts.extensions.insert(session.clone());
        let mut response = self.step(&session, inner, parts, body).await?;
        if is_new {
            response.headers_mut().append(header::SET_COOKIE, session.cookie());
        }
        Ok(response)
    }

    async fn step<S, B, R>(
        &self,
        session: &WebSession,
        mut inner: S,
        mut parts: Parts,
        body: B,
    ) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: From<String>,
    {
        let mut present = session.transaction().lock_owned().await;
        let application = match &*present {
            Some(transaction) if self.declared == Declared::Continues => {
                ApplicationSession::resume(transaction.clone())
            }
            None if self.declared == Declared::Continues => {
                ApplicationSession::resume(self.sessions.new_transaction(session))
            }
            _ => ApplicationSession::begin(self.sessions.new_transaction(session)),
        };
        let undone_unless_committed = RollBack(&application);
        if let Err(refusal) = self.lock(&parts, &application).await {
            return Ok(refusal.into_response());
        }
        parts.extensions.insert(application.clone());
        let response = application.scope(inner.call(Request::from_parts(parts, body))).await?;
        if response.status().is_client_error() || response.status().is_server_error() {
            return Ok(response);
        }
        let remover = session.remover();
        if let Err(refusal) = application.commit(|error| remover.not_given_back(error)).await {
            return Ok(refusal.into_response());
        }
        drop(undone_unless_committed);
        *present = Some(application.transaction().clone());
        Ok(response)
    }
}

/// Undoes a step that was not committed, however the request ends.
struct RollBack<'a>(&'a ApplicationSession);

impl Drop for RollBack<'_> {
    fn drop(&mut self) {
        self.0.roll_back();
    }
}

/// The service that [`ImplicitLock`] makes.
#[derive(Clone, Debug)]
pub struct ImplicitLockService<S> {
    layer: ImplicitLock,
    inner: S,
}

impl<S> Layer<S> for ImplicitLock {
    type Service = ImplicitLockService<S>;

    fn layer(&self, inner: S) -> ImplicitLockService<S> {
        ImplicitLockService { layer: self.clone(), inner }
    }
}

impl<S, B, R> Service<Request<B>> for ImplicitLockService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: From<String> + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready goes along; its clone has to become ready first.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(self.layer.clone().run(inner, request))
    }
}
