//! A connection that is made when it is needed, and again after it broke off.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Row, RowStream, Socket};

use super::error::{Trouble, said};
use crate::StoreUnavailable;

/// A parameter of a statement, with its type: such a statement needs no name and no round trip of its own.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection, or none at the moment.
#[derive(Debug)]
pub(crate) struct LazyConnection {
    config: Config,
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
    pub(crate) fn new(config: Config, place: Box<str>) -> Self {
        Self { config, place, connected: None }
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
            Ok(Ok(_)) if is_warned => Ok(None),
            Ok(Ok(rows)) => Ok(Some(rows)),
            Ok(Err(error)) => {
                let trouble = Trouble::of(&self.place, &error);
                // Another server may be the one that can be written by now.
                let is_of_server = matches!(
                    trouble,
                    Trouble::Unknown(_) | Trouble::Undone(StoreUnavailable::ReadOnly { .. })
                );
                if is_of_server {
                    self.connected = None;
                }
                Err(trouble)
            }
            Err(_) => {
                self.connected = None;
                Err(Trouble::Unknown(format!("no answer within {} ms", limit.as_millis()).into()))
            }
        }
    }

    /// The rows of a query, as they come, over the connection of the statement before.
    pub(crate) async fn stream(
        &mut self,
        limit: Duration,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<RowStream, Trouble> {
        let Some(connected) = &self.connected else {
            return Err(Trouble::Unknown("the connection broke off".into()));
        };
        let params = params.iter().map(|(value, kind)| (*value, kind.clone()));
        match timeout(limit, connected.client.query_typed_raw(sql, params)).await {
            Ok(rows) => rows.map_err(|error| Trouble::of(&self.place, &error)),
            Err(_) => {
                self.connected = None;
                Err(Trouble::Unknown(format!("no row within {} s", limit.as_secs()).into()))
            }
        }
    }

    /// The client of the connection, which is made if there is none; else why it could not be.
    pub(crate) async fn client(&mut self, limit: Duration) -> Result<&mut Client, Box<str>> {
        self.connected(limit).await.map(|connected| &mut connected.client)
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

    async fn connect(&self, limit: Duration) -> Result<Connected, Box<str>> {
        let made = timeout(limit, self.config.connect(NoTls)).await;
        let made = made.map_err(|_| format!("no connection within {} ms", limit.as_millis()))?;
        let (client, connection) = made.map_err(|error| said(&error))?;
        let warnings = Arc::new(AtomicU64::new(0));
        let driver = tokio::spawn(drive(connection, Arc::clone(&warnings))).abort_handle();
        Ok(Connected { client, warnings, driver })
    }
}

/// Reads and writes for a client until it is dropped or the connection ends. Messages come in order: a
/// warning is counted before the end of the statement that it is about is told.
async fn drive(
    mut connection: Connection<Socket, tokio_postgres::tls::NoTlsStream>,
    warnings: Arc<AtomicU64>,
) {
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
