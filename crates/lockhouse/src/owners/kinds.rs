//! Kinds of record, and the modes that lock one of them: the lock type belongs to the kind, not to the call.

use std::fmt::Display;
use std::ops::RangeInclusive;

use lockhouse_core::{Mode, Name, NameBuf};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::Quota;

/// How the records of a kind are locked. <https://martinfowler.com/eaaCatalog/pessimisticOfflineLock.html>
///
/// Readers of an `ExclusiveWrite` kind may see a record that another owner is about to change.
/// `ExclusiveRead` allows one reader at a time, which costs the most concurrency. `ReadWrite` allows any
/// number of readers while there is no writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockType {
    /// An editor locks the record; readers take no lock.
    ExclusiveWrite,
    /// A reader locks the record, too.
    ExclusiveRead,
    /// Readers share the record, a writer has it alone.
    ReadWrite,
}

/// The purpose for which a record is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// To be read, and protected from changes meanwhile where its kind has it so.
    Read,
    /// To be changed.
    Write,
}

impl LockType {
    /// The mode in which a record is locked for that, if it is locked at all.
    pub fn mode(self, intent: Intent) -> Option<Mode> {
        match (self, intent) {
            (Self::ExclusiveWrite, Intent::Read) => None,
            (Self::ReadWrite, Intent::Read) => Some(Mode::Shared),
            (Self::ExclusiveRead, _) | (_, Intent::Write) => Some(Mode::Exclusive),
        }
    }
}

/// A kind of record, such as customers. Its name has from 1 to [`NAME_CHARS`](Self::NAME_CHARS) characters.
///
/// ```
/// use lockhouse::{LockType, RecordKind};
///
/// let customers = RecordKind::new("customer", LockType::ReadWrite);
/// let wanted = customers.for_write(4711);
/// assert_eq!(wanted.name().display(), "customer/4711");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKind {
    name: String,
    lock_type: LockType,
}

/// A record, found by its id of 1 to [`ID_CHARS`](Self::ID_CHARS) characters: locking it needs no load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    name: NameBuf,
    lock_type: LockType,
    /// The bound that the name of its kind or its id breaks, if one does.
    broken: Option<Box<Quota>>,
}

/// A record, and the purpose for which it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "nothing is locked unless an owner locks it"]
pub struct Wanted {
    record: Record,
    intent: Intent,
}

impl RecordKind {
    // No kind and id together, percent-encoded, are longer than a name may be.
    /// The most characters of its name.
    pub const NAME_CHARS: usize = 64;

    /// The kind of that name; equal ids of different kinds are different records.
    pub fn new(name: impl Into<String>, lock_type: LockType) -> Self {
        Self { name: name.into(), lock_type }
    }

    /// The record with that id. A kind or an id that is empty or too long is refused where the record is
    /// locked, with [`LockError::Quota`](crate::LockError::Quota).
    pub fn record(&self, id: impl Display) -> Record {
        let id = id.to_string();
        let escape = |text| utf8_percent_encode(text, &RESERVED);
        let mut text = format!("{}/{}", escape(&self.name), escape(&id));
        if text.starts_with('-') {
            // Such names are reserved.
            text.replace_range(..1, "%2D");
        }
        let name = NameBuf::new(&text).expect("a leading hyphen was escaped");
        let checked = within("kind", &self.name, 1..=Self::NAME_CHARS);
        let broken = checked.and_then(|()| within("id", &id, 1..=Record::ID_CHARS)).err().map(Box::new);
        Record { name, lock_type: self.lock_type, broken }
    }

    /// The record with that id, to be read.
    pub fn for_read(&self, id: impl Display) -> Wanted {
        self.record(id).for_read()
    }

    /// The record with that id, to be changed.
    pub fn for_write(&self, id: impl Display) -> Wanted {
        self.record(id).for_write()
    }
}

impl Record {
    /// The most characters of an id.
    pub const ID_CHARS: usize = 256;

    /// To be read.
    pub fn for_read(&self) -> Wanted {
        Wanted { record: self.clone(), intent: Intent::Read }
    }

    /// To be changed.
    pub fn for_write(&self) -> Wanted {
        Wanted { record: self.clone(), intent: Intent::Write }
    }

    /// The resource name that is locked: the kind and the id with a slash between, both percent-encoded where
    /// need be.
    pub fn name(&self) -> Name<'_> {
        self.name.as_name()
    }
}

impl Wanted {
    /// Locks the root of the record's aggregate in its stead: one lock for all that belongs together.
    /// <https://martinfowler.com/eaaCatalog/coarseGrainedLock.html>
    ///
    /// ```
    /// # use lockhouse::{LockType, RecordKind};
    /// # let customers = RecordKind::new("customer", LockType::ExclusiveWrite);
    /// # let addresses = RecordKind::new("address", LockType::ExclusiveWrite);
    /// let wanted = addresses.for_write(3).under(&customers.record(4711));
    /// assert_eq!(wanted, customers.for_write(4711));
    /// ```
    pub fn under(self, root: &Record) -> Self {
        Self { record: root.clone(), intent: self.intent }
    }

    /// The resource name that is locked.
    pub fn name(&self) -> Name<'_> {
        self.record.name()
    }

    /// The mode in which it is locked, if it is locked at all.
    pub fn mode(&self) -> Option<Mode> {
        self.record.lock_type.mode(self.intent)
    }
}

/// The locks that these records need.
pub(crate) fn needed_locks(wanted: impl IntoIterator<Item = Wanted>) -> Result<Vec<(Wanted, Mode)>, Quota> {
    let needed = wanted.into_iter().filter_map(|wanted| match &wanted.record.broken {
        Some(broken) => Some(Err((**broken).clone())),
        None => wanted.mode().map(|mode| Ok((wanted, mode))),
    });
    needed.collect()
}

fn within(field: &str, text: &str, chars: RangeInclusive<usize>) -> Result<(), Quota> {
    let count = text.chars().count();
    if chars.contains(&count) {
        return Ok(());
    }
    let rule = format!("from {} to {} characters are allowed", chars.start(), chars.end());
    Err(Quota::new(field, format!("{count} characters"), rule))
}

/// The characters that are escaped: all but those that RFC 3986 calls unreserved.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_says_how_a_record_is_locked() {
        let modes = |kind: LockType| (kind.mode(Intent::Read), kind.mode(Intent::Write));
        assert_eq!(modes(LockType::ExclusiveWrite), (None, Some(Mode::Exclusive)));
        assert_eq!(modes(LockType::ExclusiveRead), (Some(Mode::Exclusive), Some(Mode::Exclusive)));
        assert_eq!(modes(LockType::ReadWrite), (Some(Mode::Shared), Some(Mode::Exclusive)));
    }

    #[test]
    fn equal_ids_of_different_kinds_are_different_names() {
        let name = |kind: &str, id: &str| {
            RecordKind::new(kind, LockType::ReadWrite).record(id).name().display().into_owned()
        };
        assert_eq!(name("customer", "7"), "customer/7");
        assert_eq!(name("order", "7"), "order/7");
        assert_eq!(name("a/b", "c"), "a%2Fb/c");
        assert_eq!(name("a", "b/c"), "a/b%2Fc");
        assert_eq!(name("-a", "-b-c"), "%2Da/-b-c");
        assert_eq!(name("100 %", "é\n"), "100%20%25/%C3%A9%0A");
        assert_eq!(name("", ""), "/");
    }
}
