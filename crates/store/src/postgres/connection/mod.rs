//! A connection that is made when it is needed, and again after it broke off.
//!
//! ```text
//!   none ──▶ connected ──▶ a statement is given up ──▶ late ──▶ answered ─▶ connected again
//!                                                        └────▶ the server runs it no more ─▶ another one
//! ```
//!
//! A statement that is given up goes on at the server. A new connection for each of them would take all that
//! the server has. So its connection stays, and is the only one of its kind until the statement has ended.

pub(crate) mod address;
mod connected;
mod late;
pub(crate) mod password;
pub(crate) mod tls;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Row};

use super::error::{Trouble, is_demoted};
use crate::StoreUnavailable;
use address::{Security, host_and_port};
use connected::{Connected, NoConnection, connect_to};
use late::Late;
use password::PasswordSource;

/// A parameter of a statement, with its type: such a statement needs no name and no round trip of its own.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// The servers that may be connected to, and how.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) configs: Vec<Config>,
    pub(crate) security: Security,
    pub(crate) password: Option<PasswordSource>,
    /// Held by the one connection beside those for work: it looks whether a late statement has ended.
    pub(crate) looking: Arc<Mutex<()>>,
}

/// So many slots are loaded at once, each over a connection of its own: one that takes long holds up no
/// other.
const LOADS: usize = 2;

/// The connections of a store, or of all lives of a node: one for each kind of work.
pub(crate) struct Connections {
    pub(crate) place: Box<str>,
    pub(crate) commits: Mutex<LazyConnection>,
    /// For what a slot has, which may take long.
    pub(crate) loads: [Mutex<LazyConnection>; LOADS],
    /// For the history, which nothing else is to wait for.
    pub(crate) histories: Mutex<LazyConnection>,
    /// For all else.
    pub(crate) looks: Mutex<LazyConnection>,
}

impl Connections {
    /// So many there are at most at once: those for work, and the one that looks for a late statement.
    pub(crate) const MOST: i32 = 4 + LOADS as i32;

    pub(crate) fn new(servers: &Servers, place: Box<str>) -> Self {
        let another = || Mutex::new(LazyConnection::new(servers.clone(), place.clone()));
        let (commits, histories, looks) = (another(), another(), another());
        let loads = std::array::from_fn(|_| another());
        Self { place, commits, loads, histories, looks }
    }

    /// Goes on at the server of the connection for looks.
    pub(crate) async fn follow_looks(&self) {
        let next = self.looks.lock().await.next;
        for other in [&self.commits, &self.histories].into_iter().chain(&self.loads) {
            other.lock().await.go_to(next);
        }
    }

    pub(crate) async fn hang_up(&self) {
        for each in [&self.commits, &self.histories, &self.looks].into_iter().chain(&self.loads) {
            let mut each = each.lock().await;
            (each.connected, each.late) = (None, None);
        }
    }
}

/// A connection, or none at the moment. There is never a second one, but for one that looks whether a late
/// statement has ended.
pub(crate) struct LazyConnection {
    servers: Servers,
    /// The place of the server that is tried next, or connected to.
    next: usize,
    place: Box<str>,
    connected: Option<Connected>,
    /// The connection of a statement that was given up; then no other one is there.
    late: Option<Late>,
}

