//! Web sessions: owners whose id and secret the browser bears.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, header};
use lockhouse_core::OwnerId;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::application::Transaction;
use super::layer::ImplicitLock;
use super::remover::{Errors, LockRemover, SeriousError};
use crate::error::StoreError;
use crate::owners::error::OwnerError;
use crate::owners::{Owner, Owners};
use crate::secret::Secret;

/// The web sessions of one application. Cheap to clone; every clone means the same ones.
#[derive(Clone, Debug)]
pub struct Sessions {
    inner: Arc<Inner>,
}

/// How web sessions are.
#[derive(Clone)]
pub struct SessionOptions {
    timeout: Duration,
    errors: Errors,
    cookie: String,
    is_secure: bool,
    guests: Option<String>,
}

/// A user's session with the application, and the owner of all locks that it takes. A session ends with
/// [`end`](Self::end), or once no request of it came for the time that [`SessionOptions`] say.
#[derive(Clone, Debug)]
pub struct WebSession {
    sessions: Weak<Inner>,
    open: Arc<Open>,
}

/// The key that finds a session again: the content of the cookie. An application that keeps sessions of its
/// own can store its text there, and put the key into the extensions of each request, which counts before any
/// cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    owner: OwnerId,
    secret: Secret,
}

/// The text is no key of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the key of a session: a number, a dot and hexadecimal digits are expected")]
pub struct MalformedSessionKey;

#[derive(Debug)]
struct Inner {
    owners: Owners,
    options: SessionOptions,
    known: Mutex<Known>,
    transactions: AtomicU64,
}

/// The sessions that this process knows.
#[derive(Debug, Default)]
struct Known {
    open: HashMap<OwnerId, Arc<Open>>,
    /// Sessions that are over while their owners may not be, as the store is away. Such a session is not
    /// found again.
    ended: HashSet<OwnerId>,
}

/// A session that this process knows.
#[derive(Debug)]
struct Open {
    owner: Owner,
    user: String,
    cookie: HeaderValue,
    heard: Mutex<Instant>,
    remover: LockRemover,
    /// The present business transaction. Its steps come one after the other, as an owner has but one
    /// transaction at a time.
    transaction: Arc<tokio::sync::Mutex<Option<Arc<Transaction>>>>,
}

impl SessionOptions {
    /// Sessions that end after `timeout` without any request. Errors at their ends are reported to
    /// `on_serious_error`.
    pub fn new(timeout: Duration, on_serious_error: impl Fn(SeriousError) + Send + Sync + 'static) -> Self {
        let errors = Arc::new(on_serious_error);
        Self { timeout, errors, cookie: "lockhouse-session".to_owned(), is_secure: false, guests: None }
    }

    /// The name of the cookie.
    ///
    /// # Panics
    ///
    /// If it is not made of letters, digits, `-` and `_` alone.
    pub fn cookie(mut self, name: &str) -> Self {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        assert!(!name.is_empty() && name.bytes().all(is_plain), "{name:?} cannot be the name of a cookie");
        self.cookie = name.to_owned();
        self
    }

    /// Has browsers send the cookie over TLS only.
    pub fn secure(mut self) -> Self {
        self.is_secure = true;
        self
    }

    /// A request without a session gets one of this user name where a business transaction begins; without
    /// this option the request is refused.
    pub fn guests(mut self, user: &str) -> Self {
        self.guests = Some(user.to_owned());
        self
    }

    fn cookie_of(&self, key: &SessionKey) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Lax{secure}", self.cookie, key.reveal());
        let mut cookie = HeaderValue::from_str(&cookie).expect("name, digits and a dot are plain ASCII");
        cookie.set_sensitive(true);
        cookie
    }
}

