//! Implicit locks: a [tower](https://docs.rs/tower) layer, for axum and its like, that runs every request as
//! a step of a business transaction and takes the locks, so that no handler can forget to.
//! <https://martinfowler.com/eaaCatalog/implicitLock.html>
//!
//! ```text
//!   request ──▶ web session ──▶ ImplicitLock ──▶ handler ──▶ status below 400: the step is committed
//!               an Owner,       begins or           │        else: it is undone
//!               with its        continues a step,   └─ load(wanted, …): locks, then loads
//!               lock remover    bound to the task
//!                               as ApplicationSession
//! ```
//!
//! - A [`WebSession`] is an [`Owner`](crate::Owner) whose id and secret the browser bears in a cookie. So the
//!   session outlives a restart together with its locks, and ends, with all of them, once it was silent for
//!   its time. Its *lock remover* is in place before it can lock anything, and reports its failures to a
//!   handler of serious errors.
//! - Every route declares whether it [begins](Sessions::begins) a business transaction or
//!   [continues](Sessions::continues) one. Beginning one first gives back all that the session's earlier one
//!   has left, sparing locks that are taken again. So a route that begins one changes the holders of locks,
//!   even if it answers a GET: guard it against other sites as you guard a POST, by `Sec-Fetch-Site` for one,
//!   since browsers send the cookie along when they follow a link, and answer a HEAD without it.
//! - The [`ApplicationSession`] is bound to the task of the request: the code in that task finds it by
//!   [`current`](ApplicationSession::current), and loads records through it. The load locks them first. In a
//!   route that declares nothing there is none, and so nothing can be loaded.
//! - A step is whole: it succeeds with the handler's answer, or everything that it locked is taken back.
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use axum::{Router, extract::Path, http::StatusCode, routing::{get, post}};
//! use lockhouse::implicit::{ApplicationSession, SessionOptions, Sessions};
//! use lockhouse::{House, LockType, RecordKind};
//!
//! fn customers() -> RecordKind {
//!     RecordKind::new("customer", LockType::ExclusiveWrite)
//! }
//!
//! async fn edit(Path(id): Path<u32>) -> Result<String, StatusCode> {
//!     let session = ApplicationSession::current().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
//!     // There is no way to the customer but through the lock.
//!     let name = session
//!         .load(customers().for_write(id), async |_| Ok::<_, Infallible>(format!("customer {id}")))
//!         .await;
//!     name.map(|name| format!("edit {}", *name)).map_err(|_| StatusCode::LOCKED)
//! }
//!
//! async fn save(Path(id): Path<u32>) -> Result<String, StatusCode> {
//!     let session = ApplicationSession::current().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
//!     session.held(&customers().record(id)).await.map_err(|_| StatusCode::CONFLICT)?;
//!     session.release(&customers().record(id)).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
//!     Ok(format!("{} saved it", session.user()))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let owners = House::new().bucket("crm").owners();
//! let options = SessionOptions::new(Duration::from_secs(1200), |error| eprintln!("{error}"));
//! let sessions = Sessions::new(owners, options);
//! let app: Router = Router::new()
//!     .route("/customers/{id}/edit", get(edit).layer(sessions.begins()))
//!     .route("/customers/{id}", post(save).layer(sessions.continues()));
//!
//! let ada = sessions.open("Ada").await?; // where she signs in; `ada.cookie()` goes into a Set-Cookie header
//! # use tower::ServiceExt;
//! # let request = |method: &str, path: &str| {
//! #     let cookie = ada.cookie().to_str().unwrap().split(';').next().unwrap().to_owned();
//! #     axum::http::Request::builder()
//! #         .method(method)
//! #         .uri(path)
//! #         .header("cookie", cookie)
//! #         .body(axum::body::Body::empty())
//! #         .unwrap()
//! # };
//! # assert_eq!(app.clone().oneshot(request("GET", "/customers/1/edit")).await?.status(), 200);
//! # assert_eq!(ada.owner().locks().await?.len(), 1);
//! # assert_eq!(app.oneshot(request("POST", "/customers/1")).await?.status(), 200);
//! # assert!(ada.owner().locks().await?.is_empty());
//! # Ok(()) }
//! ```

mod application;
mod layer;
mod objects;
mod refusal;
mod remover;
mod sessions;

pub use application::{ApplicationSession, Loaded};
pub use layer::{ImplicitLock, ImplicitLockService};
pub use refusal::{AccessError, LoadError, Refusal};
pub use remover::SeriousError;
pub use sessions::{MalformedSessionKey, SessionKey, SessionOptions, Sessions, WebSession};
