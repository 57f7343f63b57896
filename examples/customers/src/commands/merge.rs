//! Making one customer of two: a step with two locks, both or none, and a next one that works only on what
//! the first has locked.

use askama::Template;
use axum::Form;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{Redirect, Response};
use lockhouse::implicit::{ApplicationSession, Loaded};
use serde::Deserialize;

use crate::App;
use crate::customer::{Customer, Order, customers};
use crate::pages::{Frame, page};
use crate::trouble::Trouble;
use crate::when::span;

/// The other customer, which will be gone.
#[derive(Debug, Deserialize)]
pub(crate) struct With {
    with: i64,
}

#[derive(Debug, Template)]
#[template(path = "merge.html")]
struct MergePage {
    frame: Frame,
    /// The one that stays, and the one that goes.
    sides: Vec<Side>,
    timeout: String,
}

#[derive(Debug)]
struct Side {
    customer: Customer,
    orders: Vec<Order>,
}

/// Begins: locks one, then the other. If the second is refused, the first is free again.
pub(crate) async fn compare(
    State(app): State<App>,
    frame: Frame,
    Path(id): Path<i64>,
    Query(With { with }): Query<With>,
) -> Result<Response, Trouble> {
    let session = ApplicationSession::current()?;
    check(id, with)?;
    let mut sides = Vec::new();
    for id in [id, with] {
        let customer = Customer::clone(&*load(&app, &session, id).await?);
        sides.push(Side { customer, orders: app.database.orders(id).await? });
    }
    Ok(page(StatusCode::OK, &MergePage { frame, sides, timeout: span(app.session_timeout) }))
}

/// Continues: both must be locked already, as the user has decided by what was shown under these locks.
pub(crate) async fn merge(
    State(app): State<App>,
    Path(id): Path<i64>,
    Form(With { with }): Form<With>,
) -> Result<Redirect, Trouble> {
    let session = ApplicationSession::current()?;
    check(id, with)?;
    let (kept, gone) = (customers().record(id), customers().record(with));
    let locks = [session.held(&kept).await?, session.held(&gone).await?];
    let (one, other) = (load(&app, &session, id).await?, load(&app, &session, with).await?);
    app.database.merge(Customer::clone(&one), Customer::clone(&other), locks).await?;
    session.release(&kept).await?;
    session.release(&gone).await?;
    Ok(Redirect::to(&format!("/customers/{id}?done=merged")))
}

async fn load(app: &App, session: &ApplicationSession, id: i64) -> Result<Loaded<Customer>, Trouble> {
    let load = async |lock| app.database.customer(id, lock).await;
    Ok(session.load(customers().for_write(id), load).await?)
}

fn check(id: i64, with: i64) -> Result<(), Trouble> {
    if id == with {
        let why = format!("Customer {id} cannot be merged with itself.");
        return Err(Trouble::Misunderstood(StatusCode::UNPROCESSABLE_ENTITY, why));
    }
    Ok(())
}
