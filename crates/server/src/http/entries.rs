//! `GET query`: what is held, who waits, what is claimed and what is assigned, page by page.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::ObjectBuilder;
use utoipa::{IntoParams, ToSchema};

use super::BASE;
use super::looks;
use super::parameters::{InBucket, Parameters};
use super::read::Read;
use super::rules::{CURSOR, Choice, OWNER, PAGE, PREFIX};
use super::views::{At, JsonName, ModeWord, Told};
use crate::state::AppState;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum EntryKind {
    Web,
    Offline,
    Claim,
    Assignment,
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum EntryState {
    Held,
    Pending,
    Assigned,
}

const KINDS: Choice<EntryKind> = Choice(&[
    ("web", EntryKind::Web),
    ("offline", EntryKind::Offline),
    ("claim", EntryKind::Claim),
    ("assignment", EntryKind::Assignment),
]);

const STATES: Choice<EntryState> = Choice(&[
    ("held", EntryState::Held),
    ("pending", EntryState::Pending),
    ("assigned", EntryState::Assigned),
]);

/// A lock, a request, a claim or an assignment.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// The resource name.
    pub(super) name: JsonName,
    /// Its mode.
    pub(super) mode: ModeWord,
    /// Which discipline it belongs to.
    pub(super) kind: EntryKind,
    /// Held, waiting in the queue of its name, or assigned for good.
    pub(super) state: EntryState,
    /// The client id of a web lock, the label of an owner, or the claimant.
    pub(super) client_id: String,
    /// The owner of an offline lock.
    #[schema(example = "17")]
    pub(super) owner: Option<String>,
    /// The instant of the grant; of the request while it waits.
    pub(super) since: At,
    /// When it ends unless it is renewed.
    #[schema(value_type = Option<At>)]
    pub(super) expires_at: Option<At>,
    /// The place in the queue of its name, counted from 1.
    #[schema(minimum = 1)]
    pub(super) place: Option<u64>,
    /// The fencing token; none while it waits.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(super) fencing_token: Option<u64>,
    /// What was said of it.
    pub(super) metadata: Option<String>,
}

/// A page of entries, ordered by name.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page<T> {
    /// At most as many as asked for.
    #[schema(max_items = 1000)]
    pub(super) entries: Vec<T>,
    /// The `cursor` of the next page; `null` on the last.
    pub(super) next: Option<String>,
}

/// Which entries, and how many.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    prefix: Option<String>,
    kind: Option<EntryKind>,
    owner: Option<String>,
    state: Option<EntryState>,
}

/// Where a page begins, and how long it is.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) limit: usize,
    /// The last position of the page before.
    pub(super) after: Option<Position>,
}

/// The place of an entry in the order of all. Those of one name: what is held first, then the queue, then the assignment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    name: Vec<u8>,
    rank: u8,
    number: u64,
}

impl Filter {
    pub(super) fn read(parameters: &Parameters<'_>) -> Read<Self> {
        Ok(Self {
            prefix: parameters.text("prefix", &PREFIX)?.map(str::to_owned),
            kind: parameters.choice("kind", &KINDS)?,
            owner: parameters.owner("owner")?.map(|owner| owner.to_string()),
            state: parameters.choice("state", &STATES)?,
        })
    }

    /// The WTF-8 that the names begin with.
    pub(super) fn prefix(&self) -> &[u8] {
        self.prefix.as_deref().unwrap_or_default().as_bytes()
    }

    /// Whether any lock, request or claim may be among them.
    pub(super) fn admits_entries(&self) -> bool {
        self.kind != Some(EntryKind::Assignment) && self.state != Some(EntryState::Assigned)
    }

    /// Whether any assignment may be among them.
    pub(super) fn admits_assignments(&self) -> bool {
        self.kind.is_none_or(|kind| kind == EntryKind::Assignment)
            && self.state.is_none_or(|state| state == EntryState::Assigned)
            && self.owner.is_none()
    }

    pub(super) fn admits(&self, entry: &Entry) -> bool {
        entry.name.0.as_name().as_wtf8().starts_with(self.prefix())
            && self.kind.is_none_or(|kind| kind == entry.kind)
            && self.state.is_none_or(|state| state == entry.state)
            && (self.owner.is_none() || self.owner == entry.owner)
    }
}

impl Cut {
    pub(super) fn read(parameters: &Parameters<'_>) -> Read<Self> {
        let limit = parameters.number("limit", &PAGE)?.unwrap_or(PAGE.example);
        let after = parameters.text("cursor", &CURSOR)?.map(Position::parse);
        Ok(Self { limit: limit as usize, after })
    }

    /// No name on the page is before this.
    pub(super) fn start(&self) -> &[u8] {
        self.after.as_ref().map_or(&[], |after| &after.name)
    }

