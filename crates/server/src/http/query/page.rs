//! Pages of entries.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use lockhouse_wire::decode::Choice;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::path::Parameter;

use super::entry::{Entry, EntryKind};
use crate::http::request::constraints::{CURSOR, PAGE};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::schema::{RuleSchema, parameter, parameter_of};

/// A page of entries, in the order that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    /// The cursor of the next page, unless this is the last.
    pub(crate) next: Option<String>,
}

/// A page of entries, in the order that was asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryPage {
    /// At most as many as asked for; there may be fewer, or none, while there is a `next`.
    #[schema(max_items = 1000)]
    pub(crate) entries: Vec<Entry>,
    /// The `cursor` of the next page; `null` on the last.
    pub(crate) next: Option<String>,
    /// For how long, at most, the bucket still waits for holders from before a restart, whose locks are
    /// missing until they are back; 0 if it does not.
    pub(crate) recovering_ms: u64,
}

impl EntryPage {
    pub(crate) fn new(Page { entries, next }: Page<Entry>, recovers_for: Duration) -> Self {
        Self { entries, next, recovering_ms: recovers_for.as_millis() as u64 }
    }
}

/// The order of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EntrySort {
    /// By name.
    #[default]
    Name,
    /// What has begun first comes first. Assignments come last, by name, where there are more than one call
    /// looks at.
    Age,
}

/// The order of the entries on all pages from the first one on, which the cursor tells the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Name,
    Age,
    /// By age, with the assignments behind all else, by name. It stays so once they were too many on one
    /// page: none is on no page, whatever their number is by then.
    AgeAssignmentsLast,
}

const SORTS: Choice<EntrySort> = Choice(&[("name", EntrySort::Name), ("age", EntrySort::Age)]);

/// Where a page begins, and how long it is.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) limit: usize,
    pub(crate) order: Order,
    /// The last position of the page before.
    pub(crate) after: Option<Position>,
}

/// The place of an entry in the order of all, which is the same as long as it is there and stays what it is.
/// For one name, and one age if that is the sort: web locks in the order of their requests, then offline
/// locks, then a claim or an assignment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// When it began, in milliseconds since 1970, or [`LAST`]; 0 if the sort is another one.
    since_ms: u64,
    name: Vec<u8>,
    kind: u8,
    number: u64,
}

/// The age of entries that come last in the order by age, by their names.
const LAST: u64 = u64::MAX;

/// The entries of a page, of any that come by.
#[derive(Debug)]
pub(crate) struct Gathering<'c, T> {
    cut: &'c Cut,
    order: Order,
    rest: Vec<(Position, T)>,
    /// The page ends here at the latest.
    end: Option<Position>,
}

impl Cut {
    /// With the sort that is asked for, by name without one.
    pub(crate) fn read_sorted(parameters: &Parameters<'_>) -> ApiResult<Self> {
        let sort = parameters.field("sort")?.if_any(|word| word.choice(&SORTS))?.unwrap_or_default();
        Self::read_as(parameters, sort)
    }

    /// By name.
    pub(crate) fn read(parameters: &Parameters<'_>) -> ApiResult<Self> {
        Self::read_as(parameters, EntrySort::Name)
    }

    fn read_as(parameters: &Parameters<'_>, sort: EntrySort) -> ApiResult<Self> {
        let limit = parameters.field("limit")?.number_if_any(&PAGE)?.unwrap_or(PAGE.example);
        let cursor = parameters.field("cursor")?;
        let (order, after) = match cursor.text_if_any(&CURSOR)? {
            None => (Order::from(sort), None),
            Some(text) => match Position::parse(&text) {
                (order, after) if order.sort() == sort => (order, Some(after)),
                (order, _) => {
                    let rule = format!(
                        "the `next` of a page sorted by {}, and this is of one sorted by {}",
                        sort.word(),
                        order.sort().word()
                    );
                    return Err(cursor.broken(rule).into());
                }
            },
        };
        Ok(Self { limit: limit as usize, order, after })
    }

    /// No name of what comes by name on the page is before this.
    pub(crate) fn start(&self) -> &[u8] {
        let after = self.after.as_ref().filter(|_| self.order == Order::Name || self.is_among_last());
        after.map_or(&[], |after| &after.name)
    }

    /// Whether the page before ended among those that come last in the order by age.
    pub(crate) fn is_among_last(&self) -> bool {
        self.after.as_ref().is_some_and(|after| after.since_ms == LAST)
    }

