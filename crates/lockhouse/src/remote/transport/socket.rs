//! One WebSocket, from the dial to the close.

use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use lockhouse_wire as wire;
use serde::Deserialize;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::address::{Address, without_password};
use super::stream::{Link, dial};
use crate::remote::error::ConnectError;
use crate::remote::transport::tls_error::is_refusal;

pub(crate) type Socket = WebSocketStream<Link>;

/// The most characters of a refusal that an error repeats.
const SHOWN_CHARS: usize = 200;
/// How long a close is waited for.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why the reading of a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The server closed with that code, or the reason is unknown.
    Closed(Option<u16>),
    /// The server closed, as another one of its fleet is about to have the bucket.
    Moving,
    /// The server closed, as it has as many connections or sessions as its setting of this name allows.
    Full(String),
    /// The server sent a message that is no text.
    Binary,
}

/// How much is read at once. The library fills so much with zeros before each read.
const READ_BYTES: usize = 4 << 10;

/// Connects, up to the end of the WebSocket handshake.
pub(crate) async fn open(address: &Address) -> Result<Socket, ConnectError> {
    let unreachable = |error| ConnectError::Unreachable { address: address.to_string(), error };
    let stream = dial(address).await?;
    let request = ClientRequestBuilder::new(address.uri().clone()).with_sub_protocol(wire::SUBPROTOCOL);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .max_message_size(Some(wire::FRAME_BYTES))
        .max_frame_size(Some(wire::FRAME_BYTES));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Io(error)) if is_refusal(&error) => {
            Err(ConnectError::Untrusted { address: address.to_string(), message: error.to_string() })
        }
        Err(Error::Io(error)) => Err(unreachable(error)),
        Err(Error::Http(response)) => {
            let location = response.headers().get("location").filter(|_| response.status().is_redirection());
            let message = match location {
                Some(location) => {
                    let location = without_password(&String::from_utf8_lossy(location.as_bytes()));
                    format!("it leads to {location:?}")
                }
                None => shown(response.body().as_deref().unwrap_or_default()),
            };
            let (address, status) = (address.to_string(), response.status().as_u16());
            Err(ConnectError::Refused { address, status, message })
        }
        Err(error) => {
            Err(ConnectError::NotLockhouse { address: address.to_string(), message: error.to_string() })
        }
    }
}

/// The next text message.
pub(crate) async fn receive(
    stream: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
) -> Result<Utf8Bytes, Over> {
    loop {
        match stream.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text),
            Some(Ok(Message::Binary(_))) => return Err(Over::Binary),
            Some(Ok(Message::Close(frame))) => {
                let over = match frame {
                    Some(frame)
                        if u16::from(frame.code) == wire::close::RESTART
                            && frame.reason == wire::close::MOVING =>
                    {
                        Over::Moving
                    }
                    Some(frame) if u16::from(frame.code) == wire::close::FULL => {
                        Over::Full(shown(frame.reason.as_bytes()))
                    }
                    frame => Over::Closed(frame.map(|frame| frame.code.into())),
                };
                return Err(over);
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Err(Error::Capacity(_))) => return Err(Over::Binary),
            Some(Err(_)) | None => return Err(Over::Closed(None)),
        }
    }
}

/// Closes with that code, after `last` if there is something left to say, and waits a little for the answer;
/// whether it came.
pub(crate) async fn close<S>(mut socket: S, code: u16, last: Option<String>) -> bool
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
{
    let close = async {
        if let Some(text) = last {
            socket.feed(Message::text(text)).await?;
        }
        let frame = CloseFrame { code: code.into(), reason: Utf8Bytes::default() };
        socket.send(Message::Close(Some(frame))).await?;
        // The answer, behind the frames that the server had sent before.
        loop {
            match socket.next().await.transpose()? {
                Some(Message::Close(_)) => return Ok::<bool, Error>(true),
                Some(_) => {}
                None => return Ok(false),
            }
        }
    };
    // The other side may have gone: the socket is dropped in any case.
    matches!(timeout(CLOSE_TIMEOUT, close).await, Ok(Ok(true)))
}

/// A problem (RFC 9457), which servers of lockhouse answer with.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

fn shown(body: &[u8]) -> String {
    let text = match serde_json::from_slice(body) {
        Ok(Problem { detail }) => detail.into(),
        Err(_) => String::from_utf8_lossy(body),
    };
    text.trim().chars().take(SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
