//! Pages of entries.

use std::cmp::Ordering;
use std::fmt::Write;

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::path::Parameter;

use super::entry::Entry;
use crate::http::request::constraints::{CURSOR, PAGE};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::schema::{RuleSchema, parameter};

/// A page of entries, ordered by name.
#[derive(Clone, Debug)]
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    /// The cursor of the next page, unless this is the last.
    pub(crate) next: Option<String>,
}

/// A page of entries, ordered by name.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryPage {
    /// At most as many as asked for.
    #[schema(max_items = 1000)]
    pub(crate) entries: Vec<Entry>,
    /// The `cursor` of the next page; `null` on the last.
    pub(crate) next: Option<String>,
}

impl From<Page<Entry>> for EntryPage {
    fn from(Page { entries, next }: Page<Entry>) -> Self {
        Self { entries, next }
    }
}

/// Where a page begins, and how long it is.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) limit: usize,
    /// The last position of the page before.
    pub(crate) after: Option<Position>,
}

/// The place of an entry in the order of all, which is the same as long as it is there. For one name: web
/// locks in the order of their requests, then offline locks, then a claim or an assignment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    name: Vec<u8>,
    kind: u8,
    number: u64,
}

impl Cut {
    pub(crate) fn read(parameters: &Parameters<'_>) -> ApiResult<Self> {
        let limit = parameters.field("limit")?.number_if_any(&PAGE)?.unwrap_or(PAGE.example);
        let after = parameters.field("cursor")?.text_if_any(&CURSOR)?.map(|text| Position::parse(&text));
        Ok(Self { limit: limit as usize, after })
    }

    /// No name on the page is before this.
    pub(crate) fn start(&self) -> &[u8] {
        self.after.as_ref().map_or(&[], |after| &after.name)
    }

    /// The page of these entries that begins there.
    pub(crate) fn page<T>(&self, entries: impl Iterator<Item = (Position, T)>) -> Page<T> {
        let by_position = |a: &(Position, T), b: &(Position, T)| -> Ordering { a.0.cmp(&b.0) };
        // Only entries that are shown have to be in order.
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
                // One entry more than are shown proves that there is a next page.
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
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { name: entry.name.0.as_name().as_wtf8().to_vec(), kind: entry.kind as u8, number: entry.number }
    }

    fn to_cursor(&self) -> String {
        let mut text = format!("{:02x}{:016x}", self.kind, self.number);
        // Writing to a string never fails.
        self.name.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
        text
    }

    /// The position of a text that [`CURSOR`] admits; it need not be that of an entry any more.
    fn parse(hex: &str) -> Self {
        let byte = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).ok();
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or_default()
        };
        let bytes: Vec<u8> = hex.as_bytes().chunks(2).map(byte).collect();
        let (kind, rest) = bytes.split_first().map_or((0, &[][..]), |(kind, rest)| (*kind, rest));
        let (number, name) = rest.split_at(rest.len().min(8));
        Self {
            name: name.to_vec(),
            kind,
            number: number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_order_and_every_entry_is_on_one_of_them() {
        let position = |name: &str, number| Position { name: name.into(), kind: 0, number };
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
    fn a_cursor_survives_its_text_and_no_other_text_is_one() {
        let position = Position { name: vec![0, 255, 7], kind: 2, number: 1 << 52 };
        assert!(CURSOR.admits(&position.to_cursor()));
        assert_eq!(Position::parse(&position.to_cursor()), position);
        let first = Position { name: Vec::new(), kind: 0, number: 0 };
        assert!(CURSOR.admits(&first.to_cursor()) && CURSOR.admits(CURSOR.example));
        let number = "0000000000000001";
        for text in
            ["", "00", "ff00", &format!("00{number}0"), &format!("04{number}"), &format!("00{number}0G")]
        {
            assert!(!CURSOR.admits(text), "{text}");
        }
    }
}