    /// The page of these entries that begins there.
    pub(crate) fn page<T>(&self, entries: impl Iterator<Item = (Position, T)>) -> Page<T> {
        let mut gathering = self.gather();
        entries.for_each(|(at, entry)| gathering.add(at, entry));
        gathering.page()
    }

    /// The page of entries that are still to come.
    pub(crate) fn gather<T>(&self) -> Gathering<'_, T> {
        Gathering { cut: self, order: self.order, rest: Vec::new(), end: None }
    }
}

impl<T> Gathering<'_, T> {
    /// Puts the assignments behind all else, also on the pages that come; by name they have their places.
    pub(crate) fn put_assignments_last(&mut self) {
        if self.order == Order::Age {
            self.order = Order::AgeAssignmentsLast;
        }
    }

    /// Ends the page there at the latest, with another one behind it: what comes later is not known.
    pub(crate) fn end_at(&mut self, end: Position) {
        self.end = Some(end);
    }

    pub(crate) fn add(&mut self, at: Position, entry: T) {
        if self.cut.after.as_ref().is_some_and(|after| at <= *after)
            || self.end.as_ref().is_some_and(|end| at > *end)
        {
            return;
        }
        self.rest.push((at, entry));
        if self.rest.len() > 2 * self.cut.limit {
            // One entry more than are shown proves that there is a next page.
            self.leave(self.cut.limit + 1);
        }
    }

    /// The page of those that have come.
    pub(crate) fn page(mut self) -> Page<T> {
        let limit = self.cut.limit;
        let has_more = self.rest.len() > limit;
        self.leave(limit);
        self.rest.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let last = if has_more { self.rest.last().map(|(at, _)| at) } else { self.end.as_ref() };
        let next = last.map(|at| at.to_cursor(self.order));
        Page { entries: self.rest.into_iter().map(|(_, entry)| entry).collect(), next }
    }

    /// Only entries that are shown have to be in order.
    fn leave(&mut self, most: usize) {
        if self.rest.len() > most {
            self.rest.select_nth_unstable_by(most, |a, b| a.0.cmp(&b.0));
            self.rest.truncate(most);
        }
    }
}

impl EntrySort {
    fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Age => "age",
        }
    }
}

impl Order {
    fn sort(self) -> EntrySort {
        match self {
            Self::Name => EntrySort::Name,
            Self::Age | Self::AgeAssignmentsLast => EntrySort::Age,
        }
    }

    /// The first digit of a cursor.
    fn digit(self) -> u8 {
        match self {
            Self::Name => 0,
            Self::Age => 1,
            Self::AgeAssignmentsLast => 2,
        }
    }
}

impl From<EntrySort> for Order {
    fn from(sort: EntrySort) -> Self {
        match sort {
            EntrySort::Name => Self::Name,
            EntrySort::Age => Self::Age,
        }
    }
}

impl Position {
    pub(crate) fn of(entry: &Entry, order: Order) -> Self {
        let since_ms = match order {
            Order::Name => 0,
            Order::Age | Order::AgeAssignmentsLast => {
                let since = entry.since.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }
        };
        let name = entry.name.0.as_name().as_wtf8().to_vec();
        Self { since_ms, name, kind: entry.kind as u8, number: entry.number }
    }

    /// The place of the assignment of that name, as WTF-8, in the order by name.
    pub(crate) fn of_assignment(name: Vec<u8>) -> Self {
        Self { since_ms: 0, name, kind: EntryKind::Assignment as u8, number: 0 }
    }

    /// Its place among those that come last in the order by age; by name there are no such.
    pub(crate) fn among_last(self, order: Order) -> Self {
        match order {
            Order::Name => self,
            Order::Age | Order::AgeAssignmentsLast => Self { since_ms: LAST, ..self },
        }
    }

    fn to_cursor(&self, order: Order) -> String {
        let mut text = format!("{}{}", order.digit(), self.kind);
        // Writing to a string never fails.
        if order != Order::Name {
            _ = write!(text, "{:016x}", self.since_ms);
        }
        _ = write!(text, "{:016x}", self.number);
        self.name.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
        text
    }

