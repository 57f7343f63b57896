//! Editing: the edit begins a business transaction, the save and the cancel continue it.

use axum::Form;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use lockhouse::implicit::{AccessError, ApplicationSession, Refusal};
use serde::Deserialize;

use super::form_of;
use crate::App;
use crate::customer::{Customer, Typed, customers};
use crate::pages::{EditPage, Frame, page};
use crate::trouble::Trouble;
use crate::when::span;

/// Begins: locks, then loads, then shows the form.
pub(crate) async fn edit(
    State(app): State<App>,
    frame: Frame,
    Path(id): Path<i64>,
) -> Result<Response, Trouble> {
    let session = ApplicationSession::current()?;
    let load = async |lock| app.database.customer(id, lock).await;
    let customer = session.load(customers().for_write(id), load).await?;
    let form = EditPage::new(frame, &customer, &Typed::from(&*customer), span(app.session_timeout));
    Ok(page(StatusCode::OK, &form))
}

/// Continues: takes the customer from the session, changes it, writes it and gives the lock back, all or
/// nothing. If anything stands in the way, the form comes back with its content.
pub(crate) async fn save(
    State(app): State<App>,
    frame: Frame,
    Path(id): Path<i64>,
    Form(typed): Form<Typed>,
) -> Response {
    match try_to_save(&app, id, &typed).await {
        Ok(Saved::Yes) => Redirect::to(&format!("/customers/{id}?done=saved")).into_response(),
        Ok(Saved::Faulty(customer)) => {
            let form = EditPage::new(frame, &customer, &typed, span(app.session_timeout));
            page(StatusCode::UNPROCESSABLE_ENTITY, &form)
        }
        Err(trouble) => again(&app, frame, id, &typed, trouble).await,
    }
}

enum Saved {
    Yes,
    Faulty(Customer),
}

async fn try_to_save(app: &App, id: i64, typed: &Typed) -> Result<Saved, Trouble> {
    let session = ApplicationSession::current()?;
    // Usually the edit has locked and loaded it. If that lock is gone and no other user has it, it is as good
    // to lock it again: the version shows whether another user was here in between.
    let load = async |lock| app.database.customer(id, lock).await;
    let customer = session.load(customers().for_write(id), load).await?;
    if !typed.faults().is_empty() {
        return Ok(Saved::Faulty(Customer::clone(&customer)));
    }
    let changed = Customer { version: typed.version, ..typed.applied_to(&customer) };
    let record = customers().record(id);
    let lock = customer.lock().cloned().ok_or_else(|| AccessError::NotLocked(record.name().to_buf()))?;
    app.database.update(changed, lock).await?;
    session.release(&record).await?;
    Ok(Saved::Yes)
}

/// The form as it comes back.
pub(crate) async fn again(app: &App, frame: Frame, id: i64, typed: &Typed, trouble: Trouble) -> Response {
    let current = app.database.customer(id, None).await.ok();
    let trouble = trouble.with_names_of(current.as_slice());
    let status = trouble.status();
    page(status, &EditPage::again(frame, id, typed, current.as_ref(), trouble, span(app.session_timeout)))
}

/// The same, where the sign-in that goes with it lacks a name.
pub(crate) async fn again_without_a_name(
    app: &App,
    frame: Frame,
    id: i64,
    typed: &Typed,
    fault: String,
) -> Response {
    let current = app.database.customer(id, None).await.ok();
    let timeout = span(app.session_timeout);
    let form = EditPage::again(frame, id, typed, current.as_ref(), Trouble::NoSession, timeout);
    page(StatusCode::UNPROCESSABLE_ENTITY, &form.with_fault_of_user(fault))
}

/// The content of the form comes back also if the save itself could not run, as when the session has ended:
/// it then goes along with the sign-in.
pub(crate) async fn nothing_typed_is_lost(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let bytes = match axum::body::to_bytes(body, MOST_TYPED).await {
        Ok(bytes) => bytes,
        Err(error) => {
            return Trouble::Misunderstood(StatusCode::PAYLOAD_TOO_LARGE, format!("{error}."))
                .into_response();
        }
    };
    let id = Path::<i64>::from_request_parts(&mut parts, &()).await.ok();
    let frame = Frame::from_request_parts(&mut parts, &()).await.unwrap_or_default();
    let mut response = next.run(Request::from_parts(parts, Body::from(bytes.clone()))).await;
    let refusal = response.extensions_mut().remove::<Refusal>();
    match (refusal, id, form_of(&bytes).await) {
        (Some(refusal), Some(Path(id)), Some(typed)) => again(&app, frame, id, &typed, refusal.into()).await,
        (Some(refusal), _, _) => Trouble::from(refusal).into_response(),
        (None, _, _) => response,
    }
}

/// In bytes; as much as every field at its longest.
const MOST_TYPED: usize = 1 << 17;

/// A second customer, if there are two.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Both {
    with: Option<i64>,
}

/// Continues: gives back without saving. Ends a call, an edit or a merge. A lock that is gone is none to give
/// back: a step that gives back what it has not would fail.
pub(crate) async fn done(Path(id): Path<i64>, Form(both): Form<Both>) -> Result<Redirect, Trouble> {
    let session = ApplicationSession::current()?;
    for id in [Some(id), both.with].into_iter().flatten() {
        let record = customers().record(id);
        session.owner().unlock(record.name(), None).await?;
    }
    Ok(Redirect::to(&format!("/customers/{id}?done=finished")))
}
