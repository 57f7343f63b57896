//! Writing JSON objects of known keys, with names that no string of Rust can hold.

use std::time::SystemTime;

use lockhouse_core::Name;
use serde::Serialize;

/// An object under construction at the end of a text.
pub(super) struct ObjectWriter<'o> {
    out: &'o mut String,
    empty: bool,
}

impl<'o> ObjectWriter<'o> {
    pub(super) fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, empty: true }
    }

    /// A frame: the type, then the number, then the acknowledgement.
    pub(super) fn frame(out: &'o mut String, kind: &str, seq: Option<u64>, ack: u64) -> Self {
        out.push_str("{\"type\":\"");
        out.push_str(kind);
        out.push('"');
        let mut object = Self { out, empty: false };
        object.number_if_any("seq", seq);
        object.number_if_any("ack", (ack != 0).then_some(ack));
        object
    }

    pub(super) fn end(self) {
        self.out.push('}');
    }

    /// Writes the key; the text pushed next is its value.
    pub(super) fn key(&mut self, key: &str) -> &mut String {
        self.out.push_str(if std::mem::take(&mut self.empty) { "\"" } else { ",\"" });
        self.out.push_str(key);
        self.out.push_str("\":");
        self.out
    }

    pub(super) fn number(&mut self, key: &str, value: u64) {
        let out = self.key(key);
        out.push_str(itoa::Buffer::new().format(value));
    }

    pub(super) fn number_if_any(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(key, value);
        }
    }

    pub(super) fn flag(&mut self, key: &str, value: bool) {
        self.key(key).push_str(if value { "true" } else { "false" });
    }

    pub(super) fn flag_if_set(&mut self, key: &str, value: bool) {
        if value {
            self.flag(key, value);
        }
    }

    /// A word of the protocol, which needs no escapes.
    pub(super) fn word(&mut self, key: &str, value: &'static str) {
        let out = self.key(key);
        out.push('"');
        out.push_str(value);
        out.push('"');
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        string(self.key(key), value);
    }

    pub(super) fn text_if_any(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    pub(super) fn name(&mut self, key: &str, value: Name<'_>) {
        resource_name(self.key(key), value);
    }

    pub(super) fn instant(&mut self, key: &str, value: SystemTime) {
        use std::fmt::Write;
        let out = self.key(key);
        // Writing into a String cannot fail, and no instant of a clock lies beyond the year 9999.
        _ = write!(out, "\"{}\"", humantime::format_rfc3339_millis(value));
    }

    /// Writes the fields of a struct, at least one, as the last members.
    pub(super) fn end_with(mut self, fields: &impl Serialize) {
        // Derived code fails for no numbers, flags and texts, only for maps with other keys than texts.
        let object = serde_json::to_string(fields).expect("no map");
        if !std::mem::take(&mut self.empty) {
            self.out.push(',');
        }
        self.out.push_str(&object[1..]);
    }

    pub(super) fn null(&mut self, key: &str) {
        self.key(key).push_str("null");
    }
}

/// The resource name as a JSON string, as on the wire: lone surrogates and control characters are escaped.
pub fn name_to_json(name: Name<'_>) -> String {
    let mut out = String::with_capacity(name.as_wtf8().len() + 2);
    resource_name(&mut out, name);
    out
}

fn resource_name(out: &mut String, name: Name<'_>) {
    match name.as_str() {
        Some(text) => string(out, text),
        None => units(out, name),
    }
}

/// The string as `JSON.stringify` writes it.
fn string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&rest[..at]);
        escape(out, rest.as_bytes()[at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// A name with lone surrogates.
fn units(out: &mut String, name: Name<'_>) {
    out.push('"');
    for decoded in char::decode_utf16(name.units()) {
        match decoded {
            Ok(c @ ('\0'..='\x1F' | '"' | '\\')) => escape(out, c as u8),
            Ok(c) => out.push(c),
            Err(lone) => unicode_escape(out, lone.unpaired_surrogate()),
        }
    }
    out.push('"');
}

fn escape(out: &mut String, byte: u8) {
    let short = match byte {
        0x08 => 'b',
        b'\t' => 't',
        b'\n' => 'n',
        0x0C => 'f',
        b'\r' => 'r',
        b'"' => '"',
        b'\\' => '\\',
        _ => return unicode_escape(out, u16::from(byte)),
    };
    out.push('\\');
    out.push(short);
}

fn unicode_escape(out: &mut String, unit: u16) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.push(char::from(DIGITS[usize::from(unit >> shift & 0xF)]));
    }
}
