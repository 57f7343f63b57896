//! The line that shows what a waiting command waits for.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use lockhouse::remote::{Connection, ConnectionState, Watch};
use lockhouse::{LockInfo, LockState, NameBuf, RequestError, Snapshot};
use rustix::termios::tcgetwinsize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::common::duration;
use crate::exit::complain;

/// A wait that is shorter than this is not worth a line on a terminal.
const GRACE: Duration = Duration::from_millis(300);
/// A wait that is shorter than this is not worth a line that stays.
const LOG_GRACE: Duration = Duration::from_secs(1);
/// The interval at which the ages are shown anew.
const REFRESH: Duration = Duration::from_secs(1);

/// On a terminal one line, rewritten in place as things change, and erased at the end. Elsewhere a line that
/// is written once.
pub(super) struct QueueLine<'a> {
    connection: &'a Connection,
    name: &'a NameBuf,
    label: &'a str,
    begin: Instant,
    medium: Medium,
}

enum Medium {
    Terminal(Box<Terminal>),
    /// Whether the line has been written.
    Log(bool),
}

struct Terminal {
    state: watch::Receiver<ConnectionState>,
    watch: Option<Watch>,
    latest: Option<Snapshot>,
    /// Why the server cannot say who holds it.
    trouble: Option<RequestError>,
}

impl<'a> QueueLine<'a> {
    pub(super) fn new(connection: &'a Connection, name: &'a NameBuf, label: &'a str) -> Self {
        let (grace, medium) = if io::stderr().is_terminal() {
            let state = connection.state();
            let terminal = Terminal { state, watch: None, latest: None, trouble: None };
            (GRACE, Medium::Terminal(Box::new(terminal)))
        } else {
            (LOG_GRACE, Medium::Log(false))
        };
        Self { connection, name, label, begin: Instant::now() + grace, medium }
    }

    /// Keeps the line right until the next change.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn keep(&mut self) {
        sleep_until(self.begin).await;
        match &mut self.medium {
            Medium::Terminal(terminal) => {
                terminal.look(self.connection, self.name).await;
                if let Some(situation) = terminal.situation(self.label, self.connection.recovers_for()) {
                    rewrite(&line(self.name, &situation));
                }
            }
            Medium::Log(true) => std::future::pending().await,
            Medium::Log(is_written) => {
                let snapshot = self.connection.query(Some(self.name)).await;
                *is_written = true;
                let recovery = self.connection.recovers_for();
                let situation = match snapshot {
                    Ok(snapshot) => situation(&snapshot, self.label, SystemTime::now(), recovery),
                    Err(error) => error.to_string(),
                };
                complain(line(self.name, &situation));
            }
        }
    }
}

impl Terminal {
    /// Waits for the next change.
    async fn look(&mut self, connection: &Connection, name: &NameBuf) {
        let watch = self.watch.get_or_insert_with(|| connection.watch(Some(name)));
        tokio::select! {
            Ok(snapshot) = watch.next() => (self.latest, self.trouble) = (Some(snapshot), None),
            Ok(()) = self.state.changed() => {}
            // A watch is silent while the server cannot answer; a question is not.
            answer = ask_later(connection, name) => self.trouble = answer.err(),
        }
    }

    fn situation(&self, label: &str, recovery: Duration) -> Option<String> {
        match (&self.latest, *self.state.borrow()) {
            (_, ConnectionState::Lost) => Some("the connection is lost; connecting again".to_owned()),
            _ if let Some(trouble) = &self.trouble => Some(trouble.to_string()),
            (Some(snapshot), _) => Some(situation(snapshot, label, SystemTime::now(), recovery)),
            (None, _) => None,
        }
    }
}

fn line(name: &NameBuf, situation: &str) -> String {
    format!("waiting for {:?}: {situation}", name.as_name().display())
}

async fn ask_later(connection: &Connection, name: &NameBuf) -> Result<Snapshot, RequestError> {
    sleep(REFRESH).await;
    connection.query(Some(name)).await
}

