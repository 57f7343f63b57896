//! Values as the tables of every database have them.

pub(crate) mod held_list;
pub(crate) mod void_locks;

use lockhouse_core::{ClaimEnd, FencingToken, Instant, LockEnd, Mode, Name, NameBuf, OwnerEnd};

/// Integers of databases are signed; the bits are the same.
pub(crate) fn bits(number: u64) -> i64 {
    number as i64
}

pub(crate) fn number(bits: i64) -> u64 {
    bits as u64
}

pub(crate) fn wall(instant: Instant) -> i64 {
    bits(instant.as_millis())
}

pub(crate) fn number_of(token: FencingToken) -> i64 {
    bits(token.get())
}

pub(crate) fn bytes(name: &NameBuf) -> &[u8] {
    name.as_name().as_wtf8()
}

pub(crate) fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

/// The mode of that word.
pub(crate) fn mode(word: &str) -> Result<Mode, String> {
    match word {
        "exclusive" => Ok(Mode::Exclusive),
        "shared" => Ok(Mode::Shared),
        other => Err(format!("{other:?} is no mode")),
    }
}

/// The name of these bytes.
pub(crate) fn name(bytes: &[u8]) -> Result<NameBuf, String> {
    Name::from_wtf8(bytes).map(Name::to_buf).map_err(|error| error.to_string())
}

/// The token of that number.
pub(crate) fn token(number: u64) -> Result<FencingToken, String> {
    if number == 0 || number >= FencingToken::LIMIT {
        return Err(format!("{number} is no fencing token"));
    }
    Ok(FencingToken::new(number))
}

pub(crate) fn of_lock(why: &LockEnd) -> &'static str {
    match why {
        LockEnd::Released => "released",
        LockEnd::Undone => "undone",
        LockEnd::Stolen => "stolen",
        LockEnd::Broken(_) => "broken",
        LockEnd::WithOwner(why) => with_owner(*why),
    }
}

pub(crate) fn of_claim(why: &ClaimEnd) -> &'static str {
    match why {
        ClaimEnd::Released => "released",
        ClaimEnd::Expired => "expired",
        ClaimEnd::Stolen => "stolen",
        ClaimEnd::Broken(_) => "broken",
    }
}

pub(crate) fn of_owner(why: OwnerEnd) -> &'static str {
    match why {
        OwnerEnd::Ended => "ended",
        OwnerEnd::Expired => "expired",
        OwnerEnd::Overdue => "overdue",
    }
}

/// The end of an owner of that word.
pub(crate) fn owner_end(word: &str) -> Result<OwnerEnd, String> {
    match word {
        "ended" => Ok(OwnerEnd::Ended),
        "expired" => Ok(OwnerEnd::Expired),
        "overdue" => Ok(OwnerEnd::Overdue),
        other => Err(format!("{other:?} is no end of an owner")),
    }
}

/// Why the locks of an owner end with it.
pub(crate) fn with_owner(why: OwnerEnd) -> &'static str {
    match why {
        OwnerEnd::Ended => "owner ended",
        OwnerEnd::Expired => "owner expired",
        OwnerEnd::Overdue => "owner overdue",
    }
}
