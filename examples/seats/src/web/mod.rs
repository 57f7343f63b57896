//! The routes.

mod events;
mod trouble;
mod visitor;

use std::future::Future;
use std::io;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Router};
use lockhouse::ClaimError;
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::trouble::Trouble;
use self::visitor::{Name, Visitor};
use crate::hall::Seat;
use crate::office::{BoxOffice, OfficeError, PaymentMethod, Standing, Stub};
use crate::pages::{Ending, HallPage, SeatPage, show};

type Answer = Result<Response, Trouble>;

/// The parts that every request may use.
#[derive(Clone, Debug)]
struct App {
    office: BoxOffice,
    /// Set when the server ends: listeners for events have to go, as they would listen for ever.
    stopping: watch::Receiver<bool>,
}

/// Serves the box office until `stop` resolves; what was begun by then is finished.
///
/// # Errors
///
/// Those of the listener.
pub async fn serve(
    listener: TcpListener,
    office: BoxOffice,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (stopped, stopping) = watch::channel(false);
    let stop = async move {
        stop.await;
        stopped.send_replace(true);
    };
    axum::serve(listener, router(App { office, stopping })).with_graceful_shutdown(stop).await
}

fn router(app: App) -> Router {
    Router::new()
        .route("/", get(hall))
        .route("/name", post(rename))
        .route("/seats/{seat}", get(seat))
        .route("/seats/{seat}/claim", post(choose))
        .route("/seats/{seat}/renew", post(renew))
        .route("/seats/{seat}/pay", post(pay))
        .route("/seats/{seat}/bank", post(bank_answers))
        .route("/seats/{seat}/give-back", post(give_back))
        .route("/events", get(events::events))
        .route("/page.css", get(async || file("text/css", include_str!("../page.css"))))
        .route("/live.js", get(async || file("text/javascript", include_str!("../live.js"))))
        .fallback(async || Trouble::no_such_page())
        .method_not_allowed_fallback(async || Trouble::not_a_page())
        .layer(middleware::from_fn(guard))
        .with_state(app)
}

async fn hall(State(app): State<App>, visitor: Visitor) -> Answer {
    let seats = app.office.occupancies().await?;
    let (now, hold) = (app.office.now(), app.office.hold());
    let page = HallPage::new(&seats, visitor.name(), &visitor.numbers(), now, hold);
    // From the first page on, so that a double click comes from one visitor.
    Ok((AppendHeaders(visitor.introduction()?), show(&page)).into_response())
}

#[derive(serde::Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

async fn rename(Form(Named { name }): Form<Named>) -> Answer {
    let name: Name = name.parse()?;
    Ok((AppendHeaders([name.cookie()]), Redirect::to("/")).into_response())
}

async fn seat(State(app): State<App>, visitor: Visitor, Path(seat): Path<String>) -> Answer {
    let seat = seat.parse()?;
    page_of(&app, &visitor, seat).await
}

/// The claim is made: from now on all visitors see that the seat is held, and by whom.
async fn choose(
    State(app): State<App>,
    visitor: Visitor,
    Path(seat): Path<String>,
    Form(Named { name }): Form<Named>,
) -> Answer {
    let seat: Seat = seat.parse()?;
    let name = visitor.named(&name)?;
    let standing = app.office.standing(seat, visitor.stub(seat)).await?;
    if let Standing::Held { .. } | Standing::Booked { .. } = standing {
        return Ok(back_to(seat));
    }
    let id = visitor.id_or_new()?;
    let claim = match app.office.choose(seat, name.as_str(), &id).await {
        Ok(claim) => claim,
        Err(OfficeError::Claim(ClaimError::Claimed { .. } | ClaimError::AlreadyAssigned(_))) => {
            let page = page_of(&app, &visitor, seat).await?;
            return Ok((StatusCode::CONFLICT, page).into_response());
        }
        Err(error) => return Err(error.into()),
    };
    let stub = Stub { number: claim.fencing_token(), token: claim.token().clone() };
    let cookies = [visitor::introduce(&id), name.cookie(), visitor::keep(seat, &stub)];
    Ok((AppendHeaders(cookies), back_to(seat)).into_response())
}