    /// The page of these entries that begins there.
    pub(super) fn page<T>(&self, entries: impl Iterator<Item = (Position, T)>) -> Page<T> {
        let by_position = |a: &(Position, T), b: &(Position, T)| -> Ordering { a.0.cmp(&b.0) };
        // Only what is shown has to be in order.
        let leave = |rest: &mut Vec<(Position, T)>, most: usize| {
            if rest.len() > most {
                rest.select_nth_unstable_by(most, by_position);
                rest.truncate(most);
            }
        };
        let mut rest = Vec::new();
        for entry in entries.filter(|(at, _)| self.after.as_ref().is_none_or(|after| at > after)) {
            rest.push(entry);
            if rest.len() > 2 * self.limit {
                // One more than is shown tells that there is a next page.
                leave(&mut rest, self.limit + 1);
            }
        }
        let has_more = rest.len() > self.limit;
        leave(&mut rest, self.limit);
        rest.sort_unstable_by(by_position);
        let next = rest.last().filter(|_| has_more).map(|(at, _)| at.to_cursor());
        Page { entries: rest.into_iter().map(|(_, entry)| entry).collect(), next }
    }
}

impl Position {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            name: entry.name.0.as_name().as_wtf8().to_vec(),
            rank: entry.state as u8,
            number: entry.place.or(entry.fencing_token).unwrap_or_default(),
        }
    }

    fn to_cursor(&self) -> String {
        let mut text = format!("{:02x}{:016x}", self.rank, self.number);
        // Writing to a string never fails.
        self.name.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
        text
    }

    /// Any bytes are some position, which need not be that of an entry.
    fn parse(hex: &str) -> Self {
        let byte = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).ok();
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or_default()
        };
        let bytes: Vec<u8> = hex.as_bytes().chunks(2).map(byte).collect();
        let (rank, rest) = bytes.split_first().map_or((0, &[][..]), |(rank, rest)| (*rank, rest));
        let (number, name) = rest.split_at(rest.len().min(8));
        Self {
            name: name.to_vec(),
            rank,
            number: number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        }
    }
}

/// A parameter of the query string, as the OpenAPI document tells it.
pub(super) fn parameter(name: &str, schema: ObjectBuilder, description: &str) -> Parameter {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
    parameter.description(Some(description)).schema(Some(schema.build())).build()
}

/// `limit` and `cursor`.
pub(super) fn cut_parameters() -> [Parameter; 2] {
    let limit = PAGE.schema().default(Some(PAGE.example.into()));
    [
        parameter("limit", limit, "How many entries a page has at most."),
        parameter("cursor", CURSOR.schema(), "The `next` of the page before; absent for the first page."),
    ]
}

struct QueryParameters;

impl IntoParams for QueryParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let filters = [
            parameter("prefix", PREFIX.schema(), "Only names that begin with this."),
            parameter("kind", KINDS.schema(), "Only entries of this kind."),
            parameter("owner", OWNER.schema(), "Only the offline locks of this owner."),
            parameter("state", STATES.schema(), "Only what is held, waits, or is assigned."),
        ];
        filters.into_iter().chain(cut_parameters()).collect()
    }
}

/// List what is held and who waits
///
/// Everybody who may connect to a bucket sees all of it. Each page is a cut of its own moment: what was there all the time
/// is shown once, what comes and goes meanwhile may be missed.
#[utoipa::path(
    get, context_path = BASE, path = "/query", tag = "query", operation_id = "query", params(QueryParameters),
    responses((status = 200, description = "A page of entries, ordered by name.", body = Page<Entry>)),
)]
pub(super) async fn query(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> Read<Told> {
    let parameters = Parameters::parse(&uri)?;
    let (filter, cut) = (Filter::read(&parameters)?, Cut::read(&parameters)?);
    looks::query(&state, &bucket, &filter, &cut).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_order_and_every_entry_is_on_one_of_them() {
        let position = |name: &str, number| Position { name: name.into(), rank: 0, number };
        let all: Vec<_> =
            ["b", "a", "", "ab", "c"].into_iter().zip(1..).map(|(name, n)| position(name, n)).collect();
        let mut seen = Vec::new();
        let mut cut = Cut { limit: 2, after: None };
        loop {
            let page = cut.page(all.iter().map(|at| (at.clone(), at.clone())));
            assert!(page.entries.len() <= 2);
            seen.extend(page.entries);
            match page.next {
                Some(next) => cut.after = Some(Position::parse(&next)),
                None => break,
            }
        }
        let names: Vec<_> = seen.iter().map(|at| std::str::from_utf8(&at.name).unwrap()).collect();
        assert_eq!(names, ["", "a", "ab", "b", "c"]);
    }

    #[test]
    fn a_cursor_survives_its_text_and_any_text_is_a_cursor() {
        let position = Position { name: vec![0, 255, 7], rank: 2, number: 1 << 52 };
        assert!(CURSOR.admits(&position.to_cursor()));
        assert_eq!(Position::parse(&position.to_cursor()), position);
        for text in ["", "00", "ff00", "0102030405060708090a0b"] {
            assert!(CURSOR.admits(text));
            Position::parse(text);
        }
        assert!(!CURSOR.admits("0") && !CURSOR.admits("0G"));
    }
}
