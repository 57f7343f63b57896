//! Locks that became void and are still to be swept, as the row of a table has them.

use lockhouse_core::{NameBuf, VoidLocks};

use crate::values;

/// The columns that say which locks of an owner are void.
#[derive(Debug)]
pub(crate) struct VoidRow {
    pub(crate) what: &'static str,
    pub(crate) why: Option<&'static str>,
    pub(crate) up_to: Option<i64>,
    pub(crate) names: Vec<u8>,
}

impl VoidRow {
    pub(crate) fn of(which: &VoidLocks) -> Self {
        let (why, up_to) = (None, None);
        match which {
            VoidLocks::OfEnded(why) => {
                Self { what: "all", why: Some(values::of_owner(*why)), up_to, names: Vec::new() }
            }
            VoidLocks::AllBut { up_to, spared } => {
                let names = encoded(spared.iter().map(|name| (name, 0)));
                Self { what: "all but", why, up_to: Some(values::number_of(*up_to)), names }
            }
            VoidLocks::These(locks) => {
                let names = encoded(locks.iter().map(|(name, token)| (name, token.get())));
                Self { what: "these", why, up_to, names }
            }
        }
    }
}

/// The locks that the columns of a row stand for.
pub(crate) fn read(
    what: &str,
    why: Option<&str>,
    up_to: Option<i64>,
    names: &[u8],
) -> Result<VoidLocks, String> {
    let names = decoded(names)?;
    match what {
        "all" => values::owner_end(why.unwrap_or_default()).map(VoidLocks::OfEnded),
        "all but" => Ok(VoidLocks::AllBut {
            up_to: values::token(values::number(up_to.unwrap_or_default()))?,
            spared: names.into_iter().map(|(name, _)| name).collect(),
        }),
        "these" => {
            let with_token = |(name, number)| Ok((name, values::token(number)?));
            Ok(VoidLocks::These(names.into_iter().map(with_token).collect::<Result<_, String>>()?))
        }
        other => Err(format!("{other:?} says of no locks that they are void")),
    }
}

/// Each name with its number, 0 for none: both that number and the length of the name in eight bytes, the
/// highest first; then the name as WTF-8.
fn encoded<'a>(names: impl Iterator<Item = (&'a NameBuf, u64)>) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, number) in names {
        let name = values::bytes(name);
        encoded.extend(number.to_be_bytes());
        encoded.extend((name.len() as u64).to_be_bytes());
        encoded.extend(name);
    }
    encoded
}

fn decoded(mut bytes: &[u8]) -> Result<Vec<(NameBuf, u64)>, String> {
    let cut = || "the list of names is cut off".to_owned();
    let mut names = Vec::new();
    while !bytes.is_empty() {
        let (numbers, rest) = bytes.split_first_chunk::<16>().ok_or_else(cut)?;
        let (number, length) = numbers.split_at(8);
        let [number, length] =
            [number, length].map(|half| half.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
        let (name, rest) =
            usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)).ok_or_else(cut)?;
        names.push((values::name(name)?, number));
        bytes = rest;
    }
    Ok(names)
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
