//! A connection whose peer has to ask in time, and to take what is written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::{Bounds, Refused};

/// How long an answer is at most that is copied to be written in one piece, which takes the kernel less than several.
const ONE_PIECE: usize = 1024;

/// A stream that fails to write once the peer has taken nothing for the length of `write_timeout`.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    bounds: Arc<Bounds>,
    /// Runs while there is something to write and the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    exchange: Arc<Exchange>,
    /// It has failed for good.
    is_cut_off: bool,
}

/// Where a connection stands between a request and its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    began: Instant,
    /// When something was written last, in nanoseconds since it began.
    written: AtomicU64,
    /// Something has come since.
    is_asked: AtomicBool,
    /// There is something to write that the peer does not take.
    is_stalled: AtomicBool,
    is_answered: AtomicBool,
}

/// While it lives, the connection waits for its server.
#[derive(Debug)]
pub(crate) struct Answered(Arc<Exchange>);

impl Exchange {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            written: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
        })
    }

    /// A whole request has come.
    pub(crate) fn answer(self: Arc<Self>) -> Answered {
        self.is_answered.store(true, Ordering::Relaxed);
        Answered(self)
    }

    /// Waits until the head of a request has been waited for longer than `header_timeout`. Cancel safe.
    ///
    /// A request sets no timer: as that for the head before it runs out, it is set anew for what is left.
    pub(crate) async fn overdue(&self, bounds: &Bounds) -> Refused {
        let mut since = self.began;
        loop {
            let limit = bounds.settings().header_timeout;
            sleep_until(since + limit).await;
            let now = Instant::now();
            let is_waited_for = [&self.is_answered, &self.is_stalled];
            if is_waited_for.iter().any(|is| is.load(Ordering::Relaxed)) {
                since = now;
                continue;
            }
            since = self.began + Duration::from_nanos(self.written.load(Ordering::Relaxed));
            if now >= since + limit {
                let is_half_asked = self.is_asked.load(Ordering::Relaxed);
                return if is_half_asked { Refused::HeaderTimeout } else { Refused::IdleTimeout };
            }
        }
    }

    fn note_written(&self) {
        self.note_taken();
        self.is_asked.store(false, Ordering::Relaxed);
    }

    fn note_taken(&self) {
        // Enough for five centuries.
        self.written.store(self.began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.is_answered.store(false, Ordering::Relaxed);
    }
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, bounds: Arc<Bounds>) -> Self {
        Self { stream, bounds, stalled: None, exchange: Exchange::new(), is_cut_off: false }
    }

    pub(crate) fn exchange(&self) -> Arc<Exchange> {
        self.exchange.clone()
    }

    fn judge<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stalled.take().is_some() {
                // What TLS has taken has gone only now.
                self.exchange.note_taken();
                self.exchange.is_stalled.store(false, Ordering::Relaxed);
            }
            return written;
        }
        let cut_off = || Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")));
        if self.is_cut_off {
            return cut_off();
        }
        let limit = self.bounds.settings().write_timeout;
        let stalled = self.stalled.get_or_insert_with(|| {
            self.exchange.is_stalled.store(true, Ordering::Relaxed);
            Box::pin(sleep(limit))
        });
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
            self.exchange.is_asked.store(true, Ordering::Relaxed);
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
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.exchange.note_written();
        }
        self.judge(context, written)
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
            self.exchange.note_written();
        }
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

/// All of the slices in one piece, if there is room for that.
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, duplex};

    use super::*;
    use crate::settings::LimitSettings;

    #[tokio::test]
    async fn several_pieces_are_written_as_they_stand() {
        for pieces in
            [&["head", "", "body"][..], &[&"h".repeat(ONE_PIECE - 1), "b"], &["head", &"b".repeat(ONE_PIECE)]]
        {
            let (near, mut far) = duplex(4 * ONE_PIECE);
            let mut stream = Watched::new(near, Arc::new(Bounds::new(LimitSettings::default())));
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
        let bounds = Arc::new(Bounds::new(LimitSettings::default()));
        let (near, _far) = duplex(1);
        // What is left to say is written by the shutdown, as TLS does it.
        let mut stream = Watched::new(BufWriter::new(near), bounds.clone());
        stream.write_all(b"good-bye").await.expect("there is room for it");
        let given_up = tokio::time::timeout(2 * bounds.settings().write_timeout, stream.shutdown()).await;
        let error = given_up.expect("it waits for ever").expect_err("nobody took it");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_all_the_time_for_its_next_request_once_it_has_taken_an_answer() {
        let bounds = Arc::new(Bounds::new(LimitSettings::default()));
        let LimitSettings { header_timeout, write_timeout, .. } = bounds.settings();
        let (near, mut far) = duplex(1);
        let mut stream = Watched::new(BufWriter::new(near), bounds.clone());
        let exchange = stream.exchange();
        stream.write_all(b"answer").await.expect("there is room for it");
        let takes = async {
            sleep(write_timeout - Duration::from_millis(1)).await;
            far.read_exact(&mut [0; 6]).await.expect("it was written");
            Instant::now()
        };
        let (flushed, taken) = tokio::join!(stream.flush(), takes);
        flushed.expect("it was taken in time");
        assert_eq!(exchange.overdue(&bounds).await, Refused::IdleTimeout);
        assert_eq!(taken.elapsed().as_secs(), header_timeout.as_secs());
    }
}
