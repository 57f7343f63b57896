//! The filters of `lockhouse ls`, which are those of the query over HTTP.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use clap::Args;
use lockhouse::NameBuf;
use lockhouse_wire::name_from_json;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::rows::Row;
use crate::common::api::{BucketClient, Call};
use crate::common::duration;
use crate::exit::{Failure, UNREACHABLE};

/// Which locks, requests and assignments are listed, and in which order.
#[derive(Debug, Args)]
#[group(id = "Find", multiple = true)]
pub(super) struct Find {
    /// Only this resource name
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Only names that begin with this
    #[arg(long, value_name = "TEXT", conflicts_with = "name")]
    prefix: Option<String>,

    /// Only this kind
    #[arg(long, value_name = "KIND", value_parser = ["web", "offline", "claim", "assignment"])]
    kind: Option<String>,

    /// Only of this client id, this owner's label, or this claimant
    #[arg(long, value_name = "TEXT")]
    client: Option<String>,

    /// Only the offline locks of this owner
    #[arg(long, value_name = "ID")]
    owner: Option<String>,

    /// Only what is held, waits (pending), or is assigned
    #[arg(long, value_name = "STATE", value_parser = ["held", "pending", "assigned"])]
    state: Option<String>,

    /// Only the hold or the assignment with this fencing token
    #[arg(long, value_name = "NUMBER")]
    token: Option<u64>,

    /// Only what is held, waits or is assigned for longer than that, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    older_than: Option<Duration>,

    /// By name, or by age with the oldest first; more than 10,000 assignments come last
    #[arg(long, value_name = "ORDER", value_parser = ["name", "age"])]
    sort: Option<String>,

    /// The most entries
    #[arg(long, value_name = "COUNT")]
    limit: Option<NonZeroUsize>,
}

/// As many entries as a page has at most.
const PAGE: usize = 1000;

/// A page of the query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    entries: Vec<Found>,
    next: Option<String>,
    /// None of a server that does not say it.
    #[serde(default)]
    recovering_ms: u64,
}

/// An entry of the query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    name: Box<RawValue>,
    mode: String,
    kind: String,
    state: String,
    client_id: String,
    owner: Option<String>,
    since: String,
    expires_at: Option<String>,
    place: Option<u32>,
    fencing_token: Option<u64>,
    metadata: Option<String>,
}

impl Find {
    /// Whether anything is asked for but all.
    pub(super) fn is_asked(&self) -> bool {
        self.limit.is_some() || self.filters().iter().any(|(_, value)| value.is_some())
    }

    /// What is said where nothing is found.
    pub(super) fn nothing(&self, bucket: &str) -> String {
        let mut filters = self.filters().into_iter().filter_map(|(key, value)| Some((key, value?)));
        match (filters.next(), filters.next()) {
            (Some(("name", name)), None) => {
                format!("nobody holds or waits for {name:?} in bucket {bucket:?}, and it is not assigned")
            }
            _ => format!("nothing that was asked for is held, waits or is assigned in bucket {bucket:?}"),
        }
    }

    fn filters(&self) -> [(&'static str, Option<Cow<'_, str>>); 9] {
        let text = |text: &'_ Option<String>| text.clone().map(Cow::Owned);
        [
            ("name", text(&self.name)),
            ("prefix", text(&self.prefix)),
            ("kind", text(&self.kind)),
            ("client", text(&self.client)),
            ("owner", text(&self.owner)),
            ("state", text(&self.state)),
            ("fencingToken", self.token.map(|token| token.to_string().into())),
            ("olderThanMs", self.older_than.map(|length| length.as_millis().to_string().into())),
            ("sort", text(&self.sort)),
        ]
    }

    /// What is asked for, page by page, and for how long the bucket still waited for holders from before a
    /// restart at the beginning.
    pub(super) async fn rows(&self, api: &BucketClient) -> Result<(Vec<Row>, Duration), Failure> {
        let (bucket, most) = (api.bucket(), self.limit.map_or(usize::MAX, NonZeroUsize::get));
        let (mut rows, mut cursor) = (Vec::new(), None::<String>);
        let mut recovers_for = Duration::ZERO;
        while rows.len() < most {
            let call = Call::get(&["query"]).with("limit", (most - rows.len()).min(PAGE).to_string());
            let given = self.filters().into_iter().filter_map(|(key, value)| value.map(|value| (key, value)));
            let call = given.fold(call, |call, (key, value)| call.with(key, value.into_owned()));
            let call = cursor.iter().fold(call, |call, cursor| call.with("cursor", cursor.as_str()));
            let page: Page = api.read(call).await?;
            recovers_for = recovers_for.max(Duration::from_millis(page.recovering_ms));
            for found in page.entries {
                rows.push(found.row(&bucket)?);
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok((rows, recovers_for))
    }
}

impl Found {
    fn row(self, bucket: &str) -> Result<Row, Failure> {
        let strange = |member: &str, value: &str| {
            Failure::new(UNREACHABLE, format_args!("the server answers with the {member} {value:?}"))
        };
        let resource: NameBuf =
            name_from_json(self.name.get()).map_err(|_| strange("name", self.name.get()))?;
        let began: SystemTime =
            humantime::parse_rfc3339(&self.since).map_err(|_| strange("since", &self.since))?;
        Ok(Row {
            bucket: bucket.to_owned(),
            name: self.name,
            mode: self.mode.into(),
            kind: self.kind.into(),
            state: self.state.into(),
            client_id: self.client_id,
            owner: self.owner,
            since: self.since,
            expires_at: self.expires_at,
            place: self.place,
            fencing_token: self.fencing_token,
            metadata: self.metadata,
            resource,
            began,
        })
    }
}
