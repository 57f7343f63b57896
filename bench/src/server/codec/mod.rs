//! The differences between ours and the peers on the wire: how a lock is asked for, and how an answer is
//! read.

pub(crate) mod claims;
pub(crate) mod echo;
pub(crate) mod etcd;
pub(crate) mod lockhouse;
pub(crate) mod postgres;
pub(crate) mod postgres_table;
pub(crate) mod redis;

use std::rc::Rc;

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection's encoder and decoder. A connection carries one or more clients, each of which has one lock
/// or request at a time.
pub(crate) trait Codec: Sized + 'static {
    /// Says what has to be said before the first lock. `names[n]` is what client `n` of this connection
    /// locks.
    async fn open(stream: &mut TcpStream, names: Rc<[String]>) -> Result<Self>;

    /// Asks for the lock.
    fn lock(&mut self, client: usize, out: &mut Vec<u8>);

    /// Unlocks. If `answered`, an [`Event::Unlocked`] will report it.
    fn unlock(&mut self, client: usize, answered: bool, out: &mut Vec<u8>);

    /// All is asked for that is asked for now: writes it, where messages take several requests.
    fn end_turn(&mut self, _out: &mut Vec<u8>) {}

    /// Reads one answer off the input, if it is there wholly. May write the replies that the protocol itself
    /// demands.
    fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<Decoded>>;

    /// Last words, so that nothing of this connection lingers at the server.
    fn close(&mut self, _out: &mut Vec<u8>) {}
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded {
    /// How many bytes it took.
    pub(crate) length: usize,
    /// The event, if the answer concerns a client.
    pub(crate) event: Option<Event>,
}

/// An event of a client of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The client holds its lock.
    Granted(usize),
    /// The client may ask again (only of servers that have no queue).
    Refused(usize),
    /// Its lock is free.
    Unlocked(usize),
}

impl Decoded {
    fn new(length: usize, event: Option<Event>) -> Self {
        Self { length, event }
    }
}

/// Sends the request and reads until `complete` finds the end of the answer, for the exchanges before the
/// first lock.
pub(crate) async fn exchange(
    stream: &mut TcpStream,
    request: &[u8],
    mut complete: impl FnMut(&[u8]) -> Result<Option<usize>>,
) -> Result<Vec<u8>> {
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    loop {
        if let Some(length) = complete(&answer)? {
            answer.truncate(length);
            return Ok(answer);
        }
        if stream.read_buf(&mut answer).await? == 0 {
            bail!("the server hung up after {:?}", String::from_utf8_lossy(&answer));
        }
    }
}

/// Where `needle` begins.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

/// Appends the parts, one after another.
fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The number that begins here.
fn leading_number(text: &[u8]) -> u64 {
    text.iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0'))
}
