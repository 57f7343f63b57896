//! Servers with many locks in them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

use super::caller::Caller;

const CONNECTIONS: usize = 64;
/// As many as one call may have.
const LOCKS_PER_CALL: usize = 60;

/// When leases end.
#[derive(Clone, Copy)]
pub(super) struct End(pub(super) Instant);

impl End {
    /// As late as may be.
    pub(super) fn in_a_month() -> Self {
        Self(Instant::now() + Duration::from_secs(30 * 24 * 3600))
    }

    fn left_ms(self) -> u64 {
        (self.0.saturating_duration_since(Instant::now()).as_millis() as u64).max(1)
    }
}

/// Locks records 0 to `count`, a few owners sharing them.
pub(super) fn lock(address: SocketAddr, count: usize, end: End) -> Result<()> {
    on_connections(move |connection| async move {
        let mine = count * connection / CONNECTIONS..count * (connection + 1) / CONNECTIONS;
        let mut caller = Caller::connect(address).await?;
        let owner = caller.open(|| end.left_ms()).await?;
        for first in mine.clone().step_by(LOCKS_PER_CALL) {
            let records = first..mine.end.min(first + LOCKS_PER_CALL);
            ensure!(caller.lock(&owner, records).await?, "a record is locked already");
        }
        Ok(())
    })
}

/// Locks records 0 to `count`, each for an owner of its own.
pub(super) fn lock_separately(address: SocketAddr, count: usize, end: End) -> Result<()> {
    on_connections(move |connection| async move {
        let mut caller = Caller::connect(address).await?;
        for record in (connection..count).step_by(CONNECTIONS) {
            let owner = caller.open(|| end.left_ms()).await?;
            ensure!(caller.lock(&owner, [record]).await?, "a record is locked already");
        }
        Ok(())
    })
}

fn on_connections<F: Future<Output = Result<()>> + 'static>(work: impl Fn(usize) -> F) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let tasks: Vec<_> = (0..CONNECTIONS).map(|connection| spawn_local(work(connection))).collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

/// The same in Redis, where a name has a token and a lease of its own.
pub(super) fn set(address: SocketAddr, count: usize, end: End) -> Result<()> {
    const BATCH: usize = 1000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stream = TcpStream::connect(address).await?;
        for first in (0..count).step_by(BATCH) {
            let last = count.min(first + BATCH);
            let command = |record| {
                let ms = end.left_ms().to_string();
                format!(
                    "*6\r\n$3\r\nSET\r\n$14\r\nrecord/{record:07}\r\n$16\r\n{record:016}\r\n$2\r\nNX\r\n$2\r\nPX\r\n${}\r\n{ms}\r\n",
                    ms.len()
                )
            };
            let commands: String = (first..last).map(command).collect();
            stream.write_all(commands.as_bytes()).await?;
            let mut answers = vec![0; (last - first) * "+OK\r\n".len()];
            stream.read_exact(&mut answers).await?;
            ensure!(answers.chunks(5).all(|answer| answer == b"+OK\r\n"), "Redis refused a lock");
        }
        Ok(())
    })
}
