//! The handshake of a connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::ClientCertificate;
use super::config::Tls;
use crate::bounds::{FAREWELL_TIMEOUT, UNWANTED_BYTES};

/// The answer to a client that speaks no TLS.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 36\r\n\
                     connection: close\r\n\r\nthis server speaks TLS: use https://";

impl Tls {
    /// The handshake, which has to end in time; with the certificate that the client showed.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        limit: Duration,
    ) -> io::Result<(TlsStream<TcpStream>, Option<ClientCertificate>)> {
        let config = self.current().0;
        let handshake = async {
            let mut first = [0];
            // No TLS record begins with a letter, every HTTP request does.
            if stream.peek(&mut first).await? == 1 && first[0].is_ascii_alphabetic() {
                refuse_plain(stream).await?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks no TLS"));
            }
            match TlsAcceptor::from(config.clone()).accept(stream).into_fallible().await {
                Ok(stream) => {
                    let certificate = ClientCertificate::of(self, &config, &stream);
                    Ok((stream, certificate))
                }
                // The client has got the reason, and may be sending its first request.
                Err((error, stream)) => {
                    _ = see_off(stream).await;
                    Err(error)
                }
            }
        };
        timeout(limit, handshake).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Sends the answer to a client that speaks plain HTTP.
async fn refuse_plain(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(PLAIN.as_bytes()).await?;
    see_off(stream).await
}

/// Ends a connection, but reads what the client still sends: a close over unread bytes could take the last
/// words away.
async fn see_off(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = stream.take(UNWANTED_BYTES);
    // A client that goes on sending is not waited for.
    _ = timeout(FAREWELL_TIMEOUT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    Ok(())
}
