//! The connection of a client to the server, in memory: bytes wait in it, stand still in it, and are lost in
//! it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use random::Random;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::listener::Listener;

/// The client's end. Dropping it closes the connection, behind the bytes that are on their way.
#[derive(Debug)]
pub(super) struct ClientEnd(Arc<Mutex<Link>>);

/// The wire between the ends, on which all that goes wrong goes wrong.
#[derive(Debug)]
pub(super) struct Wire(Arc<Mutex<Link>>);

/// The server's end.
#[derive(Debug)]
pub(super) struct ServerEnd(Arc<Mutex<Link>>);

#[derive(Debug)]
struct Link {
    to_server: Way,
    to_client: Way,
    /// Whether nothing passes, either way.
    is_stalled: bool,
    /// Hears all that the server writes, as it is written.
    listener: Listener,
}

/// One direction.
#[derive(Debug)]
struct Way {
    bytes: VecDeque<u8>,
    capacity: usize,
    is_closed: bool,
    /// The server's task that waits for bytes, or for a place for them.
    waiting: Option<Waker>,
}

/// How a connection breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim::clients) enum Break {
    /// Both sides see it.
    ForBoth,
    /// The server goes on waiting for the client.
    ForTheClient,
}

/// A connection in which so many bytes can be on their way to the client.
pub(super) fn link(capacity: usize, listener: Listener) -> (ClientEnd, Wire, ServerEnd) {
    let link =
        Link { to_server: Way::new(usize::MAX), to_client: Way::new(capacity), is_stalled: false, listener };
    let link = Arc::new(Mutex::new(link));
    (ClientEnd(link.clone()), Wire(link.clone()), ServerEnd(link))
}

impl Wire {
    /// From now on nothing passes, or everything does again.
    pub(super) fn set_stalled(&self, is_stalled: bool) {
        let mut link = self.0.lock();
        link.is_stalled = is_stalled;
        if !is_stalled {
            link.wake_server();
        }
    }

    /// Breaks the connection off. What is on its way is lost, apart from the first bytes to the server.
    pub(super) fn break_off(&self, how: Break, random: &mut Random) {
        let mut link = self.0.lock();
        let arrives = random.below(link.to_server.bytes.len() + 1);
        link.to_server.bytes.truncate(arrives);
        link.to_client.bytes.clear();
        link.to_client.is_closed = true;
        link.listener.stop();
        if how == Break::ForBoth {
            link.to_server.is_closed = true;
            link.wake_server();
        } else {
            link.is_stalled = true;
        }
    }
}

impl Read for ClientEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut link = self.0.lock();
        if link.is_stalled {
            return Err(ErrorKind::WouldBlock.into());
        }
        let way = &mut link.to_client;
        match way.take(buffer) {
            0 if way.is_closed => Ok(0),
            0 => Err(ErrorKind::WouldBlock.into()),
            count => {
                way.wake();
                Ok(count)
            }
        }
    }
}

impl Write for ClientEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut link = self.0.lock();
        if link.to_client.is_closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        link.to_server.bytes.extend(bytes);
        if !link.is_stalled {
            link.to_server.wake();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        let mut link = self.0.lock();
        if link.to_client.is_closed {
            return;
        }
        link.to_server.is_closed = true;
        link.to_client.is_closed = true;
        link.to_client.bytes.clear();
        link.is_stalled = false;
        link.listener.stop();
        link.wake_server();
    }
}

impl AsyncRead for ServerEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut link = self.0.lock();
        let is_stalled = link.is_stalled;
        let way = &mut link.to_server;
        let free = buffer.initialize_unfilled();
        match if is_stalled { 0 } else { way.take(free) } {
            0 if way.is_closed && !is_stalled => Poll::Ready(Ok(())),
            0 => {
                way.waiting = Some(context.waker().clone());
                Poll::Pending
            }
            count => {
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for ServerEnd {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut link = self.0.lock();
        let link = &mut *link;
        let way = &mut link.to_client;
        if way.is_closed && !link.is_stalled {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let free = way.capacity - way.bytes.len();
        if free == 0 {
            way.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        let written = &bytes[..bytes.len().min(free)];
        way.bytes.extend(written);
        link.listener.hear(written);
        Poll::Ready(Ok(written.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().to_client.is_closed = true;
        Poll::Ready(Ok(()))
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.0.lock().to_client.is_closed = true;
    }
}

impl Link {
    fn wake_server(&mut self) {
        self.to_server.wake();
        self.to_client.wake();
    }
}

impl Way {
    fn new(capacity: usize) -> Self {
        Self { bytes: VecDeque::new(), capacity, is_closed: false, waiting: None }
    }

    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.bytes.len());
        for (place, byte) in buffer.iter_mut().zip(self.bytes.drain(..count)) {
            *place = byte;
        }
        count
    }

    fn wake(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }
}