impl LazyConnection {
    pub(crate) fn new(servers: Servers, place: Box<str>) -> Self {
        Self { servers, next: 0, place, connected: None, late: None }
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
        let why_not = match self.connected(limit).await {
            Ok(connected) => connected.fault.clone(),
            Err(NoConnection { why, .. }) => Some(why),
        };
        let (None, Some(connected)) = (&why_not, &mut self.connected) else {
            if self.connected.is_some() {
                self.leave_server();
            }
            let (place, why) = (self.place.clone(), why_not.unwrap_or_default());
            return Err(Trouble::Undone(StoreUnavailable::Away { place, why }));
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
                if error.as_db_error().is_none() {
                    // It broke off, and the server may go on with the statement.
                    self.give_up();
                } else if is_of_server || is_demoted(&error) {
                    self.leave_server();
                }
                Err(trouble)
            }
            Err(_) => {
                // It may wait for a standby that has become the one that can be written.
                self.give_up();
                Err(Trouble::Unknown(format!("no answer within {} ms", limit.as_millis()).into()))
            }
        }
    }

    /// The client of the connection, which is made if there is none; else why it could not be. Faults of the
    /// server's settings are left to the caller.
    pub(crate) async fn client(&mut self, limit: Duration) -> Result<&mut Client, NoConnection> {
        self.connected(limit).await.map(|connected| &mut connected.client)
    }

    /// How many servers there are.
    pub(crate) fn servers(&self) -> usize {
        self.servers.configs.len()
    }

    /// Ends the connection, whose statements are answered; the next one is to the next server.
    pub(crate) fn leave_server(&mut self) {
        self.connected = None;
        self.next = (self.next + 1) % self.servers.configs.len();
    }

    /// Gives up the statement under way. Its connection is [`Late`]; the next one is to the next server.
    pub(crate) fn give_up(&mut self) {
        if let Some(connected) = self.connected.take() {
            self.late = Some(Late::of(connected));
        }
        self.next = (self.next + 1) % self.servers.configs.len();
    }

    /// Goes on at the server at that place.
    fn go_to(&mut self, next: usize) {
        if self.next != next {
            // A caller that has given up may have left a statement under way.
            self.give_up();
            self.next = next;
        }
    }

    async fn connected(&mut self, limit: Duration) -> Result<&mut Connected, NoConnection> {
        let connected = match self.connected.take().filter(|connected| !connected.client.is_closed()) {
            Some(connected) => connected,
            None => self.reconnect(Instant::now() + limit).await?,
        };
        Ok(self.connected.insert(connected))
    }

    /// Waits for the late statement, if there is one: until it is answered, or a server says that it does not
    /// run it. That is looked at over a connection which takes its place then, and ends otherwise.
    async fn reconnect(&mut self, end: Instant) -> Result<Connected, NoConnection> {
        let (servers, next) = (&self.servers, &mut self.next);
        while let Some(late) = &mut self.late {
            let (backend, next_look) = (late.backend.clone(), late.next_look);
            let look = async {
                sleep_until(next_look).await;
                let _alone = servers.looking.lock().await;
                connect(servers, next, end, Some(&backend)).await
            };
            tokio::select! {
                biased;
                answered = late.answer() => {
                    self.late = None;
                    if answered.server == *next {
                        return Ok(answered);
                    }
                }
                looked = timeout_at(end, look) => match looked {
                    Ok(Ok(other)) if late.has_ended(&other) => {
                        self.late = None;
                        return Ok(other);
                    }
                    Ok(Ok(other)) => late.still_runs(other.runs.as_deref()),
                    Ok(Err(none)) if late.is_cut_off() => return Err(none),
                    Ok(Err(none)) => late.still_runs(Some(&format!("is not answered, and {}", none.why))),
                    Err(_) => return Err(NoConnection { why: late.said(), lasts: false }),
                },
            }
        }
        connect(servers, next, end, None).await
    }
}

/// Tries the servers in turn, beginning with the one that did last. One that does not answer uses up its
/// share of the time, and no more.
async fn connect(
    servers: &Servers,
    next: &mut usize,
    end: Instant,
    late: Option<&str>,
) -> Result<Connected, NoConnection> {
    let count = servers.configs.len();
    let (mut whys, mut lasts) = (Vec::new(), true);
    for left in (1..=count).rev() {
        let share = end.saturating_duration_since(Instant::now()) / left as u32;
        let config = &servers.configs[*next];
        let none = match timeout(share, connect_to(*next, servers, share, late)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(none)) => none,
            Err(_) => {
                let why = format!("no connection within {} ms", share.as_millis()).into();
                NoConnection { why, lasts: false }
            }
        };
        lasts &= none.lasts;
        let NoConnection { why, .. } = none;
        whys.push(if count == 1 { why } else { format!("{}: {why}", host_and_port(config)).into() });
        *next = (*next + 1) % count;
    }
    Err(NoConnection { why: whys.join("; ").into(), lasts })
}
