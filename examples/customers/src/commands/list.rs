//! Looking, without any lock: the content may be about to change, and the page shows the users that edit it.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use crate::App;
use crate::customer::{Customer, Order, customers};
use crate::holding::{Holding, Holdings};
use crate::pages::{Frame, page};
use crate::trouble::Trouble;

#[derive(Debug, Template)]
#[template(path = "list.html")]
struct ListPage {
    frame: Frame,
    rows: Vec<(Customer, Vec<Holding>)>,
}

#[derive(Debug, Template)]
#[template(path = "view.html")]
struct ViewPage {
    frame: Frame,
    customer: Customer,
    orders: Vec<Order>,
    holdings: Vec<Holding>,
    others: Vec<Customer>,
    done: Option<&'static str>,
}

/// The last action, to be shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Done {
    done: String,
}

pub(crate) async fn root() -> Redirect {
    Redirect::to("/customers")
}

pub(crate) async fn list(State(app): State<App>, frame: Frame) -> Result<Response, Trouble> {
    let holdings = Holdings::now(&app.bucket(), frame.session.as_ref()).await?;
    let customers_now = app.database.all().await?;
    let of =
        |customer: &Customer| holdings.of(&customers().record(customer.id)).into_iter().cloned().collect();
    let rows = customers_now.into_iter().map(|customer| (customer.clone(), of(&customer))).collect();
    Ok(page(StatusCode::OK, &ListPage { frame, rows }))
}

pub(crate) async fn view(
    State(app): State<App>,
    frame: Frame,
    Path(id): Path<i64>,
    Query(done): Query<Done>,
) -> Result<Response, Trouble> {
    let holdings = Holdings::now(&app.bucket(), frame.session.as_ref()).await?;
    let holdings = holdings.of(&customers().record(id)).into_iter().cloned().collect();
    let customer = app.database.customer(id, None).await?;
    let orders = app.database.orders(id).await?;
    let mut others = app.database.all().await?;
    others.retain(|other| other.id != id);
    let done = match done.done.as_str() {
        "saved" => Some("Saved. The customer is free for others again."),
        "merged" => Some("Merged. Both customers were locked until this was done."),
        "finished" => Some("The customer is free for others again."),
        _ => None,
    };
    Ok(page(StatusCode::OK, &ViewPage { frame, customer, orders, holdings, others, done }).into_response())
}
