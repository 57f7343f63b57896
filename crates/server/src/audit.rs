//! The audit log: denials, and deeds that took something from others. The log adds the time itself; no secret
//! ever stands in it.
//!
//! A deed that was done is always logged. A client that is denied the same again and again is logged a few
//! times in a while, and at the end of the while the count beyond that: no client fills a disk with forbidden
//! requests.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use lockhouse::Name;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::access::Denied;
use crate::auth::Identity;
use crate::bounds::{AUDIT_LINES, AUDIT_NAME_CHARS, AUDIT_SERIES, AUDIT_WHILE};
use crate::limits::{ConnectionPermit, Limiter, Network, Refused};

/// The record of one deed.
pub(crate) struct AuditEvent<'a> {
    /// The client; none if the credential was not taken.
    pub(crate) who: Option<&'a Identity>,
    /// The deed, done or denied, such as `steal`, or the operation of the HTTP API.
    pub(crate) what: &'a str,
    /// The bucket.
    pub(crate) bucket: &'a str,
    /// The name or owner, if there is one.
    pub(crate) name: Option<&'a dyn fmt::Display>,
}

/// Notes a deed that was done, its origin and its reason, if known; `lost` is the number of holders that lost
/// the name, and who they are.
pub(crate) fn note(
    from: Option<Network>,
    event: &AuditEvent<'_>,
    lost: Option<(u64, &str)>,
    why: Option<&str>,
) {
    let AuditEvent { who, what, bucket, name } = event;
    let (tenant, key) = who.map_or(("", ""), |who| (&who.tenant, &who.name));
    let name = short(name.map(ToString::to_string).unwrap_or_default());
    let (from, lost, victims) =
        (DisplayNetwork(from), lost.map(|(count, _)| count), lost.map(|(_, victims)| victims));
    tracing::info!(target: "audit", tenant, key, %from, what, ?bucket, ?name, lost, why, victims, "done");
}

/// The denials of late.
#[derive(Debug)]
pub(crate) struct Audit {
    limiter: Arc<Limiter>,
    lately: Mutex<HashMap<Series, Lately>>,
}

/// Denials that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Series {
    Of {
        who: Who,
        what: String,
    },
    /// All clients beyond the bound.
    Others,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    Identity {
        tenant: String,
        key: String,
    },
    /// A credential that is not taken does not identify the client that shows it.
    From(Option<Network>),
}

#[derive(Debug)]
struct Lately {
    since: Instant,
    logged: u32,
    left_out: u64,
}

/// The time between two looks for counts to log.
const LOOK_EVERY: Duration = Duration::from_secs(10);

impl Audit {
    pub(crate) fn new(limiter: Arc<Limiter>) -> Self {
        Self { limiter, lately: Mutex::default() }
    }

    /// Notes a deed that was denied, unless the client was logged often enough. `from` is the network that
    /// the request came from, if known.
    pub(crate) fn deny(&self, from: Option<Network>, event: &AuditEvent<'_>, why: &dyn fmt::Display) {
        let AuditEvent { who, what, bucket, name } = event;
        if !self.is_logged(Series::new(*who, from, what)) {
            self.limiter.refuse(Refused::AuditLine);
            return;
        }
        let (tenant, key) = who.map_or(("", ""), |who| (&who.tenant, &who.name));
        let name = short(name.map(ToString::to_string).unwrap_or_default());
        let (bucket, from) = (short((*bucket).to_owned()), DisplayNetwork(from));
        let why = why.to_string();
        tracing::info!(target: "audit", tenant, key, %from, what, ?bucket, ?name, why, "denied");
    }

    /// Notes a request that is refused for the place that it comes from.
    pub(crate) fn deny_place(&self, request: &Request, denied: &Denied) {
        let header = denied.header();
        let given = request.headers().get(&header).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let name = given.as_ref().map(|given| given as &dyn fmt::Display);
        let from = request.extensions().get::<ConnectionPermit>().map(|permit| permit.from);
        self.deny(from, &AuditEvent { who: None, what: header.as_str(), bucket: "", name }, denied);
    }

    /// Counts the denial; returns whether it is logged as well.
    fn is_logged(&self, series: Series) -> bool {
        let now = Instant::now();
        let mut lately = self.lately.lock();
        let has_space = lately.len() < AUDIT_SERIES || lately.contains_key(&series);
        let series = if has_space { series } else { Series::Others };
        let begun = || Lately { since: now, logged: 0, left_out: 0 };
        let of = lately.entry(series.clone()).or_insert_with(begun);
        let is_over = now.duration_since(of.since) >= AUDIT_WHILE;
        let over = is_over.then(|| std::mem::replace(of, begun()));
        let is_logged = of.logged < AUDIT_LINES;
        if is_logged {
            of.logged += 1;
        } else {
            of.left_out += 1;
        }
        drop(lately);
        if let Some(over) = over {
            over.log(&series);
        }
        is_logged
    }