impl Drop for QueueLine<'_> {
    fn drop(&mut self) {
        if let Medium::Terminal(terminal) = &self.medium
            && terminal.watch.is_some()
        {
            erase();
        }
    }
}

/// Writes the line in the place of the former one, of which no part must be on another line of the terminal.
fn rewrite(line: &str) {
    let columns = tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
    let line = cut(&format!("lockhouse: {line}"), columns);
    let mut err = io::stderr().lock();
    // Without a terminal there is no reader.
    _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
}

fn erase() {
    let mut err = io::stderr().lock();
    _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
}

/// As much of the line as the terminal has columns for. A terminal that knows no width, which says 0, has
/// enough.
fn cut(line: &str, columns: usize) -> String {
    // No character is wider than two columns, and none before the first script of wide ones wider than one.
    let width = |c: char| if c < '\u{1100}' { 1 } else { 2 };
    if columns == 0 || line.chars().map(width).sum::<usize>() <= columns {
        return line.to_owned();
    }
    let mut taken = 0;
    let shown = line.chars().take_while(|c| {
        taken += width(*c);
        taken < columns
    });
    shown.chain(['…']).collect()
}

/// The holder of the lock, and the place of this command in the queue. While the bucket recovers, a lock
/// without a holder may have one from before the restart that has not come back yet.
fn situation(snapshot: &Snapshot, label: &str, now: SystemTime, recovery: Duration) -> String {
    let queued = snapshot.pending.len();
    let holders = match &*snapshot.held {
        [] if !recovery.is_zero() => {
            let left = duration::whole_seconds(recovery);
            format!("the server has restarted, and waits up to {left} for holders from before")
        }
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
            request: None,
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
    fn a_line_is_cut_to_the_width_of_the_terminal() {
        assert_eq!(cut("waiting", 7), "waiting");
        assert_eq!(cut("waiting", 6), "waiti…");
        assert_eq!(cut("\u{4e00}\u{4e00}\u{4e00}", 5), "\u{4e00}\u{4e00}…");
        assert_eq!(cut("\u{4e00}\u{4e00}\u{4e00}", 4), "\u{4e00}…");
        assert_eq!(cut("waiting", 0), "waiting");
    }

    #[test]
    fn the_line_shows_the_holder_and_the_place_in_the_queue() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(75);
        let held = vec![entry("ann", LockState::Held(FencingToken::new(1)))];
        let pending =
            vec![entry("bob", LockState::Pending { place: 1 }), entry("me", LockState::Pending { place: 2 })];
        let mut snapshot = Snapshot { held, pending };
        let shown = |snapshot: &Snapshot, label: &str| situation(snapshot, label, now, Duration::ZERO);
        assert_eq!(shown(&snapshot, "me"), "held by \"ann\" for 1m; place 2 of 2");
        assert_eq!(shown(&snapshot, "not listed yet"), "held by \"ann\" for 1m; 2 waiting");
        snapshot.pending.push(entry("me", LockState::Pending { place: 3 }));
        assert_eq!(shown(&snapshot, "me"), "held by \"ann\" for 1m; 3 waiting");
        snapshot.held.push(entry("eve", LockState::Held(FencingToken::new(2))));
        assert_eq!(shown(&snapshot, "bob"), "held by \"ann\" for 1m and 1 more; place 1 of 3");
    }

    #[test]
    fn while_the_bucket_recovers_the_line_says_whom_the_server_waits_for() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(75);
        let pending = vec![entry("me", LockState::Pending { place: 1 })];
        let mut snapshot = Snapshot { held: Vec::new(), pending };
        let shown = |snapshot: &Snapshot, ms| situation(snapshot, "me", now, Duration::from_millis(ms));
        let line = "the server has restarted, and waits up to 8 s for holders from before; place 1 of 1";
        assert_eq!(shown(&snapshot, 7_001), line);
        assert_eq!(shown(&snapshot, 0), "nobody holds it; place 1 of 1");
        snapshot.held.push(entry("ann", LockState::Held(FencingToken::new(1))));
        assert_eq!(shown(&snapshot, 7_001), "held by \"ann\" for 1m; place 1 of 1");
    }
}
