//! The questions of `top`, and the one change that it makes.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::answers::{Broken, Entry, Overview, Page};
use crate::common::api::{BucketClient, Call};
use crate::common::target::Target;
use crate::exit::Failure;

/// So long the answer to a question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Name,
    /// The oldest first.
    Age,
}

/// Which part of the list is to be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) prefix: String,
    pub(super) client: String,
    pub(super) kind: Option<&'static str>,
    pub(super) state: Option<&'static str>,
    pub(super) sort: Sort,
    pub(super) cursor: Option<String>,
    /// As many entries as the terminal shows.
    pub(super) limit: u16,
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) overview: Overview,
    pub(super) page: Page,
}

/// The bucket that is watched.
pub(super) struct Watched {
    questions: BucketClient,
    changes: BucketClient,
}

/// The body of a break.
#[derive(Serialize)]
struct Break<'a> {
    holds: [Hold<'a>; 1],
    reason: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hold<'a> {
    name: &'a RawValue,
    fencing_token: Option<u64>,
}

impl Sort {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Age => "age",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Name => Self::Age,
            Self::Age => Self::Name,
        }
    }
}

impl Question {
    fn call(&self) -> Call {
        let given = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let filters = [
            ("prefix", given(&self.prefix)),
            ("client", given(&self.client)),
            ("kind", self.kind.map(str::to_owned)),
            ("state", self.state.map(str::to_owned)),
            ("cursor", self.cursor.clone()),
        ];
        let call = Call::get(&["query"]).with("sort", self.sort.word()).with("limit", self.limit.to_string());
        let given = filters.into_iter().filter_map(|(key, value)| Some((key, value?)));
        given.fold(call, |call, (key, value)| call.with(key, value))
    }
}

impl Watched {
    pub(super) fn new(target: &Target) -> Result<Self, Failure> {
        let questions = BucketClient::new(target)?.with_timeout(PATIENCE);
        Ok(Self { questions, changes: BucketClient::new(target)? })
    }

    /// The place of the server, as people read it.
    pub(super) fn origin(&self) -> &str {
        self.questions.origin()
    }

    /// The name of the bucket.
    pub(super) fn bucket(&self) -> String {
        self.questions.bucket()
    }

    /// Asks for the overview and for one page of the list.
    pub(super) async fn look(&self, question: &Question) -> Result<Look, Failure> {
        let overview = self.questions.read(Call::get(&["overview"])).await?;
        let page = self.questions.read(question.call()).await?;
        Ok(Look { overview, page })
    }

    /// Breaks exactly that hold. Returns whether it was still there.
    pub(super) async fn break_hold(&self, hold: &Entry, reason: &str) -> Result<bool, Failure> {
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let body = Break { holds: [Hold { name: &hold.name, fencing_token: hold.fencing_token }], reason };
        let body = serde_json::to_string(&body).expect("a hold has nothing that JSON cannot hold");
        let broken: Broken = self.changes.read(Call::post(&["locks", "break"]).body(body)).await?;
        Ok(broken.was_held())
    }
}
