//! A connection whose peer has to ask in time, and to take written bytes in time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::request_timing::RequestTiming;
use crate::limits::{Limiter, Refused};

/// The longest answer that is copied to be written in one piece, which costs the kernel less than several
/// pieces.
const ONE_PIECE: usize = 1024;

/// A stream that fails to write once the peer has taken nothing for the length of `write_timeout`.
#[derive(Debug)]
pub(super) struct TimeoutStream<S> {
    stream: S,
    limiter: Arc<Limiter>,
    /// Runs while there is something to write and the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    timing: Arc<RequestTiming>,
    /// The stream has failed for good.
    is_cut_off: bool,
}

impl<S> TimeoutStream<S> {
    pub(super) fn new(stream: S, limiter: Arc<Limiter>) -> Self {
        Self { stream, limiter, stalled: None, timing: RequestTiming::new(), is_cut_off: false }
    }

    pub(super) fn timing(&self) -> Arc<RequestTiming> {
        self.timing.clone()
    }

    fn check_stall<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stalled.take().is_some() {
                // Bytes that TLS has taken have been sent only now.
                self.timing.note_taken();
                self.timing.note_stalled(false);
            }
            return written;
        }
        let cut_off = || Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")));
        if self.is_cut_off {
            return cut_off();
        }
        let limit = self.limiter.settings().write_timeout;
        let stalled = self.stalled.get_or_insert_with(|| {
            self.timing.note_stalled(true);
            Box::pin(sleep(limit))
        });
        if stalled.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.is_cut_off = true;
        self.limiter.refuse(Refused::WriteTimeout);
        cut_off()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.timing.note_asked();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.timing.note_written();
        }
        self.check_stall(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut piece = [0; ONE_PIECE];
        let written = match gather(slices, &mut piece) {
            Some(bytes) => Pin::new(&mut self.stream).poll_write(context, bytes),
            None => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        };
        if written.is_ready() {
            self.timing.note_written();
        }
        self.check_stall(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check_stall(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS says good-bye, which the peer has to take as well.
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check_stall(context, shut)
    }
}

/// All of the slices in one piece, if they fit.
fn gather<'a>(slices: &[io::IoSlice<'_>], piece: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut length = 0;
    for slice in slices {
        piece.get_mut(length..length + slice.len())?.copy_from_slice(slice);
        length += slice.len();
    }
    Some(&piece[..length])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, duplex};
    use tokio::time::Instant;

    use super::*;
    use crate::settings::LimitSettings;

    #[tokio::test]
    async fn several_pieces_are_written_as_they_stand() {
        for pieces in
            [&["head", "", "body"][..], &[&"h".repeat(ONE_PIECE - 1), "b"], &["head", &"b".repeat(ONE_PIECE)]]
        {
            let (near, mut far) = duplex(4 * ONE_PIECE);
            let mut stream = TimeoutStream::new(near, Arc::new(Limiter::new(LimitSettings::default())));
            let mut left = pieces.concat();
            let mut slices: Vec<_> = pieces.iter().map(|piece| io::IoSlice::new(piece.as_bytes())).collect();
            let mut slices = &mut slices[..];
            while !slices.is_empty() {
                let written = stream.write_vectored(slices).await.expect("there is room for it");
                io::IoSlice::advance_slices(&mut slices, written);
                let mut come = vec![0; written];
                far.read_exact(&mut come).await.expect("it was written");
                assert_eq!(left.drain(..written).collect::<String>().as_bytes(), come);
            }
            assert_eq!(left, "");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_no_farewell_is_given_up() {
        let limiter = Arc::new(Limiter::new(LimitSettings::default()));
        let (near, _far) = duplex(1);
        // The shutdown writes the rest, as TLS does.
        let mut stream = TimeoutStream::new(BufWriter::new(near), limiter.clone());
        stream.write_all(b"good-bye").await.expect("there is room for it");
        let given_up = tokio::time::timeout(2 * limiter.settings().write_timeout, stream.shutdown()).await;
        let error = given_up.expect("it waits for ever").expect_err("nobody took it");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_all_the_time_for_its_next_request_once_it_has_taken_an_answer() {
        let limiter = Arc::new(Limiter::new(LimitSettings::default()));
        let LimitSettings { idle_timeout, write_timeout, .. } = limiter.settings();
        let (near, mut far) = duplex(1);
        let mut stream = TimeoutStream::new(BufWriter::new(near), limiter.clone());
        let timing = stream.timing();
        stream.write_all(b"answer").await.expect("there is room for it");
        let takes = async {
            sleep(write_timeout - Duration::from_millis(1)).await;
            far.read_exact(&mut [0; 6]).await.expect("it was written");
            Instant::now()
        };
        let (flushed, taken) = tokio::join!(stream.flush(), takes);
        flushed.expect("it was taken in time");
        assert_eq!(timing.overdue(&limiter).await, Refused::IdleTimeout);
        assert_eq!(taken.elapsed().as_secs(), idle_timeout.as_secs());
    }
}