impl fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionOptions").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Sessions {
    /// Sessions whose locks these owners hold.
    pub fn new(owners: Owners, options: SessionOptions) -> Self {
        let (known, transactions) = (Mutex::default(), AtomicU64::new(1));
        Self { inner: Arc::new(Inner { owners, options, known, transactions }) }
    }

    /// The layer of a route that begins a business transaction: once it has succeeded, whatever the session
    /// has locked before is given back, unless it locked it again.
    pub fn begins(&self) -> ImplicitLock {
        ImplicitLock::begins(self.clone())
    }

    /// The layer of a route that continues the present business transaction: its locks stay.
    pub fn continues(&self) -> ImplicitLock {
        ImplicitLock::continues(self.clone())
    }

    /// The layer of all other routes of the application: a request counts as activity, and a handler finds
    /// its session as `Extension<Option<WebSession>>`. The layer refuses no request: if its session cannot be
    /// determined, it has none.
    pub fn attends(&self) -> ImplicitLock {
        ImplicitLock::attends(self.clone())
    }

    /// Begins a session of that user.
    ///
    /// # Errors
    ///
    /// [`OwnerError`].
    pub async fn open(&self, user: &str) -> Result<WebSession, OwnerError> {
        let owner = self.inner.owners.open(user, self.inner.options.timeout).await?;
        self.bind(owner, user).ok_or(OwnerError::Unknown)
    }

    /// The session of a request, if it has one that has not ended; the request counts as activity.
    ///
    /// # Errors
    ///
    /// [`OwnerError`] if that cannot be determined.
    pub async fn find(&self, request: &Parts) -> Result<Option<WebSession>, OwnerError> {
        if let Some(session) = request.extensions.get::<WebSession>() {
            return Ok(Some(session.clone()));
        }
        let Some(key) = self.key_of(request) else { return Ok(None) };
        let known = self.inner.heard_of(&key);
        if let Some(open) = known {
            if *open.owner.secret() != key.secret {
                return Ok(None);
            }
            if open.owner.touch().await? {
                return Ok(Some(self.session(open)));
            }
            self.inner.known.lock().open.remove(&key.owner);
            return Ok(None);
        }
        self.resume(&key).await
    }

    /// A session from before a restart.
    async fn resume(&self, key: &SessionKey) -> Result<Option<WebSession>, OwnerError> {
        if self.inner.known.lock().ended.contains(&key.owner) {
            return Ok(None);
        }
        let owner = match self.inner.owners.resume(key.owner, &key.secret).await {
            Ok(owner) => owner,
            Err(OwnerError::Unknown | OwnerError::WrongSecret) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(info) = owner.info().await? else { return Ok(None) };
        Ok(self.bind(owner, &info.label))
    }

    /// The `Set-Cookie` header that takes the cookie from a browser whose session is over.
    pub fn no_cookie(&self) -> HeaderValue {
        let SessionOptions { cookie, is_secure, .. } = &self.inner.options;
        let secure = if *is_secure { "; Secure" } else { "" };
        let cookie = format!("{cookie}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0{secure}");
        HeaderValue::from_str(&cookie).expect("the name is plain ASCII")
    }

    fn key_of(&self, request: &Parts) -> Option<SessionKey> {
        if let Some(key) = request.extensions.get::<SessionKey>() {
            return Some(key.clone());
        }
        let cookies = request.headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, key) = pairs.find(|(name, _)| *name == self.inner.options.cookie)?;
        key.parse().ok()
    }

    /// A guest's session, where there are guests.
    pub(crate) async fn guest(&self) -> Result<Option<WebSession>, OwnerError> {
        match &self.inner.options.guests {
            Some(user) => self.open(user).await.map(Some),
            None => Ok(None),
        }
    }

    /// The session of an owner, which has its lock remover from now on. If another request was quicker, it is
    /// that one's; none if it has ended meanwhile.
    fn bind(&self, owner: Owner, user: &str) -> Option<WebSession> {
        let Inner { options, known, .. } = &*self.inner;
        let key = SessionKey { owner: owner.id(), secret: owner.secret().clone() };
        let mut known = known.lock();
        if known.ended.contains(&owner.id()) {
            return None;
        }
        let open = known.open.entry(owner.id()).or_insert_with(|| {
            tokio::spawn(expire(Arc::downgrade(&self.inner), owner.id()));
            Arc::new(Open {
                remover: LockRemover::new(&owner, user, &options.errors),
                owner,
                user: user.to_owned(),
                cookie: options.cookie_of(&key),
                heard: Mutex::new(Instant::now()),
                transaction: Arc::default(),
            })
        });
        Some(self.session(open.clone()))
    }

    fn session(&self, open: Arc<Open>) -> WebSession {
        WebSession { sessions: Arc::downgrade(&self.inner), open }
    }

    /// A business transaction without any objects yet.
    pub(crate) fn new_transaction(&self, session: &WebSession) -> Arc<Transaction> {
        let id = self.inner.transactions.fetch_add(1, Ordering::Relaxed);
        Transaction::new(id, &session.open.user, &session.open.owner)
    }
}

