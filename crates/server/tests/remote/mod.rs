//! The remote client of the library against a server with keys or rates, which the test looks into.

mod auth;
mod rates;
#[allow(dead_code, reason = "the tests of the client use more of it")]
#[path = "../../../lockhouse/tests/remote/scripted.rs"]
mod scripted;

use std::net::SocketAddr;

use lockhouse_server::{Config, bind, serve};

/// A server in this process that ends with the test's runtime.
async fn server(config: Config) -> SocketAddr {
    log_listener::listen();
    let listener = bind("127.0.0.1:0", &config.authority).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, config, std::future::pending()));
    address
}
