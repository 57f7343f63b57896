//! Being on the phone about a customer: it must not change meanwhile, but colleagues may talk about it as
//! well.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use lockhouse::implicit::ApplicationSession;

use crate::App;
use crate::customer::{Customer, Order, customers, orders};
use crate::holding::{Holding, Holdings};
use crate::pages::{Frame, page};
use crate::trouble::Trouble;
use crate::when::span;

#[derive(Debug, Template)]
#[template(path = "call.html")]
struct CallPage {
    frame: Frame,
    customer: Customer,
    orders: Vec<Order>,
    holdings: Vec<Holding>,
    timeout: String,
}

/// Begins: locks for reading. The orders are locked together with their customer.
pub(crate) async fn call(
    State(app): State<App>,
    frame: Frame,
    Path(id): Path<i64>,
) -> Result<Response, Trouble> {
    let session = ApplicationSession::current()?;
    let load = async |lock| app.database.customer(id, lock).await;
    let customer = session.load(customers().for_read(id), load).await?;
    let (root, of_customer) = (customers().record(id), orders().for_read(id));
    let orders = session.load_under(&root, of_customer, async |_| app.database.orders(id).await).await?;
    let holdings = Holdings::now(&app.bucket(), frame.session.as_ref()).await?;
    let page_of_call = CallPage {
        frame,
        customer: Customer::clone(&customer),
        orders: Vec::clone(&orders),
        holdings: holdings.of(&root).into_iter().cloned().collect(),
        timeout: span(app.session_timeout),
    };
    Ok(page(StatusCode::OK, &page_of_call))
}
