//! Rows of locks that became void and are still to be swept.

use lockhouse_core::{Change, FencingToken, Instant, Name, NameBuf, OwnerEnd, OwnerId, VoidLocks};
use rusqlite::types::Type;
use rusqlite::{Error, Row, params};

use super::apply::{bits, bytes, number, wall};
use super::history;
use super::statements::Statements;

/// Adds a row for locks of that owner.
pub(crate) fn add(
    statements: &Statements<'_>,
    bucket: i64,
    owner: OwnerId,
    which: &VoidLocks,
    at: Instant,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO voided (bucket, owner, seq, at, what, why, up_to, names)
               SELECT ?1, ?2, coalesce(max(seq), 0) + 1, ?3, ?4, ?5, ?6, ?7
               FROM voided WHERE bucket = ?1 AND owner = ?2";
    let (what, why, up_to, names) = match which {
        VoidLocks::OfEnded(why) => ("all", Some(history::of_owner(*why)), None, Vec::new()),
        VoidLocks::AllBut { up_to, spared } => {
            ("all but", None, Some(bits(up_to.get())), encoded(spared.iter().map(|name| (name, 0))))
        }
        VoidLocks::These(locks) => {
            ("these", None, None, encoded(locks.iter().map(|(name, token)| (name, token.get()))))
        }
    };
    let values = params![bucket, bits(owner.get()), wall(at), what, why, up_to, names];
    statements.run(sql, values).map(drop)
}

/// Forgets the rows of that owner.
pub(crate) fn remove(statements: &Statements<'_>, bucket: i64, owner: OwnerId) -> rusqlite::Result<()> {
    let sql = "DELETE FROM voided WHERE bucket = ?1 AND owner = ?2";
    statements.run(sql, params![bucket, bits(owner.get())]).map(drop)
}

/// The query whose rows [`read`] reads.
pub(crate) const QUERY: &str =
    "SELECT owner, at, what, why, up_to, names FROM voided WHERE bucket = ?1 ORDER BY owner, seq";

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Change> {
    let names = decoded(row.get_ref(5)?.as_blob()?)?;
    let which = match row.get_ref(2)?.as_str()? {
        "all" => VoidLocks::OfEnded(match row.get_ref(3)?.as_str()? {
            "ended" => OwnerEnd::Ended,
            "expired" => OwnerEnd::Expired,
            "overdue" => OwnerEnd::Overdue,
            other => return Err(wrong(3, Type::Text, format!("{other:?} is no end of an owner"))),
        }),
        "all but" => VoidLocks::AllBut {
            up_to: token(4, number(row.get(4)?))?,
            spared: names.into_iter().map(|(name, _)| name).collect(),
        },
        "these" => {
            let with_token = |(name, number)| Ok((name, token(5, number)?));
            VoidLocks::These(names.into_iter().map(with_token).collect::<rusqlite::Result<_>>()?)
        }
        other => return Err(wrong(2, Type::Text, format!("{other:?} says of no locks that they are void"))),
    };
    let at = Instant::from_millis(number(row.get(1)?));
    Ok(Change::LocksVoided { owner: OwnerId::new(number(row.get(0)?)), which, at })
}

/// Each name with its number, 0 for none: both that number and the length of the name in eight bytes, the
/// highest first; then the name as WTF-8.
fn encoded<'a>(names: impl Iterator<Item = (&'a NameBuf, u64)>) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, number) in names {
        let name = bytes(name);
        encoded.extend(number.to_be_bytes());
        encoded.extend((name.len() as u64).to_be_bytes());
        encoded.extend(name);
    }
    encoded
}

fn decoded(mut bytes: &[u8]) -> rusqlite::Result<Vec<(NameBuf, u64)>> {
    let cut = || wrong(5, Type::Blob, "the list of names is cut off".to_owned());
    let mut names = Vec::new();
    while !bytes.is_empty() {
        let (numbers, rest) = bytes.split_first_chunk::<16>().ok_or_else(cut)?;
        let (number, length) = numbers.split_at(8);
        let [number, length] =
            [number, length].map(|half| half.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
        let (name, rest) =
            usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)).ok_or_else(cut)?;
        let name = Name::from_wtf8(name).map_err(|error| wrong(5, Type::Blob, error.to_string()))?;
        names.push((name.to_buf(), number));
        bytes = rest;
    }
    Ok(names)
}

fn token(column: usize, number: u64) -> rusqlite::Result<FencingToken> {
    if number == 0 || number >= FencingToken::LIMIT {
        return Err(wrong(column, Type::Integer, format!("{number} is no fencing token")));
    }
    Ok(FencingToken::new(number))
}

fn wrong(column: usize, found: Type, why: String) -> Error {
    Error::FromSqlConversionFailure(column, found, why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_names_that_is_cut_anywhere_is_no_list() {
        let names = ["", "a", "long ".repeat(60).as_str()].map(|name| NameBuf::new(name).unwrap());
        let whole = encoded(names.iter().zip(5..));
        let expected: Vec<_> = names.iter().cloned().zip(5..).collect();
        assert_eq!(decoded(&whole).unwrap(), expected);
        let ends_of_names = [0, 16, 33];
        for end in (0..whole.len()).filter(|end| !ends_of_names.contains(end)) {
            decoded(&whole[..end]).unwrap_err();
        }
        decoded(&[0xFF; 16]).unwrap_err();
    }
}
