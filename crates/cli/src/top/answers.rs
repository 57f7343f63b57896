//! The answers that `top` shows.

use std::time::SystemTime;

use lockhouse_wire::name_from_json;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::common::print::visible;

/// A count for each discipline.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Counts {
    pub(super) web: u64,
    pub(super) offline: u64,
    pub(super) claim: u64,
}

/// What there is in a bucket, and what has happened there.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overview {
    at: String,
    pub(super) held: Counts,
    pub(super) waiting: u64,
    pub(super) assigned: u64,
    pub(super) owners: u64,
    pub(super) agents: u64,
    pub(super) longest_wait: Option<Entry>,
    pub(super) contended: Vec<Contended>,
    /// For how long, at most, holders from before a restart are waited for; none of a server that does not
    /// say.
    #[serde(default)]
    pub(super) recovering_ms: u64,
    /// None from a server that counts nothing.
    pub(super) totals: Option<Totals>,
    pub(super) waits: Option<Times>,
}

/// A name for which requests wait.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Contended {
    name: Box<RawValue>,
    pub(super) waiting: u64,
}

/// What has happened since the server began to count.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Totals {
    pub(super) since: String,
    pub(super) granted: Counts,
    pub(super) refused: std::collections::BTreeMap<String, u64>,
    pub(super) lost: std::collections::BTreeMap<String, u64>,
}

/// How long requests have waited.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Times {
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

/// A page of the list.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
}

/// A lock, a request, a claim or an assignment.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// As JSON: a resource name need not be Unicode.
    pub(super) name: Box<RawValue>,
    pub(super) mode: String,
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) client_id: String,
    pub(super) owner: Option<String>,
    pub(super) since: String,
    pub(super) expires_at: Option<String>,
    pub(super) place: Option<u64>,
    pub(super) fencing_token: Option<u64>,
    pub(super) metadata: Option<String>,
}

/// What became of a break.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Broken {
    broken: Vec<IgnoredAny>,
}

impl Overview {
    /// The server's clock when it looked.
    pub(super) fn at(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(&self.at).ok()
    }
}

impl Counts {
    pub(super) fn sum(self) -> u64 {
        self.web + self.offline + self.claim
    }
}

impl Contended {
    pub(super) fn name(&self) -> String {
        shown(&self.name)
    }
}

impl Entry {
    pub(super) fn name(&self) -> String {
        shown(&self.name)
    }

    pub(super) fn since(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(&self.since).ok()
    }

    /// Whether an operator may break it.
    pub(super) fn is_held(&self) -> bool {
        self.state == "held" && self.fencing_token.is_some()
    }

    /// Whether it is the same one, however its place has changed.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let of = |entry: &Self| (entry.fencing_token, entry.kind.clone(), entry.client_id.clone());
        self.name.get() == other.name.get()
            && of(self) == of(other)
            && (self.fencing_token.is_some() || self.since == other.since)
    }
}

impl Broken {
    /// Whether the hold was still there.
    pub(super) fn was_held(&self) -> bool {
        !self.broken.is_empty()
    }
}

/// A name as people read it.
fn shown(name: &RawValue) -> String {
    match name_from_json(name.get()) {
        Ok(name) => visible(&name.as_name().display()),
        Err(_) => visible(name.get()),
    }
}