    /// Logs the count of denials that were not logged, once their while is over.
    pub(crate) async fn log_counts_in_time(&self) -> Infallible {
        loop {
            sleep(LOOK_EVERY).await;
            self.log_counts(AUDIT_WHILE);
        }
    }

    /// Logs the counts of all series that began so long ago, and forgets them.
    pub(crate) fn log_counts(&self, age: Duration) {
        let now = Instant::now();
        let is_over = |_: &Series, lately: &mut Lately| now.duration_since(lately.since) >= age;
        let over: Vec<_> = self.lately.lock().extract_if(is_over).collect();
        for (series, lately) in over {
            lately.log(&series);
        }
    }
}

impl Series {
    fn new(who: Option<&Identity>, from: Option<Network>, what: &str) -> Self {
        let who = match who {
            Some(who) => Who::Identity { tenant: who.tenant.clone(), key: who.name.clone() },
            None => Who::From(from),
        };
        Self::Of { who, what: what.to_owned() }
    }
}

impl Lately {
    fn log(&self, series: &Series) {
        let left_out = self.left_out;
        if left_out == 0 {
            return;
        }
        let (tenant, key, from, what) = match series {
            Series::Of { who: Who::Identity { tenant, key }, what } => {
                (&**tenant, &**key, DisplayNetwork(None), &**what)
            }
            Series::Of { who: Who::From(from), what } => ("", "", DisplayNetwork(*from), &**what),
            Series::Others => ("", "", DisplayNetwork(None), "anything, by many others"),
        };
        tracing::info!(target: "audit", tenant, key, %from, what, left_out, "denied so often beyond what was told");
    }
}

/// As much of the text as is logged.
pub(crate) fn short(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(AUDIT_NAME_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The network of a client, in a log.
struct DisplayNetwork(Option<Network>);

impl fmt::Display for DisplayNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |network| network.fmt(f))
    }
}

/// A resource name in a log.
pub(crate) struct DisplayName<'a>(pub(crate) Name<'a>);

impl fmt::Display for DisplayName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0.as_wtf8()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::settings::LimitSettings;

    fn audit() -> Audit {
        Audit::new(Arc::new(Limiter::new(LimitSettings::default())))
    }

    fn network(number: u32) -> Option<Network> {
        Some(IpAddr::from(number.to_be_bytes()).into())
    }

    impl Audit {
        /// The number of denials, of so many, that are logged.
        fn logged_of(&self, count: u32, who: Option<&Identity>, from: u32, what: &str) -> u32 {
            (0..count).map(|_| u32::from(self.is_logged(Series::new(who, network(from), what)))).sum()
        }

        fn left_out(&self) -> u64 {
            self.lately.lock().values().map(|lately| lately.left_out).sum()
        }
    }

    #[test]
    fn only_the_beginning_of_a_long_name_is_logged() {
        assert_eq!(short("é".repeat(AUDIT_NAME_CHARS)), "é".repeat(AUDIT_NAME_CHARS));
        assert_eq!(short("é".repeat(64 << 10)), "é".repeat(AUDIT_NAME_CHARS) + "…");
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_denials_are_logged_a_few_times_in_a_while() {
        let audit = audit();
        assert_eq!(audit.logged_of(1000, None, 1, "connect"), AUDIT_LINES);
        assert_eq!(audit.left_out(), 1000 - u64::from(AUDIT_LINES));
        // Other clients, and other deeds, are logged.
        assert_eq!(audit.logged_of(3, None, 2, "connect"), 3);
        assert_eq!(audit.logged_of(3, None, 1, "steal"), 3);
        let ada = Identity { tenant: "acme".to_owned(), ..Identity::anonymous() };
        assert_eq!(audit.logged_of(1000, Some(&ada), 1, "connect"), AUDIT_LINES);
        assert_eq!(audit.logged_of(1000, Some(&ada), 2, "connect"), 0, "an identity may come from anywhere");
        assert_eq!(audit.logged_of(3, Some(&Identity::anonymous()), 1, "connect"), 3);
        tokio::time::advance(AUDIT_WHILE).await;
        assert_eq!(audit.logged_of(1000, None, 1, "connect"), AUDIT_LINES);
    }

    #[tokio::test(start_paused = true)]
    async fn the_count_of_left_out_denials_is_forgotten_once_it_is_logged() {
        let audit = audit();
        audit.logged_of(1000, None, 1, "connect");
        audit.log_counts(AUDIT_WHILE);
        assert_eq!(audit.lately.lock().len(), 1, "its while is not over");
        tokio::time::advance(AUDIT_WHILE).await;
        audit.log_counts(AUDIT_WHILE);
        assert!(audit.lately.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_from_everywhere_take_no_more_memory_and_lines() {
        let audit = audit();
        let logged: u32 = (0..100_000).map(|from| audit.logged_of(1, None, from, "connect")).sum();
        assert_eq!(logged, AUDIT_SERIES as u32 + AUDIT_LINES);
        assert_eq!(audit.lately.lock().len(), AUDIT_SERIES + 1);
        assert_eq!(audit.left_out(), 100_000 - u64::from(logged));
    }
}
