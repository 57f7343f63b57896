//! One connection: its handshake and its requests, until it ends.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Version, header};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::timeout_stream::TimeoutStream;
use crate::bounds::{HEAD_BYTES, REFUSED_FOR};
use crate::clock::until;
use crate::http::overloaded;
use crate::limits::{ConnectionPermit, Limiter, Refused};
use crate::router::Routes;
use crate::tls::{ClientCertificate, Tls};

/// Serves HTTP on one connection, behind its TLS handshake if there has to be one.
pub(crate) async fn serve(
    stream: TcpStream,
    tls: Option<Tls>,
    routes: Routes,
    permit: ConnectionPermit,
    limiter: Arc<Limiter>,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone before it began");
        return;
    }
    let Some(tls) = tls else { return serve_http(stream, None, routes, permit, limiter, stop).await };
    let accepted = tokio::select! {
        accepted = tls.accept(stream, limiter.settings().header_timeout) => accepted,
        () = stop.cancelled() => return,
    };
    match accepted {
        Ok((stream, certificate)) => serve_http(stream, certificate, routes, permit, limiter, stop).await,
        Err(error) => {
            if error.kind() == io::ErrorKind::TimedOut {
                limiter.refuse(Refused::HeaderTimeout);
            }
            tracing::debug!(%error, "a TLS handshake failed");
        }
    }
}

/// Serves HTTP on one connection, until the client's certificate is over; an upgraded connection goes on in
/// tasks of its own, and takes the permit along.
async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    certificate: Option<ClientCertificate>,
    routes: Routes,
    permit: ConnectionPermit,
    limiter: Arc<Limiter>,
    stop: CancellationToken,
) {
    let stream = TimeoutStream::new(stream, limiter.clone());
    let timing = stream.timing();
    let expires_at = certificate.as_ref().map(|certificate| certificate.expires_at);
    let certificate = certificate.map(Arc::new);
    let (is_answered, of_service) = (timing.clone(), limiter.clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let answered = is_answered.clone().answer();
        request.extensions_mut().insert(permit.clone());
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        let keep_alive = keep_alive(&request, of_service.settings().idle_timeout);
        let answering = routes.answer(request.map(Body::new));
        async {
            let mut response = answering.await;
            if let Some(keep_alive) = keep_alive {
                response.headers_mut().insert(KEEP_ALIVE, keep_alive);
            }
            drop(answered);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        // `RequestTiming::overdue` does this for less: a timer a connection, not one a request.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let end = async {
        tokio::select! {
            () = stop.cancelled() => None,
            () = until(expires_at) => None,
            refused = timing.overdue(&limiter) => Some(refused),
        }
    };
    // The future is polled when it is woken, not with each request.
    let mut ends = pin!([end].into_iter().collect::<FuturesUnordered<_>>());
    let end = tokio::select! {
        biased;
        result = connection.as_mut() => return note_end(result),
        Some(end) = ends.next() => end,
    };
    let refused = match end {
        Some(refused) => refused,
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = connection => return note_end(result),
                refused = timing.overdue(&limiter) => refused,
            }
        }
    };
    tracing::debug!(?refused, "an HTTP connection is given up");
    limiter.refuse(refused);
}

/// The header that says how long the connection may be idle after the answer, in whole seconds. A connection
/// that becomes a WebSocket or is closed is never idle.
fn keep_alive<B>(request: &hyper::Request<B>, idle_timeout: Duration) -> Option<HeaderValue> {
    let asked = request.headers().get(header::CONNECTION);
    let keeps = request.version() == Version::HTTP_11
        && asked.is_none_or(|asked| asked.as_bytes().eq_ignore_ascii_case(b"keep-alive"));
    let seconds = idle_timeout.as_secs();
    let header = (keeps && seconds > 0).then(|| HeaderValue::try_from(format!("timeout={seconds}")).ok());
    header.flatten()
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

fn note_end(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "an HTTP connection failed");
    }
}

/// Answers the first request with the reason of the refusal, and closes.
pub(crate) async fn refuse(stream: TcpStream, why: Refused) {
    let service = service_fn(move |request: hyper::Request<Incoming>| async move {
        Ok::<_, Infallible>(overloaded(why, request.uri().path()))
    });
    let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    // The connection closes whether the client takes the answer or not.
    _ = timeout(REFUSED_FOR, connection).await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::net::Ipv4Addr;

    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::time::sleep;

    use super::*;
    use crate::Config;
    use crate::state::AppState;

    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_not_waited_for_any_longer_after_a_stop() {
        let state = AppState::empty(Config::default());
        let limiter = state.limiter.clone();
        let limit = limiter.settings().header_timeout;
        let permit = limiter.admit(Ipv4Addr::LOCALHOST.into()).unwrap();
        let stop = CancellationToken::new();
        let (mut far, near) = duplex(1024);
        far.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").await.unwrap();
        let serving = serve_http(near, None, Routes::new(state), permit, limiter.clone(), stop.clone());
        let stops = async {
            sleep(limit / 2).await;
            stop.cancel();
        };
        let served = async { tokio::join!(serving, stops) };
        timeout(limit + Duration::from_secs(1), served).await.expect("it is waited for");
        assert_eq!(limiter.refusals.of(Refused::HeaderTimeout), 1);
    }
}
