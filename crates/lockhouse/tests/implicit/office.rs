//! An application with customers in a map, whose routes do as their paths say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, Response, StatusCode};
use axum::routing::{get, post};
use lockhouse::implicit::{
    AccessError, ApplicationSession, LoadError, SeriousError, SessionOptions, Sessions, WebSession,
};
use lockhouse::{Bucket, House, LockType, RecordKind};
use tower::ServiceExt;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(1200);

pub(crate) struct Office {
    pub(crate) house: House,
    pub(crate) sessions: Sessions,
    pub(crate) serious: Arc<Mutex<Vec<SeriousError>>>,
    pub(crate) trace: Trace,
    router: Router,
}

/// The events so far, and the names of the customers.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    events: Arc<Mutex<Vec<String>>>,
    names: Arc<Mutex<HashMap<u32, String>>>,
}

impl Trace {
    pub(crate) fn note(&self, event: impl Into<String>) {
        self.events.lock().unwrap().push(event.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    pub(crate) fn rename(&self, id: u32, name: &str) {
        self.names.lock().unwrap().insert(id, name.to_owned());
    }

    /// The load of a customer, which reports itself.
    pub(crate) async fn read(&self, id: u32) -> Result<String, std::convert::Infallible> {
        self.note(format!("load {id}"));
        Ok(self.names.lock().unwrap().get(&id).cloned().unwrap_or_else(|| format!("customer {id}")))
    }
}

pub(crate) fn customers() -> RecordKind {
    RecordKind::new("customer", LockType::ExclusiveWrite)
}

/// The status that an error is answered with.
pub(crate) fn status(error: impl Into<LoadError>) -> StatusCode {
    match error.into() {
        LoadError::Access(AccessError::Lock(_)) => StatusCode::LOCKED,
        LoadError::Access(AccessError::NotLocked(_)) => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl Office {
    pub(crate) fn new() -> Self {
        Self::over(House::new(), |options| options, |router, _| router)
    }

    /// With routes of a test's own.
    pub(crate) fn with(routes: impl FnOnce(Router<Trace>, &Sessions) -> Router<Trace>) -> Self {
        Self::over(House::new(), |options| options, routes)
    }

    pub(crate) fn over(
        house: House,
        options: impl FnOnce(SessionOptions) -> SessionOptions,
        routes: impl FnOnce(Router<Trace>, &Sessions) -> Router<Trace>,
    ) -> Self {
        let serious = Arc::new(Mutex::new(Vec::new()));
        let reported = serious.clone();
        let chosen = options(SessionOptions::new(TIMEOUT, move |error| reported.lock().unwrap().push(error)));
        let sessions = Sessions::new(house.bucket("crm").owners(), chosen);
        let router = Router::new()
            .route("/edit/{id}", get(edit).layer(sessions.begins()))
            .route("/more/{id}", get(edit).layer(sessions.continues()))
            .route("/save/{id}", post(save).layer(sessions.continues()))
            .route("/fail/{id}", post(fail).layer(sessions.continues()))
            .route("/merge/{one}/{other}", get(merge).layer(sessions.begins()))
            .route("/undeclared/{id}", get(edit));
        let trace = Trace::default();
        let router = routes(router, &sessions).layer(sessions.attends()).with_state(trace.clone());
        Self { house, sessions, serious, trace, router }
    }

    pub(crate) fn bucket(&self) -> Bucket {
        self.house.bucket("crm")
    }

    pub(crate) async fn open(&self, user: &str) -> WebSession {
        self.sessions.open(user).await.unwrap()
    }

    pub(crate) async fn send(&self, who: Option<&WebSession>, method: &str, path: &str) -> Response<Body> {
        let cookie = who.map(|session| format!("lockhouse-session={}", session.key().reveal()));
        self.send_with(cookie, method, path).await
    }

    pub(crate) async fn send_with(&self, cookie: Option<String>, method: &str, path: &str) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(cookie) = cookie {
            request = request.header("cookie", format!("theme=dark; {cookie}"));
        }
        self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    pub(crate) async fn get(&self, who: &WebSession, path: &str) -> u16 {
        self.send(Some(who), "GET", path).await.status().as_u16()
    }

    pub(crate) async fn post(&self, who: &WebSession, path: &str) -> u16 {
        self.send(Some(who), "POST", path).await.status().as_u16()
    }

    /// The holders and their locks, sorted.
    pub(crate) async fn held(&self) -> Vec<String> {
        let snapshot = self.bucket().snapshot().await.unwrap();
        let held =
            snapshot.held.iter().map(|lock| format!("{} {}", lock.client_id, lock.name.as_name().display()));
        let mut held: Vec<_> = held.collect();
        held.sort();
        held
    }
}

pub(crate) async fn text(response: Response<Body>) -> String {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Loads a customer, and never says anything of locks.
async fn edit(State(trace): State<Trace>, Path(id): Path<u32>) -> Result<String, StatusCode> {
    let session = ApplicationSession::current().map_err(status)?;
    let customer = session.load(customers().for_write(id), async |_| trace.read(id).await).await;
    Ok(customer.map_err(status)?.object().to_string())
}

async fn save(State(trace): State<Trace>, Path(id): Path<u32>) -> Result<String, StatusCode> {
    let session = ApplicationSession::current().map_err(status)?;
    let lock = session.held(&customers().record(id)).await.map_err(status)?;
    trace.note(format!("update {id} under {}", lock.token));
    session.release(&customers().record(id)).await.map_err(status)?;
    Ok("saved".to_owned())
}

async fn fail(State(trace): State<Trace>, path: Path<u32>) -> StatusCode {
    save(State(trace), path).await.unwrap();
    StatusCode::INTERNAL_SERVER_ERROR
}

async fn merge(State(trace): State<Trace>, Path(both): Path<(u32, u32)>) -> Result<(), StatusCode> {
    let session = ApplicationSession::current().map_err(status)?;
    for id in [both.0, both.1] {
        session.load(customers().for_write(id), async |_| trace.read(id).await).await.map_err(status)?;
    }
    Ok(())
}
