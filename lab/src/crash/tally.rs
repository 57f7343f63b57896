//! The counts of a run, from the lines of its history: whether a kill counts, and whether all of it was
//! enough to prove something.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

/// A kill counts only if something durable was acknowledged within this time before it.
const RECENT_NS: u64 = 100_000_000;

#[derive(Debug, Default)]
pub(crate) struct RunTally {
    /// Durable calls that were not answered yet: when each was made.
    open: HashMap<(String, u64), u64>,
    /// Calls that were answered, by what they do.
    doing: HashMap<(String, u64), Doing>,
    kill: Option<Kill>,
    /// Instants of kill and restart.
    lives: Vec<(u64, u64)>,
    recent: Vec<u64>,
    /// By bucket and name: who released it last, and when.
    released: HashMap<(String, String), (String, u64)>,
    pub(crate) counts: Counts,
}

/// The kill that is being looked at.
#[derive(Clone, Copy, Debug)]
struct Kill {
    at: u64,
    /// Calls that were answered after it, and made before.
    in_flight: usize,
}

/// The work that a kill interrupted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub(crate) acknowledged: usize,
    pub(crate) in_flight: usize,
}

/// The counts of the whole run.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    /// Successes, by client.
    pub(crate) done_by: BTreeMap<String, usize>,
    /// Successes, by call.
    pub(crate) done: BTreeMap<String, usize>,
    /// Refusals, by call and reason.
    pub(crate) refused: BTreeMap<String, usize>,
    /// Calls without a known outcome.
    pub(crate) unknown: usize,
    /// Web locks that were lost.
    pub(crate) lost: usize,
    /// The lost web locks that count as held only until their client paused.
    pub(crate) excused: usize,
    /// Web locks that were granted before a kill, and held by the same client after the restart.
    pub(crate) reclaimed: usize,
    /// Web locks that were released by a client while the one that was granted them next waited.
    pub(crate) hand_offs: usize,
    /// The buckets that were used.
    #[serde(skip)]
    pub(crate) buckets: BTreeSet<String>,
    /// Backups that were restored.
    pub(crate) restored: usize,
    /// Calls of the disk that failed and left an outcome unknown, by what they were.
    pub(crate) disk_failures: BTreeMap<&'static str, usize>,
}

#[derive(Debug)]
struct Doing {
    what: String,
    at: u64,
    /// The request that a release is about.
    of: Option<u64>,
    /// Of a request: bucket and name.
    place: Option<(String, String)>,
}

/// The fields of a line that matter here.
#[derive(Deserialize)]
struct Line {
    event: String,
    at: u64,
    #[serde(default)]
    client: String,
    #[serde(default)]
    op: u64,
    #[serde(rename = "do")]
    call: Option<String>,
    bucket: Option<String>,
    name: Option<String>,
    of: Option<u64>,
    deadline: Option<u64>,
    outcome: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    durable: bool,
}

