//! `customers`: opens the application's two databases and serves it until it has to stop.
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use customers::{App, Options};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Customers, edited by one person at a time: a sample application with lockhouse inside
#[derive(Debug, Parser)]
#[command(name = "customers", version, max_term_width = 110)]
struct Args {
    /// Where to listen on 127.0.0.1; 0 takes a free port
    #[arg(long, default_value_t = 7430)]
    port: u16,
    /// The folder of customers.db and customers-locks.db, which are made if they are not there
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    data: PathBuf,
    /// Keep the locks in this PostgreSQL, in the schema customers_locks, instead of in customers-locks.db
    #[arg(long, value_name = "postgres://…")]
    store: Option<String>,
    /// How long a session lasts without any request; its locks end with it
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = humantime::parse_duration)]
    session_timeout: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is gone, no message can be written.
            _ = writeln!(io::stderr(), "customers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let Args { port, data, store, session_timeout } = Args::parse();
    // First, so that it is in place before the address is printed.
    let mut terminated = signal(SignalKind::terminate())?;
    let house = lockhouse::Options::new();
    let app = App::open(&Options { data, store, session_timeout, house }).await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("--port {port}: cannot listen on {address}"))?;
    println!("listening http://{}", listener.local_addr()?);
    let stopped = app.clone();
    let stop = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        stopped.stop();
    };
    tokio::select! {
        served = axum::serve(listener, app.router()).with_graceful_shutdown(stop).into_future() => served?,
        end = app.ended() => anyhow::bail!("the locks can no longer be written: {end:?}"),
    }
    app.close().await;
    Ok(())
}
