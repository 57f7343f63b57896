//! A connection that keeps what has been read, so that it can be handed on to another node from its
//! beginning.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use lockhouse_wire::FRAME_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most that is kept: a first frame of any length, and as much of what comes with it.
const MOST: usize = 2 * FRAME_BYTES;

/// A connection that keeps what has been read, as long as it is to.
#[derive(Debug)]
pub(super) struct RecordedIo {
    io: TokioIo<Upgraded>,
    record: Option<Vec<u8>>,
}

impl RecordedIo {
    pub(super) fn new(io: TokioIo<Upgraded>, is_recorded: bool) -> Self {
        Self { io, record: is_recorded.then(Vec::new) }
    }

    /// From now on nothing is kept.
    pub(super) fn stop(&mut self) {
        self.record = None;
    }

    /// The connection, and all that has been read of it.
    pub(super) fn into_parts(self) -> (TokioIo<Upgraded>, Vec<u8>) {
        (self.io, self.record.unwrap_or_default())
    }
}

impl AsyncRead for RecordedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if let Some(record) = &mut self.record {
            record.extend_from_slice(&buffer.filled()[before..]);
            if record.len() > MOST {
                let why = "too much has come before the first frame";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
            }
        }
        read
    }
}

impl AsyncWrite for RecordedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
