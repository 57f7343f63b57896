//! PostgreSQL: a table of locks. A lock is a row: inserted unless there is one, deleted by a client that
//! knows its token; both by prepared statements, each in a transaction of its own.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::postgres::{begin, message, ready};
use super::{Codec, Decoded, Event, exchange, find};
use crate::server::load::READY;

const TABLE: &[u8] = b"CREATE TABLE lock (name text PRIMARY KEY, token bigint NOT NULL, \
    expires timestamptz NOT NULL DEFAULT now() + interval '30 seconds')\0";
const LOCK: &[u8] =
    b"l\0INSERT INTO lock (name, token) VALUES ($1, $2) ON CONFLICT DO NOTHING\0\0\x02\0\0\0\x19\0\0\0\x14";
const UNLOCK: &[u8] = b"u\0DELETE FROM lock WHERE name = $1 AND token = $2\0\0\x02\0\0\0\x19\0\0\0\x14";

/// Makes the table, once the server that has begun to listen is ready.
pub(crate) async fn create(address: SocketAddr) -> Result<()> {
    let start = Instant::now();
    loop {
        let mut stream = TcpStream::connect(address).await?;
        match begin(&mut stream).await {
            Err(_) if start.elapsed() < READY => sleep(Duration::from_millis(50)).await,
            Err(error) => return Err(error),
            Ok(()) => {
                let mut query = Vec::new();
                message(b'Q', TABLE, &mut query);
                exchange(&mut stream, &query, ready).await?;
                return Ok(());
            }
        }
    }
}

/// One connection. Its clients take turns, as they do with a pool: answers come in the order of the
/// statements.
pub(crate) struct PostgresTable {
    names: Rc<[String]>,
    token: u64,
    tokens: Vec<u64>,
    /// Whose answers are to come, and whether they asked for their lock.
    awaited: VecDeque<(usize, bool)>,
}

impl Codec for PostgresTable {
    async fn open(stream: &mut TcpStream, names: Rc<[String]>) -> Result<Self> {
        begin(stream).await?;
        let mut prepare = Vec::new();
        message(b'P', LOCK, &mut prepare);
        message(b'P', UNLOCK, &mut prepare);
        message(b'S', b"", &mut prepare);
        exchange(stream, &prepare, ready).await?;
        let tokens = vec![0; names.len()];
        Ok(Self { names, token: 0, tokens, awaited: VecDeque::new() })
    }

    fn lock(&mut self, client: usize, out: &mut Vec<u8>) {
        self.token += 1;
        self.tokens[client] = self.token;
        self.execute(b'l', client, out);
        self.awaited.push_back((client, true));
    }

    fn unlock(&mut self, client: usize, answered: bool, out: &mut Vec<u8>) {
        assert!(answered, "PostgreSQL is measured with every answer awaited");
        self.execute(b'u', client, out);
        self.awaited.push_back((client, false));
    }

    fn decode(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Option<Decoded>> {
        let Some(length) = ready(input)? else { return Ok(None) };
        let Some((client, locking)) = self.awaited.pop_front() else { bail!("an answer to nothing") };
        let contains = |word: &[u8]| find(&input[..length], word).is_some();
        let event = match locking {
            true if contains(b"INSERT 0 1\0") => Event::Granted(client),
            true if contains(b"INSERT 0 0\0") => Event::Refused(client),
            false if contains(b"DELETE 1\0") => Event::Unlocked(client),
            _ => bail!("PostgreSQL answered {:?}", String::from_utf8_lossy(&input[..length])),
        };
        Ok(Some(Decoded::new(length, Some(event))))
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        message(b'X', b"", out);
    }
}

impl PostgresTable {
    /// Bind, execute, sync.
    fn execute(&self, statement: u8, client: usize, out: &mut Vec<u8>) {
        let name = self.names[client].as_bytes();
        // Portal "", the statement, the formats text and binary, two parameters, results as text.
        let mut bind = vec![0, statement, 0, 0, 2, 0, 0, 0, 1, 0, 2];
        bind.extend_from_slice(&(name.len() as u32).to_be_bytes());
        bind.extend_from_slice(name);
        bind.extend_from_slice(&8_u32.to_be_bytes());
        bind.extend_from_slice(&self.tokens[client].to_be_bytes());
        bind.extend_from_slice(&[0, 0]);
        message(b'B', &bind, out);
        message(b'E', b"\0\0\0\0\0", out);
        message(b'S', b"", out);
    }
}
