//! A client of the HTTP API that does one thing after another.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::server::codec::claims::{Answer, field, post};

/// How long a server that refuses is asked again.
const LONGEST: Duration = Duration::from_secs(60);

/// One connection.
pub(super) struct Caller {
    stream: TcpStream,
    host: String,
    out: Vec<u8>,
    input: Vec<u8>,
}

/// An owner of locks.
pub(super) struct Owner {
    id: String,
    bearer: String,
}

impl Caller {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host: address.to_string(), out: Vec::new(), input: Vec::new() })
    }

    /// Begins an owner. Its TTL is asked for anew whenever the server has refused for a while.
    pub(super) async fn open(&mut self, ttl_ms: impl Fn() -> u64) -> Result<Owner> {
        let body = || format!(r#"{{"label":"bench","ttlMs":{}}}"#, ttl_ms());
        let (status, body) = self.call("owners", "", body).await?;
        ensure!(status == 201, "{status} {}", String::from_utf8_lossy(&body));
        let text = |key: &[u8]| {
            let text = field(&body, key).map(|text| String::from_utf8_lossy(text).into_owned());
            text.context("an owner without id or secret")
        };
        let (id, secret) = (text(b"\"owner\":\"")?, text(b"\"ownerSecret\":\"")?);
        Ok(Owner { id, bearer: format!("Authorization: Bearer {secret}\r\n") })
    }

    /// Locks records, all of them or none; whether it has.
    pub(super) async fn lock(
        &mut self,
        owner: &Owner,
        records: impl IntoIterator<Item = usize>,
    ) -> Result<bool> {
        let lock = |id| format!(r#"{{"kind":"record","id":"{id:07}","intent":"write"}}"#);
        let locks = records.into_iter().map(lock).collect::<Vec<_>>().join(",");
        let body = format!(r#"{{"owner":"{}","locks":[{locks}]}}"#, owner.id);
        let (status, body) = self.call("locks", &owner.bearer, || body.clone()).await?;
        ensure!(matches!(status, 201 | 423), "{status} {}", String::from_utf8_lossy(&body));
        Ok(status == 201)
    }

    /// Gives back all its locks.
    pub(super) async fn unlock(&mut self, owner: &Owner) -> Result<()> {
        let body = format!(r#"{{"owner":"{}","all":true}}"#, owner.id);
        let (status, body) = self.call("locks/release", &owner.bearer, || body.clone()).await?;
        ensure!(status == 200, "{status} {}", String::from_utf8_lossy(&body));
        Ok(())
    }

    /// The answer. A server that refuses for a while is asked again when it says, as client libraries do.
    async fn call(&mut self, path: &str, more: &str, body: impl Fn() -> String) -> Result<(u64, Vec<u8>)> {
        let start = Instant::now();
        loop {
            let (status, answer) = self.call_once(path, more, &body()).await?;
            match retry_after(&answer).filter(|_| status == 503 && start.elapsed() < LONGEST) {
                Some(pause) => sleep(pause).await,
                None => return Ok((status, answer)),
            }
        }
    }

    async fn call_once(&mut self, path: &str, more: &str, body: &str) -> Result<(u64, Vec<u8>)> {
        self.out.clear();
        let path = format!("/v1/buckets/default/{path}");
        post(&self.host, &path, more, body.as_bytes(), &mut self.out);
        self.stream.write_all(&self.out).await?;
        self.input.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.input).await? > 0, "the server hung up");
            if let Some(answer) = Answer::read(&self.input)? {
                return Ok((answer.status, answer.body.to_vec()));
            }
        }
    }
}

fn retry_after(body: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(field(body, b"\"retryAfterMs\":")?).ok()?;
    let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().map(Duration::from_millis)
}
