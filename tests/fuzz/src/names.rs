//! Resource names in every form that they have outside: WTF-8, 16-bit units, JSON strings, and records
//! percent-encoded.

use lockhouse::{InvalidName, LockType, Name, NameBuf, RecordKind};
use lockhouse_wire::{name_from_json, name_to_json};
use percent_encoding::percent_decode_str;

use crate::{budget, json, promise};

/// However a name comes in, it is the same units everywhere, or it is refused for a reason that is true.
pub fn names(data: &[u8]) {
    let units: Vec<u16> = data.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    of_units(&units);
    of_wtf8(data);
    if let Ok(text) = std::str::from_utf8(data) {
        of_json(text);
        of_record(text);
    }
}

fn of_units(units: &[u16]) {
    match NameBuf::from_units(units) {
        Ok(name) => {
            let read: Vec<u16> = name.as_name().units().collect();
            assert_eq!(read, units, "units of {name:?}");
            all_forms(&name);
        }
        Err(error) => {
            assert_eq!(error, InvalidName::Reserved);
            assert_eq!(units.first(), Some(&u16::from(b'-')), "{units:x?}");
        }
    }
}

fn of_wtf8(bytes: &[u8]) {
    let name = budget::within(bytes.len(), 2, || Name::from_wtf8(bytes).map(Name::to_buf));
    match (name, generalized(bytes)) {
        (Ok(name), Ok(units)) => {
            assert_eq!(name.as_name().as_wtf8(), bytes);
            assert_eq!(name.as_name().units().collect::<Vec<_>>(), units);
            all_forms(&name);
        }
        (Err(InvalidName::Reserved), Ok(_)) => assert_eq!(bytes.first(), Some(&b'-')),
        (Err(InvalidName::NotWtf8(at)), Err(first)) => assert_eq!(at, first, "{bytes:x?}"),
        (parsed, is) => panic!("{bytes:x?} is {is:x?}, but taken for {parsed:?}"),
    }
}

fn of_json(text: &str) {
    let units = json::units(text);
    match (budget::within(text.len(), 8, || name_from_json(text)), units) {
        (Ok(name), Some(units)) => assert_eq!(name.as_name().units().collect::<Vec<_>>(), units, "{text}"),
        (Err(problem), units) => {
            let reserved = units.is_some_and(|units| units.first() == Some(&u16::from(b'-')));
            let rule = problem.rule.as_deref().unwrap_or_default();
            promise!(problem.field.as_deref() == Some("name"), "{text}: {problem:?} names no field");
            promise!(
                problem.value.as_deref().is_some_and(|value| value.chars().count() <= 64),
                "{problem:?}"
            );
            promise!(reserved == rule.contains("\"-\""), "{text}: {problem}");
            promise!(reserved || json::units(text).is_none(), "{text} is refused: {problem}");
        }
        (Ok(name), None) => panic!("{text} is no string, but taken for {name:?}"),
    }
}

/// The text as kind and id of a record, with a NUL between them.
fn of_record(text: &str) {
    let (kind, id) = text.split_once('\0').unwrap_or((text, ""));
    let record = RecordKind::new(kind, LockType::ReadWrite).record(id);
    let name = record.name().as_str().expect("all of it is escaped but ASCII");
    let decoded = |part| percent_decode_str(part).decode_utf8().expect("it was UTF-8 before");
    let (first, second) = name.split_once('/').expect("a slash stands between kind and id");
    assert_eq!((&*decoded(first), &*decoded(second)), (kind, id), "{name}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~%/".contains(c);
    promise!(name.chars().all(is_plain) && name.matches('/').count() == 1, "{name} is not escaped");
    promise!(name.len() <= 3 * (kind.len() + id.len()) + 1, "{name} is longer than it need be");
}

/// Checks the properties of every name, wherever it came from.
fn all_forms(buf: &NameBuf) {
    let name = buf.as_name();
    let units: Vec<u16> = name.units().collect();
    assert_eq!(name.unit_count(), units.len(), "{name:?}");
    assert_eq!(NameBuf::from_units(&units).as_ref(), Ok(buf));
    assert_eq!(Name::from_wtf8(name.as_wtf8()), Ok(name));
    assert_eq!(name.as_str().is_some(), String::from_utf16(&units).is_ok(), "{name:?}");
    let written = name_to_json(name);
    assert_eq!(json::units(&written).as_ref(), Some(&units), "{written}");
    assert_eq!(name_from_json(&written).as_ref(), Ok(buf), "{written}");
    promise!(written.len() <= 6 * units.len() + 2, "{written} is too long");
    promise!(!name.display().chars().any(char::is_control), "{:?} is not for people", name.display());
}

/// The units that the bytes stand for, or the place of the first that stands for none.
/// <https://wtf-8.codeberg.page/#decoding-wtf-8>
fn generalized(bytes: &[u8]) -> Result<Vec<u16>, usize> {
    let mut units: Vec<u16> = Vec::new();
    let mut at = 0;
    while let Some(first) = bytes.get(at) {
        let (length, least) = match first {
            0..=0x7F => (1, 0),
            0xC0..=0xDF => (2, 0x80),
            0xE0..=0xEF => (3, 0x800),
            0xF0..=0xF7 => (4, 0x1_0000),
            _ => return Err(at),
        };
        let rest = bytes.get(at + 1..at + length).ok_or(at)?;
        if rest.iter().any(|byte| byte & 0xC0 != 0x80) {
            return Err(at);
        }
        let lead = if length == 1 { u32::from(*first) } else { u32::from(*first) & (0x7F >> length) };
        let point = rest.iter().fold(lead, |point, byte| point << 6 | u32::from(byte & 0x3F));
        if point < least || point > 0x10_FFFF {
            return Err(at);
        }
        let follows_high = matches!(units.last(), Some(0xD800..=0xDBFF));
        match u16::try_from(point) {
            Ok(0xDC00..=0xDFFF) if follows_high => return Err(at),
            Ok(unit) => units.push(unit),
            Err(_) => units.extend([0xD7C0 + (point >> 10) as u16, 0xDC00 | (point & 0x3FF) as u16]),
        }
        at += length;
    }
    Ok(units)
}
