//! Resource names: sequences of 16-bit units, stored as WTF-8.
//!
//! [WTF-8](https://wtf-8.codeberg.page/) is UTF-8 that may also encode lone surrogates, so that every
//! JavaScript string has exactly one encoding and equal bytes mean equal units.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A borrowed resource name. <https://w3c.github.io/web-locks/#resource-name>
///
/// Any sequence of units will do, the empty one included, except one that begins with `-`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a>(&'a [u8]);

/// An owned resource name. Up to 22 bytes of WTF-8 take no memory on the heap; all clones of a longer one
/// share it.
#[derive(Clone)]
pub struct NameBuf(Bytes);

#[derive(Clone)]
enum Bytes {
    Inline { length: u8, bytes: [u8; 22] },
    Heap(Arc<[u8]>),
}

/// Why something is no resource name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidName {
    /// The name begins with U+002D, which the specification reserves.
    Reserved,
    /// The bytes are not well-formed WTF-8; the offset of the first wrong one.
    NotWtf8(usize),
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved => f.write_str("names that begin with \"-\" are reserved"),
            Self::NotWtf8(at) => write!(f, "not a name: byte {at} is not WTF-8"),
        }
    }
}

impl std::error::Error for InvalidName {}

impl<'a> Name<'a> {
    /// The name with these characters.
    ///
    /// # Errors
    ///
    /// [`InvalidName::Reserved`] if it begins with `-`.
    #[inline]
    pub fn new(text: &'a str) -> Result<Self, InvalidName> {
        Self::unreserved(text.as_bytes())
    }

    /// The name with this WTF-8.
    ///
    /// # Errors
    ///
    /// [`InvalidName::Reserved`] if it begins with `-`, [`InvalidName::NotWtf8`] if the bytes are malformed,
    /// which includes a surrogate pair in six bytes.
    pub fn from_wtf8(bytes: &'a [u8]) -> Result<Self, InvalidName> {
        check_wtf8(bytes)?;
        Self::unreserved(bytes)
    }

    #[inline]
    fn unreserved(bytes: &'a [u8]) -> Result<Self, InvalidName> {
        if bytes.first() == Some(&b'-') { Err(InvalidName::Reserved) } else { Ok(Self(bytes)) }
    }

    /// The WTF-8 bytes.
    #[inline]
    pub fn as_wtf8(self) -> &'a [u8] {
        self.0
    }

    /// The characters, unless the name has a lone surrogate.
    pub fn as_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }

    /// The 16-bit units.
    pub fn units(self) -> impl Iterator<Item = u16> + 'a {
        Units { bytes: self.0, low: None }
    }

    /// How many 16-bit units there are.
    pub fn unit_count(self) -> usize {
        // Each character has one byte that is no continuation byte; those of four bytes have two units.
        self.0.iter().filter(|b| **b & 0xC0 != 0x80).count() + self.0.iter().filter(|b| **b >= 0xF0).count()
    }

    /// The name as an owned one.
    #[inline]
    pub fn to_buf(self) -> NameBuf {
        let mut bytes = [0; 22];
        NameBuf(match bytes.get_mut(..self.0.len()) {
            Some(place) => {
                place.copy_from_slice(self.0);
                Bytes::Inline { length: self.0.len() as u8, bytes }
            }
            None => Bytes::Heap(self.0.into()),
        })
    }

    /// For people: lone surrogates as `\ud800`, control characters escaped. Not reversible.
    pub fn display(self) -> Cow<'a, str> {
        match self.as_str() {
            Some(text) if !text.chars().any(char::is_control) => Cow::Borrowed(text),
            _ => Cow::Owned(escape(self)),
        }
    }
}

impl NameBuf {
    /// The bytes of the name on the heap.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Inline { .. } => 0,
            Bytes::Heap(bytes) => bytes.len(),
        }
    }

    /// The name with these characters.
    ///
    /// # Errors
    ///
    /// As [`Name::new`].
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        Name::new(text).map(Name::to_buf)
    }

    /// The name with these 16-bit units, lone surrogates included.
    ///
    /// # Errors
    ///
    /// [`InvalidName::Reserved`] if it begins with `-`.
    pub fn from_units(units: &[u16]) -> Result<Self, InvalidName> {
        let mut bytes = Vec::with_capacity(units.len());
        for decoded in char::decode_utf16(units.iter().copied()) {
            match decoded {
                Ok(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(lone) => {
                    let unit = lone.unpaired_surrogate();
                    bytes.extend_from_slice(&[
                        0xED,
                        0x80 | (unit >> 6 & 0x3F) as u8,
                        0x80 | (unit & 0x3F) as u8,
                    ]);
                }
            }
        }
        Name::unreserved(&bytes).map(Name::to_buf)
    }

    /// The borrowed name.
    #[inline]
    pub fn as_name(&self) -> Name<'_> {
        Name(match &self.0 {
            Bytes::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Heap(bytes) => bytes,
        })
    }
}

