//! PostgreSQL: session-level advisory locks by prepared statements, over its own protocol.

use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use tokio::net::TcpStream;

use super::{Codec, Decoded, Event, exchange};

/// One connection, which has one client: a server process waits with it.
pub(crate) struct Postgres {
    key: [u8; 8],
    locking: bool,
}

impl Codec for Postgres {
    async fn open(stream: &mut TcpStream, names: Rc<[String]>) -> Result<Self> {
        ensure!(names.len() == 1, "a PostgreSQL connection carries one client");
        begin(stream).await?;
        let mut prepare = Vec::new();
        message(b'P', b"l\0select pg_advisory_lock($1)\0\0\x01\0\0\0\x14", &mut prepare);
        message(b'P', b"u\0select pg_advisory_unlock($1)\0\0\x01\0\0\0\x14", &mut prepare);
        message(b'S', b"", &mut prepare);
        exchange(stream, &prepare, ready).await?;
        Ok(Self { key: key(&names[0]), locking: false })
    }

    fn lock(&mut self, _: usize, out: &mut Vec<u8>) {
        self.locking = true;
        self.execute(b'l', out);
    }

    fn unlock(&mut self, _: usize, answered: bool, out: &mut Vec<u8>) {
        assert!(answered, "PostgreSQL is measured with every answer awaited");
        self.locking = false;
        self.execute(b'u', out);
    }

    fn decode(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Option<Decoded>> {
        let Some(length) = ready(input)? else { return Ok(None) };
        let event = if self.locking { Event::Granted(0) } else { Event::Unlocked(0) };
        Ok(Some(Decoded::new(length, Some(event))))
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        message(b'X', b"", out);
    }
}

impl Postgres {
    /// Bind, execute, sync.
    fn execute(&self, statement: u8, out: &mut Vec<u8>) {
        let mut bind = [0; 23];
        // Portal "", the statement, one format code (binary), one parameter of eight bytes, results as text.
        bind[1] = statement;
        bind[4] = 1;
        bind[6] = 1;
        bind[8] = 1;
        bind[12] = 8;
        bind[13..21].copy_from_slice(&self.key);
        message(b'B', &bind, out);
        message(b'E', b"\0\0\0\0\0", out);
        message(b'S', b"", out);
    }
}

/// Sends the user's name.
pub(super) async fn begin(stream: &mut TcpStream) -> Result<()> {
    let mut startup = Vec::new();
    startup.extend_from_slice(&196_608_u32.to_be_bytes());
    startup.extend_from_slice(b"user\0postgres\0database\0postgres\0\0");
    let mut packet = (startup.len() as u32 + 4).to_be_bytes().to_vec();
    packet.extend_from_slice(&startup);
    exchange(stream, &packet, ready).await?;
    Ok(())
}

pub(super) fn message(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

/// Where the answer ends, which is with ReadyForQuery.
pub(super) fn ready(input: &[u8]) -> Result<Option<usize>> {
    let mut at = 0;
    while let Some([kind, length @ ..]) = input.get(at..at + 5) {
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let end = at + 1 + length;
        if *kind == b'E' {
            bail!("PostgreSQL said {}", String::from_utf8_lossy(&input[at..end.min(input.len())]));
        }
        if *kind == b'Z' && input.len() >= end {
            return Ok(Some(end));
        }
        at = end;
    }
    Ok(None)
}

/// Advisory locks are on numbers; equal names give equal ones (FNV-1a).
fn key(name: &str) -> [u8; 8] {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash.to_be_bytes()
}
