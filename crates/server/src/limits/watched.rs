//! A stream whose peer has to take what is written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::{Bounds, Refused};

/// Fails to write once the peer has taken nothing for the length of `write_timeout`.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    bounds: Arc<Bounds>,
    /// Runs while there is something to write and the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    is_asked: Arc<AtomicBool>,
    /// It has failed for good.
    is_cut_off: bool,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, bounds: Arc<Bounds>) -> Self {
        Self { stream, bounds, stalled: None, is_asked: Arc::default(), is_cut_off: false }
    }

    /// Whether anything has come since something was written last.
    pub(crate) fn is_asked(&self) -> Arc<AtomicBool> {
        self.is_asked.clone()
    }

    fn judge<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let cut_off = || Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")));
        if self.is_cut_off {
            return cut_off();
        }
        let limit = self.bounds.settings().write_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        if stalled.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.is_cut_off = true;
        self.bounds.refuse(Refused::WriteTimeout);
        cut_off()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.is_asked.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_asked.store(false, Ordering::Relaxed);
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_asked.store(false, Ordering::Relaxed);
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS says good-bye, which the peer has to take as well.
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, BufWriter, duplex};

    use super::*;
    use crate::limits::LimitSettings;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_no_farewell_is_given_up() {
        let bounds = Arc::new(Bounds::new(LimitSettings::default()));
        let (near, _far) = duplex(1);
        // What is left to say is written by the shutdown, as TLS does it.
        let mut stream = Watched::new(BufWriter::new(near), bounds.clone());
        stream.write_all(b"good-bye").await.expect("there is room for it");
        let given_up = tokio::time::timeout(2 * bounds.settings().write_timeout, stream.shutdown()).await;
        let error = given_up.expect("it waits for ever").expect_err("nobody took it");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
