//! Customers, edited by one person at a time: the sample of the pattern
//! [Pessimistic Offline Lock](https://martinfowler.com/eaaCatalog/pessimisticOfflineLock.html) as a web
//! application.
//!
//! The routes below are the front controller; the layers on them are the decorator that makes every command a
//! step of a business transaction. The README says where each idea of the pattern lives.

mod commands;
mod customer;
mod database;
mod guard;
mod holding;
mod pages;
mod trouble;
mod when;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};
use lockhouse::implicit::{SessionOptions, Sessions};
use lockhouse::store::{PostgresOptions, PostgresStore, SqliteStore, Store};
use lockhouse::{Bucket, House, StoreState};
use tokio::sync::watch;

use crate::commands::{call, edit, free, list, locks, merge, sign_in};
use crate::database::Database;

/// The name of the cookie that a session is known by.
pub const COOKIE: &str = "customers-session";

/// Where the application keeps its things, and how long it waits for its users.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of its two databases.
    pub data: PathBuf,
    /// The PostgreSQL that has the locks, in the schema `customers_locks`; else they are in the folder.
    pub store: Option<String>,
    /// How long a session lasts without any request.
    pub session_timeout: Duration,
    /// How the locks are stored, and by which clock.
    pub house: lockhouse::Options,
}

/// The application. Cheap to clone; every clone is the same one.
#[derive(Clone, Debug)]
pub struct App {
    database: Database,
    house: House,
    sessions: Sessions,
    session_timeout: Duration,
    stopping: watch::Sender<bool>,
}

impl App {
    /// Opens the databases: the customers, and beside them the locks. The two belong together, as the fence
    /// in the one goes by tokens of the other.
    ///
    /// # Errors
    ///
    /// The obstacle, and its file.
    pub async fn open(options: &Options) -> anyhow::Result<Self> {
        let Options { data, store, session_timeout, house } = options.clone();
        std::fs::create_dir_all(&data).with_context(|| format!("--data {}", data.display()))?;
        let customers = data.join("customers.db");
        let database = Database::open(&customers).with_context(|| format!("{}", customers.display()))?;
        let store: Arc<dyn Store> = match store {
            None => Arc::new(SqliteStore::open(data.join("customers-locks.db"))?),
            Some(address) => {
                let options = PostgresOptions::default().schema("customers_locks").passfile_of_environment();
                Arc::new(PostgresStore::open(&address, options).await.context("--store")?)
            }
        };
        let house = House::open(store, house).await?;
        let serious = |error| tracing::error!("{error}");
        let of_sessions = SessionOptions::new(session_timeout, serious).cookie(COOKIE);
        let sessions = Sessions::new(house.bucket(BUCKET).owners(), of_sessions);
        let stopping = watch::Sender::new(false);
        Ok(Self { database, house, sessions, session_timeout, stopping })
    }

    /// Every command, and whether it begins a business transaction or continues one. Commands that declare
    /// neither can only look.
    pub fn router(&self) -> Router {
        let sessions = &self.sessions;
        let nothing_typed_is_lost = from_fn_with_state(self.clone(), edit::nothing_typed_is_lost);
        let saves = post(edit::save).layer(sessions.continues()).layer(nothing_typed_is_lost);
        // Such a page changes the locks, though it is only looked at.
        let begins = |command: MethodRouter<Self>| {
            command.layer(sessions.begins()).layer(from_fn(guard::locking_pages))
        };
        Router::new()
            .route("/", get(list::root))
            .route("/customers", get(list::list))
            .route("/customers/{id}", get(list::view).merge(saves))
            .route("/customers/{id}/edit", begins(get(edit::edit)))
            .route("/customers/{id}/call", begins(get(call::call)))
            .route("/customers/{id}/done", post(edit::done).layer(sessions.continues()))
            .route("/customers/{id}/merge", begins(get(merge::compare)))
            .route("/customers/{id}/merge", post(merge::merge).layer(sessions.continues()))
            .route("/customers/{id}/free", get(free::free))
            .route("/free.js", get(free::script))
            .route("/locks", get(locks::locks))
            .route("/sign-in", get(sign_in::form).post(sign_in::sign_in))
            .route("/sign-out", post(sign_in::sign_out))
            .route("/style.css", get(pages::style))
            .fallback(trouble::no_such_page)
            .method_not_allowed_fallback(trouble::no_such_command)
            .layer(from_fn(guard::buttons))
            .layer(from_fn_with_state(self.clone(), trouble::explain))
            .layer(sessions.attends())
            .with_state(self.clone())
    }

    /// The lock table.
    pub fn bucket(&self) -> Bucket {
        self.house.bucket(BUCKET)
    }

    /// Ends the answers that last, so that the server need not wait for them.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Comes when the application stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        // The last handle goes with the application.
        Box::pin(async move { _ = stopping.wait_for(|is| *is).await })
    }

    /// Waits until no lock can be written any more, as another process has taken them over.
    pub async fn ended(&self) -> StoreState {
        self.house.ended().await
    }

    /// Ends the application. Sessions and their locks are durable.
    pub async fn close(&self) -> StoreState {
        self.house.close().await
    }
}

const BUCKET: &str = "customers";
