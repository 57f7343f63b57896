//! The troubles, as the user sees them: what has happened, and what to do.

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use lockhouse::implicit::{AccessError, LoadError, Refusal, WebSession};
use lockhouse::{Conflict, LockError, Mode, NameBuf, OwnerError, StoreError};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::App;
use crate::customer::{Customer, customers};
use crate::database::DatabaseError;
use crate::pages::{Frame, page};
use crate::when::When;

/// Why a command has failed. Its locks are free again, and its writes are undone.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// Others have a customer that the command needs: what they do with it, their names, and since when.
    Taken(Vec<Taken>),
    /// The user has not signed in, or has been silent for too long.
    NoSession,
    /// The lock that the command relies on is gone.
    NotLocked,
    /// Another user has changed the customer in the meantime.
    Changed,
    NoSuchCustomer(i64),
    NoSuchPage,
    /// Another site has sent it.
    FromElsewhere,
    /// The request makes no sense.
    Misunderstood(StatusCode, String),
    /// The stores cannot write at the moment.
    Unavailable(String),
    /// It is unknown whether the locks of the command are kept.
    Unknown(String),
    /// A failure that no user can mend.
    Failed(String),
}

/// A customer that another user has.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    name: NameBuf,
    /// The customer's name.
    pub(crate) what: String,
    pub(crate) user: String,
    pub(crate) is_edit: bool,
    pub(crate) since: When,
}

impl Taken {
    fn all(conflicts: &[Conflict]) -> Vec<Self> {
        let of_conflict = |conflict: &Conflict| {
            let taken = conflict.holders.iter().map(|holder| Self {
                name: conflict.name.clone(),
                what: conflict.name.as_name().display().replace('/', " "),
                user: holder.client_id.clone(),
                is_edit: holder.mode == Mode::Exclusive,
                since: When::of(holder.since),
            });
            taken.collect::<Vec<_>>()
        };
        conflicts.iter().flat_map(of_conflict).collect()
    }
}

impl Trouble {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Taken(_) => StatusCode::LOCKED,
            Self::NoSession | Self::FromElsewhere => StatusCode::FORBIDDEN,
            Self::NotLocked | Self::Changed => StatusCode::CONFLICT,
            Self::NoSuchCustomer(_) | Self::NoSuchPage => StatusCode::NOT_FOUND,
            Self::Misunderstood(status, _) => *status,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unknown(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn title(&self) -> &'static str {
        match self {
            Self::Taken(taken) if taken.iter().all(|taken| !taken.is_edit) => {
                "Somebody is on the phone about this customer"
            }
            Self::Taken(_) => "Somebody else is editing this customer",
            Self::NoSession => "Your session has ended",
            Self::NotLocked => "You no longer have it to yourself",
            Self::Changed => "It has changed in the meantime",
            Self::NoSuchCustomer(_) => "There is no such customer",
            Self::NoSuchPage => "There is no such page",
            Self::FromElsewhere => "That did not come from here",
            Self::Misunderstood(..) => "That request makes no sense",
            Self::Unavailable(_) => "Nothing can be kept at the moment",
            Self::Unknown(_) => "It is unknown whether that was kept",
            Self::Failed(_) => "Something is broken",
        }
    }

    pub(crate) fn advice(&self) -> String {
        match self {
            Self::Taken(_) => "Nothing was changed. It becomes free when they have finished, or when their session has ended.".to_owned(),
            Self::NoSession => "Nobody heard of you for too long, so that your customers were given back to the others. Sign in to go on.".to_owned(),
            Self::NotLocked => "Nothing was changed. Begin anew: you then see the customers as they are now.".to_owned(),
            Self::Changed => "Somebody has saved another version since you began. Compare the two and save what is right.".to_owned(),
            Self::NoSuchCustomer(id) => format!("Customer {id} is not there, or was merged into another one."),
            Self::NoSuchPage => "Go back to the list of all customers.".to_owned(),
            Self::FromElsewhere => "Another site has tried to press a button for you. Nothing has happened. Use the buttons on our own pages.".to_owned(),
            Self::Misunderstood(_, why) => format!("{} Go back and try it another way.", why.trim()),
            Self::Unavailable(why) => format!("{why}. Nothing was changed; try again in a moment."),
            Self::Unknown(why) => format!("{why}. Look at the customer before you do it again. Tell whoever runs this application."),
            Self::Failed(why) => format!("{why}. Nothing was changed. Tell whoever runs this application."),
        }
    }

    /// Calls customers by their names, read without a lock: for the page alone, as the command itself has
    /// loaded nothing.
    pub(crate) fn with_names_of(mut self, all: &[Customer]) -> Self {
        if let Self::Taken(taken) = &mut self {
            for taken in taken {
                let is_it =
                    |customer: &&Customer| customers().record(customer.id).name() == taken.name.as_name();
                if let Some(customer) = all.iter().find(is_it) {
                    taken.what.clone_from(&customer.name);
                }
            }
        }
        self
    }

