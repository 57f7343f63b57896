//! The listener: it admits connections, and sends the reason to those that it refuses.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bounds::{METRICS_CONNECTIONS, REFUSED_AT_ONCE};
use crate::connection;
use crate::limits::Limiter;
use crate::router::Routes;
use crate::settings::LimitSettings;
use crate::state::AppState;
use crate::tls::Tls;

/// What a listener leads to.
pub(super) struct Entrance {
    routes: Routes,
    limiter: Arc<Limiter>,
    tls: Option<Tls>,
    tasks: TaskTracker,
}

impl Entrance {
    /// All that the server has.
    pub(super) fn of_clients(state: &Arc<AppState>) -> Self {
        let (limiter, tls) = (state.limiter.clone(), state.config.tls.clone());
        Self { routes: Routes::new(state.clone()), limiter, tls, tasks: state.tasks.clone() }
    }

    /// The metrics and the health, with bounds of their own: they are there also where the server is full.
    pub(super) fn of_metrics(state: &Arc<AppState>) -> Self {
        let (connections, connections_per_address) = (METRICS_CONNECTIONS, METRICS_CONNECTIONS);
        let bounds = LimitSettings { connections, connections_per_address, ..state.limiter.settings() };
        let (routes, limiter) = (Routes::of_metrics(state.clone()), Arc::new(Limiter::new(bounds)));
        Self { routes, limiter, tls: None, tasks: TaskTracker::new() }
    }
}

/// Lets connections in until `stop`.
pub(super) async fn accept_until(to: &Entrance, listener: &TcpListener, stop: CancellationToken) {
    let Entrance { routes, limiter, tls, tasks } = to;
    let refusing = Arc::new(Semaphore::new(REFUSED_AT_ONCE));
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // One cause is no free file descriptor: other connections have to end first.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = stop.cancelled() => return,
        };
        let (limiter, stop) = (limiter.clone(), stop.clone());
        match limiter.admit(from.ip()) {
            Ok(permit) => {
                let (routes, tls) = (routes.clone(), tls.clone());
                tasks.spawn(connection::serve(stream, tls, routes, permit, limiter, stop));
            }
            // A refusal would need a TLS handshake, which is too much for a full server.
            Err(why) if tls.is_some() => {
                tracing::debug!(from = %from.ip(), %why, "a connection is refused");
            }
            // A refused connection gets the reason, unless too many are refused at once.
            Err(why) => {
                let Ok(permit) = refusing.clone().try_acquire_owned() else { continue };
                tasks.spawn(async move {
                    tracing::debug!(from = %from.ip(), %why, "a connection is refused");
                    connection::refuse(stream, why).await;
                    drop(permit);
                });
            }
        }
    }
}
