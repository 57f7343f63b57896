//! The line on the terminal that shows what a waiting command waits for.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use lockhouse::remote::{Connection, ConnectionState, Watch};
use lockhouse::{LockInfo, LockState, NameBuf, RequestError, Snapshot};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cli::common::duration;

/// A wait that is shorter than this is not worth a line.
const GRACE: Duration = Duration::from_millis(300);
/// The interval at which the ages are shown anew.
const REFRESH: Duration = Duration::from_secs(1);

/// One line, rewritten in place as things change, and erased at the end. Without a terminal there is none.
pub(super) struct QueueLine<'a> {
    terminal: Option<Terminal<'a>>,
}

struct Terminal<'a> {
    connection: &'a Connection,
    name: &'a NameBuf,
    label: &'a str,
    begin: Instant,
    state: watch::Receiver<ConnectionState>,
    watch: Option<Watch>,
    latest: Option<Snapshot>,
    /// Why the server cannot say who holds it.
    trouble: Option<RequestError>,
}

impl<'a> QueueLine<'a> {
    pub(super) fn new(connection: &'a Connection, name: &'a NameBuf, label: &'a str) -> Self {
        let terminal = io::stderr().is_terminal().then(|| Terminal {
            connection,
            name,
            label,
            begin: Instant::now() + GRACE,
            state: connection.state(),
            watch: None,
            latest: None,
            trouble: None,
        });
        Self { terminal }
    }

    /// Keeps the line right until the next change.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn keep(&mut self) {
        match &mut self.terminal {
            Some(terminal) => terminal.keep().await,
            None => std::future::pending().await,
        }
    }
}

impl Terminal<'_> {
    async fn keep(&mut self) {
        let watch = match &mut self.watch {
            Some(watch) => watch,
            none => {
                sleep_until(self.begin).await;
                none.insert(self.connection.watch(Some(self.name)))
            }
        };
        tokio::select! {
            Ok(snapshot) = watch.next() => (self.latest, self.trouble) = (Some(snapshot), None),
            Ok(()) = self.state.changed() => {}
            // A watch is silent while the server cannot answer; a question is not.
            answer = ask_later(self.connection, self.name) => self.trouble = answer.err(),
        }
        self.write();
    }

    fn write(&self) {
        let name = self.name.as_name().display();
        let situation = match (&self.latest, *self.state.borrow()) {
            (_, ConnectionState::Lost) => "the connection is lost; connecting again".to_owned(),
            _ if let Some(trouble) = &self.trouble => trouble.to_string(),
            (Some(snapshot), _) => situation(snapshot, self.label, SystemTime::now()),
            (None, _) => return,
        };
        rewrite(&format!("lockhouse: waiting for {name:?}: {situation}"));
    }
}

async fn ask_later(connection: &Connection, name: &NameBuf) -> Result<Snapshot, RequestError> {
    sleep(REFRESH).await;
    connection.query(Some(name)).await
}

impl Drop for QueueLine<'_> {
    fn drop(&mut self) {
        if self.terminal.as_ref().is_some_and(|terminal| terminal.watch.is_some()) {
            rewrite("");
        }
    }
}

fn rewrite(line: &str) {
    let mut err = io::stderr().lock();
    // Without a terminal there is no reader.
    _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
}

/// The holder of the lock, and the place of this command in the queue.
fn situation(snapshot: &Snapshot, label: &str, now: SystemTime) -> String {
    let queued = snapshot.pending.len();
    let holders = match &*snapshot.held {
        [] => "nobody holds it".to_owned(),
        [first] => format!("held by {}", holder(first, now)),
        [first, more @ ..] => format!("held by {} and {} more", holder(first, now), more.len()),
    };
    let mut ours = snapshot.pending.iter().filter(|entry| entry.client_id == label);
    match (ours.next().map(|entry| entry.state), ours.next()) {
        (Some(LockState::Pending { place }), None) => format!("{holders}; place {place} of {queued}"),
        // With a label that several use there is no telling which of them is this one.
        _ => format!("{holders}; {queued} waiting"),
    }
}

fn holder(entry: &LockInfo, now: SystemTime) -> String {
    let age = duration::age(now.duration_since(entry.since).unwrap_or_default());
    format!("{:?} for {age}", entry.client_id)
}

#[cfg(test)]
mod tests {
    use lockhouse::{FencingToken, Mode};

    use super::*;

    fn entry(client_id: &str, state: LockState) -> LockInfo {
        LockInfo {
            kind: lockhouse::HolderKind::Web,

            name: NameBuf::new("n").unwrap(),
            mode: Mode::Exclusive,
            client_id: client_id.to_owned(),
            state,
            since: SystemTime::UNIX_EPOCH,
            expires_at: None,
            metadata: None,
        }
    }

    #[test]
    fn the_line_shows_the_holder_and_the_place_in_the_queue() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(75);
        let held = vec![entry("ann", LockState::Held(FencingToken::new(1)))];
        let pending =
            vec![entry("bob", LockState::Pending { place: 1 }), entry("me", LockState::Pending { place: 2 })];
        let mut snapshot = Snapshot { held, pending };
        assert_eq!(situation(&snapshot, "me", now), "held by \"ann\" for 1m; place 2 of 2");
        assert_eq!(situation(&snapshot, "not listed yet", now), "held by \"ann\" for 1m; 2 waiting");
        snapshot.pending.push(entry("me", LockState::Pending { place: 3 }));
        assert_eq!(situation(&snapshot, "me", now), "held by \"ann\" for 1m; 3 waiting");
        snapshot.held.push(entry("eve", LockState::Held(FencingToken::new(2))));
        assert_eq!(situation(&snapshot, "bob", now), "held by \"ann\" for 1m and 1 more; place 1 of 3");
    }
}