impl RunTally {
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let line: Line = serde_json::from_slice(line)
            .map_err(|error| format!("{:?}: {error}", String::from_utf8_lossy(line)))?;
        match line.event.as_str() {
            "invoke" => self.invoked(line),
            "answer" => self.answered(&line),
            "lost" => {
                self.counts.lost += 1;
                self.counts.excused += usize::from(line.deadline.is_some());
            }
            "restored" => self.counts.restored += 1,
            "clientKilled" => self.forget(&line.client),
            _ => {}
        }
        Ok(())
    }

    fn invoked(&mut self, line: Line) {
        let key = (line.client, line.op);
        let what = line.call.unwrap_or_default();
        if !matches!(what.as_str(), "request" | "release" | "pass" | "look") {
            self.open.insert(key.clone(), line.at);
        }
        if let Some(bucket) = line.bucket.as_ref().filter(|bucket| !self.counts.buckets.contains(*bucket)) {
            self.counts.buckets.insert(bucket.clone());
        }
        let held = line.of.and_then(|of| self.doing.get(&(key.0.clone(), of)));
        if let Some(place) = held.and_then(|held| held.place.clone()).filter(|_| what == "release") {
            self.released.insert(place, (key.0.clone(), line.at));
        }
        let place = line.bucket.zip(line.name).filter(|_| what == "request");
        let of = line.of.filter(|_| what == "release");
        self.doing.insert(key, Doing { what, at: line.at, of, place });
    }

    fn answered(&mut self, line: &Line) {
        let key = (line.client.clone(), line.op);
        if let Some(invoked) = self.open.remove(&key)
            && let Some(kill) = &mut self.kill
        {
            kill.in_flight += usize::from(invoked < kill.at && line.at > kill.at);
        }
        let Some(doing) = self.doing.get_mut(&key) else { return };
        let what = doing.what.clone();
        match (line.outcome.as_deref(), &line.reason) {
            (Some("ok"), _) => {
                *self.counts.done.entry(what.clone()).or_default() += 1;
                *self.counts.done_by.entry(line.client.clone()).or_default() += 1;
                if line.durable && what != "look" {
                    self.recent.push(line.at);
                }
            }
            (Some("refused"), Some(reason)) => {
                *self.counts.refused.entry(format!("{what}: {reason}")).or_default() += 1;
            }
            _ => self.counts.unknown += 1,
        }
        self.settle(&key, line, &what);
    }

    /// Keeps of an answered call only what a later one refers to.
    fn settle(&mut self, key: &(String, u64), line: &Line, what: &str) {
        let granted = line.outcome.as_deref() == Some("ok");
        if what == "request" && granted {
            let doing = self.doing.get(key);
            let before = doing.and_then(|doing| self.released.get(doing.place.as_ref()?));
            if let Some((client, released)) = before
                && *client != key.0
                && doing.is_some_and(|doing| doing.at < *released)
            {
                self.counts.hand_offs += 1;
            }
            if let Some(doing) = self.doing.get_mut(key) {
                doing.at = line.at;
            }
            return;
        }
        let Some(doing) = self.doing.remove(key) else { return };
        let Some(request) = doing.of.and_then(|of| self.doing.remove(&(line.client.clone(), of))) else {
            return;
        };
        let over_a_restart = |(kill, start): &(u64, u64)| request.at < *kill && *start < doing.at;
        if granted && self.lives.iter().rev().take(8).any(over_a_restart) {
            self.counts.reclaimed += 1;
        }
    }

    fn forget(&mut self, client: &str) {
        self.open.retain(|(of, _), _| of != client);
        self.doing.retain(|(of, _), _| of != client);
    }

    /// The server is killed now.
    pub(crate) fn killed(&mut self, at: u64) {
        self.kill = Some(Kill { at, in_flight: 0 });
    }

    /// The server runs again.
    pub(crate) fn started(&mut self, at: u64) {
        if let Some(kill) = self.kill {
            self.lives.push((kill.at, at));
        }
    }

    /// The work that the last kill interrupted, once the lines of that time have come.
    pub(crate) fn met(&mut self) -> Option<Met> {
        let kill = self.kill.take()?;
        let recent = |at: &&u64| **at <= kill.at && **at + RECENT_NS >= kill.at;
        let acknowledged = self.recent.iter().filter(recent).count();
        let open = self.open.values().filter(|invoked| **invoked < kill.at).count();
        self.recent.retain(|at| *at > kill.at);
        Some(Met { acknowledged, in_flight: kill.in_flight + open })
    }
}

impl Met {
    pub(crate) fn counts(self) -> bool {
        self.acknowledged > 0 && self.in_flight > 0
    }
}

impl Counts {
    pub(crate) fn sum(&self, calls: &[&str]) -> usize {
        calls.iter().filter_map(|call| self.done.get(*call)).sum()
    }

    /// All calls.
    pub(crate) fn operations(&self) -> usize {
        self.done.values().chain(self.refused.values()).sum::<usize>() + self.unknown
    }

    pub(crate) fn disk_failures(&self) -> usize {
        self.disk_failures.values().sum()
    }

    pub(crate) fn refusals(&self, reason: &str) -> usize {
        let ends = |call: &&String| call.rsplit(": ").next() == Some(reason);
        self.refused.iter().filter(|(call, _)| ends(call)).map(|(_, count)| count).sum()
    }
}
