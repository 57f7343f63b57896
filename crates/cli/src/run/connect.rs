//! The connection of a command, which may have to be waited for.

use std::cell::Cell;
use std::fmt::Display;
use std::time::Duration;

use lockhouse::remote::{ConnectError, Connection};
use tokio::time::{Instant, sleep, timeout_at};

use super::Run;
use crate::exit::{Failure, UNREACHABLE, complain};

/// The pauses between two attempts, which double.
pub(super) struct Pauses(Duration);

impl Pauses {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(2);

    pub(super) fn new() -> Self {
        Self(Self::FIRST)
    }

    /// Waits after an attempt that failed, and says so the first time.
    pub(super) async fn wait(&mut self, error: &impl Display) {
        if self.0 == Self::FIRST {
            complain(format_args!("{error}; waiting for it"));
        }
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(Self::LONGEST);
    }
}

impl Run {
    /// Connects before the deadline.
    pub(super) async fn connect(&self, deadline: Option<Instant>) -> Result<Connection, Failure> {
        let waits_for = Cell::new(None);
        let connecting = self.keep_connecting(&waits_for);
        let Some(deadline) = deadline else { return connecting.await };
        if let Ok(connected) = timeout_at(deadline, connecting).await {
            return connected;
        }
        match waits_for.take() {
            Some(error) => Err(self.target.failure(error)),
            None => {
                let urls = self.target.urls.join(" or ");
                let why = format_args!("cannot reach {urls}: no answer before the timeout");
                Err(Failure::new(UNREACHABLE, why))
            }
        }
    }

    /// Connects once, or until it succeeds. What a server that was reached has said last is left in
    /// `waits_for`.
    async fn keep_connecting(&self, waits_for: &Cell<Option<ConnectError>>) -> Result<Connection, Failure> {
        let mut pauses = Pauses::new();
        loop {
            let error = match self.target.try_connect().await {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if !(self.wait_for_server && may_come(&error)) {
                return Err(self.target.failure(error));
            }
            let is_said = matches!(error, ConnectError::Full { .. } | ConnectError::Refused { .. });
            let what = error.to_string();
            waits_for.set(is_said.then_some(error));
            pauses.wait(&what).await;
        }
    }
}

/// Whether a server may be there later, without anything being changed here.
fn may_come(error: &ConnectError) -> bool {
    match error {
        ConnectError::Unreachable { .. }
        | ConnectError::TimedOut { .. }
        | ConnectError::Stopping { .. }
        | ConnectError::Moving { .. }
        | ConnectError::Full { .. } => true,
        // A proxy whose server is away, or a server that has as many connections as it may.
        ConnectError::Refused { status, .. } => matches!(status, 429 | 502..=504),
        _ => false,
    }
}
