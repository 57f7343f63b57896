//! A connection that is made when it is needed, and again after it broke off.

pub(crate) mod address;
pub(crate) mod password;
pub(crate) mod tls;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Row, Socket};

use super::error::{Trouble, is_demoted, said};
use crate::StoreUnavailable;
use address::{Security, host_and_port, is_local};
use password::PasswordSource;

/// A parameter of a statement, with its type: such a statement needs no name and no round trip of its own.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// The servers that may be connected to, and how.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) configs: Vec<Config>,
    pub(crate) security: Security,
    pub(crate) password: Option<PasswordSource>,
}

/// A connection, or none at the moment.
pub(crate) struct LazyConnection {
    servers: Servers,
    /// The place of the server that is tried next.
    next: usize,
    place: Box<str>,
    connected: Option<Connected>,
}

#[derive(Debug)]
struct Connected {
    client: Client,
    /// How many warnings have come.
    warnings: Arc<AtomicU64>,
    driver: AbortHandle,
}

impl Drop for Connected {
    /// A statement that is not answered would keep the socket open.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl LazyConnection {
    /// One that begins with the server at that place.
    pub(crate) fn new(servers: Servers, place: Box<str>, first: usize) -> Self {
        Self { servers, next: first, place, connected: None }
    }

    /// The rows of a statement, which has had all its effects then.
    ///
    /// Confirmed is only what the server has answered to its end, without an error, in time, and without a
    /// warning, such as that no standby has it. `None` if it is not, and the effects are unknown.
    pub(crate) async fn run(
        &mut self,
        limit: Duration,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Vec<Row>>, Trouble> {
        let connected = match self.connected(limit).await {
            Ok(connected) => connected,
            Err(why) => {
                return Err(Trouble::Undone(StoreUnavailable::Away { place: self.place.clone(), why }));
            }
        };
        let before = connected.warnings.load(Ordering::Acquire);
        let answer = timeout(limit, connected.client.query_typed(sql, params)).await;
        let is_warned = connected.warnings.load(Ordering::Acquire) != before;
        match answer {
            Ok(Ok(_)) if is_warned => {
                // Perhaps that it waits for a standby no longer.
                self.leave_server();
                Ok(None)
            }
            Ok(Ok(rows)) => Ok(Some(rows)),
            Ok(Err(error)) => {
                let trouble = Trouble::of(&self.place, &error);
                // Another server may be the one that can be written by now.
                let is_of_server = matches!(
                    trouble,
                    Trouble::Unknown(_) | Trouble::Undone(StoreUnavailable::ReadOnly { .. })
                );
                if is_of_server || is_demoted(&error) {
                    self.leave_server();
                }
                Err(trouble)
            }
            Err(_) => {
                // It may wait for a standby that has become the one that can be written.
                self.leave_server();
                Err(Trouble::Unknown(format!("no answer within {} ms", limit.as_millis()).into()))
            }
        }
    }

    /// The client of the connection, which is made if there is none; else why it could not be.
    pub(crate) async fn client(&mut self, limit: Duration) -> Result<&mut Client, Box<str>> {
        self.connected(limit).await.map(|connected| &mut connected.client)
    }

    /// The place of the server that is tried next, or connected to.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// How many servers there are.
    pub(crate) fn servers(&self) -> usize {
        self.servers.configs.len()
    }

    /// Ends the connection; the next one is to the next server.
    pub(crate) fn leave_server(&mut self) {
        self.connected = None;
        self.next = (self.next + 1) % self.servers.configs.len();
    }

    /// Ends the connection.
    pub(crate) fn hang_up(&mut self) {
        self.connected = None;
    }

    async fn connected(&mut self, limit: Duration) -> Result<&mut Connected, Box<str>> {
        let connected = match self.connected.take().filter(|connected| !connected.client.is_closed()) {
            Some(connected) => connected,
            None => self.connect(limit).await?,
        };
        Ok(self.connected.insert(connected))
    }

    /// Tries the servers in turn, beginning with the one that did last. One that does not answer uses up its
    /// share of the time, and no more.
    async fn connect(&mut self, limit: Duration) -> Result<Connected, Box<str>> {
        let (end, servers) = (Instant::now() + limit, self.servers.configs.len());
        let mut whys = Vec::new();
        for left in (1..=servers).rev() {
            let share = end.saturating_duration_since(Instant::now()) / left as u32;
            let config = &self.servers.configs[self.next];
            let why: Box<str> = match timeout(share, connect_to(config, &self.servers, share)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(why)) => why,
                Err(_) => format!("no connection within {} ms", share.as_millis()).into(),
            };
            whys.push(if servers == 1 { why } else { format!("{}: {why}", host_and_port(config)).into() });
            self.next = (self.next + 1) % servers;
        }
        Err(whys.join("; ").into())
    }
}

/// How many addresses of a host are tried in its time, if none of them answers.
const ADDRESSES: u32 = 3;

async fn connect_to(config: &Config, servers: &Servers, limit: Duration) -> Result<Connected, Box<str>> {
    let mut config = config.clone();
    config.connect_timeout(limit / ADDRESSES);
    // As in libpq, a socket in the file system needs no protection from the network. The file of authorities
    // is read each time, as a new authority comes while the process runs.
    let tls = if is_local(&config) {
        None
    } else {
        tls::connector(&servers.security).map_err(|error| error.to_string())?
    };
    if tls.is_none() {
        config.ssl_mode(SslMode::Disable);
    }
    if let (None, Some(source)) = (config.get_password(), &servers.password)
        && let Some(password) = source.read(&config)?
    {
        config.password(password);
    }
    match tls {
        Some(tls) => config.connect(tls).await.map(Connected::over),
        None => config.connect(NoTls).await.map(Connected::over),
    }
    .map_err(|error| said(&error))
}

impl Connected {
    fn over<T>((client, connection): (Client, Connection<Socket, T>)) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let warnings = Arc::new(AtomicU64::new(0));
        let driver = tokio::spawn(drive(connection, Arc::clone(&warnings))).abort_handle();
        Self { client, warnings, driver }
    }
}

/// Reads and writes for a client until it is dropped or the connection ends. Messages come in order: a
/// warning is counted before the end of the statement that it is about is told.
async fn drive<T>(mut connection: Connection<Socket, T>, warnings: Arc<AtomicU64>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    poll_fn(|context| {
        loop {
            match ready!(connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notice(notice))) => {
                    if notice.parsed_severity() == Some(Severity::Warning) {
                        warnings.fetch_add(1, Ordering::Release);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(()),
            }
        }
    })
    .await;
}