    /// The id of the customer that others have, if it is a single one.
    fn only_taken(&self) -> Option<String> {
        let [first, others @ ..] = self.taken() else { return None };
        let is_single = others.iter().all(|other| other.name == first.name);
        let name = first.name.as_name().display();
        Some(name.strip_prefix("customer/")?.to_owned()).filter(|_| is_single)
    }

    /// The users in the way.
    pub(crate) fn taken(&self) -> &[Taken] {
        match self {
            Self::Taken(taken) => taken,
            _ => &[],
        }
    }
}

impl From<LockError> for Trouble {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Conflict(conflicts) => Self::Taken(Taken::all(&conflicts)),
            LockError::OwnerEnded => Self::NoSession,
            LockError::Lost(_) => Self::NotLocked,
            LockError::Store(error) => error.into(),
            LockError::Recovering { .. } => Self::Unavailable(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { why, .. } => Self::Unavailable(why),
            StoreError::OutcomeUnknown { why } => Self::Unknown(why),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<OwnerError> for Trouble {
    fn from(error: OwnerError) -> Self {
        match error {
            OwnerError::Store(error) => error.into(),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoSession => Self::NoSession,
            Refusal::Owner(error) => error.into(),
            Refusal::Lock(error) => error.into(),
            Refusal::Store(error) => error.into(),
            refusal => Self::Failed(refusal.to_string()),
        }
    }
}

impl From<AccessError> for Trouble {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Lock(error) => error.into(),
            AccessError::NotLocked(_) => Self::NotLocked,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<DatabaseError> for Trouble {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Missing(id) => Self::NoSuchCustomer(id),
            DatabaseError::Changed { .. } => Self::Changed,
            // A user with a newer token was here after us.
            DatabaseError::Stale(_) => Self::NotLocked,
            DatabaseError::Failed(why) => Self::Failed(why),
        }
    }
}

impl<E: Into<Self>> From<LoadError<E>> for Trouble {
    fn from(error: LoadError<E>) -> Self {
        match error {
            LoadError::Access(error) => error.into(),
            LoadError::Load(error) => error.into(),
        }
    }
}

/// The status fails the step of the business transaction; [`explain`] makes a page of the rest.
impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Debug, Template)]
#[template(path = "trouble.html")]
struct TroublePage {
    frame: Frame,
    trouble: Trouble,
    /// To try the same again, where that makes sense.
    again: Option<String>,
    /// To look at the customer without having it.
    look: Option<String>,
    /// Where a page learns when the customer in the way is free.
    watch: Option<String>,
}

/// Writes every error to the reply, as a page.
pub(crate) async fn explain(State(app): State<App>, request: Request, next: Next) -> Response {
    let session = request.extensions().get::<Option<WebSession>>().cloned().flatten();
    let is_get = *request.method() == Method::GET;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut response = next.run(request).await;
    let extensions = response.extensions_mut();
    let known = extensions.remove().or_else(|| extensions.remove().map(|refusal: Refusal| refusal.into()));
    match known {
        Some(Trouble::NoSession) => {
            let next = if is_get { path.as_str() } else { "/customers" };
            let next = utf8_percent_encode(next, NON_ALPHANUMERIC);
            Redirect::to(&format!("/sign-in?next={next}")).into_response()
        }
        Some(trouble) => {
            let all = app.database.all().await.unwrap_or_default();
            of(trouble.with_names_of(&all), session.into(), is_get.then_some(path))
        }
        None if is_plain_error(&response) => {
            let status = response.status();
            let bytes =
                axum::body::to_bytes(std::mem::replace(response.body_mut(), Body::empty()), 1 << 12).await;
            let why = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
            of(Trouble::Misunderstood(status, why), session.into(), None)
        }
        None => response,
    }
}

fn of(trouble: Trouble, frame: Frame, again: Option<String>) -> Response {
    let is_passing = matches!(trouble, Trouble::Taken(_) | Trouble::Unavailable(_));
    let customer = again.as_deref().and_then(|path| path.strip_prefix("/customers/"));
    let customer = customer.and_then(|rest| rest.split(['/', '?']).next());
    let look = customer.filter(|_| is_passing).map(|id| format!("/customers/{id}"));
    let watch = customer.and(trouble.only_taken()).map(|id| format!("/customers/{id}/free"));
    let again = again.filter(|_| is_passing);
    page(trouble.status(), &TroublePage { frame, trouble, again, look, watch })
}

/// An error of the framework's own, such as a path that is no number.
fn is_plain_error(response: &Response) -> bool {
    let is_html = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    (response.status().is_client_error() || response.status().is_server_error()) && !is_html
}

pub(crate) async fn no_such_page() -> Trouble {
    Trouble::NoSuchPage
}

pub(crate) async fn no_such_command(method: Method) -> Trouble {
    Trouble::Misunderstood(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{method} is nothing that this page does."),
    )
}