    /// The order and the position of a text that [`CURSOR`] admits; it need not be that of an entry any more.
    fn parse(hex: &str) -> (Order, Self) {
        let byte = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).ok();
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or_default()
        };
        let bytes: Vec<u8> = hex.as_bytes().chunks(2).map(byte).collect();
        let (first, mut rest) = bytes.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
        let mut number = || {
            let (number, others) = rest.split_at(rest.len().min(8));
            rest = others;
            number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let order = match first >> 4 {
            0 => Order::Name,
            1 => Order::Age,
            _ => Order::AgeAssignmentsLast,
        };
        let since_ms = if order == Order::Name { 0 } else { number() };
        let number = number();
        (order, Self { since_ms, name: rest.to_vec(), kind: first & 15, number })
    }
}

/// `limit` and `cursor`.
pub(crate) fn cut_parameters() -> [Parameter; 2] {
    let limit = format!("How many entries a page has at most; {} without it.", PAGE.example);
    [
        parameter("limit", PAGE.schema(), &limit),
        parameter("cursor", CURSOR.schema(), "The `next` of the page before; absent for the first page."),
    ]
}

/// `sort`.
pub(crate) fn sort_parameter() -> Parameter {
    parameter_of(
        "sort",
        &EntrySort::name(),
        "The order of the entries; `name` without it. A cursor belongs to it.",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use super::*;
    use crate::http::problem::Problem;

    fn position(since_ms: u64, name: &str, number: u64) -> Position {
        Position { since_ms, name: name.into(), kind: 0, number }
    }

    /// The names on all pages.
    fn pages(all: &[Position], order: Order) -> Vec<String> {
        let mut seen = Vec::new();
        let mut cut = Cut { limit: 2, order, after: None };
        loop {
            let page = cut.page(all.iter().map(|at| (at.clone(), at.clone())));
            assert!(page.entries.len() <= 2);
            seen.extend(page.entries.into_iter().map(|at| String::from_utf8(at.name).unwrap()));
            match page.next {
                Some(next) => cut.after = Some(Position::parse(&next).1),
                None => return seen,
            }
        }
    }

    #[test]
    fn pages_are_in_order_and_every_entry_is_on_one_of_them() {
        let names = ["b", "a", "", "ab", "c"];
        let all: Vec<_> = names.into_iter().zip(1..).map(|(name, n)| position(0, name, n)).collect();
        assert_eq!(pages(&all, Order::Name), ["", "a", "ab", "b", "c"]);
        let all: Vec<_> = names.into_iter().zip(1..).map(|(name, n)| position(n / 2, name, n)).collect();
        assert_eq!(pages(&all, Order::Age), ["b", "", "a", "ab", "c"]);
    }

    #[test]
    fn a_cursor_survives_its_text_and_no_other_text_is_one() {
        for (order, since_ms) in [(Order::Name, 0), (Order::Age, 1 << 41), (Order::AgeAssignmentsLast, LAST)]
        {
            let position = Position { since_ms, name: vec![0, 255, 7], kind: 2, number: 1 << 52 };
            assert!(CURSOR.admits(&position.to_cursor(order)));
            assert_eq!(Position::parse(&position.to_cursor(order)), (order, position));
            let first = Position { since_ms: 0, name: Vec::new(), kind: 0, number: 0 };
            assert!(CURSOR.admits(&first.to_cursor(order)) && CURSOR.admits(CURSOR.example));
        }
        let number = "0000000000000001";
        for text in [
            "",
            "00",
            "ff00",
            &format!("00{number}0"),
            &format!("04{number}"),
            &format!("00{number}0G"),
            &format!("10{number}"),
            &format!("20{number}"),
            &format!("30{number}{number}"),
        ] {
            assert!(!CURSOR.admits(text), "{text}");
        }
    }

    #[test]
    fn a_cursor_of_another_sort_is_refused_by_its_name() {
        let refused = |query: &str| {
            let uri = format!("/query?{query}").parse().unwrap();
            let refused = Cut::read_sorted(&Parameters::parse(&uri).unwrap()).unwrap_err();
            serde_json::to_value::<Box<Problem>>(refused).unwrap()
        };
        let [by_name, by_age] = [Order::Name, Order::Age].map(|order| position(0, "n", 1).to_cursor(order));
        let problem = refused(&format!("sort=age&cursor={by_name}"));
        assert_eq!(problem["field"], "cursor");
        assert_eq!(problem["rule"], "the `next` of a page sorted by age, and this is of one sorted by name");
        let problem = refused(&format!("cursor={by_age}"));
        assert_eq!(problem["rule"], "the `next` of a page sorted by name, and this is of one sorted by age");
        assert_eq!(refused("sort=size")["rule"], "\"name\" or \"age\"");
    }
}
