//! The listener: it admits connections, and sends the reason to those that it refuses.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::bounds::REFUSED_AT_ONCE;
use crate::connection;
use crate::router::Routes;
use crate::state::AppState;

/// Lets connections in until `stop`.
pub(super) async fn accept_until(state: &Arc<AppState>, listener: &TcpListener, stop: CancellationToken) {
    let routes = Routes::new(state.clone());
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
        let (limiter, stop) = (state.limiter.clone(), stop.clone());
        match limiter.admit(from.ip()) {
            Ok(permit) => {
                let (routes, tls) = (routes.clone(), state.config.tls.clone());
                state.tasks.spawn(connection::serve(stream, tls, routes, permit, limiter, stop));
            }
            // A refusal would need a TLS handshake, which is too much for a full server.
            Err(why) if state.config.tls.is_some() => {
                tracing::debug!(from = %from.ip(), %why, "a connection is refused");
            }
            // A refused connection gets the reason, unless too many are refused at once.
            Err(why) => {
                let Ok(permit) = refusing.clone().try_acquire_owned() else { continue };
                state.tasks.spawn(async move {
                    tracing::debug!(from = %from.ip(), %why, "a connection is refused");
                    connection::refuse(stream, why).await;
                    drop(permit);
                });
            }
        }
    }
}
