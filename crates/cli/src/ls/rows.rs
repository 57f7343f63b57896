//! The rows of `lockhouse ls`, as JSON and as a table.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::SystemTime;

use lockhouse::{LockInfo, LockState, Mode, NameBuf, Snapshot};
use lockhouse_wire as wire;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::common::duration;
use crate::common::print::{self, visible};

/// A lock or request, with exactly these keys in this order.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) bucket: String,
    pub(super) name: Box<RawValue>,
    pub(super) mode: Cow<'static, str>,
    pub(super) kind: Cow<'static, str>,
    pub(super) state: Cow<'static, str>,
    pub(super) client_id: String,
    pub(super) owner: Option<String>,
    pub(super) since: String,
    pub(super) expires_at: Option<String>,
    pub(super) place: Option<u32>,
    pub(super) fencing_token: Option<u64>,
    pub(super) metadata: Option<String>,
    /// What `name` stands for.
    #[serde(skip)]
    pub(super) resource: NameBuf,
    /// What `since` stands for.
    #[serde(skip)]
    pub(super) began: SystemTime,
}

impl PartialEq for Row {
    /// Compares without the instants, which the server reports with a tick's exactness only.
    fn eq(&self, other: &Self) -> bool {
        self.resource == other.resource && self.key() == other.key()
    }
}

impl Row {
    fn new(bucket: &str, info: LockInfo) -> Self {
        let (state, place) = match info.state {
            LockState::Held(_) => ("held", None),
            LockState::Pending { place } => ("pending", Some(place)),
        };
        let instant = |at| humantime::format_rfc3339_millis(at).to_string();
        Self {
            bucket: bucket.to_owned(),
            name: RawValue::from_string(wire::name_to_json(info.name.as_name()))
                .expect("the protocol's encoder writes JSON"),
            mode: match info.mode {
                Mode::Exclusive => "exclusive",
                Mode::Shared => "shared",
            }
            .into(),
            kind: info.kind.word().into(),
            state: state.into(),
            owner: info.kind.owner(),
            since: instant(info.since),
            expires_at: info.expires_at.map(instant),
            place,
            fencing_token: info.fencing_token().map(lockhouse::FencingToken::get),
            client_id: info.client_id,
            metadata: info.metadata,
            began: info.since,
            resource: info.name,
        }
    }

    /// The client that asks, and its mode.
    fn asker(&self) -> (&str, &str) {
        (&self.client_id, &self.mode)
    }

    /// The values in which the rows of one name differ.
    fn key(&self) -> (&str, &str, Option<u32>, Option<u64>) {
        (&self.client_id, &self.mode, self.place, self.fencing_token)
    }
}

/// By name, the held ones first, then by place.
pub(super) fn rows(bucket: &str, snapshot: Snapshot) -> Vec<Row> {
    let infos = snapshot.held.into_iter().chain(snapshot.pending);
    let mut rows: Vec<Row> = infos.map(|info| Row::new(bucket, info)).collect();
    rows.sort_by(|a, b| {
        (&a.resource, a.place, a.fencing_token).cmp(&(&b.resource, b.place, b.fencing_token))
    });
    rows
}

/// The rows that are new or different in `now`, and the rows of `before` that have ended.
pub(super) fn changes(before: &[Row], now: &[Row]) -> Vec<Row> {
    let mut names: BTreeMap<&NameBuf, (Vec<&Row>, Vec<&Row>)> = BTreeMap::new();
    before.iter().for_each(|row| names.entry(&row.resource).or_default().0.push(row));
    now.iter().for_each(|row| names.entry(&row.resource).or_default().1.push(row));
    names.values().flat_map(|(before, now)| changes_of_name(before, now)).collect()
}

fn changes_of_name(before: &[&Row], now: &[&Row]) -> Vec<Row> {
    let [known, alive] = [before, now].map(|rows| rows.iter().map(|row| row.key()).collect::<HashSet<_>>());
    let new: Vec<&Row> = now.iter().filter(|row| !known.contains(&row.key())).copied().collect();
    // A request that waited may be any new one of its client in its mode; one that was held would still have
    // its token.
    let mut unclaimed: HashMap<(&str, &str), usize> = HashMap::new();
    new.iter().for_each(|row| *unclaimed.entry(row.asker()).or_default() += 1);
    let mut changes = Vec::new();
    for row in before.iter().filter(|row| !alive.contains(&row.key())) {
        match unclaimed.get_mut(&row.asker()) {
            Some(left @ 1..) if row.fencing_token.is_none() => *left -= 1,
            _ => changes.push(Row { state: "ended".into(), place: None, ..(*row).clone() }),
        }
    }
    changes.extend(new.into_iter().cloned());
    changes
}

pub(super) fn json(row: &Row) -> String {
    serde_json::to_string(row).expect("a row has nothing that JSON cannot hold")
}

pub(super) fn json_array(rows: &[Row]) -> String {
    format!("[{}]", rows.iter().map(json).collect::<Vec<_>>().join(","))
}

/// Lines with aligned columns; that line, if there are no rows.
pub(super) fn table(rows: &[Row], empty: String) -> Vec<String> {
    if rows.is_empty() {
        return vec![empty];
    }
    let now = SystemTime::now();
    let cells = rows.iter().map(|row| {
        [
            visible(&row.resource.as_name().display()),
            row.kind.to_string(),
            row.mode.to_string(),
            row.place.map_or_else(|| row.state.to_string(), |place| format!("waits #{place}")),
            visible(&row.client_id),
            duration::age(now.duration_since(row.began).unwrap_or_default()),
            row.fencing_token.map_or_else(|| "-".to_owned(), |token| token.to_string()),
            row.metadata.as_deref().map_or_else(|| "-".to_owned(), visible),
        ]
    });
    print::table(["NAME", "KIND", "MODE", "STATE", "CLIENT", "AGE", "TOKEN", "METADATA"], cells)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn row(client_id: String, place: u32) -> Row {
        let info = LockInfo {
            request: None,
            kind: lockhouse::HolderKind::Web,
            name: NameBuf::new("n").unwrap(),
            mode: Mode::Exclusive,
            client_id,
            state: LockState::Pending { place },
            since: SystemTime::UNIX_EPOCH,
            expires_at: None,
            metadata: None,
        };
        Row::new("default", info)
    }

    fn reported(before: &[Row], now: &[Row]) -> Vec<(String, String, Option<u32>)> {
        changes(before, now)
            .into_iter()
            .map(|row| (row.state.into_owned(), row.client_id, row.place))
            .collect()
    }

    #[test]
    fn one_of_two_requests_of_a_client_that_ends_is_reported_once() {
        let before = [row("a".into(), 1), row("a".into(), 2), row("b".into(), 3)];
        let now = [row("a".into(), 1), row("b".into(), 2)];
        let expected =
            [("ended".to_owned(), "a".to_owned(), None), ("pending".to_owned(), "b".to_owned(), Some(2))];
        assert_eq!(reported(&before, &now), expected);
    }

    #[test]
    fn a_long_queue_that_moves_up_is_compared_in_a_moment() {
        let queue = |first: u32| -> Vec<Row> {
            (first..30_000).map(|client| row(format!("client {client}"), client - first + 1)).collect()
        };
        let (before, now) = (queue(0), queue(1));
        let begin = Instant::now();
        let reported = reported(&before, &now);
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert_eq!(reported[0], ("ended".to_owned(), "client 0".to_owned(), None));
        assert_eq!(reported.len(), 30_000);
    }
}