impl PartialEq for NameBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_name() == other.as_name()
    }
}

impl Eq for NameBuf {}

impl PartialOrd for NameBuf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NameBuf {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_name().cmp(&other.as_name())
    }
}

/// A name borrows as its WTF-8, so that a map ordered by name can be searched from any bytes on.
impl Borrow<[u8]> for NameBuf {
    fn borrow(&self) -> &[u8] {
        self.as_name().0
    }
}

impl Hash for NameBuf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_name().hash(state);
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", escape(*self))
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

fn escape(name: Name<'_>) -> String {
    let mut out = String::with_capacity(name.0.len() + 8);
    for decoded in char::decode_utf16(name.units()) {
        match decoded {
            Ok(c) if c.is_control() || c == '\\' || c == '"' => out.extend(c.escape_default()),
            Ok(c) => out.push(c),
            Err(lone) => out.push_str(&format!("\\u{:04x}", lone.unpaired_surrogate())),
        }
    }
    out
}

fn check_wtf8(bytes: &[u8]) -> Result<(), InvalidName> {
    let mut at = 0;
    let mut after_high = false;
    while let Err(error) = std::str::from_utf8(&bytes[at..]) {
        let valid = error.valid_up_to();
        let rest = &bytes[at + valid..];
        let [0xED, second @ 0xA0..=0xBF, 0x80..=0xBF, ..] = rest else {
            return Err(InvalidName::NotWtf8(at + valid));
        };
        let low = *second >= 0xB0;
        if low && after_high && valid == 0 {
            return Err(InvalidName::NotWtf8(at));
        }
        after_high = !low;
        at += valid + 3;
    }
    Ok(())
}

struct Units<'a> {
    bytes: &'a [u8],
    low: Option<u16>,
}

impl Iterator for Units<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        if let Some(low) = self.low.take() {
            return Some(low);
        }
        let &first = self.bytes.first()?;
        let length = match first {
            0x00..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0.. => 4,
        };
        let (head, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        let lead = if length == 1 { u32::from(first) } else { u32::from(first) & (0x7F >> length) };
        let point = head[1..].iter().fold(lead, |sum, byte| sum << 6 | u32::from(byte & 0x3F));
        if point < 0x1_0000 {
            return Some(point as u16);
        }
        self.low = Some(0xDC00 | (point & 0x3FF) as u16);
        Some((0xD800 + ((point - 0x1_0000) >> 10)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn units_survive_wtf8_and_back(units in proptest::collection::vec(
            prop_oneof![any::<u16>(), 0xD7F0u16..0xE010, 0u16..0x80], 0..20)) {
            prop_assume!(units.first() != Some(&u16::from(b'-')));
            let name = NameBuf::from_units(&units).unwrap();
            prop_assert_eq!(name.as_name().units().collect::<Vec<_>>(), units.clone());
            prop_assert_eq!(name.as_name().unit_count(), units.len());
            prop_assert_eq!(Name::from_wtf8(name.as_name().as_wtf8()).unwrap(), name.as_name());
            let lossless = char::decode_utf16(units.iter().copied()).all(|c| c.is_ok());
            prop_assert_eq!(name.as_name().as_str().is_some(), lossless);
        }
    }

    #[test]
    fn long_names_go_to_the_heap_and_compare_alike() {
        for length in [0, 21, 22, 23, 500] {
            let text = "a".repeat(length);
            let name = NameBuf::new(&text).unwrap();
            assert_eq!(name.as_name().as_str(), Some(text.as_str()));
            assert!(name < NameBuf::new(&(text + "a")).unwrap());
        }
        assert_eq!(size_of::<NameBuf>(), 24);
    }

    #[test]
    fn a_surrogate_pair_in_six_bytes_is_refused() {
        assert_eq!(Name::from_wtf8(b"a\xED\xA0\xBD\xED\xB8\x80"), Err(InvalidName::NotWtf8(4)));
        assert!(Name::from_wtf8(b"\xED\xB8\x80\xED\xA0\xBD").is_ok());
        assert_eq!(Name::from_wtf8(b"ab\xFF"), Err(InvalidName::NotWtf8(2)));
    }

    #[test]
    fn only_a_leading_hyphen_minus_is_reserved() {
        assert_eq!(Name::new("-a"), Err(InvalidName::Reserved));
        assert_eq!(Name::new("-"), Err(InvalidName::Reserved));
        assert!(Name::new("a-").is_ok());
        assert!(Name::new("\u{2010}").is_ok());
        assert!(Name::new("").is_ok());
    }

    #[test]
    fn lone_surrogates_and_control_characters_are_escaped_for_people() {
        let name = NameBuf::from_units(&[0xD800, 0x61, 0]).unwrap();
        assert_eq!(name.as_name().display(), "\\ud800a\\u{0}");
        assert_eq!(Name::new("plain").unwrap().display(), "plain");
    }
}