impl Inner {
    /// The session that this process knows by that id, for which the request counts if it knows the secret.
    fn heard_of(&self, key: &SessionKey) -> Option<Arc<Open>> {
        // At once, so that it cannot expire in between.
        let known = self.known.lock();
        let open = known.open.get(&key.owner)?;
        if *open.owner.secret() == key.secret {
            *open.heard.lock() = Instant::now();
        }
        Some(open.clone())
    }

    /// The session is over, whatever becomes of its owner.
    fn forget(&self, owner: OwnerId) {
        let mut known = self.known.lock();
        known.open.remove(&owner);
        known.ended.insert(owner);
    }

    /// Forgets a session that was silent for its time, or returns when that will be so.
    fn take_silent(&self, owner: OwnerId) -> Option<Result<Arc<Open>, Instant>> {
        let mut known = self.known.lock();
        let ends = *known.open.get(&owner)?.heard.lock() + self.options.timeout;
        if ends > Instant::now() {
            return Some(Err(ends));
        }
        known.ended.insert(owner);
        known.open.remove(&owner).map(Ok)
    }
}

/// Ends a session once it was silent for its time.
async fn expire(sessions: Weak<Inner>, owner: OwnerId) {
    loop {
        let Some(silent) = sessions.upgrade().and_then(|inner| inner.take_silent(owner)) else { return };
        match silent {
            Ok(open) => {
                // Its error was reported already.
                return end(sessions, open, |_| {}).await;
            }
            Err(ends) => tokio::time::sleep_until(ends).await,
        }
    }
}

/// Ends the owner of a session that is forgotten; `first` gets the result of the first attempt. While the
/// store is away the task goes on trying, until the owner has ended by itself.
async fn end(sessions: Weak<Inner>, open: Arc<Open>, first: impl FnOnce(Result<(), StoreError>)) {
    let owner = open.owner.id();
    let timeout = sessions.upgrade().map(|inner| inner.options.timeout);
    let until = Instant::now() + timeout.unwrap_or_default();
    let ended = open.remover.unbound().await;
    first(ended.clone());
    if let Err(error) = ended {
        open.remover.try_again(error, until).await;
    }
    if let Some(inner) = sessions.upgrade() {
        inner.known.lock().ended.remove(&owner);
    }
}

impl WebSession {
    /// The name of the user.
    pub fn user(&self) -> &str {
        &self.open.user
    }

    /// The owner of its locks.
    pub fn owner(&self) -> &Owner {
        &self.open.owner
    }

    /// The key that finds the session again.
    pub fn key(&self) -> SessionKey {
        SessionKey { owner: self.open.owner.id(), secret: self.open.owner.secret().clone() }
    }

    /// The `Set-Cookie` header that gives it to a browser.
    pub fn cookie(&self) -> HeaderValue {
        self.open.cookie.clone()
    }

    /// Ends the session, and with it all its locks.
    ///
    /// # Errors
    ///
    /// [`StoreError`], which was reported to the handler of serious errors, too. The session is over all the
    /// same: this process finds it no more, and ends its owner once the store serves again. Only another
    /// process may find it before that, so take the cookie away as well ([`Sessions::no_cookie`]).
    ///
    /// # Cancel safety
    ///
    /// The session ends all the same.
    pub async fn end(&self) -> Result<(), StoreError> {
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.forget(self.open.owner.id());
        }
        let (report, ended) = tokio::sync::oneshot::channel();
        // A caller that has gone meanwhile gets no result.
        tokio::spawn(end(self.sessions.clone(), self.open.clone(), |ended| _ = report.send(ended)));
        ended.await.unwrap_or_else(|_| {
            let why = "the runtime ended before the owner did".to_owned();
            Err(StoreError::OutcomeUnknown { why })
        })
    }

    pub(crate) fn remover(&self) -> &LockRemover {
        &self.open.remover
    }

    pub(crate) fn transaction(&self) -> Arc<tokio::sync::Mutex<Option<Arc<Transaction>>>> {
        self.open.transaction.clone()
    }
}

impl SessionKey {
    /// As text, for a cookie or a store of sessions. A holder of the text may act as the session.
    pub fn reveal(&self) -> String {
        format!("{}.{}", self.owner, self.secret.reveal())
    }
}

impl FromStr for SessionKey {
    type Err = MalformedSessionKey;

    fn from_str(text: &str) -> Result<Self, MalformedSessionKey> {
        let (owner, secret) = text.split_once('.').ok_or(MalformedSessionKey)?;
        let owner = OwnerId::new(owner.parse().map_err(|_| MalformedSessionKey)?);
        Ok(Self { owner, secret: secret.parse().map_err(|_| MalformedSessionKey)? })
    }
}
