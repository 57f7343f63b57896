//! A statement that was given up, until the server runs it no more.

use std::future::pending;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connected::Connected;

/// The first pause between two looks at the server, and the longest one.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];

/// A connection with a statement that was given up. Its answer says only that it has ended.
#[derive(Debug)]
pub(super) struct Late {
    /// The process of the server that runs it.
    pub(super) backend: Box<str>,
    /// When the server is asked whether it still runs it.
    pub(super) next_look: Instant,
    pause: Duration,
    since: Instant,
    /// What it does.
    what: Box<str>,
    /// The task that waits for the answer; none once the connection has broken off before.
    answered: Option<JoinHandle<Option<Connected>>>,
}

impl Late {
    pub(super) fn of(connected: Connected) -> Self {
        let (backend, now) = (connected.backend.clone(), Instant::now());
        // It comes behind all answers that are under way.
        let answer = async move { connected.client.check_connection().await.ok().map(|()| connected) };
        let (answered, what) = (Some(tokio::spawn(answer)), "is not answered".into());
        Self { backend, next_look: now, pause: PAUSES[0], since: now, what, answered }
    }

    /// Waits for the answer: for ever if the connection breaks off, as the server may go on nevertheless.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn answer(&mut self) -> Connected {
        if let Some(task) = &mut self.answered {
            let answered = task.await;
            self.answered = None;
            if let Ok(Some(connected)) = answered {
                return connected;
            }
        }
        pending().await
    }

    /// Notes what a server has said that was asked, and still runs it.
    pub(super) fn still_runs(&mut self, what: Option<&str>) {
        let what = what.filter(|what| !what.is_empty());
        self.what = what.unwrap_or("has not come to its process").into();
        self.next_look = Instant::now() + self.pause;
        self.pause = PAUSES[1].min(self.pause * 2);
    }

    /// Whether the connection has broken off, so that no answer comes.
    pub(super) fn is_cut_off(&self) -> bool {
        self.answered.is_none()
    }

    /// Whether a server that was asked over another connection runs it no more, or never did.
    pub(super) fn has_ended(&self, asked: &Connected) -> bool {
        asked.runs.as_deref().is_none_or(|what| what.is_empty() && self.is_cut_off())
    }

    /// Why nothing is sent meanwhile.
    pub(super) fn said(&self) -> Box<str> {
        let (process, _) = self.backend.split_once(' ').unwrap_or_default();
        let Self { what, since, .. } = self;
        let seconds = since.elapsed().as_secs();
        format!("a statement that was given up {seconds} s ago {what}; its process is {process}").into()
    }
}

impl Drop for Late {
    /// With the task ends the connection.
    fn drop(&mut self) {
        self.answered.iter().for_each(JoinHandle::abort);
    }
}
