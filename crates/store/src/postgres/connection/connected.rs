//! A connection to one server, from its beginning to its end.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::Severity;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Connection, Error, NoTls, Row, Socket};

use super::super::error::{PostgresOpenError, lasts, said};
use super::address::is_local;
use super::{Servers, tls};

#[derive(Debug)]
pub(super) struct Connected {
    pub(super) client: Client,
    /// How many warnings have come.
    pub(super) warnings: Arc<AtomicU64>,
    /// The place of the server.
    pub(super) server: usize,
    /// The process of the server that has the connection.
    pub(super) backend: Box<str>,
    /// What the process of the late statement does that was asked for, if it is at this server.
    pub(super) runs: Option<Box<str>>,
    /// A setting with which the server does not keep what the store promises.
    pub(super) fault: Option<Box<str>>,
    driver: AbortHandle,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct NoConnection {
    pub(crate) why: Box<str>,
    /// Whether each further attempt fails like that.
    pub(super) lasts: bool,
}

impl NoConnection {
    /// A fault of the settings or of a file that they name.
    fn of_settings(why: &impl ToString) -> Self {
        Self { why: why.to_string().into(), lasts: true }
    }

    /// The meaning for a caller that opens the store at that place.
    pub(crate) fn when_opening(self, place: &str) -> PostgresOpenError {
        let (place, Self { why, lasts }) = (place.into(), self);
        if lasts { PostgresOpenError::Refused { place, why } } else { PostgresOpenError::Away { place, why } }
    }
}

impl From<Error> for NoConnection {
    fn from(error: Error) -> Self {
        Self { why: said(&error), lasts: lasts(&error) }
    }
}

impl Drop for Connected {
    /// A statement that is not answered would keep the socket open.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// How many addresses of a host are tried in its time, if none of them answers.
const ADDRESSES: u32 = 3;

/// What is asked over each new connection: its process; what that of the late statement does, if it is there,
/// as the empty text if it has nothing to do but to send its answer, or waits for the rest of the statement;
/// and settings that the opening of a store refuses, as those of the server or the role may be others by now.
/// The server is asked to notice within seconds that a network no longer carries the connection: else what a
/// node leaves behind would count as connections of its role for hours.
const LOOK: &str = "
SELECT set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    (SELECT format('%s %s', pid, extract(epoch FROM backend_start)) FROM pg_stat_activity
        WHERE pid = pg_backend_pid()) AS backend,
    (SELECT CASE
            WHEN state <> 'active' OR wait_event IN ('ClientRead', 'ClientWrite') THEN ''
            WHEN wait_event = 'SyncRep' THEN 'waits for a standby that synchronous_standby_names has, and pg_stat_replication may lack'
            WHEN wait_event_type = 'Lock'
                THEN format('waits for a lock of process %s', array_to_string(pg_blocking_pids(pid), ', '))
            WHEN wait_event IS NULL THEN 'is at work'
            ELSE format('waits for %s', wait_event) END
        FROM pg_stat_activity
        WHERE format('%s %s', pid, extract(epoch FROM backend_start)) = $1) AS runs,
    CASE
        WHEN current_setting('fsync') = 'off'
            THEN 'fsync is off, so that nothing survives a loss of power; set fsync = on'
        WHEN current_setting('default_transaction_isolation') <> 'read committed'
            THEN format('default_transaction_isolation is %L for this account; set it to read committed',
                current_setting('default_transaction_isolation'))
        END AS fault";

/// A connection to the server at that place, over which was asked what becomes of a late statement.
pub(super) async fn connect_to(
    server: usize,
    servers: &Servers,
    limit: Duration,
    late: Option<&str>,
) -> Result<Connected, NoConnection> {
    let mut config = servers.configs[server].clone();
    config.connect_timeout(limit / ADDRESSES);
    // As in libpq, a socket in the file system needs no protection from the network. The file of authorities
    // is read each time, as a new authority comes while the process runs.
    let tls = if is_local(&config) {
        None
    } else {
        tls::connector(&servers.security).map_err(|error| NoConnection::of_settings(&error))?
    };
    if tls.is_none() {
        config.ssl_mode(SslMode::Disable);
    }
    if let (None, Some(source)) = (config.get_password(), &servers.password)
        && let Some(password) = source.read(&config).map_err(|why| NoConnection::of_settings(&why))?
    {
        config.password(password);
    }
    let mut connected = match tls {
        Some(tls) => config.connect(tls).await.map(|parts| Connected::over(parts, server)),
        None => config.connect(NoTls).await.map(|parts| Connected::over(parts, server)),
    }?;
    connected.look(late).await?;
    Ok(connected)
}

impl Connected {
    fn over<T>((client, connection): (Client, Connection<Socket, T>), server: usize) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let warnings = Arc::new(AtomicU64::new(0));
        let driver = tokio::spawn(drive(connection, Arc::clone(&warnings))).abort_handle();
        Self { client, warnings, server, backend: Box::default(), runs: None, fault: None, driver }
    }

    async fn look(&mut self, late: Option<&str>) -> Result<(), Error> {
        let row: Row = self.client.query_typed_one(LOOK, &[(&late, Type::TEXT)]).await?;
        let text = |name| row.try_get::<_, Option<&str>>(name).map(|text| text.map(Box::from));
        (self.backend, self.runs) = (text("backend")?.unwrap_or_default(), text("runs")?);
        self.fault = text("fault")?;
        Ok(())
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