async fn renew(State(app): State<App>, visitor: Visitor, Path(seat): Path<String>) -> Answer {
    let (seat, stub) = visitor.proves(&seat)?;
    let renewed = app.office.renew(seat, &stub).await;
    respond(&app, seat, &stub, renewed).await
}

#[derive(serde::Deserialize)]
struct Paying {
    method: PaymentMethod,
}

async fn pay(
    State(app): State<App>,
    visitor: Visitor,
    Path(seat): Path<String>,
    Form(Paying { method }): Form<Paying>,
) -> Answer {
    let (seat, stub) = visitor.proves(&seat)?;
    let (office, its) = (app.office.clone(), stub.clone());
    let paid = to_the_end(async move { office.pay(seat, &its, method).await }).await;
    respond(&app, seat, &stub, paid).await
}

async fn bank_answers(State(app): State<App>, visitor: Visitor, Path(seat): Path<String>) -> Answer {
    let (seat, stub) = visitor.proves(&seat)?;
    let (office, its) = (app.office.clone(), stub.clone());
    let paid = to_the_end(async move { office.bank_answers(seat, &its).await }).await;
    respond(&app, seat, &stub, paid).await
}

async fn give_back(State(app): State<App>, visitor: Visitor, Path(seat): Path<String>) -> Answer {
    let (seat, stub) = visitor.proves(&seat)?;
    let office = app.office.clone();
    to_the_end(async move { office.give_back(seat, &stub).await }).await?;
    Ok((AppendHeaders([visitor::forget(seat)]), Redirect::to("/")).into_response())
}

async fn page_of(app: &App, visitor: &Visitor, seat: Seat) -> Answer {
    let standing = app.office.standing(seat, visitor.stub(seat)).await?;
    Ok(show(&SeatPage::new(seat, standing, visitor.name(), app.office.hold(), app.office.now())))
}

/// The answer to a step with a claim: the seat's page, or that it is too late.
async fn respond<T>(app: &App, seat: Seat, stub: &Stub, outcome: Result<T, OfficeError>) -> Answer {
    let is_lost = match outcome {
        Ok(_) => return Ok(back_to(seat)),
        Err(OfficeError::HeldTooLong) => return Err(Trouble::held_too_long(seat)),
        Err(OfficeError::NotAsked) => return Err(Trouble::not_paid(seat)),
        Err(OfficeError::Claim(ClaimError::ClaimLost { .. })) => true,
        Err(OfficeError::Claim(ClaimError::ClaimExpired)) => false,
        Err(error) => return Err(error.into()),
    };
    let (payment, by) = app.office.aftermath(seat, stub).await?;
    // An assignment is no claim: where another visitor has booked the seat already, ours has only expired.
    // The payer has lost it all the same.
    let (status, ending) = match is_lost || by.is_some() {
        true => (StatusCode::CONFLICT, Ending::Lost),
        false => (StatusCode::GONE, Ending::Expired),
    };
    let page = SeatPage::over(seat, ending, payment, by.as_ref(), app.office.now());
    Ok((status, show(&page)).into_response())
}

fn back_to(seat: Seat) -> Response {
    Redirect::to(&format!("/seats/{seat}")).into_response()
}

/// Goes on even if the browser hangs up in the middle: no visitor should be left between booking and
/// charging.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(work).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Lets no other site press our buttons, and says of every answer what a browser may do with it.
async fn guard(request: Request, next: Next) -> Response {
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_ours = matches!(site, None | Some(b"same-origin" | b"none"));
    let changes = request.method() == Method::POST;
    let mut response =
        if changes && !is_ours { Trouble::from_elsewhere().into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Pages differ between visitors, and are out of date at once.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind)], text)
}
