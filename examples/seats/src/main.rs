//! The box office as a program.

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use lockhouse::store::{PostgresOptions, PostgresStore, SqliteStore, Store};
use lockhouse::{House, Options};
use seats::{BoxOffice, Payments, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// The box office of a small hall: seats are claimed while their buyers pay.
///
/// Open it in two browsers, choose the same seat, and be slow.
#[derive(Debug, Parser)]
struct Args {
    /// Where to listen on 127.0.0.1; 0 means any that is free
    #[arg(long, default_value_t = 7431)]
    port: u16,

    /// How long a seat is held during the payment, from 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = hold)]
    hold: Duration,

    /// The folder of the two database files, seats.db and payments.db; made if it is not there
    #[arg(long, value_name = "FOLDER", default_value = "seats-data")]
    data: PathBuf,

    /// Keep the claims in this PostgreSQL, in the schema seats_locks, instead of in seats.db
    #[arg(long, value_name = "postgres://…")]
    store: Option<String>,
}

fn hold(text: &str) -> Result<Duration, String> {
    let hold = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(3600);
    if bounds.contains(&hold) { Ok(hold) } else { Err("must be from 1s to 1h".to_owned()) }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is gone, no message can be written.
            _ = writeln!(io::stderr(), "seats: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    let folder = &args.data;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let store: Arc<dyn Store> = match &args.store {
        None => Arc::new(SqliteStore::open(folder.join("seats.db"))?),
        Some(address) => {
            let options = PostgresOptions::default().schema("seats_locks").passfile_of_environment();
            Arc::new(PostgresStore::open(address, options).await.context("--store")?)
        }
    };
    let house = House::open(store, Options::new()).await?;
    let payments = Payments::open(folder.join("payments.db")).context("payments.db")?;
    let office = BoxOffice::open(&house, payments, args.hold).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .with_context(|| format!("cannot listen on port {}; choose another with --port", args.port))?;
    writeln!(io::stdout(), "listening http://{}", listener.local_addr()?)?;
    tokio::select! {
        served = serve(listener, office, stop) => served?,
        end = house.ended() => anyhow::bail!("the claims can no longer be written: {end:?}"),
    }
    house.close().await;
    Ok(())
}
